//! Check `rdma-link-integrity`: a link corrupts what it carries, or recovers again and again.

use std::time::Duration;

use collectors::SubjectKind;
use collectors::rdma::metrics::{
    EXCESSIVE_BUFFER_OVERRUN_ERRORS, LINK_ERROR_RECOVERY, LOCAL_LINK_INTEGRITY_ERRORS, RX_ICRC_ENCAPSULATED,
};

use super::growth::{Counted, Counter, Growth, HOUR_MS, Least, Rule};
use super::{Check, May, Scope, Version};

/// The row.
pub static CHECK: Check = Check {
    id: "rdma-link-integrity",
    subject: SubjectKind::RdmaPort,
    condition: "A port counted an error of link integrity, a buffer overrun or a packet with a wrong invariant checksum, or its link recovered five times within a minute, while the link had been up for two minutes, not together with most of its peers, and not in the first half hour after boot.",
    scope: Scope::Node,
    // The link has two ends, and the other is the switch's.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    clears: "By itself: it did not happen for six hours.",
    runbook: "docs/runbooks/rdma-link-integrity.md",
    watch: || Growth::start(&ROW),
};

static ROW: Counted = Counted {
    check: &CHECK,
    counters: &[
        // Four bits each: the agent that keeps them has a threshold of its own before it counts one.
        Counter::any(&LOCAL_LINK_INTEGRITY_ERRORS, "local_link_integrity_errors"),
        Counter::any(
            &EXCESSIVE_BUFFER_OVERRUN_ERRORS,
            "excessive_buffer_overrun_errors",
        ),
        Counter::any(&RX_ICRC_ENCAPSULATED, ""),
        Counter {
            least: Least::Within(5, Duration::from_secs(60)),
            ..Counter::any(&LINK_ERROR_RECOVERY, "link_error_recovery")
        },
    ],
    rules: &[Rule {
        of: "",
        enough: 1,
        occasions: false,
        window_ms: 6 * HOUR_MS,
        quiet_ms: 6 * HOUR_MS,
        detail: "link loses its integrity",
        acts: true,
    }],
    // Links train while switches and drivers start.
    grace: Duration::from_secs(1800),
    up_for: Duration::from_secs(120),
    needs_peers: false,
    together: "link integrity lost",
};
