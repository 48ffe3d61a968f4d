//! The controllers that the kernel lists: /sys/class/nvme.

use std::path::PathBuf;

use super::label;
use crate::sys::root;
use crate::{Env, Error, PciAddress};

/// The folder of controllers.
const FOLDER: &str = "/sys/class/nvme";

/// One controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Controller {
    /// Its name, such as `nvme0`; another inode is another controller with an old name.
    pub(super) entry: root::Entry,
    /// `pcie`, `tcp`, `rdma`, `fc`, `loop`; empty if not readable.
    pub(super) transport: String,
    /// The PCI address of a local drive. `None`: one behind a network.
    pub(super) pci: Option<String>,
}

impl Controller {
    /// Its folder.
    pub(super) fn folder(&self, env: &Env) -> PathBuf {
        env.path(FOLDER).join(&self.entry.name)
    }

    /// The values of the labels `device` and `pci`.
    pub(super) fn labels(&self) -> [&str; 2] {
        [&self.entry.name, self.pci.as_deref().unwrap_or_default()]
    }
}

/// N of `nvmeN`. `None`: another name.
pub(super) fn number(name: &str) -> Option<u32> {
    let number: u32 = name.strip_prefix("nvme")?.parse().ok()?;
    (name == format!("nvme{number}")).then_some(number)
}

/// All controllers, by name. None where the driver is not loaded.
///
/// # Errors
/// When the folder exists and cannot be listed.
pub(super) fn all(env: &Env) -> Result<Vec<Controller>, Error> {
    let folder = env.path(FOLDER);
    let entries = root::entries(&folder)?.unwrap_or_default();
    let named = entries.into_iter().filter(|entry| number(&entry.name).is_some());
    let controller = |entry: root::Entry| {
        let own = folder.join(&entry.name);
        let transport = label(&own.join("transport"));
        let pci = (transport == "pcie").then(|| address(&own)).flatten();
        Controller {
            entry,
            transport,
            pci,
        }
    };
    Ok(named.map(controller).collect())
}

/// By the attribute `address`, else by the device behind the controller.
fn address(folder: &std::path::Path) -> Option<String> {
    let by_link = || root::link_name(&folder.join("device")).ok().flatten();
    let parse = |text: &str| PciAddress::parse(text).map(|pci| pci.0);
    parse(&label(&folder.join("address"))).or_else(|| parse(&by_link()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_controllers_have_numbers() {
        assert_eq!(number("nvme0"), Some(0));
        assert_eq!(number("nvme4294967295"), Some(u32::MAX));
        for name in [
            "nvme",
            "nvme0n1",
            "nvme0c0n1",
            "nvme+1",
            "nvme01",
            "nvme4294967296",
            "sda",
        ] {
            assert_eq!(number(name), None, "{name}");
        }
    }
}
