//! Allows one call at a time to network interface drivers, and suspends calls to a device after a slow one.
//!
//! A call holds RTNL, for which every other network configuration of the node waits. While a call is stuck,
//! nodewarden starts no other: it would wait for the same lock, and so would one more thread for each port.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::error::CallError;
use crate::netlink::ethtool::EthtoolQuery;
use crate::sys::ethtool::Ethtool;
use crate::sys::netlink::NetlinkTransport;

/// A longer call is slow.
pub(super) const SLOW: Duration = Duration::from_millis(200);
/// How long calls to a device are suspended after a slow one.
const REST: Duration = Duration::from_secs(3600);

/// The current time.
pub(super) type Clock = Arc<dyn Fn() -> Instant + Send + Sync>;

/// The transports of queries. Only one set exists, so its holder is the only one who sends queries.
pub(super) struct Transports {
    pub(super) ethtool: Box<dyn Ethtool>,
    pub(super) route: Box<dyn NetlinkTransport>,
    pub(super) generic: Box<dyn NetlinkTransport>,
    /// The id of ethtool's netlink family, once known.
    pub(super) family: Option<u16>,
    /// Queries for which the kernel does not support statistics.
    pub(super) without_statistics: Vec<EthtoolQuery>,
}

/// The only access to the transports.
pub(super) struct Gate {
    clock: Clock,
    state: Mutex<GateState>,
}

struct GateState {
    /// `None`: a call is in flight.
    ways: Option<Transports>,
    /// Until when calls to a device are suspended.
    resting: BTreeMap<String, Instant>,
}

/// The result of a call, and its duration.
pub(super) struct CallResult<T> {
    pub(super) result: Result<T, CallError>,
    /// `None`: no call was made.
    pub(super) took: Option<Duration>,
}

impl Gate {
    pub(super) fn new(ways: Transports, clock: Clock) -> Self {
        Self {
            clock,
            state: Mutex::new(GateState {
                ways: Some(ways),
                resting: BTreeMap::new(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Instant {
        (self.clock)()
    }

    /// Whether calls to a device are suspended now.
    pub(super) fn rests(&self, device: &str) -> bool {
        let now = self.now();
        let mut state = self.lock();
        let rests = state.resting.get(device).is_some_and(|until| now < *until);
        if !rests {
            state.resting.remove(device);
        }
        rests
    }

    /// Whether a call is in flight. Any user of RTNL would wait for it.
    pub(super) fn is_busy(&self) -> bool {
        self.lock().ways.is_none()
    }

    /// Queries a device's firmware without RTNL, in parallel with other calls. The same suspension applies and can
    /// start. `None`: calls to the device are suspended.
    pub(super) fn beside<T>(&self, device: &str, ask: impl FnOnce() -> T) -> Option<T> {
        if self.rests(device) {
            return None;
        }
        let began = self.now();
        let answer = ask();
        self.rest_after(device, self.now().saturating_duration_since(began));
        Some(answer)
    }

    /// Suspends calls to a device after a slow one.
    fn rest_after(&self, device: &str, took: Duration) {
        if took > SLOW {
            let ms = took.as_millis();
            tracing::warn!(
                device,
                ms,
                "a call to its network driver was slow: calls to this device are suspended for 1 hour"
            );
            let until = self.now() + REST;
            self.lock().resting.insert(device.to_owned(), until);
        }
    }

    /// Calls the driver of a device, unless its calls are suspended or another call is in flight.
    pub(super) fn call<T>(
        &self,
        device: &str,
        ask: impl FnOnce(&mut Transports) -> Result<T, CallError>,
    ) -> CallResult<T> {
        let not_made = |why| CallResult {
            result: Err(why),
            took: None,
        };
        if self.rests(device) {
            return not_made(CallError::Resting);
        }
        let Some(ways) = self.lock().ways.take() else {
            return not_made(CallError::Busy);
        };
        let mut pass = CallPermit {
            gate: self,
            device,
            began: self.now(),
            ways: Some(ways),
        };
        let result = pass
            .ways
            .as_mut()
            .ok_or(CallError::of(Errno::EBADF))
            .and_then(ask);
        let took = self.now().saturating_duration_since(pass.began);
        CallResult {
            result,
            took: Some(took),
        }
    }
}

/// The right to make a call. It ends with the call, also if the call panics.
struct CallPermit<'a> {
    gate: &'a Gate,
    device: &'a str,
    began: Instant,
    ways: Option<Transports>,
}

impl Drop for CallPermit<'_> {
    fn drop(&mut self) {
        let took = self.gate.now().saturating_duration_since(self.began);
        self.gate.lock().ways = self.ways.take();
        self.gate.rest_after(self.device, took);
    }
}
