//! Utilization of the parts of a GPU between two samples of its hardware counters (GPM): Hopper and newer.
//!
//! The collector defines the window, not the reader: it starts and ends with the collector's samples and lasts 1 s
//! or longer, so that two scrapers get the same values. One sample and one query for each GPU and window, or for
//! each GPU instance in MIG mode.

mod table;

use std::time::{Duration, Instant};

use super::call::{Caller, NvmlQuery};
use super::instances::Instances;
use super::metrics as n;
use crate::Block;
use crate::sys::nvml::gpm::Sample;
use crate::sys::nvml::{Code, Library};
use table::ROWS;

/// A shorter window is inaccurate, and each costs 2 calls.
const WINDOW: Duration = Duration::from_secs(1);
/// Older values are omitted: the next window is long overdue.
const STALE: Duration = Duration::from_secs(120);

/// The window of a GPU, or of one of its GPU instances.
#[derive(Debug)]
struct Window {
    /// The GPU instance; `None`: the whole GPU.
    instance: Option<u32>,
    /// The first sample of the next window, if taken.
    begin: Option<(Sample, Instant)>,
    /// Memory for its last sample.
    spare: Option<Sample>,
    length: Option<Duration>,
    values: Vec<Option<f64>>,
    /// The driver rejected the query once, which also happens for an instance that was removed.
    refused: bool,
}

/// The windows of one GPU.
#[derive(Debug)]
pub(super) struct Profile {
    windows: Vec<Window>,
    /// Samples of removed instances. They are reused, as their memory belongs to the library.
    spares: Vec<Sample>,
    wanted: Vec<u32>,
    /// The driver supports the monotonic counters.
    counters: bool,
}

impl Profile {
    /// `None`: switched off, or not supported by the GPU.
    pub(super) fn new(caller: &mut Caller, on: bool, architecture: &str) -> Option<Self> {
        // The library answers for every architecture, so old GPUs are not queried.
        let old = ["kepler", "maxwell", "pascal", "volta", "turing", "ampere", "ada"];
        if !on || old.contains(&architecture) {
            return None;
        }
        caller
            .ask(("GpmQueryDeviceSupport", 0), Library::gpm_supported)
            .filter(|supported| *supported)?;
        Some(Self {
            windows: Vec::new(),
            spares: Vec::new(),
            wanted: table::ids(true),
            counters: true,
        })
    }

    pub(super) fn read(&mut self, gpu: &str, caller: &mut Caller, instances: &Instances, out: &mut Block) {
        let mut parts: Vec<Option<u32>> = instances.iter().map(|i| Some(i.gpu_instance)).collect();
        parts.dedup();
        if parts.is_empty() {
            parts.push(None);
        }
        let same = |w: &Window, part: &Option<u32>| w.instance == *part;
        if self.windows.len() != parts.len() || !self.windows.iter().zip(&parts).all(|(w, p)| same(w, p)) {
            let mut before = std::mem::take(&mut self.windows);
            self.windows = parts
                .into_iter()
                .map(|part| match before.iter().position(|w| same(w, &part)) {
                    Some(at) => before.swap_remove(at),
                    None => Window::new(part),
                })
                .collect();
            let left = before
                .into_iter()
                .flat_map(|w| w.begin.map(|(s, _)| s).into_iter().chain(w.spare));
            self.spares.extend(left);
        }
        for window in &mut self.windows {
            if window.take(caller, &self.wanted, &mut self.spares) && self.counters {
                if window.instance.is_none() || window.refused {
                    // A driver that does not know the newer ids rejects all of them.
                    self.counters = false;
                    self.wanted = table::ids(false);
                } else {
                    window.refused = true;
                    caller.retry(window.question(&self.wanted));
                    instances.suspect();
                }
            }
            window.push(gpu, instances, out);
        }
    }
}

impl Window {
    fn new(instance: Option<u32>) -> Self {
        Self {
            instance,
            begin: None,
            spare: None,
            length: None,
            values: Vec::new(),
            refused: false,
        }
    }

    /// The variant of the window query.
    fn number(&self) -> u32 {
        self.instance.map_or(0, |i| i + 1)
    }

    /// The query. Without the counters it is a different one.
    fn question(&self, wanted: &[u32]) -> NvmlQuery {
        let kind = u32::from(wanted.len() < ROWS.len()) * 1000;
        ("GpmMetricsGet", self.number() + kind)
    }

    /// Ends the window if it is long enough, and starts the next. Returns whether the driver rejected the query.
    fn take(&mut self, caller: &mut Caller, wanted: &[u32], spares: &mut Vec<Sample>) -> bool {
        let (number, question) = (self.number(), self.question(wanted));
        let early = self.begin.as_ref().is_some_and(|(_, at)| at.elapsed() < WINDOW);
        if early || caller.is_refused(question) {
            return false;
        }
        let spare = self.spare.take().or_else(|| spares.pop());
        let spare = spare.or_else(|| {
            let room = caller.ask_about(("GpmSampleAlloc", number), Library::gpm_sample);
            room.ok().flatten()
        });
        let Some(mut end) = spare else { return false };
        let (handle, instance) = (caller.handle, self.instance);
        let took = caller.ask_about(("GpmSampleGet", number), |l| {
            l.gpm_take(handle, instance, &mut end)
        });
        let now = Instant::now();
        if !matches!(took, Ok(Some(()))) {
            self.spare = Some(end);
            self.length = None;
            return false;
        }
        let Some((begin, at)) = self.begin.replace((end, now)) else {
            return false;
        };
        let length = now.saturating_duration_since(at);
        let asked = match &self.begin {
            Some((end, _)) if length <= STALE => {
                caller.ask_about(question, |l| l.gpm_metrics(&begin, end, wanted, &mut self.values))
            }
            _ => Ok(None),
        };
        self.spare = Some(begin);
        self.length = matches!(asked, Ok(Some(()))).then_some(length);
        self.refused &= self.length.is_none();
        asked == Err(Code::INVALID_ARGUMENT)
    }

    fn push(&self, gpu: &str, instances: &Instances, out: &mut Block) {
        let fresh = self.begin.as_ref().is_some_and(|(_, at)| at.elapsed() < STALE);
        let length = self.length.filter(|_| fresh);
        // A GPU instance's counters cover all of its compute instances: they are reported once, for the first.
        let part = match self.instance {
            None => "",
            Some(number) => {
                let first = instances.iter().find(|i| i.gpu_instance == number);
                first.map_or("", |i| i.label.as_str())
            }
        };
        super::simple::real(
            out,
            &n::PROFILING_WINDOW,
            &[gpu, part],
            length.map(|l| l.as_secs_f64()),
        );
        for (at, row) in ROWS.iter().enumerate() {
            let value = self
                .values
                .get(at)
                .copied()
                .flatten()
                .filter(|_| length.is_some());
            row.push(gpu, part, value, out);
        }
    }
}
