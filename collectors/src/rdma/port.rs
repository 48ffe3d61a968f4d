//! One port: state, rate, what it is, and its counters.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::attribute::{Attribute, Files};
use super::counter::{self, Counter, Meaning, Reading};
use super::facts::{DeviceFacts, PortFacts};
use super::function::Function;
use super::metrics::{
    CARRIER_DOWN, COUNTER_SATURATED, DEVICE_HW_COUNTER, DEVICE_INFO, HW_COUNTER, HW_COUNTERS_INFO,
    HW_COUNTERS_LIFESPAN, PORT_INFO, PORT_LANES, PORT_PHYSICAL_STATE, PORT_RATE, PORT_SATURATED_COUNTERS,
    PORT_STATE, PORT_UNREADABLE_FILES, drivers,
};
use super::stats::{Asked, Known, Stats};
use super::text::{self, Reason};
use crate::netlink::Protocol;
use crate::sys::netlink;
use crate::sys::root;
use crate::{Block, Device, Error, Subject, SubjectKind, Value};

/// Where a port is.
#[derive(Debug)]
pub(super) struct Place {
    /// The device's name.
    pub(super) device: String,
    /// The port's number, from 1.
    pub(super) port: String,
    /// How many ports the device has.
    pub(super) of: usize,
    /// `/sys/class/infiniband/<device>`.
    pub(super) folder: PathBuf,
    /// `/sys/class/net`.
    pub(super) net: PathBuf,
    /// What carries the device.
    pub(super) function: Function,
    /// Its NUMA node, empty where the kernel knows none.
    pub(super) numa_node: String,
    /// The first port also tells what is the device's.
    pub(super) speaks_for_device: bool,
    /// How netlink knows the device, where that may be asked.
    pub(super) netlink: Option<Known>,
    /// The recording that answers in the kernel's place.
    pub(super) recorded: Option<PathBuf>,
}

impl Place {
    /// The port's folder.
    pub(super) fn port_folder(&self) -> PathBuf {
        self.folder.join("ports").join(&self.port)
    }
}

/// One port.
pub(super) struct Port {
    subject: Subject,
    place: Place,
    files: Files,
    facts: PortFacts,
    device: Option<(DeviceFacts, Vec<Counter>)>,
    state: Attribute,
    physical_state: Attribute,
    /// Not where the driver makes it up.
    rate: Option<Attribute>,
    carrier_down: Option<Attribute>,
    hw_counters: Vec<Counter>,
    /// In place of the files, where the kernel tells all of them at once.
    stats: Option<Stats>,
    counters: Vec<Counter>,
    is_whole: bool,
}

impl Port {
    /// Lists the port's files without reading them.
    pub(super) fn new(place: Place, files: &Files) -> Self {
        let folder = place.port_folder();
        let attribute = |name: &str| files.attribute(folder.join(name));
        let mut is_whole = true;
        let mut listed = |found: Result<Vec<Counter>, Error>| {
            found.unwrap_or_else(|error| {
                tracing::warn!(%error, "counters cannot be listed");
                is_whole = false;
                Vec::new()
            })
        };
        let pma = counter::of_pma(&folder.join("counters"), &place.function.driver, files);
        let counters = listed(pma);
        let row = |name: &str| drivers::row(name, !counters.is_empty());
        let hw_counters = listed(counter::of_hw(
            &folder.join("hw_counters"),
            row,
            &HW_COUNTER,
            files,
        ));
        // A driver without a folder of them has none to tell.
        let number = place.port.parse().ok().filter(|_| !hw_counters.is_empty());
        let known = place.netlink.clone().zip(number);
        let stats = known.map(|(known, port)| {
            let kernel = netlink::asker(place.recorded.as_deref(), Protocol::Rdma, &files.budget);
            Stats::new(known, port, !counters.is_empty(), kernel)
        });
        let device = place.speaks_for_device.then(|| {
            let counters = counter::of_hw(
                &place.folder.join("hw_counters"),
                |_| None,
                &DEVICE_HW_COUNTER,
                files,
            );
            (DeviceFacts::default(), listed(counters))
        });
        Self {
            subject: Subject::new(SubjectKind::RdmaPort, format!("{}/{}", place.device, place.port)),
            facts: PortFacts::default(),
            device,
            state: attribute("state"),
            physical_state: attribute("phys_state"),
            // efa says 100 Gb/s whatever its link is (efa_verbs.c).
            rate: (place.function.driver != "efa").then(|| attribute("rate")),
            carrier_down: None,
            stats,
            hw_counters,
            counters,
            is_whole,
            files: files.clone(),
            place,
        }
    }

    /// Whether each of its folders could be listed.
    pub(super) const fn is_whole(&self) -> bool {
        self.is_whole
    }

