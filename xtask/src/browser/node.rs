//! Nodes in each state of the verdict: real daemons on the recording of the demo.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use testkit::play::Play;
use testkit::ports::Port;
use testkit::wait;

use crate::demo::{self, Place};

/// Longest wait for a state: a late reading takes longest.
const PATIENCE: Duration = Duration::from_secs(180);

/// A state of the page.
pub(super) struct State {
    pub(super) name: &'static str,
    /// What the page says.
    pub(super) health: &'static str,
    /// Whether it has open incidents. `None`: either.
    pub(super) incidents: Option<bool>,
    event: Event,
}

enum Event {
    /// None.
    Quiet,
    /// These lines of the kernel log.
    Lines(&'static str),
    /// The recording's: a GPU falls off the bus.
    Lost,
    /// The worker of the collector `host` no longer runs.
    Stopped,
}

/// Two filesystems that XFS shut down: incidents that leave the node in service.
const SHUT_DOWN: &str = "\
1,2000,1209479300000,-;XFS (nvme0n1p1): Log I/O Error (0x2) detected at xlog_ioend_work+0x6a/0xd0 [xfs] (fs/xfs/xfs_log.c:1367).  Shutting down filesystem.
1,2001,1209479300001,-;XFS (nvme1n1p1): Log I/O Error (0x2) detected at xlog_ioend_work+0x6a/0xd0 [xfs] (fs/xfs/xfs_log.c:1367).  Shutting down filesystem.
";

pub(super) const STATES: &[State] = &[
    State {
        name: "healthy",
        health: "healthy",
        incidents: Some(false),
        event: Event::Quiet,
    },
    State {
        name: "incidents",
        health: "healthy",
        incidents: Some(true),
        event: Event::Lines(SHUT_DOWN),
    },
    State {
        name: "unhealthy",
        health: "unhealthy",
        incidents: Some(true),
        event: Event::Lost,
    },
    State {
        name: "unknown",
        health: "unknown",
        incidents: None,
        event: Event::Stopped,
    },
];

/// A daemon in one of the states.
pub(super) struct Node {
    pub(super) place: Place,
    daemon: Child,
    stopped: Option<Pid>,
    play: Play,
    _port: Port,
}

impl Node {
    /// Starts a daemon on a node without a fault.
    pub(super) fn start(program: &Path) -> Result<Self> {
        let port = Port::reserve()?;
        let listen = ([127, 0, 0, 1], port.number()).into();
        let place = Place::new(program.to_owned(), listen)?;
        let play = Play::open(&demo::recording("demo")?, &place.node())?;
        Ok(Self {
            daemon: place.start(None)?,
            place,
            stopped: None,
            play,
            _port: port,
        })
    }

    /// Waits until its page shows the state.
    pub(super) fn enter(&mut self, state: &State) -> Result<()> {
        // A node that has not been read yet is unknown, too.
        self.until("a node that was read", |status| {
            let all = status["collectors"].as_array();
            let is_read = |c: &Value| c["state"] == "ok" || c["state"] == "absent";
            status["verdict"]["health"] == "healthy" && all.is_some_and(|all| all.iter().all(is_read))
        })?;
        match state.event {
            Event::Quiet => {}
            Event::Lines(lines) => {
                let log = self.place.node().join("kmsg");
                let mut log = OpenOptions::new().append(true).open(log)?;
                log.write_all(lines.as_bytes())?;
            }
            Event::Lost => {
                let end = self.play.length();
                self.play.advance(end)?;
            }
            Event::Stopped => {
                let worker = worker(&self.daemon, "host")?;
                kill(worker, Signal::SIGSTOP)?;
                self.stopped = Some(worker);
            }
        }
        self.until(&format!("the state {}", state.name), |status| {
            let open = status["incidents"].as_array().map(|all| !all.is_empty());
            status["verdict"]["health"] == state.health
                && (state.incidents.is_none() || state.incidents == open)
        })
    }

    /// Waits for a status.
    fn until(&mut self, what: &str, is_so: impl Fn(&Value) -> bool) -> Result<()> {
        let (place, daemon) = (&self.place, &mut self.daemon);
        wait::until(what, PATIENCE, || {
            if let Some(status) = daemon.try_wait()? {
                bail!("the daemon ended unexpectedly: {status}");
            }
            let Ok(text) = place.get("/api/v1/status") else {
                return Ok(None);
            };
            Ok(is_so(&serde_json::from_str(&text)?).then_some(()))
        })
    }

    pub(super) fn end(mut self) -> Result<()> {
        self.let_go();
        demo::end(&mut self.daemon)
    }

    /// A stopped process would not end.
    fn let_go(&mut self) {
        if let Some(worker) = self.stopped.take() {
            // The daemon may have killed it.
            kill(worker, Signal::SIGCONT).unwrap_or_default();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.let_go();
        demo::end(&mut self.daemon).unwrap_or_default();
    }
}

/// The daemon's worker of that name.
fn worker(daemon: &Child, name: &str) -> Result<Pid> {
    let pid = daemon.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    let mut pids = children.split_ascii_whitespace().filter_map(|p| p.parse().ok());
    let found = pids.find(|pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|b| *b == 0).collect();
        words.get(1..3) == Some(&[b"worker", name.as_bytes()])
    });
    found
        .map(Pid::from_raw)
        .with_context(|| format!("no worker {name}"))
}
