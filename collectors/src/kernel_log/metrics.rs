//! Counters of the kernel log watcher. The daemon counts Xids, because NVML reports them too.

use crate::{Kind, Metric, Tier, Unit};

const SOURCE: &str = "/dev/kmsg";

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    tier: Tier,
) -> Metric {
    Metric {
        name,
        kind: Kind::Counter,
        unit: Unit::None,
        labels,
        help,
        tier,
        source: SOURCE,
        aliases: &[],
    }
}

/// Records read.
pub static RECORDS: Metric = counter(
    "nodewarden_kernel_log_records_total",
    &[],
    "Kernel log records read since the worker started, including records already processed before a restart.",
    Tier::Detail,
);

/// Records lost.
pub static LOST: Metric = counter(
    "nodewarden_kernel_log_lost_records_total",
    &[],
    "Kernel log records overwritten before they were read since the worker started, as far as sequence numbers show.",
    Tier::Core,
);

/// Records with an unparsable prefix.
pub static PARSE_ERRORS: Metric = counter(
    "nodewarden_kernel_log_parse_errors_total",
    &[],
    "Kernel log records with an unparsable prefix since the worker started.",
    Tier::Core,
);

/// Lines that were left out.
pub static SUPPRESSED: Metric = counter(
    "nodewarden_kernel_log_suppressed_total",
    &[],
    "Kernel log lines that the kernel or a driver left out by its own limit, so that what they said is unknown, since the worker started (N callbacks suppressed, Lustre: Skipped N previous similar messages).",
    Tier::Core,
);

/// Ignored lines that resemble an Xid.
pub static IGNORED: Metric = counter(
    "nodewarden_kernel_log_ignored_total",
    &["reason"],
    "Kernel log lines ignored although they resemble an Xid, an SXid or another line that is an event, by reason: user_space (written by a program), malformed.",
    Tier::Core,
);

/// Every metric of this collector.
pub static ALL: &[&Metric] = &[&RECORDS, &LOST, &SUPPRESSED, &PARSE_ERRORS, &IGNORED];
