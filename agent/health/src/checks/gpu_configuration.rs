//! Check `gpu-configuration`: model, driver or VBIOS of a GPU differ from `health.expect`, or a mode or limit of it from similar GPUs.

use collectors::gpu::metrics as m;
use collectors::{Metric, SubjectKind};

use super::expected::{PACE, is_settled};
use super::gpu::{Opinion, each, found, line};
use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Reading};
use crate::finding::{Finding, Rank, Remedy};
use crate::judge::Judge;
use crate::reads::gpu::Gpu;
use crate::reads::links::PEERS;
use crate::settings::Expect;

/// The row.
pub static CHECK: Check = Check {
    id: "gpu-configuration",
    subject: SubjectKind::Gpu,
    fires_when: "Model, driver version or VBIOS version of a GPU is not in `health.expect.gpu_models`, `gpu_drivers` or `gpu_vbios`. Shown, never drains: ECC off (also pending), compute mode prohibited or a lower power limit, unlike at least 3 GPUs of that model.",
    lasting: "4 consecutive readings, at least 100 s",
    clears_when: "3 consecutive readings, at least 100 s, with an expected value, or without the key. Compared with others: with the value right, or with at least 3 alike and none better.",
    ignored_when: "The first 600 s after boot and 60 s after the start of nodewarden. Values that the driver does not report. Power limits of at least 95 % of the GPU's default or of the others' limits.",
    scope: Scope::Node,
    // Jobs still run, and a wrong profile affects all nodes.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
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

/// A value that GPUs of one model have in common: a job runs at the pace of the lowest, and memory without ECC corrupts silently.
struct Level {
    /// Its name, and the end of the condition's key.
    of: &'static str,
    metric: &'static Metric,
    value: fn(&Gpu<'_>) -> Option<f64>,
    /// The value of a GPU on which nothing was changed.
    usual: fn(&Gpu<'_>) -> Option<f64>,
    /// What was found.
    words: fn(&Gpu<'_>) -> String,
}

static LEVELS: [Level; 4] = [
    Level {
        of: "ECC",
        metric: &m::ECC_MODE,
        value: |gpu| gpu.value(&m::ECC_MODE),
        usual: |_| Some(1.0),
        words: |_| "ECC off".to_owned(),
    },
    Level {
        of: "pending ECC",
        metric: &m::ECC_MODE_PENDING,
        value: |gpu| gpu.value(&m::ECC_MODE_PENDING),
        usual: |_| Some(1.0),
        words: |_| "ECC off after the next reset".to_owned(),
    },
    Level {
        of: "compute mode",
        metric: &m::COMPUTE_MODE,
        // Which of the other modes is right is the site's choice.
        value: |gpu| Some(f64::from(gpu.value(&m::COMPUTE_MODE)? != PROHIBITED)),
        usual: |_| Some(1.0),
        words: |_| "compute mode prohibited".to_owned(),
    },
    Level {
        of: "power limit",
        metric: &m::POWER_LIMIT,
        value: |gpu| watts(gpu, &m::POWER_LIMIT),
        usual: |gpu| watts(gpu, &m::POWER_LIMIT_DEFAULT),
        words: |gpu| {
            let watts = |metric| watts(gpu, metric).unwrap_or_default();
            let (limit, default) = (watts(&m::POWER_LIMIT), watts(&m::POWER_LIMIT_DEFAULT));
            format!("power limit {limit:.0} W, default {default:.0} W")
        },
    },
];

/// `gpu_compute_mode`: no program may use the GPU.
const PROHIBITED: f64 = 2.0;
/// Limits differ by a few watts between boards of one model.
const CLEARLY: f64 = 0.95;

/// A limit. One of 0 is none.
fn watts(gpu: &Gpu<'_>, metric: &'static Metric) -> Option<f64> {
    gpu.value(metric).filter(|watts| *watts > 0.0)
}

fn is_below(own: f64, other: f64) -> bool {
    own < other * CLEARLY
}

/// The reading of a value beside those of other GPUs of the model, and how many of these are better.
fn beside<'a>(judge: &Judge<'a>, gpu: &Gpu<'_>, level: &Level) -> (Reading, usize) {
    let Some((own, usual)) = (level.value)(gpu).zip((level.usual)(gpu)) else {
        return (Reading::Unknown, 0);
    };
    if !is_below(own, usual) {
        return (Reading::Good, 0);
    }
    let is_peer = |other: &&Gpu<'_>| other.place() != gpu.place() && other.product() == gpu.product();
    let peers = judge.gpus.iter().filter(|_| gpu.product().is_some());
    let values = peers.filter(is_peer).filter_map(level.value);
    let (better, alike): (Vec<f64>, Vec<f64>) = values.partition(|other| is_below(own, *other));
    let reading = match (better.len(), alike.len()) {
        (PEERS.., _) if is_settled(judge) => Reading::Bad,
        // The site set it on all of them.
        (0, PEERS..) => Reading::Good,
        _ => Reading::Unknown,
    };
    (reading, better.len())
}

fn of_peers<'a>(judge: &Judge<'a>, gpu: &'a Gpu<'a>, level: &'static Level) -> Opinion<'a> {
    let (reading, better) = beside(judge, gpu, level);
    Opinion::new(level.of, reading, move || Finding {
        detail: format!("{}, unlike similar GPUs", (level.words)(gpu)),
        rank: Rank::Of("peers"),
        remedy: Remedy::Inspect,
        // Jobs run, and the difference may be intended.
        drains: false,
        evidence: line(
            gpu.one(level.metric),
            &format!("as on {better} other GPUs of its model"),
        ),
        ..found(gpu, CHECK.id)
    })
}

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
        let of_site = ASPECTS.iter().map(opinion);
        of_site
            .chain(LEVELS.iter().map(|level| of_peers(judge, gpu, level)))
            .collect()
    })
}
