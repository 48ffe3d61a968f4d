//! One port: state, rate, properties and counters.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::attribute::{self, Attribute, AttributeFiles};
use super::connections::Connections;
use super::counter::{self, Counter, CounterReading, Meaning};
use super::down::{self, DownAnswer};
use super::facts::{DeviceFacts, PortFacts};
use super::function::DeviceFunction;
use super::hub::Hub;
use super::metrics::drivers::{Means, Words};
use super::metrics::{
    CARRIER_DOWN, DEVICE_INFO, HW_COUNTERS_INFO, HW_COUNTERS_LIFESPAN, NETDEV_UP, PORT_INFO, PORT_LANES,
    PORT_PHYSICAL_STATE, PORT_RATE, PORT_SATURATED_COUNTERS, PORT_STATE, PORT_UNREADABLE_FILES, RESOURCES,
    Row,
};
use super::netlink_port::NetlinkPort;
use super::setup::RdmaSetup;
use super::stats::{DeviceKey, NetlinkStats, StatsResult};
use super::text::{self, Reason};
use crate::netlink::nldev;
use crate::sys::netlink::{self, IdleSocket, NetlinkTransport, SharedTransport};
use crate::sys::{boot, root};
use crate::{Block, Device, Error, Subject, SubjectKind, Value};

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

    fn read_info(&self, out: &mut Block) {
        let PortLocation {
            device,
            port,
            function,
            numa_node,
            ..
        } = &self.place;
        out.info(
            &PORT_INFO,
            &[
                device,
                port,
                &self.facts.link_layer,
                &self.facts.netdev,
                &function.pci,
                numa_node,
                &function.driver,
                function.word(),
            ],
        );
    }

    fn read_device_info(&self, out: &mut Block) {
        let device = &self.place.device;
        if let Some((facts, _)) = &self.device {
            let DeviceFacts {
                board_id,
                firmware_version,
                hca_type,
                node_guid,
                ..
            } = facts;
            out.info(
                &DEVICE_INFO,
                &[device, board_id, firmware_version, hca_type, node_guid],
            );
        }
    }
}

/// The number of unreadable files, by reason.
#[derive(Default)]
struct UnreadableFiles([u64; Reason::ALL.len()]);

impl UnreadableFiles {
    /// The value; if absent, it is counted.
    #[inline]
    fn note<T>(&mut self, read: Result<T, Reason>) -> Option<T> {
        let reason = match read {
            Ok(value) => return Some(value),
            Err(reason) => reason,
        };
        if let Some(count) = self.0.get_mut(reason as usize) {
            *count += 1;
        }
        None
    }
}

/// Collects the counters of a port.
struct Counted<'a> {
    port: [&'a str; 2],
    unreadable: &'a mut UnreadableFiles,
    /// The number of counters at their maximum; `None` if it is unknown for all of them.
    saturated: Option<u64>,
    out: &'a mut Block,
}

impl Counted<'_> {
    #[inline]
    fn push(&mut self, meaning: &Meaning, reading: Result<CounterReading, Reason>) {
        let reading = self.unreadable.note(reading);
        let value = reading.as_ref().map_or(Value::Absent, |r| r.value);
        let is_saturated = reading.and_then(|r| r.is_saturated);
        meaning.push(self.port, value, is_saturated, self.out);
        if let Some(is_saturated) = is_saturated.filter(|_| meaning.clamps()) {
            *self.saturated.get_or_insert(0) += u64::from(is_saturated);
        }
    }
}

