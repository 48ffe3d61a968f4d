//! One GPU: its readings and their order.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::engines;
use super::files::{Failure, GpuFiles};
use super::gpu_metrics::{Field, Refused, Table};
use super::limits::Limits;
use super::metrics as n;
use super::page::PageLabels;
use super::processes::Processes;
use super::ras::Ras;
use super::sensors::{self, XgmiLinks};
use super::short_energy::ShortEnergy;
use super::throttle::Throttle;
use super::topology::{Partition, part};
use crate::gpu::identity::Identity;
use crate::gpu::metrics as m;
use crate::gpu::process::ProcessFiles;
use crate::{Block, Device, Error, Subject};

/// Limits, modes and firmware are read again after this.
const SLOWLY: Duration = Duration::from_secs(60);
/// Kinds of memory besides the GPU's own: part of the name of its files, and the metrics total, used and free.
const MEMORY: [(&str, [&crate::Metric; 3]); 2] = [
    ("vis_vram", [&m::BAR1_TOTAL, &m::BAR1_USED, &m::BAR1_FREE]),
    ("gtt", [&n::GTT_TOTAL, &n::GTT_USED, &n::GTT_FREE]),
];

/// What outlasts a scan.
#[derive(Debug, Default)]
pub(super) struct GpuState {
    limits: Limits,
    limits_read: Option<Instant>,
    ras: Ras,
    throttle: Throttle,
    energy: ShortEnergy,
    links: XgmiLinks,
    /// The driver has given its table: support does not end.
    had_table: bool,
    /// Since when the driver has refused each read.
    busy: Option<Instant>,
}

impl GpuState {
    pub(super) fn new(links: XgmiLinks) -> Self {
        Self {
            links,
            ..Self::default()
        }
    }
}

/// One GPU.
pub(super) struct AmdGpu {
    subject: Subject,
    identity: Identity,
    page: PageLabels,
    partitions: Vec<Partition>,
    /// Of the device of each partition.
    folders: Vec<GpuFiles>,
    files: GpuFiles,
    processes: Processes,
    process_files: ProcessFiles,
    state: Arc<Mutex<GpuState>>,
    /// Not read since the list was read: it may have been divided or reset, so limits and modes may be others.
    is_new: bool,
}

