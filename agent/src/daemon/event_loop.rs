//! The daemon's event loop. Its thread waits on sockets, timers and channels only: no file, no lookup, no lock that
//! another thread holds during I/O.

mod jobs;
mod parent;
mod waiters;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use collectors::sys::boot;
use collectors::{BootId, EventBody};
use tokio::sync::oneshot;

use super::audit::{Notices, Trail};
use super::effect_queue::{EffectQueue, EffectStep};
use super::fleet::{Fleet, FleetEvent};
use super::jobs::Keeper;
use super::journal::Journal;
use super::mailbox::{Mailbox, Message};
use super::release::Releases;
use super::store::Publisher;
use super::web::WebAccess;
use crate::config::Listen;
use crate::http::Release;
use crate::http::control::Reply;
use crate::web::Gate;
use model::filter::Filter;
use model::jobs::{Book, Looks, asked};
use model::snapshot::Snapshot;

use crate::link::{Summary, ToParent};
use crate::own::{AuditCounts, OwnFacts, Page};
use health::audit::Entry;
use health::engine::Engine;
use health::verdict::Verdict;
use health::view::View;
use health::{Effect, Input, Now, Order, Record};
use sys::packet::Packets;
use sys::poll::{Poll, Waker};
use waiters::{Purpose, TICK_PATIENCE, Waiter};

/// Health ticks are at multiples of this on the wall clock, so that all nodes of a cluster check at the same time.
const TICK: Duration = Duration::from_secs(15);
/// The first tick after a start, doubled until [`TICK`], so that the first verdict comes early.
const FIRST_TICK: Duration = Duration::from_millis(250);
/// Limit of a reading's age for a health tick: a scrape just before it serves both.
const TICK_FRESH: Duration = Duration::from_secs(5);

const PARENT: u64 = u64::MAX;
const MAILBOX: u64 = u64::MAX - 1;

/// The state of the loop.
pub struct Daemon {
    poll: Poll,
    parent: Packets,
    to_parent: VecDeque<Vec<u8>>,
    /// The parent's socket is watched for room to write.
    parent_full: bool,
    waker: Waker,
    messages: Receiver<Message>,
    mailbox: Mailbox,
    store: Sender<Record>,
    publisher: Publisher,
    trail: Trail,
    notices: Notices,
    /// A command gets notifications.
    notifies: bool,
    engine: Engine,
    fleet: Fleet,
    effects: EffectQueue,
    waiters: Vec<Waiter>,
    orders: VecDeque<oneshot::Sender<Reply>>,
    releases: Releases,
    facts: OwnFacts,
    /// Why the last record was not stored.
    unstored: Option<String>,
    next_tick: Duration,
    /// During the first ticks: time until the next one.
    early: Option<Duration>,
    /// The public view of the engine.
    view: Arc<View>,
    /// The engine may have changed since the last view.
    changed: bool,
    journal: Journal,
    boot: BootId,
    listen: Vec<Listen>,
    web: WebAccess,
    parent_gone: bool,
    /// Interval of heartbeats to the parent.
    heartbeat: Duration,
    /// Deadline of the next heartbeat.
    next_alive: Duration,
    /// The last summary sent to the parent.
    summary: Option<Summary>,
    jobs: Book,
    /// When to list jobs.
    looks: Looks,
    keeper: Keeper,
    /// Number of records that the hooks had to drop since the boot.
    records_dropped: u64,
}

/// The inputs of [`Daemon::new`].
pub struct DaemonParts {
    /// The socket to the parent.
    pub parent: Packets,
    /// Messages of other threads.
    pub messages: Receiver<Message>,
    /// Where other threads leave messages.
    pub mailbox: Mailbox,
    /// Wakes the loop.
    pub waker: Waker,
    /// The store thread.
    pub store: Sender<Record>,
    /// Publishes verdicts.
    pub publisher: Publisher,
    /// The audit trail.
    pub trail: Trail,
    /// A command gets notifications.
    pub notifies: bool,
    /// The engine, restored.
    pub engine: Engine,
    /// The workers.
    pub fleet: Fleet,
    /// Facts about configuration and store.
    pub facts: OwnFacts,
    /// The running kernel's boot.
    pub boot: BootId,
    /// Listen addresses.
    pub listen: Vec<Listen>,
    /// The access to pages.
    pub gate: Gate,
    /// Interval of heartbeats to the parent.
    pub heartbeat: Duration,
    /// The jobs that ran when the last daemon ended.
    pub jobs: Book,
    /// The thread that stores their usage.
    pub keeper: Keeper,
}

