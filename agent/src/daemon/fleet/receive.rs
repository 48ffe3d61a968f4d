//! What a worker sends: checked, limited and escaped before anything else of the daemon sees it.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use collectors::block::MAX_SERIES;
use collectors::{DOMAINS, EventBody, Subject};

use super::limits::{self, Breach};
use super::{Fleet, FleetEvent, new_device, of_domain};
use crate::worker::monitor::{CLOSING, LateThread, SOURCE, WATCHER};
use crate::worker::proto::{Failure, FromWorker, Garbage, from_wire};
use model::snapshot::{self, CollectorState, DeviceState, Prepared, Presence};

/// How many reads of [`READ`] bytes a worker gets before it is another one's turn.
const READS: usize = 16;
/// Bytes of a read.
pub(super) const READ: usize = 16 * 1024;
/// Limit of a collector's notes, in bytes: 16 GPUs need 5 KB.
pub(super) const MAX_NOTES: usize = 64 * 1024;

impl Fleet {
    /// Reads frames of a worker, a bounded number of bytes: epoll reports what is left.
    pub fn readable(&mut self, domain: u16) -> Vec<FleetEvent> {
        let mut told = Vec::new();
        let mut bytes = std::mem::take(&mut self.received);
        let read = self.read(domain, &mut bytes, &mut told);
        self.received = bytes;
        if let Err(breach) = read {
            if let Some(breach) = breach {
                self.log(domain, || format!("{breach}; connection closed"));
            }
            self.forget(domain);
            if let Some(breach @ Breach::Limit(_)) = breach {
                for collector in of_domain(&mut self.state, domain) {
                    collector.presence = Presence::Failed("limit".to_owned(), breach.to_string());
                }
            }
            told.push(FleetEvent::Gone);
        }
        told
    }

