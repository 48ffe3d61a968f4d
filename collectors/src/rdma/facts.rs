//! Properties of a port and its device that rarely change: the labels of their info series. Read once a minute.

use std::io::ErrorKind::{InvalidInput, Unsupported};
use std::path::Path;
use std::time::{Duration, Instant};

use super::port::PortLocation;
use super::{choice, function};
use crate::Error;
use crate::netlink::nldev;
use crate::sys::root;

/// Maximum age of a property: a renamed interface or new firmware appears after at most this time.
const KEEP: Duration = Duration::from_secs(60);

/// The properties of a port.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortFacts {
    read: Option<Instant>,
    /// InfiniBand, Ethernet, or another word of the driver.
    pub(crate) link_layer: String,
    /// The network interface, empty if none exists. If a bond has taken the interface, the bond: the port may
    /// belong to the bond, and netlink names another of its interfaces after each failover.
    pub(crate) netdev: String,
    /// A bond has taken the interface named by netlink.
    pub(super) is_bonded: bool,
    /// The port is no link of this node, but a vport of an e-switch or a plane of another device's port: neither read nor
    /// judged.
    pub(crate) is_representor: bool,
    /// The port is the uplink of an e-switch, by its interface on the device's own function: a device has one at most.
    pub(super) is_uplink: bool,
    /// The device has one. Only known to the port that speaks for the device.
    pub(super) has_uplink: bool,
    /// The interface that netlink named last, if any.
    last_netdev: Option<String>,
    /// The kernel's cache time of `hw_counters`, in milliseconds: an administrator's setting.
    pub(super) lifespan: Option<u32>,
}

impl PortFacts {
    /// Marks them as possibly changed.
    pub(super) fn expire(&mut self) {
        self.read = None;
    }

    /// Reads those that are too old. True: the network interface or the link layer changed. Netlink's latest answer
    /// takes precedence over the files, which can be ambiguous.
    pub(crate) fn refresh(
        &mut self,
        now: Instant,
        place: &PortLocation,
        answer: Option<&nldev::NldevPort>,
    ) -> bool {
        let is_news = answer.is_some_and(|answer| named(answer) != self.last_netdev.as_deref());
        if !is_news && !is_due(self.read, now) {
            return false;
        }
        let before = self.clone();
        self.read_files(now, place, answer);
        before.names() != self.names()
    }

    fn read_files(&mut self, now: Instant, place: &PortLocation, answer: Option<&nldev::NldevPort>) {
        let port = place.port_folder();
        let lifespan = label(&port.join("hw_counters/lifespan")).map(|text| text.parse().ok());
        let layer = take(&mut self.link_layer, label(&port.join("link_layer")));
        let lifespan = take(&mut self.lifespan, lifespan);
        if let Some(answer) = answer {
            self.last_netdev = named(answer).map(str::to_owned);
        }
        // The last answer stands while netlink is not queried, as long as the interface exists.
        let is_here =
            |name: &String| answer.is_some() || matches!(root::inode(&place.net.join(name)), Ok(Some(_)));
        let netdev = match self.last_netdev.clone().filter(is_here) {
            Some(name) => take(&mut self.netdev, Ok(name)),
            // The interface of an InfiniBand port belongs to another driver, and RDMA does not know it. An Ethernet
            // port without one has it in another network namespace, although the files name it. Or its driver
            // reports none to RDMA, and it is the interface of that name on this function.
            None if answer.is_some() && self.link_layer == "Ethernet" => {
                let here = netdev(&port, place).ok();
                let here = here.filter(|name| is_own(place, name) && !is_of_switch(place, name));
                take(&mut self.netdev, Ok(here.unwrap_or_default()))
            }
            None => take(&mut self.netdev, netdev(&port, place)),
        };
        let representor = is_representor(place, self, answer.is_some());
        let representor = take(&mut self.is_representor, representor);
        let uplink = is_uplink(place, &self.netdev);
        let uplink = take(&mut self.is_uplink, uplink);
        let of_device = take(&mut self.has_uplink, has_uplink(place));
        let bond = bond(&place.net, &self.netdev);
        self.is_bonded = bond.is_some();
        if let Some(name) = bond {
            self.netdev = name;
        }
        if layer && lifespan && netdev && representor && uplink && of_device {
            self.read = Some(now);
        }
    }

    fn names(&self) -> (&str, &str, [bool; 4]) {
        let kinds = [
            self.is_bonded,
            self.is_representor,
            self.is_uplink,
            self.has_uplink,
        ];
        (&self.link_layer, &self.netdev, kinds)
    }
}

