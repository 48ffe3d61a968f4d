//! What hardly ever changes about a port and its device: the labels of their info series. Read once a minute.

use std::path::Path;
use std::time::{Duration, Instant};

use super::function;
use super::port::Place;
use crate::sys::root;

/// How old a fact may be: a renamed interface or new firmware shows after at most this long.
const KEEP: Duration = Duration::from_secs(60);

/// The facts of a port.
#[derive(Debug, Default)]
pub(super) struct PortFacts {
    read: Option<Instant>,
    /// InfiniBand, Ethernet or what else the driver says.
    pub(super) link_layer: String,
    /// The network interface, empty where there is none.
    pub(super) netdev: String,
    /// How old the kernel lets `hw_counters` become, in milliseconds: a setting of the administrator's.
    pub(super) lifespan: Option<u32>,
}

impl PortFacts {
    /// Reads them where they are too old. True: the network interface or the link layer is another one.
    pub(super) fn refresh(&mut self, now: Instant, place: &Place) -> bool {
        if !is_due(&mut self.read, now) {
            return false;
        }
        let port = place.port_folder();
        let link_layer = label(&port.join("link_layer"));
        self.lifespan = label(&port.join("hw_counters/lifespan")).parse().ok();
        let netdev = netdev(&port, place);
        let changed = netdev != self.netdev || link_layer != self.link_layer;
        (self.netdev, self.link_layer) = (netdev, link_layer);
        changed
    }
}

/// The first entry of the GID table names it. Where that is empty (InfiniBand), what the function carries.
fn netdev(port: &Path, place: &Place) -> String {
    let by_gid = label(&port.join("gid_attrs/ndevs/0"));
    if !by_gid.is_empty() {
        return by_gid;
    }
    let on_function = function::netdevs(&place.folder, place.of);
    match function::on_port(&on_function, &place.port, place.of).as_slice() {
        // A software device (rxe) has no function; its parent is the interface.
        [] => label(&place.folder.join("parent")),
        [one] => one.name.clone(),
        // None of several is the one.
        _ => String::new(),
    }
}

/// The facts of a device.
#[derive(Debug, Default)]
pub(super) struct DeviceFacts {
    read: Option<Instant>,
    pub(super) board_id: String,
    pub(super) firmware_version: String,
    pub(super) hca_type: String,
    pub(super) node_guid: String,
}

impl DeviceFacts {
    /// Reads them where they are too old.
    pub(super) fn refresh(&mut self, now: Instant, device: &Path) {
        if !is_due(&mut self.read, now) {
            return;
        }
        for (fact, file) in [
            (&mut self.board_id, "board_id"),
            (&mut self.firmware_version, "fw_ver"),
            (&mut self.hca_type, "hca_type"),
            (&mut self.node_guid, "node_guid"),
        ] {
            *fact = label(&device.join(file));
        }
        // Some drivers (efa) have none and print this, which would make all of them one.
        if self.node_guid == "0000:0000:0000:0000" {
            self.node_guid.clear();
        }
    }
}

fn is_due(read: &mut Option<Instant>, now: Instant) -> bool {
    let due = read.is_none_or(|at| now.saturating_duration_since(at) >= KEEP);
    if due {
        *read = Some(now);
    }
    due
}

/// The text of a file as a label: empty where there is none, or it is none.
fn label(path: &Path) -> String {
    root::read_text(path)
        .inspect_err(|error| tracing::debug!(%error, "left out"))
        .ok()
        .flatten()
        .filter(|t| t.len() <= 128 && !t.chars().any(char::is_control))
        .unwrap_or_default()
}
