//! What kind of PCI function one is: a GPU or something else. None of it changes while the function is there.

use std::path::Path;

use super::attribute;
use crate::PciAddress;
use crate::sys::root;

/// Who made a GPU. Only these count: a display function of any other vendor is the console of a management controller
/// (ASPEED, Matrox) or a virtual machine's screen, and other vendors' accelerators are no GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vendor {
    Nvidia,
    Amd,
    Intel,
}

impl Vendor {
    pub(super) const ALL: [Self; 3] = [Self::Nvidia, Self::Amd, Self::Intel];

    fn of(id: u32) -> Option<Self> {
        match id {
            0x10de => Some(Self::Nvidia),
            0x1002 => Some(Self::Amd),
            0x8086 => Some(Self::Intel),
            _ => None,
        }
    }

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Nvidia => "nvidia",
            Self::Amd => "amd",
            Self::Intel => "intel",
        }
    }
}

/// A GPU's fixed facts, in sysfs's own spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PciGpu {
    pub(super) vendor: Vendor,
    pub(super) vendor_id: String,
    pub(super) device_id: String,
    pub(super) class: String,
    /// A virtual function of SR-IOV: a share of another GPU, so it is listed but not counted.
    pub(super) is_virtual: bool,
}

/// What a PCI function is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PciFunction {
    Gpu(PciGpu),
    /// A physical network controller, which may be an RDMA device once its driver says so.
    Network,
    /// Anything else: bridges (NVSwitch is one: class 0x0680), storage, consoles, virtual network functions.
    Other,
    /// There, but it could not be found out. The number of GPUs is then not known either.
    Unknown,
}

impl PciFunction {
    /// Looks at one folder of /sys/bus/pci/devices. `None`: the function has left.
    pub(super) fn read(folder: &Path, address: &PciAddress) -> Option<Self> {
        let class = identifier(&folder.join("class"))?;
        if class.as_ref().is_ok_and(|c| c.value >> 16 == 0x02) {
            // A virtual function has no link of its own.
            let physical = matches!(root::link_name(&folder.join("physfn")), Ok(None));
            return Some(if physical { Self::Network } else { Self::Other });
        }
        // Base classes: 0x03 display controller, 0x12 processing accelerator (AMD Instinct).
        if class
            .as_ref()
            .is_ok_and(|c| !matches!(c.value >> 16, 0x03 | 0x12))
        {
            return Some(Self::Other);
        }
        let id = identifier(&folder.join("vendor"))?;
        let vendor = id.as_ref().map(|v| Vendor::of(v.value)).map_err(|e| *e);
        // Parts of the processor: Intel's graphics and neural units on the root bus, and AMD's graphics.
        let in_processor = match vendor {
            Ok(Some(Vendor::Intel)) => address.0.split(':').nth(1) == Some("00"),
            Ok(Some(Vendor::Amd)) => is_display(class.as_ref()) && has_processor_beside(folder),
            _ => false,
        };
        if vendor == Ok(None) || in_processor {
            return Some(Self::Other);
        }
        let device = identifier(&folder.join("device"))?;
        let physical = root::link_name(&folder.join("physfn"));
        let (Ok(class), Ok(id), Ok(Some(vendor)), Ok(physical)) = (class, id, vendor, physical) else {
            return Some(Self::Unknown);
        };
        Some(Self::Gpu(PciGpu {
            vendor,
            vendor_id: id.text,
            device_id: device.map_or_else(|NoIdentifier| String::new(), |d| d.text),
            class: class.text,
            is_virtual: physical.is_some(),
        }))
    }
}

/// Whether its base class is that of display controllers, and not that of accelerators.
fn is_display(class: Result<&Identifier, &NoIdentifier>) -> bool {
    class.is_ok_and(|class| class.value >> 16 == 0x03)
}

/// Whether the same PCI device has functions of AMD's processors (USB, security): the graphics of a processor have, and all functions
/// of a card are those of its GPU's maker. Their bus is not the root bus, and their class is that of some cards.
fn has_processor_beside(folder: &Path) -> bool {
    let Some(slot) = folder.to_str().and_then(|path| path.strip_suffix(".0")) else {
        return false;
    };
    (1..8).any(|function| {
        let vendor = identifier(Path::new(&format!("{slot}.{function}/vendor")));
        matches!(vendor, Some(Ok(id)) if id.value == 0x1022)
    })
}

/// A hexadecimal attribute and its text.
struct Identifier {
    value: u32,
    text: String,
}

/// The file is there and holds no identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NoIdentifier;

/// An identifier. `None`: the file is not there.
fn identifier(path: &Path) -> Option<Result<Identifier, NoIdentifier>> {
    match root::read_text(path) {
        Ok(text) => text.map(|text| {
            let value = attribute::hex(&text).ok_or(NoIdentifier)?;
            Ok(Identifier { value, text })
        }),
        Err(error) => {
            tracing::debug!(%error, "left out");
            Some(Err(NoIdentifier))
        }
    }
}
