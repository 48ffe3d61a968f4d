//! Slurm's jobs on this node, by their cgroups: what they use, whose they are, and which devices are theirs.
//!
//! The controller is never asked. Under cgroup v2 the device program that slurmstepd attaches to a job's cgroup states its
//! devices, whether or not anything runs on them.

pub mod cgroup;
mod files;
pub mod hook;
mod job;
pub mod metrics;
mod owned;
mod pod;
mod process;
pub mod program;
mod tree;
mod user;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::sys::kept::Budget;
use crate::sys::{boot, bpf};
use crate::{Cadence, Device, Devices, Env, Error, Settings, Source, Spec, domain};
use job::{Common, Job};
use tree::{Folder, Tree};
use user::{Shown, Users};

/// The slurm collector.
pub static SPEC: Spec = Spec {
    name: "slurm",
    domain: &domain::SLURM,
    metrics: metrics::METRICS,
    events: false,
    notes: false,
    cadence: Cadence::OnDemand {
        fresh: Duration::from_secs(1),
    },
    slice: Duration::from_millis(500),
    deadline: Duration::from_secs(5),
    validate: |settings| Table::checked(settings).map(drop),
    open,
};

/// The `slurm.jobs` table of the configuration.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Table {
    /// The node whose jobs are ours, where several slurmds run on this host.
    node: Option<String>,
    user: Shown,
    salt: String,
    /// Where the prolog's hook writes.
    hooks: String,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            node: None,
            user: Shown::default(),
            salt: String::new(),
            hooks: format!("/run/nodewarden/{}", hook::FOLDER),
        }
    }
}

impl Table {
    fn checked(settings: &Settings) -> Result<Self, Error> {
        let table: Self = settings.get()?;
        if table.user == Shown::Hash && table.salt.is_empty() {
            return Err(Error::Settings(
                "user = \"hash\" needs a salt: a text that the whole site shares and nobody else knows"
                    .to_owned(),
            ));
        }
        if !table.hooks.starts_with('/') {
            return Err(Error::Settings(format!(
                "hooks: found {:?}, expected an absolute path",
                table.hooks
            )));
        }
        Ok(table)
    }
}

/// Never absent: a slurmd may be started at any time.
fn open(env: &Env, settings: &Settings) -> Result<Option<Source>, Error> {
    let table = Table::checked(settings)?;
    let common = Common {
        budget: Budget::of_process(),
        programs: Mutex::new(bpf::programs(env)),
        hooks: hook::Hooks::new(env, &table.hooks),
        users: Users::new(table.user, table.salt),
        ticks: boot::ticks_per_second(),
        env: env.clone(),
    };
    Ok(Some(Source {
        devices: Box::new(Jobs {
            tree: Tree::new(env, table.node),
            common: Arc::new(common),
            known: None,
        }),
        watcher: None,
    }))
}

struct Jobs {
    tree: Tree,
    common: Arc<Common>,
    known: Option<Vec<Folder>>,
}

impl Devices for Jobs {
    fn scan(&mut self) -> Result<Vec<Box<dyn Device>>, Error> {
        let folders = self.tree.jobs(Instant::now())?;
        let each = folders.iter().cloned();
        let jobs =
            each.map(|folder| Box::new(Job::new(&self.common, folder, self.tree.mount())) as Box<dyn Device>);
        let jobs = jobs.collect();
        self.known = Some(folders);
        Ok(jobs)
    }

    fn changed(&mut self) -> bool {
        // A folder that cannot be listed now is no reason to forget what is in it.
        let now = self.tree.jobs(Instant::now());
        now.is_ok_and(|now| self.known.as_ref() != Some(&now))
    }
}

#[cfg(test)]
mod tests;
