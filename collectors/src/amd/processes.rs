//! Compute processes, as KFD counts them: `/sys/class/kfd/kfd/proc/PID`. kernel: `amdkfd/kfd_process.c`. A read of
//! `sdma_*` and `cu_occupancy` costs work on the GPU: they are not read.

use std::path::{Path, PathBuf};

use super::topology::{Partition, part};
use crate::gpu::metrics as m;
use crate::gpu::process::{GpuProcess, ProcessFiles, ProcessTable};
use crate::sys::root;
use crate::{Block, Env};

/// The most processes that are looked at: far more than a GPU can run.
const MOST: usize = 1024;

/// Where processes are found.
#[derive(Clone, Debug)]
pub(super) struct Processes {
    kfd: PathBuf,
    table: ProcessTable,
}

/// The folder of a process, and those of its further contexts: newer drivers give a process several.
fn contexts(process: &Path) -> Vec<PathBuf> {
    let listed = root::list(process).ok().flatten().unwrap_or_default();
    let further = listed.iter().filter(|name| name.starts_with("context_"));
    let further = further.map(|name| process.join(name));
    std::iter::once(process.to_owned()).chain(further).collect()
}

impl Processes {
    pub(super) fn new(env: &Env, is_served: bool) -> Self {
        Self {
            kfd: env.path("/sys/class/kfd/kfd/proc"),
            table: ProcessTable::new(env, is_served),
        }
    }

    /// Pushes the processes that have memory on one of the partitions.
    pub(super) fn read(
        &self,
        gpu: &str,
        partitions: &[Partition],
        files: &mut ProcessFiles,
        out: &mut Block,
    ) {
        let Some(pids) = root::list(&self.kfd).ok().flatten() else {
            files.finish();
            return;
        };
        self.table.push_seen(gpu, out);
        let mut count = 0_u64;
        for pid in pids
            .into_iter()
            .filter_map(|pid| pid.parse::<u32>().ok())
            .take(MOST)
        {
            let mut is_counted = false;
            let folders = contexts(&self.kfd.join(pid.to_string()));
            for (at, partition) in partitions.iter().enumerate() {
                let name = format!("vram_{}", partition.gpu_id);
                let of_context = folders.iter().filter_map(|folder| {
                    let text = root::read_lossy(&folder.join(&name)).ok().flatten()?;
                    text.parse::<u64>().ok()
                });
                let memory = of_context.reduce(u64::saturating_add).filter(|bytes| *bytes > 0);
                if memory.is_none() {
                    continue;
                }
                count += u64::from(!is_counted);
                is_counted = true;
                let part = part(at, partitions.len());
                let found = GpuProcess {
                    pid,
                    part: &part,
                    memory,
                };
                self.table.push(gpu, &found, files, out);
            }
        }
        files.finish();
        out.u64(&m::PROCESSES, &[gpu], count);
    }
}
