//! Devices that cannot be read: shared code of the checks that report them.

use std::time::Duration;

use collectors::{Subject, SubjectKind};

use crate::condition::{Judged, Pace, Reading};
use crate::finding::{Finding, Joins, Remedy};
use crate::judge::Judge;
use model::snapshot::{CollectorState, DeviceState, Late, Presence};

/// How a check selects and judges devices.
pub(super) struct Rule {
    /// The check's id.
    pub(super) id: &'static str,
    /// The collector of the devices.
    pub(super) covers: fn(&CollectorState) -> bool,
    /// Their kind.
    pub(super) kind: SubjectKind,
    /// Whether the device was in use.
    pub(super) in_use: fn(&Judge<'_>, &Subject) -> bool,
    /// What an error of the device means, by its word.
    pub(super) means: fn(&str) -> Meaning,
}

/// What an error of a device means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A fault of the device.
    Fault,
    /// A fault that never drains: of the installation, or too slow.
    Shown,
    /// Another check judges it, or it is no fault.
    Other,
}

/// Longer than the reset of an adapter or a reload of its driver.
pub(super) static PACE: Pace = Pace {
    bad: 8,
    bad_span: Duration::from_secs(120),
    good: 3,
    hold: Duration::from_secs(60),
};

/// A health tick does not wait longer for a device.
const PATIENCE: Duration = Duration::from_secs(3);

/// Judges every device of the rule.
pub(super) fn conditions<'a>(judge: &Judge<'a>, rule: &'static Rule) -> Vec<Judged<'a>> {
    let mut judged = Vec::new();
    let open = |c: &&CollectorState| c.presence == Presence::Open && (rule.covers)(c);
    for collector in judge.snapshot.collectors.iter().filter(open) {
        let devices = collector.devices.iter().filter(|d| d.subject.kind == rule.kind);
        let mut listed = Vec::new();
        for device in devices {
            let key = format!("{} {} {}", rule.id, collector.spec.name, device.subject);
            listed.push(key.clone());
            judged.push(one(judge, rule, (collector, device), key));
        }
        // Another check reports devices that are gone.
        let of_collector = format!("{} {} ", rule.id, collector.spec.name);
        let bad = judge.bad.iter().filter(|key| key.starts_with(&of_collector));
        for key in bad.filter(|key| !listed.contains(key)) {
            let worker = Subject::new(SubjectKind::Worker, collector.spec.name);
            judged.push(judged_of(judge, rule, (key.clone(), worker), Reading::Good, None));
        }
    }
    judged
}

/// The error of a device: its word, its text, and whether it may drain.
struct Fault {
    reason: String,
    text: String,
    drains: bool,
}

fn one<'a>(
    judge: &Judge<'a>,
    rule: &'static Rule,
    (collector, device): (&CollectorState, &DeviceState),
    key: String,
) -> Judged<'a> {
    let at = judge.snapshot.at;
    let fault = fault(collector, device, rule, at).filter(|_| (rule.in_use)(judge, &device.subject));
    let reading = match &fault {
        Some(_) => Reading::Bad,
        None if collector.device_up(device, at) == Some(true) && device.late.is_none() => Reading::Good,
        None => Reading::Unknown,
    };
    judged_of(judge, rule, (key, device.subject.clone()), reading, fault)
}

fn fault(collector: &CollectorState, device: &DeviceState, rule: &Rule, at: Duration) -> Option<Fault> {
    if let Some(late) = device.late.as_ref().filter(|late| is_asleep(late)) {
        let since = at.saturating_sub(late.since).as_secs();
        let is_slow = device.took >= PATIENCE;
        if is_slow || !device.shown(at, collector.max_age()) {
            return Some(Fault {
                reason: if is_slow { "slow" } else { "no answer" }.to_owned(),
                text: format!(
                    "nodewarden_device_late_seconds {since}{}, expected less than {}; the last reading took {:.1} s",
                    late.waits(),
                    PATIENCE.as_secs(),
                    device.took.as_secs_f64()
                ),
                drains: false,
            });
        }
    }
    let (reason, text) = device.error.as_ref()?;
    let means = (rule.means)(reason);
    (means != Meaning::Other).then(|| Fault {
        reason: reason.clone(),
        text: format!(
            "nodewarden_device_error_info{{collector=\"{}\",reason=\"{reason}\"}} 1, expected none: {text}",
            collector.spec.name
        ),
        drains: means == Meaning::Fault,
    })
}

/// A thread that is runnable waits for a processor: a job may use every core. Check `reading-blocked` reports it after 300 s.
fn is_asleep(late: &Late) -> bool {
    late.task.as_ref().is_some_and(|task| task.state != 'R')
}

fn judged_of<'a>(
    judge: &Judge<'a>,
    rule: &'static Rule,
    (key, subject): (String, Subject),
    reading: Reading,
    fault: Option<Fault>,
) -> Judged<'a> {
    let found = subject.clone();
    Judged {
        key,
        subject,
        reading,
        at: judge.snapshot.at,
        pace: &PACE,
        finding: Box::new(move |_| {
            let (detail, evidence, drains) = fault.map_or_else(Default::default, |f| {
                (format!("cannot be read: {}", f.reason), f.text, f.drains)
            });
            Finding {
                detail,
                remedy: Remedy::Inspect,
                drains,
                joins: Joins::Attaches,
                evidence,
                ..Finding::of_condition(rule.id, found)
            }
        }),
    }
}
