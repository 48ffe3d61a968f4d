//! What slurmstepd told the tasks of a job: SLURM_STEP_GPUS of its steps, SLURM_JOB_GPUS of its batch script.
//!
//! A task inherits SLURM_JOB_GPUS from the batch script, whose node may be another: of steps it is never read. A user may
//! put anything into the environment; so this is the last evidence, and none where the job's number or node is another.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::granted::{Of, positions};
use super::process;
use super::tree::V1;
use crate::sys::root;
use crate::{Env, Error};

/// A longer environment is not read to its end, and says nothing, in bytes.
const LONGEST: u64 = 256 * 1024;
/// More tasks of one step than these are not looked at, and it says nothing.
const MOST_TASKS: usize = 512;
/// What more processes than these were told is read anew.
const MOST_KNOWN: usize = 4096;
/// A process of more threads than these is not asked whether one of them is waiting.
const MOST_THREADS: usize = 1024;

/// What one task, or all of them, were told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) positions: Vec<usize>,
    /// SLURMD_NODENAME.
    pub(super) node: Option<String>,
    /// How many GPUs the step, or the job, has on this node: SLURM_GPUS_ON_NODE.
    many: usize,
}

/// What has been read, by number and start of the process: an environment is read once.
#[derive(Debug, Default)]
pub(super) struct Steps {
    known: BTreeMap<(u32, u64), Option<Said>>,
}

impl Steps {
    /// What the tasks of a job on this node were told. `node`: our name, where it is known.
    ///
    /// # Errors
    /// [`Error::Denied`] where the right to read an environment is missing.
    pub(super) fn read(&mut self, env: &Env, of: Of<'_>, node: Option<&str>) -> Result<Option<Said>, Error> {
        let before = std::mem::take(&mut self.known);
        let said = self.collect(&before, env, of, node);
        if !matches!(said, Ok(Some(_))) && before.len() <= MOST_KNOWN {
            // It was not looked at all of them.
            for (task, said) in before {
                self.known.entry(task).or_insert(said);
            }
        }
        said
    }

    fn collect(
        &mut self,
        before: &BTreeMap<(u32, u64), Option<Said>>,
        env: &Env,
        of: Of<'_>,
        node: Option<&str>,
    ) -> Result<Option<Said>, Error> {
        let mut all: Option<Said> = None;
        for step in process::steps(&of.folder.path) {
            let is_batch = step == "step_batch";
            let number = step.strip_prefix("step_").unwrap_or_default();
            if !is_batch && !number.bytes().all(|b| b.is_ascii_digit()) {
                continue;
            }
            let name = if is_batch {
                "SLURM_JOB_GPUS"
            } else {
                "SLURM_STEP_GPUS"
            };
            let started: Vec<(u32, u64)> = tasks(of, &step)
                .iter()
                .flat_map(|task| started(env, task))
                .collect();
            let mut of_step: Option<Said> = None;
            for task in started.iter().take(MOST_TASKS) {
                let said = match before.get(task) {
                    Some(known) => known.clone(),
                    None => match environment(env, *task)? {
                        Some(text) => said(&text, name, of.id, node),
                        // The next reading may find it at rest; without it the others' may be a part.
                        None => return Ok(None),
                    },
                };
                self.known.insert(*task, said.clone());
                let Some(said) = said else { continue };
                // Each of several tasks may have been bound to its own.
                match &mut of_step {
                    Some(all) => all.add(said),
                    None => of_step = Some(said),
                }
            }
            let Some(of_step) = of_step else { continue };
            if of_step.positions.len() != of_step.many || started.len() > MOST_TASKS {
                return Ok(None);
            }
            if is_batch {
                // It has all of the job's.
                return Ok(Some(of_step));
            }
            match &mut all {
                Some(all) => all.add(of_step),
                None => all = Some(of_step),
            }
        }
        Ok(all)
    }
}

impl Said {
    fn add(&mut self, other: Self) {
        self.positions.extend(other.positions);
        self.positions.sort_unstable();
        self.positions.dedup();
        self.many = self.many.max(other.many);
    }
}

