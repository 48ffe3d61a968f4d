//! The name and properties of a GPU, as the driver's files give them.

use super::files::GpuFiles;
use super::topology::Partition;
use crate::gpu::identity::{Identity, nameless};

/// Reads them. `index`: its position among the GPUs of the driver, by address.
pub(super) fn read(
    files: &GpuFiles,
    (pci, index): (&str, usize),
    driver: &str,
    partitions: &[Partition],
) -> Identity {
    let text = |name: &str| files.text(name).unwrap_or_default();
    let unique = text("unique_id");
    let (name, serial, part) = (
        text("product_name"),
        text("serial_number"),
        text("product_number"),
    );
    let (vbios, device) = (text("vbios_version"), text("device"));
    let minor = |name: String| Some(name.strip_prefix("renderD")?.to_owned());
    Identity {
        gpu: label(&unique, pci),
        pci: pci.to_owned(),
        index: index.to_string(),
        minor: files.list("drm").into_iter().find_map(minor).unwrap_or_default(),
        // Without a readable FRU, the PCI device is what is known.
        name: if name.is_empty() { device } else { name },
        serial,
        part,
        vbios,
        driver: driver.to_owned(),
        architecture: partitions
            .first()
            .map(Partition::architecture)
            .unwrap_or_default(),
    }
}

/// The label of a GPU. An id of zeros is none.
pub(super) fn label(unique: &str, pci: &str) -> String {
    let is_id = unique.len() <= 16 && unique.bytes().all(|b| b.is_ascii_hexdigit());
    match u64::from_str_radix(unique, 16) {
        Ok(id) if is_id && id > 0 => format!("GPU-{id:016x}"),
        _ => nameless(pci),
    }
}

#[cfg(test)]
mod tests {
    use super::label;

    #[test]
    fn a_gpu_is_named_by_its_id_and_without_one_by_its_address() {
        assert_eq!(label("7d2b3c4d5e6f7081", "0000:c1:00.0"), "GPU-7d2b3c4d5e6f7081");
        assert_eq!(label("2b3c", "0000:c1:00.0"), "GPU-0000000000002b3c");
        for none in ["", "0", "0000000000000000", "0xffff", "+ff", "11112222333344445"] {
            assert_eq!(label(none, "0000:c1:00.0"), "pci:0000:c1:00.0", "{none}");
        }
    }
}
