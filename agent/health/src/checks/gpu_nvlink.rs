//! Checks `gpu-nvlink-down` (fewer NVLinks or XGMI links up than before or than on peers) and `gpu-nvlink-errors`.

use std::time::Duration;

use collectors::amd::metrics as a;
use collectors::nvidia::metrics as n;
use collectors::{Metric, SubjectKind};

use super::gpu::{Bursts, Leaps, SLOW, found, key, line};
use super::{Check, Kept, May, Scope, Version, Watch};
use crate::bounded::{Bounded, STORED};
use crate::condition::{Judged, Reading};
use crate::finding::{Finding, Rank, Remedy};
use crate::judge::Judge;
use crate::reads::gpu::{Gpu, whole};

/// The row.
pub static CHECK: Check = Check {
    id: "gpu-nvlink-down",
    subject: SubjectKind::Gpu,
    fires_when: "Fewer NVLinks of a GPU are up than its highest number so far, than at least 3 peers that all agree, or than `health.expect.nvlinks`. The same of XGMI links (AMD). On more than half of the GPUs: shown, never drains.",
    lasting: "4 consecutive readings, at least 60 s",
    clears_when: "3 consecutive readings, at least 60 s, with the expected number of links up.",
    ignored_when: "The first 600 s after boot. GPUs without such links, unless `health.expect.nvlinks` is set. Links of AMD without a state.",
    scope: Scope::Shared,
    may: May::Comment,
    since: Version(0, 1, 0),
    runbook: "docs/runbooks/gpu-nvlink-down.md",
    watch: || Box::<Best>::default(),
};

/// The row of the errors.
pub static ERRORS: Check = Check {
    id: "gpu-nvlink-errors",
    subject: SubjectKind::Gpu,
    fires_when: "3 times in 1 h, one NVLink error count grows between two readings: replay, recovery, recovery_failed or link_integrity by 1; crc_flit or crc_data by 1,500.",
    lasting: "2 consecutive readings, at least 10 s",
    clears_when: "No such growth for 1 h, confirmed by 3 consecutive readings, at least 60 s.",
    ignored_when: "",
    scope: Scope::Shared,
    may: May::Observe,
    since: Version(0, 1, 0),
    runbook: "docs/runbooks/gpu-nvlink-errors.md",
    watch: || Leaps::start(&LEAPS),
};

/// The fabric trains after the driver was loaded.
const BOOT_GRACE: Duration = Duration::from_secs(600);

/// The links of one maker's GPUs.
struct Kind {
    up: &'static Metric,
    all: &'static Metric,
    name: &'static str,
}

static NVLINK: Kind = Kind {
    up: &n::NVLINK_LINKS_UP,
    all: &n::NVLINK_LINKS,
    name: "NVLinks",
};

static XGMI: Kind = Kind {
    up: &a::XGMI_LINKS_UP,
    all: &a::XGMI_LINKS,
    name: "XGMI links",
};

/// The kind of links of a GPU.
fn kind(gpu: &Gpu<'_>) -> &'static Kind {
    if gpu.one(XGMI.all).is_some() {
        &XGMI
    } else {
        &NVLINK
    }
}

/// The number of NVLinks that the site expects, on GPUs that may have them.
fn wanted(judge: &Judge<'_>, gpu: &Gpu<'_>) -> u64 {
    let wanted = judge.site.settings.expect.nvlinks.unwrap_or(0);
    if std::ptr::eq(kind(gpu), &XGMI) { 0 } else { wanted }
}

/// Links up and all links. `None`: unreadable, or no link and none expected.
fn links(gpu: &Gpu<'_>, wanted: u64) -> Option<(u64, u64)> {
    let up = whole(gpu.one(kind(gpu).up))?;
    let all = whole(gpu.one(kind(gpu).all))?;
    (gpu.is_up() == Some(true) && (all > 0 || wanted > 0) && up <= all).then_some((up, all))
}

/// The highest number of links up of each GPU, by place.
#[derive(Default)]
struct Best(Bounded<String, u64, STORED>);

impl Watch for Best {
    fn look<'a>(&mut self, judge: &Judge<'a>) -> Vec<Judged<'a>> {
        conditions(judge, &mut self.0)
    }

    fn kept(&mut self) -> Option<&mut dyn Kept> {
        Some(&mut self.0)
    }
}

