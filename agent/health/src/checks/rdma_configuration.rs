//! Check `rdma-configuration`: the configuration of a port differs from the profile or from similar ports.

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
    fires_when: "PFC, trust, DCQCN, MTU, FEC, rate, firmware or GID version of a port differ from `health.rdma`. Shown, never drains: no routable RoCE v2 GID, although the port had one or most similar ports have one. Likewise PFC, trust, MTU or firmware unlike 3/4 of at least 4 similar ports.",
    lasting: "4 consecutive readings, at least 100 s (DCQCN: 720 s)",
    clears_when: "3 consecutive readings, at least 100 s (DCQCN: 720 s), as expected, or `health.rdma` no longer sets the aspect.",
    ignored_when: "The first 600 s after boot, and aspects that are unreadable. FEC, rate and GIDs of ports that are not up.",
    scope: Scope::Node,
    // Jobs still run, and a wrong profile affects all nodes.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Looks::start(conditions),
};

/// The configuration is cached for 60 s: the span covers at least two real readings.
static PACE: Pace = Pace {
    bad: 4,
    bad_span: Duration::from_secs(100),
    good: 3,
    hold: Duration::from_secs(100),
};

/// DCQCN is read every 600 s.
static SELDOM: Pace = Pace {
    bad: 4,
    bad_span: Duration::from_secs(720),
    good: 3,
    hold: Duration::from_secs(720),
};

static PROFILE: Weighed = Weighed {
    check: &CHECK,
    of: "profile",
    aspect: "",
    pace: &PACE,
    acts: true,
    needs_peers: false,
    together: "configuration",
    // Most ports differ from the profile: a fault of the node.
    whose: Whose::Node,
};

static PEERS: Weighed = Weighed {
    of: "peers",
    // A storage port may differ intentionally.
    acts: false,
    needs_peers: true,
    together: "unlike their kind",
    whose: Whose::Fabric,
    ..PROFILE
};

static GIDS: Weighed = Weighed {
    of: "gid",
    // An unused port has a link but no address.
    acts: false,
    together: "no address",
    ..PROFILE
};

/// Similar ports: driver, link layer, board, highest rate, and whether they are of the storage fabric.
type Kin = (String, String, String, u64, bool);

fn kin(judge: &Judge<'_>, port: &Port<'_>) -> Kin {
    (
        port.driver.to_owned(),
        port.link_layer.to_owned(),
        port.board.to_owned(),
        judge.known.rates.get(&port.id).copied().unwrap_or_default(),
        judge.site.settings.rdma.is_storage(&port.name),
    )
}

fn conditions<'a>(judge: &Judge<'a>, voices: &mut Voices) -> Vec<Judged<'a>> {
    let mut setups: BTreeMap<&str, Setup> = BTreeMap::new();
    let mut kindred: BTreeMap<Kin, Vec<Setup>> = BTreeMap::new();
    let profile = &judge.site.settings.rdma;
    for port in judge.ports.iter().filter(|p| profile.is_about(&p.name)) {
        let setup = Setup::of(port);
        if port.is_identified() {
            kindred.entry(kin(judge, port)).or_default().push(setup.clone());
        }
        setups.insert(port.id.as_str(), setup);
    }
    let mut judged = Vec::new();
    for aspect in Aspect::OF_PROFILE {
        judged.extend(weigh(judge, voices, &row(&PROFILE, aspect), |port, _| {
            let want = Want::of_profile(aspect, profile, port)?;
            compare(judge, port, &setups, "configuration differs", &want)
        }));
    }
    judged.extend(weigh(judge, voices, &GIDS, |port, _| {
        let want = Want::of_roce()?;
        // Switched or unused ports have none on purpose.
        let had = judge.known.addressed.get(&port.id).is_some();
        let of_peers = || Want::of_peers(Aspect::Gids, kindred.get(&kin(judge, port))?);
        (had || of_peers().as_ref() == Some(&want)).then_some(())?;
        compare(judge, port, &setups, "no address", &want)
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

/// Ends conditions of aspects that the site no longer configures for the port or for any port.
fn unwanted<'a>(judge: &Judge<'a>, judged: &[Judged<'a>]) -> Vec<Judged<'a>> {
    let profile = &judge.site.settings.rdma;
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
            // A record from before each aspect had its own condition.
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

/// One condition per aspect: an unreadable aspect must not delay another.
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

/// `None`: unreadable.
fn compare(
    judge: &Judge<'_>,
    port: &Port<'_>,
    setups: &BTreeMap<&str, Setup>,
    how: &str,
    want: &Want,
) -> Option<Opinion> {
    let found = setups.get(port.id.as_str())?.get(want.aspect)?;
    let reading = match want.is_met(found) {
        _ if !judge.is_booted() => Reading::Unknown,
        true => Reading::Good,
        false => Reading::Bad,
    };
    let (word, metric) = (want.aspect.word(), want.aspect.metric());
    Some(Opinion {
        reading,
        // The device's firmware version is read with the port.
        at: port.one(metric).map_or(port.at, |sample| judge.read_at(sample)),
        detail: format!("{how}: {word}"),
        evidence: format!("{word} ({}) is {found}, expected {want}", metric.name),
    })
}
