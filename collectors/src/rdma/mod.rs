//! Ports of InfiniBand, RoCE and other RDMA devices, by sysfs; their hardware's counters by netlink where it has them.
//!
//! A reading may block for a minute in the kernel while a driver waits for its firmware, so each port is a device of
//! its own. What one file does not tell costs that value only.

mod attribute;
mod counter;
mod facts;
mod function;
pub mod metrics;
mod port;
mod scan;
mod settings;
mod stats;
pub(crate) mod text;

use std::time::Duration;

use crate::sys::kept::Budget;
use crate::sys::netlink;
use crate::{Cadence, Env, Error, Settings, Source, Spec, domain};

/// The rdma collector.
pub static SPEC: Spec = Spec {
    name: "rdma",
    domain: &domain::RDMA,
    metrics: &metrics::METRICS,
    events: false,
    notes: false,
    // As long as the kernel itself keeps the hardware's counters: two scrapers at once cost one reading.
    cadence: Cadence::OnDemand {
        fresh: Duration::from_millis(10),
    },
    slice: Duration::from_millis(500),
    deadline: Duration::from_secs(5),
    validate: |settings| settings.get::<settings::Table>().map(drop),
    open,
};

/// How late a port or a folder of counters may be seen that comes to a device which is already there.
const LOOK: Duration = Duration::from_secs(5);

/// Never absent: the modules may be loaded at any time, which [`crate::Devices::changed`] then sees.
fn open(env: &Env, settings: &Settings) -> Result<Option<Source>, Error> {
    let table = settings.get()?;
    netlink::check_recording(env)?;
    let files = attribute::Files {
        budget: Budget::of_process(),
        on_disk: !env.is_live(),
    };
    // A recording's next step is there at once.
    let pace = if env.is_live() { LOOK } else { Duration::ZERO };
    Ok(Some(Source {
        devices: Box::new(scan::Rdma::new(env, table, files, pace)),
        watcher: None,
    }))
}

#[cfg(test)]
mod tests;
