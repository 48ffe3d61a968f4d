//! `cargo xtask demo`: the daemon on a recorded node that is played in real time, or on a fleet of them, in temporary folders.

mod check;
mod fleet;
mod place;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
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
use fleet::{Expected, Fault};
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
    /// The recording: a folder below fixtures/, or the last part of its path, such as `mi300x`. `fleet`: 12 nodes with
    /// different faults, on ports from that of --listen on.
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
    for collector in folders(&all)? {
        let case = all.join(&collector).join(name);
        if is_recording(&case) {
            found.push((case, format!("{collector}/{name}")));
        }
    }
    match found.as_slice() {
        [(case, _)] => Ok(case.clone()),
        [] => bail!("{}", missing(&all, name)?),
        _ => {
            let names: Vec<&str> = found.iter().map(|(_, name)| name.as_str()).collect();
            bail!("{name}: several recordings have this name: {}", names.join(", "))
        }
    }
}

/// Names of the folders in a folder, in order.
fn folders(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// The recordings in a folder below fixtures/, by their path.
fn cases(all: &Path, collector: &str) -> Result<Vec<String>> {
    if !all.join(collector).is_dir() {
        return Ok(Vec::new());
    }
    let names = folders(&all.join(collector))?.into_iter();
    let paths = names.map(|case| format!("{collector}/{case}"));
    Ok(paths
        .filter(|path| all.join(path).join("root.tree").is_file())
        .collect())
}

/// What there is in place of a recording of this name.
fn missing(all: &Path, name: &str) -> Result<String> {
    let inside = cases(all, name)?;
    if !inside.is_empty() {
        return Ok(format!(
            "{name} is no recording, expected one of: {}",
            inside.join(", ")
        ));
    }
    let mut collectors = Vec::new();
    for collector in folders(all)? {
        // Files that are added to another recording.
        if collector != "fleet" && !cases(all, &collector)?.is_empty() {
            collectors.push(collector);
        }
    }
    Ok(format!(
        "no recording {name} below fixtures/, expected COLLECTOR/CASE such as amd/mi300x, with a COLLECTOR of: {}",
        collectors.join(", ")
    ))
}

/// Checks the fleet, in a process of its own: the demo blocks signals.
pub(crate) fn check_fleet() -> Result<()> {
    // Not our path: cargo replaces that file when it builds the tests.
    let words = ["demo", "fleet", "--check", "--listen", "127.0.0.1:0"];
    cmd::run(&mut cmd::program("/proc/self/exe", &words))
}

/// A played node and its daemon.
struct Node {
    name: String,
    place: Place,
    play: Play,
    /// Faults of the fleet's table that are still to come, the next one last.
    faults: Vec<Fault>,
    expected: Expected,
    daemon: Child,
    /// Keeps the address free for the daemon.
    _port: Option<Port>,
}

impl Node {
    fn start(
        name: String,
        place: Place,
        play: Play,
        faults: Vec<Fault>,
        expected: Expected,
        port: Option<Port>,
        prefix: Option<String>,
    ) -> Result<Self> {
        Ok(Self {
            daemon: place.start(prefix)?,
            name,
            place,
            play,
            faults,
            expected,
            _port: port,
        })
    }

    /// Time of its last change.
    fn length(&self) -> Duration {
        let last = self.faults.iter().map(Fault::at).max();
        last.unwrap_or_default().max(self.play.length())
    }

    /// Advances to a time since the start, and says what changed.
    fn advance(&mut self, at: Duration) -> Result<Vec<String>> {
        let mut said = self.play.advance(at)?;
        while let Some(fault) = self.faults.pop_if(|fault| fault.at() <= at) {
            said.push(fault.cause(&mut self.play, at)?);
        }
        Ok(said)
    }
}

impl Drop for Node {
    /// One whose start was given up ends here; `run` has ended the others, and reports their errors.
    fn drop(&mut self) {
        end(&mut self.daemon).unwrap_or_default();
    }
}

/// Runs until Ctrl-C, or until all checks are done.
pub(crate) fn run(args: DemoArgs) -> Result<()> {
    let is_fleet = args.name == "fleet";
    let case = (!is_fleet).then(|| recording(&args.name)).transpose()?;
    // Reserved before the build, so that a port in use is reported immediately.
    let (listen, port) = free(args.listen)?;
    let program = match args.program {
        Some(program) => program,
        None => cmd::build_nodewarden()?,
    };
    let check_fleet = (is_fleet && args.check).then(fleet::Check::prepare).transpose()?;
    // Blocked, so that Ctrl-C interrupts the wait and not the clean-up.
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals.thread_block()?;
    let waker = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC)?;

    let (nodes, checks) = match case {
        None => {
            drop(port);
            (
                fleet::start(&program, args.listen)?,
                check_fleet.map(|check| Checks::Fleet(Box::new(check))),
            )
        }
        Some(case) => {
            let place = Place::new(program, listen)?;
            let play = Play::open(&case, &place.node())?;
            let checks = args.check.then(|| Checks::Node(Check::new(play.length())));
            (
                vec![Node::start(
                    args.name,
                    place,
                    play,
                    Vec::new(),
                    Expected::Incident,
                    port,
                    None,
                )?],
                checks,
            )
        }
    };
    let mut nodes = nodes;
    let shown = show(&mut nodes, is_fleet, checks, &waker);
    let ended = nodes.iter_mut().map(|node| end(&mut node.daemon));
    let ended: Result<()> = ended.collect::<Vec<_>>().into_iter().collect();
    drop(nodes);
    shown.and(ended)
}

