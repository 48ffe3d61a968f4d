//! Checks `gpu-ecc-uncorrected`, `gpu-ecc-corrected` and `gpu-sram-threshold`: errors of a GPU's memory.

use collectors::SubjectKind;
use collectors::gpu::metrics as m;

use super::gpu::{Bursts, HOUR_MS, Leaps, Opinion, each, flag, found, line};
use super::{Check, Forget, Looks, May, Scope, Version, Watch};
use crate::condition::{Judged, Pace, Reading, USUAL};
use crate::counts::{Counters, Times};
use crate::finding::{Finding, Remedy};
use crate::judge::Judge;
use crate::reads::gpu::{Gpu, whole};
use model::snapshot::Sample;

/// The row of uncorrected errors.
pub static UNCORRECTED: Check = Check {
    id: "gpu-ecc-uncorrected",
    subject: SubjectKind::Gpu,
    condition: "A GPU counted errors that ECC could not correct while it was watched.",
    scope: Scope::Node,
    // Contained ones cost one program; of the others an Xid, or the driver's verdict, drains.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    clears: "By a reset of the GPU, a driver that is loaded anew or a reboot: the GPU counts none in three readings running, over a minute or more. With persistence mode off, where the driver forgets its counts, a day after the last error or after a reboot.",
    runbook: "docs/runbooks/gpu-ecc-uncorrected.md",
    watch: || Box::<Uncorrected>::default(),
};

/// The row of corrected errors.
pub static CORRECTED: Check = Check {
    id: "gpu-ecc-corrected",
    subject: SubjectKind::Gpu,
    condition: "ECC corrected a thousand errors of a GPU or more from one reading to the next, three times within an hour.",
    scope: Scope::Node,
    may: May::Observe,
    since: Version(0, 1, 0),
    clears: "By itself: it did not happen for an hour.",
    runbook: "docs/runbooks/gpu-ecc-corrected.md",
    watch: || Leaps::start(std::slice::from_ref(&LEAPS)),
};

/// The row of the maker's limit.
pub static SRAM: Check = Check {
    id: "gpu-sram-threshold",
    subject: SubjectKind::Gpu,
    condition: "A GPU's SRAM had more uncorrected errors than its maker accepts, as the driver says in two readings running, over ten seconds or more.",
    scope: Scope::Node,
    may: May::Drain,
    since: Version(0, 1, 0),
    clears: "By itself, where another GPU has taken its place or the driver withdraws it: three readings running, over a minute or more.",
    runbook: "docs/runbooks/gpu-sram-threshold.md",
    watch: || Looks::start(sram),
};

/// A count that has grown says so once.
pub(super) static ONCE: Pace = Pace {
    bad: 1,
    bad_span: std::time::Duration::ZERO,
    ..USUAL
};

/// So many corrected errors from one reading to the next are a burst.
const BURST: u64 = 1000;

fn volatile<'g, 'a>(gpu: &'g Gpu<'a>, kind: &str) -> Option<&'g Sample<'a>> {
    gpu.with(&m::ECC_ERRORS, &[("kind", kind), ("scope", "volatile")])
}

/// Errors of each GPU, by where it sits.
#[derive(Default)]
struct Uncorrected {
    errors: Times,
    counters: Counters<String>,
}

impl Watch for Uncorrected {
    fn look<'a>(&mut self, judge: &Judge<'a>) -> Vec<Judged<'a>> {
        each(judge, &UNCORRECTED, &ONCE, |gpu| {
            let sample = volatile(gpu, "uncorrected");
            let Some(count) = whole(sample) else {
                return Vec::new();
            };
            let grown = self.counters.growth(gpu.place().to_owned(), count);
            // What a person has cleared is found again when more come.
            self.errors.note(judge, gpu.place(), "", grown);
            let of_day = self.errors.of(gpu.place(), "", 24 * HOUR_MS, judge.now_ms());
            let is_recent = !of_day.is_empty();
            let forgets = gpu.value(&m::PERSISTENCE_MODE) == Some(0.0) && is_recent;
            let reading = match (grown, count) {
                (1.., _) => Reading::Bad,
                // Only a reset or a reboot brings the count to nothing, or a driver that lets go of an idle GPU.
                (0, 0) if !forgets => Reading::Good,
                // They may be of long ago, and none may be forgotten ones.
                (0, _) => Reading::Unknown,
            };
            let finding = Finding {
                detail: "uncorrected memory errors".to_owned(),
                remedy: Remedy::ResetGpu,
                count: grown.max(1),
                evidence: line(sample, &format!("not to grow, grew by {grown}")),
                ..found(gpu, UNCORRECTED.id)
            };
            vec![Opinion {
                of: "",
                reading,
                finding,
            }]
        })
    }

    fn times(&mut self) -> Option<&mut Times> {
        Some(&mut self.errors)
    }

    fn forget(&mut self, of: &Forget<'_>) -> bool {
        // Only a reset ends it: put back and not repaired, its end could not be seen otherwise.
        of.repaired && self.errors.forget(of.device)
    }
}

static LEAPS: Bursts = Bursts {
    check: &CORRECTED,
    of: "",
    counter: |gpu| volatile(gpu, "corrected"),
    burst: BURST,
    detail: "many corrected memory errors",
};

fn sram<'a>(judge: &Judge<'a>, _: &mut ()) -> Vec<Judged<'a>> {
    each(judge, &SRAM, &USUAL, |gpu| {
        let sample = gpu.one(&m::ECC_SRAM_THRESHOLD);
        let finding = Finding {
            detail: "SRAM error threshold exceeded".to_owned(),
            remedy: Remedy::Inspect,
            evidence: line(sample, "0"),
            ..found(gpu, SRAM.id)
        };
        vec![Opinion {
            of: "",
            reading: flag(sample),
            finding,
        }]
    })
}
