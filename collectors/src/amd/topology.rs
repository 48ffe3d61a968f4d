//! KFD's topology: the compute partitions of each GPU, with the numbers by which processes name them. kernel:
//! `drivers/gpu/drm/amd/amdkfd/kfd_topology.c`.

use std::collections::BTreeMap;

use crate::Env;
use crate::sys::root;

const FOLDER: &str = "/sys/class/kfd/kfd/topology";

/// One compute partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Partition {
    /// KFD's number of it, which another division of the GPU changes.
    pub(super) gpu_id: u64,
    /// The minor number of its render node.
    pub(super) minor: u64,
    /// The release of its instruction set: 90402 is gfx942.
    pub(super) gfx: u64,
    /// Bytes of its memory banks.
    pub(super) memory: u64,
}

/// Partitions by the address of their PCI device, without the function: `(domain, bus << 5 | device)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Topology {
    by_device: BTreeMap<(u64, u64), Vec<Partition>>,
}

impl Topology {
    /// Reads every node. A node that the reader's device cgroup hides is left out.
    pub(super) fn read(env: &Env) -> Self {
        let nodes = env.path(FOLDER).join("nodes");
        let mut topology = Self::default();
        for name in root::list(&nodes).ok().flatten().unwrap_or_default() {
            let folder = nodes.join(&name);
            let text = |file: &str| root::read_lossy(&folder.join(file)).ok().flatten();
            let gpu_id = text("gpu_id").and_then(|id| id.parse().ok()).unwrap_or(0);
            let Some(properties) = text("properties").filter(|_| gpu_id > 0) else {
                continue;
            };
            let property = |key| property(&properties, key);
            let Some(location) = property("location_id") else {
                continue;
            };
            let banks = root::list(&folder.join("mem_banks")).ok().flatten();
            let bank = |bank: &String| {
                let text = text(&format!("mem_banks/{bank}/properties"))?;
                self::property(&text, "size_in_bytes")
            };
            let partition = Partition {
                gpu_id,
                minor: property("drm_render_minor").unwrap_or(0),
                gfx: property("gfx_target_version").unwrap_or(0),
                memory: banks.iter().flatten().filter_map(bank).sum(),
            };
            // The function bits may hold the number of the partition.
            let key = (property("domain").unwrap_or(0), (location & 0xFFFF) >> 3);
            topology.by_device.entry(key).or_default().push(partition);
        }
        for partitions in topology.by_device.values_mut() {
            partitions.sort_by_key(|p| (p.minor, p.gpu_id));
        }
        topology
    }

    /// A number that changes with every change of the topology. `None`: KFD is not there.
    pub(super) fn generation(env: &Env) -> Option<String> {
        let file = env.path(FOLDER).join("generation_id");
        root::read_lossy(&file).ok().flatten()
    }

    /// The partitions of the GPU at a PCI address (`0000:c1:00.0`), in order.
    pub(super) fn of(&self, pci: &str) -> &[Partition] {
        let key = device_of(pci);
        let partitions = key.and_then(|key| self.by_device.get(&key));
        partitions.map_or(&[], Vec::as_slice)
    }
}

/// The label of a partition: a whole GPU has none.
pub(super) fn part(partition: usize, partitions: usize) -> String {
    if partitions > 1 {
        partition.to_string()
    } else {
        String::new()
    }
}

/// `(domain, bus << 5 | device)` of an address.
fn device_of(pci: &str) -> Option<(u64, u64)> {
    let mut parts = pci.split([':', '.']);
    let mut hex = || u64::from_str_radix(parts.next()?, 16).ok();
    let (domain, bus, device) = (hex()?, hex()?, hex()?);
    Some((domain, bus << 5 | device))
}

/// The value of a line `key value`.
fn property(text: &str, key: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

impl Partition {
    /// `gfx942`: major, minor and stepping, the last two in hexadecimal digits.
    pub(super) fn architecture(&self) -> String {
        let (major, minor, stepping) = (self.gfx / 10_000, self.gfx / 100 % 100, self.gfx % 100);
        match self.gfx {
            0 => String::new(),
            _ => format!("gfx{major}{minor:x}{stepping:x}"),
        }
    }
}

/// For fuzzing.
pub(crate) fn check(text: &str) {
    for key in ["location_id", "domain", "gfx_target_version"] {
        if let Some(gfx) = property(text, key) {
            let partition = Partition {
                gfx,
                ..Partition::default()
            };
            assert_eq!(partition.architecture().is_empty(), gfx == 0);
        }
    }
    device_of(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instruction_set_is_named_as_the_compiler_names_it() {
        for (gfx, name) in [
            (90_402, "gfx942"),
            (90_010, "gfx90a"),
            (100_300, "gfx1030"),
            (90_500, "gfx950"),
            (0, ""),
        ] {
            let partition = Partition {
                gfx,
                ..Partition::default()
            };
            assert_eq!(partition.architecture(), name);
        }
    }

    #[test]
    fn a_location_names_bus_and_device() {
        // bus 0xc1, device 0, function 5, which is the partition.
        assert_eq!(device_of("0000:c1:00.0"), Some((0, 0xC1 << 5)));
        assert_eq!((0xC105_u64 & 0xFFFF) >> 3, 0xC1 << 5);
    }
}
