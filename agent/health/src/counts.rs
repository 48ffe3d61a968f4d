//! State of checks between readings: counters, states and times. All of it is bounded.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::bounded::{Bounded, COUNTERS, STORED};
use super::judge::Judge;
use super::lasting::GAP;

/// The most times of each counter, the latest; more than any check needs.
const MAX_TIMES: usize = 32;
/// The most spans of each counter.
const MAX_SPANS: usize = 32;
/// Events within this time extend a span (milliseconds).
const GOES_ON_MS: u64 = 120 * 1000;
/// Older times are dropped (milliseconds). Longer than a day: checks also read the times of peers shortly before it.
const WINDOW_MS: u64 = 25 * 3600 * 1000;

/// The last value of each counter. It is not stored: growth before the first reading has no time.
#[derive(Debug, Default)]
pub struct Counters<K>(Bounded<K, u64, COUNTERS>);

impl<K: Ord> Counters<K> {
    /// Takes a reading of a counter and returns its growth since the last. After a counter reset the growth is 0,
    /// because its time is unknown.
    pub fn growth(&mut self, counter: K, value: u64) -> u64 {
        let before = self.0.put(counter, value);
        before.map_or(0, |before| value.saturating_sub(before))
    }
}

/// The start of gapless readings of each name, and the last reading.
#[derive(Debug, Default)]
pub struct Watched<K>(Bounded<K, (Duration, Duration), COUNTERS>);

impl<K: Ord> Watched<K> {
    /// Records a reading. Returns how long it has been read without a gap.
    pub fn read(&mut self, name: K, now: Duration) -> Duration {
        let since = match self.0.get(&name) {
            Some((since, last)) if now.saturating_sub(*last) <= GAP => *since,
            _ => now,
        };
        self.0.put(name, (since, now));
        now.saturating_sub(since)
    }
}

/// The state of each name, and since when it holds.
#[derive(Debug, Default)]
pub struct Unchanged<K, S>(Bounded<K, (S, Duration), COUNTERS>);

impl<K: Ord, S: PartialEq> Unchanged<K, S> {
    /// Takes the state and returns how long it has held. `None`: no state.
    pub fn lasts(&mut self, name: K, state: Option<S>, now: Duration) -> Option<Duration> {
        let Some(state) = state else {
            self.0.remove(&name);
            return None;
        };
        match self.0.get(&name) {
            Some((before, since)) if *before == state => Some(now.saturating_sub(*since)),
            _ => {
                self.0.put(name, (state, now));
                Some(Duration::ZERO)
            }
        }
    }
}

/// The names that were up (`true`) or down in the last reading.
#[derive(Debug, Default)]
pub struct Levels<K>(BTreeMap<K, bool>);

impl<K: Ord + Clone> Levels<K> {
    /// Takes all names that are up or down, and returns those that were up in the last reading and are down now. A
    /// missing name was unreadable and starts again.
    pub fn fallen(&mut self, now: BTreeMap<K, bool>) -> Vec<K> {
        let before = std::mem::replace(&mut self.0, now);
        while self.0.len() > STORED {
            self.0.pop_last();
        }
        let fell = self
            .0
            .iter()
            .filter(|(name, up)| !**up && before.get(*name) == Some(&true));
        fell.map(|(name, _)| name.clone()).collect()
    }
}

/// The times of one kind of event.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Happened {
    /// In milliseconds since boot, oldest first.
    times: Vec<u64>,
    /// Spans in which it kept occurring, oldest first: of a long series only the latest times are kept.
    spans: Vec<(u64, u64)>,
}

impl Happened {
    fn is_recent(&self, now_ms: u64) -> bool {
        self.times.last().is_some_and(|at| is_recent(*at, now_ms))
    }

    /// Of the spans before the kept times the ends: a later burst hides no earlier occasion.
    fn within(&self, window_ms: u64, now_ms: u64) -> Vec<u64> {
        let window = window_ms.min(WINDOW_MS);
        let first = self.times.first().copied().unwrap_or(0);
        let ends = self.spans.iter().map(|(_, end)| *end);
        let times = ends.filter(|end| *end < first).chain(self.times.iter().copied());
        times.filter(|at| now_ms.saturating_sub(*at) <= window).collect()
    }
}

