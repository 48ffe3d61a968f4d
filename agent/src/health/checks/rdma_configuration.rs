//! Check `rdma-configuration`: a port is not set up as the profile says, or not as the ports like it are.

use std::collections::BTreeMap;
use std::time::Duration;

use collectors::SubjectKind;

use super::rdma_peers::{Opinion, Weighed, Whose, weigh};
use super::rdma_port::Port;
use super::rdma_setup::{Aspect, Setup, Want};
use super::{Check, Scope, Version};
use crate::health::Mode;
use crate::health::condition::{Judged, Pace, Reading};
use crate::health::judge::Judge;

/// The row.
pub static CHECK: Check = Check {
    id: "rdma-configuration",
    subject: SubjectKind::RdmaPort,
    condition: "Flow control, trust, DCQCN, MTU, error correction, rate, firmware or GID of a port are not as health.rdma says, or a RoCE port that is up has no RoCE v2 GID, or its flow control, trust, MTU or firmware are not those of at least three quarters of four or more ports of its kind (which is only shown), in four readings running, over a minute or more.",
    scope: Scope::Node,
    // Jobs run on it, if slower, and on all of a site where it is the profile that is wrong.
    ceiling: Mode::Comment,
    since: Version(0, 1, 0),
    clears: "By itself: three readings running, over a minute or more, show what is expected.",
    runbook: "docs/runbooks/rdma-configuration.md",
    conditions: Some(conditions),
};

static PROFILE: Weighed = Weighed {
    check: &CHECK,
    of: "profile",
    pace: &Pace {
        bad: 4,
        bad_span: Duration::from_secs(60),
        good: 3,
        hold: Duration::from_secs(60),
    },
    rank: 75,
    acts: true,
    needs_peers: false,
    together: "configuration",
    // What the profile says of all its ports, the node does not do.
    whose: Whose::Node,
};

static PEERS: Weighed = Weighed {
    of: "peers",
    // A storage port may differ on purpose.
    acts: false,
    rank: 78,
    needs_peers: true,
    whose: Whose::Fabric,
    ..PROFILE
};

static GIDS: Weighed = Weighed {
    of: "gid",
    // A port that nobody uses has a link and no address.
    acts: false,
    rank: 79,
    ..PROFILE
};

/// Ports that are to be alike: driver, link layer, board and best rate.
type Kin = (String, String, String, u64);

fn kin(judge: &Judge<'_>, port: &Port<'_>) -> Kin {
    (
        port.driver.to_owned(),
        port.link_layer.to_owned(),
        port.board.to_owned(),
        judge.memory.best_rate(&port.id).unwrap_or_default(),
    )
}

fn conditions<'a>(judge: &mut Judge<'a>) -> Vec<Judged<'a>> {
    let mut kindred: BTreeMap<Kin, Vec<Setup>> = BTreeMap::new();
    for port in judge.ports {
        if port.is_told() {
            kindred.entry(kin(judge, port)).or_default().push(Setup::of(port));
        }
    }
    let mut judged = weigh(judge, &PROFILE, |judge, port, _| {
        let wants = Want::of_profile(&judge.policy.rdma, port);
        compare(port, "configuration differs", &wants)
    });
    judged.extend(weigh(judge, &GIDS, |_, port, _| {
        let wants: Vec<Want> = Want::of_roce().into_iter().collect();
        compare(port, "no address", &wants)
    }));
    judged.extend(weigh(judge, &PEERS, |judge, port, _| {
        let kin = kindred.get(&kin(judge, port))?;
        let wants: Vec<Want> = Aspect::OF_PEERS
            .iter()
            .filter_map(|aspect| Want::of_peers(*aspect, kin))
            .collect();
        compare(port, "unlike most of its kind", &wants)
    }));
    judged
}

/// `None`: nothing that is wanted can be seen.
fn compare(port: &Port<'_>, how: &str, wants: &[Want]) -> Option<Opinion> {
    let setup = Setup::of(port);
    let (mut drift, mut lines) = (Vec::new(), Vec::new());
    let (mut seen, mut unseen) = (0, 0);
    for want in wants {
        let Some(found) = setup.get(want.aspect) else {
            unseen += 1;
            continue;
        };
        seen += 1;
        if !want.is_met(found) {
            drift.push(want.aspect.word());
            lines.push(format!(
                "{} ({}) is {found}, expected {}",
                want.aspect.word(),
                want.aspect.source(),
                want
            ));
        }
    }
    let reading = match () {
        () if !drift.is_empty() => Reading::Bad,
        // What cannot be seen may be what was wrong.
        () if unseen > 0 => Reading::Unknown,
        () => Reading::Good,
    };
    (seen > 0).then(|| Opinion {
        reading,
        at: port.at,
        detail: format!("{how}: {}", drift.join(", ")),
        evidence: lines.join("; "),
    })
}
