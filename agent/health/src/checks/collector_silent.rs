//! Check `collector-silent`: a part of the node is not read at all, so that none of its faults would be found.

use std::time::Duration;

use collectors::domain::Signals;
use collectors::{Subject, SubjectKind};

use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Pace, Reading};
use crate::finding::{Finding, Remedy};
use crate::judge::Judge;
use model::snapshot::{CollectorState, Presence};

/// The row.
pub static CHECK: Check = Check {
    id: "collector-silent",
    subject: SubjectKind::Worker,
    fires_when: "A collector of something on this node has no current reading: its worker is stopped, ends again and again, or cannot open its source.",
    lasting: "8 consecutive readings, at least 300 s",
    clears_when: "3 consecutive readings, at least 60 s, in which the collector has a reading.",
    ignored_when: "A released driver. Single devices that cannot be read, and a GPU driver that cannot be used: other checks. Kernel log and host: without them the verdict is unknown.",
    scope: Scope::Node,
    // The fault is nodewarden's or its installation's.
    may: May::Observe,
    since: Version(0, 1, 0),
    watch: || Looks::start(conditions),
};

/// Longer than a worker's restarts after a change of its driver.
static PACE: Pace = Pace {
    bad: 8,
    bad_span: Duration::from_secs(300),
    good: 3,
    hold: Duration::from_secs(60),
};

/// The verdict requires them.
const NEEDED: [&str; 2] = ["kernel_log", "host"];

fn conditions<'a>(judge: &Judge<'a>, (): &mut ()) -> Vec<Judged<'a>> {
    let all = judge.snapshot.collectors.iter();
    all.filter(|c| !NEEDED.contains(&c.spec.name))
        .map(|c| judged(judge, c))
        .collect()
}

fn judged<'a>(judge: &Judge<'a>, collector: &CollectorState) -> Judged<'a> {
    let name = collector.spec.name;
    let subject = Subject::new(SubjectKind::Worker, name);
    let worker = judge
        .snapshot
        .workers
        .iter()
        .find(|w| w.domain == collector.spec.domain.name);
    let is_released = worker.is_some_and(|worker| worker.lease.is_some());
    let (reading, why) = match silence(collector, judge.snapshot.at) {
        Silence::No => (Reading::Good, String::new()),
        Silence::Unknown => (Reading::Unknown, String::new()),
        Silence::Since(_) if is_released => (Reading::Unknown, String::new()),
        Silence::Since(why) => {
            let down = worker.and_then(|worker| worker.down);
            let down = down.map_or_else(String::new, |word| format!("; worker down: {word}"));
            (Reading::Bad, format!("{why}{down}"))
        }
    };
    let finding = Finding {
        detail: "no current reading".to_owned(),
        remedy: Remedy::Inspect,
        evidence: format!("nodewarden_collector_up{{collector=\"{name}\"}} is not 1, expected 1: {why}"),
        ..Finding::of_condition(CHECK.id, subject.clone())
    };
    Judged {
        key: format!("{} {name}", CHECK.id),
        subject,
        reading,
        at: judge.snapshot.at,
        pace: &PACE,
        finding: Box::new(move |_| finding),
    }
}

enum Silence {
    No,
    /// Another check judges it.
    Unknown,
    Since(String),
}

fn silence(collector: &CollectorState, at: Duration) -> Silence {
    match &collector.presence {
        Presence::NotHere => Silence::No,
        Presence::Unknown => Silence::Since("its worker has not reported".to_owned()),
        Presence::Failed(..) if collector.spec.domain.signals == Signals::Never => Silence::Unknown,
        Presence::Failed(reason, text) => Silence::Since(format!("{reason}: {text}")),
        Presence::Open => {
            if let Some(Err((reason, text))) = &collector.watcher {
                return Silence::Since(format!("{reason}: {text}"));
            }
            // Also one that failed, but not for ever.
            let is_read = |d: &model::snapshot::DeviceState| at.saturating_sub(d.at) <= collector.max_age();
            let last = collector.devices.iter().map(|d| d.at).max();
            match last {
                Some(last) if !collector.devices.iter().any(is_read) => Silence::Since(format!(
                    "the last reading is {} s old",
                    at.saturating_sub(last).as_secs()
                )),
                _ => Silence::No,
            }
        }
    }
}
