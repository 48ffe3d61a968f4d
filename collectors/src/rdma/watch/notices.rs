//! Netlink notices about RDMA devices, and events from two lists where the kernel sends no notices.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::RdmaWatcher;
use crate::Events;
use crate::event::{Closed, RdmaEvent};
use crate::netlink::message::Messages;
use crate::netlink::nldev::{self, NldevDevice};
use crate::netlink::notice::{MONITOR, Notice, NoticeType};
use crate::rdma::hub::PortInterfaces;
use crate::sys::root;

impl RdmaWatcher {
    /// The inodes of listed devices; for a device removed meanwhile, the last known one.
    pub(super) fn inodes(&self, listed: &PortInterfaces) -> BTreeMap<String, u64> {
        let found = root::entries(&self.choice.class)
            .ok()
            .flatten()
            .unwrap_or_default();
        let mut inodes = self.known.inodes.clone();
        inodes.extend(found.into_iter().map(|entry| (entry.name, entry.inode)));
        inodes.retain(|device, _| listed.contains_key(device));
        inodes
    }

    pub(super) fn tell_difference(
        &mut self,
        before: &BTreeMap<String, BTreeSet<u32>>,
        inodes_before: &BTreeMap<String, u64>,
        listed: &PortInterfaces,
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

    /// Queries every device's index. If the kernel rejects it, only notices with names are understood.
    pub(super) fn number(&mut self) {
        let names = &mut self.known.names;
        let asked = self.kernel.ask(&mut nldev::devices(), &mut |payload| {
            if let Ok(found) = NldevDevice::parse(payload) {
                names.insert(found.index, found.name);
            }
            Ok(())
        });
        if let Err(error) = asked {
            tracing::debug!(%error, "indexes of devices unreadable");
        }
    }

    /// Handles notices of RDMA. True: some were unreadable.
    pub(super) fn notices(&mut self, bytes: &[u8], out: &Events) -> Result<bool, Closed> {
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
            // An interface of another network namespace, attached or detached: irrelevant here.
            if what != NoticeType::NetdevRenamed {
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
            NoticeType::Registered => {
                self.known.noticed = Some(Instant::now());
                self.came(out, &device, RdmaEvent::DeviceAdded, "")
            }
            NoticeType::Unregistered => {
                self.known.noticed = Some(Instant::now());
                self.known.names.remove(&index);
                match self.known.present.as_mut().and_then(|p| p.remove(&device)) {
                    Some(_) => self.tell(out, &device, None, RdmaEvent::DeviceRemoved, ""),
                    None => Ok(()),
                }
            }
            NoticeType::Renamed => {
                self.known.noticed = Some(Instant::now());
                let old = old.filter(|old| *old != device).unwrap_or_default();
                let present = self.known.present.as_mut();
                present.and_then(|p| p.remove(&old));
                let was = if old.is_empty() { old } else { format!("was {old}") };
                self.came(out, &device, RdmaEvent::Renamed, &was)
            }
            NoticeType::NetdevAttached => {
                self.of_port(out, &device, port, RdmaEvent::NetdevAttached, &netdev)
            }
            NoticeType::NetdevDetached => {
                self.of_port(out, &device, port, RdmaEvent::NetdevDetached, &netdev)
            }
            NoticeType::NetdevRenamed => self.netdev_renamed(netdev_index, &netdev, out),
            NoticeType::Other => Ok(()),
        }
    }

    /// A device of that name exists. Emits the event unless the device was known or is excluded.
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
}
