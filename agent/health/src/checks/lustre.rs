//! What the checks of Lustre share: which filesystems were read, and conditions that are over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use collectors::SubjectKind;
use collectors::lustre::metrics::{HEALTHY, TARGET_STATE, TARGETS_STATE, UNREADABLE};

use crate::judge::Judge;
use model::snapshot::{Presence, Sample};

/// The collector names at most this many targets of a filesystem.
const NAMED: usize = 64;

/// The series of the collector of one snapshot.
pub(super) struct Client<'a> {
    /// When each mounted filesystem was read.
    pub filesystems: BTreeMap<&'a str, Duration>,
    /// The mounted filesystems, read or not.
    listed: BTreeSet<&'a str>,
    /// When LNet was read, or that its modules are not loaded, which shows that the collector works.
    pub network: Option<Duration>,
    /// Whether Lustre's modules are not loaded.
    is_unloaded: bool,
    samples: Vec<Sample<'a>>,
    at: Duration,
}

impl<'a> Client<'a> {
    pub(super) fn of(judge: &Judge<'a>) -> Self {
        let samples: Vec<Sample<'a>> = judge.snapshot.samples_of("lustre").collect();
        let mut client = Self {
            filesystems: BTreeMap::new(),
            listed: BTreeSet::new(),
            network: None,
            is_unloaded: false,
            samples: Vec::new(),
            at: judge.snapshot.at,
        };
        // Without its modules when nodewarden started.
        let collector = judge.snapshot.collector("lustre");
        let devices = collector.into_iter().flat_map(|c| &c.devices);
        let filesystems = devices.filter(|d| d.subject.kind == SubjectKind::Filesystem);
        client.listed = filesystems.map(|d| d.subject.name.as_str()).collect();
        if collector.is_some_and(|c| c.presence == Presence::NotHere) {
            (client.network, client.is_unloaded) = (Some(client.at), true);
        }
        for sample in &samples {
            let at = judge.read_at(sample);
            if sample.metric == &TARGETS_STATE {
                client.filesystems.extend(sample.label("fs").map(|fs| (fs, at)));
            } else if sample.metric == &HEALTHY {
                client.network = Some(at);
            } else if sample.metric == &UNREADABLE
                && sample.label("source") == Some("health_check")
                && sample.label("reason") == Some("absent")
            {
                // Unloaded since. Every release has this file while they are loaded.
                (client.network, client.is_unloaded) = (Some(at), true);
            }
        }
        client.samples = samples;
        client
    }

    /// The series of a metric.
    pub(super) fn all(&self, metric: &'static collectors::Metric) -> impl Iterator<Item = &Sample<'a>> {
        self.samples.iter().filter(move |sample| sample.metric == metric)
    }

    /// When a sample was read, as time since boot.
    pub(super) fn read_at(&self, sample: &Sample<'_>) -> Duration {
        self.at.saturating_sub(sample.age)
    }

    /// Whether files of a kind had no complete value, although the modules are loaded.
    pub(super) fn lacks(&self, source: &str) -> bool {
        !self.is_unloaded
            && self
                .all(&UNREADABLE)
                .any(|sample| sample.label("source") == Some(source))
    }

    /// Whether every target of a filesystem without a connection is listed.
    pub(super) fn is_complete(&self, fs: &str) -> bool {
        let mut unreadable = self
            .all(&TARGETS_STATE)
            .filter(|s| s.label("fs") == Some(fs) && s.label("state") == Some("unreadable"));
        let named = self.all(&TARGET_STATE).filter(|s| s.label("fs") == Some(fs));
        unreadable.all(|sample| sample.as_f64() == 0.0) && named.count() < NAMED
    }

    /// Whether a reading after `since` (since boot) shows that a target (`scratch-OST0001`) has a connection, or that its
    /// filesystem is not mounted.
    pub(super) fn is_connected(&self, target: &str, since: Duration) -> bool {
        let Some((fs, index)) = target.rsplit_once('-') else {
            return false;
        };
        // Others are of a server: `scratch-OST0000-osc-MDT0000`.
        let is_clients = !fs.contains("-OST") && !fs.contains("-MDT");
        if !is_clients || !(index.starts_with("OST") || index.starts_with("MDT")) {
            return false;
        }
        let is_down = || self.all(&TARGET_STATE).any(|s| s.label("target") == Some(target));
        match (self.filesystems.get(fs), self.network) {
            (Some(at), _) => *at > since && self.is_complete(fs) && !is_down(),
            (None, at) => self.is_unmounted(fs) && at.is_some_and(|at| at > since),
        }
    }

    /// Whether the filesystem of a target has one that is deactivated: no series names it.
    pub(super) fn has_deactivated(&self, target: &str) -> bool {
        let fs = target.rsplit_once('-').map_or("", |(fs, _)| fs);
        self.all(&TARGETS_STATE).any(|s| {
            s.label("fs") == Some(fs) && s.label("state") == Some("deactivated") && s.as_f64() != 0.0
        })
    }

    /// Whether a filesystem is no longer mounted: it is not listed and has no series, though the collector works.
    pub(super) fn is_unmounted(&self, fs: &str) -> bool {
        self.network.is_some() && !self.listed.contains(fs) && !self.filesystems.contains_key(fs)
    }
}
