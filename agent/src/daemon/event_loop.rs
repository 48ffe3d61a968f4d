//! The daemon's event loop. Its thread waits on sockets, timers and channels only: no file, no lookup, no lock that
//! another thread holds during I/O.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use collectors::event::{JobChange, JobEnd, JobEvent};
use collectors::sys::boot;
use collectors::{BootId, DOMAINS, EventBody};
use tokio::sync::oneshot;

use super::audit::{Notices, Trail};
use super::effect_queue::{EffectQueue, EffectStep};
use super::fleet::{Fleet, FleetEvent};
use super::jobs::{self, Keeper};
use super::journal::Journal;
use super::mailbox::{Mailbox, Message};
use super::release::Releases;
use super::store::Publisher;
use super::web::WebAccess;
use crate::config::Listen;
use crate::config::Loaded;
use crate::web::Gate;
use model::filter::Filter;
use model::jobs::{Book, Looks, asked};
use model::snapshot::Snapshot;

use crate::link::{Summary, ToDaemon, ToParent};
use crate::own::{AuditCounts, OwnFacts, Page};
use health::audit::Entry;
use health::engine::Engine;
use health::verdict::Verdict;
use health::view::View;
use health::{Effect, Input, Now, Order, Record};
use sys::packet::{Packets, Received};
use sys::poll::{Poll, Waker};

/// Health ticks are at multiples of this on the wall clock, so that all nodes of a cluster check at the same time.
const TICK: Duration = Duration::from_secs(15);
/// The first tick after a start, doubled until [`TICK`], so that the first verdict comes early.
const FIRST_TICK: Duration = Duration::from_millis(250);
/// Time for which a health tick waits for readings, also of slow devices; to the checks later ones are unknown.
const TICK_PATIENCE: Duration = Duration::from_secs(3);
/// Limit of a reading's age for a health tick: a scrape just before it serves both.
const TICK_FRESH: Duration = Duration::from_secs(5);

const PARENT: u64 = u64::MAX;
const MAILBOX: u64 = u64::MAX - 1;

/// A requester that waits for readings.
struct Waiter {
    waiting: Vec<u16>,
    deadline: Duration,
    purpose: Purpose,
}

