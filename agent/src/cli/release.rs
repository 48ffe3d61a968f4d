//! `nodewarden release`: lets go of a driver while a command works on it.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use collectors::{DOMAINS, Domain};

use super::client::{Connection, Down};
use super::{dirs, screen};
use crate::config::duration;
use crate::http::control::release::MOST_SECONDS;
use crate::http::control::{Reply, Request, Status};
use crate::sys::{foreground, holders};

/// Longer than the daemon takes over a worker that does not leave.
const PATIENCE: Duration = Duration::from_secs(75);

/// How long the driver may take to be opened again before we say that it is not.
const REOPEN: Duration = Duration::from_secs(60);

/// Our own failures, told apart from the command's exit codes as env(1) and timeout(1) do.
const FAILED: u8 = 125;
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

/// How many holders are named.
const SHOWN: usize = 20;

/// The arguments of `nodewarden release`.
#[derive(Debug, clap::Args)]
pub(super) struct ReleaseArgs {
    /// Whose driver, by the name of its worker.
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(DOMAINS.iter().map(|d| d.name)))]
    worker: String,
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

fn limit(text: &str) -> Result<Duration, String> {
    let most = Duration::from_secs(MOST_SECONDS);
    duration::parse(text)
        .filter(|t| (Duration::from_secs(1)..=most).contains(t))
        .ok_or_else(|| {
            format!(
                "expected {} between 1s and {}",
                duration::EXPECTED,
                duration::show(most)
            )
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
    let domain = DOMAINS.iter().copied().find(|d| d.name == args.worker);
    let domain = domain.ok_or_else(|| anyhow::anyhow!("{:?} is no worker", args.worker))?;
    let mut daemon = Connection::open(&dir, PATIENCE)?;
    match daemon.ask(&Request::Release {
        domain: args.worker.clone(),
        seconds: args.limit.as_secs(),
    })? {
        Reply::Done(text) => note(&text),
        Reply::Refused(text) => anyhow::bail!(text),
        _ => return Err(Down::odd(&dir).into()),
    }
    show_holders(domain);
    let ended = foreground::run(program, rest);
    // Taken back whatever came of the command: the connection ends with this process too.
    if let Err(error) = resume(&mut daemon, domain) {
        screen::complain(&format!("{error:#}"));
    }
    Ok(match ended {
        Ok(status) => ExitCode::from(code(status)),
        Err(error) => {
            screen::complain(&format!("{}: {error}", program.display()));
            let is_there = error.kind() != ErrorKind::NotFound;
            ExitCode::from(if is_there { CANNOT_RUN } else { NOT_FOUND })
        }
    })
}

/// The command's own exit code; 128 and the signal's number where a signal ended it, as shells have it.
fn code(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|s| s + 128);
    let code = status.code().or(signal).unwrap_or(i32::from(FAILED));
    u8::try_from(code).unwrap_or(FAILED)
}

/// On stderr, so that the command's output stays its own.
fn note(text: &str) {
    screen::complain(text);
}

/// Says who else is inside of the driver: a reset or an unload fails while there is one.
fn show_holders(domain: &Domain) {
    if domain.devices.is_empty() {
        return;
    }
    let holders = match holders::of(Path::new("/proc"), domain.devices) {
        Ok(holders) => holders,
        Err(error) => return note(&format!("who else holds the driver is not known: {error}")),
    };
    for holder in holders.found.iter().take(SHOWN) {
        let files: Vec<String> = holder.files.iter().map(|f| f.display().to_string()).collect();
        note(&format!(
            "still open by {} (pid {}): {}",
            holder.name,
            holder.pid,
            files.join(", ")
        ));
    }
    if let Some(more) = holders.found.len().checked_sub(SHOWN).filter(|n| *n > 0) {
        note(&format!("and by {more} more"));
    }
    if holders.hidden > 0 {
        note(&format!(
            "{} processes of others were not looked at: run it as root",
            holders.hidden
        ));
    }
}

/// Has the driver taken back, and waits until it is read again.
fn resume(daemon: &mut Connection, domain: &Domain) -> anyhow::Result<()> {
    let taken = daemon.ask(&Request::Resume);
    match taken {
        Ok(Reply::Done(_)) => {}
        Ok(Reply::Refused(text)) => anyhow::bail!(text),
        Ok(_) => anyhow::bail!("the daemon's reply is of another kind"),
        Err(_) => anyhow::bail!(
            "the daemon has ended the release before the command was over: its time was over, or the daemon was restarted"
        ),
    }
    let until = Instant::now() + REOPEN;
    loop {
        let Reply::Status(status) = daemon.ask(&Request::Status)? else {
            anyhow::bail!("the daemon's reply is of another kind")
        };
        match read_again(&status, domain) {
            Some(text) => {
                note(&text);
                return Ok(());
            }
            None if Instant::now() >= until => anyhow::bail!(
                "{} is taken back, and is not read again after {} s: see `nodewarden status`",
                domain.name,
                REOPEN.as_secs()
            ),
            None => thread::sleep(Duration::from_millis(200)),
        }
    }
}

/// What is found now; `None`: a collector has not said it yet.
fn read_again(status: &Status, domain: &Domain) -> Option<String> {
    let names = collectors::COLLECTORS
        .iter()
        .filter(|s| s.domain.name == domain.name);
    let mut parts = Vec::new();
    for spec in names {
        let view = status.collectors.iter().find(|c| c.name == spec.name)?;
        parts.push(match view.state.as_str() {
            "unknown" => return None,
            "absent" => format!("{} is not on this node", view.name),
            "failed" => format!("{} has failed: {}", view.name, view.text),
            _ => format!("{} has {} devices", view.name, view.devices),
        });
    }
    Some(format!("taken back: {}", parts.join(", ")))
}
