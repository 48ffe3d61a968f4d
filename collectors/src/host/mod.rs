//! The host itself: its boot, its memory controllers (EDAC) and the GPUs that its PCI bus shows, driver or not.

mod attribute;
mod boot;
mod edac;
mod function;
pub mod metrics;
mod pci;
mod slow;

use std::time::Duration;

use serde::Deserialize;

use crate::{Cadence, Device, Devices, Env, Error, Settings, Source, Spec, domain};

/// The host collector.
pub static SPEC: Spec = Spec {
    name: "host",
    domain: &domain::HOST,
    metrics: metrics::METRICS,
    events: false,
    cadence: Cadence::OnDemand {
        fresh: Duration::from_secs(1),
    },
    slice: Duration::from_millis(500),
    deadline: Duration::from_secs(5),
    validate: |settings| settings.get::<Table>().map(drop),
    open,
};

/// The `host` table of the configuration: nothing to set, so that a misspelt key is an error from the first version on.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {}

fn open(env: &Env, settings: &Settings) -> Result<Option<Source>, Error> {
    settings.get::<Table>()?;
    Ok(Some(Source {
        devices: Box::new(Host { env: env.clone() }),
        watcher: None,
    }))
}

struct Host {
    env: Env,
}

impl Devices for Host {
    fn scan(&mut self) -> Result<Vec<Box<dyn Device>>, Error> {
        let mut devices: Vec<Box<dyn Device>> = vec![Box::new(boot::Boot::new(&self.env))];
        match edac::controllers(&self.env) {
            Ok(found) => devices.extend(found.into_iter().map(|c| Box::new(c) as Box<dyn Device>)),
            // Boot and PCI do not depend on it.
            Err(error) => tracing::warn!(%error, "memory controllers cannot be listed"),
        }
        devices.push(Box::new(pci::Pci::new(&self.env)));
        Ok(devices)
    }
}

#[cfg(test)]
mod tests;
