//! Check `gpu-driver-blocked`: a call into a GPU's driver does not come back.

use std::time::Duration;

use collectors::domain::Signals;
use collectors::{Subject, SubjectKind};

use super::{Check, Scope, Version};
use crate::core::snapshot::{CollectorState, Late, Presence};
use crate::health::Mode;
use crate::health::condition::{Judged, Reading, USUAL};
use crate::health::finding::{Finding, Joins, Remedy};
use crate::health::judge::Judge;

/// The row.
pub static CHECK: Check = Check {
    id: "gpu-driver-blocked",
    subject: SubjectKind::Gpu,
    condition: "A thread has been inside of a GPU's driver for five minutes or more in uninterruptible sleep, in the same place of the kernel, which is known and none of a filesystem. One that is merely late, as on a busy node, is not.",
    scope: Scope::Node,
    ceiling: Mode::Drain,
    since: Version(0, 1, 0),
    clears: "By itself: the driver has answered in three readings running, over a minute or more.",
    runbook: "docs/runbooks/gpu-driver-blocked.md",
    conditions: Some(conditions),
};

/// Firmware that does not answer makes every call wait for a good minute before it fails.
const LONG: Duration = Duration::from_secs(300);

fn conditions<'a>(judge: &mut Judge<'a>) -> Vec<Judged<'a>> {
    let snapshot = judge.snapshot;
    let mut judged = Vec::new();
    let drivers = |c: &&&CollectorState| c.spec.domain.signals == Signals::Never;
    for collector in snapshot
        .collectors
        .iter()
        .collect::<Vec<_>>()
        .iter()
        .filter(drivers)
    {
        if matches!(collector.presence, Presence::NotHere | Presence::Unknown) {
            continue;
        }
        for device in &collector.devices {
            let answered = device.error.is_none() && device.shown(snapshot.at, collector.max_age());
            let late = device.late.as_ref();
            judged.push(one(judge, collector, device.subject.clone(), late, answered));
        }
        let subject = Subject::new(SubjectKind::Worker, collector.spec.name);
        let late = collector.late.iter().min_by_key(|l| l.since);
        let answered = collector.late.is_empty() && collector.presence == Presence::Open;
        judged.push(one(judge, collector, subject, late, answered));
    }
    judged
}

/// Where a page of a program or a library is waited for: what is slow then is a filesystem, often the same for all nodes.
const STORAGE: [&str; 17] = [
    "nfs",
    "rpc_",
    "folio_",
    "wait_on_page",
    "__lock_page",
    "filemap_",
    "io_schedule",
    "fuse_",
    "request_wait",
    "ll_",
    "cl_",
    "osc_",
    "ldlm_",
    "ptlrpc_",
    "mem_cgroup",
    "do_swap",
    "swap_",
];

/// Whether a place in the kernel says that it is the driver that blocks. A place that is not shown says nothing.
fn is_telling(wchan: &str) -> bool {
    !wchan.is_empty() && !STORAGE.iter().any(|place| wchan.starts_with(place))
}

fn one<'a>(
    judge: &mut Judge<'a>,
    collector: &CollectorState,
    subject: Subject,
    late: Option<&Late>,
    answered: bool,
) -> Judged<'a> {
    let key = format!("{} {} {subject}", CHECK.id, collector.spec.name);
    let task = late
        .and_then(|l| l.task.as_ref())
        .filter(|t| t.state == 'D' && is_telling(&t.wchan));
    let wchan = task.map(|t| t.wchan.clone());
    // Awake, or somewhere else, is a driver that moves.
    let place = task.map(|t| format!("{} {}", t.tid, t.wchan));
    let same = judge.memory.unchanged(&key, place.as_deref(), judge.since_boot);
    let reading = match (late, same) {
        (Some(_), Some(same)) if same >= LONG => Reading::Bad,
        (None, _) if answered => Reading::Good,
        _ => Reading::Unknown,
    };
    let since = late.map_or(Duration::ZERO, |l| judge.snapshot.at.saturating_sub(l.since));
    let wchan = wchan.unwrap_or_default();
    let finding_subject = subject.clone();
    Judged {
        key,
        subject,
        reading,
        at: judge.snapshot.at,
        pace: &USUAL,
        finding: Box::new(move |_| Finding {
            detail: "driver blocked".to_owned(),
            rank: 48,
            remedy: Remedy::Reboot,
            drains: true,
            joins: Joins::Attaches,
            evidence: format!(
                "nodewarden_device_late_seconds {:.0}, state D in {wchan:?} for {:.0} s, expected less than {}",
                since.as_secs_f64(),
                same.unwrap_or_default().as_secs_f64(),
                LONG.as_secs()
            ),
            ..Finding::of_condition(CHECK.id, finding_subject)
        }),
    }
}
