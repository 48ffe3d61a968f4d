//! `nodewarden hook`: reports what only Slurm's prolog and epilog know of a job.
//!
//! Slurm drains a node whose prolog fails and holds its job, so the exit code is always 0. The hook contacts no
//! process but the daemon. A daemon that starts later reads the record then.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use collectors::slurm::hook::JobRecord;

use super::dirs::{Dirs, SYSTEM_RUN};
use super::screen;
use crate::http::control::{Request, SOCKET};
use model::jobs::End;
use sys::{dirs, files, send, store};

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
pub(super) enum HookCommand {
    /// Record the owner and GPUs of a job that starts on this node.
    Prolog(HookArgs),
    /// Report the exit code of an ended job to the daemon and delete its record.
    Epilog(HookArgs),
}

/// Their arguments.
#[derive(Debug, clap::Args)]
pub(super) struct HookArgs {
    /// The daemon's run directory.
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
}

/// Longest recorded value, in characters.
const LONGEST: usize = 256;

/// Longest recorded list of GPUs or path, in bytes; longer ones are omitted, never cut.
const LONGEST_LIST: usize = 4096;

/// A record this old has no epilog: the node lost power.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// Limit of records removed by one call, which must be fast.
const REMOVED: usize = 8;

/// Runs the hook and prints its error.
pub(super) fn hook(command: &HookCommand) -> ExitCode {
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

fn begin(run: &Path) -> Result<(), String> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_err(|e| e.to_string())?;
    let record = record(|name| std::env::var(name).ok(), now.as_secs_f64())?;
    write(run, &record)
}

fn end(run: &Path) -> Result<(), String> {
    let var = |name: &str| std::env::var(name).ok();
    let job = job(var)?;
    // The record is removed even if the daemon does not answer.
    let began = began(run, job);
    let sent = ending(var).and_then(|end| end.map_or(Ok(()), |end| tell(run, job, end, began)));
    forget(run, job)?;
    sent
}

/// Sends the job's end to the daemon, if one runs, without waiting.
fn tell(run: &Path, job: u32, end: End, began: Option<f64>) -> Result<(), String> {
    let request = Request::JobEnded { job, end, began };
    let mut line = serde_json::to_string(&request).map_err(|e| e.to_string())?;
    line.push('\n');
    match send::once(&run.join(SOCKET), line.as_bytes()) {
        // No daemon runs; that is no error.
        Err(e) if [ErrorKind::NotFound, ErrorKind::ConnectionRefused].contains(&e.kind()) => Ok(()),
        done => done.map_err(|e| format!("{SOCKET}: cannot report the end of the job to the daemon: {e}")),
    }
}

/// Time of this run's prolog: a requeued job runs again under the same number. The record's errors are reported by
/// its worker.
fn began(run: &Path, job: u32) -> Option<f64> {
    let path = dirs::jobs(run).ok()?.join(JobRecord::file(job));
    let text = store::load_own(&path).ok().flatten()?;
    toml::from_str::<JobRecord>(&text).ok().map(|record| record.start)
}

/// The job's exit code. `Ok(None)`: Slurm does not set it, as before 22.05 and for a job that continues.
fn ending(var: impl Fn(&str) -> Option<String>) -> Result<Option<End>, String> {
    const NAME: &str = "SLURM_JOB_EXIT_CODE2";
    let Some(text) = var(NAME) else { return Ok(None) };
    let parts = text.split_once(':');
    let both = parts.and_then(|(code, signal)| Some((code.parse().ok()?, signal.parse().ok()?)));
    let (exit_code, signal) = both
        .ok_or_else(|| format!("{NAME}: found {text:?}, expected an exit code and a signal, as in 0:15"))?;
    let derived = var("SLURM_JOB_DERIVED_EC").and_then(|code| code.parse().ok());
    Ok(Some(End {
        exit_code,
        signal,
        derived: derived.unwrap_or_default(),
    }))
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
    files::remove_old(&folder, is_record, KEPT, REMOVED).map_err(|e| e.to_string())?;
    Ok(())
}

fn forget(run: &Path, job: u32) -> Result<(), String> {
    let folder = dirs::jobs(run).map_err(|e| e.to_string())?;
    files::remove(&folder.join(JobRecord::file(job))).map_err(|e| e.to_string())
}

fn job(var: impl Fn(&str) -> Option<String>) -> Result<u32, String> {
    let found = var("SLURM_JOB_ID");
    let number = found.as_deref().and_then(|id| id.parse().ok());
    number.ok_or_else(|| match found {
        Some(found) => format!("SLURM_JOB_ID: found {found:?}, expected a number"),
        None => "SLURM_JOB_ID is not set: run this command from Slurm's Prolog or Epilog".to_owned(),
    })
}

