//! Check `gpu-row-remap`: pending and failed repairs of a GPU, and its InfoROM, which records them.

use collectors::gpu::metrics as m;
use collectors::{Metric, SubjectKind};

use super::gpu::{Opinion, each, flag, found, line};
use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Reading, USUAL};
use crate::finding::{Finding, Remedy};
use crate::judge::Judge;
use crate::reads::gpu::Gpu;

/// The row.
pub static CHECK: Check = Check {
    id: "gpu-row-remap",
    subject: SubjectKind::Gpu,
    fires_when: "A row remap of a GPU is pending until a reset or failed, or a page retirement is pending until a reboot. A pending repair of a memory channel or TPC, or a corrupted InfoROM: shown, never drains.",
    lasting: "2 consecutive readings, at least 10 s",
    clears_when: "3 consecutive readings, at least 60 s, in which the driver reports nothing pending or failed.",
    ignored_when: "",
    scope: Scope::Node,
    may: May::Drain,
    since: Version(0, 1, 0),
    watch: || Looks::start(conditions),
};

/// One fault.
struct Fault {
    of: &'static str,
    metric: &'static Metric,
    labels: &'static [(&'static str, &'static str)],
    detail: &'static str,
    remedy: Remedy,
    /// 1 is healthy, and 0 the fault.
    is_inverted: bool,
    /// Work goes on, so jobs may too.
    comments_only: bool,
}

const fn fault(of: &'static str, metric: &'static Metric, detail: &'static str, remedy: Remedy) -> Fault {
    Fault {
        of,
        metric,
        labels: &[],
        detail,
        remedy,
        is_inverted: false,
        comments_only: false,
    }
}

/// A repair besides that of rows.
const fn repair(
    of: &'static str,
    labels: &'static [(&'static str, &'static str)],
    detail: &'static str,
) -> Fault {
    Fault {
        labels,
        comments_only: true,
        ..fault(of, &m::REPAIR_PENDING, detail, Remedy::ResetGpu)
    }
}

static FAULTS: [Fault; 6] = [
    fault(
        "failure",
        &m::ROW_REMAP_FAILURE,
        "row remap failed",
        Remedy::Inspect,
    ),
    fault(
        "pending",
        &m::ROW_REMAP_PENDING,
        "row remap pending",
        Remedy::ResetGpu,
    ),
    fault(
        "page",
        &m::RETIRED_PAGES_PENDING,
        "page retirement pending",
        Remedy::Reboot,
    ),
    repair("channel", &[("kind", "channel")], "memory channel repair pending"),
    repair("tpc", &[("kind", "tpc")], "TPC repair pending"),
    // No repair can be recorded there.
    Fault {
        is_inverted: true,
        comments_only: true,
        ..fault("inforom", &m::INFOROM_VALID, "InfoROM corrupted", Remedy::Inspect)
    },
];

fn conditions<'a>(judge: &Judge<'a>, _: &mut ()) -> Vec<Judged<'a>> {
    each(judge, &CHECK, &USUAL, |gpu| {
        FAULTS.iter().map(|fault| opinion(gpu, fault)).collect()
    })
}

fn opinion<'a>(gpu: &'a Gpu<'a>, fault: &'static Fault) -> Opinion<'a> {
    let sample = gpu.with(fault.metric, fault.labels);
    let reading = match (flag(sample), fault.is_inverted) {
        (Reading::Good, true) => Reading::Bad,
        (Reading::Bad, true) => Reading::Good,
        (reading, _) => reading,
    };
    Opinion::new(fault.of, reading, move || Finding {
        detail: fault.detail.to_owned(),
        remedy: fault.remedy,
        comments_only: fault.comments_only,
        evidence: line(sample, if fault.is_inverted { "1" } else { "0" }),
        ..found(gpu, CHECK.id)
    })
}
