//! Shared code of the checks of `health.expect` and of GPFS: from the answers of one reading to conditions of the node.

use std::time::Duration;

use collectors::Subject;

use super::Check;
use crate::condition::{Judged, Pace, Reading};
use crate::finding::{Finding, Remedy};
use crate::judge::Judge;

/// Modules and mounts are read once a minute: the span covers at least two real readings.
pub(super) static PACE: Pace = Pace {
    bad: 4,
    bad_span: Duration::from_secs(100),
    good: 3,
    hold: Duration::from_secs(100),
};

/// Until then not every worker has reported.
const START_GRACE: Duration = Duration::from_secs(60);

/// Whether the node has had the time to become complete.
pub(super) fn is_settled(judge: &Judge<'_>) -> bool {
    judge.is_booted() && judge.since_start >= START_GRACE
}

/// What one reading says about one expectation.
#[derive(Debug)]
pub(super) struct Answer {
    /// Distinguishes the conditions of a check.
    pub of: String,
    pub reading: Reading,
    /// When it was read, as time since boot.
    pub at: Duration,
    /// What was found and what was expected, with units.
    pub detail: String,
    pub evidence: String,
}

/// The conditions of a check. One that the site no longer expects is healthy.
pub(super) fn conditions<'a>(
    judge: &Judge<'a>,
    check: &'static Check,
    answers: Vec<Answer>,
) -> Vec<Judged<'a>> {
    let settled = is_settled(judge);
    let mut judged: Vec<Judged<'a>> = Vec::new();
    for mut answer in answers {
        if answer.reading == Reading::Bad && !settled {
            answer.reading = Reading::Unknown;
        }
        judged.push(of_node(check, &PACE, answer));
    }
    let over: Vec<String> = judge
        .bad
        .iter()
        .filter(|key| judged.iter().all(|j| j.key != **key))
        .cloned()
        .collect();
    judged.extend(
        over.into_iter()
            .map(|key| unexpected(judge, check, key, Subject::node())),
    );
    judged
}

/// The condition of a check of the node.
pub(super) fn of_node<'a>(check: &'static Check, pace: &'static Pace, answer: Answer) -> Judged<'a> {
    let Answer {
        of,
        reading,
        at,
        detail,
        evidence,
    } = answer;
    Judged {
        key: format!("{} {of}", check.id),
        subject: Subject::node(),
        reading,
        at,
        pace,
        finding: Box::new(move |_| Finding {
            detail,
            remedy: Remedy::Inspect,
            drains: true,
            evidence,
            ..Finding::of_condition(check.id, Subject::node())
        }),
    }
}

/// A condition that the site no longer expects.
pub(super) fn unexpected<'a>(
    judge: &Judge<'a>,
    check: &'static Check,
    key: String,
    subject: Subject,
) -> Judged<'a> {
    Judged {
        key,
        subject: subject.clone(),
        reading: Reading::Good,
        at: judge.snapshot.at,
        pace: &PACE,
        finding: Box::new(move |_| Finding::of_condition(check.id, subject)),
    }
}
