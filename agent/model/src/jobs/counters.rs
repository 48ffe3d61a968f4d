//! Counters of GPUs, ports and filesystems of one snapshot, whose differences belong to jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use collectors::Metric;
use collectors::gpfs::metrics as gpfs;
use collectors::gpu::metrics as gpu;
use collectors::lustre::metrics as lustre;
use collectors::rdma::metrics as rdma;

use crate::snapshot::{Sample, Snapshot};

/// A counter of the node in a line: collector, name, metrics, and the values of the label `operation` that are no part of it.
type Row = (
    &'static str,
    &'static str,
    &'static [&'static Metric],
    &'static [&'static str],
);

/// Counters of ports and filesystems, which their clients cannot split by job. A retransmission is each event after which
/// the sender sends again: a reported gap, or a missing answer.
const NODE: [Row; 11] = [
    ("rdma", "rdma_transmit_bytes", &[&rdma::PORT_XMIT_DATA], &[]),
    ("rdma", "rdma_receive_bytes", &[&rdma::PORT_RCV_DATA], &[]),
    (
        "rdma",
        "rdma_retransmits",
        &[
            &rdma::PACKET_SEQ_ERR,
            &rdma::IMPLIED_NAK_SEQ_ERR,
            &rdma::LOCAL_ACK_TIMEOUT_ERR,
        ],
        &[],
    ),
    ("rdma", "rdma_cnp_sent", &[&rdma::NP_CNP_SENT], &[]),
    ("rdma", "rdma_cnp_handled", &[&rdma::RP_CNP_HANDLED], &[]),
    ("lustre", "lustre_read_bytes", &[&lustre::READ_BYTES], &[]),
    ("lustre", "lustre_write_bytes", &[&lustre::WRITE_BYTES], &[]),
    ("lustre", "lustre_metadata_operations", &[&lustre::MD_OPS], &[]),
    ("gpfs", "gpfs_read_bytes", &[&gpfs::READ_BYTES], &[]),
    ("gpfs", "gpfs_write_bytes", &[&gpfs::WRITE_BYTES], &[]),
    (
        "gpfs",
        "gpfs_metadata_operations",
        &[&gpfs::OPERATIONS],
        &["reads", "writes"],
    ),
];
/// Collectors of [`NODE`].
const COLLECTORS: [&str; 3] = ["rdma", "lustre", "gpfs"];

/// The name in a line to which a sample of that collector adds.
fn name_of(collector: &str, sample: &Sample<'_>) -> Option<&'static str> {
    let operation = sample.label("operation").unwrap_or_default();
    let row = NODE.iter().find(|(of, _, metrics, not)| {
        *of == collector && metrics.contains(&sample.metric) && !not.contains(&operation)
    });
    row.map(|(_, name, ..)| *name)
}

/// GPU, instance (empty for the whole), and kind; for the node a name of [`NODE`], the metric and its labels.
pub(super) type Key = (String, String, String);

/// A value, and the time of its reading since boot.
pub(super) type Reading = (f64, Duration);

/// Counters and loads at one moment.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// By GPU, in joules.
    pub(super) energy: BTreeMap<Key, Reading>,
    /// By GPU and reason, in seconds.
    pub(super) throttle: BTreeMap<Key, Reading>,
    /// By GPU, 0 to 1.
    pub(super) busy: BTreeMap<Key, Reading>,
    /// Counters of ports and filesystems.
    pub(super) node: BTreeMap<Key, Reading>,
    /// By GPU and instance, in bytes.
    memory: BTreeMap<Key, Reading>,
    /// The GPUs in the snapshot, with the minor numbers of their device files.
    pub(super) gpus: BTreeMap<String, String>,
}

impl Counters {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let mut found = Self::default();
        for sample in snapshot.samples_of("nvidia") {
            found.gpu(&sample, snapshot.at);
        }
        for collector in COLLECTORS {
            for sample in snapshot.samples_of(collector) {
                if let Some(name) = name_of(collector, &sample) {
                    let labels = sample.labels.join("\u{1f}");
                    let key = (name.to_owned(), sample.metric.name.to_owned(), labels);
                    found.node.insert(key, reading(&sample, snapshot.at));
                }
            }
        }
        found
    }

    fn gpu(&mut self, sample: &Sample<'_>, at: Duration) {
        let Some(gpu) = sample.label("gpu") else { return };
        let instance = sample.label("gpu_instance").unwrap_or_default();
        let key = |what: &str| (gpu.to_owned(), instance.to_owned(), what.to_owned());
        let value = reading(sample, at);
        match sample.metric {
            m if m == &gpu::INFO => {
                let minor = sample.label("minor").unwrap_or_default();
                self.gpus.insert(gpu.to_owned(), minor.to_owned());
            }
            m if m == &gpu::ENERGY => drop(self.energy.insert(key(""), value)),
            m if m == &gpu::UTILIZATION => drop(self.busy.insert(key(""), value)),
            m if m == &gpu::MEMORY_USED => drop(self.memory.insert(key(""), value)),
            m if m == &gpu::CLOCK_EVENT_SECONDS => {
                let reason = sample.label("reason").unwrap_or_default();
                self.throttle.insert(key(reason), value);
            }
            _ => {}
        }
    }

    /// Memory in use of a GPU or an instance, in bytes.
    pub(super) fn memory(&self, gpu: &str, instance: &str) -> Option<f64> {
        let key = (gpu.to_owned(), instance.to_owned(), String::new());
        self.memory.get(&key).map(|(bytes, _)| *bytes)
    }
}

fn reading(sample: &Sample<'_>, at: Duration) -> Reading {
    (sample.as_f64(), at.saturating_sub(sample.age))
}
