//! The parent: root where the node allows it, no listener, no driver, no mount. It starts the daemon and the workers,
//! hands the daemon its workers' sockets, and is the only process that runs commands ([`act`]).

pub mod act;
pub mod children;
pub mod service;
pub mod slurm;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use collectors::Env;

use crate::config::{Loaded, Origin};
use crate::link::{CANNOT_START, Init, ToDaemon, ToParent};
use act::{ActReply, ActRunner};
use children::Children;
use service::Service;
use sys::dirs::{self, DirError};
use sys::packet::{Packets, Received};
use sys::poll::{Poll, Waker};
use sys::signals::{Signal, SignalReader};

/// How long the daemon may take to finish its records after an order to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// How many packets of the daemon are taken before anything else is looked at.
const PACKETS_AT_ONCE: usize = 32;

const SIGNALS: u64 = 0;
const LINK: u64 = 1;
const ACT: u64 = 2;

/// What a run is made of, checked and resolved.
#[derive(Debug)]
pub struct ParentSetup {
    /// The configuration in force.
    pub loaded: Loaded,
    /// Why it is not the one in the file, where it is not.
    pub config_error: Option<String>,
    /// Where it is read again (SIGHUP).
    pub source: Origin,
    /// What workers may read.
    pub env: Env,
    /// The run directory.
    pub run_dir: PathBuf,
    /// The state directory.
    pub state_dir: PathBuf,
    /// In place of the machine's own boot time, where a test forges it (seconds since the epoch).
    pub forged_boot_time: Option<i64>,
}

struct Parent {
    setup: ParentSetup,
    children: Children,
    poll: Poll,
    link: Option<Packets>,
    was_ready: bool,
    act: ActRunner,
    answers: Receiver<ActReply>,
    waker: Waker,
    /// A thread reads the configuration.
    reloading: bool,
    to_main: Sender<Reloaded>,
    reloads: Receiver<Reloaded>,
    stopping: Option<Instant>,
    /// The watchdog has ended us: that is no success.
    timed_out: bool,
    service: Service,
}

/// What a reading of the configuration gave.
type Reloaded = Box<(Origin, Result<Loaded, String>)>;

