//! Check `rdma-lossless-loss`: a port drops packets of a priority that flow control protects.

use std::time::Duration;

use collectors::SubjectKind;
use collectors::ethernet::metrics::{PFC_ENABLED, PRIORITY_DISCARDS};

use super::growth::{Counted, Counter, Growth, HOUR_MS, Least, Rule};
use super::{Check, May, Scope, Version};
use crate::reads::port::{Port, number};
use model::snapshot::Sample;

/// The row.
pub static CHECK: Check = Check {
    id: "rdma-lossless-loss",
    subject: SubjectKind::RdmaPort,
    fires_when: "A port drops packets of a priority with priority flow control (PFC).",
    lasting: "3 consecutive readings, at least 135 s",
    clears_when: "No further loss for 1 h, confirmed by 3 consecutive readings, at least 60 s.",
    ignored_when: "Losses on more than half of at least 3 peers within 120 s: reported once for the node, never drain.",
    scope: Scope::Node,
    // Lost packets are retransmitted. The cause may be buffers, the switch's headroom or the host.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Growth::start(&ROW),
};

/// Whether the priority has flow control; `false` if unknown.
fn is_lossless(port: &Port<'_>, sample: &Sample<'_>) -> bool {
    // Members of a bond may differ.
    let is_same = |of: &&Sample<'_>| {
        ["priority", "netdev"]
            .iter()
            .all(|l| of.label(l) == sample.label(l))
    };
    number(port.all(&PFC_ENABLED).find(is_same)) == Some(1)
}

static ROW: Counted = Counted {
    check: &CHECK,
    counters: &[Counter {
        metric: &PRIORITY_DISCARDS,
        file: "",
        least: Least::Any,
        counts: is_lossless,
    }],
    rules: &[Rule {
        of: "",
        enough: 1,
        occasions: false,
        window_ms: HOUR_MS,
        quiet_ms: HOUR_MS,
        detail: "loss on a lossless priority",
        acts: true,
    }],
    grace: Duration::ZERO,
    up_for: Duration::ZERO,
    needs_peers: false,
    together: "loss on a lossless priority",
};
