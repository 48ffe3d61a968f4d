//! The `gpu` label of a kernel-log line, which names a PCI address only.

use std::collections::BTreeMap;

use collectors::PciAddress;

/// The GPU at each PCI address, by UUID, as a driver named it. Kept over restarts: a GPU that has fallen off the bus
/// can no longer be asked.
pub type Inventory = BTreeMap<PciAddress, String>;

/// The `gpu` label: the UUID, or `pci:<address>` for a GPU that no driver ever named.
pub fn gpu_label(inventory: &Inventory, pci: &PciAddress) -> String {
    inventory
        .get(pci)
        .cloned()
        .unwrap_or_else(|| format!("pci:{pci}"))
}
