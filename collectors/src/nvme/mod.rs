//! NVMe controllers: identity and state by sysfs, and the SMART / Health Information log of local drives, which a helper
//! reads. The log is a command to the drive, so it is read every 5 min and never for a scrape.

mod controller;
mod drive;
mod list;
pub mod metrics;
pub(crate) mod smart;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::settings::Kind;
use crate::sys::root;
use crate::{Cadence, Device, Devices, Env, Error, Settings, Source, Spec, domain};
use controller::Controller;
use drive::{Drive, LogSource, SharedLog, Turn};
use list::List;
use metrics::METRICS;

/// The nvme collector.
pub static SPEC: Spec = Spec {
    name: "nvme",
    domain: &domain::MOUNTS,
    metrics: METRICS,
    events: &[],
    notes: false,
    cadence: Cadence::Every(Duration::from_secs(60)),
    slice: Duration::from_millis(500),
    deadline: Duration::from_secs(5),
    keys: KEYS,
    open,
};

/// Maximum number of drives whose logs are read.
const MOST: usize = 128;

crate::keys! {
    KEYS;
    SMART = "nvme.smart": Kind::Boolean, default "true", since "0.1.0",
        "Read the SMART log of local NVMe drives every 5 min, by a helper with CAP_SYS_ADMIN. False: only state and temperature.";
}

/// Whether a node has local drives whose logs the site wants.
pub(crate) fn wants_helper(env: &Env, settings: &Settings) -> bool {
    let is_wanted = settings.get::<bool>(&SMART).unwrap_or(false);
    is_wanted && controller::all(env).is_ok_and(|all| all.iter().any(|c| c.pci.is_some()))
}

/// Absent where the kernel lists no controller.
fn open(env: &Env, settings: &Settings) -> Result<Option<Source>, Error> {
    let source = LogSource::new(env, settings.get(&SMART)?);
    if controller::all(env)?.is_empty() {
        return Ok(None);
    }
    Ok(Some(Source {
        devices: Box::new(Controllers {
            env: env.clone(),
            source,
            opened: Instant::now(),
            known: Vec::new(),
            logs: BTreeMap::new(),
        }),
        watcher: None,
    }))
}

struct Controllers {
    env: Env,
    source: LogSource,
    opened: Instant,
    known: Vec<Controller>,
    /// By PCI address and inode: the kernel's numbers change, and another drive in a slot is another device.
    logs: BTreeMap<(String, u64), SharedLog>,
}

impl Devices for Controllers {
    fn scan(&mut self) -> Result<Vec<Box<dyn Device>>, Error> {
        self.known = controller::all(&self.env)?;
        let mut logs = BTreeMap::new();
        let local = self.known.iter().filter_map(|c| Some((c, c.pci.as_ref()?)));
        let all = local.clone().count();
        let (drives, omitted) = (all.min(MOST), all.saturating_sub(MOST));
        let mut devices: Vec<Box<dyn Device>> = vec![Box::new(List::new(&self.env, omitted))];
        for (place, (controller, pci)) in local.enumerate() {
            if place == MOST {
                tracing::warn!(
                    limit = MOST,
                    "more NVMe drives than the limit; their logs are not read"
                );
                break;
            }
            let key = (pci.clone(), controller.entry.inode);
            let known = self.logs.get(&key).cloned().unwrap_or_default();
            logs.insert(key, Arc::clone(&known));
            devices.push(Box::new(Drive::new(
                &self.env,
                controller,
                pci,
                self.source,
                Turn::new(self.opened, place, drives),
                known,
            )));
        }
        self.logs = logs;
        Ok(devices)
    }

    fn changed(&mut self) -> bool {
        controller::all(&self.env).is_ok_and(|now| now != self.known)
    }
}

/// An attribute that becomes a label: empty if it is not there or not readable.
fn label(path: &std::path::Path) -> String {
    let text = root::read_lossy(path).unwrap_or_else(|error| {
        tracing::debug!(%error, "left out");
        None
    });
    let text = text.unwrap_or_default();
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}

#[cfg(test)]
mod tests;
