//! Check `gpfs-waiters-long`: a thread of the GPFS daemon waits for minutes.

use std::time::Duration;

use collectors::SubjectKind;
use collectors::gpfs::command_metrics::{LONGEST_WAIT, LONGEST_WAITER, WAITERS};
use collectors::gpfs::commands;

use super::expected::{self, Answer};
use super::gpfs::{self, LastOutput};
use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Pace, Reading};
use crate::judge::{Judge, evidence};

/// The row.
pub static CHECK: Check = Check {
    id: "gpfs-waiters-long",
    subject: SubjectKind::Node,
    fires_when: "A thread of the GPFS daemon (mmfsd) waits for more than 300 s.",
    lasting: "2 consecutive outputs of `mmdiag --waiters`, at least 60 s",
    clears_when: "2 consecutive outputs, at least 60 s, in which no thread waits for more than 300 s. The commands are off: 3 consecutive readings, at least 100 s.",
    ignored_when: "Threads that always wait: EventsExporterSenderThread and Fsck*. Output that is missing or older than 14 min.",
    // Most wait for a server or for the network.
    scope: Scope::Shared,
    may: May::ObserveOrDrain,
    since: Version(0, 1, 0),
    watch: || Looks::start(conditions),
};

static PACE: Pace = Pace {
    bad: 2,
    bad_span: Duration::from_secs(60),
    good: 2,
    hold: Duration::from_secs(60),
};

fn conditions<'a>(judge: &Judge<'a>, last: &mut LastOutput) -> Vec<Judged<'a>> {
    if gpfs::is_off(judge) {
        return gpfs::over(judge, &CHECK);
    }
    let Some(sample) = judge.snapshot.samples(&LONGEST_WAIT).next() else {
        return Vec::new();
    };
    let mut line = evidence(&sample, "at most 300");
    if let Some(waiter) = judge.snapshot.samples(&LONGEST_WAITER).next() {
        let label = |name| waiter.label(name).unwrap_or_default();
        line.push_str(&format!("; {}: {}", label("waiter"), label("reason")));
    }
    if let Some(all) = judge.snapshot.samples(&WAITERS).next() {
        line.push_str(&format!("; {} waiters", all.as_f64()));
    }
    let is_long = sample.as_f64() > commands::LONG_WAIT;
    let answer = Answer {
        of: commands::WAITERS.name.to_owned(),
        reading: if is_long { Reading::Bad } else { Reading::Good },
        at: last.read_at(judge, &commands::WAITERS, &sample),
        detail: "a thread of mmfsd waits for more than 300 s".to_owned(),
        evidence: line,
    };
    vec![expected::of_node(&CHECK, &PACE, answer)]
}
