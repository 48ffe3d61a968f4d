//! Check `rdma-lossless-loss`: a port drops packets of a priority that flow control is to keep from loss.

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
    condition: "A port dropped packets of a priority that has priority flow control, not together with most of its peers.",
    scope: Scope::Node,
    // What is lost is sent again; whether buffers, the switch's headroom or the host is to blame is not seen here.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    clears: "By itself: it dropped none for an hour.",
    runbook: "docs/runbooks/rdma-lossless-loss.md",
    watch: || Growth::start(&ROW),
};

/// Whether the priority is known to have flow control.
fn is_lossless(port: &Port<'_>, sample: &Sample<'_>) -> bool {
    let priority = sample.label("priority").unwrap_or_default();
    number(port.with(&PFC_ENABLED, "priority", priority)) == Some(1)
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
