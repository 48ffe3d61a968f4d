//! Slurm jobs on this node, by their cgroups: their usage, users and devices.
//!
//! The controller is never queried. Under cgroup v2 the device program that slurmstepd attaches to a job's cgroup
//! lists its devices, whether or not any process uses them.

mod caps;
pub mod cgroup;
mod devices;
mod disks;
mod files;
mod grants;
pub(crate) mod gres;
pub mod hook;
pub mod hostlist;
mod job;
mod mapping;
pub mod metrics;
mod parts;
mod pod;
mod positions;
pub(crate) mod process;
pub mod program;
pub mod settings;
pub mod slurmd;
mod spool;
pub(crate) mod tree;
mod user;
mod watch;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::event::EventKind;
use crate::sys::kept::DescriptorBudget;
use crate::sys::{boot, bpf};
use crate::{Cadence, Device, Devices, Env, Error, Settings, Source, Spec, domain};
use job::{JobContext, JobDevice, JobState, SharedJob};
use mapping::Mappings;
use positions::Positions;
pub use settings::max_jobs;
use spool::Spool;
use tree::{Folder, Tree};
use user::Users;
use watch::{JobWatcher, SeenJobs};

/// The slurm collector.
pub static SPEC: Spec = Spec {
    name: "slurm",
    domain: &domain::SLURM,
    metrics: metrics::METRICS,
    events: &[EventKind::Job, EventKind::JobEnd],
    notes: false,
    // A job that just began or ended is read, even shortly after a scrape.
    cadence: Cadence::OnDemand {
        fresh: Duration::from_millis(200),
    },
    slice: Duration::from_millis(500),
    deadline: Duration::from_secs(5),
    keys: settings::KEYS,
    open,
};

/// Default and maximum of `max_jobs`: each job has about 10 series, and each of its GPUs 4.
pub const MAX_JOBS: usize = 1024;

/// The jobs of our node, for another collector of the same worker.
///
/// # Errors
/// When `[slurm.jobs]` is invalid.
pub(crate) fn tree(env: &Env, settings: &Settings) -> Result<Tree, Error> {
    Ok(Tree::new(env, settings.find(&settings::NODE)?))
}

/// Never absent: a slurmd may be started at any time.
fn open(env: &Env, settings: &Settings) -> Result<Option<Source>, Error> {
    // Also checked here: the settings may come from a process with fewer rights.
    settings::salted(settings)?;
    let devices = JobDevices::new(env, settings, DescriptorBudget::of_process())?;
    let watcher = JobWatcher {
        tree: tree(env, settings)?,
        boot: boot::boot_id(env)?,
        known: SeenJobs::default(),
        spool: Spool::new(&devices.common),
    };
    Ok(Some(Source {
        devices: Box::new(devices),
        watcher: Some(Box::new(watcher)),
    }))
}

struct JobDevices {
    tree: Tree,
    common: Arc<JobContext>,
    /// The state of each job, and how many of its runs were seen before in its folder.
    known: Option<BTreeMap<Folder, (u32, SharedJob)>>,
}

impl JobDevices {
    fn new(env: &Env, settings: &Settings, budget: Arc<DescriptorBudget>) -> Result<Self, Error> {
        let common = JobContext {
            budget,
            programs: Mutex::new(bpf::programs(env)),
            hooks: hook::Hooks::new(env, &settings.get::<String>(&settings::HOOKS)?),
            positions: Mutex::new(Positions::new(env, settings.find(&settings::GRES_CONF)?)),
            sharing: Arc::default(),
            mappings: Mutex::new(Mappings::new(env, settings.get(&settings::MAPPING)?)),
            node: settings.find(&settings::NODE)?,
            users: Users::new(settings.get(&settings::USER)?, settings.get(&settings::SALT)?),
            env: env.clone(),
        };
        Ok(Self {
            tree: tree(env, settings)?,
            common: Arc::new(common),
            known: None,
        })
    }
}

impl Devices for JobDevices {
    fn scan(&mut self) -> Result<Vec<Box<dyn Device>>, Error> {
        let folders = self.tree.jobs(Instant::now())?;
        let mut known = self.known.take().unwrap_or_default();
        let state = |folder: Folder| {
            let new = || {
                let state = JobState::new(&self.common, folder.clone(), self.tree.mount());
                Arc::new(Mutex::new(state))
            };
            let state = match known.remove(&folder) {
                Some((run, state)) if is_replaced(&state) => (run.saturating_add(1), new()),
                Some(known) => known,
                None => (0, new()),
            };
            (folder, state)
        };
        let jobs: BTreeMap<Folder, (u32, SharedJob)> = folders.into_iter().map(state).collect();
        let device = |(folder, (run, state)): (&Folder, &(u32, SharedJob))| {
            Box::new(JobDevice::new(folder, *run, state)) as Box<dyn Device>
        };
        let devices = jobs.iter().map(device).collect();
        self.known = Some(jobs);
        Ok(devices)
    }

    fn changed(&mut self) -> bool {
        // If a folder cannot be listed now, its known content stays.
        let now = self.tree.jobs(Instant::now());
        let known = self.known.as_ref();
        let has_another =
            |known: &BTreeMap<Folder, (u32, SharedJob)>| known.values().any(|(_, state)| is_replaced(state));
        now.is_ok_and(|now| known.is_none_or(|known| !known.keys().eq(&now) || has_another(known)))
    }
}

/// Whether another run has begun in a job's folder. Does not wait for a reading that has not returned.
fn is_replaced(state: &SharedJob) -> bool {
    state.try_lock().is_ok_and(|state| state.is_replaced)
}

#[cfg(test)]
mod tests;
