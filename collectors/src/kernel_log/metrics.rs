//! What the watcher itself knows. The Xids are counted by the daemon, which also knows those that NVML reported.

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
    "Records read from the kernel log, those of earlier runs that are passed over included.",
    Tier::Detail,
);

/// Records lost.
pub static LOST: Metric = counter(
    "nodewarden_kernel_log_lost_records_total",
    &[],
    "Kernel log records that were overwritten before they could be read, as far as their numbers tell.",
    Tier::Core,
);

/// Records not understood.
pub static PARSE_ERRORS: Metric = counter(
    "nodewarden_kernel_log_parse_errors_total",
    &[],
    "Kernel log records whose prefix could not be parsed.",
    Tier::Detail,
);

/// Lines that look like an Xid and do not count.
pub static IGNORED: Metric = counter(
    "nodewarden_kernel_log_ignored_total",
    &["reason"],
    "Kernel log lines that look like an Xid or SXid and are none: user_space (written by a program), malformed.",
    Tier::Core,
);

/// Every metric of this collector.
pub static ALL: &[&Metric] = &[&RECORDS, &LOST, &PARSE_ERRORS, &IGNORED];
