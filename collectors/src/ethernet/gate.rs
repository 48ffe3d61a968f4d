//! Lets one call at a time into the drivers of network interfaces, and gives a device a rest after a slow one.
//!
//! A call holds RTNL, for which everything else that is done with the node's network waits. While one is stuck nobody else
//! begins one: it would wait for the same lock, and so would another thread for each port.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::error::CallError;
use crate::netlink::ethtool::EthtoolQuery;
use crate::sys::ethtool::Ethtool;
use crate::sys::netlink::NetlinkTransport;

/// A call that takes longer is a burden.
pub(super) const SLOW: Duration = Duration::from_millis(200);
/// How long a device is left alone after one.
const REST: Duration = Duration::from_secs(3600);

/// What time it is.
pub(super) type Clock = Arc<dyn Fn() -> Instant + Send + Sync>;

/// The ways to ask. There is one set of them, so that whoever has it is the only one who asks.
pub(super) struct Transports {
    pub(super) ethtool: Box<dyn Ethtool>,
    pub(super) route: Box<dyn NetlinkTransport>,
    pub(super) generic: Box<dyn NetlinkTransport>,
    /// The number of ethtool's family, once it is known.
    pub(super) family: Option<u16>,
    /// What the kernel does not know any statistics of.
    pub(super) without_statistics: Vec<EthtoolQuery>,
}

/// The only door.
pub(super) struct Gate {
    clock: Clock,
    state: Mutex<GateState>,
}

struct GateState {
    /// `None`: a call is in flight.
    ways: Option<Transports>,
    /// Until when a device is left alone.
    resting: BTreeMap<String, Instant>,
}

/// What a call gave, and how long it took.
pub(super) struct CallResult<T> {
    pub(super) result: Result<T, CallError>,
    /// `None`: it was not made.
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

    /// Whether a device is left alone now.
    pub(super) fn rests(&self, device: &str) -> bool {
        let now = self.now();
        let mut state = self.lock();
        let rests = state.resting.get(device).is_some_and(|until| now < *until);
        if !rests {
            state.resting.remove(device);
        }
        rests
    }

    /// Whether a call is in flight. What takes the kernel's lock would wait for it.
    pub(super) fn is_busy(&self) -> bool {
        self.lock().ways.is_none()
    }

    /// Asks the firmware of a device in another way, without the kernel's lock: beside other calls. The same rest holds,
    /// and is given. `None`: it has one.
    pub(super) fn beside<T>(&self, device: &str, ask: impl FnOnce() -> T) -> Option<T> {
        if self.rests(device) {
            return None;
        }
        let began = self.now();
        let answer = ask();
        self.rest_after(device, self.now().saturating_duration_since(began));
        Some(answer)
    }

    /// Gives a device a rest where that was slow.
    fn rest_after(&self, device: &str, took: Duration) {
        if took > SLOW {
            let ms = took.as_millis();
            tracing::warn!(
                device,
                ms,
                "a call to its network driver was slow: left alone for an hour"
            );
            let until = self.now() + REST;
            self.lock().resting.insert(device.to_owned(), until);
        }
    }

    /// Makes a call to the driver of a device, unless it has a rest or another call is in flight.
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

/// The right to make a call, which ends with it, also where the call panics.
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
