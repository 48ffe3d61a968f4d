//! Checks `gpu-slowdown` and `gpu-temperature`: thermal protection of a GPU.

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
    fires_when: "The GPU's hardware reduces its clocks: thermal slowdown or power brake.",
    lasting: "20 consecutive readings, at least 300 s",
    clears_when: "20 consecutive readings, at least 300 s, without that slowdown.",
    ignored_when: "Software limits such as the power cap.",
    scope: Scope::Node,
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    runbook: "docs/runbooks/gpu-slowdown.md",
    watch: || Looks::start(slowdown),
};

/// The row of the temperature.
pub static TEMPERATURE: Check = Check {
    id: "gpu-temperature",
    subject: SubjectKind::Gpu,
    fires_when: "The temperature of a GPU is at or above its slowdown limit, or the temperature of its memory at or above its maximum.",
    lasting: "4 consecutive readings, at least 60 s",
    clears_when: "3 consecutive readings, at least 60 s, below the limit.",
    ignored_when: "GPUs without a limit, and readings outside 0 to 200 °C.",
    scope: Scope::Node,
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    runbook: "docs/runbooks/gpu-temperature.md",
    watch: || Looks::start(temperature),
};

const REASONS: [(&str, &str); 2] = [
    ("hw_thermal", "hardware slowdown by heat"),
    ("hw_power_brake", "hardware slowdown by power brake"),
];

fn slowdown<'a>(judge: &Judge<'a>, _: &mut ()) -> Vec<Judged<'a>> {
    each(judge, &SLOWDOWN, &LASTING, |gpu| {
        let opinion = |(reason, detail): (&'static str, &'static str)| {
            let sample = gpu.with(&m::CLOCK_EVENT, &[("reason", reason)]);
            Opinion::new(reason, flag(sample), move || Finding {
                detail: detail.to_owned(),
                remedy: Remedy::Inspect,
                evidence: line(sample, "0"),
                ..found(gpu, SLOWDOWN.id)
            })
        };
        REASONS.into_iter().map(opinion).collect()
    })
}

/// Name, temperature, limit and detail.
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

fn hot<'a>(
    gpu: &'a Gpu<'a>,
    (of, now, limit, detail): (&'static str, &'static Metric, &'static Metric, &'static str),
) -> Opinion<'a> {
    // A limit of 0 is no limit. A value that no chip survives is not a temperature.
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
    Opinion::new(of, reading, move || Finding {
        detail: detail.to_owned(),
        remedy: Remedy::Inspect,
        evidence: line(gpu.one(now), &format!("below {limit}")),
        ..found(gpu, TEMPERATURE.id)
    })
}
