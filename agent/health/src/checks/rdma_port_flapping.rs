//! Check `rdma-port-flapping`: a link goes down repeatedly, while its peers stay up.

use std::collections::BTreeMap;
use std::time::Duration;

use collectors::SubjectKind;
use collectors::ethernet::metrics::{LAG_MEMBER_UP, PHY_LINK_DOWN};

use super::growth::{HOUR_MS, TOGETHER_MS, is_with};
use super::{Check, May, Scope, Version, Watch};
use crate::condition::{Judged, Pace, Reading};
use crate::counts::{Counters, Levels, Times, Watched};
use crate::finding::{Finding, Joins, Remedy};
use crate::judge::{Judge, evidence};
use crate::reads::group::Group;
use crate::reads::port::{Link, Port, number};
use model::snapshot::Sample;

/// The row.
pub static CHECK: Check = Check {
    id: "rdma-port-flapping",
    subject: SubjectKind::RdmaPort,
    fires_when: "The link of a port went down 5 times in 24 h by its counters, or 3 times in 12 h by its state. In a group of fewer than 4 ports the finding never drains.",
    lasting: "3 consecutive readings, at least 30 s, at most 6 h after the last link loss",
    clears_when: "The link is up and did not go down for 6 h, confirmed by 3 consecutive readings, at least 60 s.",
    ignored_when: "Link losses of more than half of at least 3 peers within 120 s. The first 1,800 s after boot, and ports never in use.",
    scope: Scope::Node,
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Box::<State>::default(),
};

/// Links go up and down while switches and drivers start.
const BOOT_GRACE: Duration = Duration::from_secs(1800);
/// Counters count interruptions of any length, so the limit is higher.
const COUNTED: (usize, u64) = (5, 24 * HOUR_MS);
/// Interruptions long enough to be read.
const SEEN: (usize, u64) = (3, 12 * HOUR_MS);
/// Time without interruption that ends the finding.
const QUIET_MS: u64 = 6 * HOUR_MS;
/// The highest value of `link_downed`.
const SATURATED: u64 = 255;

/// The readings of the peers may come one tick later.
static PACE: Pace = Pace {
    bad: 3,
    bad_span: Duration::from_secs(30),
    good: 3,
    hold: Duration::from_secs(60),
};

/// Sources of interruptions.
const SOURCES: [&str; 3] = ["link_downed", CARRIER, "seen"];
/// A driver also takes the carrier down for new rings, channels or an MTU: where the interface counts what its link did, that counts.
const CARRIER: &str = "carrier_down";
const PHYSICAL: &str = "phy_link_down";
/// Before the interface in the source of an interruption of a member of a bond, by its state.
const MEMBER: &str = "member ";
/// The same by its counter.
const COUNTED_MEMBER: &str = "counted member ";

fn key(port: &Port<'_>) -> String {
    format!("{} {}", CHECK.id, port.id)
}

/// A port, and one of [`SOURCES`] or a member of its bond.
type Name = (String, String);

#[derive(Default)]
struct State {
    /// The times at which the link of each port went down, by source.
    falls: Times,
    counters: Counters<Name>,
    watched: Watched<Name>,
    levels: Levels<String>,
}

impl Watch for State {
    fn look<'a>(&mut self, judge: &Judge<'a>) -> Vec<Judged<'a>> {
        conditions(judge, self)
    }

    fn times(&mut self) -> Option<&mut Times> {
        Some(&mut self.falls)
    }
}

fn conditions<'a>(judge: &Judge<'a>, state: &mut State) -> Vec<Judged<'a>> {
    let now_ms = judge.now_ms();
    let settled = judge.since_boot() >= BOOT_GRACE;
    state.remember(judge, settled);
    let watched_ms = u64::try_from(judge.since_start.as_millis()).unwrap_or(u64::MAX);
    let mut judged = Vec::new();
    for group in judge.groups {
        for port in &group.ports {
            let falls = Falls::of(&state.falls, group, port, now_ms);
            let reading = if settled {
                falls.reading(port, now_ms, watched_ms)
            } else {
                Reading::Unknown
            };
            judged.push(Judged {
                key: key(port),
                subject: port.subject(),
                reading,
                at: port.at,
                pace: &PACE,
                finding: Box::new(move |_| finding(port, group, &falls)),
            });
        }
    }
    judged
}

