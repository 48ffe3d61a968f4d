//! Error counters of RDMA ports: how often each grew, alone or together with most of its peers.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use collectors::{Metric, Subject};

use super::{Check, Watch};
use crate::condition::{Judged, Pace, Reading};
use crate::counts::{Counters, Times, Unchanged, Watched};
use crate::finding::{Finding, Joins, Rank, Remedy};
use crate::judge::{Judge, evidence};
use crate::reads::group::{ENOUGH, Fabric, Group};
use crate::reads::port::{Link, Port, number};
use crate::trail::Trails;
use model::snapshot::Sample;

/// An hour in milliseconds.
pub(super) const HOUR_MS: u64 = 3600 * 1000;
/// Growth on most peers within this time has one shared cause.
pub(super) const TOGETHER_MS: u64 = 120 * 1000;

/// Growth again within this time is one occasion: a job restarts and fails again.
const OCCASION_MS: u64 = 600 * 1000;

/// Peers with the same cause fail within 120 s, and their readings come one tick later.
static PACE: Pace = Pace {
    bad: 3,
    // Longer than [`TOGETHER_MS`].
    bad_span: Duration::from_secs(135),
    good: 3,
    hold: Duration::from_secs(60),
};

/// The growth that counts as one event.
pub(super) enum Least {
    /// Any growth between two readings.
    Any,
    /// At least this growth within this time.
    Within(u64, Duration),
}

/// An error counter.
pub(super) struct Counter {
    pub metric: &'static Metric,
    /// The file that shows saturation, for narrow counters; else empty.
    pub file: &'static str,
    pub least: Least,
    /// Whether this series counts.
    pub counts: fn(&Port<'_>, &Sample<'_>) -> bool,
}

impl Counter {
    /// A counter whose every growth counts.
    pub(super) const fn any(metric: &'static Metric, file: &'static str) -> Self {
        Self {
            metric,
            file,
            least: Least::Any,
            counts: |_, _| true,
        }
    }
}

/// A limit, and its finding. Several rules of a check use the same counters.
pub(super) struct Rule {
    /// Distinguishes it from other rules of the check; empty for the first.
    pub of: &'static str,
    /// The number of readings with growth within `window_ms` that is a finding.
    pub enough: usize,
    /// Whether it counts occasions without any peer instead of readings.
    pub occasions: bool,
    pub window_ms: u64,
    /// Time without growth that ends the finding.
    pub quiet_ms: u64,
    pub detail: &'static str,
    /// Whether it may comment or drain, as the site configured.
    pub acts: bool,
}

/// A check of error counters.
pub(super) struct Counted {
    pub check: &'static Check,
    pub counters: &'static [Counter],
    pub rules: &'static [Rule],
    /// Growth in this time after boot does not count.
    pub grace: Duration,
    /// Growth counts only after the link was up for this time, without an interruption by its counters.
    pub up_for: Duration,
    /// Whether it drains only with enough peers to attribute the fault.
    pub needs_peers: bool,
    /// The detail of the finding about most ports together.
    pub together: &'static str,
}

/// Port and counter.
type Name = (String, String);

/// A running check of error counters.
pub(super) struct Growth {
    row: &'static Counted,
    /// The times at which counters of each port grew.
    times: Times,
    /// Interruption counters of links that are up, and since when.
    links: Unchanged<String, [Option<u64>; 2]>,
    counters: Counters<Name>,
    trails: Trails<Name>,
    watched: Watched<Name>,
}

impl Growth {
    /// Starts with no counts.
    pub(super) fn start(row: &'static Counted) -> Box<dyn Watch> {
        Box::new(Self {
            row,
            times: Times::default(),
            links: Unchanged::default(),
            counters: Counters::default(),
            trails: Trails::default(),
            watched: Watched::default(),
        })
    }
}

