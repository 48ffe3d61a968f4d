//! Compute processes, as KFD counts them: `/sys/class/kfd/kfd/proc/PID`. kernel: `amdkfd/kfd_process.c`. A read of
//! `sdma_*` and `cu_occupancy` costs work on the GPU: they are not read.

use std::path::PathBuf;

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
        let pids = root::list(&self.kfd).ok().flatten();
        // KFD hides the GPU from a container that may not open its render node, or refused it: its processes are unknown.
        let Some(pids) = pids.filter(|_| !partitions.is_empty()) else {
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
            for (at, partition) in partitions.iter().enumerate() {
                let file = self.kfd.join(format!("{pid}/vram_{}", partition.gpu_id));
                let text = root::read_lossy(&file).ok().flatten();
                let memory = text
                    .and_then(|text| text.parse::<u64>().ok())
                    .filter(|bytes| *bytes > 0);
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