/// The purpose of readings.
enum Purpose {
    /// For the engine's checks.
    Tick,
    /// A job has begun or ended.
    Jobs,
    /// For a page.
    Page(oneshot::Sender<Arc<Page>>),
}

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
    orders: VecDeque<oneshot::Sender<Result<String, String>>>,
    releases: Releases,
    facts: OwnFacts,
    store_failing: bool,
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
    let wall = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| d.as_secs());
    Now {
        boottime: boot::boottime(),
        wall: i64::try_from(wall).unwrap_or(i64::MAX),
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
            store_failing: false,
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
            self.facts.store_errors += 1;
            self.step(Input::Stored(number, false));
        }
        self.answer_waiters(time);
        if self.engine.next_deadline().is_some_and(|d| d <= time) {
            self.step(Input::Tick);
        }
        while let Some(step) = self.effects.next(time) {
            match step {
                Ok(step) => self.carry_out(step),
                Err(number) => {
                    self.facts.store_errors += 1;
                    self.step(Input::Stored(number, false));
                }
            }
        }
        if self.changed {
            self.publish();
        }
        self.show_life(time);
        self.send_to_parent();
    }

    /// Heartbeats are sent at other wake-ups if possible, so that they seldom need one of their own.
    fn show_life(&mut self, time: Duration) {
        let every = self.heartbeat;
        // A parent that does not read must not get a long queue of them.
        if time + every / 4 >= self.next_alive && self.to_parent.is_empty() {
            self.next_alive = time + every;
            self.tell_parent(&ToParent::Alive);
        }
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
                    sys::ignore(reply.send(answer));
                }
                self.publish();
            }
        }
    }

    /// Adds an entry to the audit trail, and sends it to the site's command.
    fn audit(&mut self, entry: Entry) {
        if self.notifies && self.notices.take(&entry) {
            self.tell_parent(&ToParent::Notify(Box::new(entry.clone())));
        }
        self.trail.add(entry);
    }

    /// Requests fresh readings from the workers; the requester is answered when they are complete or at the deadline.
    /// A reading younger than `young`, or fresh by its collector's cadence, is not requested again.
    fn ask(&mut self, deadline: Duration, filter: &Filter, young: Duration, purpose: Purpose) {
        let (waiting, told) = self.fleet.ask(boot::boottime(), filter, young);
        self.waiters.push(Waiter {
            waiting,
            deadline,
            purpose,
        });
        for (domain, told) in told {
            self.told(domain, told);
        }
    }

    fn answer_waiters(&mut self, time: Duration) {
        let is_slow = self.fleet.is_slow(time, TICK_PATIENCE);
        let is_done = |w: &mut Waiter| {
            // Only a tick waits for slow devices: else no check would ever judge them.
            let is_complete = w.waiting.is_empty() && !(is_slow && matches!(w.purpose, Purpose::Tick));
            is_complete || w.deadline <= time
        };
        let done: Vec<Waiter> = self.waiters.extract_if(.., is_done).collect();
        if done.is_empty() {
            return;
        }
        let snapshot = self.fleet.snapshot(time);
        let wall = wall_clock().as_secs_f64();
        self.jobs.take(&snapshot, &self.engine.ledger().xids, wall);
        let is_tick = done.iter().any(|w| matches!(w.purpose, Purpose::Tick));
        if is_tick {
            self.step(Input::Snapshot(&snapshot));
        } else {
            self.engine.look_at_jobs(now(), &snapshot);
        }
        self.keep_jobs();
        let page = self.publish_snapshot(snapshot);
        for waiter in done {
            if let Purpose::Page(reply) = waiter.purpose
                && waiter.waiting.is_empty()
            {
                // The scraper may have gone. One that waited for nothing gets the page just published, and counts as late.
                sys::ignore(reply.send(Arc::clone(&page)));
            }
        }
    }

    /// Stores lines of ended jobs, and the totals of running jobs whenever they are shown: no counter may decrease
    /// after a restart.
    fn keep_jobs(&mut self) {
        let closed = self.jobs.closed();
        let view = self.jobs.view();
        let is_due = !closed.is_empty() || !view.running.is_empty();
        closed.into_iter().for_each(|line| self.keeper.line(line));
        for record in self.jobs.done() {
            self.tell_parent(&ToParent::Recorded(record));
        }
        self.jobs.unwritten(self.keeper.unwritten());
        if let Some(book) = is_due.then(|| jobs::kept(&self.jobs, &self.boot)).flatten() {
            self.keeper.book(book);
        }
        self.facts.job_lines_dropped = self.keeper.dropped().saturating_add(self.records_dropped);
        self.facts.jobs = Arc::new(view);
    }

    /// A job has begun or ended.
    fn job(&mut self, job: &JobChange) {
        let wall = wall_clock().as_secs_f64();
        let start = job.start_us.map(|us| Duration::from_micros(us).as_secs_f64());
        match job.what {
            JobEvent::Began => self.jobs.began(&job.folder, start, wall),
            JobEvent::Ended => {
                for job in self.jobs.left(&job.folder, start, wall) {
                    self.engine.job_left(now(), &job);
                }
            }
        }
        self.looks.stirred(boot::boottime(), job.what == JobEvent::Began);
    }

    /// The epilog of a job has left its record.
    fn job_end(&mut self, end: &JobEnd) {
        self.records_dropped = self.records_dropped.max(end.dropped);
        if let Some(job) = self.jobs.told(end.clone(), wall_clock().as_secs_f64()) {
            self.engine.job_left(now(), &job);
        }
        self.looks.stirred(boot::boottime(), false);
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

    /// Requesters stop waiting for the collectors of a lost worker.
    fn release_waiters(&mut self, domain: u16) {
        let name = DOMAINS.get(usize::from(domain)).map_or("", |d| d.name);
        for waiter in &mut self.waiters {
            waiter.waiting.retain(|c| {
                collectors::COLLECTORS
                    .get(usize::from(*c))
                    .is_some_and(|spec| spec.domain.name != name)
            });
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
            Message::Release(release) => {
                if let Some((domain, number, lease)) = self.releases.begin(release) {
                    // Before its socket is closed, so that no new worker starts in between.
                    self.tell_parent(&ToParent::Hold(domain, number));
                    self.release_waiters(domain);
                    self.fleet.release(domain, lease);
                    self.changed = true;
                }
            }
            Message::Resume(number) => {
                if let Some(domain) = self.releases.end(number) {
                    self.fleet.lease(domain, None);
                    self.changed = true;
                    self.tell_parent(&ToParent::Free(domain));
                }
            }
            Message::Stored(stored) => {
                if !self.effects.stored(stored.number) {
                    return;
                }
                let failed = stored.result.is_err();
                if let Err(e) = &stored.result {
                    self.facts.store_errors += 1;
                    if !self.store_failing {
                        tracing::error!("cannot store a record: {e}");
                    }
                } else if self.store_failing {
                    tracing::info!("records are stored again");
                }
                self.store_failing = failed;
                self.step(Input::Stored(stored.number, !failed));
            }
        }
    }

    fn order(&mut self, order: Order, reply: oneshot::Sender<Result<String, String>>) {
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

    fn tell_parent(&mut self, packet: &ToParent) {
        self.to_parent
            .push_back(postcard::to_stdvec(packet).unwrap_or_default());
        self.send_to_parent();
    }

    fn send_to_parent(&mut self) {
        let mut full = false;
        while let Some(packet) = self.to_parent.front() {
            match self.parent.send(packet, None) {
                Ok(()) => {
                    self.to_parent.pop_front();
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    full = true;
                    break;
                }
                // Its end is noticed when receiving.
                Err(_) => self.to_parent.clear(),
            }
        }
        if std::mem::replace(&mut self.parent_full, full) != full {
            sys::ignore(self.poll.want_write(&self.parent, PARENT, full));
        }
    }

    fn hear_parent(&mut self) -> io::Result<()> {
        loop {
            match self.parent.receive()? {
                Received::Nothing => return Ok(()),
                Received::Closed => {
                    if !self.parent_gone {
                        tracing::debug!("the parent is gone; stopping");
                    }
                    self.parent_gone = true;
                    self.poll.remove(&self.parent);
                    return Ok(());
                }
                Received::Packet(bytes, fd) => match postcard::from_bytes::<ToDaemon>(&bytes) {
                    Ok(packet) => self.packet(packet, fd),
                    Err(e) => tracing::error!(error = %e, "protocol error from the parent"),
                },
            }
        }
    }

    fn packet(&mut self, packet: ToDaemon, fd: Option<std::os::fd::OwnedFd>) {
        match packet {
            ToDaemon::Init(_) | ToDaemon::Socket => tracing::error!("protocol error: second start packet"),
            ToDaemon::Web(found) => {
                self.facts.web_config_error = self.web.change(found);
                self.changed = true;
            }
            ToDaemon::WebRejected => {
                self.facts.web_config_error = Some(true);
                self.changed = true;
            }
            ToDaemon::Config { loaded, error } => self.configure(*loaded, error),
            ToDaemon::Worker {
                domain,
                pid,
                starts,
                stuck_slots,
            } => {
                if self.releases.is_held(domain) {
                    // Started before the parent knew of the release. Closing its socket ends it.
                    return;
                }
                let Some(socket) = fd else {
                    tracing::error!(domain, "protocol error from the parent: worker without a socket");
                    return;
                };
                self.release_waiters(domain);
                self.changed = true;
                let worker = (pid, starts, stuck_slots);
                let (cursors, notes) = (self.engine.cursors(), self.engine.notes());
                match self.fleet.attach(domain, worker, socket, cursors, notes) {
                    Ok(told) => {
                        if let Some(fd) = self.fleet.fd(domain)
                            && let Err(e) = self.poll.add(fd, u64::from(domain))
                        {
                            tracing::error!(domain, error = %e, "cannot watch the worker's socket");
                        }
                        self.told(domain, told);
                    }
                    Err(e) => tracing::error!(domain, error = %e, "cannot use the worker's socket"),
                }
            }
            ToDaemon::WorkerDown {
                domain,
                why,
                stuck_slots,
            } => {
                if !self.releases.is_held(domain) {
                    self.release_waiters(domain);
                    self.fleet.down(domain, why, stuck_slots);
                }
            }
            ToDaemon::Held(domain, number) => {
                if let Some(lease) = self.releases.is_free(domain, number, boot::boottime()) {
                    self.fleet.lease(domain, Some(lease));
                    self.changed = true;
                }
            }
            ToDaemon::Slots(domain, stuck) => self.fleet.slots(domain, stuck),
            ToDaemon::Notified(counts) => self.facts.notifications = counts,
            ToDaemon::Checked(state) => {
                self.fleet.command(*state);
                self.changed = true;
            }
            ToDaemon::Looked(looked) => self.step(Input::Scheduler(looked.as_ref())),
            ToDaemon::Acted(id, outcome) => {
                self.journal.outcome(&outcome);
                self.step(Input::Done(id, &outcome));
            }
        }
    }

    /// Replaces a worker, which reads its settings only at its start. One that is stuck keeps its slot, and the next one
    /// takes the other.
    fn renew(&mut self, domain: u16) {
        // No driver is released, so no one waits for this number.
        self.tell_parent(&ToParent::Hold(domain, 0));
        let sent = self.fleet.readable(domain);
        self.told(domain, sent);
        self.release_waiters(domain);
        self.fleet.forget(domain);
        self.tell_parent(&ToParent::Free(domain));
    }

    fn configure(&mut self, loaded: Loaded, error: Option<String>) {
        self.facts.config_error = error.is_some();
        self.changed = true;
        if error.is_some() {
            return;
        }
        let is_elsewhere = loaded.config.listen != self.listen;
        if is_elsewhere {
            tracing::warn!("listen: the new addresses need a restart");
        }
        self.facts.restart_needed = is_elsewhere;
        self.web.listens_elsewhere(is_elsewhere);
        match loaded.policy() {
            Ok(policy) => {
                sys::log::set_level(&loaded.config.log_level);
                self.fleet.set_log_level(&loaded.config.log_level);
                self.notifies = loaded.config.notify.is_some();
                self.facts.mode = loaded.config.health.mode;
                self.facts.max_jobs = loaded.config.max_jobs();
                self.facts.metrics = Arc::new(loaded.config.metrics);
                self.facts.access = loaded.config.access;
                self.facts.operators = loaded.config.health.operators.into();
                self.facts.rdma = Arc::new(loaded.config.health.rdma);
                for domain in self.fleet.set_settings(loaded.config.collectors) {
                    self.renew(domain);
                }
                self.fleet.set_commands(&policy.site.settings.commands);
                let effects = self.engine.set_policy(now(), policy);
                self.effects.push(effects);
                tracing::info!("configuration in force");
            }
            Err(e) => {
                self.facts.config_error = true;
                tracing::error!("configuration rejected, the previous one stays in force: {e}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_fall_on_multiples_of_the_wall_clock() {
        let at = |ms| Duration::from_millis(ms);
        assert_eq!(next_tick(at(100), at(15_000 * 7 + 1)), at(100 + 14_999));
        assert_eq!(next_tick(at(100), at(15_000 * 7)), at(100 + 15_000));
    }
}