impl Watch for Growth {
    /// Judges every port that was ever in use.
    fn look<'a>(&mut self, judge: &Judge<'a>) -> Vec<Judged<'a>> {
        let row = self.row;
        let settled = judge.since_boot() >= row.grace;
        let mut seen: BTreeMap<&str, Seen<'a>> = judge
            .ports
            .iter()
            .map(|port| (port.id.as_str(), self.remember(judge, port, settled)))
            .collect();
        let now_ms = judge.now_ms();
        let mut judged = Vec::new();
        let mut fabrics: BTreeMap<&Fabric, Vec<Rc<Grown<'a>>>> = BTreeMap::new();
        for group in judge.groups {
            for port in &group.ports {
                let Some(seen) = seen.remove(port.id.as_str()) else {
                    continue;
                };
                let times = Rc::new(Grown::of(&self.times, row, group, port, seen, now_ms));
                for rule in row.rules {
                    let reading = times.reading(times.of_rule(rule), rule, now_ms);
                    let of = Rc::clone(&times);
                    judged.push(Judged {
                        key: format!("{} {}", key(row, port), rule.of).trim_end().to_owned(),
                        subject: port.subject(),
                        reading,
                        at: times.seen.at.unwrap_or(port.at),
                        pace: &PACE,
                        finding: Box::new(move |_| finding(row, rule, group, &of, now_ms)),
                    });
                }
                fabrics.entry(&group.fabric).or_default().push(times);
            }
        }
        for (fabric, times) in fabrics {
            judged.extend(together(row, fabric, times, now_ms));
        }
        judged
    }

    fn times(&mut self) -> Option<&mut Times> {
        Some(&mut self.times)
    }
}

impl Growth {
    /// Records the counters of a port.
    fn remember<'a>(&mut self, judge: &Judge<'_>, port: &Port<'a>, settled: bool) -> Seen<'a> {
        let row = self.row;
        let settled = settled && (row.up_for.is_zero() || self.up_for(judge, port) >= row.up_for);
        let mut seen = Seen {
            watched: Duration::MAX,
            ..Seen::default()
        };
        for counter in row.counters {
            for sample in port.all(counter.metric).filter(|s| (counter.counts)(port, s)) {
                let Some(value) = number(Some(sample)) else {
                    continue;
                };
                // Each priority of a port is a separate counter.
                let more: String = sample.labels.iter().skip(2).map(|l| format!(" {l}")).collect();
                let what = format!("{}{more}", sample.metric.name);
                let name = (port.id.clone(), what.clone());
                let at = judge.read_at(sample);
                let watched = self.watched.read(name.clone(), at);
                let once = match counter.least {
                    Least::Any => {
                        // Growth before the first reading has no time.
                        let grown = self.counters.growth(name, value) > 0;
                        grown && !watched.is_zero()
                    }
                    Least::Within(least, window) => {
                        let once = self.trails.take(name.clone(), value, at, window).by >= least;
                        if once {
                            // The same growth does not count again.
                            self.trails.forget(&name);
                            self.trails.take(name, value, at, window);
                        }
                        once
                    }
                };
                self.times
                    .note(judge, &port.id, &what, u64::from(once && settled));
                let is_full = port.is_full(counter.file);
                let line = Line {
                    sample: *sample,
                    least: &counter.least,
                    is_full,
                };
                seen.counters.insert(what, line);
                seen.watched = seen.watched.min(watched);
                seen.at = seen.at.max(Some(at));
                seen.is_full |= is_full;
            }
        }
        seen
    }

    /// How long the link has been up without an interruption by its counters.
    fn up_for(&mut self, judge: &Judge<'_>, port: &Port<'_>) -> Duration {
        let interruptions = [&port.link_downed, &port.carrier_down].map(|s| number(s.as_ref()));
        let link = (port.link() == Link::Up).then_some(interruptions);
        let lasts = self.links.lasts(port.id.clone(), link, judge.since_boot());
        lasts.unwrap_or_default()
    }
}

fn key(row: &Counted, port: &Port<'_>) -> String {
    format!("{} {}", row.check.id, port.id)
}

/// The evidence of a counter. Its text is made if the counter grew: most never do.
#[derive(Clone, Copy)]
struct Line<'a> {
    sample: Sample<'a>,
    least: &'static Least,
    is_full: bool,
}