/// The folders of a step's tasks: `task_0`, or `task_special` for all of them where ConstrainDevices is off. Under v1 some
/// hierarchies have none, and all may; then the step's own, which its daemon is in too.
fn tasks(of: Of<'_>, step: &str) -> Vec<PathBuf> {
    let places: Vec<PathBuf> = match &of.folder.v1 {
        None => vec![of.folder.path.join(step).join("user")],
        Some(below) => V1
            .iter()
            .map(|h| of.mount.join(h).join(below).join(step))
            .collect(),
    };
    let in_place = |place: &PathBuf| {
        let mut names = root::list(place).ok().flatten().unwrap_or_default();
        names.retain(|name| name.starts_with("task_"));
        names.into_iter().map(|name| place.join(name)).collect::<Vec<_>>()
    };
    let found = places.iter().map(in_place).find(|found| !found.is_empty());
    found.unwrap_or_else(|| vec![of.folder.path.join(step)])
}

/// The processes of a task's folder that slurmstepd started, by number and beginning in clock ticks: of a folder that all
/// tasks of a step are in, one each. Where none is known to be its child, the oldest. One that bears slurmstepd's name has not
/// started the task's program.
fn started(env: &Env, task: &Path) -> Vec<(u32, u64)> {
    let stat = |pid: u32| {
        let text = root::read_text(&env.path(&format!("/proc/{pid}/stat")));
        text.ok().flatten()
    };
    let is_daemon = |stat: &String| stat.contains("(slurmstepd)");
    let mut all = Vec::new();
    for pid in process::of(task) {
        let Some(text) = stat(pid).filter(|text| !is_daemon(text)) else {
            continue;
        };
        let Some(start) = process::started(env, pid).ok().flatten() else {
            continue;
        };
        // The state, and then the parent.
        let parent = text
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        all.push((start, pid, parent));
    }
    let is_child = |(_, _, parent): &&(u64, u32, Option<u32>)| {
        parent.is_some_and(|parent| stat(parent).is_some_and(|stat| is_daemon(&stat)))
    };
    let children: Vec<(u32, u64)> = all
        .iter()
        .filter(is_child)
        .map(|(start, pid, _)| (*pid, *start))
        .collect();
    if children.is_empty() {
        let oldest = all.into_iter().min();
        return oldest.map(|(start, pid, _)| (pid, start)).into_iter().collect();
    }
    children
}

/// The environment of a process. `None`: it is gone, or one of its threads waits in the kernel: reading takes a lock that
/// such a thread may hold for ever.
fn environment(env: &Env, (pid, start): (u32, u64)) -> Result<Option<Vec<u8>>, Error> {
    let threads = root::list(&env.path(&format!("/proc/{pid}/task")))
        .ok()
        .flatten()
        .unwrap_or_default();
    let files = threads.iter().map(|tid| format!("/proc/{pid}/task/{tid}/stat"));
    let mut files = files.chain([format!("/proc/{pid}/stat")]);
    if threads.len() > MOST_THREADS || !files.all(|file| !is_waiting(env, &file)) {
        return Ok(None);
    }
    let text = match root::read_bytes(&env.path(&format!("/proc/{pid}/environ")), LONGEST + 1) {
        Ok(text) => text,
        Err(error) if error.reason() == "denied" => {
            return Err(Error::Denied {
                what: "the environment of a job's tasks".to_owned(),
                missing: "CAP_SYS_PTRACE or CAP_DAC_READ_SEARCH",
            });
        }
        // It has ended.
        Err(_) => None,
    };
    // Another may have been given its number.
    let is_same = process::started(env, pid).ok().flatten() == Some(start);
    // One that is just starting its program has none yet.
    Ok(text.filter(|text| is_same && !text.is_empty()))
}

/// Whether a thread is in state D, or cannot be seen.
fn is_waiting(env: &Env, stat: &str) -> bool {
    let text = root::read_text(&env.path(stat))
        .ok()
        .flatten()
        .unwrap_or_default();
    let state = text
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.trim_start().chars().next());
    state.is_none_or(|state| state == 'D')
}

