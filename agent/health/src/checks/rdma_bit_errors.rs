//! Check `rdma-bit-errors`: a link has more bit errors than its standard allows.

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

/// The row.
pub static CHECK: Check = Check {
    id: "rdma-bit-errors",
    subject: SubjectKind::RdmaPort,
    condition: "A link that has been up for half an hour counted 250 symbol errors (InfiniBand), or one error in 10^12 bits after correction and at least ten (Ethernet), within 125 minutes, while at least half of the ports like it did not. What is corrected does not count.",
    scope: Scope::Node,
    // The link has two ends, and the other is the switch's.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    clears: "By itself: the link is up and has been watched for 125 minutes with fewer, and stays so for half an hour.",
    runbook: "docs/runbooks/rdma-bit-errors.md",
    watch: || Looks::start(conditions),
};

/// It takes so long for a link to carry enough bits to tell one error in 10^12.
const WINDOW: Duration = Duration::from_secs(125 * 60);
/// Errors while a link trains are none; so many in less time than the window are too many already.
const SETTLED: Duration = Duration::from_secs(1800);
/// 120 an hour: what a 4X link may have at the bit error rate that the standard allows.
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

/// What each port counts: `symbols` that are wrong, and `bits` in all.
type Names = Trails<(String, &'static str)>;

#[derive(Default)]
struct State {
    voices: Voices,
    trails: Names,
}

fn name(port: &Port<'_>, of: &'static str) -> (String, &'static str) {
    (port.id.clone(), of)
}

fn conditions<'a>(judge: &Judge<'a>, State { voices, trails }: &mut State) -> Vec<Judged<'a>> {
    weigh(judge, voices, &ROW, |port, _| {
        if port.link() != Link::Up {
            // What a link counts while it trains says nothing about it.
            for of in ["symbols", "bits"] {
                trails.forget(&name(port, of));
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

/// InfiniBand counts symbols, in 16 bits.
fn symbols(judge: &Judge<'_>, trails: &mut Names, port: &Port<'_>) -> Option<Opinion> {
    let sample = port
        .one(&SYMBOL_ERROR)
        .filter(|_| port.link_layer == "InfiniBand")?;
    let at = judge.read_at(sample);
    let growth = trails.take(name(port, "symbols"), number(Some(sample))?, at, WINDOW);
    let reading = match reading(growth, SYMBOLS) {
        // Full, it shows no more errors, however many there are.
        Reading::Good if port.is_full("symbol_error") => Reading::Unknown,
        reading => reading,
    };
    let value = evidence(sample, "to grow slowly");
    Some(opinion(port, growth, SYMBOLS, reading, at, &value))
}

/// Ethernet counts what correction could not mend, and the bits in which it was.
fn bits(judge: &Judge<'_>, trails: &mut Names, port: &Port<'_>) -> Option<Opinion> {
    let sample = port.one(&PHY_SYMBOL_ERRORS)?;
    let counted = number(Some(sample))?;
    let carried = number(port.one(&PHY_RX_BITS))?;
    let at = judge.read_at(sample);
    let both = [(name(port, "symbols"), counted), (name(port, "bits"), carried)];
    let (errors, bits) = trails.take_both(both, at, WINDOW);
    // Fewer say nothing about a rate.
    let limit = (bits.by / 1_000_000_000_000).max(9) + 1;
    // Bits that stand still are no measure.
    let reading = if bits.by == 0 {
        Reading::Unknown
    } else {
        reading(errors, limit)
    };
    let value = evidence(sample, "one in 10^12 bits at most");
    Some(opinion(port, errors, limit, reading, at, &value))
}
