//! `nodewarden release`: lets go of a driver while a command works on it.

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
use crate::http::control::release::{LEAVE, MOST_SECONDS, releasable};
use crate::http::control::{NodeStatus, Reply, Request};
use sys::{foreground, holders, poll};

/// How long the driver may take to be opened again before we say that it is not.
const REOPEN: Duration = Duration::from_secs(60);

/// How long it may take to see who else has the driver open.
const LOOK: Duration = Duration::from_secs(5);

/// Our own failures, told apart from the command's exit codes as env(1) and timeout(1) do.
pub(super) const FAILED: u8 = 125;
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

/// How many holders are named.
const SHOWN: usize = 20;

/// The arguments of `nodewarden release`.
#[derive(Debug, clap::Args)]
pub(super) struct ReleaseArgs {
    /// Whose driver, by the name of its worker.
    #[arg(value_name = "WORKER", value_parser = worker)]
    worker: &'static Domain,
    /// Take it back after this time, even if the command still runs.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = limit)]
    limit: Duration,
    /// The daemon's run directory.
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
    /// What works on the driver, with its arguments.
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
    let most = Duration::from_secs(MOST_SECONDS);
    duration::parse(text)
        .filter(|t| (Duration::from_secs(1)..=most).contains(t))
        .ok_or_else(|| {
            let most = duration::show(most);
            format!("expected a time between 1s and {most}, such as \"10m\" or \"1h\"")
        })
}

/// Releases, runs, takes back.
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
        // Before a driver is let go of for nothing.
        return Ok(not_started(program, &error));
    }
    let mut driver = Driver::release(&dir, args)?;
    show_holders(args.worker);
    let over = driver.watch();
    // The command keeps the connection open too: should this process be killed, it is not disturbed.
    let ended = foreground::run(program, rest, &driver.daemon);
    over.store(true, Ordering::Release);
    if let Err(error) = driver.take_back() {
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

/// The command's own exit code; 128 and the signal's number where a signal ended it, as shells have it.
fn code(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|s| s + 128);
    let code = status.code().or(signal).unwrap_or(i32::from(FAILED));
    u8::try_from(code).unwrap_or(FAILED)
}

/// Says who else is inside of the driver: a reset or an unload fails while there is one. On stderr, so that the command's
/// output stays its own.
fn show_holders(domain: &Domain) {
    let holders = holders::of(Path::new("/proc"), domain.devices, LOOK);
    for holder in holders.found.iter().take(SHOWN) {
        let files: Vec<String> = holder.files.iter().map(|f| f.display().to_string()).collect();
        screen::complain(&format!(
            "still open by {} (pid {}): {}",
            holder.name,
            holder.pid,
            files.join(", ")
        ));
    }
    if let Some(more) = holders.found.len().checked_sub(SHOWN).filter(|n| *n > 0) {
        screen::complain(&format!("and by {more} more"));
    }
    if holders.hidden > 0 {
        let hidden = holders.hidden;
        screen::complain(&format!("{hidden} processes were not looked at: run it as root"));
    }
    if !holders.unfinished.is_empty() {
        screen::complain(&format!(
            "who else has it open is not all known: {}",
            holders.unfinished
        ));
    }
}

/// A driver that the daemon has let go of.
struct Driver<'a> {
    dir: &'a Path,
    domain: &'static Domain,
    daemon: Connection,
    /// How often its worker had been started before.
    starts: u64,
}

impl<'a> Driver<'a> {
    fn release(dir: &'a Path, args: &ReleaseArgs) -> anyhow::Result<Self> {
        // Longer than the daemon waits for its worker.
        let daemon = Connection::open(dir, LEAVE + Duration::from_secs(15))?;
        let mut driver = Self {
            dir,
            domain: args.worker,
            daemon,
            starts: 0,
        };
        driver.starts = driver.status()?.1;
        let name = driver.domain.name;
        match driver.daemon.ask(&Request::Release {
            domain: name.to_owned(),
            seconds: args.limit.as_secs(),
        })? {
            Reply::Done(text) => screen::complain(&text),
            Reply::Refused(text) => anyhow::bail!(text),
            _ => return Err(Unreachable::odd(dir).into()),
        }
        Ok(driver)
    }

    /// What there is to show, and how often the worker was started.
    fn status(&mut self) -> anyhow::Result<(Box<NodeStatus>, u64)> {
        match self.daemon.ask(&Request::Status)? {
            Reply::Status(status) => {
                let worker = status.workers.iter().find(|w| w.name == self.domain.name);
                let starts = worker.map_or(0, |w| w.starts);
                Ok((status, starts))
            }
            Reply::Refused(text) => anyhow::bail!(text),
            _ => Err(Unreachable::odd(self.dir).into()),
        }
    }

    /// Says at once if the daemon ends the release, until what is returned is set.
    fn watch(&self) -> Arc<AtomicBool> {
        let over = Arc::new(AtomicBool::new(false));
        let (is_over, name) = (Arc::clone(&over), self.domain.name);
        // Without a copy or a thread it is said at the end of the command.
        if let Ok(copy) = self.daemon.copy() {
            let watch = move || {
                poll::until_input(&copy);
                if !is_over.load(Ordering::Acquire) {
                    screen::complain(&format!(
                        "the release of {name} has ended while the command still runs: its time is over, or the daemon ended; a daemon that runs opens the driver again"
                    ));
                }
            };
            sys::ignore(thread::Builder::new().name("watch".to_owned()).spawn(watch));
        }
        over
    }

    /// Has the driver opened again, and waits until its devices are listed.
    fn take_back(&mut self) -> anyhow::Result<()> {
        match self.daemon.ask(&Request::Resume) {
            Ok(Reply::Done(_)) => {}
            Ok(Reply::Refused(text)) => anyhow::bail!(text),
            Ok(_) => return Err(Unreachable::odd(self.dir).into()),
            // The connection ended with it.
            Err(_) => anyhow::bail!("the release had ended before the command did"),
        }
        let until = Instant::now() + REOPEN;
        loop {
            let (status, starts) = self.status()?;
            let over = Instant::now() >= until;
            match found(&status, self.domain).filter(|(_, well)| starts > self.starts && (*well || over)) {
                Some((text, _)) => {
                    screen::complain(&format!("taken back: {text}"));
                    return Ok(());
                }
                None if over => anyhow::bail!(
                    "{} is taken back, and is not read again after {} s: see `nodewarden status`",
                    self.domain.name,
                    REOPEN.as_secs()
                ),
                None => thread::sleep(Duration::from_millis(200)),
            }
        }
    }
}

/// What is found now, and whether all of it is well; `None`: a collector has not said it yet.
fn found(status: &NodeStatus, domain: &Domain) -> Option<(String, bool)> {
    let (mut parts, mut well) = (Vec::new(), true);
    for spec in COLLECTORS.iter().filter(|s| s.domain.name == domain.name) {
        let view = status.collectors.iter().find(|c| c.name == spec.name)?;
        let gpus = || status.gpus.iter().filter(|gpu| gpu.collector == view.name);
        well &= gpus().all(|gpu| gpu.up.is_some());
        parts.push(match view.state.as_str() {
            "unknown" => return None,
            "absent" => format!("{} is not on this node", view.name),
            "failed" => {
                well = false;
                format!("{} has failed: {}", view.name, view.text)
            }
            _ => {
                let answer = gpus().filter(|gpu| gpu.up == Some(true)).count();
                format!("{} has {} devices, {answer} answer", view.name, view.devices)
            }
        });
    }
    Some((parts.join(", "), well))
}