impl State {
    /// Records interruptions, unless too soon after boot.
    fn remember(&mut self, judge: &Judge<'_>, settled: bool) {
        let mut fell: Vec<(Name, u64)> = Vec::new();
        let mut levels = BTreeMap::new();
        for port in judge.ports {
            let physical = physical(port);
            let own = [
                ("link_downed", port.link_downed.as_ref()),
                (CARRIER, port.carrier_down.as_ref()),
                (PHYSICAL, physical),
            ];
            let own = own
                .into_iter()
                .filter_map(|(source, sample)| Some((source.to_owned(), sample?)));
            for (source, sample) in own.chain(counted_members(port)) {
                if let Some(value) = number(Some(sample)) {
                    let name = (port.id.clone(), source);
                    let count = self.counters.growth(name.clone(), value);
                    // Growth before the first reading has no time.
                    let is_late = self.watched.read(name.clone(), judge.read_at(sample)).is_zero();
                    let counts = match name.1.as_str() {
                        CARRIER => physical.is_none().then_some(name),
                        PHYSICAL => Some((name.0, CARRIER.to_owned())),
                        _ => Some(name),
                    };
                    fell.extend(counts.filter(|_| !is_late).map(|name| (name, count)));
                }
            }
            match port.full_link() {
                Link::Up => drop(levels.insert(port.id.clone(), true)),
                Link::Down => drop(levels.insert(port.id.clone(), false)),
                Link::Disabled | Link::Unknown => {}
            }
        }
        let seen = self.levels.fallen(levels);
        if settled {
            for ((port, source), count) in fell {
                self.falls.note(judge, &port, &source, count);
            }
            for port in judge.ports.iter().filter(|port| seen.contains(&port.id)) {
                let member = port.lost_member().filter(|_| port.is_reduced());
                let source = match member.and_then(|s| s.label("netdev")) {
                    Some(netdev) => format!("{MEMBER}{netdev}"),
                    None => "seen".to_owned(),
                };
                self.falls.note(judge, &port.id, &source, 1);
            }
        }
    }
}

/// What the interface of a port counts of its link. Members of a bond count for themselves.
fn physical<'p, 'a>(port: &'p Port<'a>) -> Option<&'p Sample<'a>> {
    port.with(&PHY_LINK_DOWN, "netdev", port.netdev)
}

/// The counters of the members of a port's bond, by their source.
fn counted_members<'p, 'a>(port: &'p Port<'a>) -> impl Iterator<Item = (String, &'p Sample<'a>)> {
    port.all(&PHY_LINK_DOWN).filter_map(|sample| {
        let netdev = sample.label("netdev")?;
        port.with(&LAG_MEMBER_UP, "netdev", netdev)?;
        Some((format!("{COUNTED_MEMBER}{netdev}"), sample))
    })
}

/// Interruptions of a link by each of [`SOURCES`], without those shared by most peers.
struct Falls {
    own: [usize; 3],
    /// By state, of each member of its bond.
    of_members: Vec<(String, usize)>,
    /// The same by their counters.
    counted_members: Vec<(String, usize)>,
    /// Interruptions that most peers share.
    shared: usize,
    last_ms: Option<u64>,
}

impl Falls {
    fn of(times: &Times, group: &Group<'_>, port: &Port<'_>, now_ms: u64) -> Self {
        // A longer window for peers: a shared interruption stays shared until it is dropped.
        let (_, longest) = COUNTED;
        let peers: Vec<Vec<(u64, u64)>> =
            group.others(port, |id| times.spans(id, longest + TOGETHER_MS, now_ms));
        let is_shared = |at: u64| {
            let with = |p: &&Vec<(u64, u64)>| p.iter().any(|span| is_with(*span, at));
            peers.len() >= 3 && peers.iter().filter(with).count() * 2 > peers.len()
        };
        let mut falls = Self {
            own: [0; 3],
            of_members: Vec::new(),
            counted_members: Vec::new(),
            shared: 0,
            last_ms: None,
        };
        let mut own_of = |times: Vec<u64>| {
            let (shared, own): (Vec<u64>, Vec<u64>) = times.into_iter().partition(|at| is_shared(*at));
            falls.shared += shared.len();
            falls.last_ms = falls.last_ms.max(own.iter().max().copied());
            own.len()
        };
        let own = SOURCES.map(|source| {
            let (_, window) = if source == "seen" { SEEN } else { COUNTED };
            own_of(times.of(&port.id, source, window, now_ms))
        });
        let mut of_each = |prefix, (_, window): (usize, u64)| -> Vec<(String, usize)> {
            times
                .of_device(&port.id, window, now_ms)
                .into_iter()
                .filter_map(|(source, times)| Some((source.strip_prefix(prefix)?.to_owned(), own_of(times))))
                .filter(|(_, count)| *count > 0)
                .collect()
        };
        let of_members = of_each(MEMBER, SEEN);
        let counted_members = of_each(COUNTED_MEMBER, COUNTED);
        Self {
            own,
            of_members,
            counted_members,
            ..falls
        }
    }

