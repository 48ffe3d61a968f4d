//! How much a collector may show: a bug or a machine of unthought size must not take the daemon's memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most series of one collector, over all its devices.
pub const MAX_SERIES: usize = 20_000;

/// The most bytes that the label values of one collector may take; below the largest frame of a worker.
pub const MAX_LABEL_BYTES: usize = 768 * 1024;

/// What the devices of one collector have taken together.
#[derive(Debug, Default)]
pub struct SeriesBudget {
    series: AtomicUsize,
    bytes: AtomicUsize,
}

/// What one device has taken.
#[derive(Debug, Default)]
pub(crate) struct DeviceShare {
    budget: Arc<SeriesBudget>,
    series: usize,
    bytes: usize,
}

impl DeviceShare {
    pub(crate) fn of(budget: &Arc<SeriesBudget>) -> Self {
        Self {
            budget: Arc::clone(budget),
            ..Self::default()
        }
    }

    /// Takes all of it or, where the limit is reached, nothing.
    pub(crate) fn take(&mut self, series: usize, bytes: usize) -> bool {
        if !take(&self.budget.series, series, MAX_SERIES) {
            return false;
        }
        if !take(&self.budget.bytes, bytes, MAX_LABEL_BYTES) {
            self.budget.series.fetch_sub(series, Ordering::Relaxed);
            return false;
        }
        self.series += series;
        self.bytes += bytes;
        true
    }

    /// Gives some of it back.
    pub(crate) fn give(&mut self, series: usize, bytes: usize) {
        let (series, bytes) = (series.min(self.series), bytes.min(self.bytes));
        self.series -= series;
        self.bytes -= bytes;
        self.budget.series.fetch_sub(series, Ordering::Relaxed);
        self.budget.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

fn take(taken: &AtomicUsize, more: usize, limit: usize) -> bool {
    let add = |now: usize| now.checked_add(more).filter(|sum| *sum <= limit);
    taken
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
        .is_ok()
}

impl Drop for DeviceShare {
    fn drop(&mut self) {
        self.give(self.series, self.bytes);
    }
}

// A copy belongs to no device: it has a limit of its own.
impl Clone for DeviceShare {
    fn clone(&self) -> Self {
        let mut copy = Self::default();
        copy.take(self.series, self.bytes);
        copy
    }
}
