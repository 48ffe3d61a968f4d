//! Waits for kernel events about RDMA devices: devices that are added and removed, and links that go down and up.
//!
//! Two sources: notices of RDMA netlink, which kernels before 6.12 do not send, and those of network interfaces.
//! Without the former, a scan that finds a changed list reports the same, later. Neither source numbers its events
//! or keeps them: changes while no watcher listens are only found by scans.

mod links;
mod notices;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use links::{Interface, is_up};

use super::choice::Choice;
use super::hub::Hub;
use crate::event::{Closed, RdmaChange, RdmaEvent};
use crate::netlink::link::NetInterface;
use crate::sys::kept;
use crate::sys::listen::{EventSockets, EventSource, EventWaker, SocketEvent};
use crate::sys::netlink::NetlinkTransport;
use crate::sys::numbered::Numbered;
use crate::{BootId, Cursor, Error, Event, EventBody, Events, Watcher};

/// How often an idle node wakes to check whether the watcher must end.
const WAIT: Duration = Duration::from_secs(60);

/// The watcher of all ports.
pub(super) struct RdmaWatcher {
    pub(super) hub: Arc<Hub>,
    pub(super) choice: Choice,
    /// `/sys/class/net`.
    pub(super) net: PathBuf,
    pub(super) boot: BootId,
    /// Queried for the names of devices that a notice identifies by index.
    pub(super) kernel: Box<dyn NetlinkTransport>,
    pub(super) open: Box<dyn Fn() -> Result<Box<dyn EventSource>, Error> + Send>,
    pub(super) known: WatchState,
}

/// The watcher's state.
#[derive(Default)]
pub(super) struct WatchState {
    numbers: Numbered,
    /// Devices and ports that are read. `None`: not known yet, so nothing is new.
    present: Option<BTreeMap<String, BTreeSet<u32>>>,
    /// The inodes of devices that are read: a rename keeps the inode, and the next device of the name has another.
    inodes: BTreeMap<String, u64>,
    /// The kernel's indexes of devices.
    names: BTreeMap<u32, String>,
    /// Network interfaces by index.
    links: BTreeMap<u32, Interface>,
    /// The time of the last notice about a device: a scan that started before it is older than the notice.
    noticed: Option<Instant>,
}

/// Opens the kernel's sockets.
pub(super) fn sockets(
    budget: &Arc<kept::DescriptorBudget>,
    bell: Arc<EventWaker>,
) -> Box<dyn Fn() -> Result<Box<dyn EventSource>, Error> + Send> {
    // Files can be reopened for each reading, sockets cannot: their permits are taken first and kept.
    let held: Vec<kept::Permit> = (0..2).map_while(|_| budget.take()).collect();
    let own = kept::DescriptorBudget::new(u64::try_from(held.len()).unwrap_or(0));
    Box::new(move || {
        let _held = &held;
        let sockets = EventSockets::open(&own, &bell).map_err(failed)?;
        Ok(Box::new(sockets))
    })
}

fn failed(error: nix::errno::Errno) -> Error {
    Error::io("netlink".as_ref(), error.into())
}

impl Watcher for RdmaWatcher {
    fn ready(&mut self, wait: Duration) -> bool {
        self.hub.wait(wait)
    }

    fn run(&mut self, _: Option<Cursor>, out: &Events) -> Result<(), Error> {
        while !out.is_over() && self.listen(out)? {
            while !out.is_over() && !self.ready(WAIT) {}
        }
        Ok(())
    }
}

impl RdmaWatcher {
    /// Listens while there are devices: the socket prevents that ib_core is unloaded, as at a restart of the drivers.
    /// False: the receiver is gone.
    fn listen(&mut self, out: &Events) -> Result<bool, Error> {
        let mut ears = (self.open)()?;
        self.known.names.clear();
        self.known.links.clear();
        self.number();
        if self.take_list(out).is_err() {
            return Ok(false);
        }
        out.listens();
        let mut had_names = false;
        while !out.is_over() {
            had_names |= !self.known.names.is_empty();
            let (mut closed, mut lost, mut rung) = (false, false, false);
            let heard = ears.hear(WAIT, &mut |heard| {
                let handled = match heard {
                    SocketEvent::Rdma(bytes) => self.notices(bytes, out),
                    SocketEvent::Links(bytes) => self.links(bytes, out),
                    SocketEvent::Lost => Ok(true),
                    SocketEvent::Bell => {
                        rung = true;
                        Ok(false)
                    }
                };
                closed |= handled.is_err();
                lost |= handled.unwrap_or(false);
            });
            heard.map_err(failed)?;
            if closed || (lost && self.lost(out).is_err()) || (rung && self.take_list(out).is_err()) {
                return Ok(false);
            }
            if had_names && self.known.names.is_empty() {
                // The last device may still have its folder: it is unregistered first.
                self.hub.forget();
            }
            if !self.ready(Duration::ZERO) {
                // A list that was published meanwhile: its bell rings for a socket that is closed now.
                return Ok(self.take_list(out).is_ok());
            }
        }
        Ok(true)
    }

    /// Takes over the list of ports, and emits events for its changes.
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

    /// Handles lost messages: the state that can be read is read again.
    fn lost(&mut self, out: &Events) -> Result<(), Closed> {
        self.hub.suspect();
        let text =
            "netlink: messages about RDMA devices and network interfaces were lost: receive buffer full";
        let event = self.event(text.to_owned(), EventBody::Overrun { lost: None });
        out.emit(event)?;
        self.known.names.clear();
        self.number();
        // The next scan is newer than any notice about the list.
        self.known.noticed = None;
        let seen: Vec<(u32, Option<bool>)> = self
            .known
            .links
            .iter()
            .map(|(index, interface)| (*index, is_up(&self.net, &interface.name)))
            .collect();
        for (index, is_up) in seen {
            if is_up.is_some() {
                self.link(NetInterface { index, is_up }, out)?;
            }
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
        let body = EventBody::Rdma(RdmaChange {
            device: device.to_owned(),
            port,
            what: event,
        });
        let event = self.event(text, body);
        out.emit(event)
    }

    fn event(&mut self, text: String, body: EventBody) -> Event {
        self.known.numbers.event(&self.boot, 1, text, body)
    }
}

#[cfg(test)]
mod tests;
