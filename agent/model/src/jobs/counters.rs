//! GPU and port counters of one snapshot, whose differences belong to jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use collectors::gpu::metrics as gpu;
use collectors::rdma::metrics as rdma;
use collectors::{Kind, Metric};

use crate::snapshot::{Sample, Snapshot};

/// Port counters, with their names in a line. A retransmission is each event after which the sender sends again: a
/// reported gap, or a missing answer.
const NODE: [(&str, &[&Metric]); 5] = [
    ("rdma_transmit_bytes", &[&rdma::PORT_XMIT_DATA]),
    ("rdma_receive_bytes", &[&rdma::PORT_RCV_DATA]),
    (
        "rdma_retransmits",
        &[
            &rdma::PACKET_SEQ_ERR,
            &rdma::IMPLIED_NAK_SEQ_ERR,
            &rdma::LOCAL_ACK_TIMEOUT_ERR,
        ],
    ),
    ("rdma_cnp_sent", &[&rdma::NP_CNP_SENT]),
    ("rdma_cnp_handled", &[&rdma::RP_CNP_HANDLED]),
];

/// GPU, instance (empty for the whole), and kind; for ports a name of [`NODE`], the metric and its labels.
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
    /// Counters of ports.
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
        for sample in snapshot
            .samples_of("rdma")
            .filter(|s| s.metric.kind != Kind::Info)
        {
            let name = NODE
                .iter()
                .find(|(_, metrics)| metrics.contains(&sample.metric))
                .map(|(name, _)| *name);
            if let Some(name) = name {
                let key = (
                    name.to_owned(),
                    sample.metric.name.to_owned(),
                    sample.labels.join("\u{1f}"),
                );
                found.node.insert(key, reading(&sample, snapshot.at));
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
