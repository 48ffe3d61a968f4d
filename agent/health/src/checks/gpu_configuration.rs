//! Check `gpu-configuration`: model, driver or VBIOS of a GPU differ from `health.expect`.

use collectors::SubjectKind;
use collectors::gpu::metrics as m;

use super::expected::{PACE, is_settled};
use super::gpu::{Opinion, each, found};
use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Reading};
use crate::finding::{Finding, Remedy};
use crate::judge::Judge;
use crate::settings::Expect;

/// The row.
pub static CHECK: Check = Check {
    id: "gpu-configuration",
    subject: SubjectKind::Gpu,
    fires_when: "Model, driver version or VBIOS version of a GPU is not in `health.expect.gpu_models`, `gpu_drivers` or `gpu_vbios`.",
    lasting: "4 consecutive readings, at least 100 s",
    clears_when: "3 consecutive readings, at least 100 s, with an expected value, or without the key.",
    ignored_when: "The first 600 s after boot and 60 s after the start of nodewarden. Values that the driver does not report.",
    scope: Scope::Node,
    // Jobs still run, and a wrong profile affects all nodes.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    runbook: "docs/runbooks/gpu-configuration.md",
    watch: || Looks::start(conditions),
};

/// One value of a GPU that the site may expect.
struct Aspect {
    /// Its name, and the end of the condition's key.
    of: &'static str,
    /// Its label on `gpu_info`.
    label: &'static str,
    allowed: fn(&Expect) -> &[String],
}

static ASPECTS: [Aspect; 3] = [
    Aspect {
        of: "model",
        label: "name",
        allowed: |expect| &expect.gpu_models,
    },
    Aspect {
        of: "driver",
        label: "driver",
        allowed: |expect| &expect.gpu_drivers,
    },
    Aspect {
        of: "VBIOS",
        label: "vbios",
        allowed: |expect| &expect.gpu_vbios,
    },
];

fn conditions<'a>(judge: &Judge<'a>, _: &mut ()) -> Vec<Judged<'a>> {
    let settled = is_settled(judge);
    each(judge, &CHECK, &PACE, |gpu| {
        let value = |label| {
            gpu.one(&m::INFO)
                .and_then(|info| info.label(label))
                .unwrap_or_default()
        };
        let opinion = |aspect: &'static Aspect| {
            let (have, allowed) = (value(aspect.label), (aspect.allowed)(&judge.site.settings.expect));
            let reading = match have {
                // The site no longer expects anything.
                _ if allowed.is_empty() => Reading::Good,
                "" => Reading::Unknown,
                _ if allowed.iter().any(|one| one == have) => Reading::Good,
                _ if settled => Reading::Bad,
                _ => Reading::Unknown,
            };
            Opinion::new(aspect.of, reading, move || {
                let want = allowed.join(" or ");
                Finding {
                    detail: format!("{}: {have} found, {want} expected", aspect.of),
                    remedy: Remedy::Inspect,
                    evidence: format!("{} has {}={have:?}, expected {want}", m::INFO.name, aspect.label),
                    ..found(gpu, CHECK.id)
                }
            })
        };
        ASPECTS.iter().map(opinion).collect()
    })
}
