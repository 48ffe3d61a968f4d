//! The GPUs of a snapshot, with all their series.

use std::collections::BTreeMap;
use std::time::Duration;

use collectors::gpu::metrics as m;
use collectors::{Metric, PciAddress, Subject, SubjectKind};

use super::by_metric::ByMetric;
use super::links::Links;
use crate::finding::Need;
use model::derive::xid::{Inventory, gpu_label};
use model::snapshot::{Sample, Snapshot};

/// One GPU, with the series of its last reading. A late or unreadable GPU has none.
#[derive(Debug)]
pub struct Gpu<'a> {
    /// Its label: the name once reported by the driver, even if its series have only its address.
    pub label: String,
    /// Its PCI address.
    pub pci: Option<PciAddress>,
    /// The time since boot of its reading.
    pub at: Duration,
    /// Its NVLinks or XGMI links, if it has any and they could be read.
    pub links: Option<Links>,
    series: ByMetric<'a>,
}

impl<'a> Gpu<'a> {
    /// The series of a metric.
    pub fn all(&self, metric: &'static Metric) -> impl Iterator<Item = &Sample<'a>> {
        self.series.all(metric)
    }

    /// The only series of a metric.
    pub fn one(&self, metric: &'static Metric) -> Option<&Sample<'a>> {
        self.series.one(metric)
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

    /// Its place: the PCI address, which survives a renaming, or else its label.
    pub fn place(&self) -> &str {
        self.pci
            .as_ref()
            .map_or(self.label.as_str(), |pci| pci.0.as_str())
    }

    /// Its subject.
    pub fn subject(&self) -> Subject {
        Subject::gpu(&self.label)
    }

    /// Whether its driver responds for it.
    pub fn is_up(&self) -> Option<bool> {
        self.value(&m::UP).map(|up| up > 0.0)
    }

    /// Why its driver does not respond for it, in the word of its series.
    pub fn why_down(&self) -> &str {
        let info = self.one(&m::UNAVAILABLE_INFO);
        info.and_then(|i| i.label("reason")).unwrap_or("unknown")
    }

    /// Whether its driver does not respond for it before it was reset (NVML_ERROR_GPU_IS_LOST and
    /// NVML_ERROR_RESET_REQUIRED).
    pub fn is_lost(&self) -> bool {
        self.is_up() == Some(false) && matches!(self.why_down(), "lost" | "reset_required")
    }

    /// Whether its utilization is at least 50 %.
    pub fn is_busy(&self) -> bool {
        self.value(&m::UTILIZATION).is_some_and(|busy| busy >= 0.5)
    }

    /// Whether its readings show that a need is met.
    pub fn shows(&self, need: Need) -> bool {
        self.is_met(need) == Some(true)
    }

    /// Whether a need is met. `None`: not read. A flag that such a GPU does not have is met.
    pub fn is_met(&self, need: Need) -> Option<bool> {
        let is_clear = |flag, lacks: bool| {
            let read = self.value(flag).map(|flag| flag == 0.0);
            read.or_else(|| lacks.then_some(true))
        };
        let (is_old, lacks_remaps) = (self.remaps_no_rows(), self.lacks_remaps());
        match need {
            Need::RemapPending => all([
                is_clear(&m::ROW_REMAP_PENDING, lacks_remaps),
                is_clear(&m::RETIRED_PAGES_PENDING, true),
            ]),
            Need::RemapFailure => is_clear(&m::ROW_REMAP_FAILURE, lacks_remaps),
            Need::SramThreshold => is_clear(&m::ECC_SRAM_THRESHOLD, is_old || self.lacks_sram()),
            Need::LinksActive => self.links.map(|links| links.is_whole()),
            // The intended state is unknown, and no reading shows it.
            Need::LinksAsIntended => Some(false),
        }
    }
}

impl Gpu<'_> {
    /// Its architecture, in the word of the driver's library: `hopper`.
    pub fn architecture(&self) -> Option<&str> {
        self.one(&m::INFO)?.label("architecture")
    }

    /// The name of its product: `NVIDIA H100 80GB HBM3`.
    pub fn product(&self) -> Option<&str> {
        let name = self.one(&m::INFO)?.label("name");
        name.filter(|name| !name.is_empty())
    }

    /// The version of its driver.
    pub fn driver(&self) -> Option<&str> {
        self.one(&m::INFO)?.label("driver")
    }

    /// Whether it retires pages in place of rows, and has no threshold for errors of its SRAM: before Ampere.
    fn remaps_no_rows(&self) -> bool {
        let old = ["kepler", "maxwell", "pascal", "volta", "turing"];
        self.architecture().is_some_and(|name| old.contains(&name))
    }

    /// Whether its driver has no function for errors of its SRAM, which is not a call that fails.
    fn lacks_sram(&self) -> bool {
        self.value(&m::ECC_SRAM_LACKING) == Some(1.0)
    }

    /// Whether its driver shows no remaps of it: nvidia-smi of an H200 with MIG has `N/A` there.
    fn lacks_remaps(&self) -> bool {
        let unread = self.all(&m::UNREAD_VALUES).map(Sample::as_f64);
        let is_whole = unread.into_iter().all(|count| count == 0.0);
        self.remaps_no_rows() || (is_whole && self.value(&m::MIG_MODE) == Some(1.0))
    }
}

/// Every GPU that a driver reports in this snapshot.
pub fn gpus<'a>(snapshot: &'a Snapshot, inventory: &Inventory) -> Vec<Gpu<'a>> {
    let mut gpus: BTreeMap<&str, Vec<Sample<'a>>> = BTreeMap::new();
    for sample in snapshot.samples_of_kind(SubjectKind::Gpu) {
        if let (["gpu", ..], [label, ..]) = (sample.metric.labels, sample.labels) {
            gpus.entry(label).or_default().push(sample);
        }
    }
    let gpu = |(label, samples): (&str, Vec<Sample<'a>>)| {
        let age = samples.first().map_or(Duration::ZERO, |s| s.age);
        let series = ByMetric::new(samples);
        let info = series.all(&m::INFO).last();
        Gpu {
            label: match label.strip_prefix("pci:").and_then(PciAddress::parse) {
                Some(pci) => gpu_label(inventory, &pci),
                None => label.to_owned(),
            },
            pci: info.and_then(|s| s.label("pci")).and_then(PciAddress::parse),
            at: snapshot.at.saturating_sub(age),
            links: None,
            series,
        }
    };
    gpus.into_iter().map(gpu).collect()
}

/// Whether all of it is so: one that is not decides, then one that is unknown (`None`).
pub fn all(facts: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    let both = |one: Option<bool>, other: Option<bool>| match (one, other) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (None, _) | (_, None) => None,
        (Some(true), Some(true)) => Some(true),
    };
    facts.into_iter().fold(Some(true), both)
}

/// The value as a whole number, if it is one.
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
