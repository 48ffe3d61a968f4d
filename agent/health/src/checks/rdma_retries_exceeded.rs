//! Check `rdma-retries-exceeded`: queue pairs of a port died because the other side did not answer, however often they asked.

use std::time::Duration;

use collectors::SubjectKind;
use collectors::rdma::metrics::{REQ_RNR_RETRIES_EXCEEDED, REQ_TRANSPORT_RETRIES_EXCEEDED};

use super::growth::{Counted, Counter, Growth, HOUR_MS, Rule};
use super::{Check, May, Scope, Version};

/// The row.
pub static CHECK: Check = Check {
    id: "rdma-retries-exceeded",
    subject: SubjectKind::RdmaPort,
    condition: "Queue pairs of a port died because the limit of their retries was exceeded, not together with most of its peers. Once is only shown, since the other end may be at fault; on three occasions within 24 hours, ten minutes apart and with no other port having part in it, with at least four ports like it, it is more.",
    scope: Scope::Node,
    // It takes two ends for a retry. Which one is ill cannot be seen from here.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    clears: "By itself: it did not happen for an hour; for six hours, where it had happened on three occasions.",
    runbook: "docs/runbooks/rdma-retries-exceeded.md",
    watch: || Growth::start(&ROW),
};

static ROW: Counted = Counted {
    check: &CHECK,
    // Not `rnr_nak_retry_err`: there the limit was not exceeded.
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
