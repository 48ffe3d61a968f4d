//! The parent: root where the node allows it, no listener, no driver, no mount. It starts the daemon and the workers,
//! hands the daemon its workers' sockets, and is the only process that runs commands ([`act`]).

pub mod act;
pub mod checks;
pub mod children;
pub mod gpfs;
mod holders;
pub mod notify;
mod reload;
pub mod service;
mod silence;
pub mod slurm;
pub mod state;
mod web;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use collectors::Env;
use collectors::slurm::hook::{self, RecordId};
use collectors::slurm::settings::HOOKS;

use crate::bucket::Bucket;
use crate::config::{Loaded, Origin};
use crate::link::{self, CANNOT_START, Init, ToDaemon, ToParent};
use crate::own::NotificationCounts;
use crate::refusals::Refusals;
use crate::runner::{NO_RUNNER, Runner};
use crate::web::WebConfig;
use act::{ActReply, ActRunner};
use checks::SiteChecks;
use children::Children;
use gpfs::GpfsCommands;
use health::Mode;
use health::audit::Entry;
use model::commands::CommandState;
use model::scheduler::{Action, NOT_WRITTEN, Outcome};
use notify::Notifier;
use reload::{Found, Reloads};
use service::Service;
use state::StateDir;
use sys::packet::{Packets, Received};
use sys::poll::{Poll, Waker};
use sys::signals::{Signal, SignalReader};
use sys::{dirs, files};
use sys::{privileges, processes, sandbox};
use web::WebFile;

/// Time limit for the daemon to finish its records after an order to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Limit of packets from the daemon handled in one turn.
const PACKETS_AT_ONCE: usize = 32;

/// Holds of workers at once, and the time in which as many more are allowed. A release holds one worker; each hold ends a
/// worker, and its end starts another one.
const HOLDS: (u32, Duration) = (20, Duration::from_secs(60));

const SIGNALS: u64 = 0;
const LINK: u64 = 1;
const ACT: u64 = 2;

/// The inputs of a run, checked and resolved.
#[derive(Debug)]
pub struct ParentSetup {
    /// The configuration in force.
    pub loaded: Loaded,
    /// Why the configuration is not the one in the file, if so.
    pub config_error: Option<String>,
    /// The content of its `web_config_file` and of the files that it names.
    pub web: Option<WebConfig>,
    /// Where it is reloaded from (SIGHUP).
    pub source: Origin,
    /// What workers may read.
    pub env: Env,
    /// The run directory.
    pub run_dir: PathBuf,
    /// The state directory.
    pub state_dir: PathBuf,
    /// Replaces the machine's boot time in a test (seconds since the epoch).
    pub forged_boot_time: Option<i64>,
}

struct Parent {
    setup: ParentSetup,
    /// The lock of the run directory.
    run: File,
    /// It is reported that the run directory was emptied.
    is_emptied: bool,
    state: StateDir,
    children: Children,
    poll: Poll,
    link: Option<Packets>,
    was_ready: bool,
    act: ActRunner,
    answers: Receiver<ActReply>,
    waker: Waker,
    reloads: Reloads,
    stopping: Option<Instant>,
    /// The watchdog has ended this process: that is no success.
    timed_out: bool,
    service: Service,
    /// The runner of site commands, where there are any.
    runner: Option<Runner>,
    notifier: Notifier,
    checks: SiteChecks,
    web: WebFile,
    gpfs: GpfsCommands,
    refusals: Refusals,
    /// Outlives the daemon: a restarted one gets no new burst.
    holds: Bucket,
}

