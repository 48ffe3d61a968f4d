//! Kernels before 5.4 hold one mutex for each request of RDMA netlink (drivers/infiniband/core/netlink.c,
//! `rdma_nl_mutex`). While a driver is stuck in one request, every other request would wait in send(2).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{NetlinkError, NetlinkTransport};
use crate::netlink::Garbled;
use crate::netlink::message::Request;
use crate::sys::root;

/// A longer request may be stuck. Shorter than a slice, so that it is known before the next port is read.
const LONG: Duration = Duration::from_millis(200);

/// The requests of this process that are in flight.
#[derive(Default)]
pub(super) struct Lane {
    begun: Mutex<Vec<(u64, Instant)>>,
    next: AtomicU64,
}

static LANE: Lane = Lane::new();

impl Lane {
    const fn new() -> Self {
        Self {
            begun: Mutex::new(Vec::new()),
            next: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u64, Instant)>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a request, unless one has been in flight for longer than [`LONG`].
    fn enter(&self, now: Instant) -> Option<InFlight<'_>> {
        let mut begun = self.lock();
        if begun
            .iter()
            .any(|(_, at)| now.saturating_duration_since(*at) > LONG)
        {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        begun.push((number, now));
        Some(InFlight { lane: self, number })
    }
}

/// A request in flight.
struct InFlight<'a> {
    lane: &'a Lane,
    number: u64,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.lane.lock().retain(|(number, _)| *number != self.number);
    }
}

/// A kernel whose requests wait for each other: none is started behind one that may be stuck.
pub(super) struct InLane {
    lane: &'static Lane,
    kernel: Box<dyn NetlinkTransport>,
}

impl InLane {
    /// Uses the lane of this process.
    pub(super) fn new(kernel: Box<dyn NetlinkTransport>) -> Self {
        Self { lane: &LANE, kernel }
    }
}

impl NetlinkTransport for InLane {
    fn ask(
        &mut self,
        request: &mut Request,
        take: &mut dyn FnMut(&[u8]) -> Result<(), Garbled>,
    ) -> Result<(), NetlinkError> {
        let _pass = self.lane.enter(Instant::now()).ok_or(NetlinkError::Busy)?;
        self.kernel.ask(request, take)
    }
}

/// Whether requests wait for each other in the running kernel. If its release is unreadable, they are assumed to.
pub(super) fn is_single() -> bool {
    let release = root::read_text("/proc/sys/kernel/osrelease".as_ref());
    release
        .ok()
        .flatten()
        .is_none_or(|release| is_before_5_4(&release))
}

/// Vendors backport newer RDMA to older releases: there the only cost is netlink while a request is stuck.
fn is_before_5_4(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse::<u32>().ok();
    match (next(), next()) {
        (Some(major), Some(minor)) => (major, minor) < (5, 4),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, sync_channel};
    use std::thread;

    use super::*;

    /// Answers once it is released.
    struct Stuck(Receiver<()>);

    impl NetlinkTransport for Stuck {
        fn ask(
            &mut self,
            _: &mut Request,
            _: &mut dyn FnMut(&[u8]) -> Result<(), Garbled>,
        ) -> Result<(), NetlinkError> {
            self.0.recv().ok();
            Ok(())
        }
    }

    fn ask(kernel: &mut dyn NetlinkTransport) -> Result<(), NetlinkError> {
        kernel.ask(&mut Request::one(0), &mut |_| Ok(()))
    }

    #[test]
    fn behind_a_request_that_is_stuck_no_other_starts_until_it_is_over() {
        let lane: &'static Lane = Box::leak(Box::default());
        let (release, released) = sync_channel(0);
        let stuck = Box::new(Stuck(released));
        let mut stuck = InLane { lane, kernel: stuck };
        let reader = thread::spawn(move || ask(&mut stuck));
        let start = Instant::now();
        while lane.lock().is_empty() {
            assert!(start.elapsed() < Duration::from_secs(60), "no second request");
        }
        // If the query were sent, it would not return: its channel is never released.
        let (_kept, never) = sync_channel(0);
        let kernel = Box::new(Stuck(never));
        let mut other = InLane { lane, kernel };
        while lane.enter(Instant::now()).is_some() {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(ask(&mut other), Err(NetlinkError::Busy));
        assert_eq!(lane.lock().len(), 1, "a rejected request is not in flight");
        release.send(()).unwrap();
        assert_eq!(reader.join().unwrap(), Ok(()));
        drop(_kept);
        assert_eq!(ask(&mut other), Ok(()));
    }

    #[test]
    fn requests_that_are_not_long_in_flight_block_no_other() {
        let lane = Lane::default();
        let now = Instant::now();
        let first = lane.enter(now);
        let second = lane.enter(now + LONG);
        assert!(first.is_some() && second.is_some());
        let late = now + LONG + Duration::from_millis(1);
        assert!(lane.enter(late).is_none());
        drop(first);
        assert!(lane.enter(late).is_some());
    }

    #[test]
    fn the_mutex_went_with_5_4() {
        for (release, is_before) in [
            ("4.18.0-553.el8_10.x86_64", true),
            ("5.3.18-150300.59.93-default", true),
            ("5.4.0-42-generic", false),
            ("5.14.0-503.el9", false),
            ("6.12.117+deb12-amd64", false),
            ("6.1", false),
            ("odd", true),
        ] {
            assert_eq!(is_before_5_4(release), is_before, "{release}");
        }
    }
}