impl Line<'_> {
    fn text(&self) -> String {
        let words = match self.least {
            Least::Any => "not to grow".to_owned(),
            Least::Within(least, window) => {
                format!("to grow by fewer than {least} in {} s", window.as_secs())
            }
        };
        let full = if self.is_full { ", saturated" } else { "" };
        format!("{}{full}", evidence(&self.sample, &words))
    }
}

/// The counters of a port in one snapshot.
#[derive(Default)]
struct Seen<'a> {
    /// The evidence of each counter, by name.
    counters: BTreeMap<String, Line<'a>>,
    /// How long all of them were read without a gap.
    watched: Duration,
    /// The time of the last reading. `None`: no counter.
    at: Option<Duration>,
    /// One of them is saturated.
    is_full: bool,
}

/// Whether the span from `begin` to `end` includes `at`, within [`TOGETHER_MS`].
pub(super) fn is_with((begin, end): (u64, u64), at: u64) -> bool {
    (begin.saturating_sub(TOGETHER_MS)..=end.saturating_add(TOGETHER_MS)).contains(&at)
}

/// The number of times within the last `window` (milliseconds).
fn within(times: &[u64], window: u64, now_ms: u64) -> usize {
    let is_in = |at: &&u64| now_ms.saturating_sub(**at) <= window;
    times.iter().filter(is_in).count()
}

/// The times at which the counters of one port grew.
struct Grown<'a> {
    port: &'a Port<'a>,
    seen: Seen<'a>,
    own: Vec<u64>,
    /// Growth that most peers share.
    shared: Vec<u64>,
    /// Occasions without growth on any peer.
    alone: Vec<u64>,
    /// A counter is saturated, or one that grew is gone: the absence of growth is unproven.
    blind: bool,
    /// Each counter that grew, and the times.
    lines: Vec<(Line<'a>, Vec<u64>)>,
}

impl<'a> Grown<'a> {
    fn of(
        times: &Times,
        row: &Counted,
        group: &Group<'_>,
        port: &'a Port<'a>,
        seen: Seen<'a>,
        now_ms: u64,
    ) -> Self {
        let rules = row.rules.iter();
        let window = rules.map(|r| r.window_ms.max(r.quiet_ms)).max().unwrap_or(0);
        // A longer window for peers: shared growth stays shared until it is dropped.
        let peers: Vec<Vec<(u64, u64)>> =
            group.others(port, |id| times.spans(id, window + TOGETHER_MS, now_ms));
        let with = |at: u64| {
            let has = |p: &&Vec<(u64, u64)>| p.iter().any(|span| is_with(*span, at));
            peers.iter().filter(has).count()
        };
        let is_shared = |at: &u64| peers.len() + 1 >= ENOUGH && with(*at) * 2 > peers.len();
        let mut found = Self {
            port,
            blind: seen.is_full,
            seen,
            own: Vec::new(),
            shared: Vec::new(),
            alone: Vec::new(),
            lines: Vec::new(),
        };
        for (name, times) in times.of_device(&port.id, window, now_ms) {
            match found.seen.counters.get(name) {
                Some(line) => found.lines.push((*line, times.clone())),
                None => found.blind = true,
            }
            let (shared, own): (Vec<u64>, Vec<u64>) = times.into_iter().partition(is_shared);
            found.shared.extend(shared);
            found.own.extend(own);
        }
        // Several counters may count the same error.
        for times in [&mut found.own, &mut found.shared] {
            times.sort_unstable();
            times.dedup();
        }
        for at in found.own.iter().copied().filter(|at| with(*at) == 0) {
            match found.alone.last_mut() {
                Some(last) if at.saturating_sub(*last) <= OCCASION_MS => *last = at,
                _ => found.alone.push(at),
            }
        }
        found
    }

    /// The times that count for a rule.
    fn of_rule(&self, rule: &Rule) -> &[u64] {
        if rule.occasions { &self.alone } else { &self.own }
    }

    /// The evidence of each counter with growth within a rule's window.
    fn lines(&self, rule: &Rule, now_ms: u64) -> Vec<String> {
        let line = |(line, times): &(Line<'_>, Vec<u64>)| {
            let count = within(times, rule.window_ms, now_ms);
            (count > 0).then(|| format!("{}, grew in {count} readings", line.text()))
        };
        self.lines.iter().filter_map(line).collect()
    }

