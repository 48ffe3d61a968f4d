//! The job to which each Xid belongs: by the time of the Xid, since it may be read long after.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::running::Running;
use crate::ledger::Count;
use crate::ownership::Timeline;

/// Xids by `gpu` label and code.
pub(super) type Counts = BTreeMap<String, BTreeMap<u32, Count>>;

/// Xids have a resolution of 1 s, and those of the kernel log use another clock.
const ROUGH: f64 = 1.0;

/// New Xids of one GPU and code.
#[derive(Debug)]
pub(super) struct New {
    gpu: String,
    code: u32,
    many: u64,
    /// Time of the last one, as a Unix time.
    at: f64,
}

/// The counts at the last look. `None`: there was no look yet, so all Xids are old.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Xids(Option<BTreeMap<String, BTreeMap<u32, u64>>>);

impl Xids {
    /// Returns the new Xids.
    pub(super) fn take(&mut self, counts: &Counts) -> Vec<New> {
        let all = counts.iter().map(|(gpu, codes)| {
            let codes = codes.iter().map(|(code, n)| (*code, n.count));
            (gpu.clone(), codes.collect())
        });
        let Some(known) = self.0.replace(all.collect()) else {
            return Vec::new();
        };
        let each = counts
            .iter()
            .flat_map(|(gpu, codes)| codes.iter().map(move |(code, n)| (gpu, *code, n)));
        let new = each.map(|(gpu, code, n)| {
            let known = known.get(gpu).and_then(|codes| codes.get(&code)).copied();
            #[expect(clippy::cast_precision_loss, reason = "seconds since the epoch fit")]
            let at = n.last as f64;
            New {
                gpu: gpu.clone(),
                code,
                many: n.count.saturating_sub(known.unwrap_or_default()),
                at,
            }
        });
        new.filter(|new| new.many > 0).collect()
    }
}

/// A run of a job that may have had the GPU.
pub(super) struct Candidate<'a> {
    pub(super) run: &'a mut Running,
    /// It had its GPUs at the previous look.
    pub(super) before: bool,
    /// It has them now.
    pub(super) now: bool,
}

impl New {
    /// Assigns it to the owners of the GPU. Many jobs end by an Xid, so in doubt it belongs to the owners `before`.
    /// An Xid older than all remaining runs belongs to no job, since a closed line does not change.
    pub(super) fn book(&self, candidates: &mut [Candidate<'_>], before: &Timeline, now: &Timeline) {
        let had = |t: &Candidate<'_>| t.before && before.has(&self.gpu, &t.run.line.job);
        let has = |t: &Candidate<'_>| t.now && now.has(&self.gpu, &t.run.line.job);
        let may_be = |t: &Candidate<'_>| {
            let is_over = t.run.gone.is_some_and(|gone| self.at > gone + ROUGH);
            t.run.line.began <= self.at + ROUGH && !is_over
        };
        let came = |t: &Candidate<'_>| has(t) && !had(t) && t.run.line.began <= self.at;
        // Runs that have left since had already left when it happened.
        let is_of_now = candidates.iter().any(came) || !candidates.iter().any(|t| had(t) && may_be(t));
        for candidate in candidates.iter_mut() {
            let is_there = if is_of_now { has(candidate) } else { had(candidate) };
            if is_there && may_be(candidate) {
                let all = candidate.run.line.xids.entry(self.code).or_default();
                *all = all.saturating_add(self.many);
            }
        }
    }
}
