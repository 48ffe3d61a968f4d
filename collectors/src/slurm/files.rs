//! What a job uses, by the files of its cgroups. A controller that is not there leaves its values absent.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::disks::DiskFile;
use super::metrics::{
    JOB_CPU, JOB_CPUS, JOB_MEMORY, JOB_MEMORY_ANONYMOUS, JOB_MEMORY_LIMIT, JOB_MEMORY_PEAK, JOB_OOM_KILLS,
    JOB_TASKS,
};
use super::tree::Folder;
use crate::host::slow::Slow;
use crate::host::system;
use crate::sys::kept::{DescriptorBudget, Kept};
use crate::sys::root;
use crate::{Block, Env, Value};

/// More than any of these files holds.
const MOST: usize = 2048;
/// `memory.limit_in_bytes` where there is no limit is the largest number of pages (`PAGE_COUNTER_MAX`), in bytes: somewhat
/// less than 2^63, by the size of a page. No node has half of it.
const NO_LIMIT: u64 = 1 << 62;
/// Larger than any list of processors and any memory.stat: a page, and some sixty lines.
const MOST_SLOW: u64 = 8192;
/// The kernel adds up the counters of all processors for memory.stat, and a job's processors hardly ever change.
const KEEP: Duration = Duration::from_secs(30);

/// One file, read again at each reading.
pub(super) struct NumberFile {
    file: Kept,
    text: String,
}

impl NumberFile {
    fn new(path: PathBuf, budget: &Arc<DescriptorBudget>, on_disk: bool) -> Self {
        Self {
            file: Kept::new(path, budget, on_disk),
            text: String::new(),
        }
    }

    fn read(&mut self) -> Option<&str> {
        self.read_into(&mut [0; MOST])
    }

    /// As much of it as fits into the buffer.
    pub(super) fn read_into(&mut self, buffer: &mut [u8]) -> Option<&str> {
        let bytes = self.file.read(buffer).ok()?;
        self.text.clear();
        self.text.push_str(std::str::from_utf8(bytes).ok()?.trim());
        Some(&self.text)
    }

    /// A file of one number. `max` is none.
    fn number(&mut self) -> Option<u64> {
        self.read()?.parse().ok()
    }

    /// A file of lines `name number`.
    pub(super) fn field(&mut self, name: &str) -> Option<u64> {
        field(self.read()?, name)
    }
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
    text.lines().find_map(line)
}

/// A file that is read seldom, and not kept open. `None` is kept too: a controller that is not enabled has no file.
struct SlowFile {
    path: PathBuf,
    value: Slow<Option<u64>>,
}

impl SlowFile {
    fn new(path: PathBuf) -> Self {
        Self {
            path,
            value: Slow::keeping(KEEP),
        }
    }

    fn get(&mut self, now: Instant, take: impl FnOnce(&str) -> Option<u64>) -> Option<u64> {
        let read = || {
            let text = root::read_lossy_within(&self.path, MOST_SLOW)
                .inspect_err(|error| tracing::debug!(%error, "left out"))
                .ok()??;
            take(text.trim())
        };
        self.value.get(now, || Some(read())).copied()?
    }
}

/// The files of one job.
pub(super) struct JobFiles {
    /// `cgroup.events` of v2.
    pub(super) events: Option<NumberFile>,
    cpu: NumberFile,
    cpus: SlowFile,
    memory: NumberFile,
    statistics: SlowFile,
    peak: NumberFile,
    limit: NumberFile,
    /// Of v2: under v1 each step counts its own, and the job's count stays 0 (Linux, `memcg_memory_event`).
    kills: Option<NumberFile>,
    tasks: NumberFile,
    /// Of v2: under v1 the controller counts no buffered writes.
    disks: Option<DiskFile>,
    is_v1: bool,
}

impl JobFiles {
    pub(super) fn new(folder: &Folder, mount: &Path, budget: &Arc<DescriptorBudget>, env: &Env) -> Self {
        let path = |hierarchy: &str, v1: &str, v2: &str| match &folder.v1 {
            Some(below) => mount.join(hierarchy).join(below).join(v1),
            None => folder.path.join(v2),
        };
        let at = |hierarchy: &str, v1: &str, v2: &str| {
            NumberFile::new(path(hierarchy, v1, v2), budget, env.is_tree())
        };
        Self {
            events: folder.v1.is_none().then(|| at("", "", "cgroup.events")),
            cpu: at("cpuacct", "cpuacct.usage", "cpu.stat"),
            cpus: SlowFile::new(path("cpuset", "cpuset.effective_cpus", "cpuset.cpus.effective")),
            memory: at("memory", "memory.usage_in_bytes", "memory.current"),
            statistics: SlowFile::new(path("memory", "memory.stat", "memory.stat")),
            peak: at("memory", "memory.max_usage_in_bytes", "memory.peak"),
            limit: at("memory", "memory.limit_in_bytes", "memory.max"),
            kills: folder.v1.is_none().then(|| at("", "", "memory.events")),
            tasks: at("pids", "pids.current", "pids.current"),
            disks: folder
                .v1
                .is_none()
                .then(|| DiskFile::new(at("", "", "io.stat"), env)),
            is_v1: folder.v1.is_some(),
        }
    }

    pub(super) fn read(&mut self, job: &[&str], out: &mut Block) {
        let seconds = if self.is_v1 {
            self.cpu.number().map(|ns| ns as f64 / 1e9)
        } else {
            self.cpu.field("usage_usec").map(|us| us as f64 / 1e6)
        };
        out.push(&JOB_CPU, job, seconds.map_or(Value::Absent, Value::F64));
        let now = Instant::now();
        out.maybe_u64(&JOB_CPUS, job, self.cpus.get(now, system::cpus));
        out.maybe_u64(&JOB_MEMORY, job, self.memory.number());
        // `rss` of v1 is that of processes outside of all steps.
        let name = if self.is_v1 { "total_rss" } else { "anon" };
        let anonymous = self.statistics.get(now, |text| field(text, name));
        out.maybe_u64(&JOB_MEMORY_ANONYMOUS, job, anonymous);
        out.maybe_u64(&JOB_MEMORY_PEAK, job, self.peak.number());
        let limit = self.limit.number().filter(|bytes| *bytes < NO_LIMIT);
        out.maybe_u64(&JOB_MEMORY_LIMIT, job, limit);
        let kills = self.kills.as_mut().and_then(|kills| kills.field("oom_kill"));
        out.maybe_u64(&JOB_OOM_KILLS, job, kills);
        out.maybe_u64(&JOB_TASKS, job, self.tasks.number());
        if let (Some(disks), [job]) = (&mut self.disks, job) {
            disks.read(job, out);
        }
    }
}
