//! Checks `gpu-slowdown` and `gpu-temperature`: a GPU that protects itself.

use collectors::gpu::metrics as m;
use collectors::{Metric, SubjectKind};

use super::gpu::{LASTING, Opinion, SLOW, each, flag, found, line};
use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Reading};
use crate::finding::{Finding, Remedy};
use crate::judge::Judge;
use crate::reads::gpu::Gpu;

/// The row of the slowdown.
pub static SLOWDOWN: Check = Check {
    id: "gpu-slowdown",
    subject: SubjectKind::Gpu,
    condition: "A GPU's own hardware holds its clocks down, because of heat or of the power supply's alarm, in 20 readings running, over five minutes or more.",
    scope: Scope::Node,
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    clears: "By itself: 20 readings running, over five minutes or more, show nothing of it.",
    runbook: "docs/runbooks/gpu-slowdown.md",
    watch: || Looks::start(slowdown),
};

/// The row of the temperature.
pub static TEMPERATURE: Check = Check {
    id: "gpu-temperature",
    subject: SubjectKind::Gpu,
    condition: "A GPU, or its memory, is as hot as the part's own limit or hotter, in four readings running, over a minute or more.",
    scope: Scope::Node,
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    clears: "By itself: three readings running, over a minute or more, are below the limit.",
    runbook: "docs/runbooks/gpu-temperature.md",
    watch: || Looks::start(temperature),
};

const REASONS: [(&str, &str); 2] = [
    ("hw_thermal", "hardware slowdown by heat"),
    ("hw_power_brake", "hardware slowdown by power brake"),
];

fn slowdown<'a>(judge: &Judge<'a>, _: &mut ()) -> Vec<Judged<'a>> {
    each(judge, &SLOWDOWN, &LASTING, |gpu| {
        let opinion = |(reason, detail): (&'static str, &str)| {
            let sample = gpu.with(&m::CLOCK_EVENT, &[("reason", reason)]);
            Opinion {
                of: reason,
                reading: flag(sample),
                finding: Finding {
                    detail: detail.to_owned(),
                    remedy: Remedy::Inspect,
                    evidence: line(sample, "0"),
                    ..found(gpu, SLOWDOWN.id)
                },
            }
        };
        REASONS.into_iter().map(opinion).collect()
    })
}

/// Name, temperature, limit, and what it is called.
const PARTS: [(&str, &Metric, &Metric, &str); 2] = [
    ("gpu", &m::TEMPERATURE, &m::TEMPERATURE_SLOWDOWN, "too hot"),
    (
        "memory",
        &m::MEMORY_TEMPERATURE,
        &m::MEMORY_TEMPERATURE_MAX,
        "memory too hot",
    ),
];

fn temperature<'a>(judge: &Judge<'a>, _: &mut ()) -> Vec<Judged<'a>> {
    each(judge, &TEMPERATURE, &SLOW, |gpu| {
        PARTS.into_iter().map(|part| hot(gpu, part)).collect()
    })
}

fn hot(
    gpu: &Gpu<'_>,
    (of, now, limit, detail): (&'static str, &'static Metric, &'static Metric, &str),
) -> Opinion {
    // A limit of nothing is none, and a reading beyond what silicon survives is no temperature.
    let reading = match (gpu.value(now), gpu.value(limit)) {
        (Some(now), Some(limit)) if limit > 0.0 && (0.0..200.0).contains(&now) => {
            if now >= limit {
                Reading::Bad
            } else {
                Reading::Good
            }
        }
        _ => Reading::Unknown,
    };
    let limit = gpu.value(limit).unwrap_or_default();
    Opinion {
        of,
        reading,
        finding: Finding {
            detail: detail.to_owned(),
            remedy: Remedy::Inspect,
            evidence: line(gpu.one(now), &format!("below {limit}")),
            ..found(gpu, TEMPERATURE.id)
        },
    }
}
