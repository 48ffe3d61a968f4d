//! Blocked calls: shared code of the checks that report them.

use std::collections::BTreeSet;
use std::time::Duration;

use collectors::sys::task::Task;
use collectors::{Domain, Subject, SubjectKind};
use serde::{Deserialize, Serialize};

use super::{Kept, Watch};
use crate::condition::{Judged, Reading, USUAL};
use crate::counts::Unchanged;
use crate::finding::Finding;
use crate::judge::Judge;
use model::snapshot::{CollectorState, Late, Presence};

/// How a check detects and reports a blocked call.
pub(super) struct Rule {
    /// The check's id.
    pub(super) id: &'static str,
    /// The collectors that it covers.
    pub(super) covers: fn(&CollectorState) -> bool,
    /// Whether the state of a thread of that worker proves that it is blocked, not that the node is busy.
    pub(super) is_blocked: fn(&Domain, &Task) -> bool,
    /// How long the thread must stay in that state.
    pub(super) long: Duration,
    /// Whether a device that is no longer listed ends the finding: it was renamed, or its driver released it. Otherwise
    /// only if it had no name of its own, or was not listed in this boot: its thread ended with the earlier one.
    pub(super) ends_unlisted: bool,
    /// The finding, without its evidence.
    pub(super) finding: fn(Subject, &Task) -> Finding,
}

/// Where the call of each device sleeps and since when, by condition: thread, wait channel, system call.
pub(super) struct Blocked {
    rule: &'static Rule,
    places: Unchanged<String, (i32, String, String)>,
    earlier: Earlier,
}

/// The bad conditions of earlier boots whose devices were not listed in this one.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Earlier {
    /// They are all that are bad in the next snapshot.
    rebooted: bool,
    keys: BTreeSet<String>,
}

impl Earlier {
    fn look(&mut self, judge: &Judge<'_>) {
        if std::mem::take(&mut self.rebooted) {
            self.keys = judge.bad.iter().cloned().collect();
            judge.changed(!self.keys.is_empty());
        }
    }

    /// Those that were judged are matters of this boot.
    fn drop_judged(&mut self, judge: &Judge<'_>, judged: &[Judged<'_>]) {
        let before = self.keys.len();
        self.keys
            .retain(|key| judge.bad.contains(key) && judged.iter().all(|j| j.key != *key));
        judge.changed(self.keys.len() < before);
    }
}

impl Blocked {
    /// Starts with no state.
    pub(super) fn start(rule: &'static Rule) -> Box<dyn Watch> {
        Box::new(Self {
            rule,
            places: Unchanged::default(),
            earlier: Earlier::default(),
        })
    }
}

impl Watch for Blocked {
    /// Judges each device of the collectors, and the collector itself.
    fn look<'a>(&mut self, judge: &Judge<'a>) -> Vec<Judged<'a>> {
        let rule = self.rule;
        let snapshot = judge.snapshot;
        let (mut judged, mut gone) = (Vec::new(), Vec::new());
        self.earlier.look(judge);
        for collector in snapshot.collectors.iter().filter(|c| (rule.covers)(c)) {
            if matches!(collector.presence, Presence::NotHere | Presence::Unknown) {
                continue;
            }
            for device in &collector.devices {
                let answered = device.is_current(snapshot.at, collector.max_age());
                let late = device.late.as_ref();
                judged.push(self.one(judge, collector, device.subject.clone(), late, answered));
            }
            if collector.late.is_empty() && collector.presence == Presence::Open {
                let none_hangs = collector.devices.iter().all(|d| d.late.is_none());
                // One that the driver cannot name since the boot is unlisted too: its address has its name still.
                let is_replaced = |key: &String| {
                    self.earlier.keys.contains(key) && judge.inventory.values().all(|gpu| gpu != name_of(key))
                };
                gone.extend(unlisted(judge, rule.id, collector).into_iter().filter(|judged| {
                    let key = &judged.key;
                    rule.ends_unlisted || (none_hangs && (is_unnamed(key) || is_replaced(key)))
                }));
            }
            let subject = Subject::new(SubjectKind::Worker, collector.spec.name);
            let late = collector.late.iter().min_by_key(|l| l.since);
            let answered = collector.late.is_empty() && collector.presence == Presence::Open;
            judged.push(self.one(judge, collector, subject, late, answered));
        }
        self.earlier.drop_judged(judge, &judged);
        judged.extend(gone);
        judged
    }

    fn rebooted(&mut self) {
        self.earlier.rebooted = true;
    }

    fn kept(&mut self) -> Option<&mut dyn Kept> {
        Some(&mut self.earlier)
    }
}

