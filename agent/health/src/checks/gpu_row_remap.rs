//! Check `gpu-row-remap`: pending and failed replacements of faulty memory.

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
    fires_when: "A row remap of a GPU is pending until a reset or failed, or a page retirement is pending until a reboot.",
    lasting: "2 consecutive readings, at least 10 s",
    clears_when: "3 consecutive readings, at least 60 s, in which the driver reports nothing pending or failed.",
    ignored_when: "",
    scope: Scope::Node,
    may: May::Drain,
    since: Version(0, 1, 0),
    runbook: "docs/runbooks/gpu-row-remap.md",
    watch: || Looks::start(conditions),
};

/// Each fault: name, flag, detail, remedy.
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
        let opinion =
            |(of, metric, detail, remedy): (&'static str, &'static Metric, &'static str, Remedy)| {
                Opinion::new(of, flag(gpu.one(metric)), move || {
                    finding(gpu, metric, detail, remedy)
                })
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