fn conditions<'a>(judge: &Judge<'a>, best: &mut Bounded<String, u64, STORED>) -> Vec<Judged<'a>> {
    let gpus = judge.gpus;
    let settled = judge.since_boot() >= BOOT_GRACE;
    let of = |gpu| links(gpu, wanted(judge, gpu));
    let ups: Vec<Option<u64>> = gpus.iter().map(|gpu| of(gpu).map(|(up, _)| up)).collect();
    let mut expected = Vec::new();
    for (at, gpu) in gpus.iter().enumerate() {
        let Some((up, all)) = of(gpu) else {
            expected.push(None);
            continue;
        };
        let place = gpu.place().to_owned();
        judge.changed(best.raise(place.clone(), up));
        let best = best.get(&place).copied().unwrap_or(up).min(all);
        let peers: Vec<u64> = ups
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != at)
            .filter_map(|(_, up)| *up)
            .collect();
        let common = peers.first().copied().filter(|first| {
            // Peers count only if all agree.
            peers.len() >= 3 && peers.iter().all(|p| p == first)
        });
        let usual = best.max(common.unwrap_or(0)).min(all);
        expected.push(Some((up, usual.max(wanted(judge, gpu)))));
    }
    let seen = expected.iter().flatten().count();
    let down = expected.iter().flatten().filter(|(up, want)| up < want).count();
    let is_own = down * 2 <= seen;
    let mut judged = Vec::new();
    for (gpu, expected) in gpus.iter().zip(expected) {
        let Some((up, want)) = expected else {
            judged.extend(no_longer_expected(judge, gpu, best));
            continue;
        };
        // A GPU that stays down alone after all were down is a new finding.
        for own in [true, false] {
            let reading = match up < want {
                true if own == is_own && settled => Reading::Bad,
                true if is_own && !own => Reading::Good,
                false if up > 0 => Reading::Good,
                _ => Reading::Unknown,
            };
            judged.push(Judged {
                key: key(CHECK.id, gpu, if own { "" } else { "together" }),
                subject: gpu.subject(),
                reading,
                at: gpu.at,
                pace: &SLOW,
                finding: Box::new(move |_| finding(gpu, (up, want), (down, seen), own)),
            });
        }
    }
    judged
}

/// The end of findings about a GPU that never had a link: the site no longer expects any.
fn no_longer_expected<'a>(
    judge: &Judge<'a>,
    gpu: &Gpu<'_>,
    best: &Bounded<String, u64, STORED>,
) -> Vec<Judged<'a>> {
    let has_none = gpu.is_up() == Some(true)
        && whole(gpu.one(kind(gpu).all)) == Some(0)
        && best.get(gpu.place()).is_none_or(|best| *best == 0);
    if !has_none || wanted(judge, gpu) > 0 {
        return Vec::new();
    }
    let keys = ["", "together"].map(|of| key(CHECK.id, gpu, of));
    let bad = keys.into_iter().filter(|key| judge.bad.contains(key));
    bad.map(|key| {
        let finding = found(gpu, CHECK.id);
        Judged {
            key,
            subject: gpu.subject(),
            reading: Reading::Good,
            at: gpu.at,
            pace: &SLOW,
            finding: Box::new(move |_| finding),
        }
    })
    .collect()
}

fn finding(gpu: &Gpu<'_>, (up, want): (u64, u64), (down, seen): (usize, usize), own: bool) -> Finding {
    let Kind { up: metric, name, .. } = kind(gpu);
    Finding {
        detail: if own {
            format!("{up} of {want} {name} up")
        } else {
            format!("{name} down together with those of most GPUs")
        },
        rank: Rank::Of(if own { "" } else { "together" }),
        remedy: if own { Remedy::ResetGpu } else { Remedy::Inspect },
        drains: own,
        evidence: format!(
            "{}; {down} of {seen} GPUs have links down",
            line(gpu.one(metric), &want.to_string())
        ),
        ..found(gpu, CHECK.id)
    }
}

/// A kind of error, and its growth between two readings that is a burst.
macro_rules! kind {
    ($kind:literal, $burst:literal) => {
        Bursts {
            check: &ERRORS,
            of: $kind,
            counter: |gpu| gpu.with(&n::NVLINK_ERRORS, &[("kind", $kind)]),
            burst: $burst,
            detail: concat!("many NVLink errors: ", $kind),
        }
    };
}

static LEAPS: [Bursts; 6] = [
    kind!("replay", 1),
    kind!("recovery", 1),
    kind!("recovery_failed", 1),
    kind!("link_integrity", 1),
    kind!("crc_flit", 1500),
    kind!("crc_data", 1500),
];
