//! Finds the cgroups of Slurm jobs: cgroup v2, v1, both at once, in any slice, and below a pod that holds a slurmd.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::cgroup::{JobName, is_above, scope_node, v1_node};
use super::process;
use crate::sys::root;
use crate::{Env, Error, MAX_DEVICES};

/// Maximum depth of folders above a Slurm scope: the root, system.slice and the scope of a node that is itself a container (kind),
/// that of a kubelet, kubepods.slice, its class, the pod, the scope of the container, `container`, system.slice.
const DEPTH: usize = 10;
/// Maximum number of folders that are searched for a slurmd in a pod.
const MOST_FOLDERS: usize = 4096;
/// How often the whole tree is searched for unknown scopes.
const PERIOD: Duration = Duration::from_secs(60);
/// The v1 hierarchies that contain a job's processes, the ones of every configuration first.
const V1: [&str; 6] = ["freezer", "devices", "memory", "cpuset", "cpu,cpuacct", "cpuacct"];

/// One job's folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Folder {
    /// `job_7`, or a SLUID.
    pub(crate) name: String,
    /// Its path: the one below the first hierarchy of v1.
    pub(crate) path: PathBuf,
    /// Another inode is another job with an old name: one that was requeued.
    pub(crate) inode: u64,
    /// Its path below its hierarchy, only for cgroup v1: `slurm/uid_1000/job_7`.
    pub(crate) v1: Option<String>,
    /// The user, which only paths of cgroup v1 contain.
    pub(super) uid: Option<u32>,
    /// Folders of other slurmds with this name: a value by name is ambiguous then.
    pub(crate) others: Vec<PathBuf>,
}

/// Jobs by name.
type JobsByName = BTreeMap<String, Folder>;

fn add(found: &mut JobsByName, folder: Folder) {
    match found.get_mut(&folder.name) {
        Some(first) => first.others.push(folder.path),
        None => drop(found.insert(folder.name.clone(), folder)),
    }
}

/// Finds jobs.
#[derive(Debug)]
pub(crate) struct Tree {
    env: Env,
    mount: PathBuf,
    /// The node whose jobs are read, if several slurmds run here.
    node: Option<String>,
    /// Scopes of v2.
    scopes: BTreeSet<PathBuf>,
    /// The v1 hierarchy that had a slurmstepd: the others have the same ones, and lose them slightly earlier or later.
    v1: Option<&'static str>,
    looked: Option<Instant>,
}

impl Tree {
    pub(super) fn new(env: &Env, node: Option<String>) -> Self {
        Self {
            env: env.clone(),
            mount: env.path("/sys/fs/cgroup"),
            node,
            scopes: BTreeSet::new(),
            v1: None,
            looked: None,
        }
    }

    /// Where the v1 hierarchies and `unified` are mounted.
    pub(super) fn mount(&self) -> &Path {
        &self.mount
    }

    /// The root of cgroup v2. `None`: only v1.
    fn unified(&self) -> Result<Option<PathBuf>, Error> {
        for root in [self.mount.clone(), self.mount.join("unified")] {
            if root::inode(&root.join("cgroup.controllers"))?.is_some() {
                return Ok(Some(root));
            }
        }
        Ok(None)
    }

    /// The folders of the jobs of our node, sorted by name.
    ///
    /// # Errors
    /// When a folder above them cannot be listed: the jobs are unknown then.
    pub(crate) fn jobs(&mut self, now: Instant) -> Result<Vec<Folder>, Error> {
        let mut found = self.v1()?;
        self.find_scopes(now)?;
        let mut of_scopes = JobsByName::new();
        for scope in &self.scopes {
            for entry in root::entries(scope)?.unwrap_or_default() {
                if JobName::parse(&entry.name).is_some() {
                    let folder = Folder {
                        path: scope.join(&entry.name),
                        name: entry.name,
                        inode: entry.inode,
                        v1: None,
                        uid: None,
                        others: Vec::new(),
                    };
                    add(&mut of_scopes, folder);
                }
            }
        }
        // A hybrid v1 and v2 node shows a job in both, and v2 has more values.
        found.extend(of_scopes);
        let mut jobs: Vec<Folder> = found.into_values().collect();
        // Thousands can be left over: they take no places of running jobs.
        if jobs.len() > MAX_DEVICES {
            let is_left = |folder: &Folder| folder.others.is_empty() && process::is_left_over(&folder.path);
            jobs.retain(|folder| !is_left(folder));
        }
        Ok(jobs)
    }

    /// The folders whose listings change when jobs or their parents come and go. Empty without a slurmd.
    ///
    /// # Errors
    /// When a folder above them cannot be listed.
    pub(super) fn places(&mut self, now: Instant) -> Result<Vec<PathBuf>, Error> {
        let mut places = BTreeSet::new();
        for top in self.v1_tops()? {
            places.extend(top.parent().map(Path::to_owned));
            places.extend(users(&top)?.into_iter().map(|(name, _)| top.join(name)));
            places.insert(top);
        }
        self.find_scopes(now)?;
        for scope in &self.scopes {
            places.extend(scope.parent().map(Path::to_owned));
            places.insert(scope.clone());
        }
        Ok(places.into_iter().collect())
    }

