//! What checks remember from one snapshot to the next: when counters grew, and which ports were ever in use. All of it is
//! bounded.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::hits::Hits;
use super::lasting::{Lasting, Steady};
use super::trail::{Growth, Trail};

/// Names that are kept in each map that is stored.
const MAX: usize = 512;
/// Names that are kept in the others: a node has hundreds of counters, and each priority of a port is one.
const MAX_COUNTERS: usize = 8192;
/// Times that are kept of each counter, the latest; more than any check asks for.
const MAX_TIMES: usize = 32;
/// Spans that are kept of each counter.
const MAX_SPANS: usize = 32;
/// What happens again within this time goes on (milliseconds).
const GOES_ON_MS: u64 = 120 * 1000;
/// What was not read for longer was not watched.
const GAP: Duration = Duration::from_secs(120);
/// Older ones are forgotten (milliseconds). Longer than a day: what peers had is looked for also shortly before it.
const WINDOW_MS: u64 = 25 * 3600 * 1000;

/// What a port was when it was read last, also for while it cannot be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Role {
    /// Device and port, by their names.
    pub name: String,
    /// Address of its PCI function, or empty.
    pub pci: String,
    /// Its link layer.
    pub layer: String,
    /// Its driver.
    pub driver: String,
}

/// What checks remember. The times survive a restart of this program, not one of the node. The last value of a counter is
/// not stored: what it grew by while nobody looked has no time, and does not count.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// When something happened, in milliseconds since boot, by name, oldest first.
    times: BTreeMap<String, Vec<u64>>,
    /// From when to when it kept happening, by name, oldest first: of what goes on for hours, the few times that are kept
    /// are the latest.
    spans: BTreeMap<String, Vec<(u64, u64)>>,
    /// Ports that were in use once, with the best rate at which they were, in bytes per second.
    ports: BTreeMap<String, u64>,
    /// What those ports are, and those that share a PCI function with another device.
    roles: BTreeMap<String, Role>,
    /// RDMA adapters that were there in this boot, by PCI address.
    adapters: BTreeMap<String, Role>,
    /// Xids by the run of the job that they hit.
    pub(super) hits: Hits,
    #[serde(skip)]
    counters: BTreeMap<String, u64>,
    #[serde(skip)]
    trails: BTreeMap<String, Trail>,
    /// The last line about something.
    #[serde(skip)]
    lines: BTreeMap<String, String>,
    /// What something has been like, and since when.
    #[serde(skip)]
    states: BTreeMap<String, (String, Duration)>,
    /// Since when something is read, and when it was last.
    #[serde(skip)]
    watched: BTreeMap<String, (Duration, Duration)>,
    /// What had something to say once.
    #[serde(skip)]
    spoken: BTreeSet<String>,
    #[serde(skip)]
    levels: BTreeMap<&'static str, BTreeMap<String, bool>>,
    #[serde(skip)]
    lasting: BTreeMap<&'static str, Lasting>,
    #[serde(skip)]
    steady: BTreeMap<String, Steady>,
    /// It differs from what was stored last.
    #[serde(skip)]
    pub(super) dirty: bool,
    /// It holds counts that are not stored: they may be, with the next record.
    #[serde(skip)]
    pub(super) counted: bool,
}

/// Puts a value in, where there is room.
fn put<T>(map: &mut BTreeMap<String, T>, name: &str, value: T, max: usize) -> Option<T> {
    if let Some(slot) = map.get_mut(name) {
        return Some(std::mem::replace(slot, value));
    }
    if map.len() < max {
        map.insert(name.to_owned(), value);
    }
    None
}

/// Adds a time. Where there are too many spans, the two that are nearest to each other become one.
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

impl Memory {
    /// Takes a reading of a counter and gives what it has grown by since the last. One that went down began anew: what it
    /// counted since then may be older than the reading before, so it says nothing yet.
    pub fn growth(&mut self, name: &str, value: u64) -> u64 {
        match put(&mut self.counters, name, value, MAX_COUNTERS) {
            Some(before) => value.saturating_sub(before),
            None => 0,
        }
    }

    /// Takes a reading of a counter that was made at `at`, and gives what it grew by within the last `window`.
    pub fn trail(&mut self, name: &str, value: u64, at: Duration, window: Duration) -> Growth {
        if !self.trails.contains_key(name) {
            if self.trails.len() >= MAX_COUNTERS {
                return Growth::default();
            }
            self.trails.insert(name.to_owned(), Trail::default());
        }
        let trail = self.trails.get_mut(name);
        trail.map_or_else(Growth::default, |trail| trail.take(value, at, window, GAP))
    }

