//! `nodewarden release`: releases a driver while a command works on it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use collectors::{COLLECTORS, Domain};

use super::client::{Connection, Unreachable};
use super::{dirs, screen};
use crate::config::duration;
use crate::http::control::release::{LEAVE, MOST_SECONDS, TURN, releasable};
use crate::http::control::{NodeStatus, Reply, Request, WorkerView};
use crate::link::WorkerDown;
use sys::{foreground, holders, poll};

/// Time-out for the worker to open the driver again.
const REOPEN: Duration = Duration::from_secs(60);

/// Time-out where the worker cannot open the driver: a module that was just loaded may need a second attempt, another
/// cause does not go away.
const FAILS: Duration = Duration::from_secs(3);

/// Deadline for the search for other processes that have the driver open.
const LOOK: Duration = Duration::from_secs(5);

/// Time-out for a daemon that does not run. One that is restarted is back by then, and the worker of one that has ended has left
/// the driver.
const RESTART: Duration = Duration::from_secs(6);

/// Time-out for the daemon's status.
const PATIENCE: Duration = Duration::from_secs(20);

/// The variable that names the released driver to the command.
const RELEASED: &str = "NODEWARDEN_RELEASED";

/// Exit code of our own failures, distinct from the command's as in env(1) and timeout(1).
pub(super) const FAILED: u8 = 125;
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Limit of holders listed.
const SHOWN: usize = 20;

/// The arguments of `nodewarden release`.
#[derive(Debug, clap::Args)]
pub(super) struct ReleaseArgs {
    /// Worker that releases its driver.
    #[arg(value_name = "WORKER", value_parser = worker)]
    worker: &'static Domain,
    /// End the release after this time, even if the command still runs.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = limit)]
    limit: Duration,
    /// The daemon's run directory.
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
    /// Command to run, with its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn worker(text: &str) -> Result<&'static Domain, String> {
    let names: Vec<&str> = releasable().map(|d| d.name).collect();
    releasable()
        .find(|d| d.name == text)
        .ok_or_else(|| format!("expected {}", names.join(" or ")))
}

fn limit(text: &str) -> Result<Duration, String> {
    time(text, Duration::from_secs(MOST_SECONDS))
}

/// A time from 1 s to `most`.
pub(super) fn time(text: &str, most: Duration) -> Result<Duration, String> {
    duration::parse(text)
        .filter(|t| (Duration::from_secs(1)..=most).contains(t))
        .ok_or_else(|| {
            let most = duration::show(most);
            format!("expected a time between 1s and {most}, such as \"10m\" or \"1h\"")
        })
}

/// Releases the driver, runs the command, resumes the worker.
pub(super) fn release(args: &ReleaseArgs) -> ExitCode {
    match perform(args) {
        Ok(code) => code,
        Err(error) => {
            screen::complain(&screen::chain(&error));
            ExitCode::from(FAILED)
        }
    }
}

fn perform(args: &ReleaseArgs) -> anyhow::Result<ExitCode> {
    let dir = dirs::to_read(args.run_dir.as_deref());
    let Some((program, rest)) = args.command.split_first() else {
        anyhow::bail!("no command")
    };
    if let Err(error) = foreground::find(program) {
        // Checked first, so that no driver is released in vain.
        return Ok(not_started(program, &error));
    }
    // In the command of a release of this driver, which would wait for itself.
    let is_released = env::var_os(RELEASED).is_some_and(|of| of == args.worker.name);
    let mut driver = match is_released {
        true => None,
        false => Driver::release(&dir, args)?,
    };
    show_holders(args.worker);
    let over = driver.as_mut().map(Driver::watch);
    // The command inherits the connection: if this process is killed, the release continues.
    let ended = foreground::run(
        program,
        rest,
        (RELEASED, args.worker.name),
        driver.as_ref().map(|d| &d.daemon),
    );
    if let Some(over) = over {
        over.store(true, Ordering::Release);
    }
    if let Some(Err(error)) = driver.map(Driver::take_back) {
        screen::complain(&screen::chain(&error));
    }
    Ok(match ended {
        Ok(status) => ExitCode::from(code(status)),
        Err(error) => not_started(program, &error),
    })
}

fn not_started(program: &OsStr, error: &io::Error) -> ExitCode {
    screen::complain(&format!("{}: {error}", program.display()));
    let is_there = error.kind() != ErrorKind::NotFound;
    ExitCode::from(if is_there { CANNOT_RUN } else { NOT_FOUND })
}

/// The command's exit code; 128 + signal number if a signal ended it, as in shells.
fn code(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|s| s + 128);
    let code = status.code().or(signal).unwrap_or(i32::from(FAILED));
    u8::try_from(code).unwrap_or(FAILED)
}

