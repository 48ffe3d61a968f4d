//! What the list of ports, the ports and the watcher know of each other. The list says what is read, a port which
//! network interface it has, the watcher that one of them has to look again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::sys::listen::EventWaker;

/// Devices that are read, by name: their ports by number, each with the interface whose carrier is its link; empty where
/// there is none, or none that is known.
pub(super) type PortInterfaces = BTreeMap<String, BTreeMap<u32, String>>;

/// What they share.
pub(super) struct Hub {
    state: Mutex<HubState>,
    /// There is a device.
    found: Condvar,
    /// The list may not be what it was.
    doubt: AtomicBool,
    /// Grows whenever facts may not be what they were.
    facts: AtomicU64,
    /// Not where nobody watches.
    bell: Option<Arc<EventWaker>>,
}

#[derive(Default)]
struct HubState {
    listed: PortInterfaces,
    /// When the scan began that found this.
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

    /// A scan that began then has found these ports.
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

    /// A port has this interface for its link now.
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

    /// What the last scan has found, and when that began. `None`: there was none.
    pub(super) fn listed(&self) -> Option<(Instant, PortInterfaces)> {
        let state = self.lock();
        state.began.map(|began| (began, state.listed.clone()))
    }

    /// Waits as long as that for a device. False: there is none.
    pub(super) fn wait(&self, limit: Duration) -> bool {
        let is_empty = |state: &mut HubState| state.listed.is_empty();
        let waited = self.found.wait_timeout_while(self.lock(), limit, is_empty);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !state.listed.is_empty()
    }

    /// The list is to be looked at before the next reading, and so are facts.
    pub(super) fn suspect(&self) {
        self.facts.fetch_add(1, Ordering::AcqRel);
        self.doubt.store(true, Ordering::Release);
    }

    /// Whether that was said since the last call.
    pub(super) fn take_doubt(&self) -> bool {
        self.doubt.swap(false, Ordering::AcqRel)
    }

    /// Facts that were read at another number are to be read again.
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
