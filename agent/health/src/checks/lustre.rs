//! What the checks of Lustre share: which filesystems were read, and conditions that are over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use collectors::SubjectKind;
use collectors::lustre::metrics::{HEALTHY, TARGETS_STATE, UNREADABLE};

use crate::judge::Judge;
use model::snapshot::{Presence, Sample};

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

    /// Whether a filesystem is no longer mounted: it is not listed and has no series, though the collector works.
    pub(super) fn is_unmounted(&self, fs: &str) -> bool {
        self.network.is_some() && !self.listed.contains(fs) && !self.filesystems.contains_key(fs)
    }
}
