//! Check `rdma-cnp-ignored`: a port ignores congestion notifications.

use std::time::Duration;

use collectors::SubjectKind;
use collectors::rdma::metrics::RP_CNP_IGNORED;

use super::growth::{Counted, Counter, Growth, HOUR_MS, Rule};
use super::{Check, May, Scope, Version};

/// The row.
pub static CHECK: Check = Check {
    id: "rdma-cnp-ignored",
    subject: SubjectKind::RdmaPort,
    fires_when: "The number of ignored congestion notifications (CNP) of a port increases in 3 readings within 1 h.",
    lasting: "3 consecutive readings, at least 135 s",
    clears_when: "No further increase for 1 h, confirmed by 3 consecutive readings, at least 60 s.",
    ignored_when: "Increases on more than half of at least 3 peers within 120 s: reported once for the node, never drain.",
    scope: Scope::Node,
    // The cause is configuration, and the effect is on other nodes.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
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