    fn refresh(&mut self, now: Instant) {
        let Self {
            facts, place, files, ..
        } = self;
        if facts.refresh(now, place) {
            // InfiniBand counts in link_downed; its interface loses the carrier for reasons of its own.
            let counts = facts.link_layer == "Ethernet" && !facts.netdev.is_empty();
            let file = place.net.join(&facts.netdev).join("carrier_down_count");
            self.carrier_down = counts.then(|| files.attribute(file));
        }
        if let Some((facts, _)) = &mut self.device {
            facts.refresh(now, &self.place.folder);
        }
    }

    fn read_info(&self, out: &mut Block) {
        let Place {
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

/// How many files gave no value, by reason.
#[derive(Default)]
struct Unreadable([u64; Reason::ALL.len()]);

impl Unreadable {
    /// The value, or absent and counted.
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

/// Takes what the counters of a port have said.
struct Counted<'a> {
    port: [&'a str; 2],
    unreadable: &'a mut Unreadable,
    /// How many stand at their maximum; `None`: of none that is known.
    saturated: Option<u64>,
    out: &'a mut Block,
}

impl Counted<'_> {
    fn push(&mut self, meaning: &Meaning, reading: Result<Reading, Reason>) {
        let [device, number] = self.port;
        let named = &[device, number, meaning.name.as_str()];
        let reading = self.unreadable.note(reading);
        let value = reading.as_ref().map_or(Value::Absent, |r| r.value);
        if meaning.is_named {
            self.out.push(meaning.metric, named, value);
        } else {
            self.out.push(meaning.metric, &self.port, value);
        }
        if meaning.maximum.is_some() {
            let is_saturated = reading.and_then(|r| r.is_saturated);
            let flag = if is_saturated == Some(true) {
                Value::U64(1)
            } else {
                Value::Absent
            };
            self.out.push(&COUNTER_SATURATED, named, flag);
            if let Some(is_saturated) = is_saturated {
                *self.saturated.get_or_insert(0) += u64::from(is_saturated);
            }
        }
    }
}

impl Port {
    /// Reads it. Each file may block for a minute: behind one that did, the others are not begun.
    pub(super) fn read_within(&mut self, deadline: Duration, out: &mut Block) -> Result<(), Error> {
        let now = Instant::now();
        let in_time = |place: &Place| match now.elapsed() {
            took if took < deadline => Ok(()),
            took => Err(Error::Slow {
                path: place.port_folder(),
                took,
            }),
        };
        let mut unreadable = Unreadable::default();
        let state = self.state.read(now, text::state);
        if state == Err(Reason::Gone) {
            let folder = self.place.port_folder();
            if root::list(&folder)?.is_none() {
                return Err(Error::io(&folder, Errno::ENODEV.into()));
            }
        }
        in_time(&self.place)?;
        self.refresh(now);
        in_time(&self.place)?;
        self.read_info(out);

        let (device, number) = (self.place.device.as_str(), self.place.port.as_str());
        let port = &[device, number];
        out.maybe_u64(&PORT_STATE, port, unreadable.note(state));
        let physical_state = self.physical_state.read(now, text::state);
        out.maybe_u64(&PORT_PHYSICAL_STATE, port, unreadable.note(physical_state));
        if let Some(rate) = &mut self.rate {
            let rate = unreadable.note(rate.read(now, text::rate));
            out.maybe_u64(&PORT_RATE, port, rate.map(|r| r.bytes_per_second));
            out.maybe_u64(&PORT_LANES, port, rate.map(|r| r.lanes));
        }
        if let Some(file) = &mut self.carrier_down {
            let count = file.read(now, text::number);
            out.maybe_u64(&CARRIER_DOWN, port, unreadable.note(count));
        }
        let lifespan = self.facts.lifespan.map(|ms| Duration::from_millis(ms.into()));
        if !self.hw_counters.is_empty() {
            let seconds = lifespan.map(|l| Value::F64(l.as_secs_f64()));
            out.push(&HW_COUNTERS_LIFESPAN, port, seconds.unwrap_or(Value::Absent));
        }

        let asked = self
            .stats
            .as_mut()
            .map(|s| s.ask(now, lifespan.unwrap_or_default()));
        if !self.hw_counters.is_empty() {
            let by_netlink = !matches!(asked, None | Some(Asked::Files));
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
            (Some(Asked::Told), Some(stats)) => {
                for (meaning, reading) in stats.counters() {
                    counted.push(meaning, reading);
                }
            }
            (Some(Asked::Refused(reason)), Some(stats)) => {
                // The files would ask the same driver the same.
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

        if let Some((_, counters)) = &mut self.device {
            for counter in counters {
                in_time(&self.place)?;
                let value = unreadable
                    .note(counter.read(now))
                    .map_or(Value::Absent, |r| r.value);
                out.push(counter.meaning.metric, &[device, &counter.meaning.name], value);
            }
        }
        for (reason, count) in Reason::ALL.iter().zip(unreadable.0) {
            out.u64(&PORT_UNREADABLE_FILES, &[device, number, reason.word()], count);
        }
        in_time(&self.place)
    }
}

impl Device for Port {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        self.read_within(super::SPEC.deadline, out)
    }
}