const fn is_recent(at: u64, now_ms: u64) -> bool {
    now_ms.saturating_sub(at) <= WINDOW_MS
}

/// The times of events of devices, by device and kind. They survive a restart of the program, not a reboot.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Times(BTreeMap<String, BTreeMap<String, Happened>>);

impl Times {
    /// Records `count` events now.
    pub fn note(&mut self, judge: &Judge<'_>, device: &str, what: &str, count: u64) {
        if count > 0 {
            self.add(device, what, count, judge.now_ms());
            judge.counted();
        }
    }

    /// Records `count` events at this time since boot.
    pub fn add(&mut self, device: &str, what: &str, count: u64, now_ms: u64) {
        let is_known = self.0.get(device).is_some_and(|all| all.contains_key(what));
        if count == 0 || !(is_known || self.has_room(now_ms)) {
            return;
        }
        let all = self.0.entry(device.to_owned()).or_default();
        let Happened { times, spans } = all.entry(what.to_owned()).or_default();
        let count = usize::try_from(count).unwrap_or(MAX_TIMES).min(MAX_TIMES);
        times.retain(|at| is_recent(*at, now_ms));
        times.extend(std::iter::repeat_n(now_ms, count));
        times.drain(..times.len().saturating_sub(MAX_TIMES));
        spans.retain(|(_, end)| is_recent(*end, now_ms));
        extend(spans, now_ms);
    }

    fn len(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    fn has_room(&mut self, now_ms: u64) -> bool {
        if self.len() >= STORED {
            for all in self.0.values_mut() {
                all.retain(|_, happened| happened.is_recent(now_ms));
            }
            self.0.retain(|_, all| !all.is_empty());
        }
        self.len() < STORED
    }

    /// The kept times within the last `window_ms`, at most 25 hours, and one for each earlier span.
    pub fn of(&self, device: &str, what: &str, window_ms: u64, now_ms: u64) -> Vec<u64> {
        let happened = self.0.get(device).and_then(|all| all.get(what));
        happened.map_or_else(Vec::new, |happened| happened.within(window_ms, now_ms))
    }

    /// The kept times of a device by kind, as in [`Times::of`].
    pub fn of_device(&self, device: &str, window_ms: u64, now_ms: u64) -> BTreeMap<&str, Vec<u64>> {
        let all = self.0.get(device).into_iter().flatten();
        all.map(|(what, happened)| (what.as_str(), happened.within(window_ms, now_ms)))
            .filter(|(_, times)| !times.is_empty())
            .collect()
    }

    /// The spans of events of a device that ended within the last `window_ms`.
    pub fn spans(&self, device: &str, window_ms: u64, now_ms: u64) -> Vec<(u64, u64)> {
        let window = window_ms.min(WINDOW_MS);
        let all = self.0.get(device).into_iter().flat_map(BTreeMap::values);
        all.flat_map(|happened| happened.spans.iter().copied())
            .filter(|(_, end)| now_ms.saturating_sub(*end) <= window)
            .collect()
    }

    /// Drops the times of a device after an operator's order. Returns whether there were any.
    pub fn forget(&mut self, device: &str) -> bool {
        self.0.remove(device).is_some()
    }

    /// Drops all times after a reboot: times since boot are void.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// Adds a time. Above [`MAX_SPANS`], the two nearest spans become one.
fn extend(spans: &mut Vec<(u64, u64)>, at: u64) {
    match spans.last_mut() {
        Some((_, last)) if at.saturating_sub(*last) <= GOES_ON_MS => *last = at.max(*last),
        _ => spans.push((at, at)),
    }
    if spans.len() > MAX_SPANS {
        let gaps = spans.iter().zip(spans.iter().skip(1));
        let gap = |((_, end), (begin, _)): (&(u64, u64), &(u64, u64))| begin.saturating_sub(*end);
        let nearest = gaps.map(gap).enumerate().min_by_key(|(_, gap)| *gap);
        let at = nearest.map_or(0, |(at, _)| at);
        let (_, end) = spans.remove(at + 1);
        if let Some((_, last)) = spans.get_mut(at) {
            *last = end;
        }
    }
}

#[cfg(test)]
mod tests;
