//! Devices that cannot be read: shared code of the checks that report them.

use std::sync::Arc;
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
    /// What a late reading means.
    pub(super) late: Meaning,
}

/// What it means that a device cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A fault of the device.
    Fault,
    /// At most a comment, whatever the mode of the check.
    Comment,
    /// A finding that requires no act.
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
    let open = |c: &&Arc<CollectorState>| c.presence == Presence::Open && (rule.covers)(c);
    for collector in judge.snapshot.collectors.iter().filter(open) {
        let devices = collector.devices.iter().filter(|d| d.subject.kind == rule.kind);
        let mut listed = Vec::new();
        for device in devices {
            for judged_one in both(judge, rule, (collector, device)) {
                listed.push(judged_one.key.clone());
                judged.push(judged_one);
            }
        }
        // Another check reports devices that are gone.
        let of_collector = format!("{} {} ", rule.id, collector.spec.name);
        let bad = judge.bad.iter().filter(|key| key.starts_with(&of_collector));
        for key in bad.filter(|key| !listed.contains(key)) {
            let worker = Subject::new(SubjectKind::Worker, collector.spec.name);
            let good = (Reading::Good, judge.snapshot.at);
            judged.push(judged_of(rule, (key.clone(), worker), good, None));
        }
    }
    judged
}

/// Why a device is unreadable: a word and a text.
struct Fault {
    reason: String,
    text: String,
    means: Meaning,
}

/// A device has two conditions: a fault that may drain, and one that may not. Each counts its own readings, so that a fault
/// that follows a late reading drains like any other.
fn both<'a>(
    judge: &Judge<'a>,
    rule: &'static Rule,
    (collector, device): (&CollectorState, &DeviceState),
) -> [Judged<'a>; 2] {
    let at = judge.snapshot.at;
    let is_good = collector.device_up(device, at) == Some(true) && device.late.is_none();
    let in_use = (rule.in_use)(judge, &device.subject);
    let fault = late(collector, device, rule, at).filter(|_| !has_fault(device, rule));
    // The end of a worker, or its stop, says nothing of the device.
    let is_read = device.late.is_some() || at.saturating_sub(device.at) <= collector.read_within();
    let fault = fault
        .or_else(|| error(collector, device, rule).filter(|_| is_read))
        .filter(|_| in_use);
    let (drains, shown) = match fault {
        Some(fault) if fault.means == Meaning::Fault => (Some(fault), None),
        other => (None, other),
    };
    let key = format!("{} {} {}", rule.id, collector.spec.name, device.subject);
    let shown_key = format!("{key} shown");
    // A failed reading counts once, also while the next one is late.
    let failed_at = if device.late.is_some() { device.at } else { at };
    [(key, drains, failed_at), (shown_key, shown, at)].map(|(key, fault, at)| {
        let reading = match &fault {
            Some(_) => Reading::Bad,
            None if is_good => Reading::Good,
            None => Reading::Unknown,
        };
        judged_of(rule, (key, device.subject.clone()), (reading, at), fault)
    })
}

/// Whether its last completed reading failed by a fault that may drain. It counts also while the next one is late.
fn has_fault(device: &DeviceState, rule: &Rule) -> bool {
    let reason = device.error.as_ref().map(|(reason, _)| reason);
    reason.is_some_and(|reason| (rule.means)(reason) == Meaning::Fault)
}

fn late(collector: &CollectorState, device: &DeviceState, rule: &Rule, at: Duration) -> Option<Fault> {
    let late = device.late.as_ref();
    let late = late.filter(|late| is_asleep(late) && late.is_reported(at))?;
    let since = at.saturating_sub(late.since).as_secs();
    let is_slow = device.took >= PATIENCE;
    (is_slow || !device.shown(at, collector.max_age())).then(|| Fault {
        reason: if is_slow { "slow" } else { "no answer" }.to_owned(),
        text: format!(
            "nodewarden_device_late_seconds {since}{}, expected less than {}; the last reading took {:.1} s",
            late.waits(),
            PATIENCE.as_secs(),
            device.took.as_secs_f64()
        ),
        means: rule.late,
    })
}

fn error(collector: &CollectorState, device: &DeviceState, rule: &Rule) -> Option<Fault> {
    let (reason, text) = device.error.as_ref()?;
    let means = (rule.means)(reason);
    (means != Meaning::Other).then(|| Fault {
        reason: reason.clone(),
        text: format!(
            "nodewarden_device_error_info{{collector=\"{}\",reason=\"{reason}\"}} 1, expected none: {text}",
            collector.spec.name
        ),
        means,
    })
}

/// A thread that is runnable waits for a processor: a job may use every core. Check `reading-blocked` reports it after 300 s.
fn is_asleep(late: &Late) -> bool {
    late.task.as_ref().is_some_and(|task| task.state != 'R')
}

fn judged_of<'a>(
    rule: &'static Rule,
    (key, subject): (String, Subject),
    (reading, at): (Reading, Duration),
    fault: Option<Fault>,
) -> Judged<'a> {
    let found = subject.clone();
    Judged {
        key,
        subject,
        reading,
        at,
        pace: &PACE,
        finding: Box::new(move |_| {
            let (reason, evidence, means) = fault.map_or_else(
                || (String::new(), String::new(), Meaning::Shown),
                |f| (f.reason, f.text, f.means),
            );
            Finding {
                detail: format!("cannot be read: {reason}"),
                remedy: Remedy::Inspect,
                drains: means != Meaning::Shown,
                comments_only: means == Meaning::Comment,
                joins: Joins::Attaches,
                evidence,
                ..Finding::of_condition(rule.id, found)
            }
        }),
    }
}
