//! Actual and expected configuration of an RDMA port: one text per aspect, for comparison.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use collectors::ethernet::metrics::{DCQCN_ENABLED, FEC_MODE, PFC_ENABLED, PORT_MTU, QOS_TRUST};
use collectors::rdma::metrics::{DEVICE_INFO, PORT_RATE, ROCE_NCCL_GID_INFO, ROCE_V2_GIDS};
use collectors::{Metric, PciAddress};

use crate::reads::equal;
use crate::reads::group::ENOUGH;
use crate::reads::port::{Link, Port, number};
use crate::settings::Rdma;
use model::snapshot::Sample;

/// One aspect of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Aspect {
    Pfc,
    Trust,
    Ecn,
    Mtu,
    Fec,
    Rate,
    Firmware,
    /// The version of the GID that jobs use.
    Gid,
    /// Whether it has a routable GID.
    Gids,
}

impl Aspect {
    /// Aspects that a site may configure.
    pub(super) const OF_PROFILE: [Self; 8] = [
        Self::Pfc,
        Self::Trust,
        Self::Ecn,
        Self::Mtu,
        Self::Fec,
        Self::Rate,
        Self::Firmware,
        Self::Gid,
    ];

    /// Aspects that are equal on similar ports.
    pub(super) const OF_PEERS: [Self; 4] = [Self::Pfc, Self::Trust, Self::Mtu, Self::Firmware];

    /// Its name.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Pfc => "PFC",
            Self::Trust => "trust",
            Self::Ecn => "DCQCN",
            Self::Mtu => "MTU",
            Self::Fec => "FEC",
            Self::Rate => "rate",
            Self::Firmware => "firmware",
            Self::Gid => "GID of jobs",
            Self::Gids => "routable RoCE v2 GID",
        }
    }

    /// The metric that shows it.
    pub(super) const fn metric(self) -> &'static Metric {
        match self {
            Self::Pfc => &PFC_ENABLED,
            Self::Trust => &QOS_TRUST,
            Self::Ecn => &DCQCN_ENABLED,
            Self::Mtu => &PORT_MTU,
            Self::Fec => &FEC_MODE,
            Self::Rate => &PORT_RATE,
            Self::Firmware => &DEVICE_INFO,
            Self::Gid => &ROCE_NCCL_GID_INFO,
            Self::Gids => &ROCE_V2_GIDS,
        }
    }
}

const SOME: &str = "there";
const NONE: &str = "missing";

/// The readable configuration of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Setup(BTreeMap<Aspect, String>);

/// Priorities as text: `3`, `0,3`, `none`.
fn word_of(priorities: &[u64]) -> String {
    if priorities.is_empty() {
        return "none".to_owned();
    }
    let words: Vec<String> = priorities.iter().map(u64::to_string).collect();
    words.join(",")
}

/// The priorities for which a metric is 1, by interface: one text if all agree, else one each. `None`: no series.
fn priorities(port: &Port<'_>, metric: &'static Metric) -> Option<String> {
    let mut points: BTreeMap<&str, BTreeMap<&str, Vec<u64>>> = BTreeMap::new();
    for sample in port.all(metric) {
        let of = points
            .entry(sample.label("netdev").unwrap_or_default())
            .or_default();
        let set = of.entry(sample.label("point").unwrap_or_default()).or_default();
        let priority = sample.label("priority")?.parse().ok()?;
        if number(Some(sample))? == 1 {
            set.push(priority);
        }
    }
    let texts = points.into_iter().map(|(netdev, mut sets)| {
        sets.values_mut().for_each(|set| set.sort_unstable());
        let sets = sets.into_iter().map(|(point, set)| (point, word_of(&set)));
        Some((netdev, agreed(sets.collect(), ", ")?))
    });
    agreed(texts.collect::<Option<_>>()?, "; ")
}

/// One text if all agree, else each with its name. `None`: no text.
fn agreed(texts: Vec<(&str, String)>, between: &str) -> Option<String> {
    let (_, first) = texts.first()?;
    if texts.iter().all(|(_, text)| text == first) {
        return Some(first.clone());
    }
    let words: Vec<String> = texts
        .iter()
        .map(|(name, text)| format!("{name} {text}"))
        .collect();
    Some(words.join(between))
}

