//! `cargo xtask demo`: the daemon on a recorded node that is played on a clock, in a folder that is gone afterwards.

mod check;
mod place;

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
use place::Place;

/// How long the daemon may take to leave after it was asked to.
const GRACE: Duration = Duration::from_secs(10);

/// How long the daemon may take until it serves.
const START: Duration = Duration::from_secs(60);

/// How often the node moves on.
const TICK: u16 = 250;

/// The arguments of `cargo xtask demo`.
#[derive(clap::Args)]
pub(crate) struct DemoArgs {
    /// The recording: a folder below fixtures/.
    #[arg(default_value = "demo")]
    name: String,
    /// Where metrics are served. Port 0 picks a free one.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:19190")]
    listen: SocketAddr,
    /// Look at everything the demo promises, and end: pages, moving counters, the incident, the commands.
    #[arg(long)]
    check: bool,
    /// Show this nodewarden; nothing is built.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// Runs until Ctrl-C, or until everything was checked.
pub(crate) fn run(args: DemoArgs) -> Result<()> {
    let case = cmd::root().join("fixtures").join(&args.name);
    if !case.join("root.tree").is_file() {
        bail!("{} is no recording: it has no file `root.tree`", case.display());
    }
    // Taken before the build: waiting a minute to hear that the port is taken helps nobody.
    let (listen, _port) = free(args.listen)?;
    let program = match args.program {
        Some(program) => program,
        None => cmd::build_nodewarden()?,
    };
    // Blocked, so that Ctrl-C ends the wait and not the clean-up.
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

/// The address to listen on: as asked, or with a port that stays ours.
fn free(mut listen: SocketAddr) -> Result<(SocketAddr, Option<Port>)> {
    if listen.port() == 0 {
        let port = Port::reserve()?;
        listen.set_port(port.number());
        return Ok((listen, Some(port)));
    }
    TcpListener::bind(listen)
        .with_context(|| format!("cannot listen on {listen}; `--listen 127.0.0.1:0` picks a free port"))?;
    Ok((listen, None))
}

/// Plays until somebody wants it to end, or everything was checked.
fn show(place: &Place, mut play: Play, check: bool, daemon: &mut Child, waker: &SignalFd) -> Result<()> {
    let started = Instant::now();
    let mut serving: Option<Instant> = None;
    let mut check = check.then(|| Check::new(play.length()));
    loop {
        if let Some(status) = daemon.try_wait()? {
            bail!("the daemon ended by itself: {status}");
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
                Some(_) => bail!("interrupted before everything was checked"),
                None => Ok(()),
            };
        }
    }
}

/// Asks the daemon to leave, and waits for it.
fn end(daemon: &mut Child) -> Result<()> {
    if daemon.try_wait()?.is_some() {
        return Ok(());
    }
    kill(Pid::from_raw(i32::try_from(daemon.id())?), Signal::SIGTERM)?;
    let asked = Instant::now();
    while daemon.try_wait()?.is_none() {
        if asked.elapsed() > GRACE {
            daemon.kill()?;
            daemon.wait()?;
            bail!("the daemon did not leave within {} s", GRACE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

impl Place {
    fn start(&self) -> Result<Child> {
        let mut command = self.command()?;
        // A process group of its own: Ctrl-C must not reach the workers, which only ever end with their input.
        command.process_group(0);
        command
            .spawn()
            .with_context(|| format!("cannot start {}", self.program().display()))
    }
}
