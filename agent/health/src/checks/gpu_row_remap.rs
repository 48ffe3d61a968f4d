//! Check `gpu-row-remap`: memory that waits to be replaced, or could not be.

use collectors::gpu::metrics as m;
use collectors::{Metric, SubjectKind};

use super::gpu::{Opinion, each, flag, found, line};
use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, USUAL};
use crate::finding::{Finding, Remedy};
use crate::judge::Judge;
use crate::reads::gpu::Gpu;

/// The row.
pub static CHECK: Check = Check {
    id: "gpu-row-remap",
    subject: SubjectKind::Gpu,
    condition: "A row of a GPU's memory waits for a reset to be replaced by a spare one, a page waits for a reboot to be taken out of use, or a row could not be replaced, in two readings running, over ten seconds or more.",
    scope: Scope::Node,
    may: May::Drain,
    since: Version(0, 1, 0),
    clears: "By itself: the driver says of the same GPU that nothing waits or failed, in three readings running, over a minute or more.",
    runbook: "docs/runbooks/gpu-row-remap.md",
    watch: || Looks::start(conditions),
};

/// What can be wrong: a name, its flag, what it is called, and what repairs it.
const WRONG: [(&str, &Metric, &str, Remedy); 3] = [
    (
        "failure",
        &m::ROW_REMAP_FAILURE,
        "row remap failed",
        Remedy::Inspect,
    ),
    (
        "pending",
        &m::ROW_REMAP_PENDING,
        "row remap pending",
        Remedy::ResetGpu,
    ),
    (
        "page",
        &m::RETIRED_PAGES_PENDING,
        "page retirement pending",
        Remedy::Reboot,
    ),
];

fn conditions<'a>(judge: &Judge<'a>, _: &mut ()) -> Vec<Judged<'a>> {
    each(judge, &CHECK, &USUAL, |gpu| {
        let opinion = |(of, metric, detail, remedy): (&'static str, &'static Metric, &str, Remedy)| Opinion {
            of,
            reading: flag(gpu.one(metric)),
            finding: finding(gpu, metric, detail, remedy),
        };
        WRONG.into_iter().map(opinion).collect()
    })
}

fn finding(gpu: &Gpu<'_>, metric: &'static Metric, detail: &str, remedy: Remedy) -> Finding {
    Finding {
        detail: detail.to_owned(),
        remedy,
        evidence: line(gpu.one(metric), "0"),
        ..found(gpu, CHECK.id)
    }
}
