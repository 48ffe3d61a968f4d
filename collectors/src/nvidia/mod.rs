//! NVIDIA GPUs, by the driver's library (NVML).
//!
//! A call of the driver may take 60 s or never return. So each GPU is a separate device, the library stays open,
//! and this worker process is never signalled. Unsupported queries are sent only once. A GPU that is lost or
//! rejected keeps its name and its place beside the others, with `gpu_up` 0.

mod call;
mod events;
mod fields;
mod gpm;
mod gpu;
mod identity;
mod instances;
mod inventory;
mod kernel;
mod limits;
pub mod metrics;
mod notes;
mod nvlink;
mod scan;
mod settings;
mod simple;

use std::sync::Arc;
use std::time::Duration;

use crate::event::{EventKind, XidSource};
use crate::sys::boot;
use crate::sys::nvml::{Code, Library};
use crate::{Cadence, Env, Error, Settings, Source, Spec, domain};

/// The nvidia collector.
pub static SPEC: Spec = Spec {
    name: "nvidia",
    domain: &domain::NVIDIA,
    metrics: &metrics::METRICS,
    events: &[
        EventKind::Identity,
        EventKind::Xid(XidSource::Nvml),
        EventKind::Driver,
    ],
    notes: true,
    // The driver's own samples are not younger than this; concurrent scrapers share one reading.
    cadence: Cadence::OnDemand {
        fresh: Duration::from_millis(500),
    },
    slice: Duration::from_millis(500),
    deadline: Duration::from_secs(5),
    keys: settings::KEYS,
    open,
};

/// Absent if no GPU has NVIDIA's driver.
fn open(env: &Env, settings: &Settings) -> Result<Option<Source>, Error> {
    let table = settings::NvidiaSettings::new(settings)?;
    let kernel = kernel::DriverFiles::new(env);
    let (path, named) = (table.library.as_str(), table.named);
    if !env.is_live() && !named {
        // A recording has no driver, unless it names a stand-in.
        return Ok(None);
    }
    if !named && !kernel.is_loaded() {
        // The library would load the module automatically, also in the middle of an upgrade.
        return Ok(None);
    }
    let library = Library::load(path).map_err(|error| Error::Driver {
        what: format!("{path}: {error}"),
        reason: "no_library",
        advice: "install the library of the loaded driver (libnvidia-ml), or set nvidia.library",
    })?;
    // A source that failed later was already opened.
    let opened = if library.is_open() { Ok(()) } else { library.init() };
    match opened {
        Ok(()) => {}
        Err(Code::DRIVER_NOT_LOADED | Code::GPU_NOT_FOUND)
            if !named && kernel.bound().is_some_and(|gpus| gpus.is_empty()) =>
        {
            return Ok(None);
        }
        Err(code) => return Err(init_error(code, kernel.lacks_device_files())),
    }
    let hostname = crate::gpu::identity::hostname(env);
    let inventory = Arc::new(inventory::Inventory::new(library, table, env));
    let boot = boot::boot_id(env)?;
    let watcher = events::DriverEvents::new(Arc::clone(&inventory), boot.clone());
    Ok(Some(Source {
        devices: Box::new(scan::Nvidia::new(kernel, hostname, boot, inventory)),
        watcher: Some(Box::new(watcher)),
    }))
}

/// The error of a library that cannot be initialised. Without device files its code says nothing of the driver: it lets
/// nvidia-modprobe(1) create them, which this worker may not start.
fn init_error(code: Code, lacks_device_files: bool) -> Error {
    if !lacks_device_files || code == Code::LIB_RM_VERSION_MISMATCH || code.reason() == "no_permission" {
        return driver_error(code);
    }
    Error::Driver {
        what: format!("NVIDIA's driver: {code}, and /dev/nvidiactl does not exist"),
        reason: "no_device_files",
        advice: "start nvidia-persistenced at boot, or run nvidia-smi once as root",
    }
}

/// The error for administrators of a driver that does not work at all.
fn driver_error(code: Code) -> Error {
    let advice = match code {
        Code::LIB_RM_VERSION_MISMATCH => {
            "the library was updated and the kernel module was not: reboot, or unload and load the module"
        }
        Code::DRIVER_NOT_LOADED => "load the kernel module nvidia",
        Code::GPU_NOT_FOUND => {
            "the kernel log says why the driver could not start them (NVRM: RmInitAdapter failed)"
        }
        Code::NO_PERMISSION | Code::OPERATING_SYSTEM => {
            "let the user nodewarden-nvidia open /dev/nvidiactl and /dev/nvidia*"
        }
        _ => "see the kernel log",
    };
    let reason = match code {
        Code::LIB_RM_VERSION_MISMATCH => "version_mismatch",
        code => code.reason(),
    };
    Error::Driver {
        what: format!("NVIDIA's driver: {code}"),
        reason,
        advice,
    }
}

#[cfg(test)]
mod tests;