/// Whether the device had only a place when it was blocked (`pci:0000:3b:00.0`, `index:3`): its driver has named it since.
fn is_unnamed(key: &str) -> bool {
    let name = name_of(key);
    name.starts_with("pci:") || name.starts_with("index:")
}

/// The name of a key's device.
fn name_of(key: &str) -> &str {
    key.rsplit(' ').next().unwrap_or_default()
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
        let key = key(rule.id, collector.spec.name, &subject);
        let domain = collector.spec.domain;
        let task = late
            .filter(|l| l.is_reported(judge.snapshot.at))
            .and_then(|l| l.task.clone())
            .filter(|t| (rule.is_blocked)(domain, t));
        // A thread that is awake or elsewhere makes progress.
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
                    "nodewarden_device_late_seconds {:.0}{waits}, unchanged for {:.0} s, expected less than {}",
                    since.as_secs_f64(),
                    same.unwrap_or_default().as_secs_f64(),
                    rule.long.as_secs()
                ),
                ..(rule.finding)(finding_subject, &task.unwrap_or_default())
            }),
        }
    }
}

/// Blocked devices of a check that are no longer listed, as healthy.
pub(super) fn unlisted<'a>(
    judge: &Judge<'a>,
    check: &'static str,
    collector: &CollectorState,
) -> Vec<Judged<'a>> {
    let name = collector.spec.name;
    let worker = Subject::new(SubjectKind::Worker, name);
    let devices = collector.devices.iter().map(|d| &d.subject);
    let listed: Vec<String> = devices
        .chain([&worker])
        .map(|subject| key(check, name, subject))
        .collect();
    let of_collector = format!("{check} {name} ");
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
            finding: Box::new(move |_| Finding::of_condition(check, subject)),
        }
    })
    .collect()
}

/// The key of a condition of a device.
pub(super) fn key(check: &str, collector: &str, subject: &Subject) -> String {
    format!("{check} {collector} {subject}")
}

/// Wait channels of storage and memory: the filesystem is slow, often for all nodes.
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

/// Whether the visible wait channel is one of storage or memory.
pub(super) fn waits_for_storage(task: &Task) -> bool {
    STORAGE.iter().any(|place| task.wchan.starts_with(place))
}

/// Wait channels of readers of a process's cgroup, which wait for changes of cgroups. The GPU collector reads them.
const CGROUPS: [&str; 2] = ["proc_cgroup_show", "cgroup_"];

/// Whether it sleeps inside a driver. On x86_64 the kernel shows no wait channel before Linux 5.16 (get_wchan() did not know the
/// ORC unwinder, bc9bbb81730e): then only a call on a device file of that driver is the proof.
pub(super) fn sleeps_in_driver(domain: &Domain, task: &Task) -> bool {
    let elsewhere = waits_for_storage(task) || CGROUPS.iter().any(|place| task.wchan.starts_with(place));
    let file = task.call.split_once(' ').map(|(_, file)| file);
    let on_device = file.is_some_and(|file| domain.devices.iter().any(|device| file.starts_with(device)));
    task.state == 'D' && !elsewhere && (!task.wchan.is_empty() || on_device)
}
