//! The processes that compute on a GPU, with their places: the evidence for the job that has the GPU.

use std::path::Path;

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

/// Pushes whether the host's processes are seen, and returns it. `proc` is /proc.
pub(crate) fn push_seen(gpu: &str, proc: &Path, out: &mut Block) -> bool {
    let is_placed = cgroup::has_all_processes(proc);
    out.u64(&m::PROCESSES_SEEN, &[gpu], u64::from(is_placed));
    is_placed
}

/// Pushes one process. `is_placed`: its PID is one of this /proc. `is_served`: with a series for everyone.
pub(crate) fn push(
    gpu: &str,
    process: &GpuProcess<'_>,
    proc: &Path,
    (is_placed, is_served): (bool, bool),
    out: &mut Block,
) {
    let part = process.part;
    let pid = process.pid.to_string();
    out.maybe_u64(&m::PROCESS_OWNED, &[gpu, part, &pid], process.memory);
    // A process that ended meanwhile has no cgroup.
    if is_placed && let Some(folder) = cgroup::folder_of(proc, process.pid) {
        out.info(&m::PROCESS_PLACE, &[gpu, part, &pid, &folder]);
    }
    let comm = || root::read_lossy(&proc.join(&pid).join("comm"));
    if is_placed && let Some(program) = comm().ok().flatten() {
        out.info(&m::PROCESS_PROGRAM, &[gpu, part, &pid, &program]);
    }
    if is_served {
        out.maybe_u64(&m::PROCESS_MEMORY, &[gpu, part, &pid], process.memory);
    }
}