/// Runs until it is told to stop. The exit code is that of the whole program.
///
/// # Errors
/// When it cannot begin: a directory, another instance, a signal or a descriptor.
pub fn run(setup: ParentSetup) -> anyhow::Result<ExitCode> {
    // Before any thread, so that every thread has the mask and signals arrive at the descriptor only.
    let signals = SignalReader::block()?;
    sys::log::start(&setup.loaded.config.log_level)?;
    let service = Service::take(setup.loaded.config.health.mode)?;
    let daemon_ids = sys::users::daemon();
    dirs::prepare(&setup.run_dir, &setup.state_dir, daemon_ids.uid, daemon_ids.gid)?;
    let _run = dirs::lock(&setup.run_dir)?;
    let _state = match dirs::lock(&setup.state_dir) {
        Ok(lock) => Some(lock),
        Err(e @ DirError::Held { .. }) => return Err(e.into()),
        Err(e) => {
            tracing::error!(error = %e, "the state directory cannot be locked");
            None
        }
    };
    let slots = dirs::slots(&setup.run_dir)?;
    if setup.config_error.is_none() {
        setup.source.keep(&setup.loaded);
    }

    let mode = setup.loaded.config.health.mode.word();
    tracing::info!("nodewarden {}, mode {mode}", env!("CARGO_PKG_VERSION"));
    let waker = Waker::new()?;
    let (act, answers) = ActRunner::new(
        setup.loaded.config.slurm.clone(),
        setup.forged_boot_time,
        !setup.env.is_live(),
        setup.state_dir.join("own-drain"),
        waker.clone(),
    );
    let poll = Poll::new()?;
    poll.add(&signals, SIGNALS)?;
    poll.add(&waker, ACT)?;
    let children = Children::new(daemon_ids, slots);
    let (to_main, reloads) = channel();
    let mut parent = Parent {
        setup,
        children,
        poll,
        link: None,
        was_ready: false,
        act,
        answers,
        waker,
        reloading: false,
        to_main,
        reloads,
        stopping: None,
        timed_out: false,
        service,
    };
    parent.run(&signals)
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
            while let Ok(reloaded) = self.reloads.try_recv() {
                let (source, loaded) = *reloaded;
                self.reloaded(source, loaded);
            }
        }
    }

    /// Reaps what has ended and starts what is missing. `Some`: the program is over.
    fn tend(&mut self) -> anyhow::Result<Option<ExitCode>> {
        if let Some(status) = self.children.reap_daemon() {
            self.drop_link();
            if self.stopping.is_some() {
                return Ok(Some(self.last_word()));
            }
            if !self.was_ready && status == Some(i32::from(CANNOT_START)) {
                // It has said why on stderr.
                return Ok(Some(ExitCode::FAILURE));
            }
            self.act.forget();
            self.service.daemon_ended();
            match status {
                Some(code) => tracing::error!(code, "the daemon has ended; it is started again"),
                None => tracing::error!("the daemon was ended by a signal; it is started again"),
            }
        }
        self.children.reap_workers();
        self.children.kill_overdue_daemon();
        if let Some(since) = self.stopping {
            if self.children.daemon_pid().is_none() {
                return Ok(Some(self.last_word()));
            }
            if since.elapsed() >= STOP_PATIENCE {
                tracing::error!("the daemon does not leave; killed");
                self.children.kill_daemon();
                return Ok(Some(self.last_word()));
            }
            return Ok(None);
        }
        if self.link.is_none() && self.children.daemon_is_due() {
            self.start_daemon()?;
        }
        if let Some(link) = &self.link {
            self.children.tend_workers(link);
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
            state_dir: self.setup.state_dir.clone(),
            restarted: self.was_ready,
            sockets: u16::try_from(self.service.sockets.len()).unwrap_or(u16::MAX),
            heartbeat: self.service.heartbeat,
        };
        let begun = send(&link, &ToDaemon::Init(Box::new(init)), None)
            && (self.service.sockets.iter()).all(|s| send(&link, &ToDaemon::Socket, Some(s.as_fd())));
        if !begun {
            self.children.kill_daemon();
        }
        self.link = Some(link);
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
                // What has ended is found by looking.
                Signal::Child => {}
                Signal::Reload => self.reload(),
                Signal::Stop => {
                    tracing::info!("stopping");
                    self.stop();
                }
                Signal::Watchdog => {
                    tracing::error!("no heartbeat of the daemon in time; it is killed, and all start again");
                    self.timed_out = true;
                    // It may be stopped, and then it neither sees the end of its input nor lets go of its port. It runs
                    // no driver, so it may be killed; the workers see its end.
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
        // The end of its input is the daemon's order to stop, and the daemon's end is the workers'.
        self.drop_link();
    }

    fn last_word(&self) -> ExitCode {
        if self.timed_out {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }

    /// Reads the configuration on a thread of its own: a file of it may lie on a mount that hangs.
    fn reload(&mut self) {
        if self.reloading {
            tracing::warn!("the configuration is being read already");
            return;
        }
        let (source, to, waker) = (
            self.setup.source.clone(),
            self.to_main.clone(),
            self.waker.clone(),
        );
        let started = thread::Builder::new().name("config".to_owned()).spawn(move || {
            let mut source = source;
            let loaded = source.load();
            // The parent lives longer than its threads.
            sys::ignore(to.send(Box::new((source, loaded))));
            waker.wake();
        });
        match started {
            Ok(_) => {
                self.reloading = true;
                self.service.reloading();
            }
            Err(e) => tracing::error!(error = %e, "no thread to read the configuration"),
        }
    }

    fn reloaded(&mut self, source: Origin, loaded: Result<Loaded, String>) {
        self.reloading = false;
        let error = match loaded {
            Ok(loaded) => {
                source.keep(&loaded);
                self.act.configure(loaded.config.slurm.clone());
                self.setup.source = source;
                self.setup.loaded = loaded;
                None
            }
            Err(e) => {
                tracing::error!("configuration not taken over, the last good one stays in force:\n{e}");
                Some(e)
            }
        };
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
        self.service.reloaded(self.setup.loaded.config.health.mode);
    }

    fn hear_daemon(&mut self) {
        // Bounded: whatever the daemon sends, signals and children get their turn.
        for _ in 0..PACKETS_AT_ONCE {
            let Some(link) = &mut self.link else { return };
            match link.receive() {
                Ok(Received::Nothing) => return,
                Ok(Received::Packet(bytes, _)) => match postcard::from_bytes::<ToParent>(&bytes) {
                    Ok(ToParent::Ready) => {
                        self.was_ready = true;
                        self.children.daemon_is_ready();
                        self.service.ready();
                    }
                    Ok(ToParent::Alive) => self.service.alive(),
                    Ok(ToParent::Summary(summary)) => self.service.summary(summary),
                    Ok(ToParent::Look) => self.act.look(),
                    Ok(ToParent::Act(id, action)) => self.act.act(id, action),
                    Ok(ToParent::Hold(domain, number)) => self.children.hold(domain, number),
                    Ok(ToParent::Free(domain)) => self.children.free(domain),
                    Err(e) => tracing::error!(error = %e, "the daemon sent what no daemon sends"),
                },
                // Its exit status tells the rest.
                Ok(Received::Closed) | Err(_) => {
                    self.drop_link();
                    return;
                }
            }
        }
    }

    fn answer(&mut self, answer: ActReply) {
        let packet = match answer {
            ActReply::Looked(looked) => ToDaemon::Looked(looked),
            ActReply::Acted(id, outcome) => ToDaemon::Acted(id, outcome),
        };
        if let Some(link) = &self.link {
            send(link, &packet, None);
        }
    }
}

/// Whether the packet has left.
fn send(link: &Packets, packet: &ToDaemon, fd: Option<BorrowedFd<'_>>) -> bool {
    let bytes = postcard::to_stdvec(packet).unwrap_or_default();
    if let Err(e) = link.send(&bytes, fd) {
        // A daemon that is gone is seen elsewhere; one that does not keep up asks again by itself.
        tracing::warn!(error = %e, "packet to the daemon lost");
        return false;
    }
    true
}
