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
    fires_when: "The GPU's hardware reduces its clocks: thermal slowdown, power brake, or a slowdown whose cause the driver does not name.",
    lasting: "20 consecutive readings, at least 300 s",
    clears_when: "20 consecutive readings, at least 300 s, without that slowdown.",
    ignored_when: "Software limits such as the power cap.",
    scope: Scope::Node,
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Looks::start(slowdown),
};

/// The row of the temperature.
pub static TEMPERATURE: Check = Check {
    id: "gpu-temperature",
    subject: SubjectKind::Gpu,
    fires_when: "The temperature of a GPU is at or above its slowdown limit, or the temperature of its memory at or above its maximum. A GPU without a limit: its slowdown margin above its highest temperature for work, 2 °C if unknown.",
    lasting: "4 consecutive readings, at least 60 s",
    clears_when: "3 consecutive readings, at least 60 s, below the limit.",
    ignored_when: "GPUs without limit and margin, and readings outside 0 to 200 °C.",
    scope: Scope::Node,
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Looks::start(temperature),
};

/// Reasons of the driver. The last one is that of the others too: alone, it is another cause, as too much power.
const REASONS: [(&str, &str); 3] = [
    ("hw_thermal", "hardware slowdown by heat"),
    ("hw_power_brake", "hardware slowdown by power brake"),
    (ANY, "hardware slowdown, neither by heat nor by power brake"),
];
const ANY: &str = "hw_slowdown";

fn slowdown<'a>(judge: &Judge<'a>, _: &mut ()) -> Vec<Judged<'a>> {
    each(judge, &SLOWDOWN, &LASTING, |gpu| {
        let opinion = |(reason, detail): (&'static str, &'static str)| {
            let sample = gpu.with(&m::CLOCK_EVENT, &[("reason", reason)]);
            let reading = match flag(sample) {
                Reading::Bad if reason == ANY => other_causes(gpu),
                reading => reading,
            };
            Opinion::new(reason, reading, move || Finding {
                detail: detail.to_owned(),
                remedy: Remedy::Inspect,
                evidence: line(sample, "0"),
                ..found(gpu, SLOWDOWN.id)
            })
        };
        REASONS.into_iter().map(opinion).collect()
    })
}

/// The reading of a slowdown: bad if no cause is known, good if one is.
fn other_causes(gpu: &Gpu<'_>) -> Reading {
    let causes = REASONS.iter().filter(|(reason, _)| *reason != ANY);
    let mut flags = causes.map(|(reason, _)| flag(gpu.with(&m::CLOCK_EVENT, &[("reason", reason)])));
    let is_known = |reading: Reading| reading != Reading::Unknown;
    if !flags.clone().all(is_known) {
        return Reading::Unknown;
    }
    match flags.any(|reading| reading == Reading::Bad) {
        true => Reading::Good,
        false => Reading::Bad,
    }
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
        let parts = PARTS.into_iter().map(|part| hot(gpu, part));
        parts.chain([margin(gpu)]).collect()
    })
}

/// The margin to the highest temperature of work at which a GPU slows down, `GPU Slowdown T.Limit Temp` of nvidia-smi, where its
/// driver does not give it. B200: -3.
const SLOWDOWN_MARGIN: f64 = -2.0;

/// By the margin alone: newer drivers need not give limits of Ada, Hopper and Blackwell (nvml.h).
fn margin<'a>(gpu: &'a Gpu<'a>) -> Opinion<'a> {
    let has_limit = gpu.value(&m::TEMPERATURE_SLOWDOWN).is_some();
    let limit = gpu
        .value(&m::TEMPERATURE_SLOWDOWN_MARGIN)
        .unwrap_or(SLOWDOWN_MARGIN);
    let reading = match gpu.value(&m::TEMPERATURE_MARGIN) {
        Some(margin) if margin > limit => Reading::Good,
        Some(_) if !has_limit => Reading::Bad,
        _ => Reading::Unknown,
    };
    Opinion::new("margin", reading, move || Finding {
        detail: "too hot".to_owned(),
        remedy: Remedy::Inspect,
        evidence: line(gpu.one(&m::TEMPERATURE_MARGIN), &format!("above {limit}")),
        ..found(gpu, TEMPERATURE.id)
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
