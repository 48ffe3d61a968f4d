//! Which GPU sits at an address: `NVRM: GPU at PCI:0000:3b:00: GPU-<uuid>`. The driver prints it before the first Xid of
//! a GPU, so a GPU keeps its name even where it can no longer be asked (NVIDIA's Xid documentation, "Xid messages").

use crate::{EventBody, PciAddress};

/// `GPU-` and a UUID of 36 characters.
const UUID: usize = 40;

/// Reads what follows `NVRM:`.
pub(super) fn parse(text: &str) -> Option<EventBody> {
    let rest = text.strip_prefix("GPU at PCI:")?;
    let (address, rest) = rest.split_once(": ")?;
    let uuid = rest.trim_end().get(..UUID)?;
    let digits = uuid.strip_prefix("GPU-")?;
    let whole = rest.trim_end().len() == UUID;
    let form = digits.char_indices().all(|(i, c)| match i {
        8 | 13 | 18 | 23 => c == '-',
        _ => c.is_ascii_hexdigit(),
    });
    let pci = PciAddress::parse(address)?;
    (whole && form).then(|| EventBody::Identity {
        pci,
        uuid: uuid.to_ascii_lowercase().replacen("gpu-", "GPU-", 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drivers_line_names_the_gpu_and_nothing_else_does() {
        let line = "GPU at PCI:0000:3b:00: GPU-6f1c2f0e-7a4d-4c55-9b7e-3d1a8e52c0f4";
        let Some(EventBody::Identity { pci, uuid }) = parse(line) else {
            panic!("not read")
        };
        assert_eq!(
            (pci.0.as_str(), uuid.as_str()),
            ("0000:3b:00.0", "GPU-6f1c2f0e-7a4d-4c55-9b7e-3d1a8e52c0f4")
        );
        for other in [
            "GPU at PCI:0000:3b:00: GPU-6f1c2f0e-7a4d-4c55-9b7e-3d1a8e52c0f",
            "GPU at PCI:0000:3b:00: GPU-6f1c2f0e-7a4d-4c55-9b7e-3d1a8e52c0f4 and more",
            "GPU at PCI:0000:3b:00: GPU-6f1c2f0e 7a4d-4c55-9b7e-3d1a8e52c0f4",
            "GPU at PCI:nonsense: GPU-6f1c2f0e-7a4d-4c55-9b7e-3d1a8e52c0f4",
            "GPU at PCI:0000:17:00.0 has fallen off the bus.",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