    /// # Errors
    /// `None` at the end of the stream.
    fn read(
        &mut self,
        domain: u16,
        bytes: &mut [u8],
        told: &mut Vec<FleetEvent>,
    ) -> Result<(), Option<Breach>> {
        for _ in 0..READS {
            let Some(Some(link)) = self.links.get_mut(usize::from(domain)) else {
                return Ok(());
            };
            let read = match link.stream.read(bytes) {
                Ok(0) => return Err(None),
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(_) => return Err(None),
            };
            link.decoder.push(bytes.get(..read).unwrap_or_default());
            let now = Instant::now();
            if let Some(limits) = self.limits.get_mut(usize::from(domain)) {
                limits.bytes(read, now)?;
            }
            self.frames(domain, now, told)?;
            // A short read has emptied the socket.
            if read < bytes.len() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Logs a line with text of a worker, if it has not logged too many.
    fn log(&mut self, domain: u16, line: impl FnOnce() -> String) {
        let worker = DOMAINS.get(usize::from(domain)).map_or("", |d| d.name);
        let limits = self.limits.get_mut(usize::from(domain));
        match limits.and_then(|limits| limits.line(Instant::now())) {
            Some(0) => tracing::warn!(worker, "{}", line()),
            Some(unlogged) => tracing::warn!(worker, unlogged, "{}", line()),
            None => {}
        }
    }

    fn frames(&mut self, domain: u16, now: Instant, told: &mut Vec<FleetEvent>) -> Result<(), Breach> {
        loop {
            let Some(Some(link)) = self.links.get_mut(usize::from(domain)) else {
                return Ok(());
            };
            let Some(frame) = link.decoder.take::<FromWorker>()? else {
                return Ok(());
            };
            let Some(limits) = self.limits.get_mut(usize::from(domain)) else {
                return Ok(());
            };
            limits.frame(now)?;
            match (frame, link.greeted) {
                (FromWorker::Hello { build }, false) if build == crate::BUILD => link.greeted = true,
                (FromWorker::Hello { .. }, false) => return Err(Garbage("worker of another build").into()),
                (_, false) | (FromWorker::Hello { .. }, true) => {
                    return Err(Garbage("first frame is not hello").into());
                }
                (FromWorker::Done(collector), true) => {
                    link.asked.remove(&collector);
                    told.push(FleetEvent::Done(collector));
                }
                (FromWorker::Event(collector, event), true) => {
                    limits.event(now)?;
                    let spec = self.owned(domain, collector)?.spec;
                    let event = event.admit(spec.events).map_err(Garbage)?;
                    if let EventBody::CursorAhead { cursor, newest } = &event.body {
                        let (name, newest) = (spec.name, newest.unwrap_or(0));
                        self.log(domain, || {
                            format!(
                                "{name}: stored position {cursor} is ahead of the newest record {newest} and not used; all records are read again"
                            )
                        });
                    }
                    told.push(FleetEvent::Event(spec.name, Box::new(event)));
                }
                (FromWorker::Notes(collector, notes), true) => {
                    let taken = limits.notes(now);
                    let spec = self.owned(domain, collector)?.spec;
                    if !spec.notes {
                        return Err(Garbage("notes of a collector without notes").into());
                    }
                    if notes.len() > MAX_NOTES {
                        let bytes = notes.len();
                        self.log(domain, || {
                            format!("{}: {bytes} bytes of notes discarded", spec.name)
                        });
                    } else if taken {
                        told.push(FleetEvent::Notes(spec.name, notes));
                    }
                }
                (frame, true) => {
                    if matches!(frame, FromWorker::Opened(..) | FromWorker::Devices(..)) {
                        limits.list(now)?;
                    }
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
            .map(Arc::make_mut)
            .ok_or(Garbage("collector of another worker"))
    }

    fn note(&mut self, domain: u16, frame: FromWorker) -> Result<(), Breach> {
        match frame {
            FromWorker::Opened(collector, opened) => {
                self.owned(domain, collector)?.devices.clear();
                let presence = match opened {
                    Ok(Some(subjects)) => {
                        self.list(domain, collector, (0..).zip(subjects).collect())?;
                        Presence::Open
                    }
                    Ok(None) => Presence::NotHere,
                    Err(why) => {
                        let Failure { reason, text } = limits::failure(why)?;
                        Presence::Failed(reason, text)
                    }
                };
                self.owned(domain, collector)?.presence = presence;
            }
            FromWorker::Devices(collector, Ok(list)) => {
                self.list(domain, collector, list)?;
                self.owned(domain, collector)?.presence = Presence::Open;
            }
            FromWorker::Devices(collector, Err(why)) => {
                let Failure { reason, text } = limits::failure(why)?;
                let state = self.owned(domain, collector)?;
                let name = state.spec.name;
                let presence = Presence::Failed(reason, text.clone());
                if std::mem::replace(&mut state.presence, presence.clone()) != presence {
                    self.log(domain, || {
                        format!("{name}: cannot list devices, continuing with the known ones: {text}")
                    });
                }
            }
            FromWorker::Watching(collector, watching) => {
                let watching = watching.map_err(limits::failure);
                let watching = match watching {
                    Ok(()) => Ok(()),
                    Err(why) => Err(why?),
                };
                let state = self.owned(domain, collector)?;
                let name = state.spec.name;
                state.watcher = Some(watching.clone().map_err(|why| (why.reason, why.text)));
                if let Err(Failure { reason, text }) = watching {
                    self.log(domain, || format!("{name}: watcher failed ({reason}): {text}"));
                }
            }
            FromWorker::Layout(collector, device, layout) => {
                if layout.len() > MAX_SERIES {
                    return Err(Breach::Limit("20000 series of a collector"));
                }
                let layout = from_wire(layout)?;
                limits::declared(self.owned(domain, collector)?.spec, &layout)?;
                self.device(domain, collector, device)?;
                if let Some(limits) = self.limits.get_mut(usize::from(domain)) {
                    limits.layout(collector, device, &layout)?;
                }
                let device = self.device(domain, collector, device)?;
                device.layout = Arc::new(Prepared::new(layout));
                device.values = Arc::new(Vec::new());
            }
            FromWorker::Refused(collector, device, series) => {
                let name = self.owned(domain, collector)?.spec.name;
                let device = self.device(domain, collector, device)?;
                device.refused = series;
                let subject = device.subject.clone();
                if series > 0 {
                    self.log(domain, || {
                        format!("{name}: {subject}: {series} excess series are omitted")
                    });
                }
            }
            FromWorker::Block {
                collector,
                device: number,
                at,
                took,
                values,
                fault,
            } => {
                let fault = fault.map(limits::failure).transpose()?;
                let device = self.device(domain, collector, number)?;
                device.values = Arc::new(values.first(device.layout.series.len())?);
                device.at = Duration::from_nanos(at);
                device.took = Duration::from_nanos(took);
                device.late = None;
                device.is_partial = fault.is_some();
                let error = fault.map(|why| (why.reason, why.text));
                self.fail(domain, (collector, number), error)?;
            }
            FromWorker::Failed {
                collector,
                device: number,
                took,
                why,
            } => {
                let Failure { reason, text } = limits::failure(why)?;
                let device = self.device(domain, collector, number)?;
                device.took = Duration::from_nanos(took);
                device.at = collectors::sys::boot::boottime();
                device.late = None;
                device.is_partial = false;
                self.fail(domain, (collector, number), Some((reason, text)))?;
            }
            FromWorker::Process(figures) => {
                if let Some(worker) = self.state.workers.get_mut(usize::from(domain)) {
                    worker.figures = Some(figures);
                }
            }
            FromWorker::Helper(place, figures) => {
                let helpers = DOMAINS.get(usize::from(domain)).map_or(&[][..], |d| d.helpers);
                let helper = helpers.get(usize::from(place)).ok_or(Garbage("helper"))?;
                if let Some(worker) = self.state.workers.get_mut(usize::from(domain)) {
                    worker.helpers.insert(helper.name, figures);
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

    /// Notes the error of a device's last reading, and logs a new one.
    fn fail(
        &mut self,
        domain: u16,
        (collector, number): (u16, u32),
        error: Option<(String, String)>,
    ) -> Result<(), Garbage> {
        let device = self.device(domain, collector, number)?;
        // The text of a driver names the device too: log and status name it before the text.
        let named = format!("{}: ", device.subject.name);
        let error = error.map(|(reason, text)| {
            let bare = text.strip_prefix(&named).map(str::to_owned);
            (reason, bare.unwrap_or(text))
        });
        if device.error == error {
            return Ok(());
        }
        device.error.clone_from(&error);
        let subject = device.subject.clone();
        if let Some((_, text)) = error {
            let name = self.owned(domain, collector)?.spec.name;
            self.log(domain, || format!("{name}: cannot read {subject}: {text}"));
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

    /// Replaces a list of devices. Known devices keep their readings.
    fn list(&mut self, domain: u16, collector: u16, mut list: Vec<(u32, Subject)>) -> Result<(), Breach> {
        limits::devices(&list)?;
        self.owned(domain, collector)?;
        list.sort_unstable_by_key(|(number, _)| *number);
        list.dedup_by_key(|(number, _)| *number);
        let listed = |device: u32| list.binary_search_by_key(&device, |(n, _)| *n).is_ok();
        if let Some(limits) = self.limits.get_mut(usize::from(domain)) {
            limits.keep(collector, listed);
        }
        let at = usize::from(collector);
        let (Some(state), Some(numbers)) = (self.state.collectors.get_mut(at), self.devices.get_mut(at))
        else {
            return Ok(());
        };
        let state = Arc::make_mut(state);
        let known = numbers.drain(..).zip(state.devices.drain(..));
        let mut known: BTreeMap<u32, DeviceState> = known.collect();
        for (number, subject) in list {
            let old = known.remove(&number).filter(|d| d.subject == subject);
            numbers.push(number);
            state.devices.push(old.unwrap_or_else(|| new_device(subject)));
        }
        Ok(())
    }

    /// Takes all outstanding readings of a collector. A device that is still late is in the next list, or answers.
    fn late(&mut self, domain: u16, collector: u16, mut late: Vec<LateThread>) -> Result<(), Breach> {
        limits::late(&mut late)?;
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
                format!("blocked in state {state}, wait channel {waits:?}")
            };
            let state = self.owned(domain, collector)?;
            match part {
                SOURCE => state.presence = Presence::Failed("blocked".to_owned(), text()),
                // A failed watcher stays failed while it blocks in its next attempt.
                WATCHER if is_blocked(&state.watcher) || !matches!(state.watcher, Some(Err(_))) => {
                    state.watcher = Some(Err(("blocked".to_owned(), text())));
                }
                _ => {}
            }
            let late = snapshot::Late {
                since: Duration::from_nanos(since),
                heard: collectors::sys::boot::boottime(),
                task,
            };
            match part {
                SOURCE | WATCHER | CLOSING => state.late.push(late),
                device => self.device(domain, collector, device)?.late = Some(late),
            }
        }
        Ok(())
    }
}
