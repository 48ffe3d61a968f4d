//! The name and properties of a GPU, as the library gives them.

use crate::PciAddress;
use crate::gpu::identity::{Identity, nameless};
use crate::sys::nvml::{Code, Handle, Library, PciInfo};

/// Architectures by the library's numbers.
const NAMES: [(u32, &str); 10] = [
    (2, "kepler"),
    (3, "maxwell"),
    (4, "pascal"),
    (5, "volta"),
    (6, "turing"),
    (7, "ampere"),
    (8, "ada"),
    (9, "hopper"),
    (10, "blackwell"),
    (13, "rubin"),
];

/// The label of a GPU of which only the driver's index is known begins with this.
const UNNAMED: &str = "index:";

/// An address in sysfs format.
pub(super) fn address(pci: &PciInfo) -> Option<String> {
    let (domain, bus, device) = pci.address;
    PciAddress::parse(&format!("{domain:04x}:{bus:02x}:{device:02x}")).map(|a| a.0)
}

/// As the driver writes it, `00000000:3B:00.0`, which other exporters show.
pub(super) fn long_address(pci: &str) -> String {
    let long = match pci.split_once(':') {
        Some((domain, rest)) => format!("{domain:0>8}:{rest}"),
        None => String::new(),
    };
    long.to_ascii_uppercase()
}

impl Identity {
    /// Queries the driver. Only the UUID is mandatory.
    pub(super) fn ask(library: &Library, device: Handle, index: u32, driver: &str) -> Result<Self, Code> {
        let gpu = library.uuid(device)?;
        let pci = library.pci(device).ok().as_ref().and_then(address);
        let text = |answer: Result<String, Code>| answer.unwrap_or_default();
        let number = library.architecture(device).unwrap_or(u32::MAX);
        let architecture = NAMES
            .iter()
            .find(|(n, _)| *n == number)
            .map_or(String::new(), |(_, name)| (*name).to_owned());
        Ok(Self {
            gpu: if is_uuid(&gpu) {
                gpu
            } else {
                nameless(pci.as_deref().unwrap_or(""))
            },
            pci: pci.unwrap_or_default(),
            index: index.to_string(),
            minor: library.minor(device).map_or(String::new(), |n| n.to_string()),
            name: text(library.name(device)),
            serial: text(library.serial(device)),
            part: text(library.part(device)),
            vbios: text(library.vbios(device)),
            driver: driver.to_owned(),
            architecture,
        })
    }

    /// All of its properties.
    pub(super) fn texts(&self) -> [&String; 10] {
        let i = self;
        [
            &i.gpu,
            &i.pci,
            &i.index,
            &i.minor,
            &i.name,
            &i.serial,
            &i.part,
            &i.vbios,
            &i.driver,
            &i.architecture,
        ]
    }

    /// Fills properties that a GPU did not report while it was being lost from those known before.
    pub(super) fn fill(&mut self, before: &Self) {
        for (text, known) in [
            (&mut self.pci, &before.pci),
            (&mut self.name, &before.name),
            (&mut self.serial, &before.serial),
            (&mut self.part, &before.part),
            (&mut self.vbios, &before.vbios),
            (&mut self.architecture, &before.architecture),
        ] {
            if text.is_empty() {
                text.clone_from(known);
            }
        }
    }

    /// Whether only its index is known.
    pub(super) fn is_unnamed(&self) -> bool {
        self.gpu.starts_with(UNNAMED)
    }

    /// A GPU of which only the driver's index is known.
    pub(super) fn of_index(index: u32, driver: &str) -> Self {
        Self {
            gpu: format!("{UNNAMED}{index}"),
            index: index.to_string(),
            driver: driver.to_owned(),
            ..Self::default()
        }
    }

    /// A GPU of which only the address is known.
    pub(super) fn at(pci: &str, uuid: Option<String>, driver: &str) -> Self {
        Self {
            gpu: uuid.unwrap_or_else(|| nameless(pci)),
            pci: pci.to_owned(),
            driver: driver.to_owned(),
            ..Self::default()
        }
    }
}

/// Whether this is a UUID as the driver writes it, and not a placeholder.
pub(super) fn is_uuid(text: &str) -> bool {
    text.strip_prefix("GPU-")
        .is_some_and(|digits| digits.len() == 36 && digits.chars().all(|c| c.is_ascii_hexdigit() || c == '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_the_kernel_and_as_the_driver_write_them() {
        let pci = PciInfo {
            address: (0, 0x3b, 0),
        };
        assert_eq!(address(&pci).as_deref(), Some("0000:3b:00.0"));
        assert_eq!(long_address("0000:3b:00.0"), "00000000:3B:00.0");
        assert_eq!(long_address("0008:01:00.0"), "00000008:01:00.0");
        assert_eq!(long_address(""), "");
    }

    #[test]
    fn only_a_uuid_names_a_gpu() {
        assert!(is_uuid("GPU-6f1c2f0e-7a4d-4c55-9b7e-3d1a8e52c0f4"));
        for other in [
            "",
            "GPU-",
            "MIG-6f1c2f0e-7a4d-4c55-9b7e-3d1a8e52c0f4",
            "GPU-????????-????-????-????-????????????",
        ] {
            assert!(!is_uuid(other), "{other}");
        }
    }
}
