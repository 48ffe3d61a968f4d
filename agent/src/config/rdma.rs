//! `[health.rdma]`: how the RDMA adapters of this kind of node are meant to be. What is not set is not compared.

use collectors::PciAddress;
use collectors::rdma::Pattern;

use super::keys::{Key, quote, quoted};
use super::value::{Fits, Item, list, one_or_more, text, whole, wholes};

const NAMES: &str = "an array of names of devices or ports";
const NAME: &str = "a name such as \"mlx5_0\", \"mlx5_*\" or \"mlx5_4/2\"";

fn names(item: &Item<'_>) -> Fits<Vec<Pattern>> {
    list(item, NAMES, NAME, |text| Pattern::try_from(text.to_owned()).ok())
}

const PRIORITIES: &str = "an array of priorities from 0 to 7";
const PRIORITY: &str = "a priority from 0 to 7";
const FECS: &str = "\"off\", \"rs\", \"baser\" or \"llrs\"";

fn priorities(item: &Item<'_>) -> Fits<Option<Vec<u64>>> {
    let mut found = wholes(item, PRIORITIES, PRIORITY, &(0..=7))?;
    found.sort_unstable();
    found.dedup();
    Ok(Some(found))
}

fn numbers(numbers: Option<&Vec<u64>>) -> Option<String> {
    let numbers: Vec<String> = numbers?.iter().map(u64::to_string).collect();
    Some(format!("[{}]", numbers.join(", ")))
}

fn one_of(words: &'static [&'static str]) -> impl Fn(&str) -> Option<String> {
    move |text| words.contains(&text).then(|| text.to_owned())
}

/// A firmware version as drivers write it.
fn version(text: &str) -> Option<String> {
    let good = (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-/ ()".contains(&b));
    good.then(|| text.to_owned())
}

pub(super) const ADDRESSES: Key = Key {
    path: "health.rdma.addresses",
    help: "PCI addresses of the RDMA adapters that must be there. Empty: those that were there in this boot.",
    example: "",
    set: |c, v| {
        let each = "a PCI address such as \"0000:19:00.0\"";
        c.health.rdma.addresses = list(v, "an array of PCI addresses", each, PciAddress::parse)?;
        Ok(())
    },
    show: |c| Some(quoted(&c.health.rdma.addresses)),
};

pub(super) const PORTS: Key = Key {
    path: "health.rdma.ports",
    help: "Devices or ports that the rest of this table is about; * and ? stand for characters. Empty: all.",
    example: "",
    set: |c, v| names(v).map(|p| c.health.rdma.ports = p),
    show: |c| Some(quoted(&c.health.rdma.ports)),
};

pub(super) const EXCLUDE: Key = Key {
    path: "health.rdma.exclude",
    help: "Devices or ports that it is not about, such as those for storage.",
    example: "",
    set: |c, v| names(v).map(|p| c.health.rdma.exclude = p),
    show: |c| Some(quoted(&c.health.rdma.exclude)),
};

pub(super) const PFC: Key = Key {
    path: "health.rdma.pfc",
    help: "The priorities of a RoCE port that have priority flow control; all others must have none. Not set: not compared.",
    example: "[3]",
    set: |c, v| priorities(v).map(|p| c.health.rdma.pfc = p),
    show: |c| numbers(c.health.rdma.pfc.as_ref()),
};

pub(super) const TRUST: Key = Key {
    path: "health.rdma.trust",
    help: "What decides about the priority of a RoCE packet: dscp or pcp. Not set: not compared.",
    example: "\"dscp\"",
    set: |c, v| {
        let words = one_of(&["dscp", "pcp"]);
        c.health.rdma.trust = Some(text(v, "\"dscp\" or \"pcp\"", words)?);
        Ok(())
    },
    show: |c| c.health.rdma.trust.as_deref().map(quote),
};

pub(super) const ECN: Key = Key {
    path: "health.rdma.ecn",
    help: "The priorities of a RoCE port that have DCQCN, at notification and reaction point. Not set: not compared.",
    example: "[3]",
    set: |c, v| priorities(v).map(|p| c.health.rdma.ecn = p),
    show: |c| numbers(c.health.rdma.ecn.as_ref()),
};

pub(super) const MTU: Key = Key {
    path: "health.rdma.mtu",
    help: "The MTU of a RoCE port's network interface, in bytes. Not set: not compared.",
    example: "9000",
    set: |c, v| {
        number(
            &mut c.health.rdma.mtu,
            v,
            "a number of bytes from 68 to 65535",
            68..=65535,
        )
    },
    show: |c| c.health.rdma.mtu.map(|n| n.to_string()),
};

pub(super) const FEC: Key = Key {
    path: "health.rdma.fec",
    help: "The forward error correction of a RoCE port: off, rs, baser or llrs. Not set: not compared.",
    example: "\"rs\"",
    set: |c, v| {
        let words = one_of(&["off", "rs", "baser", "llrs"]);
        c.health.rdma.fec = Some(text(v, FECS, words)?);
        Ok(())
    },
    show: |c| c.health.rdma.fec.as_deref().map(quote),
};

pub(super) const RATE: Key = Key {
    path: "health.rdma.rate",
    help: "The rate of a port's link, in gigabits per second, or an array of those that are allowed. Not set: not compared.",
    example: "400",
    set: |c, v| {
        let expected = "a number of gigabits per second from 1 to 10000";
        c.health.rdma.rate = one_or_more(v, expected, &(1..=10_000))?;
        Ok(())
    },
    show: |c| match c.health.rdma.rate.as_slice() {
        [] => None,
        [one] => Some(one.to_string()),
        more => numbers(Some(&more.to_vec())),
    },
};

pub(super) const FIRMWARE: Key = Key {
    path: "health.rdma.firmware",
    help: "The firmware versions that an RDMA adapter may have. Empty: any.",
    example: "",
    set: |c, v| {
        let each = "a firmware version such as \"28.43.1014\"";
        c.health.rdma.firmware = list(v, "an array of firmware versions", each, version)?;
        Ok(())
    },
    show: |c| Some(quoted(&c.health.rdma.firmware)),
};

fn number(
    slot: &mut Option<u64>,
    item: &Item<'_>,
    expected: &'static str,
    range: std::ops::RangeInclusive<u64>,
) -> Fits<()> {
    *slot = Some(whole(item, expected, &range)?);
    Ok(())
}