/// Lists other processes that have the driver open: a reset or unload fails while one exists. On stderr, to keep the
/// command's output clean.
fn show_holders(domain: &Domain) {
    let holders = holders::of(Path::new("/proc"), domain.devices, LOOK);
    for holder in holders.found.iter().take(SHOWN) {
        let files: Vec<String> = holder.files.iter().map(|f| f.display().to_string()).collect();
        screen::complain(&format!(
            "driver still open in {} (pid {}): {}",
            holder.name,
            holder.pid,
            files.join(", ")
        ));
    }
    if let Some(more) = holders.found.len().checked_sub(SHOWN).filter(|n| *n > 0) {
        screen::complain(&format!("driver still open in {more} more processes"));
    }
    if holders.hidden > 0 {
        let hidden = holders.hidden;
        screen::complain(&format!(
            "{hidden} processes could not be checked for open driver files: run as root"
        ));
    }
    if !holders.unfinished.is_empty() {
        screen::complain(&format!(
            "list of processes with the driver open is incomplete: {}",
            holders.unfinished
        ));
    }
}

/// Whether no worker has the driver open: a daemon whose socket was removed runs all the same.
///
/// # Errors
/// The worker that has it open.
fn is_free(domain: &Domain) -> anyhow::Result<()> {
    let holders = holders::of(Path::new("/proc"), domain.devices, LOOK);
    let worker = format!("nw-{}", domain.name);
    match holders.found.iter().find(|holder| holder.name == worker) {
        Some(holder) => anyhow::bail!(
            "{worker} (pid {}) has the driver open, but its daemon cannot be reached: \
             restart nodewarden, or name its run directory with --run-dir",
            holder.pid
        ),
        None => Ok(()),
    }
}

/// A driver that the daemon has released.
struct Driver<'a> {
    dir: &'a Path,
    domain: &'static Domain,
    daemon: Connection,
    /// Starts of its worker before the release.
    starts: u64,
    /// This release, as the status shows it.
    lease: Option<String>,
}

