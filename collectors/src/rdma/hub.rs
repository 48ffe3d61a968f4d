//! State shared by the list of ports, the ports and the watcher. The list publishes which ports are read, a port
//! publishes its network interface, the watcher requests that one of them reads again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::sys::listen::EventWaker;

/// Devices that are read, by name: their ports by number, each with the interface whose carrier is its link; empty
/// if none exists or is known.
pub(super) type PortInterfaces = BTreeMap<String, BTreeMap<u32, String>>;

/// The shared state.
pub(super) struct Hub {
    state: Mutex<HubState>,
    /// Signalled when a device exists.
    found: Condvar,
    /// The list may have changed.
    doubt: AtomicBool,
    /// Incremented whenever properties may have changed.
    facts: AtomicU64,
    /// `None` without a watcher.
    bell: Option<Arc<EventWaker>>,
}

#[derive(Default)]
struct HubState {
    listed: PortInterfaces,
    /// The start of the scan that found this.
    began: Option<Instant>,
}

impl Hub {
    pub(super) fn new(bell: Option<Arc<EventWaker>>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            found: Condvar::new(),
            doubt: AtomicBool::new(false),
            facts: AtomicU64::new(0),
            bell,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HubState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }

    /// Publishes the ports found by a scan that started at `began`.
    pub(super) fn list(&self, began: Instant, ports: &[(String, u32)]) {
        let mut state = self.lock();
        let mut before = std::mem::take(&mut state.listed);
        for (device, port) in ports {
            let known = before.get_mut(device).and_then(|ports| ports.remove(port));
            let device = state.listed.entry(device.clone()).or_default();
            device.insert(*port, known.unwrap_or_default());
        }
        state.began = Some(began);
        drop(state);
        self.found.notify_all();
        self.ring();
    }

    /// Publishes the interface that is this port's link now.
    pub(super) fn has_netdev(&self, device: &str, port: u32, netdev: &str) {
        let mut state = self.lock();
        let known = state
            .listed
            .get_mut(device)
            .and_then(|ports| ports.get_mut(&port));
        if let Some(known) = known.filter(|known| *known != netdev) {
            netdev.clone_into(known);
            drop(state);
            self.ring();
        }
    }

    /// The result of the last scan, and its start. `None`: no scan yet.
    pub(super) fn listed(&self) -> Option<(Instant, PortInterfaces)> {
        let state = self.lock();
        state.began.map(|began| (began, state.listed.clone()))
    }

    /// The kernel has no device any more. The next check scans whatever it finds, since another may have come meanwhile.
    pub(super) fn forget(&self) {
        *self.lock() = HubState::default();
    }

    /// Whether no scan has listed anything since.
    pub(super) fn is_forgotten(&self) -> bool {
        self.lock().began.is_none()
    }

    /// Waits up to `limit` for a device. False: none exists.
    pub(super) fn wait(&self, limit: Duration) -> bool {
        let is_empty = |state: &mut HubState| state.listed.is_empty();
        let waited = self.found.wait_timeout_while(self.lock(), limit, is_empty);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !state.listed.is_empty()
    }

    /// Requests a check of the list before the next reading, and new properties.
    pub(super) fn suspect(&self) {
        self.facts.fetch_add(1, Ordering::AcqRel);
        self.doubt.store(true, Ordering::Release);
    }

    /// Whether this was requested since the last call.
    pub(super) fn take_doubt(&self) -> bool {
        self.doubt.swap(false, Ordering::AcqRel)
    }

    /// Properties that were read at another number are outdated.
    pub(super) fn facts(&self) -> u64 {
        self.facts.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(names: &[(&str, u32)]) -> Vec<(String, u32)> {
        names.iter().map(|(d, p)| ((*d).to_owned(), *p)).collect()
    }

    #[test]
    fn what_a_port_has_said_outlives_the_next_scan_and_not_the_port() {
        let hub = Hub::new(None);
        assert!(hub.listed().is_none() && !hub.wait(Duration::ZERO));
        hub.has_netdev("mlx5_0", 1, "early");
        hub.list(Instant::now(), &ports(&[("mlx5_0", 1), ("mlx5_0", 2)]));
        assert!(hub.wait(Duration::ZERO));
        hub.has_netdev("mlx5_0", 2, "ens2");
        hub.list(Instant::now(), &ports(&[("mlx5_0", 1), ("mlx5_0", 2)]));
        let (_, listed) = hub.listed().unwrap();
        assert_eq!(
            listed["mlx5_0"],
            BTreeMap::from([(1, String::new()), (2, "ens2".to_owned())])
        );
        hub.list(Instant::now(), &[]);
        assert!(!hub.wait(Duration::ZERO));
        hub.list(Instant::now(), &ports(&[("mlx5_0", 2)]));
        assert_eq!(hub.listed().unwrap().1["mlx5_0"][&2], "");
    }

    #[test]
    fn a_doubt_is_taken_once_and_facts_are_old_for_everybody() {
        let hub = Hub::new(None);
        let facts = hub.facts();
        assert!(!hub.take_doubt());
        hub.suspect();
        assert!(hub.take_doubt() && !hub.take_doubt());
        assert_ne!(hub.facts(), facts);
    }
}
