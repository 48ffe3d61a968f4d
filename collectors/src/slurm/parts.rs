//! The part of a GPU that Slurm gave a job that shares it: shards, or percent of MPS.
//!
//! Slurm reports percent to prologs, and shards to tasks only. So the number of shards is read in the environment of a
//! task, which its user may change: that alters how much of the GPU counts for which job, never who has it. The
//! environment is read only of jobs that share a GPU.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::process;
use super::tree::Folder;
use crate::Env;
use crate::sys::patience::OneAway;
use crate::sys::task::Thread;

/// Attempts to find the number among a job's tasks.
const TRIES: u32 = 64;
/// Maximum number of tasks that are asked at a time.
const MOST_TASKS: usize = 4;

/// The jobs that have each GPU alone or with others, of those with one GPU.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    holders: Mutex<BTreeMap<String, BTreeSet<Folder>>>,
    environments: OneAway,
}

impl Sharing {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, BTreeSet<Folder>>> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part of one job.
#[derive(Debug)]
pub(super) struct Parts {
    sharing: Arc<Sharing>,
    folder: Folder,
    gpu: Option<String>,
    shards: Option<u32>,
    tries: u32,
}

impl Parts {
    pub(super) fn new(sharing: &Arc<Sharing>, folder: &Folder) -> Self {
        Self {
            sharing: Arc::clone(sharing),
            folder: folder.clone(),
            gpu: None,
            shards: None,
            tries: 0,
        }
    }

    /// The part of the job, which has these GPUs. `None`: it shares none, it has several, or its part is unknown.
    ///
    /// `percent`: of MPS, as Slurm reported it to the prolog.
    pub(super) fn of(&mut self, env: &Env, gpus: &[String], percent: Option<u32>) -> Option<u32> {
        let [gpu] = gpus else {
            self.release();
            return None;
        };
        if !self.hold(gpu) {
            return None;
        }
        percent.or_else(|| {
            self.shards = self.shards.or_else(|| self.find(env));
            self.shards
        })
    }

    /// The job has no GPU any more.
    pub(super) fn release(&mut self) {
        let Some(gpu) = self.gpu.take() else { return };
        let mut holders = self.sharing.lock();
        if let Some(jobs) = holders.get_mut(&gpu) {
            jobs.remove(&self.folder);
            if jobs.is_empty() {
                holders.remove(&gpu);
            }
        }
    }

    /// Notes that the job has this GPU. Returns whether another one has it too.
    fn hold(&mut self, gpu: &str) -> bool {
        if self.gpu.as_deref() != Some(gpu) {
            self.release();
            self.gpu = Some(gpu.to_owned());
        }
        let mut holders = self.sharing.lock();
        let jobs = holders.entry(gpu.to_owned()).or_default();
        jobs.insert(self.folder.clone());
        jobs.len() > 1
    }

    /// The number of the batch script, which has all shards of the job; else the largest of its steps.
    fn find(&mut self, env: &Env) -> Option<u32> {
        if self.tries >= TRIES {
            return None;
        }
        let mut found = None;
        for (is_script, tasks) in process::tasks(env, &self.folder.path) {
            let tasks: Vec<u32> = tasks.into_iter().take(MOST_TASKS).collect();
            if tasks.is_empty() {
                continue;
            }
            self.tries += 1;
            let env = env.clone();
            let read = move || {
                tasks
                    .into_iter()
                    .find_map(|pid| Thread::at(&env, pid, pid).shards())
            };
            // Without an answer in time, what the others have may be less.
            let shards = self.sharing.environments.ask(read)?;
            if is_script && shards.is_some() {
                return shards;
            }
            found = found.max(shards);
        }
        found
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.release();
    }
}
