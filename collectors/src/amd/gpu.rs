//! One GPU: its readings and their order.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::files::{Failure, GpuFiles};
use super::gpu_metrics::{Refused, Table};
use super::limits::Limits;
use super::metrics as n;
use super::processes::Processes;
use super::ras::Ras;
use super::sensors::{self, part};
use super::throttle::Throttle;
use super::topology::Partition;
use crate::gpu::identity::Identity;
use crate::gpu::metrics as m;
use crate::{Block, Device, Error, Subject};

/// Limits, modes and firmware are read again after this.
const SLOWLY: Duration = Duration::from_secs(60);
/// Files of a GPU's memory.
const MEMORY: [(&str, &crate::Metric); 4] = [
    ("mem_info_vis_vram_total", &m::BAR1_TOTAL),
    ("mem_info_vis_vram_used", &m::BAR1_USED),
    ("mem_info_gtt_total", &n::GTT_TOTAL),
    ("mem_info_gtt_used", &n::GTT_USED),
];

/// What outlasts a scan.
#[derive(Debug, Default)]
pub(super) struct GpuState {
    limits: Limits,
    limits_read: Option<Instant>,
    ras: Ras,
    throttle: Throttle,
}

/// One GPU.
pub(super) struct AmdGpu {
    subject: Subject,
    identity: Identity,
    partitions: Vec<Partition>,
    files: GpuFiles,
    processes: Processes,
    state: Arc<Mutex<GpuState>>,
}

impl AmdGpu {
    pub(super) fn new(
        identity: Identity,
        partitions: Vec<Partition>,
        files: GpuFiles,
        processes: Processes,
        state: Arc<Mutex<GpuState>>,
    ) -> Self {
        Self {
            subject: Subject::gpu(&identity.gpu),
            identity,
            partitions,
            files,
            processes,
            state,
        }
    }

    fn push_partitions(&self, mode: &str, out: &mut Block) {
        if self.partitions.len() < 2 {
            return;
        }
        for (at, partition) in self.partitions.iter().enumerate() {
            let part = part(at, self.partitions.len());
            let node = format!("renderD{}", partition.minor);
            out.info(&m::INSTANCE_INFO, &[&self.identity.gpu, &part, mode, &node]);
        }
    }

    fn read_memory(&self, out: &mut Block) {
        let gpu = self.identity.gpu.as_str();
        let total = self.files.number("mem_info_vram_total");
        let used = self.files.number("mem_info_vram_used");
        out.maybe_u64(&m::MEMORY_TOTAL, &[gpu, ""], total);
        out.maybe_u64(&m::MEMORY_USED, &[gpu, ""], used);
        let free = total.zip(used).and_then(|(total, used)| total.checked_sub(used));
        out.maybe_u64(&m::MEMORY_FREE, &[gpu, ""], free);
        for (file, metric) in MEMORY {
            out.maybe_u64(metric, &[gpu], self.files.number(file));
        }
    }

    fn read_all(&self, state: &mut GpuState, out: &mut Block) -> Result<(), Failure> {
        let (gpu, files) = (self.identity.gpu.as_str(), &self.files);
        let bytes = files.table()?;
        if state.limits_read.is_none_or(|at| at.elapsed() >= SLOWLY) {
            state.limits.read(files);
            state.limits_read = Some(Instant::now());
        }
        out.u64(&m::UP, &[gpu], 1);
        self.identity.push_info("amd", out);
        let table = bytes.as_deref().map(Table::parse);
        if let Some(table) = &table {
            push_table_info(gpu, table, out);
        }
        let table = table.and_then(Result::ok);
        match (&table, &state.limits.hwmon) {
            (Some(table), _) => sensors::push_table(gpu, table, self.partitions.len(), out),
            (None, Some(hwmon)) => sensors::push_files(gpu, hwmon, files, out),
            (None, None) => {}
        }
        if let Some(table) = &table {
            state.throttle.read(gpu, table, out);
        }
        sensors::push_link(gpu, table.as_ref(), files, out);
        self.read_memory(out);
        state.limits.push(gpu, out);
        self.push_partitions(state.limits.compute(), out);
        state.ras.read(gpu, files, out);
        self.processes.read(gpu, &self.partitions, out);
        Ok(())
    }
}

fn push_table_info(gpu: &str, table: &Result<Table<'_>, Refused>, out: &mut Block) {
    let (revision, state) = match table {
        Ok(table) => (table.revision.to_string(), "read"),
        Err(refused) => (refused.revision(), refused.word()),
    };
    out.info(&n::TABLE_INFO, &[gpu, &revision, state]);
}

impl Device for AmdGpu {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        let gpu = self.identity.gpu.clone();
        // A read would wake a GPU that sleeps, or be refused.
        let status = self.files.text("power/runtime_status");
        if status.as_deref() == Some("suspended") {
            out.info(&m::UNAVAILABLE_INFO, &[&gpu, "suspended"]);
            self.identity.push_info("amd", out);
            return Ok(());
        }
        let state = Arc::clone(&self.state);
        // Never contended: while a device is stuck no thread reads it, not even its successor.
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let Err(failure) = self.read_all(&mut state, out) else {
            return Ok(());
        };
        if failure == Failure::Unknown {
            out.incomplete(&Error::State {
                what: format!("{gpu}: the driver's table gpu_metrics cannot be read"),
                reason: failure.reason(),
            });
        }
        out.u64(&m::UP, &[&gpu], 0);
        out.info(&m::UNAVAILABLE_INFO, &[&gpu, failure.reason()]);
        self.identity.push_info("amd", out);
        Ok(())
    }
}
