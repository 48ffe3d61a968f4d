//! Processes of Slurm jobs that wait in the kernel uninterruptibly: the cause of "Kill task failed", and the mount
//! or driver for which they wait.
//!
//! Files that need a lock of the process are not read, or only by a separate thread ([`call`]): if the process
//! waits for a page of a dead filesystem, a reader of `cmdline`, `environ` or `maps` would block too.

mod call;
pub mod metrics;
mod mount;
mod thread;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::settings::Kind;
use crate::slurm::cgroup::has_all_processes;
use crate::slurm::process;
use crate::slurm::tree::{Folder, Tree};
use crate::sys::{root, task};
use crate::{Block, Cadence, Device, Devices, Env, Error, Settings, Source, Spec, Subject, SubjectKind};
use crate::{domain, slurm};
use call::CallReader;
use metrics::{BLOCKED, METRICS, THREAD};
use thread::BlockedThread;

/// The tasks collector.
pub static SPEC: Spec = Spec {
    name: "tasks",
    domain: &domain::SLURM,
    metrics: METRICS,
    events: &[],
    notes: false,
    // A scrape never starts a reading: a node has thousands of processes.
    cadence: Cadence::Every(Duration::from_secs(30)),
    slice: Duration::from_millis(500),
    deadline: Duration::from_secs(5),
    keys: KEYS,
    open,
};

/// Maximum number of processes that are read per job.
const MOST_PROCESSES: usize = 4096;
/// Maximum number and depth of folders of a job's cgroup that are searched: containers create their own.
const MOST_FOLDERS: usize = 1024;
const DEPTH: usize = 8;
/// Maximum number of threads that are reported per job.
const MOST_REPORTED: usize = 16;

crate::keys! {
    KEYS;
    ENABLED = "tasks.enabled": Kind::Boolean, default "true", since "0.1.0",
        "Read the processes of jobs every 30 s, to find those that no signal can end.";
}

/// Never absent while enabled: a slurmd may be started at any time.
fn open(env: &Env, settings: &Settings) -> Result<Option<Source>, Error> {
    if !settings.get::<bool>(&ENABLED)? {
        return Ok(None);
    }
    Ok(Some(Source {
        devices: Box::new(TaskDevices {
            env: env.clone(),
            tree: slurm::tree(env, settings)?,
            known: Vec::new(),
            asker: CallReader::default(),
        }),
        watcher: None,
    }))
}

struct TaskDevices {
    env: Env,
    tree: Tree,
    known: Vec<Folder>,
    asker: CallReader,
}

impl Devices for TaskDevices {
    fn scan(&mut self) -> Result<Vec<Box<dyn Device>>, Error> {
        self.known = self.tree.jobs(Instant::now())?;
        // If two jobs share a number, the owner of its processes is unknown.
        let ours = self.known.iter().filter(|folder| folder.others.is_empty());
        let device = |folder: &Folder| {
            let device = TaskDevice::new(&self.env, folder, &self.asker);
            Box::new(device) as Box<dyn Device>
        };
        Ok(ours.map(device).collect())
    }

    fn changed(&mut self) -> bool {
        let now = self.tree.jobs(Instant::now());
        now.is_ok_and(|now| now != self.known)
    }
}

/// The processes of one job.
struct TaskDevice {
    env: Env,
    subject: Subject,
    name: String,
    path: PathBuf,
    /// Its cgroup in the hierarchy `freezer`, only for cgroup v1.
    freezer: Option<PathBuf>,
    inode: u64,
    /// From its processes, found once.
    id: Option<u32>,
    asker: CallReader,
    /// The threads reported last.
    reported: BTreeSet<(u32, u64)>,
}

impl TaskDevice {
    fn new(env: &Env, folder: &Folder, asker: &CallReader) -> Self {
        Self {
            env: env.clone(),
            subject: Subject::new(SubjectKind::Job, format!("{}:{}", folder.name, folder.inode)),
            name: folder.name.clone(),
            path: folder.path.clone(),
            freezer: folder
                .v1
                .as_ref()
                .map(|v1| env.path("/sys/fs/cgroup/freezer").join(v1)),
            inode: folder.inode,
            id: None,
            asker: asker.clone(),
            reported: BTreeSet::new(),
        }
    }
}

