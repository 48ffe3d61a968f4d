//! Readings that do not come back, for the checks that say so.

use std::time::Duration;

use collectors::sys::task::Task;
use collectors::{Subject, SubjectKind};

use super::Watch;
use crate::condition::{Judged, Reading, USUAL};
use crate::counts::Unchanged;
use crate::finding::Finding;
use crate::judge::Judge;
use model::snapshot::{CollectorState, Late, Presence};

/// What a check says of a call that does not come back.
pub(super) struct Rule {
    /// The check's id.
    pub(super) id: &'static str,
    /// Which collectors it is about.
    pub(super) is_of: fn(&CollectorState) -> bool,
    /// Whether what a thread does says that it is blocked, and not that the node is busy.
    pub(super) is_telling: fn(&Task) -> bool,
    /// How long it must do so.
    pub(super) long: Duration,
    /// Whether a device that is listed no more answers for certain: it was renamed, or its driver let go of it.
    pub(super) ends_unlisted: bool,
    /// The finding; its evidence is added.
    pub(super) finding: fn(Subject, &Task) -> Finding,
}

/// Where each device's call sleeps, and since when: thread, place and call, by the condition.
pub(super) struct Blocked {
    rule: &'static Rule,
    places: Unchanged<String, (i32, String, String)>,
}

impl Blocked {
    /// Begins to look.
    pub(super) fn start(rule: &'static Rule) -> Box<dyn Watch> {
        Box::new(Self {
            rule,
            places: Unchanged::default(),
        })
    }
}

impl Watch for Blocked {
    /// Judges each device of those collectors, and what else of them may block.
    fn look<'a>(&mut self, judge: &Judge<'a>) -> Vec<Judged<'a>> {
        let rule = self.rule;
        let snapshot = judge.snapshot;
        let mut judged = Vec::new();
        for collector in snapshot.collectors.iter().filter(|c| (rule.is_of)(c)) {
            if matches!(collector.presence, Presence::NotHere | Presence::Unknown) {
                continue;
            }
            for device in &collector.devices {
                let answered = device.error.is_none() && device.shown(snapshot.at, collector.max_age());
                let late = device.late.as_ref();
                judged.push(self.one(judge, collector, device.subject.clone(), late, answered));
            }
            if rule.ends_unlisted && collector.late.is_empty() && collector.presence == Presence::Open {
                judged.extend(unlisted(judge, rule, collector));
            }
            let subject = Subject::new(SubjectKind::Worker, collector.spec.name);
            let late = collector.late.iter().min_by_key(|l| l.since);
            let answered = collector.late.is_empty() && collector.presence == Presence::Open;
            judged.push(self.one(judge, collector, subject, late, answered));
        }
        judged
    }
}

impl Blocked {
    fn one<'a>(
        &mut self,
        judge: &Judge<'a>,
        collector: &CollectorState,
        subject: Subject,
        late: Option<&Late>,
        answered: bool,
    ) -> Judged<'a> {
        let rule = self.rule;
        let key = key(rule, collector.spec.name, &subject);
        let task = late.and_then(|l| l.task.clone()).filter(|t| (rule.is_telling)(t));
        // Awake, or somewhere else, is a driver that moves.
        let place = task.as_ref().map(|t| (t.tid, t.wchan.clone(), t.call.clone()));
        let same = self.places.lasts(key.clone(), place, judge.since_boot());
        let reading = match (late, same) {
            (Some(_), Some(same)) if same >= rule.long => Reading::Bad,
            (None, _) if answered => Reading::Good,
            _ => Reading::Unknown,
        };
        let since = late.map_or(Duration::ZERO, |l| judge.snapshot.at.saturating_sub(l.since));
        let waits = late.map(Late::waits).unwrap_or_default();
        let finding_subject = subject.clone();
        Judged {
            key,
            subject,
            reading,
            at: judge.snapshot.at,
            pace: &USUAL,
            finding: Box::new(move |_| Finding {
                evidence: format!(
                    "nodewarden_device_late_seconds {:.0}{waits}, so for {:.0} s, expected less than {}",
                    since.as_secs_f64(),
                    same.unwrap_or_default().as_secs_f64(),
                    rule.long.as_secs()
                ),
                ..(rule.finding)(finding_subject, &task.unwrap_or_default())
            }),
        }
    }
}

/// What was blocked and is not among the devices any more.
fn unlisted<'a>(judge: &Judge<'a>, rule: &'static Rule, collector: &CollectorState) -> Vec<Judged<'a>> {
    let name = collector.spec.name;
    let worker = Subject::new(SubjectKind::Worker, name);
    let mut listed: Vec<String> = collector
        .devices
        .iter()
        .map(|d| key(rule, name, &d.subject))
        .collect();
    listed.push(key(rule, name, &worker));
    let of_collector = format!("{} {name} ", rule.id);
    let gone = judge
        .bad
        .iter()
        .filter(|key| key.starts_with(&of_collector) && !listed.contains(key));
    gone.map(|key| {
        let subject = worker.clone();
        Judged {
            key: key.clone(),
            subject: worker.clone(),
            reading: Reading::Good,
            at: judge.snapshot.at,
            pace: &USUAL,
            finding: Box::new(move |_| (rule.finding)(subject, &Task::default())),
        }
    })
    .collect()
}

fn key(rule: &Rule, collector: &str, subject: &Subject) -> String {
    format!("{} {collector} {subject}", rule.id)
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

/// Whether it waits for a filesystem or for memory, as far as it is shown.
pub(super) fn waits_for_storage(task: &Task) -> bool {
    STORAGE.iter().any(|place| task.wchan.starts_with(place))
}

/// Where whoever asks for the cgroup of a process waits for those who change cgroups, and that is done with a GPU's processes.
const CGROUPS: [&str; 2] = ["proc_cgroup_show", "cgroup_"];

/// Whether it sleeps where it says that it is a driver that blocks. A place that is not shown says nothing.
pub(super) fn sleeps_in_driver(task: &Task) -> bool {
    let elsewhere = waits_for_storage(task) || CGROUPS.iter().any(|place| task.wchan.starts_with(place));
    task.state == 'D' && !task.wchan.is_empty() && !elsewhere
}
