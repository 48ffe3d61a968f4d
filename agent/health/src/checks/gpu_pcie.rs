//! Checks `gpu-pcie-slow` and `gpu-pcie-replays`: the PCIe link of a GPU under load, by its driver.

use collectors::gpu::metrics as m;
use collectors::host::metrics::{PCI_LINK_SPEED_MAX, PCI_LINK_WIDTH_MAX};
use collectors::host::pcie;
use collectors::{Metric, SubjectKind, Value};

use super::gpu::{Bursts, LASTING, Leaps, Opinion, each, found, line};
use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Reading};
use crate::finding::{Finding, Remedy};
use crate::judge::Judge;
use crate::reads::gpu::Gpu;

/// The row of the speed.
pub static SLOW_LINK: Check = Check {
    id: "gpu-pcie-slow",
    subject: SubjectKind::Gpu,
    fires_when: "The PCIe link of a GPU with at least 50 % utilization has a lower generation or fewer lanes than both ends support.",
    lasting: "20 consecutive readings, at least 300 s",
    clears_when: "20 consecutive readings, at least 300 s, at the highest generation with all lanes.",
    ignored_when: "GPUs below 50 % utilization: they lower the generation automatically. Virtual machines that do not show the slot. Lanes of links of generation 6 and above.",
    scope: Scope::Node,
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Looks::start(slow),
};

/// The row of the replays.
pub static REPLAYS: Check = Check {
    id: "gpu-pcie-replays",
    subject: SubjectKind::Gpu,
    fires_when: "The PCIe replay count of a GPU grows by at least 100 between two readings, 3 times in 1 h.",
    lasting: "2 consecutive readings, at least 10 s",
    clears_when: "No such growth for 1 h, confirmed by 3 consecutive readings, at least 60 s.",
    ignored_when: "",
    scope: Scope::Node,
    may: May::Observe,
    since: Version(0, 1, 0),
    watch: || Leaps::start(std::slice::from_ref(&LEAPS)),
};

/// The error rate that the PCIe standard permits gives up to 31 replays per minute on the fastest links.
const BURST: u64 = 100;

/// Whether the link has the highest generation and all lanes that both ends support. The driver's maximum is that of the GPU
/// alone where it does not see the slot, or ignores its lanes: one that is not reached is compared with the bus.
fn is_full(judge: &Judge<'_>, gpu: &Gpu<'_>) -> Option<bool> {
    let pair = |now, max| {
        let (now, max) = (gpu.value(now)?, gpu.value(max)?);
        (now > 0.0 && max > 0.0).then_some((now, max))
    };
    let (generation, best) = pair(&m::PCIE_GENERATION, &m::PCIE_GENERATION_MAX)?;
    let (lanes, all) = pair(&m::PCIE_WIDTH, &m::PCIE_WIDTH_MAX)?;
    if generation >= best && lanes >= all {
        return Some(true);
    }
    let on_bus = |metric: &'static Metric| {
        let address = gpu.pci.as_ref()?;
        let mut samples = judge.snapshot.samples(metric);
        let sample = samples.find(|s| s.label("pci") == Some(address.0.as_str()))?;
        match sample.value {
            Value::U64(value) => Some(value),
            _ => None,
        }
    };
    let newest = pcie::generation(on_bus(&PCI_LINK_SPEED_MAX)?)?;
    let (newest, width) = (whole(newest)?, whole(on_bus(&PCI_LINK_WIDTH_MAX)?)?);
    let (is_newest, is_wide) = (generation >= best.min(newest), lanes >= all.min(width));
    let may_idle = generation >= f64::from(pcie::L0P_GENERATION);
    (!is_newest || is_wide || !may_idle).then_some(is_newest && is_wide)
}

/// A generation or a number of lanes, as drivers' values are.
fn whole(number: u64) -> Option<f64> {
    u32::try_from(number).ok().map(f64::from)
}

fn slow<'a>(judge: &Judge<'a>, _: &mut ()) -> Vec<Judged<'a>> {
    each(judge, &SLOW_LINK, &LASTING, |gpu| {
        let reading = match is_full(judge, gpu) {
            Some(true) => Reading::Good,
            Some(false) if gpu.is_busy() => Reading::Bad,
            _ => Reading::Unknown,
        };
        vec![Opinion::new("", reading, || {
            let best = |metric| gpu.value(metric).unwrap_or_default();
            let generation = line(
                gpu.one(&m::PCIE_GENERATION),
                &best(&m::PCIE_GENERATION_MAX).to_string(),
            );
            let width = line(gpu.one(&m::PCIE_WIDTH), &best(&m::PCIE_WIDTH_MAX).to_string());
            Finding {
                detail: "PCIe link below its best under load".to_owned(),
                remedy: Remedy::Reboot,
                evidence: format!("{generation}; {width}"),
                ..found(gpu, SLOW_LINK.id)
            }
        })]
    })
}

static LEAPS: Bursts = Bursts {
    check: &REPLAYS,
    of: "",
    counter: |gpu| gpu.one(&m::PCIE_REPLAYS),
    burst: BURST,
    detail: "many PCIe replays",
};
