//! What processes tell of their job: its number, its user, when it began.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::cgroup::JobName;
use crate::sys::{boot, root, task};
use crate::{Env, Error};

/// A list of processes is no longer than this, in bytes: a hundred thousand numbers.
const LONGEST: u64 = 1 << 20;
/// The name of the daemon of a step.
const DAEMON: &str = "slurmstepd";

/// The processes of a cgroup itself. A cgroup that is gone has none.
///
/// # Errors
/// When its list cannot be read: cgroups of threads have none of processes.
pub(crate) fn listed(cgroup: &Path) -> Result<Vec<u32>, Error> {
    let text = root::read_text_within(&cgroup.join("cgroup.procs"), LONGEST)?.unwrap_or_default();
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

/// The folders in a folder whose names begin so.
fn below(folder: &Path, prefix: &str) -> Result<Vec<PathBuf>, Error> {
    let mut names = root::list(folder)?.unwrap_or_default();
    names.retain(|name| name.starts_with(prefix));
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}

/// The folders that hold the daemons of a job's steps: `step_*/slurm` (cgroup v2), or those of the step and of the job (v1:
/// of devices the one, of freezer the other). Under v1 they hold tasks too.
///
/// # Errors
/// When the job's folder cannot be listed.
pub(super) fn homes(job: &Path) -> Result<Vec<PathBuf>, Error> {
    let steps = below(job, "step_")?;
    let inner = steps.iter().map(|step| step.join("slurm"));
    Ok(inner.chain([job.to_owned()]).chain(steps.clone()).collect())
}

/// The daemons in one of these folders.
///
/// # Errors
/// When its list cannot be read.
pub(super) fn daemons_in(env: &Env, home: &Path) -> Result<Vec<u32>, Error> {
    let mut pids = listed(home)?;
    pids.retain(|pid| may_be_daemon(env, *pid));
    Ok(pids)
}

/// The daemons of a job's steps. A task that outlives them is none: Slurm's own `sleep` of an extern step does if its
/// slurmstepd is killed.
///
/// # Errors
/// When a list cannot be read: a job is not said to have ended then.
pub(super) fn daemons(env: &Env, job: &Path) -> Result<Vec<u32>, Error> {
    let mut pids = Vec::new();
    for home in homes(job)? {
        pids.extend(daemons_in(env, &home)?);
    }
    Ok(pids)
}

/// Whether a job's cgroup has no process, as far as can be read. Slurm cannot always remove one.
pub(super) fn is_left_over(job: &Path) -> bool {
    match root::read_text(&job.join("cgroup.events")) {
        Ok(Some(events)) => events.lines().any(|line| line == "populated 0"),
        // cgroup v1.
        Ok(None) => homes(job).is_ok_and(|mut homes| {
            homes.retain(|home| !listed(home).is_ok_and(|pids| pids.is_empty()));
            homes.is_empty()
        }),
        Err(_) => false,
    }
}

/// The tasks of each step, and whether it is that of the batch script, which comes first.
pub(super) fn tasks(env: &Env, job: &Path) -> Vec<(bool, Vec<u32>)> {
    let mut all = Vec::new();
    for step in below(job, "step_").unwrap_or_default() {
        let mut tasks = Vec::new();
        // Of cgroup v1, freezer has them in the step's folder.
        for folder in below(&step.join("user"), "task_")
            .unwrap_or_default()
            .iter()
            .chain([&step])
        {
            tasks.extend(listed(folder).unwrap_or_default());
        }
        tasks.retain(|pid| is_named(env, *pid, DAEMON) != Some(true));
        all.push((step.ends_with("step_batch"), tasks));
    }
    all.sort_by_key(|(is_script, _)| !is_script);
    all
}

/// Whether a process is a slurmstepd, as far as is known: `hidepid` and another PID namespace hide its name.
fn may_be_daemon(env: &Env, pid: u32) -> bool {
    is_named(env, pid, DAEMON).unwrap_or(true)
}

/// Whether a process has this name. `None`: it is hidden, or gone.
fn is_named(env: &Env, pid: u32, name: &str) -> Option<bool> {
    let found = root::read_lossy(&env.path(&format!("/proc/{pid}/comm")));
    Some(found.ok()?? == name)
}

/// The number of a job, by its folder's name, or by the title of one of its daemons: `slurmstepd: [7.extern]`.
pub(crate) fn job_id(env: &Env, name: &str, job: &Path) -> Option<u32> {
    match JobName::parse(name)? {
        JobName::Id(id) => Some(id),
        JobName::Sluid(_) => daemons(env, job).ok()?.into_iter().find_map(|pid| {
            let file = env.path(&format!("/proc/{pid}/cmdline"));
            let bytes = root::read_bytes(&file, 256).ok().flatten()?;
            titled(&String::from_utf8_lossy(&bytes))
        }),
    }
}

/// The number in `slurmstepd: [7.extern]`, or `slurmstepd: [7.0+1]`.
fn titled(title: &str) -> Option<u32> {
    let (id, _) = title.strip_prefix("slurmstepd: [")?.split_once('.')?;
    id.parse().ok()
}

/// The user of a job: who owns the processes of its tasks, where all are the same one's. Root's are the daemon's own, and
/// what a task may have started by a program of root's.
///
/// # Errors
/// When a part cannot be read: another user's process may be in it.
pub(super) fn user(
    job: &Path,
    owner: impl Fn(u32) -> Result<Option<u32>, Error>,
) -> Result<Option<u32>, Error> {
    let mut found = BTreeSet::new();
    for step in below(job, "step_")? {
        for task in below(&step.join("user"), "task_")? {
            for pid in listed(&task)? {
                found.extend(owner(pid)?.filter(|uid| *uid != 0));
            }
        }
    }
    Ok(found.pop_first().filter(|_| found.is_empty()))
}

/// When a process began, as a Unix time. `None`: it is gone.
pub(super) fn unix_start(env: &Env, pid: u32) -> Option<f64> {
    let stat = task::stat(&env.path(&format!("/proc/{pid}"))).ok()??;
    let since_boot = Duration::from_millis(
        stat.starttime
            .checked_mul(1000)?
            .checked_div(boot::ticks_per_second())?,
    );
    let age = boot::boottime().checked_sub(since_boot)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some(now.checked_sub(age)?.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use testkit::tree::{Entry, put};

    use super::*;

    fn write(dir: &Path, file: &str, text: &str) {
        put(&dir.join(file), &Entry::File(text.as_bytes().to_vec())).unwrap();
    }

    #[test]
    fn a_job_is_the_one_users_that_its_tasks_are_and_nobodys_where_they_are_several_users() {
        let dir = tempfile::tempdir().unwrap();
        let job = dir.path();
        let user = || user(job, |pid| Ok(Some(pid / 100))).ok().flatten();
        write(job, "step_batch/user/task_0/cgroup.procs", "7\n");
        assert_eq!(user(), None, "root's");
        write(job, "step_batch/user/task_0/cgroup.procs", "7\n100001\n");
        write(job, "step_0/user/task_0/cgroup.procs", "100002\n100003\n");
        // A daemon is none of its tasks.
        write(job, "step_0/slurm/cgroup.procs", "200000\n");
        assert_eq!(user(), Some(1000));
        write(job, "step_0/user/task_1/cgroup.procs", "100100\n");
        assert_eq!(user(), None);
    }

    /// Who owns a job may see it.
    #[test]
    fn a_job_of_which_a_part_cannot_be_read_is_nobodys() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "step_0/user/task_0/cgroup.procs", "100001\n100100\n");
        let unreadable = || {
            Error::io(
                "/proc/100100".as_ref(),
                std::io::ErrorKind::PermissionDenied.into(),
            )
        };
        let owner = |pid| {
            if pid == 100_100 {
                Err(unreadable())
            } else {
                Ok(Some(1000))
            }
        };
        user(dir.path(), owner).unwrap_err();
        let owner = |pid| Ok((pid != 100_100).then_some(1000));
        assert_eq!(
            user(dir.path(), owner).unwrap(),
            Some(1000),
            "the other has ended"
        );
        write(dir.path(), "step_0/user/task_1/cgroup.procs/x", "");
        user(dir.path(), owner).unwrap_err();
    }

    /// Slurm 22.05 has them in the job's own folder of freezer.
    #[test]
    fn under_v1_daemons_are_in_the_folder_of_the_job_too_and_beside_tasks() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::with_sysroot(dir.path().join("root"));
        let job = dir.path().join("job_7");
        write(&job, "cgroup.procs", "12022\n");
        write(&job, "step_extern/cgroup.procs", "12047\n12050\n");
        let name = |pid: u32, name: &str| {
            write(dir.path(), &format!("root/proc/{pid}/comm"), &format!("{name}\n"));
        };
        assert_eq!(daemons(&env, &job).unwrap(), [12022, 12047, 12050], "unknown");
        for pid in [12022, 12047] {
            name(pid, "slurmstepd");
        }
        name(12050, "sleep");
        assert_eq!(daemons(&env, &job).unwrap(), [12022, 12047]);
    }
}
