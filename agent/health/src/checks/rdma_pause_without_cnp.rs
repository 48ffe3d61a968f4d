//! Check `rdma-pause-without-cnp`: pauses without congestion notifications: DCQCN does not work.

use std::time::Duration;

use collectors::ethernet::metrics::{PFC_RX_FRAMES, PFC_TX_FRAMES};
use collectors::rdma::metrics::{
    NP_CNP_SENT, NP_ECN_MARKED_ROCE_PACKETS, ROCE_SLOW_RESTART_CNPS, RP_CNP_HANDLED,
};
use collectors::{Metric, Subject, SubjectKind};

use super::rdma_peers::{Opinion, Voices, Weighed, Whose, weigh};
use super::rdma_pfc_storm::repaired_without_pause;
use super::{Check, Looks, May, Scope, Version, expected};
use crate::condition::{Judged, Pace, Reading};
use crate::judge::{Judge, evidence};
use crate::reads::port::{Port, number};
use crate::trail::Trails;
use model::snapshot::Sample;

/// The row.
pub static CHECK: Check = Check {
    id: "rdma-pause-without-cnp",
    subject: SubjectKind::RdmaPort,
    fires_when: "Within 600 s a port sends or receives at least 1,000 PFC pause frames, but no congestion notification (CNP) or ECN-marked packet.",
    lasting: "2 consecutive readings, at least 30 s",
    clears_when: "3 consecutive readings, at least 600 s, with a notification, with fewer pause frames or with PFC turned off.",
    ignored_when: "Nodes whose `health.checks` does not name this check: some fabrics run without DCQCN. CNPs that RoCE slow restart generates.",
    scope: Scope::Shared,
    may: May::Observe,
    since: Version(0, 1, 0),
    watch: || Looks::start(conditions),
};

const WINDOW: Duration = Duration::from_secs(600);
/// Fewer pauses may occur before a switch starts to mark packets.
const FRAMES: u64 = 1000;

static ROW: Weighed = Weighed {
    check: &CHECK,
    of: "",
    aspect: "",
    pace: &Pace {
        bad: 2,
        bad_span: Duration::from_secs(30),
        good: 3,
        hold: Duration::from_secs(600),
    },
    acts: true,
    needs_peers: true,
    together: "pauses without congestion notifications",
    whose: Whose::Fabric,
};

/// Port, metric, and the other labels: priority and interface.
type Names = Trails<(String, &'static str, String)>;

#[derive(Default)]
struct State {
    voices: Voices,
    trails: Names,
}

fn conditions<'a>(judge: &Judge<'a>, State { voices, trails }: &mut State) -> Vec<Judged<'a>> {
    if !judge.site.settings.checks.contains_key(CHECK.id) {
        let over = |key: &String| expected::unexpected(judge, &CHECK, key.clone(), Subject::node());
        return judge.bad.iter().map(over).collect();
    }
    weigh(judge, voices, &ROW, |port, _| opinion(judge, trails, port))
}

/// The growth of the series of some metrics, whether it covers the window, and the last series. `None`: no series.
fn grown<'a>(
    judge: &Judge<'a>,
    trails: &mut Names,
    port: &Port<'a>,
    metrics: &[&'static Metric],
) -> Option<(u64, bool, Sample<'a>)> {
    let mut found: Option<(u64, bool, Sample<'a>)> = None;
    for metric in metrics {
        for sample in port.all(metric) {
            let more = sample.labels.get(2..).unwrap_or_default().join(" ");
            let name = (port.id.clone(), metric.name, more);
            let value = number(Some(sample))?;
            let at = judge.read_at(sample);
            let growth = trails.take(name, value, at, WINDOW);
            let (by, all, _) = found.unwrap_or((0, true, *sample));
            found = Some((
                by.saturating_add(growth.by),
                all && growth.covers(WINDOW),
                *sample,
            ));
        }
    }
    found
}

fn opinion<'a>(judge: &Judge<'a>, trails: &mut Names, port: &Port<'a>) -> Option<Opinion> {
    let Some((paused, all_paused, sample)) = grown(judge, trails, port, &[&PFC_RX_FRAMES, &PFC_TX_FRAMES])
    else {
        return without_frames(judge, port);
    };
    let mut of = |metrics: &[&'static Metric]| grown(judge, trails, port, metrics);
    let (received, handled) = (
        of(&[&NP_ECN_MARKED_ROCE_PACKETS, &NP_CNP_SENT]),
        of(&[&RP_CNP_HANDLED]),
    );
    // mlx5 handles CNPs that RoCE slow restart generates after time-outs. They are no notification of the fabric.
    let generated = of(&[&ROCE_SLOW_RESTART_CNPS]).map_or(0, |(by, ..)| by);
    let handled = handled.map(|(by, all, _)| (by.saturating_sub(generated), all));
    let counts: Vec<(u64, bool)> = received
        .map(|(by, all, _)| (by, all))
        .into_iter()
        .chain(handled)
        .collect();
    if counts.is_empty() {
        return None;
    }
    let notified: u64 = counts.iter().map(|(by, _)| by).sum();
    let all_notified = counts.iter().all(|(_, all)| *all);
    let reading = match () {
        () if notified > 0 => Reading::Good,
        () if !all_notified => Reading::Unknown,
        () if paused >= FRAMES => Reading::Bad,
        () if all_paused => Reading::Good,
        () => Reading::Unknown,
    };
    let expected = format!(
        "notifications with {FRAMES} frames in 600 s, had {paused} frames of all priorities and {notified} notifications"
    );
    Some(Opinion {
        reading,
        at: judge.read_at(&sample),
        detail: "pauses without congestion notifications".to_owned(),
        evidence: evidence(&sample, &expected),
    })
}

/// A port that has no counter of PFC frames any more.
fn without_frames(judge: &Judge<'_>, port: &Port<'_>) -> Option<Opinion> {
    let is_absent = port.one(&PFC_RX_FRAMES).is_none() && port.one(&PFC_TX_FRAMES).is_none();
    Some(Opinion {
        reading: Reading::Good,
        at: repaired_without_pause(judge, port).filter(|_| is_absent)?,
        detail: String::new(),
        evidence: String::new(),
    })
}