    /// Whether a folder with this node name, or without one, is ours.
    fn is_ours(&self, node: Option<&str>) -> bool {
        match (&self.node, node) {
            (Some(ours), Some(node)) => ours == node,
            _ => true,
        }
    }

    fn find_scopes(&mut self, now: Instant) -> Result<(), Error> {
        // The jobs of one that cannot be looked at have not ended.
        self.scopes
            .retain(|scope| !matches!(root::inode(scope), Ok(None)));
        let is_due = self
            .looked
            .is_none_or(|looked| now.saturating_duration_since(looked) >= PERIOD);
        let Some(unified) = self.unified()? else {
            return Ok(());
        };
        let mut scopes = Vec::new();
        // slurmd's default path.
        self.walk(
            &unified.join("system.slice"),
            1,
            &mut MOST_FOLDERS.clone(),
            &mut scopes,
        )?;
        if is_due {
            let mut left = MOST_FOLDERS;
            self.walk(&unified, DEPTH, &mut left, &mut scopes)?;
            self.looked = Some(now);
        }
        self.scopes.extend(scopes);
        Ok(())
    }

    /// Adds the scopes below a folder.
    ///
    /// # Errors
    /// When the folder itself cannot be listed. One below it that cannot be listed hides only its own slurmds.
    fn walk(
        &self,
        folder: &Path,
        depth: usize,
        left: &mut usize,
        scopes: &mut Vec<PathBuf>,
    ) -> Result<(), Error> {
        let names = match root::list(folder) {
            Ok(names) => names.unwrap_or_default(),
            // A folder that was removed meanwhile.
            Err(error) if error.reason() == "gone" => return Ok(()),
            Err(error) => return Err(error),
        };
        let above = folder.file_name().unwrap_or_default().to_string_lossy();
        for name in names {
            if let Some(node) = scope_node(&name) {
                if self.is_ours(node) {
                    scopes.push(folder.join(&name));
                }
                continue;
            }
            if is_above(&above, &name) && depth > 1 && *left > 0 {
                *left -= 1;
                if let Err(error) = self.walk(&folder.join(&name), depth - 1, left, scopes) {
                    tracing::warn!(%error, "jobs of new slurmds below this folder are not found");
                }
            }
        }
        Ok(())
    }

    /// `HIERARCHY/slurm[_NODE]` of our node, in the first hierarchy that has a slurmstepd: an earlier start may have
    /// left folders in another one, and cpuacct has only tasks. Without any slurmstepd, in all hierarchies.
    fn v1_tops(&mut self) -> Result<Vec<PathBuf>, Error> {
        let mut all = Vec::new();
        for hierarchy in V1 {
            if self.v1.is_some_and(|known| known != hierarchy) {
                continue;
            }
            let top = self.mount.join(hierarchy);
            let mut names = root::list(&top)?.unwrap_or_default();
            names.retain(|name| v1_node(name).is_some_and(|node| self.is_ours(node)));
            let tops: Vec<PathBuf> = names.into_iter().map(|name| top.join(name)).collect();
            if self.v1.is_none() && self.has_daemon(&tops)? {
                self.v1 = Some(hierarchy);
                return Ok(tops);
            }
            all.extend(tops);
        }
        if all.is_empty() {
            self.v1 = None;
        }
        Ok(all)
    }

    /// Whether a job below these folders has a slurmstepd.
    fn has_daemon(&self, tops: &[PathBuf]) -> Result<bool, Error> {
        for top in tops {
            for (user, _) in users(top)? {
                let user = top.join(user);
                let is_alive = |entry: root::Entry| {
                    let daemons = process::daemons(&self.env, &user.join(entry.name));
                    daemons.is_ok_and(|pids| !pids.is_empty())
                };
                if jobs_of(&user)?.into_iter().any(is_alive) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Below each, `uid_UID/job_ID`.
    fn v1(&mut self) -> Result<JobsByName, Error> {
        let mut found = JobsByName::new();
        for top in self.v1_tops()? {
            let slurm = top.file_name().unwrap_or_default().to_string_lossy();
            for (user, uid) in users(&top)? {
                for entry in jobs_of(&top.join(&user))? {
                    let folder = Folder {
                        path: top.join(&user).join(&entry.name),
                        v1: Some(format!("{slurm}/{user}/{}", entry.name)),
                        name: entry.name,
                        inode: entry.inode,
                        uid: Some(uid),
                        others: Vec::new(),
                    };
                    // The same job in another hierarchy.
                    if found.get(&folder.name).is_none_or(|first| first.v1 != folder.v1) {
                        add(&mut found, folder);
                    }
                }
            }
        }
        Ok(found)
    }
}

/// `uid_UID` below a Slurm folder, and their numbers.
fn users(top: &Path) -> Result<Vec<(String, u32)>, Error> {
    let names = root::list(top)?.unwrap_or_default();
    let user = |name: String| {
        let uid = name.strip_prefix("uid_")?.parse().ok()?;
        Some((name, uid))
    };
    Ok(names.into_iter().filter_map(user).collect())
}

/// `job_ID` below a user's folder.
fn jobs_of(user: &Path) -> Result<Vec<root::Entry>, Error> {
    let mut entries = root::entries(user)?.unwrap_or_default();
    entries.retain(|entry| matches!(JobName::parse(&entry.name), Some(JobName::Id(_))));
    Ok(entries)
}
