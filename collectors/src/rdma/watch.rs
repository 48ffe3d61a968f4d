//! Waits for what the kernel tells of RDMA devices by itself: devices that come and go, and links that go down and up.
//!
//! Two sources: RDMA's own notices, which kernels before 6.12 do not give, and those of network interfaces. Where the
//! former are missing, a scan that finds another list than before says the same, later. Neither source numbers what it
//! tells or keeps it: what happens while nobody listens is not told, only seen.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::choice::Choice;
use super::hub::{Hub, Listed};
use crate::event::{Closed, Rdma, RdmaEvent};
use crate::netlink::link::Link;
use crate::netlink::message::Messages;
use crate::netlink::nldev::{self, Found};
use crate::netlink::notice::{MONITOR, Notice, What};
use crate::sys::listen::{Bell, Ears, Heard, Sockets};
use crate::sys::netlink::Kernel;
use crate::sys::{boot, kept, root};
use crate::{BootId, Cursor, Error, Event, EventBody, Events, Watcher};

/// An idle node wakes so often to see whether it is to end.
const WAIT: Duration = Duration::from_secs(60);

/// The watcher of all ports.
pub(super) struct Changes {
    pub(super) hub: Arc<Hub>,
    pub(super) choice: Choice,
    /// `/sys/class/net`.
    pub(super) net: PathBuf,
    pub(super) boot: BootId,
    /// Asked for the names of devices that a notice tells by number.
    pub(super) kernel: Box<dyn Kernel>,
    pub(super) open: Box<dyn Fn() -> Result<Box<dyn Ears>, Error> + Send>,
    pub(super) known: Known,
}

/// What the watcher knows.
#[derive(Default)]
pub(super) struct Known {
    /// The number of the last event. Time since boot, so that those of the next run are higher.
    seq: u64,
    /// Devices that are read, with the ports that are. `None`: not known yet, and so nothing is new.
    present: Option<BTreeMap<String, BTreeSet<u32>>>,
    /// The inodes of devices that are read: one that is renamed keeps its own, and the next of its name has another.
    inodes: BTreeMap<String, u64>,
    /// The kernel's numbers of devices.
    names: BTreeMap<u32, String>,
    /// Network interfaces by number.
    links: BTreeMap<u32, Interface>,
    /// When the last notice of a device came: a scan that began before knows less.
    noticed: Option<Instant>,
}

/// The interface of a port, or of several.
#[derive(Default)]
struct Interface {
    name: String,
    ports: Vec<(String, u32)>,
    /// `None`: not known.
    is_up: Option<bool>,
}

/// Opens the kernel's sockets.
pub(super) fn sockets(
    budget: &Arc<kept::Budget>,
    bell: Arc<Bell>,
) -> Box<dyn Fn() -> Result<Box<dyn Ears>, Error> + Send> {
    // Files can be opened anew for each reading, sockets cannot: their permits are taken before, and stay theirs.
    let held: Vec<kept::Permit> = (0..2).map_while(|_| budget.take()).collect();
    let own = kept::Budget::new(u64::try_from(held.len()).unwrap_or(0));
    Box::new(move || {
        let _held = &held;
        let sockets = Sockets::open(&own, &bell).map_err(failed)?;
        Ok(Box::new(sockets))
    })
}

fn failed(error: nix::errno::Errno) -> Error {
    Error::io("netlink".as_ref(), error.into())
}

impl Watcher for Changes {
    fn ready(&mut self, wait: Duration) -> bool {
        self.hub.wait(wait)
    }

    fn run(&mut self, _: Option<Cursor>, out: &Events) -> Result<(), Error> {
        let mut ears = (self.open)()?;
        self.known.names.clear();
        self.known.links.clear();
        self.number();
        if self.take_list(out).is_err() {
            return Ok(());
        }
        out.listens();
        while !out.is_over() {
            let (mut closed, mut lost, mut rung) = (false, false, false);
            let heard = ears.hear(WAIT, &mut |heard| {
                let told = match heard {
                    Heard::Rdma(bytes) => self.notices(bytes, out),
                    Heard::Links(bytes) => self.links(bytes, out),
                    Heard::Lost => Ok(true),
                    Heard::Bell => {
                        rung = true;
                        Ok(false)
                    }
                };
                closed |= told.is_err();
                lost |= told.unwrap_or(false);
            });
            heard.map_err(failed)?;
            if closed || (lost && self.lost(out).is_err()) || (rung && self.take_list(out).is_err()) {
                return Ok(());
            }
        }
        Ok(())
    }
}

