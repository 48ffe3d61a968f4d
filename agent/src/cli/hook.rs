//! `nodewarden hook`: writes down what only Slurm's prolog and epilog know of a job.
//!
//! Slurm drains a node whose prolog fails and holds its job, so the exit code is always 0. The hook contacts no
//! process: a daemon reads the records when it can.

mod record;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use collectors::slurm::hook::{DROPPED, JobRecord, RecordId};

use super::dirs::{Dirs, SYSTEM_RUN};
use super::screen;
use sys::{dirs, files, spool, store};

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
pub(super) enum HookCommand {
    /// Record the owner and GPUs of a job that starts on this node.
    Prolog(HookArgs),
    /// Record the end of a job for the daemon.
    Epilog(HookArgs),
}

/// Their arguments.
#[derive(Debug, clap::Args)]
pub(super) struct HookArgs {
    /// The daemon's run directory.
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
}

/// Limit of records of ended jobs that no daemon has read, and of those that no epilog removed: at a page of memory each, 16 MiB.
const MOST: usize = 4096;

/// A record this old has no epilog: the node lost power.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// Limit of records removed by one call, which must be fast.
const REMOVED: usize = 8;

/// Runs the hook and prints its error.
pub(super) fn hook(command: &HookCommand) -> ExitCode {
    // Slurm treats the end by a signal (SIGXFSZ) as a failed prolog.
    sys::ignore(sys::signals::survive_file_limit());
    let (done, args) = match command {
        HookCommand::Prolog(args) => (begin(&run_dir(args)), args),
        HookCommand::Epilog(args) => (end(&run_dir(args)), args),
    };
    if let Err(error) = done {
        screen::complain(&format!("hook, records in {}: {error}", run_dir(args).display()));
    }
    ExitCode::SUCCESS
}

/// Slurm runs hooks as root with almost no environment.
fn run_dir(args: &HookArgs) -> PathBuf {
    match &args.run_dir {
        Some(given) => given.clone(),
        None if nix::unistd::geteuid().is_root() => SYSTEM_RUN.into(),
        None => Dirs::own().run,
    }
}

fn now() -> Result<Duration, String> {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_err(|e| e.to_string())
}

fn var(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn begin(run: &Path) -> Result<(), String> {
    write(run, &record::of_prolog(var, now()?.as_secs_f64())?)
}

fn end(run: &Path) -> Result<(), String> {
    let job = record::job(var)?;
    let (ended, end) = record::of_epilog(var, of_prolog(run, job))?;
    let id = RecordId {
        ended_us: u64::try_from(now()?.as_micros()).map_err(|e| e.to_string())?,
        job,
    };
    let left = leave(run, id, &ended);
    // Even if no record could be left: no later epilog removes it.
    forget(run, job)?;
    left.and(end)
}

/// What the prolog of this run wrote. `None`: no prolog of ours, or an unusable record, whose errors its worker reports.
fn of_prolog(run: &Path, job: u32) -> Option<JobRecord> {
    let text = store::load_own(&prologs(run, job).ok()?).ok().flatten()?;
    toml::from_str(&text)
        .ok()
        .filter(|record: &JobRecord| record.job == job)
}

/// Leaves the record of an ended job.
fn leave(run: &Path, id: RecordId, record: &JobRecord) -> Result<(), String> {
    let text = toml::to_string(record).map_err(|e| e.to_string())?;
    let folder = dirs::ended_jobs(run).map_err(|e| e.to_string())?;
    let prologs = prologs(run, id.job)?;
    let is_record = |name: &str| RecordId::parse(name).is_some();
    let texts = (text.as_bytes(), prologs.as_path());
    match spool::leave(&folder, &id.file(), texts, is_record, (MOST, DROPPED)) {
        Ok(0) => Ok(()),
        Ok(dropped) => Err(format!(
            "dropped {dropped} of more than {MOST} records of ended jobs, which no daemon has read"
        )),
        Err(e) => Err(format!("cannot leave the record of job {}: {e}", id.job)),
    }
}

/// The file that the prolog of a job writes.
fn prologs(run: &Path, job: u32) -> Result<PathBuf, String> {
    let folder = dirs::jobs(run).map_err(|e| e.to_string())?;
    Ok(folder.join(JobRecord::file(job)))
}

fn write(run: &Path, record: &JobRecord) -> Result<(), String> {
    let text = toml::to_string(record).map_err(|e| e.to_string())?;
    let folder = dirs::jobs(run).map_err(|e| e.to_string())?;
    let path = folder.join(JobRecord::file(record.job));
    store::replace(&path, text.as_bytes(), 0o644, false).map_err(|e| e.to_string())?;
    let is_record = |name: &str| {
        let job = name.strip_suffix(".toml");
        job.is_some_and(|job| job.parse::<u32>().is_ok())
    };
    files::remove_old(&folder, is_record, (KEPT, REMOVED), MOST).map_err(|e| e.to_string())?;
    Ok(())
}

fn forget(run: &Path, job: u32) -> Result<(), String> {
    files::remove(&prologs(run, job)?).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests;
