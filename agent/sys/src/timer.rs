//! A timer that one thread waits for and another can cancel, so that a met deadline causes no wake-up.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

/// A descriptor that becomes readable at the set time.
#[derive(Debug)]
pub struct Timer(TimerFd);

impl Timer {
    /// A timer that is not set.
    ///
    /// # Errors
    /// When timerfd_create(2) fails.
    pub fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        Ok(Self(TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?))
    }

    /// Sets or resets it.
    pub fn set(&self, after: Duration) {
        // Zero would cancel it.
        let after = TimeSpec::from_duration(after.max(Duration::from_nanos(1)));
        // Fails only for times beyond the clock's range.
        crate::ignore(self.0.set(Expiration::OneShot(after), TimerSetTimeFlags::empty()));
    }

    /// Cancels it, and clears an expiry.
    pub fn unset(&self) {
        crate::ignore(self.0.unset());
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;

    fn is_ready(timer: &Timer, wait: PollTimeout) -> bool {
        let mut fds = [PollFd::new(timer.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, wait).unwrap() == 1
    }

    #[test]
    fn a_timer_goes_off_once_it_is_set_and_not_after_it_was_called_off() {
        let timer = Timer::new().unwrap();
        timer.set(Duration::ZERO);
        assert!(is_ready(&timer, PollTimeout::NONE));
        timer.unset();
        assert!(!is_ready(&timer, PollTimeout::ZERO));
        timer.set(Duration::from_secs(3600));
        timer.unset();
        assert!(!is_ready(&timer, PollTimeout::ZERO));
    }
}
