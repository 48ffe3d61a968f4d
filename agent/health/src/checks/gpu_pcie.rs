//! Checks `gpu-pcie-slow` and `gpu-pcie-replays`: the PCIe link of a GPU under load, by its driver.

use collectors::SubjectKind;
use collectors::gpu::metrics as m;

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
    ignored_when: "GPUs below 50 % utilization: they lower the generation automatically.",
    scope: Scope::Node,
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    runbook: "docs/runbooks/gpu-pcie-slow.md",
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
    runbook: "docs/runbooks/gpu-pcie-replays.md",
    watch: || Leaps::start(std::slice::from_ref(&LEAPS)),
};

/// The error rate that the PCIe standard permits gives up to 31 replays per minute on the fastest links.
const BURST: u64 = 100;

/// Whether the link has the highest generation and all lanes that both ends support.
fn is_full(gpu: &Gpu<'_>) -> Option<bool> {
    let pair = |now, max| {
        let (now, max) = (gpu.value(now)?, gpu.value(max)?);
        (now > 0.0 && max > 0.0).then_some(now >= max)
    };
    let generation = pair(&m::PCIE_GENERATION, &m::PCIE_GENERATION_MAX);
    let width = pair(&m::PCIE_WIDTH, &m::PCIE_WIDTH_MAX);
    match (generation, width) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn slow<'a>(judge: &Judge<'a>, _: &mut ()) -> Vec<Judged<'a>> {
    each(judge, &SLOW_LINK, &LASTING, |gpu| {
        let reading = match is_full(gpu) {
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
