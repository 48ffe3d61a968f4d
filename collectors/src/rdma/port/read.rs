//! One reading of a port.

use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::{DOWN, DownPort, PortLocation, RdmaPort};
use crate::netlink::nldev;
use crate::rdma::counter::{CounterReading, Meaning};
use crate::rdma::down;
use crate::rdma::facts::DeviceFacts;
use crate::rdma::metrics::{
    CARRIER_DOWN, DEVICE_INFO, HW_COUNTERS_INFO, HW_COUNTERS_LIFESPAN, NETDEV_UP, PORT_INFO, PORT_LANES,
    PORT_PHYSICAL_STATE, PORT_RATE, PORT_SATURATED_COUNTERS, PORT_STATE, PORT_UNREADABLE_FILES, RESOURCES,
};
use crate::rdma::netlink_port::NetlinkPort;
use crate::rdma::stats::StatsResult;
use crate::rdma::text::{self, Reason};
use crate::sys::{boot, root};
use crate::{Block, Error, Value};

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

/// The time in which a port is read. Each of its files may block for a minute: after one that did, the remaining files are not
/// read.
struct Within {
    began: Duration,
    until: Duration,
}

impl Within {
    fn new(deadline: Duration) -> Self {
        let began = boot::monotonic_coarse();
        Self {
            began,
            until: began.saturating_add(deadline),
        }
    }

    #[inline]
    fn check(&self, place: &PortLocation) -> Result<(), Error> {
        match boot::monotonic_coarse() {
            time if time < self.until => Ok(()),
            time => Err(Error::Slow {
                path: place.port_folder(),
                took: time.saturating_sub(self.began),
            }),
        }
    }
}

/// The answers about a port's state.
struct StateAnswer {
    state: Result<u64, Reason>,
    /// Netlink's answer, of now or of when the port went down.
    answer: Option<nldev::NldevPort>,
    /// What the driver said when the port went down, if it was not asked again.
    standing: Option<DownPort>,
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
    /// Reads it.
    pub(in crate::rdma) fn read_within(&mut self, deadline: Duration, out: &mut Block) -> Result<(), Error> {
        let (now, within) = (Instant::now(), Within::new(deadline));
        let mut unreadable = UnreadableFiles::default();
        let asked = self.ask(now, &within)?;
        within.check(&self.place)?;
        self.refresh(now, asked.answer.as_ref());
        within.check(&self.place)?;
        self.show_device_info(out);
        if self.facts.is_representor {
            // The first port speaks for the device and the node, whatever it is.
            if let Some(setup) = &mut self.setup {
                setup.show_node(now, out);
            }
            return self.read_device(now, &within, &mut unreadable, out);
        }
        self.show_info(out);
        self.read_link(now, asked, &mut unreadable, out);
        self.read_counters(now, &within, &mut unreadable, out)?;
        if let Some(setup) = &mut self.setup {
            within.check(&self.place)?;
            setup.show(now, &self.place, &self.facts.link_layer, out);
        }
        self.read_device(now, &within, &mut unreadable, out)?;
        for reason in &self.unlisted {
            unreadable.note(Err::<(), _>(*reason));
        }
        let [device, number] = self.place.labels();
        for (reason, count) in Reason::ALL.iter().zip(unreadable.0) {
            out.u64(&PORT_UNREADABLE_FILES, &[device, number, reason.word()], count);
        }
        within.check(&self.place)
    }

    /// Its state, unless the driver's answer of when it went down stands. An error if the port is gone.
    fn ask(&mut self, now: Instant, within: &Within) -> Result<StateAnswer, Error> {
        let standing = self.standing(now);
        let answer = match (&standing, &mut self.port_query) {
            (Some(down), _) => down.answer.clone(),
            (None, Some(query)) => {
                let answer = query.port(now);
                within.check(&self.place)?;
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
        Ok(StateAnswer {
            state,
            answer,
            standing,
        })
    }

    fn read_link(
        &mut self,
        now: Instant,
        asked: StateAnswer,
        unreadable: &mut UnreadableFiles,
        out: &mut Block,
    ) {
        let port @ [device, number] = &self.place.labels();
        let StateAnswer {
            state,
            answer,
            standing,
        } = asked;
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
        let is_down = state == Ok(DOWN);
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
    }

    fn read_counters(
        &mut self,
        now: Instant,
        within: &Within,
        unreadable: &mut UnreadableFiles,
        out: &mut Block,
    ) -> Result<(), Error> {
        let port @ [device, number] = self.place.labels();
        let lifespan = self.facts.lifespan.map(|ms| Duration::from_millis(ms.into()));
        let index = self.port_query.as_ref().and_then(NetlinkPort::index);
        let asked = self.stats.as_mut().map(|stats| {
            stats.found(index);
            stats.ask(now, lifespan.unwrap_or_default())
        });
        if !self.hw_counters.is_empty() {
            let seconds = lifespan.map(|l| Value::F64(l.as_secs_f64()));
            out.push(&HW_COUNTERS_LIFESPAN, &port, seconds.unwrap_or(Value::Absent));
            let by_netlink = !matches!(asked, None | Some(StatsResult::Files));
            let source = if by_netlink { "netlink" } else { "sysfs" };
            out.info(&HW_COUNTERS_INFO, &[device, number, source]);
        }
        let mut counted = Counted {
            port,
            unreadable,
            saturated: None,
            out,
        };
        within.check(&self.place)?;
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
                    within.check(&self.place)?;
                    let reading = counter.read(now);
                    counted.push(&counter.meaning, reading);
                }
            }
        }
        for counter in &mut self.counters {
            within.check(&self.place)?;
            let reading = counter.read(now);
            counted.push(&counter.meaning, reading);
        }
        let Counted { saturated, out, .. } = counted;
        out.maybe_u64(&PORT_SATURATED_COUNTERS, &port, saturated);
        Ok(())
    }

    /// Reads what the device has, if the port speaks for it.
    fn read_device(
        &mut self,
        now: Instant,
        within: &Within,
        unreadable: &mut UnreadableFiles,
        out: &mut Block,
    ) -> Result<(), Error> {
        let Some((_, counters)) = &mut self.device else {
            return Ok(());
        };
        let [device, number] = self.place.labels();
        let resources = self.port_query.as_mut().and_then(|query| query.resources(now));
        for (kind, count) in resources.into_iter().flatten() {
            out.u64(&RESOURCES, &[device, kind], *count);
        }
        for counter in counters {
            within.check(&self.place)?;
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

    fn show_info(&self, out: &mut Block) {
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

    fn show_device_info(&self, out: &mut Block) {
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
