//! Mounted filesystems: there, responsive, full, read-only. A probe may never return, so that each filesystem is a device
//! with a thread of its own when it is stuck, in a worker that does nothing else.

mod class;
mod lifetime;
mod list;
pub mod metrics;
pub(crate) mod nfs;
mod probe;
mod table;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::settings::Kind;
use crate::{Cadence, Device, Devices, Env, Error, Settings, Source, Spec, domain};
pub use lifetime::is_submount;
use list::List;
use metrics::METRICS;
use probe::{Key, Probe, SharedInFlight, SharedPast};
use table::Filesystem;

/// The mounts collector.
pub static SPEC: Spec = Spec {
    name: "mounts",
    domain: &domain::MOUNTS,
    metrics: METRICS,
    events: &[],
    notes: false,
    // A statfs of Lustre is a request to each of its targets.
    cadence: Cadence::Every(Duration::from_secs(60)),
    slice: Duration::from_millis(500),
    deadline: Duration::from_secs(5),
    keys: KEYS,
    open,
};

/// Maximum number of filesystems that are probed.
const MOST: usize = 16;

/// Maximum number of threads that are stuck, with those of filesystems that are no longer mounted (`umount -l`). These end
/// only with their server, and must not take the places of filesystems that are mounted.
const MOST_STUCK: usize = 2 * MOST;

crate::keys! {
    KEYS;
    ENABLED = "mounts.enabled": Kind::Boolean, default "true", since "0.1.0",
        "Probe mounted filesystems (parallel, network, local) once a minute. False: incidents of mounts end.";
    EXCLUDE = "mounts.exclude": Kind::List { what: "an array of folders", of: &Kind::Path, empty: true }, default "[]", since "0.1.0",
        "Folders whose mounts are neither listed nor probed. Folders of container runtimes are always excluded.";
}

fn open(env: &Env, settings: &Settings) -> Result<Option<Source>, Error> {
    if !settings.get::<bool>(&ENABLED)? {
        return Ok(None);
    }
    let excluded: Vec<String> = settings.get(&EXCLUDE)?;
    Ok(Some(Source {
        devices: Box::new(Mounts {
            env: env.clone(),
            excluded: excluded.into(),
            known: Vec::new(),
            above_limit: Arc::default(),
            probed: Vec::new(),
            past: BTreeMap::new(),
            in_flight: Arc::default(),
        }),
        watcher: None,
    }))
}

struct Mounts {
    env: Env,
    excluded: Arc<[String]>,
    known: Vec<Filesystem>,
    above_limit: Arc<Mutex<u64>>,
    /// Filesystems with a probe.
    probed: Vec<Key>,
    past: BTreeMap<Key, SharedPast>,
    in_flight: SharedInFlight,
}

impl Mounts {
    /// The filesystems to probe: those whose probe has not returned, and others in order. A probe of a filesystem that is gone
    /// and that has not returned still has its thread, but no place. A mount of a user answers as that user likes: neither this
    /// collector nor a check may depend on it.
    fn probed(&self, known: &[Filesystem]) -> Vec<Key> {
        let in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        let visible = known.iter().filter(|f| f.may_be_probed()).map(Filesystem::key);
        let waiting = visible.clone().filter(|key| in_flight.contains(key)).count();
        let threads = MOST_STUCK.saturating_sub(in_flight.len());
        let mut room = MOST.saturating_sub(waiting).min(threads);
        let mut takes_place = || {
            let rest = room.checked_sub(1);
            room = rest.unwrap_or_default();
            rest.is_some()
        };
        visible
            .filter(|key| in_flight.contains(key) || takes_place())
            .collect()
    }
}

impl Devices for Mounts {
    fn scan(&mut self) -> Result<Vec<Box<dyn Device>>, Error> {
        (self.known, _) = list::read(&self.env, &self.excluded)?;
        self.probed = self.probed(&self.known);
        let visible = self.known.iter().filter(|f| f.may_be_probed()).count();
        let above = visible.saturating_sub(self.probed.len()) as u64;
        *self.above_limit.lock().unwrap_or_else(PoisonError::into_inner) = above;
        let list = List::new(&self.env, &self.excluded, &self.above_limit);
        let mut devices: Vec<Box<dyn Device>> = vec![Box::new(list)];
        let mut past = BTreeMap::new();
        for found in self.known.iter().filter(|f| self.probed.contains(&f.key())) {
            let known = self.past.get(&found.key()).cloned().unwrap_or_default();
            past.insert(found.key(), Arc::clone(&known));
            devices.push(Box::new(Probe::new(&self.env, found, known, &self.in_flight)));
        }
        self.past = past;
        Ok(devices)
    }

    fn changed(&mut self) -> bool {
        let now = list::read(&self.env, &self.excluded);
        now.is_ok_and(|(now, _)| now != self.known || self.probed(&now) != self.probed)
    }
}

#[cfg(test)]
mod tests;
