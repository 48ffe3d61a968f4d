//! The last value of each counter, kept until the next reading: a failed reading loses no counts.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::counters::{Counters, Key, NodeKey, Reading};

/// After a longer gap the owners of a GPU are unknown.
pub(super) const BLIND: Duration = Duration::from_secs(60);
/// Readings no further apart belong to one look: each collector has its own cadence.
const APART: Duration = Duration::from_secs(2);

type Values<K = Key> = BTreeMap<K, Reading>;

/// The last reading of each counter, no older than [`BLIND`].
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Meters {
    #[serde(with = "pairs")]
    energy: Values,
    #[serde(with = "pairs")]
    throttle: Values,
    #[serde(with = "pairs")]
    busy: Values,
    #[serde(with = "pairs")]
    node: Values<NodeKey>,
}

/// JSON maps have text keys only.
mod pairs {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Values;

    pub(super) fn serialize<K: Serialize, S: Serializer>(map: &Values<K>, to: S) -> Result<S::Ok, S::Error> {
        map.iter().collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, K: Deserialize<'de> + Ord, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Values<K>, D::Error> {
        Ok(Vec::deserialize(from)?.into_iter().collect())
    }
}

/// Increases on a GPU since its last reading.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Moved {
    pub(super) energy_joules: Option<f64>,
    pub(super) busy: Option<Busy>,
    pub(super) throttle_seconds: BTreeMap<String, f64>,
}

/// For how long a GPU was busy, of the time for which that is known, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Busy {
    pub(super) seconds: f64,
    pub(super) of_seconds: f64,
}

/// Increase of a counter of the node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OnNode<'a> {
    /// Its name in a line.
    pub(super) name: &'a str,
    pub(super) by: f64,
    /// Time of the reading before.
    pub(super) from: Duration,
}

impl Meters {
    /// Increases on a whole GPU with the same owners `since` then: earlier readings belong to other owners too. `module`: since when
    /// they have all of its module, whose energy one counter includes.
    pub(super) fn gpu(&self, now: &Counters, gpu: &str, since: Duration, module: Option<Duration>) -> Moved {
        let key = whole(gpu);
        let is_theirs = |at: Duration| at + APART >= since;
        let mut throttle_seconds = BTreeMap::new();
        for (reason, (seconds, from)) in now.throttle.range(key.clone()..).map_while(|(k, to)| {
            let is_it = k.0 == gpu && k.1.is_empty();
            is_it.then(|| (k.2.clone(), moved(&self.throttle, k, *to).unwrap_or_default()))
        }) {
            if seconds > 0.0 && is_theirs(from) {
                throttle_seconds.insert(reason, seconds);
            }
        }
        let energy = now.energy.get(&key);
        let energy = energy.and_then(|to| moved(&self.energy, &key, *to));
        let is_of_module = |from: Duration| module.is_some_and(|since| from + APART >= since);
        Moved {
            energy_joules: energy.filter(|(_, from)| is_of_module(*from)).map(|(by, _)| by),
            busy: self.busy(now, &key, since),
            throttle_seconds,
        }
    }

    /// Whether a GPU has a counter of energy, now or at its last reading.
    pub(super) fn counts_energy(&self, now: &Counters, gpu: &str) -> bool {
        let key = whole(gpu);
        now.energy.contains_key(&key) || self.energy.contains_key(&key)
    }

    /// A utilization is valid until the next reading; a lost GPU has none.
    fn busy(&self, now: &Counters, key: &Key, since: Duration) -> Option<Busy> {
        let (_, at) = now.busy.get(key)?;
        let (load, read) = self.busy.get(key)?;
        let from = (*read).max(since);
        let is_theirs = *read + APART >= since && at.saturating_sub(*read) <= BLIND;
        let of_seconds = at.saturating_sub(from).as_secs_f64();
        is_theirs.then_some(Busy {
            seconds: load * of_seconds,
            of_seconds,
        })
    }

    /// Increases of the node's counters.
    pub(super) fn node<'a>(&'a self, now: &'a Counters) -> impl Iterator<Item = OnNode<'a>> {
        now.node.iter().filter_map(|(key, to)| {
            let (by, from) = moved(&self.node, key, *to)?;
            let name = &*key.0;
            Some(OnNode { name, by, from })
        })
    }

    /// Takes the readings.
    pub(super) fn take(&mut self, now: &Counters, at: Duration) {
        keep(&mut self.energy, &now.energy, at);
        keep(&mut self.throttle, &now.throttle, at);
        keep(&mut self.busy, &now.busy, at);
        keep(&mut self.node, &now.node, at);
    }
}

/// The key of a whole GPU.
fn whole(gpu: &str) -> Key {
    (gpu.to_owned(), String::new(), String::new())
}

fn keep<K: Ord + Clone>(kept: &mut Values<K>, new: &Values<K>, at: Duration) {
    for (key, value) in new {
        match kept.get_mut(key) {
            Some(known) => *known = *value,
            None => drop(kept.insert(key.clone(), *value)),
        }
    }
    kept.retain(|_, (_, read)| at.saturating_sub(*read) <= BLIND);
}

/// The increase, and since when. A counter that decreased was reset: its count until then is lost.
fn moved<K: Ord>(before: &Values<K>, key: &K, (to, at): Reading) -> Option<(f64, Duration)> {
    let (from, read) = *before.get(key)?;
    let by = to - from;
    (by >= 0.0 && at.saturating_sub(read) <= BLIND).then_some((by, read))
}

/// Whether a reading of the node at that time is no older than a job first seen `since` then.
pub(super) fn covers(from: Duration, since: Duration) -> bool {
    from + APART >= since
}
