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
    Tier::Detail,
);

/// Ignored lines that resemble an Xid.
pub static IGNORED: Metric = counter(
    "nodewarden_kernel_log_ignored_total",
    &["reason"],
    "Kernel log lines ignored although they resemble an Xid or SXid, by reason: user_space (written by a program), malformed.",
    Tier::Core,
);

/// Every metric of this collector.
pub static ALL: &[&Metric] = &[&RECORDS, &LOST, &PARSE_ERRORS, &IGNORED];
