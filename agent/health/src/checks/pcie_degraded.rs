//! Check `pcie-degraded`: a PCIe link with fewer lanes or a lower speed than both ends support.

use std::collections::BTreeMap;
use std::time::Duration;

use collectors::host::metrics::{
    PCI_DEVICE_INFO, PCI_LINK_SPEED, PCI_LINK_SPEED_MAX, PCI_LINK_WIDTH, PCI_LINK_WIDTH_MAX,
};
use collectors::host::pcie::L0P_GIGATRANSFERS;
use collectors::{Metric, PciAddress, Subject, SubjectKind};

use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Pace, Reading};
use crate::finding::{Finding, Joins, Remedy};
use crate::judge::{Judge, evidence};
use crate::reads::host::Place;
use model::derive::xid::gpu_label;
use model::snapshot::Sample;

/// The row.
pub static CHECK: Check = Check {
    id: "pcie-degraded",
    subject: SubjectKind::Pci,
    fires_when: "A PCIe link of a GPU or RDMA adapter has fewer lanes than both ends support. Or the link of an RDMA adapter is slower than both ends support. Or the uplink of a PCIe switch above one lacks lanes: shown, never drains.",
    lasting: "4 consecutive readings, at least 60 s",
    clears_when: "3 consecutive readings, at least 60 s, with all lanes and, for RDMA adapters, full speed.",
    ignored_when: "The speed of GPU links, which drops when they are idle, and with some drivers their lanes at 2.5 GT/s. Lanes of links at 64 GT/s and above. GPUs that do not respond or are assigned to a virtual machine.",
    scope: Scope::Node,
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Looks::start(conditions),
};

/// A reset or driver reload retrains the link.
static PACE: Pace = Pace {
    bad: 4,
    bad_span: Duration::from_secs(60),
    good: 3,
    hold: Duration::from_secs(60),
};

/// The most lanes of a link. A function without power reads as more.
const MAX_WIDTH: f64 = 32.0;

/// The lowest speed of a link, 2.5 GT/s, and 1 % more.
const LOWEST: f64 = 2.525e9;

/// One PCI function.
#[derive(Default)]
struct Function<'a> {
    info: Option<Sample<'a>>,
    width: Option<Sample<'a>>,
    width_max: Option<Sample<'a>>,
    speed: Option<Sample<'a>>,
    speed_max: Option<Sample<'a>>,
}

/// Whether `now` reaches `max`. `None`: a value is missing or impossible.
fn is_full(now: Option<f64>, max: Option<f64>) -> Option<bool> {
    let (now, max) = (now?, max?);
    // Speeds differ by far more than 1 %.
    (now > 0.0 && max > 0.0 && now <= max * 1.01).then_some(now >= max * 0.99)
}

fn value(sample: Option<&Sample<'_>>) -> Option<f64> {
    sample.map(Sample::as_f64).filter(|v| v.is_finite())
}

fn lanes(sample: Option<&Sample<'_>>) -> Option<f64> {
    value(sample).filter(|v| *v <= MAX_WIDTH)
}

impl Function<'_> {
    fn label(&self, name: &str) -> &str {
        self.info.as_ref().and_then(|i| i.label(name)).unwrap_or_default()
    }

    /// The upstream port of a switch.
    fn is_switch(&self) -> bool {
        self.label("function") == "switch"
    }

    fn has_all_lanes(&self) -> Option<bool> {
        let is_full = is_full(lanes(self.width.as_ref()), lanes(self.width_max.as_ref()))?;
        let l0p = 1e9 * f64::from(L0P_GIGATRANSFERS);
        let may_idle = value(self.speed.as_ref()).is_some_and(|speed| speed >= l0p);
        (is_full || !may_idle).then_some(is_full)
    }

    /// GPUs lower the speed of their link when idle. Only RDMA adapters are known to keep it.
    fn has_full_speed(&self) -> Option<bool> {
        if self.label("function") == "rdma" {
            is_full(value(self.speed.as_ref()), value(self.speed_max.as_ref()))
        } else {
            Some(true)
        }
    }

    /// Whether the link runs at the lowest speed, although it has others.
    fn is_slowest(&self) -> bool {
        let (now, max) = (value(self.speed.as_ref()), value(self.speed_max.as_ref()));
        now.is_some_and(|speed| speed <= LOWEST) && max.is_some_and(|speed| speed > LOWEST)
    }

    fn reading(&self) -> Reading {
        match (self.has_all_lanes(), self.has_full_speed()) {
            (Some(false), _) | (_, Some(false)) => Reading::Bad,
            (Some(true), Some(true)) => Reading::Good,
            _ => Reading::Unknown,
        }
    }

    fn finding(&self, address: &PciAddress, subject: Subject) -> Finding {
        let mut detail = if self.is_switch() {
            "uplink of PCIe switch"
        } else {
            "PCIe link"
        }
        .to_owned();
        let mut lines = Vec::new();
        if let (Some(false), Some(now), Some(max)) = (self.has_all_lanes(), &self.width, &self.width_max) {
            detail.push_str(&format!(" x{} of x{}", now.as_f64(), max.as_f64()));
            lines.push(evidence(now, &format!("{} ({})", max.as_f64(), max.metric.name)));
        }
        if let (Some(false), Some(now), Some(max)) = (self.has_full_speed(), &self.speed, &self.speed_max) {
            let (have, want) = (now.as_f64() / 1e9, max.as_f64() / 1e9);
            detail.push_str(&format!(" at {have} of {want} GT/s"));
            lines.push(evidence(now, &format!("{} ({})", max.as_f64(), max.metric.name)));
        }
        let parent = self.label("parent");
        if !parent.is_empty() {
            // Several functions below one port: the fault is the port's link or its carrier.
            detail.push_str(&format!(" below {parent}"));
        }
        Finding {
            pci: Some(address.clone()),
            detail,
            remedy: Remedy::Reboot,
            // Boards may wire fewer lanes between switches than their ends claim.
            drains: !self.is_switch(),
            joins: Joins::Opens,
            evidence: lines.join("; "),
            ..Finding::of_condition(CHECK.id, subject)
        }
    }
}

