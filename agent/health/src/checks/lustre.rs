//! What the checks of Lustre share: which filesystems were read, and conditions that are over.

use std::collections::BTreeMap;
use std::time::Duration;

use collectors::lustre::metrics::{HEALTHY, TARGETS_STATE, UNREADABLE};

use crate::judge::Judge;
use model::snapshot::Sample;

/// The series of the collector of one snapshot.
pub(super) struct Client<'a> {
    /// When each mounted filesystem was read.
    pub filesystems: BTreeMap<&'a str, Duration>,
    /// When LNet was read, which shows that the collector works.
    pub network: Option<Duration>,
    samples: Vec<Sample<'a>>,
    at: Duration,
}

impl<'a> Client<'a> {
    pub(super) fn of(judge: &Judge<'a>) -> Self {
        let samples: Vec<Sample<'a>> = judge.snapshot.samples_of("lustre").collect();
        let mut client = Self {
            filesystems: BTreeMap::new(),
            network: None,
            samples: Vec::new(),
            at: judge.snapshot.at,
        };
        for sample in &samples {
            let at = judge.read_at(sample);
            if sample.metric == &TARGETS_STATE {
                client.filesystems.extend(sample.label("fs").map(|fs| (fs, at)));
            } else if sample.metric == &HEALTHY {
                client.network = Some(at);
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

    /// Whether files of a kind had no complete value.
    pub(super) fn lacks(&self, source: &str) -> bool {
        self.all(&UNREADABLE)
            .any(|sample| sample.label("source") == Some(source))
    }

    /// Whether a filesystem is no longer mounted: it has no series, though the collector works.
    pub(super) fn is_unmounted(&self, fs: &str) -> bool {
        self.network.is_some() && !self.filesystems.contains_key(fs)
    }
}
