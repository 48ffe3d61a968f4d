//! Check `rdma-pfc-storm`: a port keeps its switch paused, which blocks traffic of other nodes.

use std::time::Duration;

use collectors::SubjectKind;
use collectors::ethernet::metrics::{
    CALL_SECONDS, PAUSE_STORM_EVENTS, PAUSE_TX_SECONDS, PFC_ENABLED, PFC_TX_PAUSE, UNREADABLE,
};

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
    fires_when: "A port pauses its switch, one priority (PFC) or the whole link (802.3x), for more than 5 % of 60 s: shown, never drains. It may drain at more than 50 %, or after a pause storm within 600 s.",
    lasting: "2 consecutive readings, at least 30 s",
    clears_when: "3 consecutive readings, at least 300 s, below the limit or with pause turned off, and without a pause storm for 600 s.",
    ignored_when: "Pauses that the port receives.",
    scope: Scope::Node,
    // A job that writes faster than its host reads has the same effect.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Looks::start(conditions),
};

/// The share of paused time is measured over this time.
const MINUTE: Duration = Duration::from_secs(60);
/// A pause storm counts for this time.
const STORM: Duration = Duration::from_secs(600);
/// Limits in percent of the time: shown, and may drain.
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
    // A port pauses because its own host does not accept packets.
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

/// Port, metric, and the other labels: priority or severity, and interface.
type Names = Trails<(String, &'static str, String)>;

/// The pauses that a port sent to its switch.
struct Pauses<'a> {
    /// The priority or link with most pauses, and its percentage of the last 60 s. `None`: unknown so far.
    most: Option<(Sample<'a>, u64)>,
    /// Pause storms within 600 s, and whether the counters were read for all of that time.
    storms: u64,
    watched: bool,
    storm: Option<Sample<'a>>,
    /// Pause was turned off.
    is_off: bool,
    at: Duration,
}

/// Turning pause off repairs what was found before, and mlx5 then no longer has its counters. The time of the reading of
/// statistics in which no priority has PFC. `None`: a priority has it, this is unknown, or nothing was found.
pub(super) fn repaired_without_pause(judge: &Judge<'_>, port: &Port<'_>) -> Option<Duration> {
    let call = |metric, call| port.with(metric, "call", call);
    let read = call(&CALL_SECONDS, "statistics")?;
    let failed = ["dcb", "statistics"].map(|c| call(&UNREADABLE, c));
    let is_read = failed.iter().all(Option::is_none);
    let mut enabled = port.all(&PFC_ENABLED).peekable();
    let is_off = enabled.peek().is_some() && enabled.all(|s| number(Some(s)) == Some(0));
    // One that never had PFC has no opinion about those that have it.
    let has_pfc = |port: &Port<'_>| port.all(&PFC_ENABLED).any(|s| number(Some(s)) != Some(0));
    let is_its_own = judge
        .bad
        .iter()
        .any(|key| key.split(' ').any(|word| word == port.id));
    let is_over = is_its_own || (!judge.bad.is_empty() && !judge.ports.iter().any(has_pfc));
    (is_read && is_off && is_over).then(|| judge.read_at(read))
}

/// A counter of seconds, in microseconds.
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
    /// `None`: the port has none of these counters.
    fn of(judge: &Judge<'a>, trails: &mut Names, port: &Port<'a>) -> Option<Self> {
        let name = |sample: &Sample<'_>| {
            let more = sample.labels.get(2..).unwrap_or_default().join(" ");
            (port.id.clone(), sample.metric.name, more)
        };
        let mut found = Self {
            most: None,
            storms: 0,
            watched: true,
            storm: None,
            is_off: false,
            at: Duration::ZERO,
        };
        let mut has_time = false;
        for sample in port.all(&PFC_TX_PAUSE).chain(port.all(&PAUSE_TX_SECONDS)) {
            has_time = true;
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
        if !has_time && let Some(at) = repaired_without_pause(judge, port) {
            found.is_off = true;
            found.at = found.at.max(at);
        }
        (found.at > Duration::ZERO).then_some(found)
    }

    fn opinion(&self, limit: u64, with_storms: bool, much: &str) -> Opinion {
        let percent = self.most.map(|(_, percent)| percent);
        let storms = if with_storms { self.storms } else { 0 };
        let is_much = percent.is_some_and(|p| p > limit);
        let reading = match () {
            () if is_much || storms > 0 => Reading::Bad,
            // Some drivers count storms only, not the paused time.
            () if percent.is_none() && !self.is_off && (self.storm.is_none() || !with_storms) => {
                Reading::Unknown
            }
            () if with_storms && !self.watched => Reading::Unknown,
            () => Reading::Good,
        };
        let mut lines = Vec::new();
        // Beside a storm, a pause within its limit is no evidence.
        if let Some((sample, percent)) = self.most.as_ref().filter(|_| is_much || storms == 0) {
            let expected = format!("to grow by at most {limit} % of the time, grew by {percent} % in 60 s");
            lines.push(evidence(sample, &expected));
        }
        if let Some(sample) = self.storm.as_ref().filter(|_| storms > 0) {
            lines.push(evidence(
                sample,
                &format!("not to grow, grew by {storms} in 600 s"),
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
