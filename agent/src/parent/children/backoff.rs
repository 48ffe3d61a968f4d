//! The pause before an ended process is started again.

use std::time::{Duration, Instant};

/// First back-off before an ended process is restarted; doubled each time.
const MIN: Duration = Duration::from_millis(250);
/// Longest back-off.
const MAX: Duration = Duration::from_secs(30);
/// Run time after which an end is no crash loop.
const SETTLED: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Backoff {
    pub(super) wait: Duration,
    pub(super) due: Instant,
}

impl Backoff {
    pub(super) fn new() -> Self {
        Self {
            wait: MIN,
            due: Instant::now(),
        }
    }

    /// A process that was started at that time has ended, or its start failed.
    pub(super) fn ended(&mut self, started: Instant) {
        if started.elapsed() >= SETTLED {
            self.wait = MIN;
        }
        self.due = Instant::now() + self.wait;
        self.wait = (self.wait * 2).min(MAX);
    }

    pub(super) fn is_due(&self) -> bool {
        self.due <= Instant::now()
    }
}
