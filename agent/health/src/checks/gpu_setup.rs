//! Checks `gpu-persistence-off` and `gpu-fabric`: persistence mode, and membership in the NVSwitch fabric.

use collectors::SubjectKind;
use collectors::gpu::metrics as m;
use collectors::nvidia::metrics as n;

use super::gpu::{LASTING, Opinion, SLOW, each, found, line};
use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Reading};
use crate::finding::{Finding, Remedy};
use crate::judge::Judge;
use crate::reads::gpu::Gpu;

/// The row of persistence.
pub static PERSISTENCE: Check = Check {
    id: "gpu-persistence-off",
    subject: SubjectKind::Gpu,
    fires_when: "Persistence mode of a GPU is off.",
    lasting: "4 consecutive readings, at least 60 s",
    clears_when: "3 consecutive readings, at least 60 s, with persistence mode on.",
    ignored_when: "",
    scope: Scope::Node,
    may: May::Observe,
    since: Version(0, 1, 0),
    watch: || Looks::start(persistence),
};

/// The row of the fabric.
pub static FABRIC: Check = Check {
    id: "gpu-fabric",
    subject: SubjectKind::Gpu,
    fires_when: "A GPU of an NVSwitch fabric has not joined it, or its registration failed: no CUDA program starts on it. Or the driver reports the fabric or an aspect of it as unhealthy, or its capacity as limited: shown, never drains.",
    lasting: "20 consecutive readings, at least 300 s",
    clears_when: "20 consecutive readings, at least 300 s, with the GPU joined without an error, or with the fabric healthy.",
    ignored_when: "The first 600 s after boot.",
    scope: Scope::Shared,
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Looks::start(fabric),
};

/// `gpu_fabric_state`: joined.
const JOINED: f64 = 3.0;
/// `gpu_fabric_health`: unhealthy.
const UNHEALTHY: f64 = 2.0;
/// `gpu_fabric_health`: limited capacity, as with degraded bandwidth.
const LIMITED: f64 = 3.0;

fn persistence<'a>(judge: &Judge<'a>, _: &mut ()) -> Vec<Judged<'a>> {
    each(judge, &PERSISTENCE, &SLOW, |gpu| {
        let sample = gpu.one(&m::PERSISTENCE_MODE);
        let reading = match gpu.value(&m::PERSISTENCE_MODE) {
            Some(1.0) => Reading::Good,
            Some(0.0) => Reading::Bad,
            _ => Reading::Unknown,
        };
        vec![Opinion::new("", reading, move || Finding {
            detail: "persistence mode off".to_owned(),
            remedy: Remedy::Inspect,
            evidence: line(sample, "1"),
            ..found(gpu, PERSISTENCE.id)
        })]
    })
}

fn fabric<'a>(judge: &Judge<'a>, _: &mut ()) -> Vec<Judged<'a>> {
    let settled = judge.is_booted();
    each(judge, &FABRIC, &LASTING, move |gpu| {
        let Some(state) = gpu.value(&n::FABRIC_STATE) else {
            return Vec::new();
        };
        // Separate conditions: jobs on a GPU that has not joined all fail, on an unhealthy fabric they are slow.
        vec![joined(gpu, state, settled), healthy(gpu, state, settled)]
    })
}

/// Whether the GPU has joined. Without that every CUDA program fails, and the node can run no job on it.
fn joined<'a>(gpu: &'a Gpu<'a>, state: f64, settled: bool) -> Opinion<'a> {
    // The driver also calls a registration completed that failed.
    let failed = gpu.one(&n::FABRIC_STATUS).filter(|s| s.as_f64() > 0.0);
    let reading = match (state, failed) {
        (JOINED, None) => Reading::Good,
        (1.0 | 2.0 | JOINED, _) if settled => Reading::Bad,
        _ => Reading::Unknown,
    };
    let (detail, sample, expected) = match failed {
        Some(_) => ("fabric: registration failed", failed, "0"),
        None => ("fabric: not joined", gpu.one(&n::FABRIC_STATE), "3"),
    };
    Opinion::new("", reading, move || Finding {
        detail: detail.to_owned(),
        remedy: Remedy::Inspect,
        evidence: line(sample, expected),
        ..found(gpu, FABRIC.id)
    })
}

/// Whether the fabric of the GPU is healthy. Other nodes may share it, and programs run.
fn healthy<'a>(gpu: &'a Gpu<'a>, state: f64, settled: bool) -> Opinion<'a> {
    let wrong = gpu.all(&n::FABRIC_UNHEALTHY).find(|s| s.as_f64() > 0.0);
    // A driver may know more aspects than this release.
    let summary = gpu
        .one(&n::FABRIC_HEALTH_SUMMARY)
        .filter(|s| matches!(s.as_f64(), UNHEALTHY | LIMITED));
    let bad = wrong.or(summary);
    let reading = match (state, bad) {
        (JOINED, None) => Reading::Good,
        (1.0 | 2.0 | JOINED, Some(_)) if settled => Reading::Bad,
        _ => Reading::Unknown,
    };
    let (aspect, expected) = match (wrong, summary) {
        (Some(wrong), _) => (wrong.label("aspect").unwrap_or("unhealthy"), "0"),
        (None, Some(summary)) if summary.as_f64() == LIMITED => ("limited capacity", "1"),
        (None, _) => ("unhealthy", "1"),
    };
    Opinion::new("health", reading, move || Finding {
        detail: format!("fabric: {}", aspect.replace('_', " ")),
        remedy: Remedy::Inspect,
        evidence: line(bad, expected),
        comments_only: true,
        ..found(gpu, FABRIC.id)
    })
}
