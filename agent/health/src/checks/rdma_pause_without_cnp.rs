//! Check `rdma-pause-without-cnp`: pauses and no congestion notification. Where DCQCN is meant to work, it does not.

use std::time::Duration;

use collectors::ethernet::metrics::{PFC_RX_FRAMES, PFC_TX_FRAMES};
use collectors::rdma::metrics::{NP_CNP_SENT, NP_ECN_MARKED_ROCE_PACKETS, RP_CNP_HANDLED};
use collectors::{Metric, SubjectKind};

use super::rdma_peers::{Opinion, Voices, Weighed, Whose, weigh};
use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Pace, Reading};
use crate::judge::{Judge, evidence};
use crate::reads::port::{Port, number};
use crate::trail::Trails;
use model::snapshot::Sample;

/// The row.
pub static CHECK: Check = Check {
    id: "rdma-pause-without-cnp",
    subject: SubjectKind::RdmaPort,
    condition: "A port sent or received 1,000 priority pause frames within ten minutes and not one congestion notification or marked packet. It is looked for only where health.checks names it, since some fabrics run without DCQCN on purpose.",
    scope: Scope::Shared,
    may: May::Observe,
    since: Version(0, 1, 0),
    clears: "By itself: three readings running, over ten minutes or more, show notifications, or no pauses.",
    runbook: "docs/runbooks/rdma-pause-without-cnp.md",
    watch: || Looks::start(conditions),
};

const WINDOW: Duration = Duration::from_secs(600);
/// Fewer pauses may come before a switch begins to mark.
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

/// Port, metric and priority.
type Names = Trails<(String, &'static str, String)>;

#[derive(Default)]
struct State {
    voices: Voices,
    trails: Names,
}

fn conditions<'a>(judge: &Judge<'a>, State { voices, trails }: &mut State) -> Vec<Judged<'a>> {
    if !judge.site.checks.contains_key(CHECK.id) {
        return Vec::new();
    }
    weigh(judge, voices, &ROW, |port, _| opinion(judge, trails, port))
}

/// What the series of some metrics grew by, with the last of them; and whether that is known for the whole window.
/// `None`: there are none.
fn grown<'a>(
    judge: &Judge<'a>,
    trails: &mut Names,
    port: &Port<'a>,
    metrics: &[&'static Metric],
) -> Option<(u64, bool, Sample<'a>)> {
    let mut found: Option<(u64, bool, Sample<'a>)> = None;
    for metric in metrics {
        for sample in port.all(metric) {
            let more = sample.labels.get(2).map_or("", String::as_str);
            let name = (port.id.clone(), metric.name, more.to_owned());
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
    let (paused, all_paused, sample) = grown(judge, trails, port, &[&PFC_RX_FRAMES, &PFC_TX_FRAMES])?;
    let (told, all_told, _) = grown(
        judge,
        trails,
        port,
        &[&NP_ECN_MARKED_ROCE_PACKETS, &NP_CNP_SENT, &RP_CNP_HANDLED],
    )?;
    let reading = match () {
        () if told > 0 => Reading::Good,
        () if !all_told => Reading::Unknown,
        () if paused >= FRAMES => Reading::Bad,
        () if all_paused => Reading::Good,
        () => Reading::Unknown,
    };
    let expected = format!(
        "notifications with {FRAMES} frames in ten minutes, had {paused} frames of all priorities and {told} notifications"
    );
    Some(Opinion {
        reading,
        at: judge.read_at(&sample),
        detail: "pauses without congestion notifications".to_owned(),
        evidence: evidence(&sample, &expected),
    })
}
