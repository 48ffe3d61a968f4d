//! The host itself: its boot, kernel, clock, processors, memory, modules and mounts, its memory controllers (EDAC), and what its
//! PCI bus shows: GPUs, driver or not, and the links of GPUs and RDMA devices.

mod attribute;
mod boot;
mod edac;
mod function;
pub(crate) mod link;
pub mod metrics;
mod modules;
pub mod mounts;
mod pci;
pub mod pcie;
pub(crate) mod slow;
pub(crate) mod system;

use std::time::Duration;

use crate::{Cadence, Device, Devices, Env, Error, Settings, Source, Spec, domain};

/// Whether a driver assigns functions to virtual machines: `vfio-pci`, or one for a kind of device, such as `mlx5_vfio_pci`.
pub fn is_vfio(driver: &str) -> bool {
    driver.contains("vfio")
}

/// The host collector.
pub static SPEC: Spec = Spec {
    name: "host",
    domain: &domain::HOST,
    metrics: metrics::METRICS,
    events: &[],
    notes: false,
    cadence: Cadence::OnDemand {
        fresh: Duration::from_secs(1),
    },
    slice: Duration::from_millis(500),
    deadline: Duration::from_secs(5),
    keys: &[],
    open,
};

fn open(env: &Env, _settings: &Settings) -> Result<Option<Source>, Error> {
    let files = attribute::OpenFiles::new(env);
    Ok(Some(Source {
        devices: Box::new(Host {
            controllers: edac::Controllers::new(env, &files),
            env: env.clone(),
            files,
        }),
        watcher: None,
    }))
}

struct Host {
    env: Env,
    files: attribute::OpenFiles,
    controllers: edac::Controllers,
}

impl Devices for Host {
    fn scan(&mut self) -> Result<Vec<Box<dyn Device>>, Error> {
        let mut devices: Vec<Box<dyn Device>> = vec![
            Box::new(boot::Boot::new(&self.env)),
            Box::new(system::System::new(&self.env, &self.files)),
            Box::new(modules::Modules::new(&self.env)),
            Box::new(mounts::Mounts::new(&self.env)),
        ];
        match self.controllers.scan() {
            Ok(found) => devices.extend(found.into_iter().map(|c| Box::new(c) as Box<dyn Device>)),
            // The known controllers are kept, and the scan is repeated.
            Err(error) if self.controllers.is_known() => return Err(error),
            // Boot and PCI do not depend on it, and `changed` detects when it can be listed.
            Err(error) => tracing::warn!(%error, "memory controllers cannot be listed"),
        }
        devices.push(Box::new(pci::PciBus::new(&self.env, &self.files)));
        Ok(devices)
    }

    fn changed(&mut self) -> bool {
        self.controllers.changed()
    }
}

#[cfg(test)]
mod tests;