/// What `--check` looks at.
enum Checks {
    Node(Check),
    Fleet(Box<fleet::Check>),
}

impl Checks {
    fn look(&mut self, nodes: &[Node], at: Duration) -> Result<bool> {
        match self {
            Self::Node(check) => nodes
                .iter()
                .try_fold(false, |_, node| check.look(&node.place, at)),
            Self::Fleet(check) => check.look(nodes, at),
        }
    }
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
fn show(nodes: &mut [Node], is_fleet: bool, mut checks: Option<Checks>, waker: &SignalFd) -> Result<()> {
    let started = Instant::now();
    let mut serving: Option<Instant> = None;
    let mut config = None;
    loop {
        for node in &mut *nodes {
            if let Some(status) = node.daemon.try_wait()? {
                bail!("the daemon of {} ended unexpectedly: {status}", node.name);
            }
        }
        if let Some(since) = serving {
            let at = since.elapsed();
            let many = nodes.len() > 1;
            for node in &mut *nodes {
                for line in node.advance(at)? {
                    let name = if many {
                        format!("{}  ", node.name)
                    } else {
                        String::new()
                    };
                    println!("{:4} s  {name}{line}", at.as_secs());
                }
            }
            if let Some(checks) = &mut checks
                && checks.look(nodes, at)?
            {
                return Ok(());
            }
        } else if nodes.iter().all(|node| node.place.serves()) {
            match &*nodes {
                [node] if !is_fleet => node.place.print_where_to_look(node.length())?,
                _ => {
                    let made = fleet::prometheus(nodes)?;
                    fleet::print_where_to_look(nodes, &made);
                    config = Some(made);
                }
            }
            serving = Some(Instant::now());
        } else if started.elapsed() > START {
            bail!("the daemon does not serve after {} s", START.as_secs());
        }
        let mut fds = [PollFd::new(waker.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, PollTimeout::from(TICK))? > 0 && waker.read_signal()?.is_some() {
            drop(config);
            if checks.is_some() {
                bail!("interrupted before all checks were done");
            }
            return Ok(());
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
    /// Starts the daemon. `prefix`: what the lines of its log begin with.
    pub(crate) fn start(&self, prefix: Option<String>) -> Result<Child> {
        let mut command = self.command()?;
        // Its own process group: Ctrl-C must not reach the workers, which end only when their input closes.
        command.process_group(0);
        if prefix.is_some() {
            command.stderr(Stdio::piped());
        }
        let mut daemon = command
            .spawn()
            .with_context(|| format!("cannot start {}", self.program().display()))?;
        if let (Some(prefix), Some(log)) = (prefix, daemon.stderr.take()) {
            // Ends with the last process that has the log.
            std::thread::spawn(move || {
                for line in BufReader::new(log).lines().map_while(Result::ok) {
                    eprintln!("{prefix}  {line}");
                }
            });
        }
        Ok(daemon)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_found_by_its_path_or_by_its_last_part() {
        for (name, path) in [
            ("amd/mi300x", "amd/mi300x"),
            ("mi300x", "amd/mi300x"),
            ("demo", "demo"),
        ] {
            let found = recording(name).unwrap();
            assert_eq!(found, cmd::root().join("fixtures").join(path), "{name}");
        }
    }

    #[test]
    fn a_name_that_is_no_recording_is_answered_with_those_that_are() {
        for (name, part) in [
            ("unreadable", "have this name: amd/unreadable, "),
            ("lustre", "expected one of: lustre/2.10, "),
            ("amd/mi9999", "no recording amd/mi9999"),
            ("amd/mi9999", "a COLLECTOR of: amd, ethernet, gpfs, "),
        ] {
            let error = recording(name).unwrap_err().to_string();
            assert!(error.contains(part), "{name}: {error}");
        }
    }
}