impl Changes {
    /// Takes over what is read, and tells where that is another list than before.
    fn take_list(&mut self, out: &Events) -> Result<(), Closed> {
        let Some((began, listed)) = self.hub.listed() else {
            return Ok(());
        };
        if self.known.noticed.is_none_or(|at| at < began) {
            let ports = |ports: &BTreeMap<u32, String>| ports.keys().copied().collect();
            let now = listed
                .iter()
                .map(|(device, p)| (device.clone(), ports(p)))
                .collect();
            let before = self.known.present.replace(now);
            let inodes = self.inodes(&listed);
            let inodes_before = std::mem::replace(&mut self.known.inodes, inodes);
            if let Some(before) = before {
                self.tell_difference(&before, &inodes_before, &listed, out)?;
            }
        }
        self.take_links(&listed);
        Ok(())
    }

    /// The inodes of listed devices; of one that has left meanwhile, as it was known.
    fn inodes(&self, listed: &Listed) -> BTreeMap<String, u64> {
        let found = root::entries(&self.choice.class)
            .ok()
            .flatten()
            .unwrap_or_default();
        let mut inodes = self.known.inodes.clone();
        inodes.extend(found.into_iter().map(|entry| (entry.name, entry.inode)));
        inodes.retain(|device, _| listed.contains_key(device));
        inodes
    }

    fn tell_difference(
        &mut self,
        before: &BTreeMap<String, BTreeSet<u32>>,
        inodes_before: &BTreeMap<String, u64>,
        listed: &Listed,
        out: &Events,
    ) -> Result<(), Closed> {
        let mut added: Vec<&String> = listed.keys().filter(|d| !before.contains_key(*d)).collect();
        for device in before.keys().filter(|device| !listed.contains_key(*device)) {
            let same = inodes_before.get(device);
            let inodes = &self.known.inodes;
            let renamed = added
                .iter()
                .position(|new| same.is_some() && inodes.get(*new) == same);
            match renamed.map(|at| added.remove(at)) {
                Some(new) => self.tell(out, new, None, RdmaEvent::Renamed, &format!("was {device}"))?,
                None => self.tell(out, device, None, RdmaEvent::DeviceRemoved, "")?,
            }
        }
        for device in added {
            self.tell(out, device, None, RdmaEvent::DeviceAdded, "")?;
        }
        Ok(())
    }

