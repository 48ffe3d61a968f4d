//! Slurm's jobs on this node, by their cgroups: what they use, whose they are, and which devices are theirs.
//!
//! The controller is never asked. Under cgroup v2 the device program that slurmstepd attaches to a job's cgroup states its
//! devices, whether or not anything runs on them.

mod caps;
pub mod cgroup;
mod devices;
mod files;
mod grants;
pub(crate) mod gres;
pub mod hook;
mod hostlist;
mod job;
mod mapping;
pub mod metrics;
mod pod;
mod positions;
pub(crate) mod process;
pub mod program;
mod slurmd;
pub(crate) mod tree;
mod user;
mod watch;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::sys::kept::DescriptorBudget;
use crate::sys::{boot, bpf};
use crate::{Cadence, Device, Devices, Env, Error, Settings, Source, Spec, domain};
use job::{JobContext, JobDevice, JobState, SharedJob};
use mapping::{Mapping, Mappings};
use positions::Positions;
use tree::{Folder, Tree};
use user::{UserLabel, Users};
use watch::{JobWatcher, SeenJobs};

/// The slurm collector.
pub static SPEC: Spec = Spec {
    name: "slurm",
    domain: &domain::SLURM,
    metrics: metrics::METRICS,
    events: true,
    notes: false,
    // A job that has just begun or ended is looked at though a scrape was a moment ago.
    cadence: Cadence::OnDemand {
        fresh: Duration::from_millis(200),
    },
    slice: Duration::from_millis(500),
    deadline: Duration::from_secs(5),
    validate: |settings| JobSettings::checked(settings).map(drop),
    open,
};

/// The `slurm.jobs` table of the configuration.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct JobSettings {
    /// The node whose jobs are ours, where several slurmds run on this host.
    node: Option<String>,
    user: UserLabel,
    salt: String,
    /// Where the prolog's hook writes.
    hooks: String,
    /// So many jobs have series of their own on a page.
    max_jobs: usize,
    /// gres.conf, where it is not in one of Slurm's usual places.
    gres_conf: Option<String>,
    /// Folders of other tools' files.
    mapping: Vec<Mapping>,
}

/// The default of `max_jobs`, and the most: each job has some ten series, and each of its GPUs four.
pub const MAX_JOBS: usize = 1024;

/// How many jobs have series of their own on a page. All of them are read: a job that is not shown has its line too.
///
/// # Errors
/// When the table is refused.
pub fn max_jobs(settings: &Settings) -> Result<usize, Error> {
    JobSettings::checked(settings).map(|table| table.max_jobs)
}

impl Default for JobSettings {
    fn default() -> Self {
        Self {
            node: None,
            user: UserLabel::default(),
            salt: String::new(),
            hooks: format!("/run/nodewarden/{}", hook::FOLDER),
            max_jobs: MAX_JOBS,
            gres_conf: None,
            mapping: Vec::new(),
        }
    }
}

impl JobSettings {
    fn checked(settings: &Settings) -> Result<Self, Error> {
        let table: Self = settings.get()?;
        if table.user == UserLabel::Hash && table.salt.is_empty() {
            return Err(Error::Settings(
                "user = \"hash\" needs a salt: a text that the whole site shares and nobody else knows"
                    .to_owned(),
            ));
        }
        let paths = [("hooks", &table.hooks)].into_iter();
        let paths = paths.chain(table.gres_conf.iter().map(|path| ("gres_conf", path)));
        let paths = paths.chain(table.mapping.iter().map(|mapping| ("mapping.dir", &mapping.dir)));
        for (key, path) in paths {
            if !path.starts_with('/') {
                return Err(Error::Settings(format!(
                    "{key}: found {path:?}, expected an absolute path"
                )));
            }
        }
        if !(1..=MAX_JOBS).contains(&table.max_jobs) {
            return Err(Error::Settings(format!(
                "max_jobs: found {}, expected 1 to {MAX_JOBS}",
                table.max_jobs
            )));
        }
        Ok(table)
    }
}

/// The jobs of our node, for another collector of the same worker.
///
/// # Errors
/// What is wrong with `[slurm.jobs]`.
pub(crate) fn tree(env: &Env, settings: &Settings) -> Result<Tree, Error> {
    let table = JobSettings::checked(&settings.of(SPEC.name))?;
    Ok(Tree::new(env, table.node))
}

/// Never absent: a slurmd may be started at any time.
fn open(env: &Env, settings: &Settings) -> Result<Option<Source>, Error> {
    let table = JobSettings::checked(settings)?;
    let budget = DescriptorBudget::of_process();
    let watcher = JobWatcher {
        tree: Tree::new(env, table.node.clone()),
        budget: Arc::clone(&budget),
        boot: boot::boot_id(env)?,
        known: SeenJobs::default(),
    };
    Ok(Some(Source {
        devices: Box::new(JobDevices::new(env, table, budget)),
        watcher: Some(Box::new(watcher)),
    }))
}

struct JobDevices {
    tree: Tree,
    common: Arc<JobContext>,
    /// What is remembered of each.
    known: Option<BTreeMap<Folder, SharedJob>>,
}

impl JobDevices {
    fn new(env: &Env, table: JobSettings, budget: Arc<DescriptorBudget>) -> Self {
        let common = JobContext {
            budget,
            programs: Mutex::new(bpf::programs(env)),
            hooks: hook::Hooks::new(env, &table.hooks),
            positions: Mutex::new(Positions::new(env, table.gres_conf)),
            mappings: Mutex::new(Mappings::new(env, table.mapping)),
            node: table.node.clone(),
            users: Users::new(table.user, table.salt),
            env: env.clone(),
        };
        Self {
            tree: Tree::new(env, table.node),
            common: Arc::new(common),
            known: None,
        }
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
            let state = known.remove(&folder).unwrap_or_else(new);
            (folder, state)
        };
        let jobs: BTreeMap<Folder, SharedJob> = folders.into_iter().map(state).collect();
        let device = |(folder, state)| Box::new(JobDevice::new(folder, state)) as Box<dyn Device>;
        let devices = jobs.iter().map(device).collect();
        self.known = Some(jobs);
        Ok(devices)
    }

    fn changed(&mut self) -> bool {
        // A folder that cannot be listed now is no reason to forget what is in it.
        let now = self.tree.jobs(Instant::now());
        let known = self.known.as_ref();
        now.is_ok_and(|now| known.is_none_or(|known| !known.keys().eq(&now)))
    }
}

#[cfg(test)]
mod tests;