impl Setup {
    /// The configuration of one port.
    pub(super) fn of(port: &Port<'_>) -> Self {
        let label = |metric, label| {
            // Members of a bond that differ are shown by all their values.
            let is_live = |s: &&Sample<'_>| s.label("netdev").is_none_or(|netdev| !port.has_lost(netdev));
            let words = port.all(metric).filter(is_live);
            let words = words.filter_map(|sample| sample.label(label));
            let words: BTreeSet<&str> = words.filter(|l| !l.is_empty()).collect();
            let words: Vec<&str> = words.into_iter().collect();
            (!words.is_empty()).then(|| words.join(","))
        };
        // A port that is down shows the lowest possible rate and no FEC.
        let up = port.link() == Link::Up;
        let has_rate = port.full_link() == Link::Up && port.rate > 0 && !port.is_made_up();
        let rate = has_rate.then(|| (port.rate / 125_000_000).to_string());
        let gids = number(port.one(&ROCE_V2_GIDS)).filter(|_| up && !port.is_made_up());
        let firmware = Some(port.firmware).filter(|f| !f.is_empty()).map(str::to_owned);
        let found = [
            (Aspect::Pfc, priorities(port, &PFC_ENABLED)),
            (Aspect::Trust, label(&QOS_TRUST, "trust")),
            (Aspect::Ecn, priorities(port, &DCQCN_ENABLED)),
            (Aspect::Mtu, number(port.one(&PORT_MTU)).map(|n| n.to_string())),
            (Aspect::Fec, label(&FEC_MODE, "mode").filter(|_| up)),
            (Aspect::Rate, rate),
            (Aspect::Firmware, firmware),
            (Aspect::Gid, label(&ROCE_NCCL_GID_INFO, "version").filter(|_| up)),
            (
                Aspect::Gids,
                gids.map(|n| if n > 0 { SOME } else { NONE }.to_owned()),
            ),
        ];
        let known = found
            .into_iter()
            .filter_map(|(aspect, word)| Some((aspect, word?)));
        Self(known.collect())
    }

    /// The value of an aspect. `None`: unknown.
    pub(super) fn get(&self, aspect: Aspect) -> Option<&str> {
        self.0.get(&aspect).map(String::as_str)
    }
}

/// The keys of `[health.rdma]` that these ports meet now. An aspect that is unreadable on a port, or not equal on all of
/// them, is left out; each rate and each firmware version is permitted.
pub(crate) fn profile_of(ports: &[&Port<'_>]) -> Rdma {
    let ports: Vec<&&Port<'_>> = ports
        .iter()
        .filter(|p| p.is_identified() && !p.is_made_up())
        .collect();
    let setups: Vec<(bool, Setup)> = ports
        .iter()
        .map(|p| (p.link_layer == "Ethernet", Setup::of(p)))
        .collect();
    let of_ethernet = |aspect| {
        let ethernet = setups.iter().filter(|(is_ethernet, _)| *is_ethernet);
        equal(ethernet.map(|(_, setup)| setup.get(aspect)))
    };
    let each = |aspect| setups.iter().filter_map(move |(_, setup)| setup.get(aspect));
    let priorities = |aspect| match of_ethernet(aspect)? {
        "none" => Some(Vec::new()),
        words => words.split(',').map(|word| word.parse().ok()).collect(),
    };
    let rates: BTreeSet<u64> = each(Aspect::Rate).filter_map(|word| word.parse().ok()).collect();
    let versions: BTreeSet<&str> = each(Aspect::Firmware).collect();
    let addresses: BTreeSet<&PciAddress> = ports.iter().filter_map(|p| p.pci.as_ref()).collect();
    Rdma {
        addresses: addresses.into_iter().cloned().collect(),
        pfc: priorities(Aspect::Pfc),
        trust: of_ethernet(Aspect::Trust).map(str::to_owned),
        ecn: priorities(Aspect::Ecn),
        mtu: of_ethernet(Aspect::Mtu).and_then(|word| word.parse().ok()),
        fec: of_ethernet(Aspect::Fec).map(str::to_owned),
        rate: rates.into_iter().collect(),
        firmware: versions.into_iter().map(str::to_owned).collect(),
        ..Rdma::default()
    }
}

/// The expected values of an aspect: any of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Want {
    pub(super) aspect: Aspect,
    any_of: Vec<String>,
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.any_of.join(" or "))
    }
}

