//! Check `rdma-cnp-ignored`: a port is told of congestion and does not slow down.

use std::time::Duration;

use collectors::SubjectKind;
use collectors::rdma::metrics::RP_CNP_IGNORED;

use super::growth::{Counted, Counter, Growth, HOUR_MS, Rule};
use super::{Check, May, Scope, Version};

/// The row.
pub static CHECK: Check = Check {
    id: "rdma-cnp-ignored",
    subject: SubjectKind::RdmaPort,
    condition: "A port ignored congestion notifications in three readings or more within an hour.",
    scope: Scope::Node,
    // It is a setting, and slows others down more than this node.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    clears: "By itself: it ignored none for an hour.",
    runbook: "docs/runbooks/rdma-cnp-ignored.md",
    watch: || Growth::start(&ROW),
};

static ROW: Counted = Counted {
    check: &CHECK,
    counters: &[Counter::any(&RP_CNP_IGNORED, "")],
    rules: &[Rule {
        of: "",
        enough: 3,
        occasions: false,
        window_ms: HOUR_MS,
        quiet_ms: HOUR_MS,
        detail: "congestion notifications ignored",
        acts: true,
    }],
    grace: Duration::ZERO,
    up_for: Duration::ZERO,
    needs_peers: false,
    together: "congestion notifications ignored",
};
