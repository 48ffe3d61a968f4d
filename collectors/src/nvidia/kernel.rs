//! What the kernel shows of GPUs and their driver, without asking the driver.

use std::path::PathBuf;

use super::identity::is_uuid;
use crate::sys::root;
use crate::{Env, PciAddress};

/// Where to look.
#[derive(Clone, Debug)]
pub(super) struct DriverFiles {
    functions: PathBuf,
    module: PathBuf,
    version: PathBuf,
    gpus: PathBuf,
    capabilities: PathBuf,
}

/// What tells that the driver, or what it made of the GPUs, has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DriverState {
    /// The loaded module: another number is another load.
    module: Option<u64>,
    version: Option<String>,
    /// The GPUs that the driver has bound, each with the number of its folder.
    gpus: Vec<root::Entry>,
    /// Their instances.
    instances: Vec<(String, Vec<root::Entry>)>,
}

impl DriverFiles {
    pub(super) fn new(env: &Env) -> Self {
        Self {
            functions: env.path("/sys/bus/pci/devices"),
            module: env.path("/sys/module/nvidia"),
            version: env.path("/proc/driver/nvidia/version"),
            gpus: env.path("/proc/driver/nvidia/gpus"),
            capabilities: env.path("/proc/driver/nvidia/capabilities"),
        }
    }

    /// Addresses of the GPUs that NVIDIA's driver has. `None`: no PCI bus is shown.
    pub(super) fn bound(&self) -> Option<Vec<String>> {
        let names = root::list(&self.functions).ok().flatten()?;
        let addresses = names
            .into_iter()
            .filter(|name| PciAddress::parse(name).is_some_and(|a| a.0 == *name))
            .filter(|name| self.is_gpu(name) && self.driver(name).as_deref() == Some("nvidia"))
            .filter(|name| !self.is_excluded(name));
        Some(addresses.collect())
    }

    /// Whether an administrator has told the driver to leave it alone (NVreg_ExcludedGpus): it stays bound and is not
    /// counted.
    fn is_excluded(&self, address: &str) -> bool {
        let word = self.information(address, "GPU Excluded:");
        word.is_some_and(|word| word.eq_ignore_ascii_case("yes"))
    }

    /// A line of what the driver tells the kernel of a GPU.
    fn information(&self, address: &str, key: &str) -> Option<String> {
        let text = root::read_text(&self.gpus.join(address).join("information")).ok()??;
        let value = text.lines().find_map(|line| line.strip_prefix(key))?;
        Some(value.trim().to_owned())
    }

    /// Whether there is a function at that address, of whatever kind.
    pub(super) fn is_there(&self, address: &str) -> bool {
        matches!(root::inode(&self.functions.join(address)), Ok(Some(_)))
    }

    fn is_gpu(&self, address: &str) -> bool {
        let file = |name: &str| {
            root::read_text(&self.functions.join(address).join(name))
                .ok()
                .flatten()
        };
        file("class").is_some_and(|c| c.starts_with("0x03")) && file("vendor").as_deref() == Some("0x10de")
    }

    fn driver(&self, address: &str) -> Option<String> {
        root::link_name(&self.functions.join(address).join("driver"))
            .ok()
            .flatten()
    }

    /// The UUID that the driver told the kernel of, which outlives the GPU.
    pub(super) fn uuid(&self, address: &str) -> Option<String> {
        let uuid = self.information(address, "GPU UUID:")?;
        is_uuid(&uuid).then_some(uuid)
    }

    /// The signs of now. What cannot be read is as if it were not there.
    pub(super) fn signs(&self) -> DriverState {
        let entries = |path: PathBuf| root::entries(&path).ok().flatten().unwrap_or_default();
        let instances = entries(self.capabilities.clone());
        DriverState {
            module: root::inode(&self.module).ok().flatten(),
            version: root::read_text(&self.version).ok().flatten(),
            gpus: entries(self.gpus.clone()),
            instances: instances
                .into_iter()
                .filter(|e| e.name.starts_with("gpu"))
                .map(|e| {
                    let mig = entries(self.capabilities.join(&e.name).join("mig"));
                    (e.name, mig)
                })
                .collect(),
        }
    }

    /// Whether the kernel's part of the driver is loaded.
    pub(super) fn is_loaded(&self) -> bool {
        matches!(root::inode(&self.module), Ok(Some(_))) || matches!(root::inode(&self.version), Ok(Some(_)))
    }
}

impl DriverState {
    /// Whether the driver was loaded anew in between.
    pub(super) fn is_reload(&self, before: &Self) -> bool {
        (self.module, &self.version) != (before.module, &before.version)
    }
}
