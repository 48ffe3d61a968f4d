//! Check `rdma-link-integrity`: a link corrupts data or recovers repeatedly.

use std::time::Duration;

use collectors::SubjectKind;
use collectors::rdma::metrics::{
    EXCESSIVE_BUFFER_OVERRUN_ERRORS, LINK_ERROR_RECOVERY, LOCAL_LINK_INTEGRITY_ERRORS, RX_ICRC_ENCAPSULATED,
};

use super::growth::{Counted, Counter, Growth, HOUR_MS, Least, Rule};
use super::{Check, May, Scope, Version};
use crate::reads::port::Port;
use model::snapshot::Sample;

/// The row.
pub static CHECK: Check = Check {
    id: "rdma-link-integrity",
    subject: SubjectKind::RdmaPort,
    fires_when: "A port counts a link integrity error, a buffer overrun or an invariant CRC error, or 5 link recoveries within 60 s.",
    lasting: "3 consecutive readings, at least 135 s",
    clears_when: "No further error for 6 h, confirmed by 3 consecutive readings, at least 60 s.",
    ignored_when: "Links that are up for less than 120 s, and the first 1,800 s after boot. Errors on more than half of at least 3 peers within 120 s: reported once for the node, never drain. Replays and recoveries of Omni-Path links.",
    scope: Scope::Node,
    // The fault may be at the switch's end.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Growth::start(&ROW),
};

/// Omni-Path corrects bit errors by replays of link packets, and counts those here (`pma_get_ib_portcounters` of hfi1/mad.c).
fn is_of_infiniband(port: &Port<'_>, _: &Sample<'_>) -> bool {
    port.driver != "hfi1"
}

static ROW: Counted = Counted {
    check: &CHECK,
    counters: &[
        // 4 bits each: the management agent counts only above its own threshold.
        Counter {
            counts: is_of_infiniband,
            ..Counter::any(&LOCAL_LINK_INTEGRITY_ERRORS, "local_link_integrity_errors")
        },
        Counter::any(
            &EXCESSIVE_BUFFER_OVERRUN_ERRORS,
            "excessive_buffer_overrun_errors",
        ),
        Counter::any(&RX_ICRC_ENCAPSULATED, ""),
        Counter {
            least: Least::Within(5, Duration::from_secs(60)),
            counts: is_of_infiniband,
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
