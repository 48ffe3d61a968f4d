//! The GPUs as their driver shows them, for the checks about one GPU.

use std::collections::BTreeMap;
use std::time::Duration;

use collectors::gpu::metrics as m;
use collectors::{Metric, PciAddress, Subject, SubjectKind};

use super::Check;
use crate::condition::{Judged, Pace, Reading, USUAL};
use crate::finding::{Finding, Joins, Remedy};
use crate::judge::{Judge, evidence};
use model::derive::xid::{Inventory, gpu_label};
use model::snapshot::{Sample, Snapshot};

/// A driver that is loaded anew, a reset and a division into instances take GPUs away for a while.
pub static SLOW: Pace = Pace {
    bad: 4,
    bad_span: Duration::from_secs(60),
    good: 3,
    hold: Duration::from_secs(60),
};

/// For what a busy GPU shows now and then without being ill.
pub static LASTING: Pace = Pace {
    bad: 20,
    bad_span: Duration::from_secs(300),
    good: 20,
    hold: Duration::from_secs(300),
};

/// One GPU, with every series of its last reading. One that is late or could not be read has none.
pub struct Gpu<'a> {
    /// Its label: what the driver once called it, also where its series only have its address.
    pub label: String,
    /// Where it sits.
    pub pci: Option<PciAddress>,
    /// When it was read, as time since boot.
    pub at: Duration,
    samples: Vec<Sample<'a>>,
}

impl<'a> Gpu<'a> {
    /// The series of a metric.
    pub fn all(&self, metric: &'static Metric) -> impl Iterator<Item = &Sample<'a>> {
        self.samples.iter().filter(move |s| s.metric == metric)
    }

    /// The only series of a metric.
    pub fn one(&self, metric: &'static Metric) -> Option<&Sample<'a>> {
        self.all(metric).next()
    }

    /// The value of the only series of a metric.
    pub fn value(&self, metric: &'static Metric) -> Option<f64> {
        self.one(metric).map(Sample::as_f64).filter(|v| v.is_finite())
    }

    /// The series of a metric with these labels.
    pub fn with(&self, metric: &'static Metric, labels: &[(&str, &str)]) -> Option<&Sample<'a>> {
        self.all(metric)
            .find(|s| labels.iter().all(|(name, value)| s.label(name) == Some(*value)))
    }

    /// What it is about.
    pub fn subject(&self) -> Subject {
        Subject::gpu(&self.label)
    }

    /// Whether its driver answers for it.
    pub fn is_up(&self) -> Option<bool> {
        self.value(&m::UP).map(|up| up > 0.0)
    }

    /// Whether work runs on it, by its driver.
    pub fn is_busy(&self) -> bool {
        self.value(&m::UTILIZATION).is_some_and(|busy| busy >= 0.5)
    }

    /// A finding about a condition of this GPU; the check says the rest.
    pub fn finding(&self, check: &'static str) -> Finding {
        Finding {
            pci: self.pci.clone(),
            drains: true,
            joins: Joins::Attaches,
            ..Finding::of_condition(check, self.subject())
        }
    }
}

/// Every GPU of which a driver told in this snapshot.
pub fn gpus<'a>(snapshot: &'a Snapshot, inventory: &Inventory) -> Vec<Gpu<'a>> {
    let mut gpus: BTreeMap<&str, Gpu<'_>> = BTreeMap::new();
    for (_, sample) in snapshot.all_samples() {
        if sample.subject.kind != SubjectKind::Gpu || sample.metric.labels.first() != Some(&"gpu") {
            continue;
        }
        let Some(label) = sample.labels.first() else {
            continue;
        };
        let gpu = gpus.entry(label).or_insert_with(|| Gpu {
            label: match label.strip_prefix("pci:").and_then(PciAddress::parse) {
                Some(pci) => gpu_label(inventory, &pci),
                None => label.clone(),
            },
            pci: None,
            at: snapshot.at.saturating_sub(sample.age),
            samples: Vec::new(),
        });
        if sample.metric == &m::INFO {
            gpu.pci = sample.label("pci").and_then(PciAddress::parse);
        }
        gpu.samples.push(sample);
    }
    gpus.into_values().collect()
}

/// What one GPU says about a condition.
pub struct Opinion {
    /// What tells apart several conditions of one check; empty for the only one.
    pub of: &'static str,
    /// Well or not.
    pub reading: Reading,
    /// The finding, should it turn.
    pub finding: Finding,
}

/// Judges each GPU by itself. What `opinions` does not mention cannot be seen.
pub fn each<'a>(
    judge: &mut Judge<'a>,
    check: &'static Check,
    pace: &'static Pace,
    opinions: impl Fn(&mut Judge<'a>, &Gpu<'a>) -> Vec<Opinion>,
) -> Vec<Judged<'a>> {
    let mut judged = Vec::new();
    for gpu in gpus(judge.snapshot, judge.inventory) {
        for Opinion { of, reading, finding } in opinions(judge, &gpu) {
            judged.push(Judged {
                key: key(check.id, &gpu, of),
                subject: gpu.subject(),
                reading,
                at: gpu.at,
                pace,
                finding: Box::new(move |_| finding),
            });
        }
    }
    judged
}

