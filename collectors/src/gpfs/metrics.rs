//! GPFS (IBM Storage Scale) client statistics, as mmfsd counts them for this node.

use super::command_metrics as commands;
use crate::metric::{Alias, Kind, Metric, Tier, Unit};

/// The page with the names of treydock's gpfs_exporter.
pub(super) const PAGE: &str = "gpfs_exporter";
/// A filesystem, and the cluster that owns it: two clusters may use one name.
const FILESYSTEM: &[&str] = &["gpfs_cluster", "fs"];
/// A kind of operation.
const OPERATION: &[&str] = &["gpfs_cluster", "fs", "operation"];

const fn counter(name: &'static str, unit: Unit, help: &'static str, source: &'static str) -> Metric {
    Metric {
        name,
        kind: Kind::Counter,
        unit,
        labels: FILESYSTEM,
        help,
        tier: Tier::Detail,
        source,
        aliases: &[],
    }
}

/// Whether mmfsd answers.
pub static DAEMON_UP: Metric = Metric {
    name: "gpfs_daemon_up",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: &[],
    help: "Whether the GPFS daemon (mmfsd) of this node answers: 1 yes, 0 no process listens on its socket.",
    tier: Tier::Core,
    source: "/var/mmfs/mmpmon/mmpmonSocket",
    aliases: &[],
};

/// The node as GPFS names it.
pub static INFO: Metric = Metric {
    name: "gpfs_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["node", "address"],
    help: "Name and address of this node in its GPFS cluster.",
    tier: Tier::Core,
    source: "mmpmon: _nn_, _n_",
    aliases: &[],
};

/// The node as GPFS names it, for each filesystem: labels of another exporter.
pub static FILESYSTEM_INFO: Metric = Metric {
    name: "gpfs_filesystem_info",
    kind: Kind::Info,
    unit: Unit::None,
    labels: &["gpfs_cluster", "fs", "node"],
    help: "Filesystem that GPFS has mounted on this node, with the cluster that owns it.",
    tier: Tier::Core,
    source: "mmpmon gfis, fis: one line for each mounted filesystem",
    aliases: &[Alias::new(
        PAGE,
        "gpfs_perf_info",
        Kind::Gauge,
        &[("fs", "fs"), ("nodename", "node")],
    )],
};

/// Disks of a filesystem.
pub static DISKS: Metric = Metric {
    name: "gpfs_filesystem_disks",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: FILESYSTEM,
    help: "Disks (NSDs) of the filesystem.",
    tier: Tier::Detail,
    source: "mmpmon gfis, fis: _d_",
    aliases: &[],
};

/// Bytes read by applications.
pub static READ_BYTES: Metric = Metric {
    tier: Tier::Core,
    aliases: &[Alias::new(
        PAGE,
        "gpfs_perf_read_bytes_total",
        Kind::Counter,
        &[("fs", "fs")],
    )],
    ..counter(
        "gpfs_read_bytes_total",
        Unit::Bytes,
        "Bytes that applications of this node read, from disk and from cache, since the filesystem was mounted.",
        "mmpmon gfis, fis: _br_",
    )
};

/// Bytes written by applications.
pub static WRITE_BYTES: Metric = Metric {
    tier: Tier::Core,
    aliases: &[Alias::new(
        PAGE,
        "gpfs_perf_write_bytes_total",
        Kind::Counter,
        &[("fs", "fs")],
    )],
    ..counter(
        "gpfs_write_bytes_total",
        Unit::Bytes,
        "Bytes that applications of this node wrote, to disk and to cache, since the filesystem was mounted.",
        "mmpmon gfis, fis: _bw_",
    )
};

/// Calls by kind.
pub static OPERATIONS: Metric = Metric {
    name: "gpfs_operations_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: OPERATION,
    help: "Operations of applications of this node since the filesystem was mounted: opens (with creates), closes, reads, writes, read_dir, inode_updates.",
    tier: Tier::Core,
    source: "mmpmon gfis, fis: _oc_ _cc_ _rdc_ _wc_ _dir_ _iu_ (32 bits)",
    aliases: &[Alias::new(
        PAGE,
        "gpfs_perf_operations_total",
        Kind::Counter,
        &[("fs", "fs"), ("operation", "operation")],
    )],
};

/// Operations on inodes.
pub static INODE_OPERATIONS: Metric = Metric {
    name: "gpfs_inode_operations_total",
    kind: Kind::Counter,
    unit: Unit::None,
    labels: OPERATION,
    help: "Operations on inodes since the filesystem was mounted: reads, creates, deletes.",
    tier: Tier::Detail,
    source: "mmpmon gfis: _irc_ _icc_ _idc_ (32 bits)",
    aliases: &[],
};

/// Bytes read from the page pool.
pub static CACHE_READ_BYTES: Metric = counter(
    "gpfs_cache_read_bytes_total",
    Unit::Bytes,
    "Bytes that applications of this node read from the page pool since the filesystem was mounted.",
    "mmpmon gfis: _bc_",
);

/// Reads from the page pool.
pub static CACHE_READS: Metric = counter(
    "gpfs_cache_reads_total",
    Unit::None,
    "Reads from the page pool since the filesystem was mounted.",
    "mmpmon gfis: _c_ (32 bits)",
);

/// Reads from disk.
pub static DISK_READS: Metric = counter(
    "gpfs_disk_reads_total",
    Unit::None,
    "Reads from disk since the filesystem was mounted.",
    "mmpmon gfis: _r_ (32 bits)",
);

/// Writes to disk.
pub static DISK_WRITES: Metric = counter(
    "gpfs_disk_writes_total",
    Unit::None,
    "Writes to disk since the filesystem was mounted.",
    "mmpmon gfis: _w_ (32 bits)",
);

/// Hits of the stat cache.
pub static STAT_CACHE_HITS: Metric = counter(
    "gpfs_stat_cache_hits_total",
    Unit::None,
    "Hits of the stat cache since the filesystem was mounted.",
    "mmpmon gfis: _sch_ (32 bits)",
);

/// Misses of the stat cache.
pub static STAT_CACHE_MISSES: Metric = counter(
    "gpfs_stat_cache_misses_total",
    Unit::None,
    "Misses of the stat cache since the filesystem was mounted.",
    "mmpmon gfis: _scm_ (32 bits)",
);

/// Every metric of this collector.
pub static METRICS: &[&Metric] = &[
    &DAEMON_UP,
    &INFO,
    &FILESYSTEM_INFO,
    &DISKS,
    &READ_BYTES,
    &WRITE_BYTES,
    &OPERATIONS,
    &INODE_OPERATIONS,
    &CACHE_READ_BYTES,
    &CACHE_READS,
    &DISK_READS,
    &DISK_WRITES,
    &STAT_CACHE_HITS,
    &STAT_CACHE_MISSES,
    &commands::NODE_STATE,
    &commands::WAITERS,
    &commands::LONGEST_WAIT,
    &commands::LONGEST_WAITER,
    &commands::WAITERS_BY_THREAD,
    &commands::COMPONENT_STATUS,
    &commands::COMPONENT_HAS_STATUS,
    &commands::COMPONENT_EVENT,
    &commands::UNREADABLE,
    &commands::TIMESTAMP,
];
