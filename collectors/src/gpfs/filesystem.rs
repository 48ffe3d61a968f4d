//! The figures of one filesystem, from its line of the reply.

use super::metrics::{
    CACHE_READ_BYTES, CACHE_READS, DISK_READS, DISK_WRITES, DISKS, FILESYSTEM_INFO, INODE_OPERATIONS,
    OPERATIONS, READ_BYTES, STAT_CACHE_HITS, STAT_CACHE_MISSES, WRITE_BYTES,
};
use super::record::Record;
use crate::{Block, Metric};

/// A filesystem: a name is unique only within the cluster that owns it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    cluster: String,
    name: String,
}

impl Key {
    /// `None`: a line without a filesystem.
    pub(super) fn of(line: &Record<'_>) -> Option<Self> {
        Some(Self {
            cluster: line.text("_cl_").unwrap_or_default().to_owned(),
            name: line.text("_fs_")?.to_owned(),
        })
    }
}

/// A counter of 32 bits, shown as mmfsd counts it: its key, its metric, and the operation if that is a label.
struct Narrow {
    key: &'static str,
    metric: &'static Metric,
    operation: Option<&'static str>,
}

const fn operation(key: &'static str, metric: &'static Metric, operation: &'static str) -> Narrow {
    Narrow {
        key,
        metric,
        operation: Some(operation),
    }
}

const fn narrow(key: &'static str, metric: &'static Metric) -> Narrow {
    Narrow {
        key,
        metric,
        operation: None,
    }
}

static NARROW: [Narrow; 14] = [
    operation("_rdc_", &OPERATIONS, "reads"),
    operation("_wc_", &OPERATIONS, "writes"),
    operation("_oc_", &OPERATIONS, "opens"),
    operation("_cc_", &OPERATIONS, "closes"),
    operation("_dir_", &OPERATIONS, "read_dir"),
    operation("_iu_", &OPERATIONS, "inode_updates"),
    operation("_irc_", &INODE_OPERATIONS, "reads"),
    operation("_icc_", &INODE_OPERATIONS, "creates"),
    operation("_idc_", &INODE_OPERATIONS, "deletes"),
    narrow("_c_", &CACHE_READS),
    narrow("_r_", &DISK_READS),
    narrow("_w_", &DISK_WRITES),
    narrow("_sch_", &STAT_CACHE_HITS),
    narrow("_scm_", &STAT_CACHE_MISSES),
];

/// Adds the series of a filesystem. A figure that the reply does not have is absent.
pub(super) fn show(key: &Key, line: &Record<'_>, out: &mut Block) {
    let labels = [key.cluster.as_str(), key.name.as_str()];
    let [cluster, name] = labels;
    out.info(
        &FILESYSTEM_INFO,
        &[cluster, name, line.text("_nn_").unwrap_or_default()],
    );
    out.maybe_u64(&DISKS, &labels, line.number("_d_"));
    out.maybe_u64(&READ_BYTES, &labels, line.number("_br_"));
    out.maybe_u64(&WRITE_BYTES, &labels, line.number("_bw_"));
    out.maybe_u64(&CACHE_READ_BYTES, &labels, line.number("_bc_"));
    for narrow in &NARROW {
        let count = line.number(narrow.key);
        match narrow.operation {
            Some(operation) => out.maybe_u64(narrow.metric, &[cluster, name, operation], count),
            None => out.maybe_u64(narrow.metric, &labels, count),
        }
    }
}
