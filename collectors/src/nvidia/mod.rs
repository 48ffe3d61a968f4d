//! NVIDIA's GPUs, by the library of their driver (NVML).
//!
//! A call into the driver may take a minute, or never come back. So each GPU is a device of its own, the library is never
//! shut down, and this worker process is never signalled.

pub mod metrics;
mod settings;

use std::time::Duration;

use crate::{Cadence, Env, Error, Settings, Source, Spec, domain};

/// The nvidia collector.
pub static SPEC: Spec = Spec {
    name: "nvidia",
    domain: &domain::NVIDIA,
    metrics: &metrics::METRICS,
    events: true,
    // The driver's own samples are not younger than this; two scrapers at once cost one reading.
    cadence: Cadence::OnDemand {
        fresh: Duration::from_millis(500),
    },
    slice: Duration::from_millis(500),
    deadline: Duration::from_secs(5),
    validate: |settings| settings.get::<settings::Table>().map(drop),
    open,
};

fn open(_env: &Env, settings: &Settings) -> Result<Option<Source>, Error> {
    let _table: settings::Table = settings.get()?;
    Ok(None)
}
