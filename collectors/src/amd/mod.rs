//! AMD GPUs, by what the kernel driver amdgpu shows in sysfs. No library and no device file is opened: ROCm SMI and AMD
//! SMI read the same files, wait for locks without end and abort (docs/decisions/0023-amd-without-library.md).
//!
//! Never read: `pcie_bw`, which sleeps 1 s, and `xgmi_error`, whose read clears the state of a link.

mod engines;
mod files;
mod gpu;
pub mod gpu_metrics;
mod identity;
mod limits;
pub mod metrics;
mod page;
mod processes;
pub(crate) mod ras;
mod scan;
mod sensors;
mod short_energy;
mod throttle;
mod topology;

use std::time::Duration;

use crate::settings::Kind;
use crate::sys::root;
use crate::{Cadence, Env, Error, Settings, Source, Spec, domain};

/// The amd collector.
pub static SPEC: Spec = Spec {
    name: "amd",
    domain: &domain::AMD,
    metrics: &metrics::METRICS,
    events: &[],
    notes: false,
    // The driver answers from what the firmware returned up to 5 ms ago; concurrent scrapers share one reading.
    cadence: Cadence::OnDemand {
        fresh: Duration::from_millis(500),
    },
    slice: Duration::from_millis(500),
    deadline: Duration::from_secs(5),
    keys: KEYS,
    open,
};

crate::keys! {
    KEYS;
    ENABLED = "amd.enabled": Kind::Boolean, default "true", since "0.1.0",
        "Read AMD GPUs.";
    PROCESSES = "amd.processes": Kind::Boolean, default "false", since "0.1.0",
        "Serve one series for each process on a GPU. Processes are always read, to find the job that uses it.";
}

/// Absent while the driver is not loaded.
fn open(env: &Env, settings: &Settings) -> Result<Option<Source>, Error> {
    if !settings.get::<bool>(&ENABLED)? || !root::has_source(env, domain::AMD.only_with) {
        return Ok(None);
    }
    Ok(Some(Source {
        devices: Box::new(scan::AmdDevices::new(env, settings.get(&PROCESSES)?)),
        watcher: None,
    }))
}

/// For fuzzing: every parser of a text takes every text.
pub(crate) fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    ras::check(&text);
    topology::check(&text);
}

#[cfg(test)]
mod tests;