/// Whether the port represents a vport. In switchdev mode mlx5 has one device, with a port for each vport that could exist
/// (ib_rep.c). Links of this node are those with an uplink as interface. Only netlink shows that a port has no interface.
fn is_representor(place: &PortLocation, facts: &PortFacts, is_answered: bool) -> Result<bool, Error> {
    if is_of_planes(place)? {
        return Ok(true);
    }
    if !has_vports(place) || facts.link_layer == "InfiniBand" {
        return Ok(false);
    }
    if !facts.netdev.is_empty() {
        // Of an uplink `p0`; of others `pf0vf1`, `pf0sf8`, and `c1pf0` of the host of a DPU.
        return Ok(switch_port(place, &facts.netdev)?.is_some_and(|name| name.contains("pf")));
    }
    if !is_answered {
        return Ok(facts.is_representor);
    }
    // The uplink is another port's.
    has_uplink_netdev(place)
}

/// Whether the device is an SMI sub-device, with a port for each plane of its parent's link. mlx5 gives it the parent's PCI
/// function, and no hardware counters (`plane_profile` of hw/mlx5/main.c, Linux 6.11).
fn is_of_planes(place: &PortLocation) -> Result<bool, Error> {
    if !place.function.driver.starts_with("mlx5") || has_counters(&place.folder)? {
        return Ok(false);
    }
    let on_function = place.folder.join("device/infiniband");
    for name in root::list(&on_function)?.unwrap_or_default() {
        if name != place.device && has_counters(&on_function.join(name))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a port of a device has hardware counters.
fn has_counters(device: &Path) -> Result<bool, Error> {
    for port in choice::numbers(device)? {
        let counters = device.join("ports").join(port.to_string()).join("hw_counters");
        if root::inode(&counters)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether an interface is the uplink of the device's e-switch. In a bond the port has the interface of the active link,
/// which may be that of another function (`lag_event` of hw/mlx5/main.c, Linux 6.12).
fn is_uplink(place: &PortLocation, netdev: &str) -> Result<bool, Error> {
    if !has_vports(place) || switch_port(place, netdev)?.is_none_or(|name| name.contains("pf")) {
        return Ok(false);
    }
    if is_own(place, netdev) {
        return Ok(true);
    }
    let master = bond(&place.net, netdev);
    Ok(master.is_some()
        && function::masters(&place.folder)?
            .into_iter()
            .any(|(_, own)| own == master))
}

/// Whether a port of the device is an uplink, for the port that speaks for the device.
fn has_uplink(place: &PortLocation) -> Result<bool, Error> {
    Ok(place.speaks_for_device && has_vports(place) && has_uplink_netdev(place)?)
}

/// Whether the device's function has an interface that is an uplink.
fn has_uplink_netdev(place: &PortLocation) -> Result<bool, Error> {
    for (netdev, _) in function::masters(&place.folder)? {
        if switch_port(place, &netdev.name)?.is_some_and(|name| !name.contains("pf")) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a device may have ports of an e-switch.
fn has_vports(place: &PortLocation) -> bool {
    place.of > 1 && place.function.driver.starts_with("mlx5")
}

/// What an interface is to an e-switch (`phys_port_name`). None: it is no port of one.
fn switch_port(place: &PortLocation, netdev: &str) -> Result<Option<String>, Error> {
    let interface = place.net.join(netdev);
    if label(&interface.join("phys_switch_id"))?.is_empty() {
        return Ok(None);
    }
    label(&interface.join("phys_port_name")).map(Some)
}

/// Whether an interface is a port of the device's e-switch: then only netlink knows its RDMA port.
fn is_of_switch(place: &PortLocation, netdev: &str) -> bool {
    has_vports(place) && switch_port(place, netdev).is_ok_and(|name| name.is_some())
}

/// The interface named by netlink.
fn named(answer: &nldev::NldevPort) -> Option<&str> {
    answer.netdev.as_ref().map(|(_, name)| name.as_str())
}

/// The bond that an interface belongs to, or is.
fn bond(net: &Path, netdev: &str) -> Option<String> {
    let is_bond = |name: &str| matches!(root::inode(&net.join(name).join("bonding")), Ok(Some(_)));
    if !netdev.is_empty() && is_bond(netdev) {
        return Some(netdev.to_owned());
    }
    let master = root::link_name(&net.join(netdev).join("master")).ok().flatten()?;
    is_bond(&master).then_some(master)
}

/// Whether an interface of that name is in this network namespace, and on the port's own function.
fn is_own(place: &PortLocation, netdev: &str) -> bool {
    let own = &place.function.pci;
    let found = function::pci_of(&place.net.join(netdev).join("device"));
    !netdev.is_empty() && !own.is_empty() && found.is_ok_and(|pci| pci == *own)
}

/// The interface named by the first entry of the GID table. If that is empty (InfiniBand), the one on the function.
fn netdev(port: &Path, place: &PortLocation) -> Result<String, Error> {
    let by_gid = label(&port.join("gid_attrs/ndevs/0"))?;
    if !by_gid.is_empty() {
        return Ok(by_gid);
    }
    let on_function = function::netdevs(&place.folder, place.of)?;
    Ok(
        match function::on_port(&on_function, &place.port, place.of).as_slice() {
            // A software device (rxe) has no function; its parent is the interface.
            [] => label(&place.folder.join("parent"))?,
            [one] => one.name.clone(),
            // Ambiguous.
            _ => String::new(),
        },
    )
}

/// The properties of a device.
#[derive(Debug, Default)]
pub(super) struct DeviceFacts {
    read: Option<Instant>,
    pub(super) board_id: String,
    pub(super) firmware_version: String,
    pub(super) hca_type: String,
    pub(super) node_guid: String,
}

impl DeviceFacts {
    /// Reads those that are too old.
    pub(super) fn refresh(&mut self, now: Instant, device: &Path) {
        if !is_due(self.read, now) {
            return;
        }
        let mut all = true;
        for (fact, file) in [
            (&mut self.board_id, "board_id"),
            (&mut self.firmware_version, "fw_ver"),
            (&mut self.hca_type, "hca_type"),
            (&mut self.node_guid, "node_guid"),
        ] {
            all &= take(fact, label(&device.join(file)));
        }
        if all {
            self.read = Some(now);
        }
        // Some drivers (efa) have none and print this, which would make all devices equal.
        if self.node_guid == "0000:0000:0000:0000" {
            self.node_guid.clear();
        }
    }
}

pub(super) fn is_due(read: Option<Instant>, now: Instant) -> bool {
    read.is_none_or(|at| now.saturating_duration_since(at) >= KEEP)
}

/// Stores what was read. False: unreadable; the old value stands until it can be read.
fn take<T>(fact: &mut T, read: Result<T, Error>) -> bool {
    match read {
        Ok(new) => *fact = new,
        Err(error) => {
            tracing::debug!(%error, "unreadable");
            return false;
        }
    }
    true
}

/// The text of a file as a label: empty if the file is absent or not text.
pub(super) fn label(path: &Path) -> Result<String, Error> {
    let text = match root::read_text(path) {
        Ok(text) => text,
        // Not text, or rejected permanently: the interface of a GID without one is EINVAL.
        Err(Error::Parse { .. }) => None,
        Err(Error::Io { source, .. }) if matches!(source.kind(), InvalidInput | Unsupported) => None,
        Err(error) => return Err(error),
    };
    let text = text.filter(|t| t.len() <= 128 && !t.chars().any(char::is_control));
    Ok(text.unwrap_or_default())
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests make the files that they read")]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_fact_that_cannot_be_read_stands_and_is_asked_for_again_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let (board, firmware) = (dir.path().join("board_id"), dir.path().join("fw_ver"));
        fs::write(&board, "a\n").unwrap();
        fs::write(&firmware, "1\n").unwrap();
        let mut facts = DeviceFacts::default();
        let start = Instant::now();
        facts.refresh(start, dir.path());
        fs::remove_file(&firmware).unwrap();
        fs::create_dir(&firmware).unwrap();
        fs::write(&board, "b\n").unwrap();
        let due = start + KEEP;
        facts.refresh(due, dir.path());
        assert_eq!(
            (facts.board_id.as_str(), facts.firmware_version.as_str()),
            ("b", "1")
        );
        fs::remove_dir(&firmware).unwrap();
        fs::write(&firmware, "2\n").unwrap();
        facts.refresh(due, dir.path());
        assert_eq!(facts.firmware_version, "2");
        // A complete reading is not repeated before it expires.
        fs::write(&firmware, "3\n").unwrap();
        facts.refresh(due, dir.path());
        assert_eq!(facts.firmware_version, "2");
        // An absent file is no error.
        fs::remove_file(&firmware).unwrap();
        facts.refresh(due + KEEP, dir.path());
        assert_eq!(facts.firmware_version, "");
    }

    #[test]
    fn what_a_driver_refuses_for_good_is_no_text() {
        assert_eq!(label(Path::new("/sys/class/net/lo/speed")).unwrap(), "");
    }
}
