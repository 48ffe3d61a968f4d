//! Counters of GPUs, ports and filesystems of one snapshot, whose differences belong to jobs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ptr;
use std::time::Duration;

use collectors::device_files::DeviceFiles;
use collectors::gpfs::metrics as gpfs;
use collectors::gpu::metrics as gpu;
use collectors::lustre::metrics as lustre;
use collectors::rdma::metrics as rdma;
use collectors::{Kind, Metric};

use crate::snapshot::{Sample, Snapshot};

/// A counter of the node in a line: name, metrics, and the values of the label `operation` that are no part of it.
type Row = (&'static str, &'static [&'static Metric], &'static [&'static str]);

/// Counters of ports and filesystems, which their clients cannot split by job, by collector. A retransmission is each event
/// after which the sender sends again: a reported gap, or a missing answer.
const NODE: [(&str, &[Row]); 3] = [
    (
        "rdma",
        &[
            ("rdma_transmit_bytes", &[&rdma::PORT_XMIT_DATA], &[]),
            ("rdma_receive_bytes", &[&rdma::PORT_RCV_DATA], &[]),
            (
                "rdma_retransmits",
                &[
                    &rdma::PACKET_SEQ_ERR,
                    &rdma::IMPLIED_NAK_SEQ_ERR,
                    &rdma::LOCAL_ACK_TIMEOUT_ERR,
                ],
                &[],
            ),
            ("rdma_cnp_sent", &[&rdma::NP_CNP_SENT], &[]),
            ("rdma_cnp_handled", &[&rdma::RP_CNP_HANDLED], &[]),
        ],
    ),
    (
        "lustre",
        &[
            ("lustre_read_bytes", &[&lustre::READ_BYTES], &[]),
            ("lustre_write_bytes", &[&lustre::WRITE_BYTES], &[]),
            ("lustre_metadata_operations", &[&lustre::MD_OPS], &[]),
        ],
    ),
    (
        "gpfs",
        &[
            ("gpfs_read_bytes", &[&gpfs::READ_BYTES], &[]),
            ("gpfs_write_bytes", &[&gpfs::WRITE_BYTES], &[]),
            (
                "gpfs_metadata_operations",
                &[&gpfs::OPERATIONS],
                &["reads", "writes"],
            ),
        ],
    ),
];

/// The name in a line to which a sample adds.
fn name_of(rows: &[Row], sample: &Sample<'_>) -> Option<&'static str> {
    let is_other =
        |not: &[&str]| !not.is_empty() && sample.label("operation").is_some_and(|word| not.contains(&word));
    let row = rows
        .iter()
        .find(|(_, metrics, not)| metrics.iter().any(|m| ptr::eq(*m, sample.metric)) && !is_other(not));
    row.map(|(name, ..)| *name)
}

/// GPU, instance (empty for the whole), and kind.
pub(super) type Key = (String, String, String);

/// A name of [`NODE`], the metric and its labels. A page of a large node has many of them, and each look makes all.
pub(super) type NodeKey = (Cow<'static, str>, Cow<'static, str>, String);

/// A value, and the time of its reading since boot.
pub(super) type Reading = (f64, Duration);

/// Product and serial number of a GPU: dies of one module have the same.
#[derive(Debug, Default, PartialEq)]
struct Board {
    product: String,
    serial: String,
}

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
    pub(super) node: BTreeMap<NodeKey, Reading>,
    /// By GPU and instance, in bytes.
    memory: BTreeMap<Key, Reading>,
    /// By GPU.
    boards: BTreeMap<String, Board>,
    /// The GPUs in the snapshot, with the names of their device files and those of their instances.
    pub(super) gpus: BTreeMap<String, Vec<String>>,
}

impl Counters {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let mut found = Self::default();
        for (files, sample) in snapshot.samples_of_gpus() {
            found.gpu(files, &sample, snapshot.at);
        }
        for (collector, rows) in NODE {
            for sample in snapshot
                .samples_of(collector)
                .filter(|s| s.metric.kind != Kind::Info)
            {
                if let Some(name) = name_of(rows, &sample) {
                    let labels = sample.labels.join("\u{1f}");
                    let key = (name.into(), sample.metric.name.into(), labels);
                    found.node.insert(key, reading(&sample, snapshot.at));
                }
            }
        }
        found
    }

    fn gpu(&mut self, files: &DeviceFiles, sample: &Sample<'_>, at: Duration) {
        let Some(gpu) = sample.label("gpu") else { return };
        let instance = sample.label("gpu_instance").unwrap_or_default();
        let key = |what: &str| (gpu.to_owned(), instance.to_owned(), what.to_owned());
        let value = reading(sample, at);
        match sample.metric {
            m if m == &gpu::INFO => {
                let minor = sample.label("minor").unwrap_or_default();
                let own = (!minor.is_empty()).then(|| files.name(minor));
                let text = |label| sample.label(label).unwrap_or_default().to_owned();
                let board = Board {
                    product: text("name"),
                    serial: text("serial"),
                };
                self.boards.insert(gpu.to_owned(), board);
                self.gpus.entry(gpu.to_owned()).or_default().extend(own);
            }
            m if m == &gpu::INSTANCE_INFO => {
                let uuid = sample.label("uuid").map(str::to_owned);
                self.gpus.entry(gpu.to_owned()).or_default().extend(uuid);
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

    /// The GPUs whose energy the counter of this one may include: dies of its module that work and have no counter (the second
    /// die of an MI250). One whose module is unknown may be of any module of its product. `counts`: the GPUs with a counter.
    pub(super) fn dies_without(&self, gpu: &str, counts: impl Fn(&str) -> bool) -> Vec<&str> {
        let Some(own) = self.boards.get(gpu) else {
            return Vec::new();
        };
        let is_of =
            |die: &Board| die.product == own.product && (die == own || !self.has_module(die, &counts));
        let dies = self.busy.keys().map(|(die, ..)| die.as_str());
        let dies = dies.filter(|die| *die != gpu && !counts(die));
        dies.filter(|die| self.boards.get(*die).is_some_and(is_of))
            .collect()
    }

    /// Whether a GPU with a counter has the serial number of this one.
    fn has_module(&self, die: &Board, counts: impl Fn(&str) -> bool) -> bool {
        let mut others = self.boards.iter().filter(|(_, board)| *board == die);
        !die.serial.is_empty() && others.any(|(gpu, _)| counts(gpu))
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
