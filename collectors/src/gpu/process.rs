//! The processes that compute on a GPU, with their places: the evidence for the job that has the GPU.

use std::path::PathBuf;

use super::metrics as m;
use crate::Block;
use crate::slurm::cgroup;
use crate::sys::root;

/// One process on a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GpuProcess<'a> {
    /// In the host's PID namespace.
    pub(crate) pid: u32,
    /// The label of the GPU instance; empty on a whole GPU.
    pub(crate) part: &'a str,
    /// GPU memory that it uses, in bytes.
    pub(crate) memory: Option<u64>,
}

/// Where the processes of GPUs are looked up, and what is shown of them.
#[derive(Clone, Debug)]
pub(crate) struct ProcessTable {
    /// The path of /proc.
    proc: PathBuf,
    /// A driver's process ids are those of this /proc.
    is_placed: bool,
    /// With a series for everyone.
    is_served: bool,
}

impl ProcessTable {
    /// The namespace of this program's process ids never changes, so it is looked at once.
    pub(crate) fn new(proc: PathBuf, is_served: bool) -> Self {
        Self {
            is_placed: cgroup::has_all_processes(&proc),
            proc,
            is_served,
        }
    }

    /// Pushes whether the host's processes are seen.
    pub(crate) fn push_seen(&self, gpu: &str, out: &mut Block) {
        out.u64(&m::PROCESSES_SEEN, &[gpu], u64::from(self.is_placed));
    }

    /// Pushes one process.
    pub(crate) fn push(&self, gpu: &str, process: &GpuProcess<'_>, out: &mut Block) {
        let part = process.part;
        let pid = process.pid.to_string();
        out.maybe_u64(&m::PROCESS_OWNED, &[gpu, part, &pid], process.memory);
        // A process that ended meanwhile has no cgroup.
        if self.is_placed
            && let Some(folder) = cgroup::folder_of(&self.proc, process.pid)
        {
            out.info(&m::PROCESS_PLACE, &[gpu, part, &pid, &folder]);
        }
        let comm = || root::read_lossy(&self.proc.join(&pid).join("comm"));
        if self.is_placed
            && let Some(program) = comm().ok().flatten()
        {
            out.info(&m::PROCESS_PROGRAM, &[gpu, part, &pid, &program]);
        }
        if self.is_served {
            out.maybe_u64(&m::PROCESS_MEMORY, &[gpu, part, &pid], process.memory);
        }
    }
}