impl<'a> Driver<'a> {
    /// `None`: no daemon runs.
    fn release(dir: &'a Path, args: &ReleaseArgs) -> anyhow::Result<Option<Self>> {
        let mut until = Instant::now() + RESTART;
        loop {
            let error = match Self::connect(dir, args.worker) {
                Ok((driver, lease)) => match driver.ask(args, lease) {
                    Ok(driver) => return Ok(Some(driver)),
                    Err(error) => {
                        // It answered until now: the next one has as long to start.
                        until = Instant::now() + RESTART;
                        error
                    }
                },
                Err(error) => error,
            };
            let kind = error.downcast_ref::<Unreachable>().and_then(Unreachable::kind);
            let runs = match kind {
                Some(ErrorKind::ConnectionRefused) => false,
                // It may run with another folder.
                Some(ErrorKind::NotFound) if args.run_dir.is_none() => false,
                Some(ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => true,
                _ => return Err(error),
            };
            if Instant::now() < until {
                thread::sleep(Duration::from_millis(200));
            } else if runs {
                return Err(error);
            } else {
                is_free(args.worker)?;
                screen::complain(&screen::chain(&error));
                screen::complain("without a daemon there is nothing to release: running the command");
                return Ok(None);
            }
        }
    }

    /// Waits until the driver is released. `before`: to whom it is now.
    fn ask(mut self, args: &ReleaseArgs, before: Option<String>) -> anyhow::Result<Self> {
        let name = self.domain.name;
        if let Some(by) = before {
            screen::complain(&format!(
                "{name} is released to {by}: waiting at most {} for the end",
                duration::show(TURN)
            ));
        }
        // Longer than the daemon waits for earlier releases and for its worker to exit.
        self.daemon.wait_at_most(TURN + LEAVE + Duration::from_secs(15))?;
        match self.daemon.ask(&Request::Release {
            domain: name.to_owned(),
            seconds: args.limit.as_secs(),
        })? {
            Reply::Done(text) => screen::complain(&text),
            Reply::Refused(text) => anyhow::bail!(text),
            _ => return Err(Unreachable::odd(self.dir).into()),
        }
        self.daemon.wait_at_most(PATIENCE)?;
        Ok(self)
    }

    /// Connects to the daemon. With the holder of a release that has not ended.
    fn connect(dir: &'a Path, domain: &'static Domain) -> anyhow::Result<(Self, Option<String>)> {
        let mut driver = Self {
            dir,
            domain,
            daemon: Connection::open(dir, PATIENCE)?,
            starts: 0,
            lease: None,
        };
        let (status, starts) = driver.status()?;
        driver.starts = starts;
        Ok((driver, holder(&status, domain)))
    }

    /// The node's status, and the number of starts of the worker.
    fn status(&mut self) -> anyhow::Result<(Box<NodeStatus>, u64)> {
        match self.daemon.ask(&Request::Status)? {
            Reply::Status(status) => {
                let starts = view_of(&status, self.domain).map_or(0, |w| w.starts);
                Ok((status, starts))
            }
            Reply::Refused(text) => anyhow::bail!(text),
            _ => Err(Unreachable::odd(self.dir).into()),
        }
    }

    /// Reports at once if the daemon ends the release, until the returned flag is set.
    fn watch(&mut self) -> Arc<AtomicBool> {
        // Without it, a release that follows this one is found out later.
        self.lease = self
            .status()
            .ok()
            .and_then(|(status, _)| holder(&status, self.domain));
        let over = Arc::new(AtomicBool::new(false));
        let (is_over, name) = (Arc::clone(&over), self.domain.name);
        // Without a copy or a thread, it is reported when the command ends.
        if let Ok(copy) = self.daemon.copy() {
            let watch = move || {
                poll::until_input(&copy);
                if !is_over.load(Ordering::Acquire) {
                    screen::complain(&format!(
                        "the release of {name} ended while the command still runs: the limit was reached or the daemon stopped; a running daemon opens the driver again"
                    ));
                }
            };
            sys::ignore(thread::Builder::new().name("watch".to_owned()).spawn(watch));
        }
        over
    }

    /// Ends the release, and waits until the driver's devices are listed.
    fn take_back(mut self) -> anyhow::Result<()> {
        match self.daemon.ask(&Request::Resume) {
            Ok(Reply::Done(_)) => {}
            Ok(Reply::Refused(text)) => anyhow::bail!(text),
            Ok(_) => return Err(Unreachable::odd(self.dir).into()),
            // The release ended together with the connection.
            Err(_) => anyhow::bail!("the release ended before the command"),
        }
        let until = Instant::now() + REOPEN;
        let mut fails: Option<Instant> = None;
        loop {
            let (status, starts) = self.status()?;
            let over = Instant::now() >= until;
            if let Some(by) =
                holder(&status, self.domain).filter(|by| self.lease.as_ref().is_some_and(|own| own != by))
            {
                screen::complain(&format!(
                    "release ended: {} is now released to {by}",
                    self.domain.name
                ));
                return Ok(());
            }
            // Where the node does not have the driver, the parent starts no worker. What it said before the release is forgotten.
            let is_absent =
                view_of(&status, self.domain).is_some_and(|w| w.down == WorkerDown::Absent.word());
            let found = found(&status, self.domain).filter(|_| is_absent || starts > self.starts);
            match &found {
                Some((_, Opened::Fails)) => _ = fails.get_or_insert_with(Instant::now),
                _ => fails = None,
            }
            let is_final = over || fails.is_some_and(|since| since.elapsed() >= FAILS);
            match found.filter(|(_, opened)| *opened == Opened::Well || is_final) {
                Some((text, _)) => {
                    screen::complain(&format!("release ended: {text}"));
                    return Ok(());
                }
                None if over => anyhow::bail!(
                    "the release of {} ended, but its worker delivers no readings after {} s: see `nodewarden status`",
                    self.domain.name,
                    REOPEN.as_secs()
                ),
                None => thread::sleep(Duration::from_millis(200)),
            }
        }
    }
}

fn view_of<'s>(status: &'s NodeStatus, domain: &Domain) -> Option<&'s WorkerView> {
    status.workers.iter().find(|w| w.name == domain.name)
}

/// To whom the driver is released.
fn holder(status: &NodeStatus, domain: &Domain) -> Option<String> {
    let lease = view_of(status, domain)?.lease.as_ref()?;
    Some(lease.by.clone())
}

/// What the worker found when it opened the driver again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Opened {
    /// It works.
    Well,
    /// The driver has not answered yet about everything.
    Waits,
    /// The driver cannot be opened. The worker tries again.
    Fails,
}

/// The state of the worker's collectors; `None`: a collector has not reported yet.
fn found(status: &NodeStatus, domain: &Domain) -> Option<(String, Opened)> {
    let (mut parts, mut opened) = (Vec::new(), Opened::Well);
    for spec in COLLECTORS.iter().filter(|s| s.domain.name == domain.name) {
        let view = status.collectors.iter().find(|c| c.name == spec.name)?;
        let gpus = || status.gpus.iter().filter(|gpu| gpu.collector == view.name);
        if !gpus().all(|gpu| gpu.up.is_some()) {
            opened = opened.max(Opened::Waits);
        }
        parts.push(match view.state.as_str() {
            "unknown" => return None,
            "absent" => format!("{}: not on this node", view.name),
            // Without a text a device has failed.
            "failed" if !view.text.is_empty() => {
                // A call that has not returned may still return.
                let is_blocked = view.reason == "blocked";
                opened = opened.max(if is_blocked { Opened::Waits } else { Opened::Fails });
                format!("{} failed: {}", view.name, view.text)
            }
            _ => {
                let answer = gpus().filter(|gpu| gpu.up == Some(true)).count();
                format!("{}: {} devices, {answer} respond", view.name, view.devices)
            }
        });
    }
    Some((parts.join(", "), opened))
}
