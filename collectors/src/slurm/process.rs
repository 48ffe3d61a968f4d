//! What processes tell of their job: its number, its user, when it began.

use std::path::Path;

use super::cgroup::JobName;
use crate::sys::root;
use crate::{Env, Error};

/// The processes of a cgroup itself. A cgroup that is gone has none.
pub(super) fn of(cgroup: &Path) -> Vec<u32> {
    let text = root::read_text(&cgroup.join("cgroup.procs"));
    let text = text.ok().flatten().unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// The steps of a job, by their folders.
fn steps(job: &Path) -> Vec<String> {
    let mut names = root::list(job).ok().flatten().unwrap_or_default();
    names.retain(|name| name.starts_with("step_"));
    names
}

/// The daemons of a job's steps: in `step_*/slurm` (cgroup v2), or in the step's folder itself (v1).
pub(super) fn daemons(job: &Path) -> Vec<u32> {
    let of_step = |step: String| {
        let step = job.join(step);
        [of(&step.join("slurm")), of(&step)].concat()
    };
    steps(job).into_iter().flat_map(of_step).collect()
}

/// The number of a job, by its folder's name, or by the title of one of its daemons: `slurmstepd: [7.extern]`.
pub(super) fn job_id(env: &Env, name: &str, job: &Path) -> Option<u32> {
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

/// The user of a job: who owns a process of one of its tasks. Root's are the daemon's own.
pub(super) fn user(job: &Path, owner: impl Fn(u32) -> Option<u32>) -> Option<u32> {
    for step in steps(job) {
        let tasks = job.join(&step).join("user");
        for task in root::list(&tasks).ok().flatten().unwrap_or_default() {
            if !task.starts_with("task_") {
                continue;
            }
            let owners = of(&tasks.join(&task)).into_iter().filter_map(&owner);
            if let Some(uid) = owners.into_iter().find(|uid| *uid != 0) {
                return Some(uid);
            }
        }
    }
    None
}

/// When a process began, in clock ticks since boot (/proc/PID/stat, field 22).
pub(super) fn started(env: &Env, pid: u32) -> Result<Option<u64>, Error> {
    let file = env.path(&format!("/proc/{pid}/stat"));
    let text = root::read_text(&file)?;
    // The name may hold anything, so the fields are counted from its end.
    let field = |text: String| text.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok();
    Ok(text.and_then(field))
}
