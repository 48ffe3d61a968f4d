//! Check `rdma-bit-errors`: a link has more bit errors than its standard permits.

use std::time::Duration;

use collectors::SubjectKind;
use collectors::ethernet::metrics::{PHY_RX_BITS, PHY_SYMBOL_ERRORS};
use collectors::rdma::metrics::SYMBOL_ERROR;

use super::rdma_peers::{Opinion, Voices, Weighed, Whose, weigh};
use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Pace, Reading};
use crate::judge::{Judge, evidence};
use crate::reads::port::{Link, Port, number};
use crate::trail::{Growth, Trails};
use model::snapshot::Sample;

/// The row.
pub static CHECK: Check = Check {
    id: "rdma-bit-errors",
    subject: SubjectKind::RdmaPort,
    fires_when: "Within 125 min a link counts at least 250 symbol errors (InfiniBand), or at least 10 and more than 1 in 10^12 bits (Ethernet).",
    lasting: "2 consecutive readings, at least 30 s, after the link was up for 1,800 s",
    clears_when: "3 consecutive readings, at least 1,800 s, with the link up and fewer errors in the last 125 min.",
    ignored_when: "Errors that FEC corrects, and errors of links that are not up. Errors on most ports of a group: reported once for the node, never drain.",
    scope: Scope::Node,
    // The fault may be at the switch's end.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Looks::start(conditions),
};

/// Time in which a link carries enough bits to measure 1 error in 10^12.
const WINDOW: Duration = Duration::from_secs(125 * 60);
/// Errors while a link trains do not count. After this time the limit may be exceeded before the window ends.
const SETTLED: Duration = Duration::from_secs(1800);
/// The permitted bit error rate gives 120 symbol errors per hour on a 4X link.
const SYMBOLS: u64 = 250;

static ROW: Weighed = Weighed {
    check: &CHECK,
    of: "",
    aspect: "",
    pace: &Pace {
        bad: 2,
        bad_span: Duration::from_secs(30),
        good: 3,
        hold: Duration::from_secs(1800),
    },
    acts: true,
    needs_peers: false,
    together: "bit errors",
    whose: Whose::Fabric,
};

/// Counters of each interface of a port: `symbols` with errors, and all `bits`. InfiniBand has no interface.
type Name = (String, &'static str, String);
type Names = Trails<Name>;

#[derive(Default)]
struct State {
    voices: Voices,
    trails: Names,
}

fn name(port: &Port<'_>, of: &'static str, netdev: &str) -> Name {
    (port.id.clone(), of, netdev.to_owned())
}

/// Drops errors of a link that trains.
fn forget(trails: &mut Names, port: &Port<'_>, netdev: &str) {
    for of in ["symbols", "bits"] {
        trails.forget(&name(port, of, netdev));
    }
}

fn netdev_of<'a>(sample: &Sample<'a>) -> &'a str {
    sample.label("netdev").unwrap_or_default()
}

fn conditions<'a>(judge: &Judge<'a>, State { voices, trails }: &mut State) -> Vec<Judged<'a>> {
    weigh(judge, voices, &ROW, |port, _| {
        if port.link() != Link::Up {
            let netdevs = port.all(&PHY_SYMBOL_ERRORS).map(netdev_of);
            for netdev in netdevs.chain([""]) {
                forget(trails, port, netdev);
            }
            return None;
        }
        symbols(judge, trails, port).or_else(|| bits(judge, trails, port))
    })
}

fn reading(growth: Growth, limit: u64) -> Reading {
    match () {
        () if growth.by >= limit && growth.over >= SETTLED => Reading::Bad,
        () if growth.by < limit && growth.covers(WINDOW) => Reading::Good,
        () => Reading::Unknown,
    }
}

fn opinion(
    port: &Port<'_>,
    growth: Growth,
    limit: u64,
    reading: Reading,
    at: Duration,
    value: &str,
) -> Opinion {
    let minutes = |time: Duration| time.as_secs() / 60;
    Opinion {
        reading,
        at,
        detail: "bit errors".to_owned(),
        evidence: format!(
            "{value}, grew by {} in {} min, expected fewer than {limit} in {} min, link layer {}",
            growth.by,
            minutes(growth.over),
            minutes(WINDOW),
            port.link_layer
        ),
    }
}

/// InfiniBand counts symbol errors in 16 bits.
fn symbols(judge: &Judge<'_>, trails: &mut Names, port: &Port<'_>) -> Option<Opinion> {
    let sample = port
        .one(&SYMBOL_ERROR)
        .filter(|_| port.link_layer == "InfiniBand")?;
    let at = judge.read_at(sample);
    let growth = trails.take(name(port, "symbols", ""), number(Some(sample))?, at, WINDOW);
    let reading = match reading(growth, SYMBOLS) {
        // A saturated counter shows no further errors.
        Reading::Good if port.is_full("symbol_error") => Reading::Unknown,
        reading => reading,
    };
    let value = evidence(sample, "to grow slowly");
    Some(opinion(port, growth, SYMBOLS, reading, at, &value))
}

/// Ethernet counts symbol errors after FEC, and received bits, or they follow from the rate. Members of a bond are links of their own: the port is
/// as bad as the worst, and good if all are. Errors of a member that is down do not count.
fn bits(judge: &Judge<'_>, trails: &mut Names, port: &Port<'_>) -> Option<Opinion> {
    let (lost, links): (Vec<_>, Vec<_>) = port
        .all(&PHY_SYMBOL_ERRORS)
        .partition(|sample| port.has_lost(netdev_of(sample)));
    for netdev in lost.into_iter().map(netdev_of) {
        forget(trails, port, netdev);
    }
    let opinions = links
        .into_iter()
        .filter_map(|sample| link_bits(judge, trails, port, sample));
    let mut worst = opinions.reduce(|one, other| match (one.reading, other.reading) {
        (Reading::Bad, _) => one,
        (_, Reading::Bad) => other,
        (Reading::Unknown, _) => one,
        _ => other,
    })?;
    // A link that is down is not shown to be good.
    if port.is_reduced() && worst.reading == Reading::Good {
        worst.reading = Reading::Unknown;
    }
    Some(worst)
}

fn link_bits(judge: &Judge<'_>, trails: &mut Names, port: &Port<'_>, sample: &Sample<'_>) -> Option<Opinion> {
    let netdev = netdev_of(sample);
    let (counter, count) = (name(port, "symbols", netdev), number(Some(sample))?);
    let at = judge.read_at(sample);
    let (errors, bits) = match port.with(&PHY_RX_BITS, "netdev", netdev) {
        Some(carried) => {
            let carried = (name(port, "bits", netdev), number(Some(carried))?);
            let (errors, bits) = trails.take_both([(counter, count), carried], at, WINDOW);
            (errors, bits.by)
        }
        // mlx5 does not count bits. A link carries them at its rate, with or without packets.
        None => {
            let errors = trails.take(counter, count, at, WINDOW);
            let rate = judge.known.rates.get(&port.id).copied().unwrap_or(port.rate);
            (
                errors,
                rate.saturating_mul(8).saturating_mul(errors.over.as_secs()),
            )
        }
    };
    // Fewer than 10 errors are no rate.
    let limit = (bits / 1_000_000_000_000).max(9) + 1;
    // Without bits the share is unknown.
    let reading = if bits == 0 {
        Reading::Unknown
    } else {
        reading(errors, limit)
    };
    let value = evidence(sample, "one in 10^12 bits at most");
    Some(opinion(port, errors, limit, reading, at, &value))
}