/// Runs until stopped by a signal. The exit code is that of the whole program.
///
/// # Errors
/// When start-up fails: a directory, another instance, a signal or a descriptor.
pub fn run(mut setup: ParentSetup) -> anyhow::Result<ExitCode> {
    // Before any thread, so that every thread has the mask and signals arrive at the descriptor only.
    let signals = SignalReader::block()?;
    sys::signals::survive_file_limit()?;
    // Capabilities belong to threads: the log's gives them up first, this one after it has started the runner.
    let mask = collectors::domain::mask(processes::PARENT_CAPABILITIES);
    sys::log::start_after(&setup.loaded.config.log_level, move || {
        sys::ignore(privileges::keep(mask));
    })?;
    let service = Service::take(setup.loaded.config.health.mode)?;
    let daemon_ids = sys::users::daemon();
    // Without root every process has the user that started it.
    if privileges::is_root() {
        for user in sys::users::taken() {
            tracing::warn!("{user}");
        }
    }
    let run = dirs::take_run(&setup.run_dir, daemon_ids.uid, daemon_ids.gid)?;
    let state = state::take(&setup.state_dir, &daemon_ids)?;
    let slots = dirs::slots(&setup.run_dir)?;
    if setup.config_error.is_none() {
        setup.source.keep(&setup.loaded);
    }

    // Before this process restricts itself: its later children are restricted, too.
    let runner = start_runner(&setup);
    if let Err(e) = privileges::keep(mask) {
        tracing::warn!("cannot drop capabilities that are not needed: {e}");
    }
    // Last, and before any child: children inherit the filter.
    for missing in sandbox::enter("parent", None).missing {
        tracing::warn!("{missing}; the processes are confined by users and capabilities only");
    }
    let mode = setup.loaded.config.health.mode.word();
    tracing::info!("nodewarden {}, mode {mode}", env!("CARGO_PKG_VERSION"));
    let waker = Waker::new()?;
    let (act, answers) = ActRunner::new(
        setup.loaded.config.slurm.clone(),
        setup.forged_boot_time,
        !setup.env.is_live(),
        state.records.clone(),
        waker.clone(),
    );
    let poll = Poll::new()?;
    poll.add(&signals, SIGNALS)?;
    poll.add(&waker, ACT)?;
    let children = Children::new(daemon_ids, slots, &setup.env);
    let notifier = Notifier::new(waker.clone());
    let checks = SiteChecks::new(&setup.loaded.config.health_commands, waker.clone());
    let web_file = setup.loaded.config.web_config_file.clone();
    let web = WebFile::new(web_file, setup.web.take(), waker.clone());
    let is_on = setup.loaded.config.runs_gpfs_commands();
    let gpfs = GpfsCommands::new(is_on, &setup.env, &setup.run_dir, waker.clone());
    let reloads = Reloads::new(waker.clone());
    let mut parent = Parent {
        setup,
        run,
        is_emptied: false,
        state,
        children,
        poll,
        link: None,
        was_ready: false,
        act,
        answers,
        waker,
        reloads,
        stopping: None,
        timed_out: false,
        service,
        runner,
        notifier,
        checks,
        web,
        gpfs,
        refusals: Refusals::default(),
        holds: Bucket::new(HOLDS.0, HOLDS.1),
    };
    parent.run(&signals)
}

/// Without commands no process is needed for them; without the runner all else goes on.
fn start_runner(setup: &ParentSetup) -> Option<Runner> {
    if !setup.loaded.config.needs_runner() {
        return None;
    }
    let started = Runner::start(&setup.run_dir, &setup.source.arguments());
    started
        .inspect_err(|error| tracing::error!(%error, "site commands"))
        .ok()
}

