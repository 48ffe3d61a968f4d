//! Check `gpu-recovery-action`: the recovery action that the driver requests for a GPU.

use collectors::SubjectKind;
use collectors::gpu::{metrics as m, recovery};

use super::gpu::{Opinion, each, found, line};
use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Reading, USUAL};
use crate::finding::{Finding, Remedy};
use crate::judge::Judge;
use crate::reads::gpu::Gpu;

/// The row.
pub static CHECK: Check = Check {
    id: "gpu-recovery-action",
    subject: SubjectKind::Gpu,
    fires_when: "The driver requests a reset, a reboot or a drain of the GPU. Recovery of the IMEX domain: shown, never drains.",
    lasting: "2 consecutive readings, at least 10 s",
    clears_when: "3 consecutive readings, at least 60 s, in which the driver does not request this action.",
    ignored_when: "Actions that this release does not know, and action 5 of drivers that do not define it (before R580, R590 to R594).",
    scope: Scope::Node,
    may: May::Drain,
    since: Version(0, 1, 0),
    watch: || Looks::start(conditions),
};

fn conditions<'a>(judge: &Judge<'a>, _: &mut ()) -> Vec<Judged<'a>> {
    each(judge, &CHECK, &USUAL, |gpu| {
        let number = gpu.value(&m::RECOVERY_ACTION);
        let action = number.and_then(|number| recovery::action(number, gpu.driver().unwrap_or_default()));
        // Separate conditions, so that a stronger action is a new finding.
        [
            ("", Kind::Reset),
            ("reboot", Kind::Reboot),
            ("shared", Kind::Shared),
        ]
        .into_iter()
        .map(|(of, kind)| {
            Opinion::new(of, reading(action, kind), move || {
                finding(gpu, action.and_then(meaning))
            })
        })
        .collect()
    })
}

/// The strength of a requested action.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Reset,
    Reboot,
    Shared,
}

fn reading(action: Option<f64>, kind: Kind) -> Reading {
    let Some(action) = action else {
        return Reading::Unknown;
    };
    match meaning(action) {
        Some((_, remedy, drains)) => {
            let is = match (remedy, drains) {
                (_, false) => Kind::Shared,
                (Remedy::Reboot, true) => Kind::Reboot,
                (_, true) => Kind::Reset,
            };
            if is == kind { Reading::Bad } else { Reading::Good }
        }
        None if action == 0.0 => Reading::Good,
        // An unknown action is no reason to drain.
        None => Reading::Unknown,
    }
}

/// The detail of an action, its remedy, and whether it concerns this node alone.
fn meaning(action: f64) -> Option<(&'static str, Remedy, bool)> {
    let of = |detail, remedy| Some((detail, remedy, true));
    match action {
        1.0 => of("driver wants a GPU reset", Remedy::ResetGpu),
        2.0 => of("driver wants a reboot", Remedy::Reboot),
        3.0 => of("driver wants peers drained", Remedy::ResetGpu),
        4.0 => of("driver wants a drain and a reset", Remedy::ResetGpu),
        // The domain spans several nodes.
        5.0 => Some(("driver wants the IMEX domain recovered", Remedy::Inspect, false)),
        6.0 => of("driver wants a bus reset", Remedy::Reboot),
        7.0 => of("driver wants the system rebooted", Remedy::Reboot),
        _ => None,
    }
}

fn finding(gpu: &Gpu<'_>, meaning: Option<(&'static str, Remedy, bool)>) -> Finding {
    let (detail, remedy, drains) = meaning.unwrap_or(("driver wants nothing", Remedy::None, true));
    Finding {
        detail: detail.to_owned(),
        remedy,
        drains,
        evidence: line(gpu.one(&m::RECOVERY_ACTION), "0"),
        ..found(gpu, CHECK.id)
    }
}