    fn is_enough(&self) -> bool {
        let [link, carrier, seen] = self.own;
        let of_members: usize = self.of_members.iter().map(|(_, count)| count).sum();
        let counted = self.counted_members.iter().map(|(_, count)| *count);
        counted.fold(link.max(carrier), usize::max) >= COUNTED.0 || seen + of_members >= SEEN.0
    }

    fn reading(&self, port: &Port<'_>, now_ms: u64, watched_ms: u64) -> Reading {
        if port.full_link() == Link::Unknown {
            return Reading::Unknown;
        }
        let quiet_ms = self.last_ms.map_or(u64::MAX, |at| now_ms.saturating_sub(at));
        if quiet_ms < QUIET_MS {
            return if self.is_enough() {
                Reading::Bad
            } else {
                Reading::Unknown
            };
        }
        let [link, carrier, _] = self.own;
        let counts = number(port.link_downed.as_ref());
        // With a saturated or missing counter, the absence of interruptions is unproven.
        let blind = counts == Some(SATURATED)
            || (link > 0 && counts.is_none())
            || (carrier > 0 && port.carrier_down.is_none() && physical(port).is_none())
            || self
                .counted_members
                .iter()
                .any(|(netdev, _)| port.with(&PHY_LINK_DOWN, "netdev", netdev).is_none());
        if port.full_link() == Link::Up && watched_ms >= QUIET_MS && !blind {
            Reading::Good
        } else {
            Reading::Unknown
        }
    }
}

fn finding(port: &Port<'_>, group: &Group<'_>, falls: &Falls) -> Finding {
    let [link, carrier, seen] = falls.own;
    let counter = |sample: Option<&Sample<'_>>, count: usize| {
        let sample = sample.filter(|_| count > 0)?;
        let (most, _) = COUNTED;
        Some(evidence(
            sample,
            &format!("to grow by fewer than {most} in 24 h, grew by {count}"),
        ))
    };
    let by_state = |count: usize| {
        let (most, _) = SEEN;
        format!("to go down fewer than {most} times in 12 h, went down {count} times")
    };
    let of_state = port.state.as_ref().filter(|_| seen > 0);
    let of_members =
        falls.of_members.iter().map(
            |(netdev, count)| match port.with(&LAG_MEMBER_UP, "netdev", netdev) {
                Some(sample) => evidence(sample, &by_state(*count)),
                None => format!("{netdev} of its bond expected {}", by_state(*count)),
            },
        );
    let counted_members = falls
        .counted_members
        .iter()
        .filter_map(|(netdev, count)| counter(port.with(&PHY_LINK_DOWN, "netdev", netdev), *count));
    let lines: Vec<String> = [
        counter(port.link_downed.as_ref(), link),
        counter(physical(port).or(port.carrier_down.as_ref()), carrier),
        of_state.map(|sample| evidence(sample, &by_state(seen))),
    ]
    .into_iter()
    .flatten()
    .chain(counted_members)
    .chain(of_members)
    .chain([format!(
        "{}; {} more shared with most peers ignored",
        group.words(),
        falls.shared
    )])
    .collect();
    Finding {
        pci: port.pci.clone(),
        detail: format!("link goes down again and again{}", port.place()),
        remedy: Remedy::Inspect,
        // With few peers, a restarting switch looks the same.
        drains: true,
        comments_only: group.ports.len() <= 3,
        joins: Joins::Attaches,
        evidence: lines.join("; "),
        ..Finding::of_condition(CHECK.id, port.subject())
    }
}
