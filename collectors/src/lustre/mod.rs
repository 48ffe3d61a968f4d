//! Clients of Lustre: what programs read and wrote, what was asked of servers, and the connections to them.
//!
//! Where a file is depends on the release, and so does who may read it: [`sources`]. Nothing here sends a request, and no
//! file stays open, so that a filesystem can be unmounted and its modules unloaded at any time.

mod fields;
mod files;
mod filesystem;
mod import;
mod io_latency;
mod lnet;
pub mod metrics;
mod mount;
mod name;
mod network;
mod points;
mod push;
mod readahead;
mod rpc_stats;
mod sources;
mod state;
mod stats;
mod sums;
mod target;
mod totals;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::settings::Kind;
use crate::sys::root;
use crate::{Cadence, Device, Devices, Env, Error, Settings, Source, Spec, domain};
use filesystem::{FilesystemDevice, FilesystemState};
use network::{LnetDevice, LnetState};
use push::TargetRoom;

/// The lustre collector.
pub static SPEC: Spec = Spec {
    name: "lustre",
    domain: &domain::LUSTRE,
    metrics: metrics::METRICS,
    events: &[],
    notes: false,
    // A scrape never starts a reading: a client may have a thousand targets.
    cadence: Cadence::Every(Duration::from_secs(15)),
    slice: Duration::from_millis(500),
    deadline: Duration::from_secs(5),
    keys: KEYS,
    open,
};

crate::keys! {
    KEYS;
    ENABLED = "lustre.enabled": Kind::Boolean, default "true", since "0.1.0",
        "Read the statistics of Lustre clients and LNet every 15 s.";
    TARGETS = "lustre.targets": Kind::Boolean, default "false", since "0.1.0",
        "Also keep figures of each target (tier detail): 5 series for each OST and MDT, of some 3,500 targets at most, divided equally among the filesystems.";
}

/// Absent while Lustre's modules are not loaded.
fn open(env: &Env, settings: &Settings) -> Result<Option<Source>, Error> {
    if !settings.get::<bool>(&ENABLED)? || !root::has_source(env, domain::LUSTRE.only_with) {
        return Ok(None);
    }
    Ok(Some(Source {
        devices: Box::new(LustreDevices {
            env: env.clone(),
            with_targets: settings.get(&TARGETS)?,
            known: BTreeSet::new(),
            points: BTreeMap::new(),
            states: BTreeMap::new(),
            network: Arc::new(Mutex::new(LnetState::new(env))),
        }),
        watcher: None,
    }))
}

/// The mounted filesystems, and LNet.
struct LustreDevices {
    env: Env,
    with_targets: bool,
    /// Devices of `llite` at the last scan.
    known: BTreeSet<String>,
    /// Mount points at the last scan: a client is in `llite` before its mount is complete.
    points: BTreeMap<String, String>,
    /// What the readings of each filesystem left.
    states: BTreeMap<String, Arc<Mutex<FilesystemState>>>,
    network: Arc<Mutex<LnetState>>,
}

impl LustreDevices {
    fn mounts(&self) -> Result<BTreeSet<String>, Error> {
        let devices = files::devices(&self.env, "llite")?;
        Ok(devices.into_iter().filter(|d| name::mount(d).is_some()).collect())
    }
}

impl Devices for LustreDevices {
    fn scan(&mut self) -> Result<Vec<Box<dyn Device>>, Error> {
        self.known = self.mounts()?;
        self.points = points::mount_points(&self.env);
        let names = self.known.iter().filter_map(|device| name::mount(device));
        let all: BTreeSet<&str> = names.map(|(fs, _)| fs).collect();
        self.states.retain(|fs, _| all.contains(fs.as_str()));
        let mut devices: Vec<Box<dyn Device>> = Vec::new();
        let room = TargetRoom::of(all.len());
        for fs in all {
            let new = || Arc::new(Mutex::new(FilesystemState::new(&self.env, fs, self.with_targets)));
            let state = Arc::clone(self.states.entry(fs.to_owned()).or_insert_with(new));
            let point = self.points.get(fs).map_or("", String::as_str);
            let device = FilesystemDevice::new(&self.env, fs, point, state, room);
            devices.push(Box::new(device));
        }
        devices.push(Box::new(LnetDevice::new(Arc::clone(&self.network))));
        Ok(devices)
    }

    fn changed(&mut self) -> bool {
        let is_other = self.mounts().is_ok_and(|now| now != self.known);
        is_other || (!self.known.is_empty() && points::mount_points(&self.env) != self.points)
    }
}

/// For fuzzing: every parser takes every text.
pub(crate) fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Some(stats) = stats::parse(&text) {
        assert!(stats.rows.keys().all(|name| !name.contains(char::is_whitespace)));
        let mut totals = totals::Totals::default();
        let mut rows = totals::Rows::default();
        totals.add(&mut rows, &stats);
        totals.add(&mut rows, &stats);
        for (name, row) in &stats.rows {
            assert_eq!(
                totals.count(name),
                Some(row.count),
                "unchanged counters do not grow"
            );
        }
    }
    if let Some(file) = state::parse(&text) {
        assert_eq!(state::news(&file.history, &file.history), 0);
    }
    import::parse(&text);
    import::last_reply(&text);
    rpc_stats::parse(&text);
    io_latency::parse(&text);
    fields::parse(&text);
    lnet::stats(&text);
    lnet::interfaces(&text);
    lnet::peers(&text);
    points::check(&text);
    filesystem::version(&text);
    if let Some((fs, instance)) = name::mount(text.trim()) {
        assert!(!fs.contains('/') && instance.len() == 16);
    }
}

#[cfg(test)]
mod tests;