impl Parent {
    fn run(&mut self, signals: &SignalReader) -> anyhow::Result<ExitCode> {
        loop {
            if let Some(code) = self.tend()? {
                return Ok(code);
            }
            let stop = self.stopping.map(|since| since + STOP_PATIENCE);
            let next = [
                self.children.next_deadline(),
                self.act.deadline(),
                self.service.deadline(),
                self.reloads.deadline().filter(|_| self.stopping.is_none()),
                self.checks.deadline().filter(|_| self.stopping.is_none()),
                self.gpfs.deadline().filter(|_| self.stopping.is_none()),
                stop,
            ]
            .into_iter()
            .flatten()
            .min();
            let timeout = next.map(|at| at.saturating_duration_since(Instant::now()));
            for token in self.poll.wait(timeout)? {
                match token {
                    SIGNALS => self.signals(signals)?,
                    LINK => self.hear_daemon(),
                    _ => self.waker.clear(),
                }
            }
            self.service.retry();
            while let Ok(answer) = self.answers.try_recv() {
                self.answer(answer);
            }
            for answer in self.act.overdue() {
                self.answer(answer);
            }
            if let Some(counts) = self.notifier.changes() {
                self.report_notifications(counts);
            }
            self.run_checks();
            if self.web.heard() {
                self.send_web();
            }
            if self.stopping.is_none() {
                self.reload();
            }
        }
    }

    /// Reaps ended processes and starts missing ones. `Some`: the program is over.
    fn tend(&mut self) -> anyhow::Result<Option<ExitCode>> {
        if let Some(status) = self.children.reap_daemon() {
            self.drop_link();
            if self.stopping.is_some() {
                return Ok(Some(self.last_word()));
            }
            if !self.was_ready && status == Some(i32::from(CANNOT_START)) {
                // It has reported the reason on stderr.
                return Ok(Some(ExitCode::FAILURE));
            }
            self.act.forget();
            self.service.daemon_ended();
            match status {
                Some(code) => tracing::error!(code, "the daemon exited; restarting it"),
                None => tracing::error!("the daemon was ended by a signal; restarting it"),
            }
        }
        if let Some(runner) = &mut self.runner {
            runner.reap();
        }
        self.children.kill_overdue_daemon();
        if let Some(since) = self.stopping {
            if self.children.daemon_pid().is_none() {
                return Ok(Some(self.last_word()));
            }
            if since.elapsed() >= STOP_PATIENCE {
                tracing::error!("the daemon did not stop in time; killed");
                self.children.kill_daemon();
                return Ok(Some(self.last_word()));
            }
            return Ok(None);
        }
        // Their end is expected in a stop.
        self.children.reap_workers();
        if self.link.is_none() && self.children.daemon_is_due() {
            self.start_daemon()?;
        }
        if let Some(link) = &self.link {
            self.children
                .tend_workers(link, &self.setup.loaded.config.collectors);
        }
        Ok(None)
    }

    fn start_daemon(&mut self) -> io::Result<()> {
        let Some(link) = self.children.start_daemon()? else {
            return Ok(());
        };
        self.poll.add(&link, LINK)?;
        let init = Init {
            build: crate::BUILD.to_owned(),
            loaded: self.setup.loaded.clone(),
            config_error: self.setup.config_error.clone(),
            env: self.setup.env.clone(),
            run_dir: self.setup.run_dir.clone(),
            state_dir: self.state.path.clone(),
            waits_to_listen: self.was_ready || self.service.is_managed(),
            parent_seccomp: sandbox::own().seccomp,
            sockets: u16::try_from(self.service.sockets.len()).unwrap_or(u16::MAX),
            heartbeat: self.service.heartbeat,
        };
        let web = ToDaemon::Web(self.web.in_force().cloned().map(Box::new));
        let begun = send(&link, &ToDaemon::Init(Box::new(init)), None)
            && send(&link, &web, None)
            && (self.service.sockets.iter()).all(|s| send(&link, &ToDaemon::Socket, Some(s.as_fd())));
        if !begun {
            self.children.kill_daemon();
        }
        self.link = Some(link);
        self.report_stale_web();
        self.report_notifications(self.notifier.counts());
        self.checks.states().for_each(|state| self.report_check(state));
        Ok(())
    }

    fn drop_link(&mut self) {
        if let Some(link) = self.link.take() {
            self.poll.remove(&link);
            self.children.daemon_is_unlinked();
        }
    }

