//! `cargo xtask demo`: the daemon on a recorded node that is played in real time, in a temporary folder.

mod check;
mod place;

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use testkit::play::Play;
use testkit::ports::Port;

use crate::cmd;
use check::Check;
pub(crate) use place::Place;

/// Time that the daemon has to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);

/// Time that the daemon has until it serves.
const START: Duration = Duration::from_secs(60);

/// Interval of updates of the played node in milliseconds.
const TICK: u16 = 250;

/// The arguments of `cargo xtask demo`.
#[derive(clap::Args)]
pub(crate) struct DemoArgs {
    /// The recording: a folder below fixtures/, or the last part of its path, such as `mi300x`.
    #[arg(default_value = "demo")]
    name: String,
    /// Address of the metrics. Port 0 selects a free port.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:19190")]
    listen: SocketAddr,
    /// Check the pages, changing counters, the incident and the commands, then end.
    #[arg(long)]
    check: bool,
    /// Run this nodewarden; build nothing.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// The folder of a recording, by its path below fixtures/ or by its last part alone: `mi300x`.
pub(crate) fn recording(name: &str) -> Result<PathBuf> {
    let all = cmd::root().join("fixtures");
    let is_recording = |case: &PathBuf| case.join("root.tree").is_file();
    let whole = all.join(name);
    if is_recording(&whole) {
        return Ok(whole);
    }
    let mut found = Vec::new();
    for collector in fs::read_dir(&all)? {
        let case = collector?.path().join(name);
        found.extend(Some(case).filter(is_recording));
    }
    match (found.pop(), found.is_empty()) {
        (Some(case), true) => Ok(case),
        (Some(_), false) => bail!("{name}: several recordings have this name, expected COLLECTOR/{name}"),
        (None, _) => bail!(
            "{} is not a recording: it has no file `root.tree`",
            whole.display()
        ),
    }
}

/// Runs until Ctrl-C, or until all checks are done.
pub(crate) fn run(args: DemoArgs) -> Result<()> {
    let case = recording(&args.name)?;
    // Reserved before the build, so that a port in use is reported immediately.
    let (listen, _port) = free(args.listen)?;
    let program = match args.program {
        Some(program) => program,
        None => cmd::build_nodewarden()?,
    };
    // Blocked, so that Ctrl-C interrupts the wait and not the clean-up.
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals.thread_block()?;
    let waker = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC)?;

    let place = Place::new(program, listen)?;
    let play = Play::open(&case, &place.node())?;
    let mut daemon = place.start()?;
    let shown = show(&place, play, args.check, &mut daemon, &waker);
    let ended = end(&mut daemon);
    drop(place);
    shown.and(ended)
}

/// The address to listen on: as requested, or with a reserved port.
fn free(mut listen: SocketAddr) -> Result<(SocketAddr, Option<Port>)> {
    if listen.port() == 0 {
        let port = Port::reserve()?;
        listen.set_port(port.number());
        return Ok((listen, Some(port)));
    }
    TcpListener::bind(listen)
        .with_context(|| format!("cannot listen on {listen}; `--listen 127.0.0.1:0` selects a free port"))?;
    Ok((listen, None))
}

/// Plays until a signal arrives, or until all checks are done.
fn show(place: &Place, mut play: Play, check: bool, daemon: &mut Child, waker: &SignalFd) -> Result<()> {
    let started = Instant::now();
    let mut serving: Option<Instant> = None;
    let mut check = check.then(|| Check::new(play.length()));
    loop {
        if let Some(status) = daemon.try_wait()? {
            bail!("the daemon ended unexpectedly: {status}");
        }
        if let Some(since) = serving {
            let at = since.elapsed();
            for line in play.advance(at)? {
                println!("{:4} s  {line}", at.as_secs());
            }
            if let Some(check) = &mut check
                && check.look(place, at)?
            {
                return Ok(());
            }
        } else if place.serves() {
            place.print_where_to_look();
            serving = Some(Instant::now());
        } else if started.elapsed() > START {
            bail!("the daemon does not serve after {} s", START.as_secs());
        }
        let mut fds = [PollFd::new(waker.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, PollTimeout::from(TICK))? > 0 && waker.read_signal()?.is_some() {
            return match check {
                Some(_) => bail!("interrupted before all checks were done"),
                None => Ok(()),
            };
        }
    }
}

/// Ends the daemon, and waits for it.
pub(crate) fn end(daemon: &mut Child) -> Result<()> {
    if daemon.try_wait()?.is_some() {
        return Ok(());
    }
    kill(Pid::from_raw(i32::try_from(daemon.id())?), Signal::SIGTERM)?;
    let asked = Instant::now();
    while daemon.try_wait()?.is_none() {
        if asked.elapsed() > GRACE {
            daemon.kill()?;
            daemon.wait()?;
            bail!("the daemon did not end within {} s", GRACE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

impl Place {
    pub(crate) fn start(&self) -> Result<Child> {
        let mut command = self.command()?;
        // Its own process group: Ctrl-C must not reach the workers, which end only when their input closes.
        command.process_group(0);
        command
            .spawn()
            .with_context(|| format!("cannot start {}", self.program().display()))
    }
}