/// What an environment says of the GPUs. `None`: nothing, or nothing that could be believed.
fn said(environment: &[u8], name: &str, job: u32, ours: Option<&str>) -> Option<Said> {
    if environment.len() as u64 > LONGEST {
        return None;
    }
    let own = get(environment, "SLURM_JOB_ID")?;
    let node = get(environment, "SLURMD_NODENAME");
    let is_elsewhere = node.is_some_and(|node| ours.is_some_and(|ours| ours != node));
    if own.parse() != Ok(job) || is_elsewhere {
        return None;
    }
    // 20.11 tells tasks the numbers of device files and not positions; this one came with 21.08.
    let many = get(environment, "SLURM_GPUS_ON_NODE")?.parse().ok()?;
    let mut positions = positions(get(environment, name)?)?;
    positions.sort_unstable();
    Some(Said {
        positions,
        node: node.map(str::to_owned),
        many,
    })
}

/// The value of a variable that stands once.
fn get<'a>(environment: &'a [u8], name: &str) -> Option<&'a str> {
    let value = |entry: &'a [u8]| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=");
    let mut values = environment.split(|b| *b == 0).filter_map(value);
    let first = values.next()?;
    values
        .next()
        .is_none()
        .then(|| std::str::from_utf8(first).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str, name: &str) -> Option<Vec<usize>> {
        let environment = format!("{text} SLURM_GPUS_ON_NODE=2").replace(' ', "\0");
        said(environment.as_bytes(), name, 7, Some("n0")).map(|said| said.positions)
    }

    #[test]
    fn a_task_says_what_its_step_has() {
        let task = "SLURM_JOB_GPUS=3,4 SLURM_JOB_ID=7 SLURMD_NODENAME=n0 SLURM_STEP_GPUS=0,1 X=";
        assert_eq!(of(task, "SLURM_STEP_GPUS"), Some(vec![0, 1]));
        assert_eq!(
            of("SLURM_JOB_ID=7 SLURM_STEP_GPUS=2", "SLURM_STEP_GPUS"),
            Some(vec![2])
        );
        assert_eq!(of("SLURM_JOB_ID=7 XSLURM_STEP_GPUS=2", "SLURM_STEP_GPUS"), None);
    }

    /// A user may write anything there.
    #[test]
    fn what_another_job_or_node_was_told_or_nobody_would_write_is_nothing() {
        for text in [
            "SLURM_JOB_ID=8 SLURM_STEP_GPUS=0",
            "SLURM_STEP_GPUS=0",
            "SLURM_JOB_ID=7 SLURMD_NODENAME=n1 SLURM_STEP_GPUS=0",
            "SLURM_JOB_ID=7 SLURM_STEP_GPUS=GPU-0",
            "SLURM_JOB_ID=7 SLURM_STEP_GPUS=",
            "SLURM_JOB_ID=7 SLURM_STEP_GPUS=0 SLURM_STEP_GPUS=1",
            "SLURM_JOB_ID=7 SLURM_JOB_ID=8 SLURM_STEP_GPUS=0",
        ] {
            assert_eq!(of(text, "SLURM_STEP_GPUS"), None, "{text}");
        }
        // 20.11, whose numbers are those of device files.
        let old = b"SLURM_JOB_ID=7\0SLURM_STEP_GPUS=0\0".to_vec();
        assert_eq!(said(&old, "SLURM_STEP_GPUS", 7, None), None);
        let good = [&old[..], b"SLURM_GPUS_ON_NODE=1\0"].concat();
        assert!(said(&good, "SLURM_STEP_GPUS", 7, None).is_some());
        let mut long = good;
        long.resize(usize::try_from(LONGEST).unwrap() + 1, b'x');
        assert_eq!(said(&long, "SLURM_STEP_GPUS", 7, None), None, "what was cut");
    }

    proptest! {
        #[test]
        fn no_environment_upsets_it(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _said = said(&bytes, "SLURM_STEP_GPUS", 7, None);
        }
    }
}
