//! Numbers shared by the watcher, which counts, and the device, which shows them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::metrics;
use crate::{Block, Device, Devices, Error, Subject, SubjectKind};

/// What the watcher counts.
#[derive(Debug, Default)]
pub(super) struct LogCounts {
    /// Records read.
    pub(super) records: AtomicU64,
    /// Records overwritten before they were read.
    pub(super) lost: AtomicU64,
    /// Records without a readable prefix.
    pub(super) parse_errors: AtomicU64,
    /// Lines of programs that look like an Xid.
    pub(super) user_space: AtomicU64,
    /// Lines that the kernel or a driver left out.
    pub(super) suppressed: AtomicU64,
    /// Lines that begin like an Xid and are none.
    pub(super) malformed: AtomicU64,
}

impl LogCounts {
    /// Adds to one of the counts.
    pub(super) fn add(count: &AtomicU64, n: u64) {
        count.fetch_add(n, Relaxed);
    }
}

/// The one device: the watcher itself.
pub(super) struct CountsDevice(pub(super) Arc<LogCounts>);

impl Devices for CountsDevice {
    fn scan(&mut self) -> Result<Vec<Box<dyn Device>>, Error> {
        Ok(vec![Box::new(Watched {
            subject: Subject::new(SubjectKind::Worker, "kernel_log"),
            counts: Arc::clone(&self.0),
        })])
    }
}

struct Watched {
    subject: Subject,
    counts: Arc<LogCounts>,
}

impl Device for Watched {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        let counts = &self.counts;
        out.u64(&metrics::RECORDS, &[], counts.records.load(Relaxed));
        out.u64(&metrics::LOST, &[], counts.lost.load(Relaxed));
        out.u64(&metrics::SUPPRESSED, &[], counts.suppressed.load(Relaxed));
        out.u64(&metrics::PARSE_ERRORS, &[], counts.parse_errors.load(Relaxed));
        out.u64(
            &metrics::IGNORED,
            &["user_space"],
            counts.user_space.load(Relaxed),
        );
        out.u64(&metrics::IGNORED, &["malformed"], counts.malformed.load(Relaxed));
        Ok(())
    }
}
