//! Check `rdma-pfc-storm`: a port keeps telling its switch to stop sending. What waits there stands in everybody's way.

use std::time::Duration;

use collectors::SubjectKind;
use collectors::ethernet::metrics::{PAUSE_STORM_EVENTS, PFC_TX_PAUSE};

use super::rdma_peers::{Opinion, Voices, Weighed, Whose, weigh};
use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Pace, Reading};
use crate::judge::{Judge, evidence};
use crate::reads::port::{Port, number};
use crate::trail::Trails;
use model::snapshot::Sample;

/// The row.
pub static CHECK: Check = Check {
    id: "rdma-pfc-storm",
    subject: SubjectKind::RdmaPort,
    condition: "A port asked its switch to pause a priority for more than 5 % of a minute, which is shown, or for more than half of it, or counted a pause storm within ten minutes, in two readings running. Pauses that it receives are the fabric's, and do not count.",
    scope: Scope::Node,
    // It harms others, but also a job that writes faster than its host reads looks like that.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    clears: "By itself: three readings running, over five minutes or more, show less, and no storm for ten minutes.",
    runbook: "docs/runbooks/rdma-pfc-storm.md",
    watch: || Looks::start(conditions),
};

/// Over so long the share is taken.
const MINUTE: Duration = Duration::from_secs(60);
/// A storm counts for so long.
const STORM: Duration = Duration::from_secs(600);
/// Percent of the time that are too many: to be shown, and to be more.
const MUCH: (u64, u64) = (5, 50);

static PACE: Pace = Pace {
    bad: 2,
    bad_span: Duration::from_secs(30),
    good: 3,
    hold: Duration::from_secs(300),
};

static SHOWN: Weighed = Weighed {
    check: &CHECK,
    of: "",
    aspect: "",
    pace: &PACE,
    acts: false,
    // A port pauses because its own host does not take what came.
    needs_peers: false,
    together: "pauses",
    whose: Whose::Node,
};

static MORE: Weighed = Weighed {
    of: "storm",
    acts: true,
    together: "long pauses or storms",
    ..SHOWN
};

/// Port, metric and priority.
type Names = Trails<(String, &'static str, String)>;

/// What a port did to its switch.
struct Pauses<'a> {
    /// The priority that it paused most, and for how many percent of the last minute. `None`: not known yet.
    most: Option<(Sample<'a>, u64)>,
    /// Storms within ten minutes; whether that is known for all of them.
    storms: u64,
    watched: bool,
    storm: Option<Sample<'a>>,
    at: Duration,
}

/// A counter of seconds in microseconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates; checked to be a number"
)]
fn microseconds(sample: &Sample<'_>) -> Option<u64> {
    let seconds = sample.as_f64();
    (seconds.is_finite() && seconds >= 0.0).then_some((seconds * 1e6) as u64)
}

impl<'a> Pauses<'a> {
    /// `None`: none of its counters is there.
    fn of(judge: &Judge<'a>, trails: &mut Names, port: &Port<'a>) -> Option<Self> {
        let name = |sample: &Sample<'_>| {
            let more = sample.labels.get(2).map_or("", String::as_str);
            (port.id.clone(), sample.metric.name, more.to_owned())
        };
        let mut found = Self {
            most: None,
            storms: 0,
            watched: true,
            storm: None,
            at: Duration::ZERO,
        };
        for sample in port.all(&PFC_TX_PAUSE) {
            let Some(paused) = microseconds(sample) else {
                continue;
            };
            let at = judge.read_at(sample);
            found.at = found.at.max(at);
            let grown = trails.take(name(sample), paused, at, MINUTE);
            if !grown.covers(MINUTE) {
                continue;
            }
            let over = u64::try_from(grown.over.as_micros()).unwrap_or(u64::MAX).max(1);
            let percent = grown.by.saturating_mul(100) / over;
            if found.most.is_none_or(|(_, most)| most < percent) {
                found.most = Some((*sample, percent));
            }
        }
        for sample in port.all(&PAUSE_STORM_EVENTS) {
            let Some(count) = number(Some(sample)) else {
                continue;
            };
            let at = judge.read_at(sample);
            found.at = found.at.max(at);
            let grown = trails.take(name(sample), count, at, STORM);
            found.watched &= grown.covers(STORM);
            if found.storm.is_none() || grown.by > 0 {
                found.storm = Some(*sample);
            }
            found.storms += grown.by;
        }
        (found.at > Duration::ZERO).then_some(found)
    }

    fn opinion(&self, limit: u64, with_storms: bool, much: &str) -> Opinion {
        let percent = self.most.map(|(_, percent)| percent);
        let storms = if with_storms { self.storms } else { 0 };
        let is_much = percent.is_some_and(|p| p > limit);
        let reading = match () {
            () if is_much || storms > 0 => Reading::Bad,
            // Drivers that count no time leave only the storms to go by.
            () if percent.is_none() && (self.storm.is_none() || !with_storms) => Reading::Unknown,
            () if with_storms && !self.watched => Reading::Unknown,
            () => Reading::Good,
        };
        let mut lines = Vec::new();
        if let Some((sample, percent)) = &self.most {
            let expected =
                format!("to grow by {limit} % of the time at most, grew by {percent} % in a minute");
            lines.push(evidence(sample, &expected));
        }
        if let Some(sample) = self.storm.as_ref().filter(|_| storms > 0) {
            lines.push(evidence(
                sample,
                &format!("not to grow, grew by {storms} in ten minutes"),
            ));
        }
        let detail = match (is_much, storms > 0) {
            (_, true) => "pause storm",
            _ => much,
        };
        Opinion {
            reading,
            at: self.at,
            detail: detail.to_owned(),
            evidence: lines.join("; "),
        }
    }
}

#[derive(Default)]
struct State {
    voices: Voices,
    trails: Names,
}

fn conditions<'a>(judge: &Judge<'a>, State { voices, trails }: &mut State) -> Vec<Judged<'a>> {
    let (shown, more) = MUCH;
    let mut judged = weigh(judge, voices, &SHOWN, |port, _| {
        Some(Pauses::of(judge, trails, port)?.opinion(shown, false, "pauses its switch"))
    });
    judged.extend(weigh(judge, voices, &MORE, |port, _| {
        Some(Pauses::of(judge, trails, port)?.opinion(more, true, "keeps its switch paused"))
    }));
    judged
}