/// The record, from the environment of a prolog.
fn record(var: impl Fn(&str) -> Option<String>, now: f64) -> Result<JobRecord, String> {
    let job = job(&var)?;
    // Users may choose some of these values.
    let text = |name: &str| -> Option<String> {
        let clean = |c: char| if c.is_control() { ' ' } else { c };
        let text: String = var(name)?.chars().take(LONGEST).map(clean).collect();
        (!text.is_empty()).then_some(text)
    };
    // A cut list or path would name something else.
    let whole = |name: &str| {
        let fits =
            |text: &String| (1..=LONGEST_LIST).contains(&text.len()) && !text.contains(char::is_control);
        var(name).filter(fits)
    };
    let is_uuid = |name: &str| name.starts_with("GPU-") || name.starts_with("MIG-");
    Ok(JobRecord {
        job,
        start: now,
        uid: text("SLURM_JOB_UID").and_then(|uid| uid.parse().ok()),
        user: text("SLURM_JOB_USER"),
        account: text("SLURM_JOB_ACCOUNT"),
        partition: text("SLURM_JOB_PARTITION"),
        array_job: text("SLURM_ARRAY_JOB_ID"),
        array_task: text("SLURM_ARRAY_TASK_ID"),
        het_job: text("SLURM_HET_JOB_ID"),
        gpus: whole("SLURM_JOB_GPUS"),
        uuids: whole("CUDA_VISIBLE_DEVICES").filter(|list| list.split(',').all(is_uuid)),
        node: text("SLURMD_NODENAME"),
        conf: whole("SLURM_CONF"),
        sluid: text("SLURM_JOB_SLUID"),
    })
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests write records of jobs")]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    /// As Slurm 22.05 sets it for the prolog of the second part of a heterogeneous job.
    const PROLOG: &[(&str, &str)] = &[
        ("SLURM_JOB_ID", "7"),
        ("SLURM_JOB_UID", "1000"),
        ("SLURM_JOB_USER", "ada"),
        ("SLURM_JOB_ACCOUNT", "proja"),
        ("SLURM_JOB_PARTITION", "gpu"),
        ("SLURM_HET_JOB_ID", "6"),
        ("SLURM_JOB_GPUS", "0,1"),
        ("CUDA_VISIBLE_DEVICES", "0,1"),
        ("SLURMD_NODENAME", "n0"),
        ("SLURM_CONF", "/etc/slurm/slurm.conf"),
        ("SLURM_JOB_COMMENT", "project X"),
    ];

    fn of(vars: &[(&str, &str)]) -> Result<JobRecord, String> {
        let var = |name: &str| {
            let found = vars.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        record(var, 12.5)
    }

    #[test]
    fn a_prologs_environment_is_written_down() {
        let expected = JobRecord {
            job: 7,
            start: 12.5,
            uid: Some(1000),
            user: Some("ada".to_owned()),
            account: Some("proja".to_owned()),
            partition: Some("gpu".to_owned()),
            het_job: Some("6".to_owned()),
            gpus: Some("0,1".to_owned()),
            node: Some("n0".to_owned()),
            conf: Some("/etc/slurm/slurm.conf".to_owned()),
            ..JobRecord::default()
        };
        assert_eq!(of(PROLOG), Ok(expected));
    }

    /// With AutoDetect, and since 25.11 for whole GPUs too. On a node with both, instances have UUIDs and GPUs have
    /// numbers.
    #[test]
    fn uuids_are_written_down_where_all_are() {
        let uuids = |text: &str| {
            let vars = [("SLURM_JOB_ID", "7"), ("CUDA_VISIBLE_DEVICES", text)];
            of(&vars).unwrap().uuids
        };
        for both in ["GPU-1a", "GPU-1a,MIG-2b"] {
            assert_eq!(uuids(both).as_deref(), Some(both));
        }
        for none in ["", "0", "MIG-2b,1", "0,1"] {
            assert_eq!(uuids(none), None, "{none}");
        }
    }

    /// Sixteen UUIDs exceed the limit of other values; longer lists are omitted, since half a list would be wrong.
    #[test]
    fn a_list_of_gpus_is_whole_or_absent() {
        let of = |many: usize| {
            let uuids = vec!["GPU-00000000-0000-4000-8000-000000000100"; many].join(",");
            let vars = [
                ("SLURM_JOB_ID", "7"),
                ("CUDA_VISIBLE_DEVICES", &uuids),
                ("SLURM_JOB_GPUS", &uuids),
            ];
            let record = of(&vars).unwrap();
            assert_eq!(record.gpus, record.uuids);
            record.gpus.map(|text| text.len())
        };
        assert_eq!(of(16), Some(16 * 41 - 1));
        assert_eq!(of(101), None);
    }

    #[test]
    fn what_slurm_does_not_say_is_absent_and_words_of_users_are_cut() {
        let long = "x".repeat(1000);
        let record = of(&[
            ("SLURM_JOB_ID", "7"),
            ("SLURM_JOB_ACCOUNT", &long),
            ("SLURM_JOB_USER", "a\nb"),
        ])
        .unwrap();
        assert_eq!(record.account.map(|a| a.len()), Some(LONGEST));
        assert_eq!(record.user.as_deref(), Some("a b"));
        assert_eq!(record.partition, None);
    }

    #[test]
    fn an_environment_without_a_job_says_what_is_missing() {
        assert!(of(&[]).unwrap_err().contains("SLURM_JOB_ID is not set"));
        let odd = of(&[("SLURM_JOB_ID", "7_1")]).unwrap_err();
        assert_eq!(odd, "SLURM_JOB_ID: found \"7_1\", expected a number");
    }

    #[test]
    fn an_epilog_says_how_the_job_ended_where_slurm_does() {
        let of = |text: Option<&str>| {
            ending(|name| match name {
                "SLURM_JOB_EXIT_CODE2" => text.map(str::to_owned),
                "SLURM_JOB_DERIVED_EC" => Some("256".to_owned()),
                _ => None,
            })
        };
        let end = |exit_code, signal| {
            Ok(Some(End {
                exit_code,
                signal,
                derived: 256,
            }))
        };
        assert_eq!(of(None), Ok(None));
        assert_eq!(of(Some("0:0")), end(0, 0));
        assert_eq!(of(Some("3:0")), end(3, 0));
        assert_eq!(of(Some("0:15")), end(0, 15));
        for odd in ["", "0", "x:0", "0:", "256:0"] {
            assert!(
                of(Some(odd))
                    .unwrap_err()
                    .contains("expected an exit code and a signal")
            );
        }
    }

    /// slurmd may start before the daemon, and its umask differs.
    #[test]
    fn a_record_may_be_written_before_the_first_daemon_and_is_removed_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        let record = of(PROLOG).unwrap();
        write(&run, &record).unwrap();
        let path = run.join("jobs/7.toml");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o644);
        assert_eq!(run.join("jobs").metadata().unwrap().mode() & 0o777, 0o750);
        let ids = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
        let _lock = dirs::take_run(&run, ids.0, ids.1).unwrap();
        assert!(path.exists(), "a daemon that starts keeps it");
        assert_eq!((began(&run, 7), began(&run, 8)), (Some(12.5), None));
        forget(&run, 7).unwrap();
        assert!(!path.exists());
        forget(&run, 7).unwrap();
    }

    /// No epilog runs if the node is switched off.
    #[test]
    fn records_that_were_left_long_ago_are_removed_a_few_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let jobs = dir.path().join("jobs");
        let record = of(PROLOG).unwrap();
        write(dir.path(), &record).unwrap();
        let put = |name: &str, days: u64| {
            let file = fs::File::create(jobs.join(name)).unwrap();
            let at = SystemTime::now() - Duration::from_secs(days * 24 * 3600);
            file.set_modified(at).unwrap();
        };
        for job in 100..110 {
            put(&format!("{job}.toml"), 31);
        }
        put("200.toml", 29);
        put("notes.toml", 31);
        let left = || collectors::sys::root::list(&jobs).unwrap().unwrap();
        write(dir.path(), &record).unwrap();
        assert_eq!(left().len(), 13 - REMOVED);
        write(dir.path(), &record).unwrap();
        let mut left = left();
        left.sort();
        assert_eq!(left, ["200.toml", "7.toml", "notes.toml"]);
    }

    /// The run directory belongs to the daemon too, and a hook runs as root.
    #[test]
    fn nothing_is_written_through_a_folder_that_others_made() {
        let dir = tempfile::tempdir().unwrap();
        let record = of(PROLOG).unwrap();
        let elsewhere = dir.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, dir.path().join("jobs")).unwrap();
        write(dir.path(), &record).unwrap();
        assert!(!elsewhere.join("7.toml").exists());
        assert_eq!(began(dir.path(), 7), Some(12.5), "nor can others prevent it");
        let open = dir.path().join("open");
        fs::create_dir_all(open.join("jobs")).unwrap();
        fs::set_permissions(open.join("jobs"), fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(open.join("jobs/8.toml"), "job = 8\nstart = 1.0\n").unwrap();
        write(&open, &record).unwrap();
        assert_eq!((began(&open, 7), began(&open, 8)), (Some(12.5), None));
    }
}
