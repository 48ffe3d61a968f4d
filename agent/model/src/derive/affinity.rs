//! The nearest RDMA ports of each GPU, by their places in the PCI tree.

use std::collections::BTreeMap;

use collectors::PciAddress;
use collectors::host::metrics::PCI_GPU_PATH_INFO;
use collectors::rdma::metrics::PORT_PATH_INFO;
use serde::{Deserialize, Serialize};

use super::xid::{Inventory, gpu_label};
use crate::snapshot::Snapshot;

/// Limit of equally near ports listed for a GPU. On nodes without switches half of the ports are equally near.
const MAX_PORTS: usize = 4;

/// The connection between a GPU and a port, nearest first, in the terms of `nvidia-smi topo -m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Distance {
    /// At most one PCI switch.
    Pix,
    /// Several PCI switches, and no root complex.
    Pxb,
    /// The processor's root complex.
    Phb,
    /// Two root complexes of one NUMA node.
    Node,
    /// The bus between processors; or no nearer connection is known.
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

/// A GPU and one of its nearest ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Affinity {
    /// The `gpu` label.
    pub gpu: String,
    /// The RDMA device.
    pub device: String,
    /// Its port.
    pub port: String,
    /// Their connection.
    pub distance: Distance,
}

/// The place of a device: the PCI functions from its root complex on, and its NUMA node. Either is empty if unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat<'a> {
    /// `pci0000:3a/0000:3a:00.0/0000:3b:00.0`.
    pub path: &'a str,
    /// The number of the NUMA node.
    pub numa_node: &'a str,
}

impl Seat<'_> {
    /// The distance to another place.
    pub fn to(self, other: Seat<'_>) -> Distance {
        let parts = |seat: Seat<'_>| seat.path.split('/').filter(|p| !p.is_empty()).count();
        let pairs = self.path.split('/').zip(other.path.split('/'));
        let common = pairs.take_while(|(a, b)| a == b && !a.is_empty()).count();
        // A function below a shared switch is one switch port and itself away from it.
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

/// A name split into parts: text and the number after it.
fn natural(name: &str) -> Vec<(&str, u64, &str)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let is_digit = |c: char| c.is_ascii_digit();
        let (word, behind) = rest.split_at(rest.find(is_digit).unwrap_or(rest.len()));
        let end = behind.find(|c| !is_digit(c)).unwrap_or(behind.len());
        let (digits, behind) = behind.split_at(end);
        // Longer than any number here counts as the largest; the digits distinguish such names.
        let number = digits
            .parse()
            .unwrap_or(if digits.is_empty() { 0 } else { u64::MAX });
        parts.push((word, number, digits));
        rest = behind;
    }
    parts
}

/// The nearest ports of each GPU, by GPU, device and port. Unread ports are omitted.
pub fn nearest(snapshot: &Snapshot, inventory: &Inventory) -> Vec<Affinity> {
    let (mut ports, mut gpus) = (Vec::new(), BTreeMap::new());
    for sample in snapshot.shown(&PORT_PATH_INFO) {
        if let [device, port, path, numa_node] = sample.labels {
            ports.push((device, port, Seat { path, numa_node }));
        }
    }
    for sample in snapshot.shown(&PCI_GPU_PATH_INFO) {
        if let [pci, path, numa_node] = sample.labels {
            let gpu = PciAddress::parse(pci).map(|pci| gpu_label(inventory, &pci));
            gpus.extend(gpu.map(|gpu| (gpu, Seat { path, numa_node })));
        }
    }
    // The first ones are listed: mlx5_2 sorts before mlx5_10.
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
            device: device.to_string(),
            port: port.to_string(),
            distance,
        }));
    }
    all
}

#[cfg(test)]
mod tests;
