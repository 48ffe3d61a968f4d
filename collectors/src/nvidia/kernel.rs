//! Properties of GPUs and their driver that the kernel shows, without a call of the driver.

use std::path::{Path, PathBuf};

use super::identity::is_uuid;
use crate::sys::root;
use crate::{Env, PciAddress};

/// The paths.
#[derive(Clone, Debug)]
pub(super) struct DriverFiles {
    functions: PathBuf,
    module: PathBuf,
    version: PathBuf,
    gpus: PathBuf,
    capabilities: PathBuf,
    devices: PathBuf,
    /// The device file that the library opens first. It does not know of other trees.
    pub(super) control: Option<PathBuf>,
}

/// State whose change means that the driver or its GPUs changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DriverState {
    /// The inode of the loaded module: another inode is another load.
    module: Option<u64>,
    version: Option<String>,
    /// The GPUs bound to the driver, each with the inode of its folder.
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
            devices: env.path("/dev"),
            control: Some(env.path("/dev/nvidiactl")).filter(|path| path == Path::new("/dev/nvidiactl")),
        }
    }

    /// Addresses of the GPUs bound to NVIDIA's driver. `None`: no PCI bus.
    pub(super) fn bound(&self) -> Option<Vec<String>> {
        let names = root::list(&self.functions).ok().flatten()?;
        let addresses = names
            .into_iter()
            .filter(|name| PciAddress::parse(name).is_some_and(|a| a.0 == *name))
            .filter(|name| self.is_gpu(name) && self.driver(name).as_deref() == Some("nvidia"))
            .filter(|name| !self.is_excluded(name));
        Some(addresses.collect())
    }

    /// Whether an administrator excluded the GPU from the driver (NVreg_ExcludedGpus): it stays bound and is not
    /// counted.
    fn is_excluded(&self, address: &str) -> bool {
        let word = self.information(address, "GPU Excluded:");
        word.is_some_and(|word| word.eq_ignore_ascii_case("yes"))
    }

    /// Whether the GPU is that of another container: it has no device file here, or no folder of the driver, and another one has.
    pub(super) fn is_of_others(&self, address: &str) -> bool {
        let Some(minor) = self.information(address, "Device Minor:") else {
            // NVIDIA's container runtime shows the folders of its own GPUs only.
            let is_absent = matches!(root::inode(&self.gpus.join(address)), Ok(None));
            return is_absent
                && root::list(&self.gpus).is_ok_and(|all| all.is_some_and(|all| !all.is_empty()));
        };
        let names = root::list(&self.devices).ok().flatten().unwrap_or_default();
        let numbers = names.iter().filter_map(|name| name.strip_prefix("nvidia"));
        let mut numbers = numbers.filter(|rest| rest.parse::<u32>().is_ok()).peekable();
        numbers.peek().is_some() && numbers.all(|number| number != minor)
    }

    /// A line of the driver's information file about a GPU.
    fn information(&self, address: &str, key: &str) -> Option<String> {
        let text = root::read_text(&self.gpus.join(address).join("information")).ok()??;
        let value = text.lines().find_map(|line| line.strip_prefix(key))?;
        Some(value.trim().to_owned())
    }

    /// Whether any function exists at that address.
    pub(super) fn is_there(&self, address: &str) -> bool {
        matches!(root::inode(&self.functions.join(address)), Ok(Some(_)))
    }

    fn is_gpu(&self, address: &str) -> bool {
        let file = |name: &str| {
            root::read_text(&self.functions.join(address).join(name))
                .ok()
                .flatten()
        };
        file("class").is_some_and(|c| c.starts_with("0x03"))
            && file("vendor").as_deref() == Some("0x10de")
            && !self.is_virtual(address)
    }

    /// A virtual function of SR-IOV, a share of another GPU: on a vGPU host it is bound to the driver, whose library does not
    /// know it. In a guest the link is absent.
    fn is_virtual(&self, address: &str) -> bool {
        let physical = root::link_name(&self.functions.join(address).join("physfn"));
        matches!(physical, Ok(Some(_)))
    }

    fn driver(&self, address: &str) -> Option<String> {
        root::link_name(&self.functions.join(address).join("driver"))
            .ok()
            .flatten()
    }

    /// The UUID in the driver's information file, which outlives the GPU.
    pub(super) fn uuid(&self, address: &str) -> Option<String> {
        let uuid = self.information(address, "GPU UUID:")?;
        is_uuid(&uuid).then_some(uuid)
    }

    /// The current state. Unreadable parts count as absent.
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

    /// Whether the module is loaded and no program has created its device files yet.
    pub(super) fn lacks_device_files(&self) -> bool {
        let control = self.control.as_deref();
        self.is_loaded() && control.is_some_and(|path| matches!(root::inode(path), Ok(None)))
    }

    /// Whether the kernel module is loaded.
    pub(super) fn is_loaded(&self) -> bool {
        matches!(root::inode(&self.module), Ok(Some(_))) || matches!(root::inode(&self.version), Ok(Some(_)))
    }
}

impl DriverState {
    /// Whether the driver was reloaded in between.
    pub(super) fn is_reload(&self, before: &Self) -> bool {
        (self.module, &self.version) != (before.module, &before.version)
    }
}
