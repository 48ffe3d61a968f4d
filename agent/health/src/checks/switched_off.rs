//! `mounts.enabled = false`: what was found before ends, since no later reading could end it.

use collectors::{Subject, SubjectKind};

use super::{Check, expected};
use crate::condition::Judged;
use crate::judge::Judge;
use model::snapshot::Presence;

/// The results of a check. Those of mounts are replaced: this source is on every node, and only a setting removes it.
pub(crate) fn limit<'a>(
    judge: &Judge<'a>,
    check: &'static Check,
    judged: Vec<Judged<'a>>,
) -> Vec<Judged<'a>> {
    let is_off = || {
        let mounts = judge.snapshot.collector("mounts");
        mounts.is_some_and(|collector| collector.presence == Presence::NotHere)
    };
    if check.subject != SubjectKind::Mount || judge.bad.is_empty() || !is_off() {
        return judged;
    }
    let bad = judge.bad.iter().cloned();
    bad.map(|key| expected::unexpected(judge, check, key, Subject::node()))
        .collect()
}
