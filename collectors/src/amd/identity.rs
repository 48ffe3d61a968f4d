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
    // First: where it is there, all others are.
    let minor = minor(files).unwrap_or_default();
    let text = |name: &str| files.text(name).unwrap_or_default();
    let unique = text("unique_id");
    let (name, device) = (name(files), text("device"));
    let (serial, part, vbios) = (
        text("serial_number"),
        text("product_number"),
        text("vbios_version"),
    );
    Identity {
        gpu: label(&unique, pci),
        pci: pci.to_owned(),
        index: index.to_string(),
        minor,
        // Of others, the PCI device is what is known.
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

/// The number of its render node, which the driver makes last: after the files of its identity (amdgpu_device.c,
/// `amdgpu_device_init()`, then amdgpu_drv.c, `amdgpu_pci_probe()`).
pub(super) fn minor(files: &GpuFiles) -> Option<String> {
    let minor = |name: String| Some(name.strip_prefix("renderD")?.to_owned());
    files.list("drm").into_iter().find_map(minor)
}

/// Compute GPUs and their virtual functions, by PCI device. Source: `data/amdgpu.ids` of libdrm, and pci.ids.
const NAMES: [(&str, &str); 19] = [
    ("0x738c", "AMD Instinct MI100"),
    ("0x738e", "AMD Instinct MI100"),
    ("0x7408", "AMD Instinct MI250X"),
    ("0x740c", "AMD Instinct MI250X / MI250"),
    ("0x740f", "AMD Instinct MI210"),
    ("0x74a0", "AMD Instinct MI300A"),
    ("0x74a1", "AMD Instinct MI300X"),
    ("0x74a2", "AMD Instinct MI308X"),
    ("0x74a5", "AMD Instinct MI325X"),
    ("0x74a8", "AMD Instinct MI308X HF"),
    ("0x74a9", "AMD Instinct MI300X HF"),
    ("0x74b5", "AMD Instinct MI300X VF"),
    ("0x74b6", "AMD Instinct MI308X"),
    ("0x74b9", "AMD Instinct MI325X VF"),
    ("0x74bd", "AMD Instinct MI300X HF"),
    ("0x75a0", "AMD Instinct MI350X"),
    ("0x75a3", "AMD Instinct MI355X"),
    ("0x75b0", "AMD Instinct MI350X VF"),
    ("0x75b3", "AMD Instinct MI355X VF"),
];

/// The name of the product. A virtual function cannot read its FRU. Empty if unknown.
pub(super) fn name(files: &GpuFiles) -> String {
    files.text("product_name").unwrap_or_else(|| {
        let device = files.text("device").unwrap_or_default();
        let known = NAMES.iter().find(|(id, _)| *id == device);
        known.map_or_else(String::new, |(_, name)| (*name).to_owned())
    })
}

/// The number in `unique_id`. Zeros are none.
fn number(unique: &str) -> Option<u64> {
    let is_id = unique.len() <= 16 && unique.bytes().all(|b| b.is_ascii_hexdigit());
    let id = u64::from_str_radix(unique, 16).ok()?;
    (is_id && id > 0).then_some(id)
}

/// The label of a GPU.
pub(super) fn label(unique: &str, pci: &str) -> String {
    number(unique).map_or_else(|| nameless(pci), |id| format!("GPU-{id:016x}"))
}

/// The UUID that AMD SMI makes of the number and the PCI device (`0x74a1`): with the fixed function 0xff, version 1 and
/// variant 2. Empty without one of the two. Source: `amdsmi_uuid_gen` of ROCm/amdsmi.
pub(super) fn uuid(unique: &str, device: &str) -> String {
    let device = device.strip_prefix("0x");
    let device = device.and_then(|hex| u16::from_str_radix(hex, 16).ok());
    let Some((id, device)) = number(unique).zip(device) else {
        return String::new();
    };
    let [first, second, ..] = id.to_be_bytes();
    let rest = id & 0xFFFF_FFFF_FFFF;
    format!("{first:02x}ff{device:04x}-0000-1000-80{second:02x}-{rest:012x}")
}

#[cfg(test)]
mod tests {
    use super::{label, uuid};

    #[test]
    fn a_gpu_is_named_by_its_id_and_without_one_by_its_address() {
        assert_eq!(label("7d2b3c4d5e6f7081", "0000:c1:00.0"), "GPU-7d2b3c4d5e6f7081");
        assert_eq!(label("2b3c", "0000:c1:00.0"), "GPU-0000000000002b3c");
        for none in ["", "0", "0000000000000000", "0xffff", "+ff", "11112222333344445"] {
            assert_eq!(label(none, "0000:c1:00.0"), "pci:0000:c1:00.0", "{none}");
            assert_eq!(uuid(none, "0x740f"), "", "{none}");
        }
    }

    #[test]
    fn the_uuid_is_that_of_amd_smi() {
        let id = "724c3b58bf67050e";
        assert_eq!(uuid(id, "0x740f"), "72ff740f-0000-1000-804c-3b58bf67050e");
        for device in ["", "740f", "0x1740f", "0x"] {
            assert_eq!(uuid(id, device), "", "{device}");
        }
    }
}