fn functions<'a>(judge: &Judge<'a>) -> BTreeMap<PciAddress, Function<'a>> {
    let snapshot = judge.snapshot;
    let mut functions: BTreeMap<PciAddress, Function<'a>> = BTreeMap::new();
    let mut fill = |metric: &'static Metric, put: fn(&mut Function<'a>, Sample<'a>)| {
        for sample in snapshot.samples(metric) {
            if let Some(address) = sample.label("pci").and_then(PciAddress::parse) {
                put(functions.entry(address).or_default(), sample);
            }
        }
    };
    fill(&PCI_DEVICE_INFO, |f, sample| f.info = Some(sample));
    fill(&PCI_LINK_WIDTH, |f, sample| f.width = Some(sample));
    fill(&PCI_LINK_WIDTH_MAX, |f, sample| f.width_max = Some(sample));
    fill(&PCI_LINK_SPEED, |f, sample| f.speed = Some(sample));
    fill(&PCI_LINK_SPEED_MAX, |f, sample| f.speed_max = Some(sample));
    functions
}

fn conditions<'a>(judge: &Judge<'a>, _: &mut ()) -> Vec<Judged<'a>> {
    let mut judged = Vec::new();
    for (address, function) in functions(judge) {
        let place = judge.host.place(&address);
        let is_gpu = function.label("function") == "gpu" || matches!(place, Place::Present(_));
        // The link of a GPU that does not respond or is assigned to a virtual machine is unknown.
        let is_visible = !is_gpu || matches!(place, Place::Present(_));
        let subject = if is_gpu {
            Subject::gpu(gpu_label(judge.inventory, &address))
        } else {
            Subject::new(SubjectKind::Pci, address.0.as_str())
        };
        let at = function
            .width
            .as_ref()
            .or(function.speed.as_ref())
            .map_or(judge.since_boot(), |s| judge.read_at(s));
        judged.push(Judged {
            key: format!("{} {address}", CHECK.id),
            subject: subject.clone(),
            reading: match function.reading() {
                _ if !is_visible => Reading::Unknown,
                // The link of an idle GPU. Under load, gpu-pcie-slow judges it too.
                Reading::Bad if judge.host.drops_lanes(&address) && function.is_slowest() => Reading::Unknown,
                reading => reading,
            },
            at,
            pace: &PACE,
            finding: Box::new(move |_| function.finding(&address, subject)),
        });
    }
    judged
}

#[cfg(test)]
mod tests {
    use super::is_full;

    #[test]
    fn what_makes_no_sense_is_unknown() {
        for (now, max, expected) in [
            (Some(16.0), Some(16.0), Some(true)),
            (Some(8.0), Some(16.0), Some(false)),
            (Some(2.5e9), Some(32e9), Some(false)),
            (Some(0.0), Some(16.0), None),
            (Some(16.0), Some(0.0), None),
            // A virtual port above a real function.
            (Some(16.0), Some(1.0), None),
            (None, Some(16.0), None),
            (Some(16.0), None, None),
        ] {
            assert_eq!(is_full(now, max), expected, "{now:?} {max:?}");
        }
    }
}
