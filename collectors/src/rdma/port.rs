//! One port: state, rate, properties and counters.

mod read;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use nix::errno::Errno;

use super::attribute::{self, Attribute, AttributeFiles};
use super::connections::Connections;
use super::counter::{self, Counter};
use super::down::DownAnswer;
use super::facts::{DeviceFacts, PortFacts};
use super::function::DeviceFunction;
use super::hub::Hub;
use super::metrics::Row;
use super::metrics::drivers::{Means, Words};
use super::netlink_port::NetlinkPort;
use super::setup::RdmaSetup;
use super::stats::{DeviceKey, NetlinkStats};
use super::text::{self, Reason};
use crate::netlink::nldev;
use crate::sys::netlink::{self, IdleSocket, NetlinkTransport, SharedTransport};
use crate::{Block, Device, Error, Subject, SubjectKind};

/// `IB_PORT_DOWN`.
pub(crate) const DOWN: u64 = 1;

/// What a driver said about a port that is down.
#[derive(Clone)]
struct DownPort {
    /// Netlink's answer, if it gave one.
    answer: Option<nldev::NldevPort>,
    physical_state: Result<u64, Reason>,
}

/// The location of a port.
#[derive(Debug)]
pub(crate) struct PortLocation {
    /// The device's name.
    pub(crate) device: String,
    /// The port's number, from 1.
    pub(crate) port: String,
    /// The number of the device's ports.
    pub(crate) of: usize,
    /// `/sys/class/infiniband/<device>`.
    pub(crate) folder: PathBuf,
    /// `/sys/class/net`.
    pub(crate) net: PathBuf,
    /// The function of the device.
    pub(crate) function: DeviceFunction,
    /// Its NUMA node, empty if the kernel reports none.
    pub(crate) numa_node: String,
    /// The first port also reports the device's values.
    pub(crate) speaks_for_device: bool,
    /// The device's netlink key, if netlink is available.
    pub(crate) netlink: Option<DeviceKey>,
    /// The recording that replaces the kernel's answers.
    pub(crate) recorded: Option<PathBuf>,
}

impl PortLocation {
    /// The port's folder.
    pub(crate) fn port_folder(&self) -> PathBuf {
        self.folder.join("ports").join(&self.port)
    }

    /// The labels of a port's series.
    const fn labels(&self) -> [&str; 2] {
        [self.device.as_str(), self.port.as_str()]
    }
}

/// One port.
pub(super) struct RdmaPort {
    subject: Subject,
    place: PortLocation,
    files: AttributeFiles,
    facts: PortFacts,
    device: Option<(DeviceFacts, Vec<Counter>)>,
    state: Attribute,
    physical_state: Attribute,
    /// `None` if the driver invents it.
    rate: Option<Attribute>,
    carrier_down: Option<Attribute>,
    netdev_up: Option<Attribute>,
    /// What the driver said, while the port is down.
    down: DownAnswer<DownPort>,
    connections: Connections,
    /// Queried before the files, if netlink is available.
    port_query: Option<NetlinkPort>,
    hw_counters: Vec<Counter>,
    /// Its hardware counters are those of a vport, if it has any.
    is_vport: bool,
    words: Words,
    /// Replaces the files, if the kernel reports all counters at once.
    stats: Option<NetlinkStats>,
    counters: Vec<Counter>,
    /// Why folders could not be listed, whose files are not known.
    unlisted: Vec<Reason>,
    /// Receives the port's interface; its number shows when properties are outdated.
    hub: Option<(Arc<Hub>, u64)>,
    setup: Option<RdmaSetup>,
}

impl RdmaPort {
    /// Lists the port's files without reading them.
    pub(super) fn new(place: PortLocation, files: &AttributeFiles, idle: &Arc<IdleSocket>) -> Self {
        let kernel = netlink::rdma_asker(place.recorded.as_deref(), &files.budget, idle);
        Self::with_kernel(place, files, kernel)
    }