impl AmdGpu {
    pub(super) fn new(
        (identity, page): (Identity, PageLabels),
        (partitions, folders): (Vec<Partition>, Vec<GpuFiles>),
        files: GpuFiles,
        processes: Processes,
        state: Arc<Mutex<GpuState>>,
    ) -> Self {
        Self {
            subject: Subject::gpu(&identity.gpu),
            identity,
            page,
            partitions,
            folders,
            files,
            processes,
            process_files: ProcessFiles::default(),
            state,
            is_new: true,
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

    /// Its labels while it cannot be read: a job's partition must not be taken for the whole GPU.
    fn push_unread(&self, state: &GpuState, out: &mut Block) {
        let modes = state.limits.modes();
        self.push_labels(state.limits_read.map(|_| modes), out);
        self.push_partitions(modes.0, out);
    }

    fn read_memory(&self, out: &mut Block) {
        let gpu = self.identity.gpu.as_str();
        let own = [&m::MEMORY_TOTAL, &m::MEMORY_USED, &m::MEMORY_FREE];
        let banks = self.partitions.iter().map(|partition| partition.memory).sum();
        self.push_memory("vram", own, &[gpu, ""], banks, out);
        for (kind, metrics) in MEMORY {
            self.push_memory(kind, metrics, &[gpu], 0, out);
        }
    }

    fn push_memory(
        &self,
        kind: &str,
        metrics: [&'static crate::Metric; 3],
        labels: &[&str],
        banks: u64,
        out: &mut Block,
    ) {
        let number = |what: &str| self.files.number(&format!("mem_info_{kind}_{what}"));
        // An APU without memory of its own, as MI300A, has a total of 0, and KFD's banks are its share of the host's memory. The driver
        // counts what it uses of that as GTT, together with what is outside of the banks.
        let total = number("total").filter(|total| *total > 0);
        let used = number("used").filter(|_| total.is_some());
        let free = total.zip(used).and_then(|(total, used)| total.checked_sub(used));
        let total = total.or(Some(banks).filter(|banks| *banks > 0));
        for (metric, value) in metrics.into_iter().zip([total, used, free]) {
            out.maybe_u64(metric, labels, value);
        }
    }

    fn push_labels(&self, modes: Option<(&str, &str)>, out: &mut Block) {
        self.identity.push_info("amd", out);
        self.page.push(&self.identity, self.partitions.len(), modes, out);
    }

    fn read_all(&mut self, state: &mut GpuState, out: &mut Block) -> Result<(), Failure> {
        let (gpu, files) = (self.identity.gpu.as_str(), &self.files);
        let bytes = files.table(state.had_table)?;
        state.had_table |= bytes.is_some();
        if self.is_new || state.limits_read.is_none_or(|at| at.elapsed() >= SLOWLY) {
            state.limits.read(files);
            state.limits_read = Some(Instant::now());
        }
        out.u64(&m::UP, &[gpu], 1);
        self.push_labels(Some(state.limits.modes()), out);
        let table = bytes.as_deref().map(Table::parse);
        if let Some(table) = &table {
            push_table_info(gpu, table, out);
        }
        let table = table.and_then(Result::ok);
        match (&table, &state.limits.hwmon) {
            (Some(table), hwmon) => {
                let energy = table
                    .get(Field::Energy)
                    .map(|units| match table.has_short_energy() {
                        true => state.energy.total(units),
                        false => units,
                    });
                sensors::push_table(gpu, table, energy, &mut state.links, out);
                if let Some(hwmon) = hwmon.as_deref().filter(|_| table.lacks_power()) {
                    sensors::push_power_of_files(gpu, hwmon, files, out);
                }
                if sensors::is_of_apu(table) {
                    sensors::push_apu(gpu, hwmon.as_deref(), files, out);
                }
            }
            (None, Some(hwmon)) => sensors::push_files(gpu, hwmon, files, out),
            (None, None) => {}
        }
        engines::push(gpu, table.as_ref(), &self.folders, out);
        if let Some(table) = &table {
            state.throttle.read(gpu, table, state.limits.hotspot(), out);
        }
        sensors::push_link(gpu, table.as_ref(), files, out);
        self.read_memory(out);
        state.limits.push(gpu, out);
        self.push_partitions(state.limits.modes().0, out);
        state.ras.read(gpu, files, out);
        self.processes
            .read(gpu, &self.partitions, &mut self.process_files, out);
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
        let state = Arc::clone(&self.state);
        // Never contended: while a device is stuck no thread reads it, not even its successor.
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        // A read would wake a GPU that sleeps, or be refused.
        let status = self.files.text("power/runtime_status");
        if status.as_deref() == Some("suspended") {
            out.info(&m::UNAVAILABLE_INFO, &[&gpu, "suspended"]);
            self.process_files = ProcessFiles::default();
            state.busy = None;
            self.push_unread(&state, out);
            return Ok(());
        }
        let Err(failure) = self.read_all(&mut state, out) else {
            self.is_new = false;
            state.busy = None;
            return Ok(());
        };
        let busy = (failure == Failure::Busy).then(|| state.busy.unwrap_or_else(Instant::now));
        state.busy = busy;
        let failure = failure.after(busy.map(|since| since.elapsed()));
        // Its processes may end while it cannot name them.
        self.process_files = ProcessFiles::default();
        if failure == Failure::Unknown {
            out.incomplete(&Error::State {
                what: format!("{gpu}: the driver's table gpu_metrics cannot be read"),
                reason: failure.reason(),
            });
        }
        out.u64(&m::UP, &[&gpu], 0);
        out.info(&m::UNAVAILABLE_INFO, &[&gpu, failure.reason()]);
        self.push_unread(&state, out);
        Ok(())
    }
}
