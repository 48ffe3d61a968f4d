//! `health.rdma.ports` and `exclude`: ports that the site excludes are healthy for every check of ports, so that what was
//! found before ends.

use collectors::{Subject, SubjectKind};

use super::Check;
use crate::condition::{Judged, Reading, USUAL, device_of};
use crate::finding::Finding;
use crate::judge::Judge;

/// The results of a check with those of excluded ports as healthy. Its bad conditions of excluded ports, and of fabrics
/// without a port that counts, are added.
pub(crate) fn limit<'a>(
    judge: &Judge<'a>,
    check: &'static Check,
    mut judged: Vec<Judged<'a>>,
) -> Vec<Judged<'a>> {
    let rdma = &judge.site.settings.rdma;
    if check.subject != SubjectKind::RdmaPort {
        return judged;
    }
    for one in &mut judged {
        if one.subject.kind == SubjectKind::RdmaPort && !rdma.is_about(&one.subject.name) {
            one.reading = Reading::Good;
        }
    }
    if judge.bad.is_empty() {
        return judged;
    }
    let shown = judge.ports.iter().map(|p| (p.id.as_str(), p.name.as_str()));
    let absent = judge
        .known
        .once_in_use()
        .map(|(id, role, _)| (id, role.name.as_str()));
    let excluded: Vec<&str> = shown
        .chain(absent)
        .filter_map(|(id, name)| (!rdma.is_about(name)).then_some(id))
        .collect();
    let fabrics: Vec<String> = judge.groups.iter().map(|g| g.fabric.key()).collect();
    let is_over = |key: &str| match key.split_once(" together ") {
        Some((_, of)) => !fabrics.iter().any(|fabric| of.starts_with(fabric)),
        None => excluded.contains(&device_of(check.id, key)),
    };
    let over: Vec<&String> = judge
        .bad
        .iter()
        .filter(|key| is_over(key) && judged.iter().all(|j| j.key != **key))
        .collect();
    judged.extend(over.into_iter().map(|key| Judged {
        key: key.clone(),
        subject: Subject::node(),
        reading: Reading::Good,
        at: judge.snapshot.at,
        pace: &USUAL,
        finding: Box::new(|_| Finding::of_condition(check.id, Subject::node())),
    }));
    judged
}
