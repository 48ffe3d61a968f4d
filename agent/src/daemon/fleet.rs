//! The workers as seen by the daemon: their sockets, and their readings.

mod limits;
mod receive;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use collectors::{COLLECTORS, Cadence, Cursor, DOMAINS, Domain, Env, Event, Settings, Subject};

use crate::link::WorkerDown;
use crate::worker::proto::{Begin, Decoder, ToWorker, encode};
use health::settings::Command;
use limits::WorkerLimits;
use model::commands::CommandState;
use model::filter::Filter;
use model::snapshot::{CollectorState, DeviceState, Lease, Prepared, Presence, Snapshot};

/// Time for which a scrape waits for a collector with an outstanding request; later scrapes skip it at once.
const PATIENCE: Duration = Duration::from_secs(2);

/// An event from a worker on which the daemon must act.
#[derive(Debug)]
pub enum FleetEvent {
    /// A collector has finished a request.
    Done(u16),
    /// An event from this collector's watcher.
    Event(&'static str, Box<Event>),
    /// Notes of the collector with that name for its next worker.
    Notes(&'static str, String),
    /// A collector's source was opened, or opening failed.
    Opened,
    /// The socket must be watched for room to write, or no longer.
    Write(bool),
    /// The worker is gone or violated the protocol; its socket was closed.
    Gone,
}

struct WorkerConnection {
    stream: UnixStream,
    decoder: Decoder,
    unsent: Vec<u8>,
    greeted: bool,
    /// The socket is watched for room to write.
    blocked: bool,
    /// Outstanding requests to collectors, with their time.
    asked: BTreeMap<u16, Duration>,
}

/// All workers and their readings.
pub struct Fleet {
    env: Env,
    settings: Settings,
    /// That of workers.
    log_level: String,
    links: Vec<Option<WorkerConnection>>,
    state: Snapshot,
    /// The numbers of each collector's devices, in the order of the snapshot.
    devices: Vec<Vec<u32>>,
    /// By domain. They outlive a worker: the next one does not start with a full allowance.
    limits: Vec<WorkerLimits>,
    /// Receives bytes of a worker. Kept, since clearing 16 KiB for each read costs more than most reads.
    received: Box<[u8]>,
}

impl Fleet {
    /// A fleet without workers; they are attached one by one.
    pub fn new(env: Env, settings: Settings) -> Self {
        let links = DOMAINS.iter().map(|_| None).collect();
        Self {
            env,
            settings,
            log_level: String::new(),
            links,
            state: Snapshot::empty(Duration::ZERO),
            devices: vec![Vec::new(); COLLECTORS.len()],
            limits: DOMAINS.iter().map(|_| WorkerLimits::new()).collect(),
            received: vec![0; receive::READ].into(),
        }
    }

    /// Settings for workers that start from now on. Returns the domains whose worker runs with others.
    pub fn set_settings(&mut self, settings: Settings) -> Vec<u16> {
        let before = std::mem::replace(&mut self.settings, settings);
        let differs = |domain: &Domain| {
            let specs = COLLECTORS.iter().filter(|spec| spec.domain.name == domain.name);
            let keys = || specs.clone().flat_map(|spec| spec.keys).copied();
            before.of(keys()) != self.settings.of(keys())
        };
        let domains = (0..)
            .zip(DOMAINS)
            .filter(|(number, _)| self.fd(*number).is_some());
        domains
            .filter(|(_, domain)| differs(domain))
            .map(|(number, _)| number)
            .collect()
    }

    /// The level of the log of workers that start from now on.
    pub fn set_log_level(&mut self, level: &str) {
        self.log_level = sys::log::in_force(level);
    }

    /// The site's commands of the configuration. Those that are known keep their results.
    pub fn set_commands(&mut self, rows: &[Command]) {
        let known = |check: &str| self.state.commands.iter().find(|state| state.check == check);
        let of = |row: &Command| {
            let new = CommandState::new(row.check(), row.max_age());
            let known = known(&new.check).cloned();
            known.map_or(new.clone(), |known| CommandState {
                max_age: new.max_age,
                ..known
            })
        };
        self.state.commands = rows.iter().map(of).collect();
    }

    /// A command has run. One that is not in the configuration is dropped.
    pub fn command(&mut self, state: CommandState) {
        let mut all = self.state.commands.to_vec();
        if let Some(known) = all.iter_mut().find(|known| known.check == state.check) {
            *known = CommandState {
                max_age: known.max_age,
                ..state
            };
            self.state.commands = all.into();
        }
    }

    /// The descriptor of a worker's socket.
    pub fn fd(&self, domain: u16) -> Option<BorrowedFd<'_>> {
        Some(self.links.get(usize::from(domain))?.as_ref()?.stream.as_fd())
    }

    /// Attaches a worker that the parent has started, and sends it the collectors to open.
    ///
    /// # Errors
    /// When the descriptor is no socket.
    pub fn attach(
        &mut self,
        domain: u16,
        (pid, starts, stuck_slots): (i32, u64, u8),
        socket: OwnedFd,
        cursors: &BTreeMap<String, Cursor>,
        notes: &BTreeMap<String, String>,
    ) -> io::Result<Vec<FleetEvent>> {
        let stream = UnixStream::from(socket);
        stream.set_nonblocking(true)?;
        let link = WorkerConnection {
            stream,
            decoder: Decoder::default(),
            unsent: Vec::new(),
            greeted: false,
            blocked: false,
            asked: BTreeMap::new(),
        };
        let name = DOMAINS.get(usize::from(domain)).map_or("", |d| d.name);
        let collectors = numbers()
            .filter(|(_, spec)| spec.domain.name == name)
            .map(|(number, spec)| Begin {
                number,
                cursor: cursors.get(spec.name).cloned(),
                notes: notes.get(spec.name).cloned(),
            })
            .collect();
        self.forget(domain);
        if let Some(slot) = self.links.get_mut(usize::from(domain)) {
            *slot = Some(link);
        }
        if let Some(worker) = self.state.workers.get_mut(usize::from(domain)) {
            worker.pid = Some(pid);
            worker.starts = starts;
            worker.down = None;
            worker.stuck_slots = stuck_slots;
        }
        let specs = COLLECTORS.iter().filter(|spec| spec.domain.name == name);
        let start = ToWorker::Start {
            build: crate::BUILD.to_owned(),
            log_level: self.log_level.clone(),
            env: self.env.clone(),
            settings: self.settings.of(specs.flat_map(|spec| spec.keys).copied()),
            collectors,
        };
        Ok(self.send(domain, &start))
    }

    /// The parent reports that no worker runs for this domain.
    pub fn down(&mut self, domain: u16, why: WorkerDown, stuck_slots: u8) {
        self.forget(domain);
        if let Some(worker) = self.state.workers.get_mut(usize::from(domain)) {
            worker.down = Some(why.word());
            worker.stuck_slots = stuck_slots;
        }
        if why == WorkerDown::Absent {
            for collector in of_domain(&mut self.state, domain) {
                collector.presence = Presence::NotHere;
            }
        }
    }

    /// The parent reports how many earlier processes of a domain are stuck.
    pub fn slots(&mut self, domain: u16, stuck: u8) {
        if let Some(worker) = self.state.workers.get_mut(usize::from(domain)) {
            worker.stuck_slots = stuck;
        }
    }

    /// Releases a driver: its worker exits, and its readings are no longer shown.
    pub fn release(&mut self, domain: u16, lease: Lease) {
        self.forget(domain);
        if let Some(worker) = self.state.workers.get_mut(usize::from(domain)) {
            worker.down = Some("released");
            worker.lease = Some(lease);
        }
    }

    /// The driver is released under this lease; `None`: the release is over.
    pub fn lease(&mut self, domain: u16, lease: Option<Lease>) {
        if let Some(worker) = self.state.workers.get_mut(usize::from(domain)) {
            worker.lease = lease;
        }
    }

    /// Closes a worker's socket, which ends the worker, and discards its readings: old values are not shown.
    pub fn forget(&mut self, domain: u16) {
        if let Some(slot) = self.links.get_mut(usize::from(domain)) {
            *slot = None;
        }
        if let Some(worker) = self.state.workers.get_mut(usize::from(domain)) {
            worker.pid = None;
            worker.figures = None;
            worker.helpers.clear();
        }
        if let Some(limits) = self.limits.get_mut(usize::from(domain)) {
            limits.clear();
        }
        for collector in of_domain(&mut self.state, domain) {
            collector.presence = Presence::Unknown;
            collector.watcher = None;
            collector.devices.clear();
            collector.late.clear();
        }
    }

    /// Requests readings from collectors that `filter` selects and whose last reading is neither fresh nor younger
    /// than `young`. Returns those for which a requester must wait.
    pub fn ask(
        &mut self,
        now: Duration,
        filter: &Filter,
        young: Duration,
    ) -> (Vec<u16>, Vec<(u16, Vec<FleetEvent>)>) {
        let (mut waiting, mut told) = (Vec::new(), Vec::new());
        for domain in 0..self.links.len() {
            let Ok(domain) = u16::try_from(domain) else {
                continue;
            };
            let wanted = self.wanted(domain, now, (filter, young), &mut waiting);
            if !wanted.is_empty() {
                told.push((domain, self.send(domain, &ToWorker::Read(wanted))));
            }
        }
        (waiting, told)
    }

    fn wanted(
        &mut self,
        domain: u16,
        now: Duration,
        (filter, young): (&Filter, Duration),
        waiting: &mut Vec<u16>,
    ) -> Vec<u16> {
        let Some(Some(link)) = self.links.get_mut(usize::from(domain)) else {
            return Vec::new();
        };
        let name = DOMAINS.get(usize::from(domain)).map_or("", |d| d.name);
        let mut wanted = Vec::new();
        for (number, collector) in numbers().zip(&self.state.collectors).map(|((n, _), c)| (n, c)) {
            if collector.spec.domain.name != name || matches!(collector.presence, Presence::NotHere) {
                continue;
            }
            // No readings that no page shows.
            if !filter.takes(collector.spec.name) {
                continue;
            }
            let Cadence::OnDemand { fresh } = collector.spec.cadence else {
                continue;
            };
            match link.asked.get(&number) {
                Some(since) if now.saturating_sub(*since) < PATIENCE => waiting.push(number),
                Some(_) => {}
                None if is_fresh(collector, now, fresh.max(young)) => {}
                None => {
                    link.asked.insert(number, now);
                    wanted.push(number);
                    waiting.push(number);
                }
            }
        }
        wanted
    }

    /// Whether a device exceeded its slice and may still answer: its reading began less than `patience` ago.
    pub fn is_slow(&self, now: Duration, patience: Duration) -> bool {
        let mut devices = self.state.collectors.iter().flat_map(|c| &c.devices);
        devices.any(|d| {
            let late = d.late.as_ref();
            late.is_some_and(|l| now.saturating_sub(l.since) < patience)
        })
    }

    /// The node's state according to the readings so far.
    pub fn snapshot(&mut self, now: Duration) -> Arc<Snapshot> {
        self.state.at = now;
        Arc::new(self.state.clone())
    }

    fn send(&mut self, domain: u16, frame: &ToWorker) -> Vec<FleetEvent> {
        if let Some(Some(link)) = self.links.get_mut(usize::from(domain)) {
            link.unsent.extend_from_slice(&encode(frame));
        }
        self.writable(domain)
    }

    /// Sends queued frames as long as there is room.
    pub fn writable(&mut self, domain: u16) -> Vec<FleetEvent> {
        let Some(Some(link)) = self.links.get_mut(usize::from(domain)) else {
            return Vec::new();
        };
        while !link.unsent.is_empty() {
            match link.stream.write(&link.unsent) {
                Ok(n) => {
                    link.unsent.drain(..n);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // Its end is noticed when reading.
                Err(_) => link.unsent.clear(),
            }
        }
        let blocked = !link.unsent.is_empty();
        if std::mem::replace(&mut link.blocked, blocked) == blocked {
            return Vec::new();
        }
        vec![FleetEvent::Write(blocked)]
    }
}

fn numbers() -> impl Iterator<Item = (u16, &'static collectors::Spec)> {
    (0..).zip(COLLECTORS.iter().copied())
}

fn is_fresh(collector: &CollectorState, now: Duration, fresh: Duration) -> bool {
    !collector.devices.is_empty()
        && collector
            .devices
            .iter()
            .all(|d| (d.error.is_none() || d.is_partial) && now.saturating_sub(d.at) < fresh)
}

/// The collectors of one worker.
fn of_domain(state: &mut Snapshot, domain: u16) -> impl Iterator<Item = &mut CollectorState> {
    let name = DOMAINS.get(usize::from(domain)).map_or("", |d| d.name);
    let collectors = state.collectors.iter_mut();
    let own = collectors.filter(move |c| c.spec.domain.name == name);
    own.map(Arc::make_mut)
}

fn new_device(subject: Subject) -> DeviceState {
    DeviceState {
        subject,
        layout: Arc::new(Prepared::new(Vec::new())),
        values: Arc::new(Vec::new()),
        refused: 0,
        at: Duration::ZERO,
        took: Duration::ZERO,
        error: None,
        is_partial: false,
        late: None,
    }
}

#[cfg(test)]
mod tests;
