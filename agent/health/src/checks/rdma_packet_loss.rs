//! Check `rdma-packet-loss`: packets of a port are lost. Jobs run slowly but do not fail.

use std::time::Duration;

use collectors::SubjectKind;
use collectors::rdma::metrics::{PACKET_SEQ_ERR, PORT_XMIT_PACKETS, UNICAST_XMIT_PACKETS};

use super::rdma_peers::{Opinion, Voices, Weighed, Whose, weigh};
use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Pace, Reading};
use crate::judge::{Judge, evidence};
use crate::reads::port::{Port, number};
use crate::trail::Trails;

/// The row.
pub static CHECK: Check = Check {
    id: "rdma-packet-loss",
    subject: SubjectKind::RdmaPort,
    fires_when: "Within 300 s peers report at least 100 sequence gaps, and at least 1 in 1,000 packets that the port sent. In a group of fewer than 4 ports the finding never drains.",
    lasting: "2 consecutive readings, at least 10 s, after the counters were read for 60 s",
    clears_when: "3 consecutive readings, at least 300 s, below the limit.",
    ignored_when: "Loss on most ports of a group: reported once for the node, never drains. Ports that send nothing.",
    scope: Scope::Shared,
    // The loss may be anywhere in the fabric, and adaptive routing may look like it.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Looks::start(conditions),
};

const WINDOW: Duration = Duration::from_secs(300);
/// Longer than the loss during a route change.
const LASTS: Duration = Duration::from_secs(60);
/// Fewer gaps are no rate.
const GAPS: u64 = 100;
/// One gap in this number of packets halves the throughput with go-back-N retransmission.
const ONE_IN: u64 = 1000;

static ROW: Weighed = Weighed {
    check: &CHECK,
    of: "",
    aspect: "",
    pace: &Pace {
        bad: 2,
        bad_span: Duration::from_secs(10),
        good: 3,
        hold: Duration::from_secs(300),
    },
    acts: true,
    needs_peers: true,
    together: "packet loss",
    whose: Whose::Fabric,
};

#[derive(Default)]
struct State {
    voices: Voices,
    trails: Trails<(String, &'static str)>,
}

fn conditions<'a>(judge: &Judge<'a>, State { voices, trails }: &mut State) -> Vec<Judged<'a>> {
    weigh(judge, voices, &ROW, |port, _| opinion(judge, trails, port))
}

fn opinion(
    judge: &Judge<'_>,
    trails: &mut Trails<(String, &'static str)>,
    port: &Port<'_>,
) -> Option<Opinion> {
    let sample = port.one(&PACKET_SEQ_ERR)?;
    let at = judge.read_at(sample);
    // Some drivers (ionic) count unicast packets only, which RoCE data are.
    let sent = port
        .one(&PORT_XMIT_PACKETS)
        .or_else(|| port.one(&UNICAST_XMIT_PACKETS));
    let (gaps, sent) = (number(Some(sample))?, number(sent)?);
    let name = |of| (port.id.clone(), of);
    let (gaps, sent) = trails.take_both([(name("gaps"), gaps), (name("sent"), sent)], at, WINDOW);
    let is_much = gaps.by >= GAPS && gaps.by.saturating_mul(ONE_IN) >= sent.by;
    let reading = match () {
        // A port that sends nothing loses nothing.
        () if sent.by == 0 && gaps.by > 0 => Reading::Unknown,
        () if is_much && gaps.over >= LASTS => Reading::Bad,
        () if !is_much && gaps.covers(WINDOW) => Reading::Good,
        () => Reading::Unknown,
    };
    let expected = format!(
        "to grow by fewer than {GAPS}, or one in {ONE_IN} packets, in {} s, grew by {} with {} packets sent",
        WINDOW.as_secs(),
        gaps.by,
        sent.by
    );
    Some(Opinion {
        reading,
        at,
        detail: "packets are lost on the way".to_owned(),
        evidence: evidence(sample, &expected),
    })
}