    fn signals(&mut self, signals: &SignalReader) -> io::Result<()> {
        while let Some(signal) = signals.next()? {
            match signal {
                // Ended processes are found by waitpid(2).
                Signal::Child => {}
                Signal::Reload => {
                    if self.reloads.ask(&self.setup.source) {
                        self.service.reloading();
                    }
                }
                Signal::Stop => {
                    tracing::info!("stopping");
                    self.stop();
                }
                Signal::Watchdog => {
                    tracing::error!(
                        "no heartbeat from the daemon in time; killing it, all processes restart"
                    );
                    self.timed_out = true;
                    // A stopped daemon neither sees the end of its input nor frees its port. It runs no driver, so it
                    // may be killed; the workers see its end.
                    self.children.kill_daemon();
                    self.stop();
                }
            }
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.service.stopping();
        self.stopping.get_or_insert_with(Instant::now);
        // The end of its input stops the daemon, and the daemon's end stops the workers.
        self.drop_link();
    }

    /// The daemon has ended: its verdict is void, and no other process replaces it.
    fn last_word(&mut self) -> ExitCode {
        self.act.stop();
        let verdict = self.setup.run_dir.join(health::verdict::FILE);
        if let Err(e) = files::remove(&verdict) {
            tracing::warn!(path = %verdict.display(), error = %e, "cannot remove the verdict");
        }
        if self.timed_out {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }

    /// Takes what was read, reports what is late, and begins what was asked for meanwhile.
    fn reload(&mut self) {
        if let Some((source, found)) = self.reloads.result() {
            self.reloaded(source, found);
        }
        if let Some(error) = self.reloads.late() {
            self.rejected(error);
        }
        if self.reloads.next(&self.setup.source) {
            self.service.reloading();
        }
    }

    fn rejected(&mut self, error: String) {
        tracing::error!("configuration rejected, the last good one stays in force:\n{error}");
        self.configured(Some(error), false);
    }

    fn reloaded(&mut self, source: Origin, found: Found) {
        match found {
            Ok((loaded, web)) => {
                source.keep(&loaded);
                // One that waited for other addresses does so no longer.
                let is_moved = loaded.config.listen != self.setup.loaded.config.listen;
                let is_new_web = self.web.configure(loaded.config.web_config_file.clone(), web) || is_moved;
                sys::log::set_level(&loaded.config.log_level);
                if decisions(&loaded) != decisions(&self.setup.loaded) {
                    self.act.configure(loaded.config.slurm.clone());
                }
                self.checks.configure(&loaded.config.health_commands);
                self.gpfs.configure(loaded.config.runs_gpfs_commands());
                // It would have the restrictions of this process.
                if loaded.config.needs_runner() && self.runner.is_none() {
                    tracing::warn!("commands: {NO_RUNNER}");
                }
                self.setup.source = source;
                self.setup.loaded = loaded;
                self.configured(None, is_new_web);
            }
            Err(error) => self.rejected(error),
        }
    }

    /// Reports to the daemon and systemd which configuration is in force.
    fn configured(&mut self, error: Option<String>, is_new_web: bool) {
        self.setup.config_error.clone_from(&error);
        if let Some(link) = &self.link {
            send(
                link,
                &ToDaemon::Config {
                    loaded: Box::new(self.setup.loaded.clone()),
                    error,
                },
                None,
            );
        }
        // After the addresses for which it was made.
        if is_new_web {
            self.send_web();
        }
        self.checks.states().for_each(|state| self.report_check(state));
        self.service.reloaded(self.setup.loaded.config.health.mode);
    }

    fn hear_daemon(&mut self) {
        // Limited, so that signals and children get their turn.
        for _ in 0..PACKETS_AT_ONCE {
            let Some(link) = &mut self.link else { return };
            match link.receive() {
                Ok(Received::Nothing) => return,
                Ok(Received::Packet(bytes, _)) => match postcard::from_bytes::<ToParent>(&bytes) {
                    Ok(packet) if is_known(&packet) => self.packet(packet),
                    // A daemon of this build sends none; it may be taken over. It ends without its socket.
                    Ok(_) => return self.close_link("unknown domain"),
                    Err(e) => return self.close_link(&e.to_string()),
                },
                // The daemon's exit status shows the cause.
                Ok(Received::Closed) => return self.drop_link(),
                Err(e) => return self.close_link(&e.to_string()),
            }
        }
    }

    fn close_link(&mut self, why: &str) {
        tracing::error!("protocol error from the daemon: {why}; connection closed, restarting it");
        self.drop_link();
    }

    fn packet(&mut self, packet: ToParent) {
        match packet {
            ToParent::Ready => {
                self.was_ready = true;
                self.children.daemon_is_ready();
                self.service.ready();
            }
            ToParent::Alive => {
                if let Some(interval) = self.service.judged() {
                    self.children.daemon_is_alive(interval);
                }
                if !self.service.alive() {
                    self.refuse("heartbeats", "too many heartbeats");
                }
                self.look_at_run();
            }
            ToParent::Summary(summary) => {
                if !self.service.summary(summary) {
                    self.refuse(
                        "summaries",
                        "the verdict changes too often, only the last one is passed on",
                    );
                }
            }
            ToParent::Look => self.act.look(),
            // Sent before the daemon had the configuration in force.
            ToParent::Act(id, Action::Drain { .. }) if self.setup.loaded.config.health.mode < Mode::Drain => {
                let why = format!("{NOT_WRITTEN}health.mode is lower than drain");
                self.answer(ActReply::Acted(id, Outcome::Failed(why)));
            }
            ToParent::Act(id, action) => self.act.act(id, action),
            ToParent::Hold(domain, number) => {
                if self.holds.take(1, Instant::now()) {
                    self.children.hold(domain, number);
                } else {
                    self.refuse(
                        "holds",
                        "too many releases of drivers: at most 20 at once and 1 each 3 s",
                    );
                }
            }
            // Without a hold it has no effect.
            ToParent::Free(domain) => self.children.free(domain),
            ToParent::Recorded(record) => self.remove(record),
            ToParent::Notify(entry) => self.notify(&entry),
        }
    }

    /// Removes the record of an ended job, which only root can. Its worker reads the same folder.
    fn remove(&mut self, record: RecordId) {
        let (env, settings) = (&self.setup.env, &self.setup.loaded.config.collectors);
        let folder = settings.get::<String>(&HOOKS).map(|folder| env.path(&folder));
        let Some(folder) = folder.ok().filter(|_| env.is_live()) else {
            return;
        };
        if let Err(e) = files::remove(&folder.join(hook::ENDED).join(record.file()))
            && let Some(silent) = self.refusals.add("records", Instant::now())
        {
            tracing::warn!(silent, error = %e, "cannot remove the record of an ended job");
        }
    }

    /// Sends an entry to the command of the configuration in force.
    fn notify(&mut self, entry: &Entry) {
        let Some(notify) = &self.setup.loaded.config.notify else {
            return;
        };
        let client = self.runner.as_ref().map(Runner::client);
        if !self.notifier.send(entry, notify, client) {
            self.refuse("notifications", "at most 10 notifications in an hour");
        }
    }

    fn report_notifications(&self, counts: NotificationCounts) {
        if let Some(link) = &self.link {
            send(link, &ToDaemon::Notified(counts), None);
        }
    }

    /// Starts the site's checks and the commands of GPFS that are due, and reports results.
    fn run_checks(&mut self) {
        let mut changed = self.checks.ended();
        self.gpfs.ended();
        if self.stopping.is_none() {
            let client = self.runner.as_ref().map(Runner::client);
            changed.extend(self.checks.start(client.as_ref(), self.notifier.node()));
            self.gpfs.start(client);
        }
        for state in &changed {
            self.report_check(state);
        }
    }

    /// The daemon closes connections for it: only what is new is sent.
    fn send_web(&mut self) {
        let Some(link) = &self.link else { return };
        if self.web.is_stale() {
            return self.report_stale_web();
        }
        let web = ToDaemon::Web(self.web.in_force().cloned().map(Box::new));
        if !send(link, &web, None) {
            self.web.repeat();
        }
    }

    fn report_stale_web(&self) {
        if let Some(link) = self.link.as_ref().filter(|_| self.web.is_stale()) {
            send(link, &ToDaemon::WebRejected, None);
        }
    }

    fn report_check(&self, state: &CommandState) {
        if let Some(link) = &self.link {
            send(link, &ToDaemon::Checked(Box::new(state.clone())), None);
        }
    }

    /// The daemon writes the verdict again, so that without this line all looks well.
    fn look_at_run(&mut self) {
        if !self.is_emptied && dirs::is_emptied(&self.run) {
            self.is_emptied = true;
            tracing::error!(
                "{}: files were removed from the run directory: commands do not reach the daemon, and hooks leave no \
                 records; restart nodewarden",
                self.setup.run_dir.display()
            );
        }
    }

    fn refuse(&mut self, kind: &'static str, why: &str) {
        if let Some(silent) = self.refusals.add(kind, Instant::now()) {
            tracing::warn!(silent, "request of the daemon refused: {why}");
        }
    }

    fn answer(&mut self, answer: ActReply) {
        if let ActReply::Acted(_, outcome) = &answer
            && let Some((kind, why)) = refusal(outcome)
            && let Some(silent) = self.refusals.add(kind, Instant::now())
        {
            // The daemon logs its own view; one that was taken over does not.
            tracing::warn!(silent, "request of the daemon refused: {kind}: {why}");
        }
        let node = match &answer {
            ActReply::Looked(looked) => looked.as_ref().ok(),
            ActReply::Acted(_, outcome) => outcome.node(),
        };
        if let Some(node) = node {
            self.notifier.name_node(&node.name);
        }
        let packet = match answer {
            ActReply::Looked(looked) => ToDaemon::Looked(looked),
            ActReply::Acted(id, outcome) => ToDaemon::Acted(id, outcome),
        };
        if let Some(link) = &self.link
            && let Err(e) = link::send(link, &packet, None)
            && let Some(silent) = self.refusals.add("answers", Instant::now())
        {
            // A dead daemon is noticed elsewhere; one that does not keep up asks again.
            tracing::warn!(silent, error = %e, "answers to the daemon lost");
        }
    }
}

/// The part of a configuration that decides what is written to the node.
fn decisions(loaded: &Loaded) -> (&health::Settings, Option<&str>, &::slurm::Settings) {
    (
        &loaded.config.health,
        loaded.xids.as_deref(),
        &loaded.config.slurm,
    )
}

/// Whether a packet names only what this build has.
fn is_known(packet: &ToParent) -> bool {
    match packet {
        ToParent::Hold(domain, _) | ToParent::Free(domain) => {
            usize::from(*domain) < collectors::DOMAINS.len()
        }
        _ => true,
    }
}

/// Why the parent did not carry out an act, if it refused.
fn refusal(outcome: &Outcome) -> Option<(&'static str, &str)> {
    match outcome {
        Outcome::Foreign(node) => {
            let reason = node.reason.as_ref().map_or("", |r| r.text.as_str());
            Some(("the node has a foreign reason", reason))
        }
        Outcome::Withheld(word, _) => Some(("not in this state of the node", word)),
        Outcome::Held(held) => Some(("held", &held.why)),
        Outcome::NotOurs(why) => Some(("the node is not proven to be this machine", why)),
        Outcome::Done(_)
        | Outcome::Already(_)
        | Outcome::Failed(_)
        | Outcome::NotBegun(_)
        | Outcome::Unknown(_) => None,
    }
}

/// Whether the packet was sent.
fn send(link: &Packets, packet: &ToDaemon, fd: Option<BorrowedFd<'_>>) -> bool {
    if let Err(e) = link::send(link, packet, fd) {
        // A dead daemon is noticed elsewhere; one that does not keep up asks again.
        tracing::warn!(error = %e, "packet to the daemon lost");
        return false;
    }
    true
}
