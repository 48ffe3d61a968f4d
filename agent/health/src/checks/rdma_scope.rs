//! `health.rdma.ports` and `exclude`: ports that the site excludes are healthy for every check of ports, so that what was
//! found before ends. While `ports` names none of the node's ports, they are unknown.

use collectors::{Subject, SubjectKind};

use super::Check;
use crate::condition::{Judged, Reading, USUAL, device_of};
use crate::finding::Finding;
use crate::judge::Judge;
use crate::reads::known::Known;
use crate::reads::port::Port;
use crate::settings::Rdma;

/// Whether `health.rdma.ports` names none of the ports of this node, now and before: a mistake, which must end no incident.
pub(crate) fn names_none(rdma: &Rdma, ports: &[Port<'_>], known: &Known) -> bool {
    let roles = known.roles.iter().map(|(_, role)| role);
    let roles = roles.chain(known.adapters.iter().map(|(_, role)| role));
    let names = ports.iter().map(|p| p.name.as_str());
    let mut names = names.chain(roles.map(|role| role.name.as_str())).peekable();
    names.peek().is_some() && !names.any(|name| rdma.lists(name))
}

/// The reading of a port or adapter of that name if the site excludes it.
pub(crate) fn excluded(judge: &Judge<'_>, name: &str) -> Option<Reading> {
    let reading = if judge.names_no_port {
        Reading::Unknown
    } else {
        Reading::Good
    };
    (!judge.site.settings.rdma.is_about(name)).then_some(reading)
}

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
    if judge.names_no_port {
        return Vec::new();
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