/// What a counter must not do often: grow by so much from one reading to the next.
pub struct Bursts {
    /// The check.
    pub check: &'static Check,
    /// What tells it apart from other counters of the check; empty for the only one.
    pub of: &'static str,
    /// The counter.
    pub counter: for<'g, 'a> fn(&'g Gpu<'a>) -> Option<&'g Sample<'a>>,
    /// Growth that is a burst.
    pub burst: u64,
    /// What is found.
    pub detail: &'static str,
}

/// Bursts in an hour that are too many.
const BURSTS: usize = 3;
const HOUR_MS: u64 = 3600 * 1000;

/// Judges by how often each GPU's counter has leapt in the last hour. An hour without a leap is well, once it was watched.
pub fn each_by_bursts<'a>(judge: &mut Judge<'a>, row: &'static Bursts) -> Vec<Judged<'a>> {
    let now_ms = judge.now_ms();
    each(judge, row.check, &USUAL, move |judge, gpu| {
        let sample = (row.counter)(gpu);
        let Some(count) = whole(sample) else {
            return Vec::new();
        };
        let name = format!("{} bursts", key(row.check.id, gpu, row.of));
        let grown = judge.memory.growth(&name, count);
        let watched = judge.memory.watched(&name, judge.since_boot);
        judge.memory.note(&name, u64::from(grown >= row.burst), now_ms);
        let bursts = judge.memory.times(&name, HOUR_MS, now_ms).len();
        let reading = match bursts {
            BURSTS.. => Reading::Bad,
            0 if watched >= Duration::from_millis(HOUR_MS) => Reading::Good,
            _ => Reading::Unknown,
        };
        let expected = format!(
            "fewer than {BURSTS} bursts of {} an hour, had {bursts}",
            row.burst
        );
        vec![Opinion {
            of: row.of,
            reading,
            finding: Finding {
                detail: row.detail.to_owned(),
                remedy: Remedy::Inspect,
                evidence: line(sample, &expected),
                ..gpu.finding(row.check.id)
            },
        }]
    })
}

/// The condition's key, by an address that outlives a renaming where there is one.
pub fn key(check: &str, gpu: &Gpu<'_>, of: &str) -> String {
    let place = gpu.pci.as_ref().map_or(gpu.label.as_str(), |pci| pci.0.as_str());
    let key = format!("{check} {place} {of}");
    key.trim_end().to_owned()
}

/// Whether a flag is set: what is neither 0 nor 1 says nothing.
pub fn flag(sample: Option<&Sample<'_>>) -> Reading {
    match sample.map(Sample::as_f64) {
        Some(0.0) => Reading::Good,
        Some(1.0) => Reading::Bad,
        _ => Reading::Unknown,
    }
}

/// The line behind it.
pub fn line(sample: Option<&Sample<'_>>, expected: &str) -> String {
    sample.map(|s| evidence(s, expected)).unwrap_or_default()
}

/// A whole number, where it is one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counters below 2^53, checked"
)]
pub fn whole(sample: Option<&Sample<'_>>) -> Option<u64> {
    match sample?.value {
        collectors::Value::U64(v) => Some(v),
        collectors::Value::F64(v) if (0.0..9e15).contains(&v) => Some(v as u64),
        _ => None,
    }
}
