//! The Ethernet below RoCE ports: priority flow control, pause, forward error correction, link errors, and port
//! settings. Every call here holds RTNL, the kernel's single lock of network configuration, and some calls cost
//! tens of firmware commands: see docs/decisions/0010-ethernet-statistics.md.

mod bond;
mod calls;
mod counts;
mod drivers;
mod error;
mod gate;
mod interface;
pub mod metrics;
mod port;
mod settings;
mod setup;
mod statistics;

use std::sync::Arc;
use std::time::{Duration, Instant};

use gate::{Gate, Transports};

use crate::netlink::Protocol;
use crate::rdma::port::PortLocation;
use crate::rdma::scan::{PortDevice, RdmaDevices};
use crate::sys::kept::DescriptorBudget;
use crate::sys::netlink::{IdleSocket, NetlinkTransport};
use crate::sys::{ethtool, netlink, root};
use crate::{Cadence, Env, Error, Settings, Source, Spec, domain};

/// The ethernet collector.
pub static SPEC: Spec = Spec {
    name: "ethernet",
    domain: &domain::RDMA,
    metrics: metrics::METRICS,
    events: &[],
    notes: false,
    // A scrape never starts a reading.
    cadence: Cadence::Every(Duration::from_secs(30)),
    slice: Duration::from_millis(500),
    deadline: Duration::from_secs(5),
    keys: settings::KEYS,
    open,
};

/// Never absent while enabled: modules may be loaded at any time, which [`crate::Devices::changed`] then detects.
fn open(env: &Env, settings: &Settings) -> Result<Option<Source>, Error> {
    if !settings.get::<bool>(&settings::ENABLED)? {
        return Ok(None);
    }
    netlink::check_recording(env)?;
    ethtool::check_recording(env)?;
    let budget = DescriptorBudget::of_process();
    let recorded = env.recorded.as_deref();
    let ways = Transports {
        ethtool: ethtool::asker(recorded.map(|_| env.sysroot.as_path()), &budget),
        route: netlink::asker(recorded, Protocol::Route, &budget),
        generic: netlink::asker(recorded, Protocol::Generic, &budget),
        family: None,
        without_statistics: Vec::new(),
    };
    let gate = Gate::new(ways, Arc::new(Instant::now));
    let ask = {
        let recorded = env.recorded.clone();
        move |idle: &_| netlink::rdma_asker(recorded.as_deref(), &budget, idle)
    };
    Ok(Some(Source {
        devices: Box::new(devices(env, settings, gate, Box::new(ask))?),
        watcher: None,
    }))
}

/// Makes the RDMA netlink transport of one device, so that a port that does not answer delays no other port.
type TransportFactory = Box<dyn Fn(&Arc<IdleSocket>) -> Box<dyn NetlinkTransport> + Send>;

/// The Ethernet ports among those that the rdma collector reads.
fn devices(env: &Env, settings: &Settings, gate: Gate, rdma: TransportFactory) -> Result<RdmaDevices, Error> {
    let table = crate::rdma::settings::RdmaSettings::new(settings)?;
    let (gate, on_disk) = (Arc::new(gate), !env.is_live());
    let make = move |place: PortLocation, idle: &Arc<IdleSocket>, _| {
        let file = place.port_folder().join("link_layer");
        // A value that is unreadable now is read again with the port.
        let layer = root::read_text(&file).ok().flatten();
        let is_ours = layer.is_none_or(|l| l == "Ethernet");
        is_ours.then(|| PortDevice {
            device: Box::new(port::EthernetPort::new(place, &gate, rdma(idle), on_disk)),
            is_whole: true,
        })
    };
    Ok(RdmaDevices::making(env, table, Box::new(make), Duration::ZERO))
}

#[cfg(test)]
mod tests;
