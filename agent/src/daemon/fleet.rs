//! The workers as the daemon sees them: their sockets, and what they have said.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use collectors::{COLLECTORS, Cadence, Cursor, DOMAINS, Env, Event, Settings, Subject};

use crate::link::WorkerDown;
use crate::worker::monitor::{CLOSING, LateThread, SOURCE, WATCHER};
use crate::worker::proto::{Begin, Decoder, Failure, FromWorker, Garbage, ToWorker, encode, from_wire};
use model::filter::Filter;
use model::snapshot::{self, CollectorState, DeviceState, Lease, Prepared, Presence, Snapshot};

/// How long a scrape waits for a collector that was asked earlier and has not answered: beyond, it is skipped at once.
const PATIENCE: Duration = Duration::from_secs(2);

/// The most that a collector may note: sixteen GPUs need 5 KB.
const MAX_NOTES: usize = 64 * 1024;

/// What a worker has told that somebody must act on.
#[derive(Debug)]
pub enum FleetEvent {
    /// A collector has answered a request.
    Done(u16),
    /// Something happened, of which the watcher of this collector tells.
    Event(&'static str, Box<Event>),
    /// What the collector of that name notes for its next worker.
    Notes(&'static str, String),
    /// A collector's source was opened, or could not be.
    Opened,
    /// The socket must be watched for room to write, or no longer.
    Write(bool),
    /// The worker is gone or talks garbage; its socket was closed.
    Gone,
}

struct WorkerConnection {
    stream: UnixStream,
    decoder: Decoder,
    unsent: Vec<u8>,
    greeted: bool,
    /// The socket is watched for room to write.
    blocked: bool,
    /// Collectors asked to read, and when.
    asked: BTreeMap<u16, Duration>,
}

/// All workers and what they have said.
pub struct Fleet {
    env: Env,
    settings: Settings,
    links: Vec<Option<WorkerConnection>>,
    state: Snapshot,
    /// The numbers of each collector's devices, in the order of the snapshot's.
    devices: Vec<Vec<u32>>,
}

impl Fleet {
    /// A fleet whose workers will be handed over one by one.
    pub fn new(env: Env, settings: Settings) -> Self {
        let links = DOMAINS.iter().map(|_| None).collect();
        Self {
            env,
            settings,
            links,
            state: Snapshot::empty(Duration::ZERO),
            devices: vec![Vec::new(); COLLECTORS.len()],
        }
    }

    /// Settings for workers that are started from now on.
    pub fn set_settings(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// The descriptor of a worker's socket.
    pub fn fd(&self, domain: u16) -> Option<BorrowedFd<'_>> {
        Some(self.links.get(usize::from(domain))?.as_ref()?.stream.as_fd())
    }

    /// Takes over a worker that the parent has started, and tells it what to open.
    ///
    /// # Errors
    /// When the socket is none.
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
            env: self.env.clone(),
            settings: self.settings.of(specs.flat_map(|spec| spec.keys).copied()),
            collectors,
        };
        Ok(self.send(domain, &start))
    }

    /// The parent says that no worker runs for this domain.
    pub fn down(&mut self, domain: u16, why: WorkerDown, stuck_slots: u8) {
        self.forget(domain);
        if let Some(worker) = self.state.workers.get_mut(usize::from(domain)) {
            worker.down = Some(why.word());
            worker.stuck_slots = stuck_slots;
        }
    }

    /// Lets a driver go: its worker leaves, and what it said is no longer shown.
    pub fn release(&mut self, domain: u16, lease: Lease) {
        self.forget(domain);
        if let Some(worker) = self.state.workers.get_mut(usize::from(domain)) {
            worker.down = Some("released");
            worker.lease = Some(lease);
        }
    }

    /// It is free, for so long; or `None`: it is taken back.
    pub fn lease(&mut self, domain: u16, lease: Option<Lease>) {
        if let Some(worker) = self.state.workers.get_mut(usize::from(domain)) {
            worker.lease = lease;
        }
    }

