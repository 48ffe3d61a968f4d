//! Check `values-unread`: values of a GPU or port that could be read before fail.

use std::collections::BTreeMap;

use collectors::gpu::metrics::UNREAD_VALUES;
use collectors::rdma::metrics::PORT_UNREADABLE_FILES;
use collectors::{Subject, SubjectKind};

use super::unreadable::PACE;
use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Reading};
use crate::finding::{Finding, Remedy};
use crate::judge::{Judge, evidence};
use crate::reads::gpu::whole;
use crate::reads::port::Link;
use model::snapshot::Sample;

/// The row.
pub static CHECK: Check = Check {
    id: "values-unread",
    subject: SubjectKind::Gpu,
    fires_when: "Values of a GPU or of an RDMA port that could be read since the start of nodewarden fail, while its state can be read.",
    lasting: "8 consecutive readings, at least 120 s",
    clears_when: "3 consecutive readings, at least 60 s, in which no more values fail than before.",
    ignored_when: "Values that are not supported, denied or rejected, or that failed at the start of nodewarden. GPUs that are busy. Ports whose state is unknown.",
    scope: Scope::Node,
    // The device may still work: other values of it are read.
    may: May::Observe,
    since: Version(0, 1, 0),
    watch: || Looks::start(conditions),
};

/// The usual failures of each device.
type Usual = BTreeMap<String, Least>;

/// The least number of values that failed in one reading: what always fails is not offered.
struct Least {
    count: u64,
    /// It was first read while the finding was open: whether the values ever could be read is unknown.
    is_doubtful: bool,
}

/// The series of a device that count failed values.
type Failed<'a> = Vec<&'a Sample<'a>>;

fn conditions<'a>(judge: &Judge<'a>, usual: &mut Usual) -> Vec<Judged<'a>> {
    let gpus = judge.gpus.iter().filter(|gpu| gpu.is_up() == Some(true));
    let gpus = gpus.map(|gpu| {
        let failed = gpu.all(&UNREAD_VALUES);
        let is_fault = |s: &&Sample<'_>| !matches!(s.label("reason"), Some("busy" | "no_permission"));
        let failed: Failed<'_> = failed.filter(is_fault).collect();
        (gpu.place().to_owned(), gpu.subject(), gpu.at, failed)
    });
    let ports = judge.ports.iter().filter(|port| port.link() != Link::Unknown);
    let ports = ports.map(|port| {
        let failed: Failed<'_> = port
            .with(&PORT_UNREADABLE_FILES, "reason", "io")
            .into_iter()
            .collect();
        let subject = Subject::new(SubjectKind::RdmaPort, port.name.clone());
        (port.id.clone(), subject, port.at, failed)
    });
    gpus.chain(ports)
        .map(|(place, subject, at, failed)| {
            let (key, is_bad) = key(judge, &place);
            let reading = reading(usual, place, &failed, is_bad);
            condition(key, subject, (reading, at), &failed)
        })
        .collect()
}

fn key(judge: &Judge<'_>, place: &str) -> (String, bool) {
    let key = format!("{} {place}", CHECK.id);
    let is_bad = judge.bad.contains(&key);
    (key, is_bad)
}

fn reading(usual: &mut Usual, place: String, failed: &[&Sample<'_>], is_bad: bool) -> Reading {
    let count = failed.iter().filter_map(|s| whole(Some(s))).sum();
    let least = usual.entry(place).or_insert(Least {
        count,
        is_doubtful: is_bad,
    });
    least.count = count.min(least.count);
    match count {
        0 => Reading::Good,
        _ if count > least.count => Reading::Bad,
        _ if least.is_doubtful && is_bad => Reading::Unknown,
        _ => Reading::Good,
    }
}

fn condition<'a>(
    key: String,
    subject: Subject,
    (reading, at): (Reading, std::time::Duration),
    failed: &[&Sample<'_>],
) -> Judged<'a> {
    let most = failed.iter().max_by_key(|s| whole(Some(s)));
    let finding = Finding {
        detail: "values cannot be read".to_owned(),
        remedy: Remedy::Inspect,
        evidence: most.map_or_else(String::new, |s| evidence(s, "0")),
        ..Finding::of_condition(CHECK.id, subject.clone())
    };
    Judged {
        key,
        subject,
        reading,
        at,
        pace: &PACE,
        finding: Box::new(move |_| finding),
    }
}
