//! Shared code of the checks about one GPU.

use std::time::Duration;

use model::snapshot::Sample;

use super::growth::HOUR_MS;
use super::{Check, Watch};
use crate::condition::{Judged, Pace, Reading, USUAL};
use crate::counts::{Counters, Times, Watched};
use crate::finding::{Finding, Joins, Remedy};
use crate::judge::{Judge, evidence};
use crate::reads::gpu::{Gpu, whole};

/// Longer than a driver reload, a reset or a change of MIG instances.
pub(super) static SLOW: Pace = Pace {
    bad: 4,
    bad_span: Duration::from_secs(60),
    good: 3,
    hold: Duration::from_secs(60),
};

/// For states that a healthy busy GPU enters for short times.
pub(super) static LASTING: Pace = Pace {
    bad: 20,
    bad_span: Duration::from_secs(300),
    good: 20,
    hold: Duration::from_secs(300),
};

/// A finding about a condition of a GPU, without the details of the check.
pub(super) fn found(gpu: &Gpu<'_>, check: &'static str) -> Finding {
    Finding {
        pci: gpu.pci.clone(),
        drains: true,
        joins: Joins::Attaches,
        ..Finding::of_condition(check, gpu.subject())
    }
}

/// The reading of one GPU for a condition.
pub(super) struct Opinion<'a> {
    of: &'static str,
    reading: Reading,
    finding: Box<dyn FnOnce() -> Finding + 'a>,
}

impl<'a> Opinion<'a> {
    /// `of`: distinguishes several conditions of one check; empty for a single one. `finding`: made if the condition changes, most never
    /// do.
    pub(super) fn new(of: &'static str, reading: Reading, finding: impl FnOnce() -> Finding + 'a) -> Self {
        let finding = Box::new(finding);
        Self { of, reading, finding }
    }
}

/// Judges each GPU separately. A condition that `opinions` does not list is unknown.
pub(super) fn each<'a>(
    judge: &Judge<'a>,
    check: &'static Check,
    pace: &'static Pace,
    mut opinions: impl FnMut(&'a Gpu<'a>) -> Vec<Opinion<'a>>,
) -> Vec<Judged<'a>> {
    let mut judged = Vec::new();
    for gpu in judge.gpus {
        for Opinion { of, reading, finding } in opinions(gpu) {
            judged.push(Judged {
                key: key(check.id, gpu, of),
                subject: gpu.subject(),
                reading,
                at: gpu.at,
                pace,
                finding: Box::new(move |_| finding()),
            });
        }
    }
    judged
}

/// A counter, and the growth between two readings that must not be frequent.
pub(super) struct Bursts {
    /// The check.
    pub check: &'static Check,
    /// Distinguishes several counters of one check; empty for a single one.
    pub of: &'static str,
    /// The counter.
    pub counter: for<'g, 'a> fn(&'g Gpu<'a>) -> Option<&'g Sample<'a>>,
    /// The least growth that is a burst.
    pub burst: u64,
    /// The detail of the finding.
    pub detail: &'static str,
}

/// Bursts in an hour that are a finding.
const BURSTS: usize = 3;

/// Judges the number of bursts of each counter in the last hour. An hour of readings without a burst is healthy.
pub(super) struct Leaps {
    rows: &'static [Bursts],
    bursts: Times,
    counters: Counters<(String, &'static str)>,
    watched: Watched<(String, &'static str)>,
}

impl Leaps {
    /// Starts with no counts.
    pub(super) fn start(rows: &'static [Bursts]) -> Box<dyn Watch> {
        Box::new(Self {
            rows,
            bursts: Times::default(),
            counters: Counters::default(),
            watched: Watched::default(),
        })
    }

    fn opinion<'a>(
        &mut self,
        judge: &Judge<'a>,
        row: &'static Bursts,
        gpu: &'a Gpu<'a>,
    ) -> Option<Opinion<'a>> {
        let sample = (row.counter)(gpu);
        let count = whole(sample)?;
        let name = (gpu.place().to_owned(), row.of);
        let watched = self.watched.read(name.clone(), judge.since_boot());
        let is_burst = self.counters.growth(name, count) >= row.burst;
        self.bursts.note(judge, gpu.place(), row.of, u64::from(is_burst));
        let bursts = self.bursts.of(gpu.place(), row.of, HOUR_MS, judge.now_ms()).len();
        let reading = match bursts {
            BURSTS.. => Reading::Bad,
            0 if watched >= Duration::from_millis(HOUR_MS) => Reading::Good,
            _ => Reading::Unknown,
        };
        Some(Opinion::new(row.of, reading, move || {
            let expected = format!(
                "fewer than {BURSTS} bursts of {} an hour, had {bursts}",
                row.burst
            );
            Finding {
                detail: row.detail.to_owned(),
                remedy: Remedy::Inspect,
                evidence: line(sample, &expected),
                ..found(gpu, row.check.id)
            }
        }))
    }
}

impl Watch for Leaps {
    fn look<'a>(&mut self, judge: &Judge<'a>) -> Vec<Judged<'a>> {
        let rows = self.rows.iter();
        rows.flat_map(|row| {
            each(judge, row.check, &USUAL, |gpu| {
                self.opinion(judge, row, gpu).into_iter().collect()
            })
        })
        .collect()
    }

    fn times(&mut self) -> Option<&mut Times> {
        Some(&mut self.bursts)
    }
}

/// The key of the condition, by PCI address if known: names change.
pub(super) fn key(check: &str, gpu: &Gpu<'_>, of: &str) -> String {
    let key = format!("{check} {} {of}", gpu.place());
    key.trim_end().to_owned()
}

/// The reading of a flag: 1 is bad, other values than 0 and 1 are unknown.
pub(super) fn flag(sample: Option<&Sample<'_>>) -> Reading {
    match sample.map(Sample::as_f64) {
        Some(0.0) => Reading::Good,
        Some(1.0) => Reading::Bad,
        _ => Reading::Unknown,
    }
}

/// The evidence of a sample.
pub(super) fn line(sample: Option<&Sample<'_>>, expected: &str) -> String {
    sample.map(|s| evidence(s, expected)).unwrap_or_default()
}