    /// Closes a worker's socket, which ends the worker, and forgets what it said: old values are not shown.
    fn forget(&mut self, domain: u16) {
        if let Some(slot) = self.links.get_mut(usize::from(domain)) {
            *slot = None;
        }
        if let Some(worker) = self.state.workers.get_mut(usize::from(domain)) {
            worker.pid = None;
            worker.figures = None;
        }
        let name = DOMAINS.get(usize::from(domain)).map_or("", |d| d.name);
        for collector in self
            .state
            .collectors
            .iter_mut()
            .filter(|c| c.spec.domain.name == name)
        {
            collector.presence = Presence::Unknown;
            collector.watcher = None;
            collector.devices.clear();
            collector.late.clear();
        }
    }

    /// Asks those collectors that `filter` takes and whose last reading is neither fresh nor younger than `young`. Returns
    /// those that a requester has to wait for.
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
            // Nobody is asked for what nobody will see.
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

    /// What the node looks like by what was said until now.
    pub fn snapshot(&mut self, now: Duration) -> Arc<Snapshot> {
        self.state.at = now;
        Arc::new(self.state.clone())
    }

    /// Reads what a worker has sent.
    pub fn readable(&mut self, domain: u16) -> Vec<FleetEvent> {
        let mut told = Vec::new();
        let mut bytes = [0; 16 * 1024];
        // A read that leaves room has taken all; what comes later is told by epoll.
        let mut drained = false;
        while !drained {
            let Some(Some(link)) = self.links.get_mut(usize::from(domain)) else {
                return told;
            };
            match link.stream.read(&mut bytes) {
                Ok(0) => {
                    self.forget(domain);
                    told.push(FleetEvent::Gone);
                    return told;
                }
                Ok(n) => {
                    link.decoder.push(bytes.get(..n).unwrap_or_default());
                    drained = n < bytes.len();
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return told,
                Err(_) => {
                    self.forget(domain);
                    told.push(FleetEvent::Gone);
                    return told;
                }
            }
            if let Err(garbage) = self.frames(domain, &mut told) {
                let name = DOMAINS.get(usize::from(domain)).map_or("", |d| d.name);
                tracing::error!(worker = name, %garbage, "worker sent what no worker sends; its socket is closed");
                self.forget(domain);
                told.push(FleetEvent::Gone);
                return told;
            }
        }
        told
    }

    fn frames(&mut self, domain: u16, told: &mut Vec<FleetEvent>) -> Result<(), Garbage> {
        loop {
            let Some(Some(link)) = self.links.get_mut(usize::from(domain)) else {
                return Ok(());
            };
            let Some(frame) = link.decoder.take::<FromWorker>()? else {
                return Ok(());
            };
            match (frame, link.greeted) {
                (FromWorker::Hello { build }, false) if build == crate::BUILD => link.greeted = true,
                (FromWorker::Hello { .. }, false) => return Err(Garbage("hello of another build")),
                (_, false) | (FromWorker::Hello { .. }, true) => return Err(Garbage("no hello first")),
                (FromWorker::Done(collector), true) => {
                    link.asked.remove(&collector);
                    told.push(FleetEvent::Done(collector));
                }
                (FromWorker::Event(collector, event), true) => {
                    let spec = self.owned(domain, collector)?.spec;
                    if !spec.events {
                        return Err(Garbage("event of a collector that has none"));
                    }
                    told.push(FleetEvent::Event(spec.name, Box::new(event)));
                }
                (FromWorker::Notes(collector, notes), true) => {
                    let spec = self.owned(domain, collector)?.spec;
                    if !spec.notes {
                        return Err(Garbage("notes of a collector that has none"));
                    }
                    if notes.len() > MAX_NOTES {
                        tracing::warn!(
                            collector = spec.name,
                            bytes = notes.len(),
                            "notes too long, not kept"
                        );
                    } else {
                        told.push(FleetEvent::Notes(spec.name, notes));
                    }
                }
                (frame, true) => {
                    if matches!(frame, FromWorker::Opened(..)) {
                        told.push(FleetEvent::Opened);
                    }
                    self.note(domain, frame)?;
                }
            }
        }
    }

    /// The state of a collector, which must belong to this worker.
    fn owned(&mut self, domain: u16, collector: u16) -> Result<&mut CollectorState, Garbage> {
        let name = DOMAINS.get(usize::from(domain)).map_or("", |d| d.name);
        self.state
            .collectors
            .get_mut(usize::from(collector))
            .filter(|c| c.spec.domain.name == name)
            .ok_or(Garbage("collector of another worker"))
    }

    fn note(&mut self, domain: u16, frame: FromWorker) -> Result<(), Garbage> {
        match frame {
            FromWorker::Opened(collector, opened) => {
                self.owned(domain, collector)?.devices.clear();
                let opened = opened
                    .map(|there| there.map(|subjects| self.list(collector, (0..).zip(subjects).collect())));
                let state = self.owned(domain, collector)?;
                state.presence = match opened {
                    Ok(Some(())) => Presence::Open,
                    Ok(None) => Presence::NotHere,
                    Err(Failure { reason, text }) => Presence::Failed(reason, text),
                };
            }
            FromWorker::Devices(collector, Ok(list)) => {
                self.owned(domain, collector)?.presence = Presence::Open;
                self.list(collector, list);
            }
            FromWorker::Devices(collector, Err(Failure { reason, text })) => {
                let state = self.owned(domain, collector)?;
                let presence = Presence::Failed(reason, text.clone());
                if state.presence != presence {
                    tracing::warn!(
                        collector = state.spec.name,
                        "devices not listed, the known ones are read on: {text}"
                    );
                }
                state.presence = presence;
            }
            FromWorker::Watching(collector, watching) => {
                let state = self.owned(domain, collector)?;
                if let Err(why) = &watching {
                    tracing::warn!(
                        collector = state.spec.name,
                        reason = why.reason,
                        "watcher ended: {}",
                        why.text
                    );
                }
                state.watcher = Some(watching.map_err(|Failure { reason, text }| (reason, text)));
            }
            FromWorker::Layout(collector, device, layout) => {
                let layout = from_wire(layout)?;
                let device = self.device(domain, collector, device)?;
                device.layout = Arc::new(Prepared::new(layout));
                device.values = Arc::new(Vec::new());
            }
            FromWorker::Refused(collector, device, series) => {
                let name = self.owned(domain, collector)?.spec.name;
                let device = self.device(domain, collector, device)?;
                device.refused = series;
                if series > 0 {
                    tracing::warn!(collector = name, device = %device.subject, series, "too many series");
                }
            }
            FromWorker::Block {
                collector,
                device,
                at,
                took,
                values,
            } => {
                let device = self.device(domain, collector, device)?;
                let wanted = device.layout.series.len();
                if values.len() < wanted {
                    return Err(Garbage("block shorter than its layout"));
                }
                device.values = Arc::new(values.into_iter().take(wanted).map(Into::into).collect());
                device.at = Duration::from_nanos(at);
                device.took = Duration::from_nanos(took);
                device.error = None;
                device.late = None;
            }
            FromWorker::Failed {
                collector,
                device,
                took,
                why,
            } => {
                let name = self.owned(domain, collector)?.spec.name;
                let device = self.device(domain, collector, device)?;
                let error = Some((why.reason, why.text));
                if device.error != error {
                    let text = error.as_ref().map_or("", |e| e.1.as_str());
                    tracing::warn!(collector = name, device = %device.subject, "not read: {text}");
                }
                device.took = Duration::from_nanos(took);
                device.at = collectors::sys::boot::boottime();
                device.error = error;
                device.late = None;
            }
            FromWorker::Process(figures) => {
                if let Some(worker) = self.state.workers.get_mut(usize::from(domain)) {
                    worker.figures = Some(figures);
                }
            }
            FromWorker::Late(collector, late) => self.late(domain, collector, late)?,
            FromWorker::Hello { .. }
            | FromWorker::Done(_)
            | FromWorker::Event(..)
            | FromWorker::Notes(..) => {}
        }
        Ok(())
    }

    /// A device of a collector, which must belong to this worker.
    fn device(&mut self, domain: u16, collector: u16, number: u32) -> Result<&mut DeviceState, Garbage> {
        let numbers = self
            .devices
            .get(usize::from(collector))
            .map_or(&[][..], Vec::as_slice);
        let at = numbers.binary_search(&number).ok();
        self.owned(domain, collector)?
            .devices
            .get_mut(at.ok_or(Garbage("device number"))?)
            .ok_or(Garbage("device number"))
    }

    /// Takes over a list of devices. Those that were there keep what is known of them.
    fn list(&mut self, collector: u16, mut list: Vec<(u32, Subject)>) {
        let at = usize::from(collector);
        let (Some(state), Some(numbers)) = (self.state.collectors.get_mut(at), self.devices.get_mut(at))
        else {
            return;
        };
        list.sort_unstable_by_key(|(number, _)| *number);
        list.dedup_by_key(|(number, _)| *number);
        let known = numbers.drain(..).zip(state.devices.drain(..));
        let mut known: BTreeMap<u32, DeviceState> = known.collect();
        for (number, subject) in list {
            let old = known.remove(&number).filter(|d| d.subject == subject);
            numbers.push(number);
            state.devices.push(old.unwrap_or_else(|| new_device(subject)));
        }
    }

    /// Takes over all that has not come back of a collector. A device that is still late says so in its next list, or
    /// answers.
    fn late(&mut self, domain: u16, collector: u16, late: Vec<LateThread>) -> Result<(), Garbage> {
        let state = self.owned(domain, collector)?;
        state.late.clear();
        let is_blocked = |w: &Option<Result<(), (String, String)>>| matches!(w, Some(Err((reason, _))) if reason == "blocked");
        if is_blocked(&state.watcher) && !late.iter().any(|(part, ..)| *part == WATCHER) {
            state.watcher = Some(Ok(()));
        }
        for (part, since, task) in late {
            let text = || {
                let waits = task.as_ref().map_or("", |t| t.wchan.as_str());
                let state = task.as_ref().map_or(' ', |t| t.state);
                format!("blocked in state {state}, waiting in {waits:?}")
            };
            let state = self.owned(domain, collector)?;
            match part {
                SOURCE => state.presence = Presence::Failed("blocked".to_owned(), text()),
                // One that has failed is no better for being blocked while it is tried again.
                WATCHER if is_blocked(&state.watcher) || !matches!(state.watcher, Some(Err(_))) => {
                    state.watcher = Some(Err(("blocked".to_owned(), text())));
                }
                _ => {}
            }
            let late = snapshot::Late {
                since: Duration::from_nanos(since),
                task,
            };
            match part {
                SOURCE | WATCHER | CLOSING => state.late.push(late),
                device => self.device(domain, collector, device)?.late = Some(late),
            }
        }
        Ok(())
    }

    fn send(&mut self, domain: u16, frame: &ToWorker) -> Vec<FleetEvent> {
        if let Some(Some(link)) = self.links.get_mut(usize::from(domain)) {
            link.unsent.extend_from_slice(&encode(frame));
        }
        self.writable(domain)
    }

    /// Sends what is waiting, as far as there is room.
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
                // The end of it is seen by reading.
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
            .all(|d| d.error.is_none() && now.saturating_sub(d.at) < fresh)
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
        late: None,
    }
}

#[cfg(test)]
mod tests;