    /// Interfaces that were there keep the state in which they were seen last.
    fn take_links(&mut self, listed: &Listed) {
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

    /// Something was told that could not be kept: what can be seen of it is looked at anew.
    fn lost(&mut self, out: &Events) -> Result<(), Closed> {
        self.hub.suspect();
        let text = "netlink: more was told of RDMA devices and network interfaces than there was room for";
        let event = self.event(text.to_owned(), EventBody::Overrun { lost: None });
        out.emit(event)?;
        self.known.names.clear();
        self.number();
        // Whatever a notice said about the list, the next scan knows more.
        self.known.noticed = None;
        let seen: Vec<(u32, Option<bool>)> = self
            .known
            .links
            .iter()
            .map(|(index, interface)| (*index, is_up(&self.net, &interface.name)))
            .collect();
        for (index, is_up) in seen {
            if is_up.is_some() {
                self.link(Link { index, is_up }, out)?;
            }
        }
        Ok(())
    }

    /// Asks for every device's number. Where that is refused, only notices with names are understood.
    fn number(&mut self) {
        let names = &mut self.known.names;
        let asked = self.kernel.ask(&mut nldev::devices(), &mut |payload| {
            if let Ok(found) = Found::parse(payload) {
                names.insert(found.index, found.name);
            }
            Ok(())
        });
        if let Err(error) = asked {
            tracing::debug!(%error, "devices are not told by number");
        }
    }

    /// Takes notices of RDMA. True: some could not be read.
    fn notices(&mut self, bytes: &[u8], out: &Events) -> Result<bool, Closed> {
        let mut garbled = false;
        for message in Messages::new(bytes) {
            let Ok(message) = message else { return Ok(true) };
            if message.kind != MONITOR {
                continue;
            }
            match Notice::parse(message.payload) {
                Ok(notice) => self.notice(notice, out)?,
                Err(_) => garbled = true,
            }
        }
        Ok(garbled)
    }

    fn notice(&mut self, notice: Notice, out: &Events) -> Result<(), Closed> {
        self.hub.suspect();
        let Notice {
            what,
            index,
            device,
            port,
            netdev,
            netdev_index,
        } = notice;
        let Some(index) = index else {
            // An interface of another network namespace, attached or detached: about nobody here.
            if what != What::NetdevRenamed {
                return Ok(());
            }
            return self.netdev_renamed(netdev_index, &netdev.unwrap_or_default(), out);
        };
        let old = match &device {
            Some(name) => self.known.names.insert(index, name.clone()),
            None => {
                if !self.known.names.contains_key(&index) {
                    self.number();
                }
                None
            }
        };
        let Some(device) = device.or_else(|| self.known.names.get(&index).cloned()) else {
            return Ok(());
        };
        let netdev = netdev.unwrap_or_default();
        match what {
            What::Registered => {
                self.known.noticed = Some(Instant::now());
                self.came(out, &device, RdmaEvent::DeviceAdded, "")
            }
            What::Unregistered => {
                self.known.noticed = Some(Instant::now());
                self.known.names.remove(&index);
                match self.known.present.as_mut().and_then(|p| p.remove(&device)) {
                    Some(_) => self.tell(out, &device, None, RdmaEvent::DeviceRemoved, ""),
                    None => Ok(()),
                }
            }
            What::Renamed => {
                self.known.noticed = Some(Instant::now());
                let old = old.filter(|old| *old != device).unwrap_or_default();
                let present = self.known.present.as_mut();
                present.and_then(|p| p.remove(&old));
                let was = if old.is_empty() { old } else { format!("was {old}") };
                self.came(out, &device, RdmaEvent::Renamed, &was)
            }
            What::NetdevAttached => self.of_port(out, &device, port, RdmaEvent::NetdevAttached, &netdev),
            What::NetdevDetached => self.of_port(out, &device, port, RdmaEvent::NetdevDetached, &netdev),
            What::NetdevRenamed => self.netdev_renamed(netdev_index, &netdev, out),
            What::Other => Ok(()),
        }
    }

    fn netdev_renamed(&mut self, index: Option<u32>, name: &str, out: &Events) -> Result<(), Closed> {
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

    /// A device is there by that name, told unless it was known, or none of it is read.
    fn came(&mut self, out: &Events, device: &str, event: RdmaEvent, detail: &str) -> Result<(), Closed> {
        let Some(present) = self.known.present.as_mut().filter(|p| !p.contains_key(device)) else {
            return Ok(());
        };
        let ports: BTreeSet<u32> = self.choice.of_new(device).into_iter().collect();
        if ports.is_empty() {
            return Ok(());
        }
        present.insert(device.to_owned(), ports);
        self.tell(out, device, None, event, detail)
    }

    fn of_port(
        &mut self,
        out: &Events,
        device: &str,
        port: Option<u32>,
        event: RdmaEvent,
        netdev: &str,
    ) -> Result<(), Closed> {
        let is_read = |port: &u32| {
            let ports = self.known.present.as_ref().and_then(|p| p.get(device));
            ports.is_some_and(|ports| ports.contains(port))
        };
        match port.filter(is_read) {
            Some(port) => self.tell(out, device, Some(port), event, netdev),
            None => Ok(()),
        }
    }

    /// Takes messages about network interfaces. True: some could not be read.
    fn links(&mut self, bytes: &[u8], out: &Events) -> Result<bool, Closed> {
        let mut garbled = false;
        for message in Messages::new(bytes) {
            let Ok(message) = message else { return Ok(true) };
            match Link::parse(message.kind, message.payload) {
                Ok(Some(link)) => self.link(link, out)?,
                Ok(None) => {}
                Err(_) => garbled = true,
            }
        }
        Ok(garbled)
    }

    fn link(&mut self, link: Link, out: &Events) -> Result<(), Closed> {
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

    fn tell(
        &mut self,
        out: &Events,
        device: &str,
        port: Option<u32>,
        event: RdmaEvent,
        detail: &str,
    ) -> Result<(), Closed> {
        let port = port.map(|port| port.to_string()).unwrap_or_default();
        let mut text = format!("RDMA: {} {device}", event.word());
        for (before, part) in [("/", port.as_str()), (" ", detail)] {
            if !part.is_empty() {
                text = text + before + part;
            }
        }
        let body = EventBody::Rdma(Rdma {
            device: device.to_owned(),
            port,
            what: event,
        });
        let event = self.event(text, body);
        out.emit(event)
    }

    fn event(&mut self, text: String, body: EventBody) -> Event {
        let now = u64::try_from(boot::boottime().as_micros()).unwrap_or(u64::MAX);
        let seq = now.max(self.known.seq + 1);
        self.known.seq = seq;
        Event {
            boot: self.boot.clone(),
            seq,
            at_us: u64::try_from(boot::monotonic().as_micros()).unwrap_or(u64::MAX),
            history: false,
            count: 1,
            text,
            body,
        }
    }
}

/// Whether an interface can carry anything, by its file. `None`: not known.
fn is_up(net: &std::path::Path, name: &str) -> Option<bool> {
    let state = root::read_text(&net.join(name).join("operstate"))
        .ok()
        .flatten()?;
    match state.as_str() {
        "unknown" => None,
        state => Some(state == "up"),
    }
}

#[cfg(test)]
mod tests;
