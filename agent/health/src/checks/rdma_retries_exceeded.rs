//! Check `rdma-retries-exceeded`: queue pairs of a port failed because the retry limit was exceeded.

use std::time::Duration;

use collectors::SubjectKind;
use collectors::rdma::metrics::{REQ_RNR_RETRIES_EXCEEDED, REQ_TRANSPORT_RETRIES_EXCEEDED};

use super::growth::{Counted, Counter, Growth, HOUR_MS, Rule};
use super::{Check, May, Scope, Version};

/// The row.
pub static CHECK: Check = Check {
    id: "rdma-retries-exceeded",
    subject: SubjectKind::RdmaPort,
    fires_when: "A queue pair of a port fails because its retry limit was exceeded: shown, never drains. It may drain after 3 occasions in 24 h, more than 10 min apart and on no peer, in groups of at least 4 ports.",
    lasting: "3 consecutive readings, at least 135 s",
    clears_when: "No further failure for 1 h (6 h after 3 occasions), confirmed by 3 consecutive readings, at least 60 s.",
    ignored_when: "Failures on more than half of at least 3 peers within 120 s: reported once for the node, never drain.",
    scope: Scope::Node,
    // The fault may be at either end of the connection.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Growth::start(&ROW),
};

static ROW: Counted = Counted {
    check: &CHECK,
    // Not `rnr_nak_retry_err`: it counts retries below the limit.
    counters: &[
        Counter::any(&REQ_TRANSPORT_RETRIES_EXCEEDED, ""),
        Counter::any(&REQ_RNR_RETRIES_EXCEEDED, ""),
    ],
    rules: &[
        Rule {
            of: "",
            enough: 1,
            occasions: false,
            window_ms: HOUR_MS,
            quiet_ms: HOUR_MS,
            detail: "a queue pair gave up",
            acts: false,
        },
        Rule {
            of: "again",
            enough: 3,
            occasions: true,
            window_ms: 24 * HOUR_MS,
            quiet_ms: 6 * HOUR_MS,
            detail: "queue pairs give up again and again",
            acts: true,
        },
    ],
    grace: Duration::ZERO,
    up_for: Duration::ZERO,
    needs_peers: true,
    together: "queue pairs gave up",
};
