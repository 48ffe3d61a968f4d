//! Network interfaces of ports: which they are, and whether they carry anything.

use std::path::Path;

use super::RdmaWatcher;
use crate::Events;
use crate::event::{Closed, RdmaEvent};
use crate::netlink::link::NetInterface;
use crate::netlink::message::Messages;
use crate::rdma::hub::PortInterfaces;
use crate::sys::root;

/// The interface of a port, or of several.
#[derive(Default)]
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) ports: Vec<(String, u32)>,
    /// `None`: not known.
    pub(super) is_up: Option<bool>,
}

impl RdmaWatcher {
    /// Interfaces that were there keep the state in which they were seen last.
    pub(super) fn take_links(&mut self, listed: &PortInterfaces) {
        let mut before = std::mem::take(&mut self.known.links);
        for (device, ports) in listed {
            for (port, netdev) in ports.iter().filter(|(_, netdev)| !netdev.is_empty()) {
                // It may have left, or have another name by now: the port will say.
                let Some(index) = self.number_of(netdev) else {
                    continue;
                };
                let links = &mut self.known.links;
                let interface = links.entry(index).or_insert_with(|| {
                    let mut interface = before.remove(&index).unwrap_or_default();
                    interface.ports.clear();
                    interface
                });
                netdev.clone_into(&mut interface.name);
                interface.ports.push((device.clone(), *port));
            }
        }
        for interface in self.known.links.values_mut().filter(|i| i.is_up.is_none()) {
            interface.is_up = is_up(&self.net, &interface.name);
        }
    }

    fn number_of(&self, netdev: &str) -> Option<u32> {
        let file = self.net.join(netdev).join("ifindex");
        root::read_text(&file).ok().flatten()?.parse().ok()
    }

    /// Takes messages about network interfaces. True: some could not be read.
    pub(super) fn links(&mut self, bytes: &[u8], out: &Events) -> Result<bool, Closed> {
        let mut garbled = false;
        for message in Messages::new(bytes) {
            let Ok(message) = message else { return Ok(true) };
            match NetInterface::parse(message.kind, message.payload) {
                Ok(Some(link)) => self.link(link, out)?,
                Ok(None) => {}
                Err(_) => garbled = true,
            }
        }
        Ok(garbled)
    }

    pub(super) fn link(&mut self, link: NetInterface, out: &Events) -> Result<(), Closed> {
        let Some(interface) = self.known.links.get_mut(&link.index) else {
            return Ok(());
        };
        let before = interface.is_up;
        interface.is_up = Some(link.is_up.unwrap_or(false));
        let (name, ports) = (interface.name.clone(), interface.ports.clone());
        if link.is_up.is_none() {
            self.known.links.remove(&link.index);
            self.hub.suspect();
        }
        let event = match (before, link.is_up.unwrap_or(false)) {
            (Some(true), false) => RdmaEvent::LinkDown,
            (Some(false), true) => RdmaEvent::LinkUp,
            _ => return Ok(()),
        };
        for (device, port) in ports {
            self.tell(out, &device, Some(port), event, &name)?;
        }
        Ok(())
    }

    pub(super) fn netdev_renamed(
        &mut self,
        index: Option<u32>,
        name: &str,
        out: &Events,
    ) -> Result<(), Closed> {
        let interface = index.and_then(|index| self.known.links.get_mut(&index));
        let Some(interface) = interface.filter(|i| i.name != name) else {
            return Ok(());
        };
        name.clone_into(&mut interface.name);
        for (device, port) in interface.ports.clone() {
            self.tell(out, &device, Some(port), RdmaEvent::Renamed, name)?;
        }
        Ok(())
    }
}

/// Whether an interface can carry anything, by its file. `None`: not known.
pub(super) fn is_up(net: &Path, name: &str) -> Option<bool> {
    let state = root::read_text(&net.join(name).join("operstate"))
        .ok()
        .flatten()?;
    match state.as_str() {
        "unknown" => None,
        state => Some(state == "up"),
    }
}
