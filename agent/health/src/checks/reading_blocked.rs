//! Check `reading-blocked`: a reading does not return, whatever its thread does.

use std::time::Duration;

use collectors::{Subject, SubjectKind};

use super::blocked::{key, unlisted};
use super::rdma_scope::excluded;
use super::{Check, May, Scope, Version, Watch};
use crate::condition::{Judged, Reading, USUAL};
use crate::counts::Unchanged;
use crate::finding::{Finding, Joins, Remedy};
use crate::judge::Judge;
use model::snapshot::{CollectorState, DeviceState, Late, Presence, WorkerState};

/// The row.
pub static CHECK: Check = Check {
    id: "reading-blocked",
    subject: SubjectKind::Worker,
    fires_when: "One reading of a device has not returned for 300 s, whatever the state of its thread. Or 2 processes of a worker have not ended for 300 s, so that none is started.",
    lasting: "2 consecutive readings, at least 10 s",
    clears_when: "3 consecutive readings, at least 60 s, in which the device answered within 300 s, or is no longer listed.",
    ignored_when: "Readings that return, however slowly. Watchers that wait for events. RDMA ports that `health.rdma` excludes.",
    scope: Scope::Node,
    // State S or R does not prove that the driver is blocked: gpu-driver-blocked and rdma-port-blocked drain on proof.
    may: May::Comment,
    since: Version(0, 1, 0),
    watch: || Box::<Blocked>::default(),
};

/// As of check `gpu-driver-blocked`: with unresponsive firmware a call fails after more than 60 s.
const LONG: Duration = Duration::from_secs(300);

/// Since when no worker of each collector can be started.
#[derive(Default)]
struct Blocked {
    stuck: Unchanged<String, u8>,
}

impl Watch for Blocked {
    fn look<'a>(&mut self, judge: &Judge<'a>) -> Vec<Judged<'a>> {
        let snapshot = judge.snapshot;
        let mut judged = Vec::new();
        for collector in &snapshot.collectors {
            let mut workers = snapshot.workers.iter();
            let worker = workers.find(|w| w.domain == collector.spec.domain.name);
            judged.push(self.whole(judge, collector, worker));
            if matches!(collector.presence, Presence::NotHere | Presence::Unknown) {
                continue;
            }
            // Jobs are not devices of the node: their readings count for the collector.
            let devices = collector.devices.iter().filter(|d| !is_of_job(d));
            judged.extend(devices.map(|device| of_device(judge, collector, device)));
            if collector.late.is_empty() && collector.presence == Presence::Open {
                judged.extend(unlisted(judge, CHECK.id, collector));
            }
        }
        judged
    }
}

impl Blocked {
    /// The calls of a collector that are about no device, and its worker.
    fn whole<'a>(
        &mut self,
        judge: &Judge<'a>,
        collector: &CollectorState,
        worker: Option<&WorkerState>,
    ) -> Judged<'a> {
        let subject = Subject::new(SubjectKind::Worker, collector.spec.name);
        let key = key(CHECK.id, collector.spec.name, &subject);
        let stuck = worker.filter(|w| w.down == Some("stuck"));
        let held = stuck.map(|w| w.stuck_slots);
        if let Some(since) = self.stuck.lasts(key.clone(), held, judge.since_boot()) {
            let reading = if since >= LONG {
                Reading::Bad
            } else {
                Reading::Unknown
            };
            let evidence = format!(
                "nodewarden_worker_stuck_slots{{worker=\"{}\"}} {}, expected 0: earlier processes have not ended for {} s, no worker is started",
                collector.spec.domain.name,
                held.unwrap_or_default(),
                since.as_secs()
            );
            return condition(judge, key, subject, reading, "no worker can be started", evidence);
        }
        let of_jobs = collector.devices.iter().filter(|d| is_of_job(d));
        let all = collector
            .late
            .iter()
            .chain(of_jobs.filter_map(|d| d.late.as_ref()));
        let late = all.min_by_key(|late| late.since);
        let reading = match (late, &collector.presence) {
            (Some(late), _) if is_long(judge, late) => Reading::Bad,
            // A source that failed has answered.
            (None, Presence::Failed(reason, _)) if reason != "blocked" => Reading::Good,
            // A worker that has just started has not opened its source yet: unknown.
            (None, Presence::Open | Presence::NotHere) => Reading::Good,
            _ => Reading::Unknown,
        };
        let evidence = evidence(judge, late);
        condition(judge, key, subject, reading, "reading does not return", evidence)
    }
}

fn is_of_job(device: &DeviceState) -> bool {
    device.subject.kind == SubjectKind::Job
}

fn of_device<'a>(judge: &Judge<'a>, collector: &CollectorState, device: &DeviceState) -> Judged<'a> {
    let subject = device.subject.clone();
    let key = key(CHECK.id, collector.spec.name, &subject);
    let is_port = subject.kind == SubjectKind::RdmaPort;
    let excluded = excluded(judge, &subject.name).filter(|_| is_port);
    let late = device.late.as_ref();
    // Also the next reading may be late again: then its last one counts.
    let at = judge.snapshot.at;
    let has_answered = device.at > Duration::ZERO && at.saturating_sub(device.at) < LONG;
    let reading = match (excluded, late) {
        (Some(excluded), _) => excluded,
        (None, Some(late)) if is_long(judge, late) => Reading::Bad,
        _ if has_answered => Reading::Good,
        _ => Reading::Unknown,
    };
    let evidence = evidence(judge, late);
    condition(judge, key, subject, reading, "reading does not return", evidence)
}

/// Whether a reading has not returned for long, as its worker still reports.
fn is_long(judge: &Judge<'_>, late: &Late) -> bool {
    late.is_reported(judge.snapshot.at) && age(judge, late) >= LONG
}

/// How long a reading has not returned.
fn age(judge: &Judge<'_>, late: &Late) -> Duration {
    judge.snapshot.at.saturating_sub(late.since)
}

/// `nodewarden_device_late_seconds 480, state S, wait channel futex_do_wait, expected less than 300`
fn evidence(judge: &Judge<'_>, late: Option<&Late>) -> String {
    let seconds = late.map_or(0, |late| age(judge, late).as_secs());
    let task = late.and_then(|late| late.task.as_ref());
    let thread = task.map_or_else(
        || "thread unknown".to_owned(),
        |task| {
            let or_none = |text: &str| {
                if text.is_empty() {
                    "none".to_owned()
                } else {
                    text.to_owned()
                }
            };
            format!(
                "state {}, wait channel {}, system call {}",
                task.state,
                or_none(&task.wchan),
                or_none(&task.call)
            )
        },
    );
    format!(
        "nodewarden_device_late_seconds {seconds}, {thread}, expected less than {}",
        LONG.as_secs()
    )
}

fn condition<'a>(
    judge: &Judge<'a>,
    key: String,
    subject: Subject,
    reading: Reading,
    detail: &'static str,
    evidence: String,
) -> Judged<'a> {
    let finding = Finding {
        detail: detail.to_owned(),
        remedy: Remedy::Inspect,
        drains: true,
        joins: Joins::Attaches,
        evidence,
        ..Finding::of_condition(CHECK.id, subject.clone())
    };
    Judged {
        key,
        subject,
        reading,
        at: judge.snapshot.at,
        pace: &USUAL,
        finding: Box::new(move |_| finding),
    }
}
