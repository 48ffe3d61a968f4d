//! Check `rdma-port-degraded`: a link is up with fewer lanes or a lower rate than before or than similar ports.

use std::collections::BTreeMap;
use std::time::Duration;

use collectors::SubjectKind;
use collectors::rdma::metrics::{PORT_LANES, PORT_RATE};

use super::rdma_peers::{Opinion, Voices, Weighed, Whose, weigh};
use super::{Check, Kept, May, Scope, Version, Watch};
use crate::bounded::{Bounded, STORED};
use crate::condition::{Judged, Pace, Reading};
use crate::judge::{Judge, evidence};
use crate::reads::port::{Link, Port, number};

/// The row.
pub static CHECK: Check = Check {
    id: "rdma-port-degraded",
    subject: SubjectKind::RdmaPort,
    fires_when: "A port is up at a lower rate than its highest rate so far. A lower rate than at least 3 ports of the same board, driver and link layer, which all agree: shown, never drains.",
    lasting: "4 consecutive readings, at least 120 s",
    clears_when: "3 consecutive readings, at least 600 s, at the expected rate.",
    ignored_when: "The first 600 s after boot. Fewer lanes at the same rate. EFA and software devices. Most ports of a group at once: reported once for the node, never drain.",
    scope: Scope::Node,
    // It still carries traffic, and the fault may be at the switch's end.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Box::<State>::default(),
};

static BEFORE: Weighed = Weighed {
    check: &CHECK,
    of: "",
    aspect: "",
    pace: &Pace {
        bad: 4,
        bad_span: Duration::from_secs(120),
        good: 3,
        hold: Duration::from_secs(600),
    },
    acts: true,
    needs_peers: false,
    together: "lower rate",
    whose: Whose::Fabric,
};

static PEERS: Weighed = Weighed {
    of: "peers",
    // A port may be connected to a slower peer intentionally.
    acts: false,
    together: "rate below that of their equals",
    ..BEFORE
};

/// Rate and lanes of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Width {
    /// Bytes per second.
    rate: u64,
    lanes: Option<u64>,
}

impl Width {
    /// `None`: not all its links are up, or its values are invented (software devices, EFA).
    fn of(port: &Port<'_>) -> Option<Self> {
        let known = port.full_link() == Link::Up && port.rate > 0 && !port.is_made_up();
        known.then(|| Self {
            rate: port.rate,
            lanes: number(port.one(&PORT_LANES)),
        })
    }
}

/// The width that all others of the same board have, if at least 3 exist and all agree.
fn common<'m>(others: impl Iterator<Item = &'m Width>) -> Option<Width> {
    let others: Vec<&Width> = others.collect();
    let first = others.first()?;
    (others.len() >= 3 && others.iter().all(|w| w == first)).then_some(**first)
}

#[derive(Default)]
struct State {
    voices: Voices,
    /// The highest number of lanes of each port.
    lanes: Lanes,
}

type Lanes = Bounded<String, u64, STORED>;

impl Watch for State {
    fn look<'a>(&mut self, judge: &Judge<'a>) -> Vec<Judged<'a>> {
        conditions(judge, self)
    }

    fn kept(&mut self) -> Option<&mut dyn Kept> {
        Some(&mut self.lanes)
    }
}

fn conditions<'a>(judge: &Judge<'a>, State { voices, lanes }: &mut State) -> Vec<Judged<'a>> {
    let settled = judge.is_booted();
    type Board = (String, String, String, bool);
    let rdma = &judge.site.settings.rdma;
    let board = |port: &Port<'_>| -> Board {
        (
            port.board.to_owned(),
            port.driver.to_owned(),
            port.link_layer.to_owned(),
            rdma.is_storage(&port.name),
        )
    };
    let mut boards: BTreeMap<Board, BTreeMap<String, Width>> = BTreeMap::new();
    for port in judge.ports.iter().filter(|p| rdma.is_about(&p.name)) {
        if let Some(width) = Width::of(port).filter(|_| !port.board.is_empty()) {
            boards
                .entry(board(port))
                .or_default()
                .insert(port.id.clone(), width);
        }
    }
    let peers_of = |port: &Port<'_>| {
        let others = boards.get(&board(port))?.iter().filter(|(id, _)| **id != port.id);
        common(others.map(|(_, width)| width))
    };
    let mut judged = weigh(judge, voices, &BEFORE, |port, _| {
        let now = Width::of(port)?;
        let best = best(judge, lanes, port, now);
        Some(say(port, now, best, "link degraded", settled))
    });
    judged.extend(weigh(judge, voices, &PEERS, |port, _| {
        let (now, peers) = (Width::of(port)?, peers_of(port)?);
        let is_reported = is_below(now, best(judge, lanes, port, now)) && is_below(now, peers);
        (!is_reported).then(|| say(port, now, peers, "link below its equals", settled))
    }));
    judged
}

/// The highest rate and lanes of a port.
fn best(judge: &Judge<'_>, lanes: &mut Lanes, port: &Port<'_>, now: Width) -> Width {
    judge.changed(lanes.raise(port.id.clone(), now.lanes.unwrap_or_default()));
    Width {
        rate: judge.known.rates.get(&port.id).copied().unwrap_or(now.rate),
        lanes: lanes.get(&port.id).copied(),
    }
}

/// Fewer lanes at the same rate are no loss.
fn is_below(now: Width, expected: Width) -> bool {
    now.rate < expected.rate - expected.rate / 100
}

/// In Gb/s.
fn gigabits(rate: u64) -> u64 {
    rate / 125_000_000
}

fn say(port: &Port<'_>, now: Width, expected: Width, what: &str, settled: bool) -> Opinion {
    let reading = match is_below(now, expected) {
        _ if !settled => Reading::Unknown,
        true => Reading::Bad,
        false => Reading::Good,
    };
    let mut detail = format!("{what}:");
    let mut lines = Vec::new();
    if let (Some(lanes), Some(of)) = (now.lanes, expected.lanes)
        && lanes < of
    {
        detail.push_str(&format!(" x{lanes} of x{of}"));
        lines.extend(port.one(&PORT_LANES).map(|s| evidence(s, &of.to_string())));
    }
    detail.push_str(&format!(
        " {} of {} Gb/s",
        gigabits(now.rate),
        gigabits(expected.rate)
    ));
    lines.extend(
        port.one(&PORT_RATE)
            .map(|s| evidence(s, &expected.rate.to_string())),
    );
    Opinion {
        reading,
        at: port.at,
        detail,
        evidence: lines.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_a_measure_only_where_three_agree() {
        let width = |rate| Width { rate, lanes: Some(4) };
        let all = |rates: &[u64]| {
            let widths: Vec<Width> = rates.iter().map(|r| width(*r)).collect();
            common(widths.iter()).map(|w| w.rate)
        };
        assert_eq!(all(&[50, 50, 50]), Some(50));
        assert_eq!(all(&[50, 50]), None);
        assert_eq!(all(&[50, 50, 50, 25]), None, "two kinds of ports on one board");
    }
}
