//! Checks `gpu-nvlink-down` (fewer NVLinks or XGMI links up than before or than on peers, or not all C2C links) and `gpu-nvlink-errors`.

use std::time::Duration;

use collectors::SubjectKind;
use collectors::nvidia::metrics as n;

use super::gpu::{Bursts, Leaps, Opinion, SLOW, each, found, key, line};
use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Reading};
use crate::finding::{Finding, Need, Rank, Remedy};
use crate::judge::{BOOT_GRACE, Judge};
use crate::reads::gpu::{Gpu, whole};
use crate::reads::links::{self, Kind, Links};

/// The row.
pub static CHECK: Check = Check {
    id: "gpu-nvlink-down",
    subject: SubjectKind::Gpu,
    fires_when: "Fewer NVLinks of a GPU are up than its highest number so far, than at least 3 peers that all agree, or than `health.expect.nvlinks`. The same of XGMI links (AMD). On more than half of the GPUs: shown, never drains. Or not all C2C links to its processor are up.",
    lasting: "4 consecutive readings, at least 60 s",
    clears_when: "3 consecutive readings, at least 60 s, with the expected number of links up.",
    ignored_when: "The first 600 s after boot. GPUs that never had such links, unless 3 peers of their product or `health.expect.nvlinks` have some. Links of AMD without a state. An A100 with MIG, which takes its links down, and without NVSwitches also GPUs beside it.",
    scope: Scope::Shared,
    may: May::Comment,
    since: Version(0, 1, 0),
    watch: || Looks::start(conditions),
};

/// The row of the errors.
pub static ERRORS: Check = Check {
    id: "gpu-nvlink-errors",
    subject: SubjectKind::Gpu,
    fires_when: "3 times in 1 h, one NVLink error count grows between two readings. By 1: replay, recovery, recovery_attempted, recovery_failed, link_integrity. By 1,500: crc, crc_flit, crc_data.",
    lasting: "2 consecutive readings, at least 10 s",
    clears_when: "No such growth for 1 h, confirmed by 3 consecutive readings, at least 60 s.",
    ignored_when: "",
    scope: Scope::Shared,
    may: May::Observe,
    since: Version(0, 1, 0),
    watch: || Leaps::start(&LEAPS),
};

/// Whether a need of a GPU is met. `None`: unknown, as for links that may still train.
pub(crate) fn met(gpu: &Gpu<'_>, need: Need, since_boot: Duration) -> Option<bool> {
    let trains = matches!(need, Need::LinksActive) && since_boot < BOOT_GRACE;
    gpu.is_met(need).filter(|met| *met || !trains)
}

fn conditions<'a>(judge: &Judge<'a>, _: &mut ()) -> Vec<Judged<'a>> {
    let gpus = judge.gpus;
    let settled = judge.is_booted();
    let is_down = |links: &&Links| links.up < links.usual;
    let seen = gpus.iter().filter_map(|gpu| gpu.links.as_ref());
    let (seen, down) = (seen.clone().count(), seen.filter(is_down).count());
    let is_own = down * 2 <= seen;
    let mut judged = Vec::new();
    for gpu in gpus {
        let Some(links) = gpu.links else {
            judged.extend(no_longer_expected(judge, gpu));
            continue;
        };
        // A GPU that stays down alone after all were down is a new finding.
        for own in [true, false] {
            let key = key(CHECK.id, gpu, if own { "" } else { "together" });
            // What peers have that are not read may still be missed.
            let is_known = links.is_common() || are_read(judge) || !judge.bad.contains(&key);
            let reading = match is_down(&&links) {
                true if own == is_own && settled => Reading::Bad,
                true if is_own && !own => Reading::Good,
                false if links.up > 0 && is_known => Reading::Good,
                _ => Reading::Unknown,
            };
            judged.push(Judged {
                key,
                subject: gpu.subject(),
                reading,
                at: gpu.at,
                pace: &SLOW,
                finding: Box::new(move |_| finding(gpu, links, (down, seen), own)),
            });
        }
    }
    judged.extend(each(judge, &CHECK, &SLOW, |gpu| {
        c2c(gpu, settled).into_iter().collect()
    }));
    judged
}

/// The links to the processor on the module. A board uses all of them.
fn c2c<'a>(gpu: &'a Gpu<'a>, settled: bool) -> Option<Opinion<'a>> {
    let sample = gpu.one(&n::C2C_LINKS_UP);
    let (up, all) = (whole(sample)?, whole(gpu.one(&n::C2C_LINKS))?);
    let reading = match up < all {
        true if settled => Reading::Bad,
        true => Reading::Unknown,
        false => Reading::Good,
    };
    Some(Opinion::new("c2c", reading, move || Finding {
        detail: format!("{up} of {all} C2C links up"),
        remedy: Remedy::Inspect,
        evidence: line(sample, &all.to_string()),
        ..found(gpu, CHECK.id)
    }))
}

/// Whether every GPU of the node is read.
fn are_read(judge: &Judge<'_>) -> bool {
    judge.gpus.iter().all(|gpu| gpu.is_up() == Some(true))
}

/// The end of findings about a GPU that never had a link, where the site no longer expects any, and of one whose links MIG took down.
fn no_longer_expected<'a>(judge: &Judge<'a>, gpu: &Gpu<'_>) -> Vec<Judged<'a>> {
    let had_none = judge.known.links.get(gpu.place()).is_none_or(|best| *best == 0);
    // Links of peers that are not read may still be missed.
    let has_none = links::has_none(gpu) && had_none && are_read(judge);
    let is_unwanted = has_none && links::wanted(gpu, judge.site.settings.expect.nvlinks) == 0;
    if !is_unwanted && !links::are_off(gpu) {
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

fn finding(
    gpu: &Gpu<'_>,
    Links { up, usual: want, .. }: Links,
    (down, seen): (usize, usize),
    own: bool,
) -> Finding {
    let Kind { up: metric, name, .. } = links::kind(gpu);
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

static LEAPS: [Bursts; 8] = [
    kind!("replay", 1),
    kind!("recovery", 1),
    // Blackwell has neither of those two.
    kind!("recovery_attempted", 1),
    kind!("recovery_failed", 1),
    kind!("link_integrity", 1),
    kind!("crc_flit", 1500),
    kind!("crc_data", 1500),
    // In place of those two since Hopper.
    kind!("crc", 1500),
];
