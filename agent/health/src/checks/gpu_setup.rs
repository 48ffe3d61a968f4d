//! Checks `gpu-persistence-off` and `gpu-fabric`: how a GPU is set up, and whether it has joined its fabric.

use std::time::Duration;

use collectors::SubjectKind;
use collectors::gpu::metrics as m;
use collectors::nvidia::metrics as n;

use super::gpu::{LASTING, Opinion, SLOW, each, found, line};
use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Reading};
use crate::finding::{Finding, Remedy};
use crate::judge::Judge;

/// The row of persistence.
pub static PERSISTENCE: Check = Check {
    id: "gpu-persistence-off",
    subject: SubjectKind::Gpu,
    condition: "The driver does not keep a GPU initialised while nobody uses it, in four readings running, over a minute or more.",
    scope: Scope::Node,
    may: May::Observe,
    since: Version(0, 1, 0),
    clears: "By itself: three readings running, over a minute or more, show the mode on.",
    runbook: "docs/runbooks/gpu-persistence-off.md",
    watch: || Looks::start(persistence),
};

/// The row of the fabric.
pub static FABRIC: Check = Check {
    id: "gpu-fabric",
    subject: SubjectKind::Gpu,
    condition: "A GPU that belongs to a fabric of NVSwitches has not joined it, or the driver says that something is wrong with it, in 20 readings running, over five minutes or more, not in the first ten minutes after boot.",
    scope: Scope::Shared,
    may: May::Comment,
    since: Version(0, 1, 0),
    clears: "By itself: 20 readings running, over five minutes or more, show it joined and well.",
    runbook: "docs/runbooks/gpu-fabric.md",
    watch: || Looks::start(fabric),
};

const BOOT_GRACE: Duration = Duration::from_secs(600);
/// The GPU has joined.
const JOINED: f64 = 3.0;

fn persistence<'a>(judge: &Judge<'a>, _: &mut ()) -> Vec<Judged<'a>> {
    each(judge, &PERSISTENCE, &SLOW, |gpu| {
        let sample = gpu.one(&m::PERSISTENCE_MODE);
        let reading = match gpu.value(&m::PERSISTENCE_MODE) {
            Some(1.0) => Reading::Good,
            Some(0.0) => Reading::Bad,
            _ => Reading::Unknown,
        };
        vec![Opinion {
            of: "",
            reading,
            finding: Finding {
                detail: "persistence mode off".to_owned(),
                remedy: Remedy::Inspect,
                evidence: line(sample, "1"),
                ..found(gpu, PERSISTENCE.id)
            },
        }]
    })
}

fn fabric<'a>(judge: &Judge<'a>, _: &mut ()) -> Vec<Judged<'a>> {
    let settled = judge.since_boot() >= BOOT_GRACE;
    each(judge, &FABRIC, &LASTING, move |gpu| {
        let Some(state) = gpu.value(&n::FABRIC_STATE) else {
            return Vec::new();
        };
        let wrong = gpu.all(&n::FABRIC_UNHEALTHY).find(|s| s.as_f64() > 0.0);
        let reading = match (state, wrong) {
            (JOINED, None) => Reading::Good,
            (1.0 | 2.0 | JOINED, _) if settled => Reading::Bad,
            _ => Reading::Unknown,
        };
        let aspect = wrong.and_then(|s| s.label("aspect")).unwrap_or("not joined");
        let sample = wrong.or(gpu.one(&n::FABRIC_STATE));
        let expected = if wrong.is_some() { "0" } else { "3" };
        vec![Opinion {
            of: "",
            reading,
            finding: Finding {
                detail: format!("fabric: {}", aspect.replace('_', " ")),
                remedy: Remedy::Inspect,
                evidence: line(sample, expected),
                ..found(gpu, FABRIC.id)
            },
        }]
    })
}