fn now() -> Now {
    Now {
        boottime: boot::boottime(),
        wall: jiff::Timestamp::now().as_second(),
    }
}

/// The time since boot at which the wall clock next passes a multiple of [`TICK`].
fn next_tick(boottime: Duration, wall: Duration) -> Duration {
    let past = wall.as_nanos() % TICK.as_nanos();
    let left = TICK.as_nanos() - past;
    boottime + Duration::from_nanos(u64::try_from(left).unwrap_or(0))
}

fn wall_clock() -> Duration {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default()
}

impl Daemon {
    /// # Errors
    /// When the descriptors cannot be watched.
    pub fn new(parts: DaemonParts) -> io::Result<Self> {
        let poll = Poll::new()?;
        poll.add(&parts.parent, PARENT)?;
        poll.add(&parts.waker, MAILBOX)?;
        let view = Arc::new(parts.engine.view());
        Ok(Self {
            poll,
            parent: parts.parent,
            to_parent: VecDeque::new(),
            parent_full: false,
            waker: parts.waker,
            messages: parts.messages,
            mailbox: parts.mailbox,
            store: parts.store,
            publisher: parts.publisher,
            trail: parts.trail,
            notices: Notices::default(),
            notifies: parts.notifies,
            engine: parts.engine,
            fleet: parts.fleet,
            effects: EffectQueue::default(),
            waiters: Vec::new(),
            orders: VecDeque::new(),
            releases: Releases::default(),
            facts: parts.facts,
            unstored: None,
            next_tick: Duration::ZERO,
            early: Some(FIRST_TICK),
            view,
            changed: false,
            journal: Journal::default(),
            boot: parts.boot,
            listen: parts.listen,
            web: WebAccess::new(parts.gate),
            parent_gone: false,
            heartbeat: parts.heartbeat,
            next_alive: Duration::ZERO,
            summary: None,
            jobs: parts.jobs,
            looks: Looks::default(),
            keeper: parts.keeper,
            records_dropped: 0,
        })
    }

    /// Runs until the parent is gone and the last record is stored.
    ///
    /// # Errors
    /// When epoll itself fails.
    pub fn run(&mut self) -> io::Result<()> {
        self.tell_parent(&ToParent::Ready);
        self.next_tick = boot::boottime() + FIRST_TICK;
        loop {
            self.advance();
            if self.parent_gone && self.effects.is_idle() {
                self.trail.finish();
                return Ok(());
            }
            let timeout = self.deadline().map(|d| d.saturating_sub(boot::boottime()));
            for token in self.poll.wait(timeout)? {
                match token {
                    PARENT => self.hear_parent()?,
                    MAILBOX => self.waker.clear(),
                    domain => {
                        let domain = u16::try_from(domain).unwrap_or(u16::MAX);
                        let mut told = self.fleet.writable(domain);
                        told.extend(self.fleet.readable(domain));
                        self.told(domain, told);
                    }
                }
            }
            while let Ok(message) = self.messages.try_recv() {
                self.message(message);
            }
        }
    }

