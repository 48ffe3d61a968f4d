//! What processes tell of their job: its number, its user, when it began.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::cgroup::JobName;
use crate::sys::{boot, root, task};
use crate::{Env, Error};

/// A list of processes is no longer than this, in bytes: a hundred thousand numbers.
const LONGEST: u64 = 1 << 20;

/// The processes of a cgroup itself. A cgroup that is gone has none, nor one whose list cannot be read.
pub(crate) fn of(cgroup: &Path) -> Vec<u32> {
    listed(cgroup).unwrap_or_default()
}

/// The processes of a cgroup itself.
///
/// # Errors
/// When its list cannot be read: cgroups of threads have none of processes.
pub(crate) fn listed(cgroup: &Path) -> Result<Vec<u32>, Error> {
    let text = root::read_text_within(&cgroup.join("cgroup.procs"), LONGEST)?.unwrap_or_default();
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

/// The steps of a job, by their folders.
fn steps(job: &Path) -> Vec<String> {
    let mut names = root::list(job).ok().flatten().unwrap_or_default();
    names.retain(|name| name.starts_with("step_"));
    names
}

/// The daemons of a job's steps: in `step_*/slurm` (cgroup v2), or in the folders of the step and of the job (v1: of devices
/// the one, of freezer the other).
pub(super) fn daemons(job: &Path) -> Vec<u32> {
    let of_step = |step: String| {
        let step = job.join(step);
        [of(&step.join("slurm")), of(&step)].concat()
    };
    let mut pids = of(job);
    pids.extend(steps(job).into_iter().flat_map(of_step));
    pids
}

/// The number of a job, by its folder's name, or by the title of one of its daemons: `slurmstepd: [7.extern]`.
pub(crate) fn job_id(env: &Env, name: &str, job: &Path) -> Option<u32> {
    match JobName::parse(name)? {
        JobName::Id(id) => Some(id),
        JobName::Sluid(_) => daemons(job).into_iter().find_map(|pid| {
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
pub(super) fn user(job: &Path, owner: impl Fn(u32) -> Option<u32>) -> Option<u32> {
    let mut found = BTreeSet::new();
    for step in steps(job) {
        let tasks = job.join(&step).join("user");
        let mut names = root::list(&tasks).ok().flatten().unwrap_or_default();
        names.retain(|name| name.starts_with("task_"));
        let pids = names.iter().flat_map(|task| of(&tasks.join(task)));
        found.extend(pids.filter_map(&owner).filter(|uid| *uid != 0));
    }
    found.pop_first().filter(|_| found.is_empty())
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
        let user = || user(job, |pid| Some(pid / 100));
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

    /// Slurm 22.05 has them in the job's own folder of freezer.
    #[test]
    fn under_v1_daemons_are_in_the_folder_of_the_job_too() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "cgroup.procs", "12022\n");
        write(dir.path(), "step_extern/cgroup.procs", "12047\n");
        assert_eq!(daemons(dir.path()), [12022, 12047]);
    }
}
