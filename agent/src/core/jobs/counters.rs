//! The counters whose differences are a job's: of each GPU, and of all ports of the node together.

use std::collections::BTreeMap;

use collectors::gpu::metrics as gpu;
use collectors::rdma::metrics as rdma;
use collectors::{Kind, Metric};
use serde::{Deserialize, Serialize};

use crate::core::snapshot::{Sample, Snapshot};

/// What ports count, as a line calls it. A retransmission is what makes the sender send again: each gap that it is told
/// of, and each answer that does not come.
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

/// GPU, instance (empty for the whole), and what it is.
type Key = (String, String, String);

/// Counters and loads at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Counters {
    /// By GPU, in joules.
    #[serde(with = "pairs")]
    energy: BTreeMap<Key, f64>,
    /// By GPU and reason, in seconds.
    #[serde(with = "pairs")]
    throttle: BTreeMap<Key, f64>,
    /// By GPU, 0 to 1.
    #[serde(with = "pairs")]
    busy: BTreeMap<Key, f64>,
    /// By GPU and instance, in bytes.
    #[serde(with = "pairs")]
    memory: BTreeMap<Key, f64>,
    /// By the names of [`NODE`] and the labels of the series.
    #[serde(with = "pairs")]
    node: BTreeMap<Key, f64>,
}

/// JSON has no maps by more than a text.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Key;

    pub(super) fn serialize<S: Serializer>(map: &BTreeMap<Key, f64>, to: S) -> Result<S::Ok, S::Error> {
        map.iter().collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<Key, f64>, D::Error> {
        Ok(Vec::deserialize(from)?.into_iter().collect())
    }
}

/// What moved on a GPU from one moment to another.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Moved {
    pub(super) energy_joules: Option<f64>,
    pub(super) busy: Option<f64>,
    pub(super) throttle_seconds: BTreeMap<String, f64>,
}

impl Counters {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let mut found = Self::default();
        for sample in samples(snapshot, "nvidia") {
            found.gpu(&sample);
        }
        for sample in samples(snapshot, "rdma") {
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
                found.node.insert(key, sample.as_f64());
            }
        }
        found
    }

    fn gpu(&mut self, sample: &Sample<'_>) {
        let Some(gpu) = sample.label("gpu") else { return };
        let instance = sample.label("gpu_instance").unwrap_or_default();
        let key = |what: &str| (gpu.to_owned(), instance.to_owned(), what.to_owned());
        let value = sample.as_f64();
        match sample.metric {
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

    /// What moved on a whole GPU since `before`. A counter that went back began anew: what it counted until then is lost.
    pub(super) fn since(&self, before: &Self, gpu: &str) -> Moved {
        let key = (gpu.to_owned(), String::new(), String::new());
        let load = before.busy.get(&key).or_else(|| self.busy.get(&key));
        let mut throttle_seconds = BTreeMap::new();
        for ((of, _, reason), from) in before.throttle.range(key.clone()..) {
            if of != gpu {
                break;
            }
            let now = self.throttle.get(&(of.clone(), String::new(), reason.clone()));
            if let Some(by) = now.map(|to| to - from).filter(|by| *by > 0.0) {
                throttle_seconds.insert(reason.clone(), by);
            }
        }
        Moved {
            energy_joules: moved(&before.energy, &self.energy, &key),
            busy: load.copied(),
            throttle_seconds,
        }
    }

    /// Memory in use of a GPU or an instance, in bytes.
    pub(super) fn memory(&self, gpu: &str, instance: &str) -> Option<f64> {
        let key = (gpu.to_owned(), instance.to_owned(), String::new());
        self.memory.get(&key).copied()
    }

    /// What all ports counted since `before`, by name.
    pub(super) fn node_since(&self, before: &Self) -> BTreeMap<String, f64> {
        let mut sums = BTreeMap::new();
        for key in before.node.keys() {
            if let Some(by) = moved(&before.node, &self.node, key) {
                *sums.entry(key.0.clone()).or_default() += by;
            }
        }
        sums
    }
}

fn moved(before: &BTreeMap<Key, f64>, now: &BTreeMap<Key, f64>, key: &Key) -> Option<f64> {
    let (from, to) = before.get(key).zip(now.get(key))?;
    Some(to - from).filter(|by| *by >= 0.0)
}

/// The values of a collector.
fn samples<'a>(snapshot: &'a Snapshot, collector: &str) -> impl Iterator<Item = Sample<'a>> {
    let found = snapshot.collector(collector).into_iter();
    found
        .flat_map(|c| c.samples(snapshot.at))
        .filter(|s| s.metric.kind != Kind::Info)
}