    fn deadline(&self) -> Option<Duration> {
        let waiter = self.waiters.iter().map(|w| w.deadline).min();
        [
            Some(self.next_tick),
            self.looks.next(),
            self.to_parent.is_empty().then_some(self.next_alive),
            waiter,
            self.effects.deadline(),
            self.engine.next_deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn step(&mut self, input: Input<'_>) {
        let effects = self.engine.step(now(), input);
        self.effects.push(effects);
        self.changed = true;
    }

    /// Handles everything that is due.
    fn advance(&mut self) {
        let time = boot::boottime();
        if time >= self.next_tick {
            self.next_tick = next_tick(time, wall_clock());
            if let Some(wait) = self.early {
                self.next_tick = self.next_tick.min(time + wait);
                self.early = Some(wait * 2).filter(|w| *w < TICK);
            }
            self.ask(time + TICK_PATIENCE, &Filter::All, TICK_FRESH, Purpose::Tick);
        }
        if self.looks.is_due(time) {
            self.ask(time + TICK_PATIENCE, &asked(), Duration::ZERO, Purpose::Jobs);
        }
        if let Some(number) = self.effects.overdue(time) {
            tracing::error!(number, "storing a record timed out; continuing without it");
            self.stored(number, Err("the disk does not answer".to_owned()));
        }
        self.answer_waiters(time);
        if self.engine.next_deadline().is_some_and(|d| d <= time) {
            self.step(Input::Tick);
        }
        while let Some(step) = self.effects.next(time) {
            match step {
                Ok(step) => self.carry_out(step),
                Err(number) => self.stored(number, Err("the disk does not answer".to_owned())),
            }
        }
        if self.changed {
            self.publish();
        }
        self.show_life(time);
        self.send_to_parent();
    }

    fn carry_out(&mut self, step: EffectStep) {
        match step {
            // The thread lives as long as the process.
            EffectStep::Store(record) => sys::ignore(self.store.send(record)),
            EffectStep::Publish(verdict) => {
                self.journal.verdict(&verdict);
                self.journal.rdma(self.engine.names_no_port(), &self.facts.rdma);
                // `check` compares with the running kernel's boot, not with the engine's.
                let verdict = Verdict {
                    boot: self.boot.0.clone(),
                    ..verdict
                };
                match serde_json::to_string(&verdict) {
                    Ok(line) => self.publisher.publish(line + "\n"),
                    Err(e) => tracing::error!(error = %e, "cannot write the verdict"),
                }
            }
            EffectStep::Look => self.tell_parent(&ToParent::Look),
            EffectStep::Act(id, action) => {
                self.journal.act(&action);
                self.tell_parent(&ToParent::Act(id, action));
            }
            EffectStep::Audit(entry) => self.audit(*entry),
            EffectStep::Answer(answer) => {
                if let Some(reply) = self.orders.pop_front() {
                    // The client may have gone.
                    sys::ignore(reply.send(reply_to(answer, self.unstored.as_deref())));
                }
                self.publish();
            }
        }
    }

    /// Adds an entry to the audit trail, and sends it to the site's command.
    fn audit(&mut self, entry: Entry) {
        self.journal.overridden(&entry);
        if self.notifies && self.notices.take(&entry) {
            self.tell_parent(&ToParent::Notify(Box::new(entry.clone())));
        }
        self.trail.add(entry);
    }

    fn publish(&mut self) {
        let snapshot = self.fleet.snapshot(boot::boottime());
        self.publish_snapshot(snapshot);
    }

    fn publish_snapshot(&mut self, snapshot: Arc<Snapshot>) -> Arc<Page> {
        if std::mem::take(&mut self.changed) {
            self.view = Arc::new(self.engine.view());
            self.summarize();
        }
        self.facts.audit = AuditCounts {
            suppressed: self.mailbox.suppressed(),
            ..self.trail.counts()
        };
        let page = Arc::new(Page {
            snapshot,
            view: Arc::clone(&self.view),
            facts: self.facts.clone(),
        });
        self.mailbox.publish(Arc::clone(&page));
        page
    }

    fn summarize(&mut self) {
        let view = &self.view;
        let open = view.incidents.iter().filter(|i| i.state == "open").count();
        let summary = Summary {
            health: view.verdict.health,
            open: u32::try_from(open).unwrap_or(u32::MAX),
        };
        if self.summary != Some(summary) {
            self.summary = Some(summary);
            self.tell_parent(&ToParent::Summary(summary));
        }
    }

    fn told(&mut self, domain: u16, told: Vec<FleetEvent>) {
        for told in told {
            match told {
                FleetEvent::Done(collector) => {
                    for waiter in &mut self.waiters {
                        waiter.waiting.retain(|c| *c != collector);
                    }
                }
                FleetEvent::Notes(collector, notes) => self.step(Input::Notes(collector, &notes)),
                FleetEvent::Event(collector, event) => match &event.body {
                    // No fault, and too frequent to store a record for each.
                    EventBody::Job(job) => self.job(job),
                    EventBody::JobEnd(end) => self.job_end(end),
                    _ => self.step(Input::Event(collector, &event)),
                },
                FleetEvent::Write(wanted) => {
                    if let Some(fd) = self.fleet.fd(domain) {
                        sys::ignore(self.poll.want_write(fd, u64::from(domain), wanted));
                    }
                }
                FleetEvent::Opened => {
                    self.changed = true;
                    // A source that is back, for example after a release, must not wait for the next tick.
                    self.next_tick = self.next_tick.min(boot::boottime() + FIRST_TICK);
                }
                FleetEvent::Gone => self.release_waiters(domain),
            }
        }
    }

    fn message(&mut self, message: Message) {
        match message {
            Message::Scrape(by, filter, reply) => {
                let left = by.saturating_duration_since(Instant::now());
                self.ask(
                    boot::boottime() + left,
                    &filter,
                    Duration::ZERO,
                    Purpose::Page(reply),
                );
            }
            Message::Order(order, reply) => self.order(order, reply),
            Message::Recorded(record) => self.tell_parent(&ToParent::Recorded(record)),
            Message::Refused(entry) => self.audit(*entry),
            Message::Release(release) => self.release(release),
            Message::Resume(number) => match self.releases.end(number) {
                Some((_, Some(next))) => self.release(next),
                Some((domain, None)) => {
                    self.fleet.lease(domain, None);
                    self.changed = true;
                    self.tell_parent(&ToParent::Free(domain));
                }
                None => {}
            },
            Message::Stored(stored) => {
                if !self.effects.stored(stored.number) {
                    return;
                }
                match &stored.result {
                    Err(e) if self.unstored.as_ref() != Some(e) => {
                        tracing::error!("cannot store a record: {e}");
                    }
                    Ok(()) if self.unstored.is_some() => tracing::info!("records are stored again"),
                    _ => {}
                }
                self.stored(stored.number, stored.result);
            }
        }
    }

    fn release(&mut self, release: Release) {
        if let Some((domain, number, lease)) = self.releases.begin(release) {
            // Before its socket is closed, so that no new worker starts in between.
            self.tell_parent(&ToParent::Hold(domain, number));
            self.release_waiters(domain);
            self.fleet.release(domain, lease);
            self.changed = true;
        }
    }

    fn stored(&mut self, number: u64, result: Result<(), String>) {
        let is_stored = result.is_ok();
        self.facts.store_errors += u64::from(!is_stored);
        self.unstored = result.err();
        self.step(Input::Stored(number, is_stored));
    }

    fn order(&mut self, order: Order, reply: oneshot::Sender<Reply>) {
        self.orders.push_back(reply);
        let effects = self.engine.step(now(), Input::Operator(order));
        self.changed = true;
        // Every order is answered, so that replies and orders stay in step.
        let answered = effects.iter().any(|e| matches!(e, Effect::Answer(_)));
        self.effects.push(effects);
        if !answered {
            self.effects
                .push(vec![Effect::Answer(Err("not answered".to_owned()))]);
        }
    }
}

/// The reply to an order whose record was stored before it, or not. One that only memory holds is no success.
fn reply_to(answer: Result<String, String>, unstored: Option<&str>) -> Reply {
    match (answer, unstored) {
        (Ok(done), Some(why)) => Reply::Unstored(format!(
            "{done}. NOT STORED ({why}): a restart of nodewarden undoes it, unless a later attempt stores it"
        )),
        (Ok(done), None) => Reply::Done(done),
        (Err(why), _) => Reply::Refused(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_could_not_be_stored_is_no_success() {
        let of = |answer: Result<&str, &str>, unstored| {
            reply_to(answer.map(str::to_owned).map_err(str::to_owned), unstored)
        };
        assert!(matches!(of(Ok("paused"), None), Reply::Done(text) if text == "paused"));
        let Reply::Unstored(full) = of(Ok("paused"), Some("disk full")) else {
            panic!("a success, or a refusal");
        };
        assert!(full.starts_with("paused. NOT STORED (disk full): "), "{full}");
        for unstored in [None, Some("disk full")] {
            assert!(
                matches!(of(Err("no incident x"), unstored), Reply::Refused(why) if why == "no incident x")
            );
        }
    }

    #[test]
    fn ticks_fall_on_multiples_of_the_wall_clock() {
        let at = |ms| Duration::from_millis(ms);
        assert_eq!(next_tick(at(100), at(15_000 * 7 + 1)), at(100 + 14_999));
        assert_eq!(next_tick(at(100), at(15_000 * 7)), at(100 + 15_000));
    }
}
