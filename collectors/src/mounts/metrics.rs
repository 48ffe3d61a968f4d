//! Mounted filesystems: parallel, network, and local ones for data.

use crate::metric::{Buckets, Kind, Metric, Tier, Unit};

/// A filesystem, by the mount point under which it is probed.
const MOUNT: &[&str] = &["mountpoint"];
/// An operation of NFS.
const OPERATION: &[&str] = &["mountpoint", "operation"];

const fn row(name: &'static str, kind: Kind, unit: Unit, help: &'static str, source: &'static str) -> Metric {
    Metric {
        name,
        kind,
        unit,
        labels: MOUNT,
        help,
        tier: Tier::Core,
        source,
        aliases: &[],
    }
}

/// Identity of a filesystem.
pub static INFO: Metric = Metric {
    labels: &["mountpoint", "fstype", "source", "class"],
    ..row(
        "mount_info",
        Kind::Info,
        Unit::None,
        "Mounted filesystem with its type, source and class: parallel, network, local.",
        "/proc/1/mountinfo",
    )
};

/// Whether a filesystem is read-only.
pub static READ_ONLY: Metric = row(
    "mount_read_only",
    Kind::Gauge,
    Unit::None,
    "Whether the filesystem as a whole is read-only: 1 yes, as after an error or by its mount options.",
    "/proc/1/mountinfo: options of the superblock",
);

/// Filesystems without a probe.
pub static OMITTED: Metric = Metric {
    labels: &["reason"],
    ..row(
        "mount_filesystems_omitted",
        Kind::Gauge,
        Unit::None,
        "Filesystems that are not probed: above the limit of 16 or of the list, FUSE mounts of users, NFS with Kerberos, or hidden by nodewarden's mount namespace.",
        "/proc/1/mountinfo, /proc/self/mountinfo",
    )
};

/// Size of a filesystem.
pub static SIZE: Metric = row(
    "mount_size_bytes",
    Kind::Gauge,
    Unit::Bytes,
    "Size of the filesystem in bytes.",
    "statfs(2): f_blocks * f_frsize",
);

/// Free bytes, with those reserved for root.
pub static FREE: Metric = Metric {
    tier: Tier::Detail,
    ..row(
        "mount_free_bytes",
        Kind::Gauge,
        Unit::Bytes,
        "Free bytes of the filesystem, with those that only root may use.",
        "statfs(2): f_bfree * f_frsize",
    )
};

/// Free bytes for users.
pub static AVAILABLE: Metric = row(
    "mount_available_bytes",
    Kind::Gauge,
    Unit::Bytes,
    "Free bytes of the filesystem that users may use.",
    "statfs(2): f_bavail * f_frsize",
);

/// Inodes of a filesystem.
pub static INODES: Metric = row(
    "mount_inodes",
    Kind::Gauge,
    Unit::None,
    "Inodes of the filesystem; absent where it has no fixed number.",
    "statfs(2): f_files",
);

/// Free inodes.
pub static INODES_FREE: Metric = row(
    "mount_inodes_free",
    Kind::Gauge,
    Unit::None,
    "Free inodes of the filesystem; absent where it has no fixed number.",
    "statfs(2): f_ffree",
);

/// Bounds of the probes' duration: a cached answer, a local disk, an RPC, a slow server, a time-out.
const DURATIONS: Buckets = Buckets::new(&[0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 60.0]);

/// Duration of probes.
pub static PROBE_DURATION: Metric = row(
    "mount_probe_duration_seconds",
    Kind::Histogram(DURATIONS),
    Unit::Seconds,
    "Duration of probes (open and statfs of the mount point, once a minute) that returned, in seconds.",
    "open(2) with O_PATH and fstatfs(2) of the mount point",
);

/// Age of the figures of a mount that an automounter unmounts.
pub static PROBE_AGE: Metric = row(
    "mount_probe_age_seconds",
    Kind::Gauge,
    Unit::Seconds,
    "Time since the last probe of a mount that an automounter unmounts when unused, in seconds; absent for all others.",
    "time of the last probe that returned",
);

const NFS_SOURCE: &str = "/proc/self/mountstats: per-op statistics, all operations";

/// Requests of an NFS mount.
pub static NFS_REQUESTS: Metric = row(
    "mount_nfs_requests_total",
    Kind::Counter,
    Unit::None,
    "NFS requests of all operations since the mount.",
    NFS_SOURCE,
);

