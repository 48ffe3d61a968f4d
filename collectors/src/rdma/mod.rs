//! Ports of InfiniBand, RoCE and other RDMA devices, by sysfs; hardware counters by netlink where supported.
//!
//! A reading may block for 60 s in the kernel while a driver waits for its firmware, so each port is a separate
//! device. An unreadable file costs only its own value.

pub(crate) mod attribute;
mod choice;
mod connections;
mod counter;
pub(crate) mod down;
pub(crate) mod facts;
pub(crate) mod function;
mod gid;
mod hub;
pub mod metrics;
pub(crate) mod netlink_port;
pub(crate) mod port;
pub mod recording;
pub(crate) mod scan;
pub(crate) mod settings;
pub(crate) mod setup;
mod stats;
pub(crate) mod text;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use crate::event::EventKind;
use crate::sys::boot;
use crate::sys::kept::DescriptorBudget;
use crate::sys::listen::EventWaker;
use crate::sys::netlink::{self, IdleSocket};
use crate::{Cadence, Env, Error, Settings, Source, Spec, Watcher, domain};
use hub::Hub;
pub use settings::{NAMES, Pattern, excluded};

/// The rdma collector.
pub static SPEC: Spec = Spec {
    name: "rdma",
    domain: &domain::RDMA,
    metrics: &metrics::METRICS,
    events: &[EventKind::Rdma, EventKind::Overrun],
    notes: false,
    // The kernel's cache time of hardware counters: concurrent scrapers share one reading.
    cadence: Cadence::OnDemand {
        fresh: Duration::from_millis(10),
    },
    slice: Duration::from_millis(500),
    deadline: Duration::from_secs(5),
    keys: settings::KEYS,
    open,
};

/// Maximum delay until a port or a folder of counters is detected that appears on a known device.
const LOOK: Duration = Duration::from_secs(5);

/// Never absent: the modules may be loaded at any time, which [`crate::Devices::changed`] then detects.
fn open(env: &Env, settings: &Settings) -> Result<Option<Source>, Error> {
    let table = settings::RdmaSettings::new(settings)?;
    netlink::check_recording(env)?;
    let files = attribute::AttributeFiles::new(env);
    // A recording's next step follows immediately.
    let pace = if env.is_live() { LOOK } else { Duration::ZERO };
    // The kernel's events concern only its own tree.
    let is_own = env.is_live() && !env.is_tree();
    let bell = is_own
        .then(|| EventWaker::new(&files.budget).map(Arc::new))
        .transpose();
    let bell = bell.unwrap_or_else(|error| {
        tracing::warn!(%error, "changes are detected only when ports are read; no events");
        None
    });
    let hub = Hub::new(bell.clone());
    let watcher = bell
        .map(|bell| watcher(env, &table, &files.budget, &hub, bell))
        .transpose()?;
    Ok(Some(Source {
        devices: Box::new(scan::RdmaDevices::new(env, table, files, pace, hub)),
        watcher,
    }))
}

fn watcher(
    env: &Env,
    table: &settings::RdmaSettings,
    budget: &Arc<DescriptorBudget>,
    hub: &Arc<Hub>,
    bell: Arc<EventWaker>,
) -> Result<Box<dyn Watcher>, Error> {
    Ok(Box::new(watch::RdmaWatcher {
        hub: Arc::clone(hub),
        choice: choice::Choice {
            class: env.path("/sys/class/infiniband"),
            table: table.clone(),
        },
        net: env.path("/sys/class/net"),
        boot: boot::boot_id(env)?,
        kernel: netlink::rdma_asker(None, budget, &IdleSocket::new()),
        open: watch::sockets(budget, bell),
        known: watch::WatchState::default(),
    }))
}

#[cfg(test)]
mod tests;
