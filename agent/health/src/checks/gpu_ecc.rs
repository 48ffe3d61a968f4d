//! Checks `gpu-ecc-uncorrected`, `gpu-ecc-corrected` and `gpu-sram-threshold`: memory errors of a GPU.

use collectors::SubjectKind;
use collectors::device_files::DeviceFiles;
use collectors::gpu::metrics as m;

use super::gpu::{Bursts, Leaps, Opinion, each, flag, found, line};
use super::growth::HOUR_MS;
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
    fires_when: "The volatile count of uncorrected ECC errors of a GPU increases between two readings.",
    lasting: "immediately",
    clears_when: "3 consecutive readings, at least 60 s, with a count of 0: after a GPU reset, a driver reload, a reboot or cleared counts. AMD: only after a driver reload or a reboot. With persistence mode off: a count of 0 at least 24 h after the last error, or after a reboot.",
    ignored_when: "Errors counted before the first reading.",
    scope: Scope::Node,
    // A contained error ends one program; for others an Xid or the driver's verdict drains.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Box::<Uncorrected>::default(),
};

/// The row of corrected errors.
pub static CORRECTED: Check = Check {
    id: "gpu-ecc-corrected",
    subject: SubjectKind::Gpu,
    fires_when: "The count of corrected ECC errors of a GPU grows by at least 1,000 between two readings, 3 times in 1 h.",
    lasting: "2 consecutive readings, at least 10 s",
    clears_when: "No such growth for 1 h, confirmed by 3 consecutive readings, at least 60 s.",
    ignored_when: "",
    scope: Scope::Node,
    may: May::Observe,
    since: Version(0, 1, 0),
    watch: || Leaps::start(std::slice::from_ref(&LEAPS)),
};

/// The row of the vendor's threshold.
pub static SRAM: Check = Check {
    id: "gpu-sram-threshold",
    subject: SubjectKind::Gpu,
    fires_when: "The driver reports that uncorrected SRAM errors of a GPU exceed the vendor's threshold.",
    lasting: "2 consecutive readings, at least 10 s",
    clears_when: "3 consecutive readings, at least 60 s, in which the driver no longer reports it, usually after the GPU was replaced.",
    ignored_when: "",
    scope: Scope::Node,
    may: May::Drain,
    since: Version(0, 1, 0),
    watch: || Looks::start(sram),
};

/// Growth of a count shows in one reading.
pub(super) static ONCE: Pace = Pace {
    bad: 1,
    bad_span: std::time::Duration::ZERO,
    ..USUAL
};

/// Corrected errors between two readings that are a burst.
const BURST: u64 = 1000;

fn volatile<'g, 'a>(gpu: &'g Gpu<'a>, kind: &str) -> Option<&'g Sample<'a>> {
    gpu.with(&m::ECC_ERRORS, &[("kind", kind), ("scope", "volatile")])
}

/// What takes the count of uncorrected errors back, and retires the memory.
fn remedy(gpu: &Gpu<'_>) -> Remedy {
    let vendor = gpu.one(&m::INFO).and_then(|info| info.label("vendor"));
    let files = vendor.and_then(DeviceFiles::of_vendor);
    match files.is_some_and(|files| files.keeps_errors) {
        true => Remedy::Reboot,
        false => Remedy::ResetGpu,
    }
}

/// Errors of each GPU, by its place.
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
            // After `nodewarden clear`, more errors are a new finding.
            self.errors.note(judge, gpu.place(), "", grown);
            let of_day = self.errors.of(gpu.place(), "", 24 * HOUR_MS, judge.now_ms());
            let is_recent = !of_day.is_empty();
            let forgets = gpu.value(&m::PERSISTENCE_MODE) == Some(0.0) && is_recent;
            let reading = match (grown, count) {
                (1.., _) => Reading::Bad,
                // A reset, a reboot, a person (`nvidia-smi -p 0`) or a driver that releases an idle GPU sets it to 0.
                (0, 0) if !forgets => Reading::Good,
                // The errors may be old, or the driver may have dropped the count.
                (0, _) => Reading::Unknown,
            };
            vec![Opinion::new("", reading, move || Finding {
                detail: "uncorrected memory errors".to_owned(),
                remedy: remedy(gpu),
                count: grown.max(1),
                evidence: line(sample, &format!("not to grow, grew by {grown}")),
                ..found(gpu, UNCORRECTED.id)
            })]
        })
    }

    fn times(&mut self) -> Option<&mut Times> {
        Some(&mut self.errors)
    }

    fn forget(&mut self, of: &Forget<'_>) -> bool {
        // Only a reset ends it: without a repair its end would not be visible.
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
        vec![Opinion::new("", flag(sample), move || Finding {
            detail: "SRAM error threshold exceeded".to_owned(),
            remedy: Remedy::Inspect,
            evidence: line(sample, "0"),
            ..found(gpu, SRAM.id)
        })]
    })
}