/// Transmissions beyond the first.
pub static NFS_RETRANSMISSIONS: Metric = row(
    "mount_nfs_retransmissions_total",
    Kind::Counter,
    Unit::None,
    "NFS requests sent again, over all operations since the mount.",
    NFS_SOURCE,
);

/// Major time-outs.
pub static NFS_TIMEOUTS: Metric = row(
    "mount_nfs_timeouts_total",
    Kind::Counter,
    Unit::None,
    "NFS requests without a reply within the mount's major time-out, over all operations since the mount.",
    NFS_SOURCE,
);

/// Requests that ended with an error.
pub static NFS_ERRORS: Metric = row(
    "mount_nfs_errors_total",
    Kind::Counter,
    Unit::None,
    "NFS requests that ended with an error, over all operations since the mount; absent before Linux 5.3.",
    NFS_SOURCE,
);

/// Time from transmission to reply.
pub static NFS_RTT: Metric = row(
    "mount_nfs_response_seconds_total",
    Kind::Counter,
    Unit::Seconds,
    "Time between transmission and reply of NFS requests, over all operations since the mount, in seconds.",
    NFS_SOURCE,
);

/// Time from the queue to the end.
pub static NFS_EXECUTION: Metric = row(
    "mount_nfs_request_seconds_total",
    Kind::Counter,
    Unit::Seconds,
    "Time of NFS requests from queue to completion, over all operations since the mount, in seconds.",
    NFS_SOURCE,
);

/// Bytes read from the server.
pub static NFS_READ_BYTES: Metric = row(
    "mount_nfs_read_bytes_total",
    Kind::Counter,
    Unit::Bytes,
    "Bytes read from the NFS server by READ since the mount; reads from the page cache do not count.",
    "/proc/self/mountstats: bytes, field 5",
);

/// Bytes written to the server.
pub static NFS_WRITE_BYTES: Metric = row(
    "mount_nfs_write_bytes_total",
    Kind::Counter,
    Unit::Bytes,
    "Bytes written to the NFS server by WRITE since the mount.",
    "/proc/self/mountstats: bytes, field 6",
);

const fn operation(name: &'static str, unit: Unit, help: &'static str, source: &'static str) -> Metric {
    Metric {
        name,
        kind: Kind::Counter,
        unit,
        labels: OPERATION,
        help,
        tier: Tier::Detail,
        source,
        aliases: &[],
    }
}

/// Requests of one operation.
pub static NFS_OPERATION_REQUESTS: Metric = operation(
    "mount_nfs_operation_requests_total",
    Unit::None,
    "NFS requests of one operation since the mount; operations never used are omitted.",
    "/proc/self/mountstats: per-op statistics, field 1",
);

/// Retransmissions of one operation.
pub static NFS_OPERATION_RETRANSMISSIONS: Metric = operation(
    "mount_nfs_operation_retransmissions_total",
    Unit::None,
    "NFS requests of one operation sent again since the mount.",
    "/proc/self/mountstats: per-op statistics, fields 1 and 2",
);

/// Response time of one operation.
pub static NFS_OPERATION_RTT: Metric = operation(
    "mount_nfs_operation_response_seconds_total",
    Unit::Seconds,
    "Time between transmission and reply of NFS requests of one operation since the mount, in seconds.",
    "/proc/self/mountstats: per-op statistics, field 7",
);

/// Execution time of one operation.
pub static NFS_OPERATION_EXECUTION: Metric = operation(
    "mount_nfs_operation_request_seconds_total",
    Unit::Seconds,
    "Time of NFS requests of one operation from queue to completion since the mount, in seconds.",
    "/proc/self/mountstats: per-op statistics, field 8",
);

/// Every metric of this collector.
pub static METRICS: &[&Metric] = &[
    &INFO,
    &READ_ONLY,
    &OMITTED,
    &SIZE,
    &FREE,
    &AVAILABLE,
    &INODES,
    &INODES_FREE,
    &PROBE_DURATION,
    &PROBE_AGE,
    &NFS_REQUESTS,
    &NFS_RETRANSMISSIONS,
    &NFS_TIMEOUTS,
    &NFS_ERRORS,
    &NFS_RTT,
    &NFS_EXECUTION,
    &NFS_READ_BYTES,
    &NFS_WRITE_BYTES,
    &NFS_OPERATION_REQUESTS,
    &NFS_OPERATION_RETRANSMISSIONS,
    &NFS_OPERATION_RTT,
    &NFS_OPERATION_EXECUTION,
];