impl Device for TaskDevice {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        if root::inode(&self.path)? != Some(self.inode) {
            return Ok(());
        }
        self.id = self
            .id
            .or_else(|| process::job_id(&self.env, &self.name, &self.path));
        // A SLUID whose daemons have ended or just started.
        let Some(id) = self.id else { return Ok(()) };
        let number = id.to_string();
        let mut look = ProcessSearch {
            folders: MOST_FOLDERS,
            pids: BTreeSet::new(),
            is_whole: true,
        };
        look.at(&self.path, self.freezer.as_deref(), DEPTH);
        let mut blocked = 0;
        let mut reported = Vec::new();
        for pid in &look.pids {
            let Some(threads) = thread::blocked(&self.env, &self.asker, *pid) else {
                look.is_whole = false;
                continue;
            };
            blocked += u64::from(!threads.is_empty());
            reported.extend(threads);
        }
        look.is_whole &= sees_others(&self.env, &look.pids);
        // A cgroup that Slurm could not remove is not a job.
        if look.is_whole && look.pids.is_empty() {
            return Ok(());
        }
        // If not all processes were read, the count is unknown.
        out.maybe_u64(&BLOCKED, &[&number], look.is_whole.then_some(blocked));
        // Threads that have not run since the last reading come first: most others end before the next one.
        let is_new = |thread: &BlockedThread| !self.reported.contains(&thread.sleep());
        let start = |thread: &BlockedThread| thread.start.unwrap_or(u64::MAX);
        reported.sort_by_key(|thread| (is_new(thread), !thread.killed, start(thread), thread.tid));
        reported.dedup_by_key(|thread| thread.tid);
        reported.truncate(MOST_REPORTED);
        for thread in &reported {
            tell(&number, thread, out);
        }
        self.reported = reported.iter().map(BlockedThread::sleep).collect();
        Ok(())
    }
}

/// Whether processes of other users are seen. With `hidepid=2` they look as if they had ended, so that at least root's first
/// process must be there. A list of cgroup v1 leaves out processes of other PID namespaces.
fn sees_others(env: &Env, pids: &BTreeSet<u32>) -> bool {
    let has_first = || matches!(task::status(&env.path("/proc/1")), Ok(Some(_)));
    let is_listed = !pids.is_empty() || has_all_processes(&env.path("/proc")).unwrap_or(false);
    is_listed && (!env.is_live() || has_first())
}

fn tell(number: &str, thread: &BlockedThread, out: &mut Block) {
    let killed = if thread.killed { "1" } else { "" };
    out.info(
        &THREAD,
        &[
            number,
            &thread.pid.to_string(),
            &thread.tid.to_string(),
            &thread.start.map_or_else(String::new, |ticks| ticks.to_string()),
            &thread.switches.to_string(),
            &thread.program,
            killed,
            &thread.wchan,
            &thread.call,
            &thread.mount,
        ],
    );
}

/// Whether Slurm has suspended the processes of a cgroup and all below it. Under v1 they are in state D then, under v2 in
/// S, so whether they also wait for something is unknown. FREEZING: some are not frozen yet.
fn is_frozen(freezer: &Path) -> bool {
    let state = root::read_text(&freezer.join("freezer.state"));
    state.is_ok_and(|state| state.is_some_and(|state| state.trim() == "FROZEN"))
}

/// A search for the processes of a job.
struct ProcessSearch {
    /// The number of folders that may still be searched.
    folders: usize,
    pids: BTreeSet<u32>,
    /// Whether all processes were seen.
    is_whole: bool,
}

impl ProcessSearch {
    /// Searches a cgroup and all below it. Frozen ones count as unseen. One that is removed meanwhile has no processes.
    fn at(&mut self, cgroup: &Path, freezer: Option<&Path>, depth: usize) {
        if freezer.is_some_and(is_frozen) {
            self.is_whole = false;
            return;
        }
        let (Ok(pids), Ok(folders)) = (process::listed(cgroup), root::folders(cgroup)) else {
            self.is_whole = false;
            return;
        };
        for pid in pids {
            // One of another PID namespace.
            if pid == 0 {
                self.is_whole = false;
                continue;
            }
            if self.pids.len() >= MOST_PROCESSES {
                self.is_whole = false;
                return;
            }
            self.pids.insert(pid);
        }
        for folder in folders.unwrap_or_default() {
            if self.folders == 0 || depth == 0 {
                self.is_whole = false;
                return;
            }
            self.folders -= 1;
            let below = freezer
                .zip(folder.file_name())
                .map(|(above, name)| above.join(name));
            self.at(&folder, below.as_deref(), depth - 1);
        }
    }
}

#[cfg(test)]
mod tests;