impl RdmaPort {
    /// Reads it. Each file may block for a minute: after one that did, the remaining files are not read.
    pub(super) fn read_within(&mut self, deadline: Duration, out: &mut Block) -> Result<(), Error> {
        let (now, began) = (Instant::now(), boot::monotonic_coarse());
        let until = began.saturating_add(deadline);
        let in_time = |place: &PortLocation| match boot::monotonic_coarse() {
            time if time < until => Ok(()),
            time => Err(Error::Slow {
                path: place.port_folder(),
                took: time.saturating_sub(began),
            }),
        };
        let mut unreadable = UnreadableFiles::default();
        let standing = self.standing(now);
        let answer = match (&standing, &mut self.port_query) {
            (Some(down), _) => down.answer.clone(),
            (None, Some(query)) => {
                let answer = query.port(now);
                in_time(&self.place)?;
                answer
            }
            (None, None) => None,
        };
        let state = match (&answer, &standing) {
            (Some(answer), _) => Ok(answer.state.into()),
            (None, Some(_)) => Ok(DOWN),
            (None, None) => self.state.read(now, text::state),
        };
        if state == Err(Reason::Gone) {
            let folder = self.place.port_folder();
            if root::list(&folder)?.is_none() {
                return Err(Error::io(&folder, Errno::ENODEV.into()));
            }
        }
        in_time(&self.place)?;
        self.refresh(now, answer.as_ref());
        in_time(&self.place)?;
        self.read_device_info(out);
        if self.facts.is_representor {
            // The first port speaks for the device and the node, whatever it is.
            if let Some(setup) = &mut self.setup {
                setup.show_node(now, out);
            }
            let port = (&self.place, &mut self.port_query);
            return read_device(port, &mut self.device, now, &in_time, &mut unreadable, out);
        }
        self.read_info(out);

        let (device, number) = (self.place.device.as_str(), self.place.port.as_str());
        let port = &[device, number];
        let is_down = state == Ok(DOWN);
        if let Err(reason) = state {
            // Below the class: the tree may be elsewhere.
            out.incomplete(&Error::State {
                what: format!("{device}/ports/{number}/state: unreadable ({})", reason.word()),
                reason: reason.word(),
            });
        }
        out.maybe_u64(&PORT_STATE, port, unreadable.note(state));
        let physical_state = match (&answer, &standing) {
            (Some(answer), _) => Ok(answer.physical_state.into()),
            (None, Some(down)) => down.physical_state,
            (None, None) => self.physical_state.read(now, text::state),
        };
        let is_noisy = down::is_noisy(&self.facts.link_layer, &self.place.function.driver);
        if standing.is_none() {
            let down = DownPort {
                answer,
                physical_state,
            };
            self.down.asked(now, (is_down && is_noisy).then_some(down));
        }
        out.maybe_u64(&PORT_PHYSICAL_STATE, port, unreadable.note(physical_state));
        if let Some(rate) = &mut self.rate {
            // Without the speed of a link that is down, such a driver reports 1 Gb/s.
            let rate = (!is_down || !is_noisy).then(|| rate.read(now, text::rate));
            let rate = rate.and_then(|rate| unreadable.note(rate));
            out.maybe_u64(&PORT_RATE, port, rate.map(|r| r.bytes_per_second));
            out.maybe_u64(&PORT_LANES, port, rate.map(|r| r.lanes));
        }
        if let Some(file) = &mut self.carrier_down {
            let count = file.read(now, text::number);
            out.maybe_u64(&CARRIER_DOWN, port, unreadable.note(count));
        }
        if let Some(file) = &mut self.netdev_up {
            let is_up = unreadable.note(file.read(now, text::operstate)).flatten();
            out.maybe_u64(&NETDEV_UP, port, is_up.map(u64::from));
        }
        self.connections.show(now, *port, out);
        let lifespan = self.facts.lifespan.map(|ms| Duration::from_millis(ms.into()));
        if !self.hw_counters.is_empty() {
            let seconds = lifespan.map(|l| Value::F64(l.as_secs_f64()));
            out.push(&HW_COUNTERS_LIFESPAN, port, seconds.unwrap_or(Value::Absent));
        }

        let index = self.port_query.as_ref().and_then(NetlinkPort::index);
        let asked = self.stats.as_mut().map(|stats| {
            stats.found(index);
            stats.ask(now, lifespan.unwrap_or_default())
        });
        if !self.hw_counters.is_empty() {
            let by_netlink = !matches!(asked, None | Some(StatsResult::Files));
            let source = if by_netlink { "netlink" } else { "sysfs" };
            out.info(&HW_COUNTERS_INFO, &[device, number, source]);
        }
        let mut counted = Counted {
            port: *port,
            unreadable: &mut unreadable,
            saturated: None,
            out,
        };
        in_time(&self.place)?;
        match (asked, &self.stats) {
            (Some(StatsResult::Counters), Some(stats)) => {
                for (meaning, reading) in stats.counters() {
                    counted.push(meaning, reading);
                }
            }
            (Some(StatsResult::Refused(reason)), Some(stats)) => {
                // The files would send the same query to the driver.
                for (meaning, _) in stats.counters() {
                    counted.push(meaning, Err(reason));
                }
            }
            _ => {
                for counter in &mut self.hw_counters {
                    in_time(&self.place)?;
                    let reading = counter.read(now);
                    counted.push(&counter.meaning, reading);
                }
            }
        }
        for counter in &mut self.counters {
            in_time(&self.place)?;
            let reading = counter.read(now);
            counted.push(&counter.meaning, reading);
        }
        let Counted {
            saturated,
            out,
            unreadable,
            ..
        } = counted;
        out.maybe_u64(&PORT_SATURATED_COUNTERS, port, saturated);

        if let Some(setup) = &mut self.setup {
            in_time(&self.place)?;
            setup.show(now, &self.place, &self.facts.link_layer, out);
        }
        let of = (&self.place, &mut self.port_query);
        read_device(of, &mut self.device, now, &in_time, unreadable, out)?;
        for reason in &self.unlisted {
            unreadable.note(Err::<(), _>(*reason));
        }
        for (reason, count) in Reason::ALL.iter().zip(unreadable.0) {
            out.u64(&PORT_UNREADABLE_FILES, &[device, number, reason.word()], count);
        }
        in_time(&self.place)
    }
}

/// Reads what the device has, if the port speaks for it.
fn read_device(
    (place, query): (&PortLocation, &mut Option<NetlinkPort>),
    of_device: &mut Option<(DeviceFacts, Vec<Counter>)>,
    now: Instant,
    in_time: &impl Fn(&PortLocation) -> Result<(), Error>,
    unreadable: &mut UnreadableFiles,
    out: &mut Block,
) -> Result<(), Error> {
    let Some((_, counters)) = of_device else {
        return Ok(());
    };
    let (device, number) = (place.device.as_str(), place.port.as_str());
    let resources = query.as_mut().and_then(|t| t.resources(now));
    for (kind, count) in resources.into_iter().flatten() {
        out.u64(&RESOURCES, &[device, kind], *count);
    }
    for counter in counters {
        in_time(place)?;
        let value = unreadable
            .note(counter.read(now))
            .map_or(Value::Absent, |r| r.value);
        let Meaning {
            metric,
            name,
            is_named,
            ..
        } = &counter.meaning;
        let second = if *is_named { name } else { number };
        out.push(metric, &[device, second], value);
    }
    Ok(())
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