    /// As [`Self::new`], with netlink transports, if netlink is available.
    pub(super) fn with_kernel(
        place: PortLocation,
        files: &AttributeFiles,
        kernel: Box<dyn NetlinkTransport>,
    ) -> Self {
        let folder = place.port_folder();
        let attribute = |name: &str| files.attribute(folder.join(name));
        let mut unlisted = Vec::new();
        let mut listed = |found: Result<Vec<Counter>, Error>| {
            found.unwrap_or_else(|error| {
                tracing::warn!(%error, "counters cannot be listed");
                unlisted.push(unlistable(&error));
                Vec::new()
            })
        };
        let mut words = Words::of(&place.function.driver);
        let mut counters = listed(counter::of(
            &folder.join("counters"),
            |word| words.pma(word),
            files,
        ));
        let of_pma = counters.iter().filter(|c| !c.meaning.is_named);
        words.of_pma = of_pma.map(|c| c.meaning.metric).collect();
        counters.extend(listed(counter::of(
            &folder.join("counters_ext"),
            |word| words.ext(word),
            files,
        )));
        let hw_counters = listed(counter::of(
            &folder.join("hw_counters"),
            |word| words.port(word),
            files,
        ));
        let number = place.port.parse().ok();
        let known = place.netlink.clone().zip(number);
        let kernel = SharedTransport::new(kernel);
        let port_query = known
            .clone()
            .map(|(known, port)| NetlinkPort::new(known, port, kernel.clone()));
        // A driver without a folder of counters has none.
        let stats = known
            .filter(|_| !hw_counters.is_empty())
            .map(|(known, port)| NetlinkStats::new(known, port, words.clone(), Box::new(kernel)));
        let device = place.speaks_for_device.then(|| {
            let is_there = |row: &&Row| hw_counters.iter().any(|c| c.meaning.is(row.metric));
            let means = |word: &str| {
                let means = words.device(word, place.of == 1)?;
                let row = means.row.filter(|row| !is_there(row));
                Some(Means { row, ..means })
            };
            let counters = counter::of(&place.folder.join("hw_counters"), means, files);
            (DeviceFacts::default(), listed(counters))
        });
        let connections = Connections::of(&folder).unwrap_or_else(|error| {
            tracing::warn!(%error, "the connection manager's counts cannot be listed");
            unlisted.push(unlistable(&error));
            Connections::default()
        });
        Self {
            subject: Subject::new(SubjectKind::RdmaPort, format!("{}/{}", place.device, place.port)),
            facts: PortFacts::default(),
            device,
            state: attribute("state"),
            physical_state: attribute("phys_state"),
            // efa reports 100 Gb/s whatever its link is (efa_verbs.c).
            rate: (place.function.driver != "efa").then(|| attribute("rate")),
            carrier_down: None,
            netdev_up: None,
            down: DownAnswer::default(),
            connections,
            port_query,
            stats,
            words,
            is_vport: hw_counters.iter().all(|c| c.meaning.name.starts_with("vport_")),
            hw_counters,
            counters,
            unlisted,
            files: files.clone(),
            place,
            hub: None,
            setup: None,
        }
    }

    /// Adds the port's settings.
    pub(super) fn with_setup(self, setup: RdmaSetup) -> Self {
        Self {
            setup: Some(setup),
            ..self
        }
    }

    /// Adds the state shared with the watcher.
    pub(super) fn with_hub(self, hub: &Arc<Hub>) -> Self {
        let facts = hub.facts();
        Self {
            hub: Some((Arc::clone(hub), facts)),
            ..self
        }
    }

    /// Its number.
    pub(super) fn number(&self) -> Option<u32> {
        self.place.port.parse().ok()
    }

    /// What the driver said about the port, if it is down and need not be asked again.
    fn standing(&mut self, now: Instant) -> Option<DownPort> {
        let Self { netdev_up, down, .. } = self;
        let operstate = netdev_up.as_mut()?;
        down.standing(now, || operstate.read(now, text::operstate) == Ok(Some(false)))
    }

    /// Whether each of its folders could be listed.
    pub(super) const fn is_whole(&self) -> bool {
        self.unlisted.is_empty()
    }

    fn refresh(&mut self, now: Instant, answer: Option<&nldev::NldevPort>) {
        let number = self.number();
        let Self {
            facts,
            place,
            files,
            hub,
            setup,
            ..
        } = self;
        if let Some((hub, seen)) = hub {
            let now = hub.facts();
            if std::mem::replace(seen, now) != now {
                facts.expire();
                if let Some(setup) = setup {
                    setup.expire();
                }
            }
        }
        if facts.refresh(now, place, answer) {
            // InfiniBand counts in link_downed; its interface loses the carrier for other reasons.
            let interface = place.net.join(&facts.netdev);
            // Values of a bond or one of its interfaces need not concern this port.
            let is_its_own = !facts.netdev.is_empty() && !facts.is_bonded;
            let is_usable = facts.link_layer != "InfiniBand" && is_its_own;
            let file = |name| is_usable.then(|| files.attribute(interface.join(name)));
            self.netdev_up = file("operstate");
            let counts = facts.link_layer == "Ethernet" && is_its_own && !facts.is_representor;
            self.carrier_down = file("carrier_down_count").filter(|_| counts);
            if let Some(((hub, _), number)) = hub.as_ref().zip(number) {
                hub.has_netdev(&place.device, number, if counts { &facts.netdev } else { "" });
            }
            self.count_uplink();
        }
        if let Some((facts, _)) = &mut self.device {
            facts.refresh(now, &self.place.folder);
        }
    }

    /// The counters of an uplink in switchdev mode are its device's: mlx5 has none of the port before Linux 6.5, and later
    /// 0 for each (`mlx5_ib_query_q_counters_vport` of hw/mlx5/counters.c). In other modes ports have plain names.
    fn count_uplink(&mut self) {
        if !self.is_vport {
            return;
        }
        if let Some((_, counters)) = self.device.as_mut().filter(|_| self.facts.has_uplink) {
            counters.clear();
        }
        if self.facts.is_uplink {
            self.stats = None;
            let of_device = self.place.folder.join("hw_counters");
            let counters = counter::of(&of_device, |word| self.words.port(word), &self.files);
            self.hw_counters = counters.unwrap_or_else(|error| {
                tracing::warn!(%error, "counters cannot be listed");
                self.unlisted.push(unlistable(&error));
                Vec::new()
            });
        }
    }
}

/// Why a folder could not be listed, as of a file.
fn unlistable(error: &Error) -> Reason {
    let errno = match error {
        Error::Io { source, .. } => source.raw_os_error(),
        _ => None,
    };
    errno.map_or(Reason::Io, |errno| attribute::reason(Errno::from_raw(errno)))
}

impl Device for RdmaPort {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        self.read_within(super::SPEC.deadline, out)
    }
}
