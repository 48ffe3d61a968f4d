//! Check `rdma-configuration`: a port is not set up as the profile says, or not as the ports like it are.

use std::collections::BTreeMap;
use std::time::Duration;

use collectors::{Subject, SubjectKind};

use super::rdma_peers::{Opinion, Voices, Weighed, Whose, weigh};
use super::rdma_setup::{Aspect, Setup, Want};
use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Pace, Reading};
use crate::finding::Finding;
use crate::judge::Judge;
use crate::reads::port::Port;

/// The row.
pub static CHECK: Check = Check {
    id: "rdma-configuration",
    subject: SubjectKind::RdmaPort,
    condition: "Flow control, trust, DCQCN, MTU, error correction, rate, firmware or GID of a port are not as health.rdma says, or a RoCE port that is up has no RoCE v2 GID, or its flow control, trust, MTU or firmware are not those of at least three quarters of four or more ports of its kind (which is only shown), in four readings running, over 100 seconds or more, over twelve minutes for DCQCN, not in the first ten minutes after boot. Each aspect is a condition of its own.",
    scope: Scope::Node,
    // Jobs run on it, if slower, and on all of a site where it is the profile that is wrong.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    clears: "By itself: three readings running, over 100 seconds or more, over twelve minutes for DCQCN, show what is expected.",
    runbook: "docs/runbooks/rdma-configuration.md",
    watch: || Looks::start(conditions),
};

/// What set-up is read from is kept for a minute: what one look at it says is not told twice.
static PACE: Pace = Pace {
    bad: 4,
    bad_span: Duration::from_secs(100),
    good: 3,
    hold: Duration::from_secs(100),
};

/// DCQCN is looked at every ten minutes.
static SELDOM: Pace = Pace {
    bad: 4,
    bad_span: Duration::from_secs(720),
    good: 3,
    hold: Duration::from_secs(720),
};

/// Set-up is done by services that start after the drivers.
const BOOT_GRACE: Duration = Duration::from_secs(600);

static PROFILE: Weighed = Weighed {
    check: &CHECK,
    of: "profile",
    aspect: "",
    pace: &PACE,
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
    needs_peers: true,
    together: "unlike their kind",
    whose: Whose::Fabric,
    ..PROFILE
};

static GIDS: Weighed = Weighed {
    of: "gid",
    // A port that nobody uses has a link and no address.
    acts: false,
    together: "no address",
    ..PROFILE
};

/// Ports that are to be alike: driver, link layer, board and best rate.
type Kin = (String, String, String, u64);

fn kin(judge: &Judge<'_>, port: &Port<'_>) -> Kin {
    (
        port.driver.to_owned(),
        port.link_layer.to_owned(),
        port.board.to_owned(),
        judge.known.rates.get(&port.id).copied().unwrap_or_default(),
    )
}

fn conditions<'a>(judge: &Judge<'a>, voices: &mut Voices) -> Vec<Judged<'a>> {
    let mut setups: BTreeMap<&str, Setup> = BTreeMap::new();
    let mut kindred: BTreeMap<Kin, Vec<Setup>> = BTreeMap::new();
    for port in judge.ports {
        let setup = Setup::of(port);
        if port.is_told() {
            kindred.entry(kin(judge, port)).or_default().push(setup.clone());
        }
        setups.insert(port.id.as_str(), setup);
    }
    let profile = &judge.site.rdma;
    let mut judged = Vec::new();
    for aspect in Aspect::OF_PROFILE {
        judged.extend(weigh(judge, voices, &row(&PROFILE, aspect), |port, _| {
            let want = Want::of_profile(aspect, profile, port)?;
            compare(judge, port, &setups, "configuration differs", &want)
        }));
    }
    judged.extend(weigh(judge, voices, &GIDS, |port, _| {
        compare(judge, port, &setups, "no address", &Want::of_roce()?)
    }));
    for aspect in Aspect::OF_PEERS {
        judged.extend(weigh(judge, voices, &row(&PEERS, aspect), |port, _| {
            let want = Want::of_peers(aspect, kindred.get(&kin(judge, port))?)?;
            compare(judge, port, &setups, "unlike most of its kind", &want)
        }));
    }
    judged.extend(unwanted(judge, &judged));
    judged
}

/// What was found and the site no longer asks for, of the port or at all: it is over.
fn unwanted<'a>(judge: &Judge<'a>, judged: &[Judged<'a>]) -> Vec<Judged<'a>> {
    let profile = &judge.site.rdma;
    let is_wanted = |aspect, port: &Port<'_>| Want::of_profile(aspect, profile, port).is_some();
    let over = |key: &&String| {
        let Some(rest) = key.strip_prefix(CHECK.id).and_then(|rest| rest.strip_prefix(' ')) else {
            return false;
        };
        let of_aspect = |aspect: &Aspect| Some((*aspect, rest.strip_suffix(aspect.word())?));
        let mut aspects = Aspect::OF_PROFILE.iter().filter_map(of_aspect);
        let of_profile =
            aspects.find_map(|(aspect, rest)| Some((aspect, rest.trim_end().strip_suffix(" profile")?)));
        match of_profile {
            Some((aspect, of)) if of.starts_with("together ") => {
                judge.ports.iter().all(|port| !is_wanted(aspect, port))
            }
            Some((aspect, id)) => judge
                .ports
                .iter()
                .any(|port| port.id == id && !is_wanted(aspect, port)),
            // A record from before each aspect was a condition of its own.
            None => rest.ends_with(" profile"),
        }
    };
    let found = judge.bad.iter().filter(over);
    found
        .filter(|key| judged.iter().all(|j| j.key != **key))
        .map(|key| Judged {
            key: key.clone(),
            subject: Subject::node(),
            reading: Reading::Good,
            at: judge.snapshot.at,
            pace: PROFILE.pace,
            finding: Box::new(|_| Finding::of_condition(CHECK.id, Subject::node())),
        })
        .collect()
}

/// One aspect is one condition: what cannot be seen of one must not hold up another.
fn row(of: &'static Weighed, aspect: Aspect) -> Weighed {
    Weighed {
        aspect: aspect.word(),
        pace: match aspect {
            Aspect::Ecn => &SELDOM,
            _ => of.pace,
        },
        ..*of
    }
}

/// `None`: it cannot be seen.
fn compare(
    judge: &Judge<'_>,
    port: &Port<'_>,
    setups: &BTreeMap<&str, Setup>,
    how: &str,
    want: &Want,
) -> Option<Opinion> {
    let found = setups.get(port.id.as_str())?.get(want.aspect)?;
    let reading = match want.is_met(found) {
        _ if judge.since_boot() < BOOT_GRACE => Reading::Unknown,
        true => Reading::Good,
        false => Reading::Bad,
    };
    let (word, metric) = (want.aspect.word(), want.aspect.metric());
    Some(Opinion {
        reading,
        // Firmware is of the device, read with the port.
        at: port.one(metric).map_or(port.at, |sample| judge.read_at(sample)),
        detail: format!("{how}: {word}"),
        evidence: format!("{word} ({}) is {found}, expected {want}", metric.name),
    })
}
