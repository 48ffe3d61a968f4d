//! The name of a GPU, and its properties that stay the same while the driver has it.

use super::files::GpuFiles;
use super::topology::Partition;

/// The properties of a GPU, known whether it answers or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    /// The `gpu` label: `GPU-<unique_id>`, as ROCr names it, or `pci:<address>` without one.
    pub(super) gpu: String,
    pub(super) pci: String,
    /// Its position among the GPUs of the driver, by address.
    pub(super) index: String,
    /// The minor number of its render node.
    pub(super) minor: String,
    pub(super) name: String,
    pub(super) serial: String,
    pub(super) part: String,
    pub(super) vbios: String,
    pub(super) driver: String,
    pub(super) architecture: String,
}

impl Identity {
    pub(super) fn read(
        files: &GpuFiles,
        (pci, index): (&str, usize),
        driver: &str,
        partitions: &[Partition],
    ) -> Self {
        let text = |name: &str| files.text(name).unwrap_or_default();
        let unique = text("unique_id");
        let (name, serial, part) = (
            text("product_name"),
            text("serial_number"),
            text("product_number"),
        );
        let (vbios, device) = (text("vbios_version"), text("device"));
        let minor = |name: String| Some(name.strip_prefix("renderD")?.to_owned());
        Self {
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
}

/// The label of a GPU. An id of zeros is none.
pub(super) fn label(unique: &str, pci: &str) -> String {
    let is_id = unique.len() <= 16 && unique.bytes().all(|b| b.is_ascii_hexdigit());
    match u64::from_str_radix(unique, 16) {
        Ok(id) if is_id && id > 0 => format!("GPU-{id:016x}"),
        _ => format!("pci:{pci}"),
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