    /// What a counter grew by begins anew: what it counted until now was something else.
    pub fn forget_trail(&mut self, name: &str) {
        self.trails.remove(name);
    }

    /// Takes what a check sees up (`true`) or down, all of it, and gives what fell: what was up at its last look and is
    /// down now. What it does not mention could not be seen, and begins anew.
    pub fn fallen(&mut self, check: &'static str, now: BTreeMap<String, bool>) -> Vec<String> {
        let before = self.levels.insert(check, now).unwrap_or_default();
        let Some(now) = self.levels.get_mut(check) else {
            return Vec::new();
        };
        while now.len() > MAX {
            now.pop_last();
        }
        now.iter()
            .filter(|(name, up)| !**up && before.get(*name) == Some(&true))
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Takes all that a check sees now, each with when it was read, and gives since when each has been seen at every reading.
    pub fn lasting(&mut self, check: &'static str, now: BTreeMap<String, Duration>) -> &Lasting {
        let lasting = self.lasting.entry(check).or_default();
        lasting.take(now, GAP);
        lasting
    }

    /// Takes a reading, made at `at`, of what rises and falls, and gives for how long all of them differ by no more than
    /// `band`.
    pub fn steady(&mut self, name: &str, value: f64, at: Duration, band: f64) -> Steady {
        let before = self.steady.get(name).copied();
        let steady = Steady::after(before, value, at, band, GAP);
        put(&mut self.steady, name, steady, MAX_COUNTERS);
        steady
    }

    /// Takes what something is like and gives for how long it has been so. `None`: it is like nothing.
    pub fn unchanged(&mut self, name: &str, state: Option<&str>, now: Duration) -> Option<Duration> {
        let Some(state) = state else {
            self.states.remove(name);
            return None;
        };
        match self.states.get(name) {
            Some((before, since)) if before == state => Some(now.saturating_sub(*since)),
            _ => {
                put(&mut self.states, name, (state.to_owned(), now), MAX_COUNTERS);
                Some(Duration::ZERO)
            }
        }
    }

    /// Whether something ever had anything to say in this run; `now`: it has.
    pub fn has_spoken(&mut self, name: &str, now: bool) -> bool {
        if now && self.spoken.len() < MAX && !self.spoken.contains(name) {
            self.spoken.insert(name.to_owned());
        }
        now || self.spoken.contains(name)
    }

    /// Something is read now. Gives for how long it has been read without a gap.
    pub fn watched(&mut self, name: &str, now: Duration) -> Duration {
        let since = match self.watched.get(name) {
            Some((since, last)) if now.saturating_sub(*last) <= GAP => *since,
            _ => now,
        };
        put(&mut self.watched, name, (since, now), MAX_COUNTERS);
        now.saturating_sub(since)
    }

    /// Notes that something happened so often, at this time since boot.
    pub fn note(&mut self, name: &str, count: u64, now_ms: u64) {
        if count == 0 {
            return;
        }
        let lately = |at: &u64| now_ms.saturating_sub(*at) <= WINDOW_MS;
        if self.times.len() >= MAX && !self.times.contains_key(name) {
            self.times.retain(|_, times| times.last().is_some_and(lately));
            self.spans.retain(|name, _| self.times.contains_key(name));
            if self.times.len() >= MAX {
                return;
            }
        }
        let times = self.times.entry(name.to_owned()).or_default();
        let count = usize::try_from(count).unwrap_or(MAX_TIMES).min(MAX_TIMES);
        times.retain(lately);
        times.extend(std::iter::repeat_n(now_ms, count));
        times.drain(..times.len().saturating_sub(MAX_TIMES));
        let spans = self.spans.entry(name.to_owned()).or_default();
        spans.retain(|(_, end)| lately(end));
        extend(spans, now_ms);
        self.counted = true;
    }

    /// Keeps the last line about something.
    pub fn say(&mut self, name: &str, line: &str) {
        put(&mut self.lines, name, line.to_owned(), MAX);
    }

    /// The last line about something, of this run.
    pub fn said(&self, name: &str) -> Option<&str> {
        self.lines.get(name).map(String::as_str)
    }

    /// When it happened within the last `window_ms`, at most 25 hours; the few that are kept.
    pub fn times(&self, name: &str, window_ms: u64, now_ms: u64) -> Vec<u64> {
        let window = window_ms.min(WINDOW_MS);
        let times = self.times.get(name).map(Vec::as_slice).unwrap_or_default();
        times
            .iter()
            .copied()
            .filter(|at| now_ms.saturating_sub(*at) <= window)
            .collect()
    }

    /// When anything happened whose name begins with `key` and a space, by name, as [`Memory::times`] tells it.
    pub fn times_below(&self, key: &str, window_ms: u64, now_ms: u64) -> BTreeMap<&str, Vec<u64>> {
        let below = |name: &str| name.strip_prefix(key).is_some_and(|rest| rest.starts_with(' '));
        self.times
            .range(key.to_owned()..)
            .take_while(|(name, _)| name.starts_with(key))
            .filter(|(name, _)| below(name))
            .map(|(name, _)| (name.as_str(), self.times(name, window_ms, now_ms)))
            .filter(|(_, times)| !times.is_empty())
            .collect()
    }

    /// From when to when anything kept happening whose name begins with `key` and a space, as far as it ended within the
    /// last `window_ms`.
    pub fn spans_below(&self, key: &str, window_ms: u64, now_ms: u64) -> Vec<(u64, u64)> {
        let names = self.times_below(key, window_ms, now_ms);
        let mut all = Vec::new();
        for (name, times) in names {
            // A record of an earlier release has none.
            all.extend(times.into_iter().map(|at| (at, at)));
            let spans = self.spans.get(name).into_iter().flatten();
            all.extend(spans.filter(|(_, end)| now_ms.saturating_sub(*end) <= window_ms));
        }
        all
    }

    /// A port is in use.
    pub fn in_use(&mut self, port: &str, rate: u64) {
        let best = self.ports.get(port).copied();
        if best.is_none_or(|best| best < rate) && (best.is_some() || self.ports.len() < MAX) {
            put(&mut self.ports, port, rate, MAX);
            self.dirty = true;
        }
    }

    /// The best rate at which a port ever was in use. `None`: it never was, since the record was begun.
    pub fn best_rate(&self, port: &str) -> Option<u64> {
        self.ports.get(port).copied()
    }

    /// What a port is now.
    pub fn is(&mut self, port: &str, role: Role) {
        let before = self.roles.get(port);
        if before != Some(&role) && (before.is_some() || self.roles.len() < MAX) {
            put(&mut self.roles, port, role, MAX);
            self.dirty = true;
        }
    }

    /// What a port was when it was read last.
    pub fn role(&self, port: &str) -> Option<&Role> {
        self.roles.get(port)
    }

    /// The ports that were in use once: its name here, what each was when it was read last, and its best rate.
    pub fn once_in_use(&self) -> impl Iterator<Item = (&str, &Role, u64)> {
        let known = self.ports.iter();
        known.filter_map(|(port, rate)| Some((port.as_str(), self.roles.get(port)?, *rate)))
    }

    /// An RDMA adapter is there.
    pub fn is_there(&mut self, pci: &str, role: Role) {
        let before = self.adapters.get(pci);
        if before != Some(&role) && (before.is_some() || self.adapters.len() < MAX) {
            put(&mut self.adapters, pci, role, MAX);
            self.dirty = true;
        }
    }

    /// The RDMA adapters that were there in this boot, by PCI address.
    pub fn adapters(&self) -> &BTreeMap<String, Role> {
        &self.adapters
    }

    /// A person looked at what was counted for the condition `key`: only what comes after is news. Says whether there was
    /// anything.
    pub(super) fn forget(&mut self, key: &str) -> bool {
        let before = self.times.len();
        self.times
            .retain(|name, _| !name.strip_prefix(key).is_some_and(|rest| rest.starts_with(' ')));
        self.spans.retain(|name, _| self.times.contains_key(name));
        self.dirty |= self.times.len() != before;
        self.times.len() != before
    }

    /// Another boot: times since boot mean nothing any more.
    pub(super) fn rebooted(&mut self) {
        self.times.clear();
        self.spans.clear();
        self.adapters.clear();
        self.hits.rebooted();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600 * 1000;

    #[test]
    fn a_counter_grows_by_the_difference_and_begins_anew_when_it_goes_down() {
        let mut memory = Memory::default();
        let grown: Vec<u64> = [7, 7, 9, 0, 2, u64::MAX, 0]
            .into_iter()
            .map(|v| memory.growth("c", v))
            .collect();
        assert_eq!(grown, [0, 0, 2, 0, 2, u64::MAX - 2, 0]);
        assert_eq!(memory.growth("other", 1000), 0, "the first reading is no growth");
    }

    #[test]
    fn a_state_lasts_until_it_is_another_or_none() {
        let mut memory = Memory::default();
        let states = [
            Some("a"),
            Some("a"),
            Some("b"),
            Some("b"),
            None,
            Some("b"),
            Some("b"),
        ];
        let lasted: Vec<_> = (0..)
            .zip(states)
            .map(|(at, state)| memory.unchanged("k", state, Duration::from_secs(at)))
            .map(|lasted| lasted.map(|l| l.as_secs()))
            .collect();
        assert_eq!(
            lasted,
            [Some(0), Some(1), Some(0), Some(1), None, Some(0), Some(1)]
        );
    }

    #[test]
    fn a_fall_is_seen_between_two_readings_that_follow_each_other() {
        let mut memory = Memory::default();
        let readings = [
            Some(false),
            Some(true),
            Some(false),
            Some(false),
            Some(true),
            None,
            Some(false),
        ];
        let falls: Vec<bool> = readings
            .into_iter()
            .map(|up| {
                let now = up.map(|up| ("p".to_owned(), up)).into_iter().collect();
                memory.fallen("other", BTreeMap::new());
                memory.fallen("check", now) == ["p"]
            })
            .collect();
        assert_eq!(falls, [false, false, true, false, false, false, false]);
    }

    #[test]
    fn times_are_kept_for_a_day_and_over_a_restart() {
        let mut memory = Memory::default();
        memory.note("k c", 1, 0);
        memory.note("k c", 2, 10 * HOUR);
        memory.note("k c", 0, 11 * HOUR);
        let memory: Memory = serde_json::from_str(&serde_json::to_string(&memory).unwrap()).unwrap();
        assert_eq!(
            memory.times("k c", 24 * HOUR, 11 * HOUR),
            [0, 10 * HOUR, 10 * HOUR]
        );
        assert_eq!(memory.times("k c", 2 * HOUR, 11 * HOUR).len(), 2);
        assert_eq!(memory.times("k c", 100 * HOUR, 30 * HOUR).len(), 2);
        assert!(memory.times("k", HOUR, 0).is_empty());
    }

    #[test]
    fn of_a_burst_the_latest_are_kept_and_its_span_tells_of_the_rest() {
        let mut memory = Memory::default();
        memory.note("k c", 1, HOUR);
        for second in 0..100 {
            memory.note("k c", 1, 10 * HOUR + second * 1000);
        }
        let times = memory.times("k c", 24 * HOUR, 11 * HOUR);
        assert_eq!(times.len(), MAX_TIMES);
        assert_eq!(times.last(), Some(&(10 * HOUR + 99_000)));
        assert!(times.iter().all(|at| *at > 10 * HOUR + 60_000));
        let spans = memory.spans_below("k", 24 * HOUR, 11 * HOUR);
        assert!(spans.contains(&(HOUR, HOUR)) && spans.contains(&(10 * HOUR, 10 * HOUR + 99_000)));
    }

    /// What happened now and then for days must not hide what begins today.
    #[test]
    fn old_times_make_no_burst_smaller() {
        let mut memory = Memory::default();
        for hours in 0..20 {
            memory.note("k c", 1, 2 * hours * HOUR);
        }
        for minutes in 0..10 {
            memory.note("k c", 1, 41 * HOUR + minutes * 60_000);
        }
        assert_eq!(memory.times("k c", HOUR, 42 * HOUR).len(), 10);
        let spans = memory.spans_below("k", 100 * HOUR, 42 * HOUR);
        assert!(
            spans.iter().all(|(_, end)| *end >= 17 * HOUR),
            "a day and an hour: {spans:?}"
        );
    }

    #[test]
    fn what_goes_on_for_hours_is_one_span_whatever_times_are_kept_of_it() {
        let mut memory = Memory::default();
        for tick in 0..6 * 240 {
            memory.note("k c", 1, HOUR + tick * 15_000);
        }
        let memory: Memory = serde_json::from_str(&serde_json::to_string(&memory).unwrap()).unwrap();
        assert_eq!(memory.spans["k c"], [(HOUR, 7 * HOUR - 15_000)]);
        let mut memory = Memory::default();
        for n in 0..100 {
            memory.note("k c", 1, n * GOES_ON_MS * 2);
        }
        let spans = &memory.spans["k c"];
        assert_eq!(
            (spans.len(), spans[0].0),
            (MAX_SPANS, 0),
            "those that are near are one"
        );
        assert!(spans.is_sorted_by(|(_, end), (begin, _)| end < begin));
        assert!(memory.forget("k") && memory.spans.is_empty());
    }

    #[test]
    fn names_that_are_old_make_room_for_new_ones() {
        let mut memory = Memory::default();
        for n in 0..MAX {
            memory.note(&format!("k{n} c"), 1, 0);
        }
        memory.note("new c", 1, HOUR);
        assert!(memory.times("new c", HOUR, HOUR).is_empty(), "all are of today");
        memory.note("new c", 1, 30 * HOUR);
        assert_eq!(memory.times("new c", HOUR, 30 * HOUR), [30 * HOUR]);
    }

    #[test]
    fn what_is_counted_is_no_reason_to_store_at_once() {
        let mut memory = Memory::default();
        memory.note("k c", 1, 0);
        assert!(memory.counted && !memory.dirty);
    }

    #[test]
    fn a_person_or_a_reboot_ends_what_was_counted() {
        let mut memory = Memory::default();
        memory.note("k 1 c", 1, 0);
        memory.note("k 10 c", 1, 0);
        assert!(memory.forget("k 1") && !memory.forget("k 1"));
        assert_eq!(memory.times("k 10 c", HOUR, 0).len(), 1);
        memory.rebooted();
        assert!(memory.times("k 10 c", HOUR, 0).is_empty());
    }

    #[test]
    fn a_port_keeps_its_best_rate() {
        let mut memory = Memory::default();
        assert_eq!(memory.best_rate("p"), None);
        for (rate, best) in [(0, 0), (50, 50), (25, 50)] {
            memory.in_use("p", rate);
            assert_eq!(memory.best_rate("p"), Some(best));
        }
        memory.dirty = false;
        memory.in_use("p", 50);
        assert!(!memory.dirty, "nothing to store");
    }

    #[test]
    fn what_a_port_is_outlives_a_restart_and_is_stored_once() {
        let mut memory = Memory::default();
        let role = Role {
            name: "mlx5_0/1".to_owned(),
            ..Role::default()
        };
        memory.is("p", role.clone());
        assert_eq!(memory.once_in_use().count(), 0, "seen, but never in use");
        memory.in_use("p", 50);
        let mut memory: Memory = serde_json::from_str(&serde_json::to_string(&memory).unwrap()).unwrap();
        assert_eq!(memory.once_in_use().collect::<Vec<_>>(), [("p", &role, 50)]);
        memory.is("p", role);
        assert!(!memory.dirty, "nothing to store");
    }

    #[test]
    fn nothing_grows_without_bound() {
        let mut memory = Memory::default();
        for n in 0..10_000_u64 {
            let name = format!("k{n} c");
            memory.growth(&name, n);
            memory.trail(&name, n, Duration::ZERO, GAP);
            memory.is_there(&name, Role::default());
            memory.say(&name, "line");
            memory.has_spoken(&name, true);
            memory.note(&name, u64::MAX, n);
            memory.note("k0 c", 1, n);
            memory.in_use(&name, n);
            memory.is(&name, Role::default());
        }
        memory.fallen("check", (0..2000).map(|n| (n.to_string(), true)).collect());
        for n in 0..2 * MAX_COUNTERS {
            memory.steady(&n.to_string(), 0.0, Duration::ZERO, 1.0);
        }
        assert!(memory.steady.len() <= MAX_COUNTERS);
        assert!(memory.counters.len() <= MAX_COUNTERS && memory.trails.len() <= MAX_COUNTERS);
        assert!(memory.lines.len() <= MAX && memory.spoken.len() <= MAX);
        assert!(memory.adapters.len() <= MAX && memory.levels["check"].len() <= MAX);
        assert!(memory.times.len() <= MAX && memory.ports.len() <= MAX);
        assert!(memory.roles.len() <= MAX);
        assert!(memory.times.values().all(|t| t.len() <= MAX_TIMES));
    }
}
