//! Check `gpu-down`: the driver does not respond for a GPU.

use std::time::Duration;

use collectors::SubjectKind;
use collectors::gpu::metrics as m;

use super::gpu::{Opinion, SLOW, each, found, line};
use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Reading};
use crate::finding::{Finding, Remedy};
use crate::judge::Judge;
use crate::reads::gpu::Gpu;

/// The row.
pub static CHECK: Check = Check {
    id: "gpu-down",
    subject: SubjectKind::Gpu,
    fires_when: "The driver responds, but not for this GPU: lost, refused, reset required or without power.",
    lasting: "4 consecutive readings, at least 60 s",
    clears_when: "3 consecutive readings, at least 60 s, in which the driver responds for the GPU.",
    ignored_when: "The first 300 s after boot. A missing driver or permission, time-outs, and GPUs in use by a diagnostic.",
    scope: Scope::Node,
    may: May::Drain,
    since: Version(0, 1, 0),
    watch: || Looks::start(conditions),
};

/// The driver initializes one GPU after the other.
const BOOT_GRACE: Duration = Duration::from_secs(300);

fn conditions<'a>(judge: &Judge<'a>, _: &mut ()) -> Vec<Judged<'a>> {
    let settled = judge.since_boot() >= BOOT_GRACE;
    each(judge, &CHECK, &SLOW, move |gpu| {
        let reading = match reading(gpu) {
            Reading::Bad if !settled => Reading::Unknown,
            reading => reading,
        };
        vec![Opinion::new("", reading, || finding(gpu))]
    })
}

/// Whether the driver responds for a GPU. `None`: unknown, as while it initializes its GPUs.
pub(crate) fn answers(gpu: &Gpu<'_>, since_boot: Duration) -> Option<bool> {
    match reading(gpu) {
        Reading::Good => Some(true),
        Reading::Bad if since_boot >= BOOT_GRACE => Some(false),
        Reading::Bad | Reading::Unknown => None,
    }
}

fn reading(gpu: &Gpu<'_>) -> Reading {
    match (gpu.is_up(), gpu.why_down()) {
        (Some(true), _) => Reading::Good,
        // The GPU's state is unknown without driver or permission, and while a diagnostic uses it.
        (Some(false), "no_driver" | "no_permission" | "unknown" | "timeout" | "busy") | (None, _) => {
            Reading::Unknown
        }
        (Some(false), _) => Reading::Bad,
    }
}

fn finding(gpu: &Gpu<'_>) -> Finding {
    let why = gpu.why_down();
    Finding {
        detail: format!("down: {why}"),
        remedy: match why {
            "lost" => Remedy::Reboot,
            "reset_required" => Remedy::ResetGpu,
            _ => Remedy::Inspect,
        },
        evidence: line(gpu.one(&m::UP), "1"),
        ..found(gpu, CHECK.id)
    }
}
