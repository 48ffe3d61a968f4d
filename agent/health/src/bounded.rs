//! Maps with a limited number of keys: a node may produce unlimited device names.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The most keys of a stored map.
pub const STORED: usize = 512;
/// The most GPUs: a program that writes to the kernel log could name any number.
pub const MAX_GPUS: usize = 128;
/// The most keys of other maps: a node has hundreds of counters, with each priority of a port separate.
pub const COUNTERS: usize = 8192;

/// A map with at most `MAX` keys.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(
    transparent,
    bound(deserialize = "K: Ord + Deserialize<'de>, V: Deserialize<'de>")
)]
pub struct Bounded<K, V, const MAX: usize>(BTreeMap<K, V>);

impl<K, V, const MAX: usize> Default for Bounded<K, V, MAX> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord, V, const MAX: usize> Bounded<K, V, MAX> {
    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.0.get(key)
    }

    /// Inserts a value if there is room. Returns the previous one.
    pub fn put(&mut self, key: K, value: V) -> Option<V> {
        if self.0.len() >= MAX && !self.0.contains_key(&key) {
            return None;
        }
        self.0.insert(key, value)
    }

    /// Inserts a value if it differs. Returns whether anything changed.
    pub fn set(&mut self, key: K, value: V) -> bool
    where
        V: PartialEq,
    {
        let is_new = self
            .0
            .get(&key)
            .map_or(self.0.len() < MAX, |before| *before != value);
        if is_new {
            self.0.insert(key, value);
        }
        is_new
    }

    /// Keeps the highest value. Returns whether this value is new.
    pub fn raise(&mut self, key: K, value: V) -> bool
    where
        V: PartialOrd,
    {
        let is_new = self
            .0
            .get(&key)
            .map_or(self.0.len() < MAX, |before| *before < value);
        if is_new {
            self.0.insert(key, value);
        }
        is_new
    }

    /// The value of a key, inserted if absent and if there is room.
    pub fn slot(&mut self, key: K) -> Option<&mut V>
    where
        V: Default,
    {
        self.slot_or(key, V::default)
    }

    /// As [`Self::slot`], with this value in place of an absent one.
    pub fn slot_or(&mut self, key: K, value: impl FnOnce() -> V) -> Option<&mut V> {
        let has_room = self.0.len() < MAX || self.0.contains_key(&key);
        has_room.then(|| self.0.entry(key).or_insert_with(value))
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.0.remove(key)
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Every key with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_grows_without_bound() {
        let mut map = Bounded::<u64, u64, 10>::default();
        for n in 0..100 {
            map.put(n, n);
            map.set(n, n);
            map.raise(n, n);
            map.slot(n);
        }
        assert_eq!(map.iter().count(), 10);
        assert_eq!(map.put(3, 7), Some(3), "an existing value can change");
    }

    #[test]
    fn the_highest_value_is_kept_and_equal_values_change_nothing() {
        let mut map = Bounded::<&str, u64, 10>::default();
        for (value, is_new, best) in [(0, true, 0), (50, true, 50), (25, false, 50), (50, false, 50)] {
            assert_eq!(map.raise("p", value), is_new);
            assert_eq!(map.get(&"p"), Some(&best));
        }
        assert!(map.set("q", 1) && !map.set("q", 1) && map.set("q", 0));
    }
}
