//! Which RDMA ports are nearest to each GPU, by where both sit in the tree of PCI.

use std::collections::BTreeMap;

use collectors::PciAddress;
use collectors::host::metrics::PCI_GPU_PATH_INFO;
use collectors::rdma::metrics::PORT_PATH_INFO;
use serde::{Deserialize, Serialize};

use super::xid::{Inventory, gpu_label};
use crate::snapshot::Snapshot;

/// How many of equally near ports are told for a GPU. On nodes without switches half of the ports are.
const MAX_PORTS: usize = 4;

/// By what a GPU and a port are joined, nearest first, in the words of `nvidia-smi topo -m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Distance {
    /// At most one switch of PCI.
    Pix,
    /// Several switches, and no root complex.
    Pxb,
    /// The processor's root complex.
    Phb,
    /// Two root complexes of one NUMA node.
    Node,
    /// The bus between processors; or nothing nearer is known.
    Sys,
}

impl Distance {
    /// The word used in labels.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::Phb => "PHB",
            Self::Node => "NODE",
            Self::Sys => "SYS",
        }
    }
}

/// A GPU and a port that is nearest to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Affinity {
    /// The `gpu` label.
    pub gpu: String,
    /// The RDMA device.
    pub device: String,
    /// Its port.
    pub port: String,
    /// By what they are joined.
    pub distance: Distance,
}

/// Where something sits: the functions of PCI from its root complex on, and its NUMA node. Either is empty where it is not
/// known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat<'a> {
    /// `pci0000:3a/0000:3a:00.0/0000:3b:00.0`.
    pub path: &'a str,
    /// The number of the NUMA node.
    pub numa_node: &'a str,
}

impl Seat<'_> {
    /// How far it is from another.
    pub fn to(self, other: Seat<'_>) -> Distance {
        let parts = |seat: Seat<'_>| seat.path.split('/').filter(|p| !p.is_empty()).count();
        let pairs = self.path.split('/').zip(other.path.split('/'));
        let common = pairs.take_while(|(a, b)| a == b && !a.is_empty()).count();
        // A function below a switch that both share is one port of the switch and itself away from it.
        let near = |seat: Seat<'_>| parts(seat).saturating_sub(common) <= 2;
        match common {
            0 if !self.numa_node.is_empty() && self.numa_node == other.numa_node => Distance::Node,
            0 => Distance::Sys,
            1 => Distance::Phb,
            _ if near(self) && near(other) => Distance::Pix,
            _ => Distance::Pxb,
        }
    }
}

/// A name in parts: words, each with the number behind it.
fn natural(name: &str) -> Vec<(&str, u64, &str)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let is_digit = |c: char| c.is_ascii_digit();
        let (word, behind) = rest.split_at(rest.find(is_digit).unwrap_or(rest.len()));
        let end = behind.find(|c| !is_digit(c)).unwrap_or(behind.len());
        let (digits, behind) = behind.split_at(end);
        // Longer than any number here is the largest; the digits themselves tell such apart.
        let number = digits
            .parse()
            .unwrap_or(if digits.is_empty() { 0 } else { u64::MAX });
        parts.push((word, number, digits));
        rest = behind;
    }
    parts
}

/// The nearest ports of each GPU, by GPU, device and port. Ports that are not read are none.
pub fn nearest(snapshot: &Snapshot, inventory: &Inventory) -> Vec<Affinity> {
    let (mut ports, mut gpus) = (Vec::new(), BTreeMap::new());
    for (_, sample) in snapshot.all_samples() {
        match sample.labels {
            [device, port, path, numa_node] if sample.metric == &PORT_PATH_INFO => {
                ports.push((device, port, Seat { path, numa_node }));
            }
            [pci, path, numa_node] if sample.metric == &PCI_GPU_PATH_INFO => {
                let gpu = PciAddress::parse(pci).map(|pci| gpu_label(inventory, &pci));
                gpus.extend(gpu.map(|gpu| (gpu, Seat { path, numa_node })));
            }
            _ => {}
        }
    }
    // Of several the first are told: mlx5_2 comes before mlx5_10.
    ports.sort_by_cached_key(|(device, port, _)| (natural(device), natural(port)));
    let mut all = Vec::new();
    for (gpu, seat) in gpus {
        let by_distance = ports
            .iter()
            .map(|(device, port, other)| (seat.to(*other), device, port));
        let least = by_distance.clone().map(|(distance, ..)| distance).min();
        let near = by_distance.filter(|(distance, ..)| Some(*distance) == least);
        all.extend(near.take(MAX_PORTS).map(|(distance, device, port)| Affinity {
            gpu: gpu.clone(),
            device: (*device).clone(),
            port: (*port).clone(),
            distance,
        }));
    }
    all
}

#[cfg(test)]
mod tests;