    /// The reading of such times by a rule.
    fn reading(&self, times: &[u64], rule: &Rule, now_ms: u64) -> Reading {
        let within = |window: u64| within(times, window, now_ms);
        if within(rule.window_ms) >= rule.enough && within(rule.quiet_ms) > 0 {
            return Reading::Bad;
        }
        let watched = self.seen.watched >= Duration::from_millis(rule.quiet_ms);
        if self.seen.at.is_some() && watched && within(rule.quiet_ms) == 0 && !self.blind {
            Reading::Good
        } else {
            Reading::Unknown
        }
    }
}

fn finding(row: &Counted, rule: &Rule, group: &Group<'_>, times: &Grown<'_>, now_ms: u64) -> Finding {
    let port = times.port;
    let has_peers = group.ports.len() >= ENOUGH;
    let own = times.of_rule(rule);
    let latest = own.last().map_or(0, |at| now_ms.saturating_sub(*at) / 1000);
    let mut lines = times.lines(rule, now_ms);
    lines.push(format!(
        "{}: {} times within {} h, last {latest} s ago, {} more shared with most peers ignored; {}",
        port.whereabouts(),
        within(own, rule.window_ms, now_ms),
        rule.window_ms / HOUR_MS,
        within(&times.shared, rule.window_ms, now_ms),
        group.words(),
    ));
    Finding {
        pci: port.pci.clone(),
        detail: format!("{}{}", rule.detail, port.place()),
        rank: Rank::Of(rule.of),
        remedy: Remedy::Inspect,
        drains: rule.acts && (has_peers || !row.needs_peers),
        joins: Joins::Attaches,
        evidence: lines.join("; "),
        ..Finding::of_condition(row.check.id, port.subject())
    }
}

/// The groups of one fabric together.
fn together<'a>(
    row: &'static Counted,
    fabric: &'a Fabric,
    times: Vec<Rc<Grown<'a>>>,
    now_ms: u64,
) -> Option<Judged<'a>> {
    let rule = row.rules.first()?;
    let at = times.iter().filter_map(|t| t.seen.at).max()?;
    // Skip ports without such a counter, unless one grew and is gone.
    let seen = times.iter().filter(|t| t.seen.at.is_some() || t.blind);
    let readings = seen.map(|t| t.reading(&t.shared, rule, now_ms));
    let reading = readings.fold(Reading::Good, |all, one| match (all, one) {
        (Reading::Bad, _) | (_, Reading::Bad) => Reading::Bad,
        (Reading::Unknown, _) | (_, Reading::Unknown) => Reading::Unknown,
        (Reading::Good, Reading::Good) => Reading::Good,
    });
    Some(Judged {
        key: format!("{} together {}", row.check.id, fabric.key()),
        subject: Subject::node(),
        reading,
        at,
        pace: &PACE,
        finding: Box::new(move |_| finding_of_most(row, rule, fabric, &times, now_ms)),
    })
}

fn finding_of_most(
    row: &Counted,
    rule: &Rule,
    fabric: &Fabric,
    times: &[Rc<Grown<'_>>],
    now_ms: u64,
) -> Finding {
    let with = times.iter().filter(|t| !t.shared.is_empty());
    let names: Vec<&str> = with.clone().map(|t| t.port.name.as_str()).collect();
    let line = with
        .clone()
        .find_map(|t| t.lines(rule, now_ms).into_iter().next());
    Finding {
        detail: format!("{} of most {fabric} together", row.together),
        rank: Rank::Shared(rule.of),
        remedy: Remedy::Inspect,
        drains: false,
        joins: Joins::Opens,
        evidence: format!(
            "{}; {} of {} {fabric} within two minutes: shared (switch, fabric, the other end), so it never drains: {}",
            line.unwrap_or_default(),
            names.len(),
            times.len(),
            names.join(" ")
        ),
        ..Finding::of_condition(row.check.id, Subject::node())
    }
}
