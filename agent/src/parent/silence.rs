//! The deadline of the daemon's next heartbeat.

use std::time::{Duration, Instant};

/// The time since the last heartbeat. Without one in three intervals, the daemon is taken for stopped.
#[derive(Debug)]
pub(super) struct Silence {
    until: Instant,
    interval: Duration,
    /// Two intervals have passed without a heartbeat, and this is the third.
    is_last: bool,
}

impl Silence {
    /// After a heartbeat.
    pub(super) fn after(now: Instant, interval: Duration) -> Self {
        Self {
            until: now + interval * 2,
            interval,
            is_last: false,
        }
    }

    /// When to look again, and after the last interval when the daemon is overdue.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// Begins the last interval when it is due. It counts from this look: a debugger, a freezer or a hypervisor may have
    /// stopped all processes meanwhile.
    pub(super) fn look(&mut self, now: Instant) {
        if !self.is_last && self.until <= now {
            self.until = now + self.interval;
            self.is_last = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(10);

    #[test]
    fn a_daemon_is_overdue_after_three_intervals() {
        let start = Instant::now();
        let mut silence = Silence::after(start, INTERVAL);
        silence.look(start + INTERVAL);
        assert_eq!(silence.until(), start + INTERVAL * 2);
        silence.look(start + INTERVAL * 2);
        silence.look(start + INTERVAL * 3);
        assert_eq!(silence.until(), start + INTERVAL * 3);
    }

    #[test]
    fn after_a_stop_of_all_processes_a_daemon_has_one_interval() {
        let start = Instant::now();
        let mut silence = Silence::after(start, INTERVAL);
        let later = start + Duration::from_secs(3600);
        silence.look(later);
        assert_eq!(silence.until(), later + INTERVAL);
    }
}
