//! Processes of Slurm's jobs that wait in the kernel where no signal wakes them: what "Kill task failed" is about, and on
//! which mount or driver they wait.
//!
//! What needs a lock of the process is not read (`cmdline`, `environ` and `maps` of one that waits for a page of a dead
//! filesystem would take whoever reads them with it), or by a thread of its own ([`call`]).

mod call;
pub mod metrics;
mod mount;
mod thread;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::settings::Kind;
use crate::slurm::process;
use crate::slurm::tree::{Folder, Tree};
use crate::sys::root;
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
    events: false,
    notes: false,
    // No scrape brings it about: a node has thousands of processes.
    cadence: Cadence::Every(Duration::from_secs(30)),
    slice: Duration::from_millis(500),
    deadline: Duration::from_secs(5),
    keys: KEYS,
    open,
};

/// More processes of one job than these are not looked at.
const MOST_PROCESSES: usize = 4096;
/// Folders of one job's cgroup that are looked through, and how deep they may lie: containers make their own.
const MOST_FOLDERS: usize = 1024;
const DEPTH: usize = 8;
/// So many threads of one job are told of.
const MOST_TOLD: usize = 16;

crate::keys! {
    KEYS;
    ENABLED = "tasks.enabled": Kind::Boolean, default "true", since "0.1.0",
        "Read the processes of jobs every 30 s, to find those that no signal can end.";
}

/// Never absent where it is on: a slurmd may be started at any time.
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
        // Whose the processes of a number are that two jobs have cannot be told.
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
    inode: u64,
    /// By its processes, found once.
    id: Option<u32>,
    asker: CallReader,
    /// The threads that were told of last.
    told: BTreeSet<(u32, u64, u64)>,
}

impl TaskDevice {
    fn new(env: &Env, folder: &Folder, asker: &CallReader) -> Self {
        Self {
            env: env.clone(),
            subject: Subject::new(SubjectKind::Job, format!("{}:{}", folder.name, folder.inode)),
            name: folder.name.clone(),
            path: folder.path.clone(),
            inode: folder.inode,
            id: None,
            asker: asker.clone(),
            told: BTreeSet::new(),
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
        // A SLUID whose daemons have gone, or just begun.
        let Some(id) = self.id else { return Ok(()) };
        let number = id.to_string();
        let mut look = ProcessSearch {
            folders: MOST_FOLDERS,
            pids: BTreeSet::new(),
            is_whole: true,
        };
        look.at(&self.path, DEPTH);
        let mut blocked = 0;
        let mut told = Vec::new();
        for pid in &look.pids {
            let threads = thread::blocked(&self.env, &self.asker, *pid);
            blocked += u64::from(!threads.is_empty());
            told.extend(threads);
        }
        // Where not all were looked at, how many there are is not known.
        out.maybe_u64(&BLOCKED, &[&number], look.is_whole.then_some(blocked));
        // Those that have not run since the last reading come first: the others mostly are gone by the next.
        let is_new = |thread: &BlockedThread| !self.told.contains(&thread.sleep());
        told.sort_by_key(|thread| (is_new(thread), !thread.killed, thread.start, thread.tid));
        told.dedup_by_key(|thread| thread.tid);
        told.truncate(MOST_TOLD);
        for thread in &told {
            tell(&number, thread, out);
        }
        self.told = told.iter().map(BlockedThread::sleep).collect();
        Ok(())
    }
}

fn tell(number: &str, thread: &BlockedThread, out: &mut Block) {
    let killed = if thread.killed { "1" } else { "" };
    out.info(
        &THREAD,
        &[
            number,
            &thread.pid.to_string(),
            &thread.tid.to_string(),
            &thread.start.to_string(),
            &thread.switches.to_string(),
            &thread.program,
            killed,
            &thread.wchan,
            &thread.call,
            &thread.mount,
        ],
    );
}

/// A look at the processes of a job.
struct ProcessSearch {
    /// So many folders more are looked through.
    folders: usize,
    pids: BTreeSet<u32>,
    /// Whether all were seen.
    is_whole: bool,
}

impl ProcessSearch {
    /// At a cgroup and all below it. One that leaves meanwhile has none.
    fn at(&mut self, cgroup: &Path, depth: usize) {
        let (Ok(pids), Ok(names)) = (process::listed(cgroup), root::folders(cgroup)) else {
            self.is_whole = false;
            return;
        };
        for pid in pids {
            if self.pids.len() >= MOST_PROCESSES {
                self.is_whole = false;
                return;
            }
            self.pids.insert(pid);
        }
        for name in names.unwrap_or_default() {
            if self.folders == 0 || depth == 0 {
                self.is_whole = false;
                return;
            }
            self.folders -= 1;
            self.at(&cgroup.join(name), depth - 1);
        }
    }
}

#[cfg(test)]
mod tests;