impl Want {
    fn new(aspect: Aspect, words: impl IntoIterator<Item = String>) -> Option<Self> {
        let any_of: Vec<String> = words.into_iter().collect();
        (!any_of.is_empty()).then_some(Self { aspect, any_of })
    }

    /// Whether a value is an expected one.
    pub(super) fn is_met(&self, found: &str) -> bool {
        self.any_of.iter().any(|word| word == found)
    }

    /// The values that the site configured for the port. Rate and firmware apply to every port, the rest to Ethernet.
    pub(super) fn of_profile(aspect: Aspect, profile: &Rdma, port: &Port<'_>) -> Option<Self> {
        let of_every = matches!(aspect, Aspect::Rate | Aspect::Firmware);
        if !profile.is_about(&port.name) || (!of_every && port.link_layer != "Ethernet") {
            return None;
        }
        let number = |n: Option<u64>| n.map(|n| n.to_string());
        let word = match aspect {
            Aspect::Rate => return Self::new(aspect, profile.rate.iter().map(u64::to_string)),
            Aspect::Firmware => return Self::new(aspect, profile.firmware.iter().cloned()),
            Aspect::Pfc => profile.pfc.as_deref().map(word_of),
            Aspect::Trust => profile.trust.clone(),
            Aspect::Ecn => profile.ecn.as_deref().map(word_of),
            Aspect::Mtu => number(profile.mtu),
            Aspect::Fec => profile.fec.clone(),
            // Read only if the site configures the index that jobs use (`rdma.nccl_gid_index`).
            Aspect::Gid => Some("RoCE v2".to_owned()),
            Aspect::Gids => None,
        };
        Self::new(aspect, word)
    }

    /// A RoCE port needs a routable address.
    pub(super) fn of_roce() -> Option<Self> {
        Self::new(Aspect::Gids, [SOME.to_owned()])
    }

    /// The value of at least 3/4 of similar ports, if enough of them are readable.
    pub(super) fn of_peers(aspect: Aspect, kin: &[Setup]) -> Option<Self> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for word in kin.iter().filter_map(|setup| setup.get(aspect)) {
            *counts.entry(word).or_default() += 1;
        }
        let known: usize = counts.values().sum();
        let (word, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        let enough = known >= ENOUGH && count * 4 >= known * 3;
        enough.then(|| Self::new(aspect, [word.to_owned()]))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kin(words: &[&str]) -> Vec<Setup> {
        let one = |word: &&str| Setup([(Aspect::Pfc, (*word).to_owned())].into());
        words.iter().map(one).collect()
    }

    #[test]
    fn peers_are_a_measure_where_three_quarters_of_four_agree() {
        for (words, want) in [
            (&["3", "3", "3", "0"][..], Some("3")),
            (&["3", "3", "3"], None),
            (&["3", "3", "0", "0"], None),
            (&["3", "3", "3", "3", "3", "0", "0", "0"], None),
            (&["3", "3", "3", "3", "3", "3", "0", "none"], Some("3")),
        ] {
            let found = Want::of_peers(Aspect::Pfc, &kin(words));
            assert_eq!(found.map(|w| w.to_string()).as_deref(), want, "{words:?}");
        }
        assert_eq!(Want::of_peers(Aspect::Mtu, &kin(&["3"; 8])), None, "not known");
    }

    #[test]
    fn no_priority_is_a_word_too() {
        assert_eq!(
            (word_of(&[]), word_of(&[0, 3])),
            ("none".to_owned(), "0,3".to_owned())
        );
    }
}
