//! The `rdma` table of the configuration: which devices and ports are read. Excluded ones are never touched.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::settings::Kind;
use crate::{Error, Settings};

/// A name of a device or port, with wildcards.
const NAME: Kind = Kind::Text {
    what: "a name such as \"mlx5_0\", \"mlx5_*\" or \"mlx5_4/2\"",
    fits: |text| Pattern::try_from(text.to_owned()).is_ok() && names_port(text),
};

/// Whether it can match a device or one of its ports. NCCL and ibstat write `mlx5_4:2`, which would match nothing.
fn names_port(pattern: &str) -> bool {
    let (device, port) = pattern.split_once('/').unwrap_or((pattern, "*"));
    let is_number = |c: char| c.is_ascii_digit() || "*?".contains(c);
    !device.is_empty() && !device.contains(':') && !port.is_empty() && port.chars().all(is_number)
}

/// Whether it can match a PCI address. Without the function it would match nothing.
fn names_address(pattern: &str) -> bool {
    let fits = |class: u8, b: u8| match class {
        b'h' => b.is_ascii_hexdigit(),
        b'f' => (b'0'..=b'7').contains(&b),
        _ => class == b,
    };
    let pattern = written_as_sysfs(pattern);
    ["hhhh:hh:hh.f", "hhhhh:hh:hh.f", "hh:hh.f"]
        .iter()
        .any(|form| matches(pattern.as_bytes(), form.as_bytes(), |a, class| fits(class, a)))
}

/// In lower case, and with a domain of 4 digits instead of NVML's 8.
fn written_as_sysfs(address: &str) -> String {
    let rest = address.strip_prefix("0000");
    let short = rest.filter(|rest| rest.find(':') == Some(4));
    short.unwrap_or(address).to_ascii_lowercase()
}

/// An array of such names.
pub const NAMES: Kind = Kind::List {
    what: "an array of names of devices or ports",
    of: &NAME,
    empty: true,
};

crate::keys! {
    pub(crate) KEYS;
    INCLUDE = "rdma.include": NAMES, default "[]", example "[\"mlx5_*\"]", since "0.1.0",
        "Devices (mlx5_0) or ports (mlx5_0/2) to read, with the wildcards * and ?. Empty: all.";
    EXCLUDE = "rdma.exclude": NAMES, default "[]", example "[\"mlx5_bond_0\", \"mlx5_4/2\"]", since "0.1.0",
        "Devices or ports that are never read, and that no check judges.";
    EXCLUDE_NETDEVS = "rdma.exclude_netdevs": Kind::List { what: "an array of names of network interfaces", of: &Kind::Text {
            what: "a name such as \"eno1\" or \"eno*\"",
            fits: |text| Pattern::try_from(text.to_owned()).is_ok(),
        }, empty: true }, default "[]", example "[\"eno*\"]", since "0.1.0",
        "Network interfaces, or their bonds, whose ports are never read.";
    EXCLUDE_PCI = "rdma.exclude_pci": Kind::List { what: "an array of PCI addresses", of: &Kind::Text {
            what: "a PCI address with its function, such as \"0000:c1:00.0\" or \"c1:00.*\"",
            fits: |text| Pattern::try_from(text.to_owned()).is_ok() && names_address(text),
        }, empty: true }, default "[]", example "[\"0000:c1:00.*\"]", since "0.1.0",
        "PCI addresses whose devices are never read.";
    VIRTUAL_FUNCTIONS = "rdma.virtual_functions": Kind::Boolean, default "false", since "0.1.0",
        "Also read virtual functions and subfunctions whose physical function is on this node: after its own ports, until the 20,000 series of the collector are taken, by some 170 ports with all counters.";
    NCCL_GID_INDEX = "rdma.nccl_gid_index": Kind::Integer { what: "an index of the GID table", from: 0, to: 255 },
        example "3", since "0.1.0",
        "NCCL_IB_GID_INDEX as the cluster's jobs set it. Not set: NCCL selects an entry.";
    SYSFS_ONLY = "rdma.sysfs_only": Kind::Boolean, default "false", since "0.1.0",
        "Read hardware counters from one file each, also where netlink reads them all at once.";
}

/// `rdma.exclude`: devices or ports that are never read.
///
/// # Errors
/// As [`Settings::get`].
pub fn excluded(set: &Settings) -> Result<Vec<Pattern>, Error> {
    set.get(&EXCLUDE)
}

/// The table.
#[derive(Clone, Debug, Default)]
pub(crate) struct RdmaSettings {
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
    exclude_netdevs: Vec<Pattern>,
    exclude_pci: Vec<Pattern>,
    /// They show the values of the physical function, belong to another container or machine, and there may be
    /// hundreds.
    pub(super) virtual_functions: bool,
    pub(super) nccl_gid_index: Option<u32>,
    pub(super) sysfs_only: bool,
}

impl RdmaSettings {
    pub(crate) fn new(settings: &Settings) -> Result<Self, Error> {
        Ok(Self {
            include: settings.get(&INCLUDE)?,
            exclude: settings.get(&EXCLUDE)?,
            exclude_netdevs: settings.get(&EXCLUDE_NETDEVS)?,
            exclude_pci: settings.get(&EXCLUDE_PCI)?,
            virtual_functions: settings.get(&VIRTUAL_FUNCTIONS)?,
            nccl_gid_index: settings.find(&NCCL_GID_INDEX)?,
            sysfs_only: settings.get(&SYSFS_ONLY)?,
        })
    }

    /// Whether this device is read, by its name only.
    pub(super) fn takes_device(&self, device: &str) -> bool {
        let listed = self.include.is_empty() || self.include.iter().any(|p| p.covers_device(device));
        listed && !self.exclude.iter().any(|p| p.matches(device))
    }

    /// Whether this port of a device is read, by its name (`mlx5_0/1`) only.
    pub(super) fn takes_port(&self, device: &str, port: &str) -> bool {
        let listed =
            self.include.is_empty() || self.include.iter().any(|p| p.matches(device) || p.matches(port));
        listed && !self.exclude.iter().any(|p| p.matches(port))
    }

    /// Whether the device behind this PCI address is read.
    ///
    /// A pattern may be in capitals, with a domain of 8 digits, and without the domain if that is 0000, as lspci shows it.
    pub(super) fn takes_pci(&self, address: &str) -> bool {
        let short = address.strip_prefix("0000:");
        let is = |p: &Pattern| {
            let p = Pattern(written_as_sysfs(&p.0));
            p.matches(address) || short.is_some_and(|short| p.matches(short))
        };
        !self.exclude_pci.iter().any(is)
    }

    /// Whether the port behind this network interface is read.
    pub(super) fn takes_netdev(&self, netdev: &str) -> bool {
        !self.exclude_netdevs.iter().any(|p| p.matches(netdev))
    }

    /// Whether any rule names network interfaces.
    pub(super) fn asks_netdevs(&self) -> bool {
        !self.exclude_netdevs.is_empty()
    }
}

/// A name with `*` for any characters and `?` for one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Pattern(String);

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let known = |c: char| c.is_ascii_alphanumeric() || "*?_-.:/@".contains(c);
        if text.is_empty() || text.len() > 128 {
            return Err(format!("found {text:?}, expected a name of 1 to 128 characters"));
        }
        match text.chars().find(|c| !known(*c)) {
            Some(c) => Err(format!(
                "found {c:?} in {text:?}, expected a name in which * stands for any characters and ? for one"
            )),
            None => Ok(Self(text)),
        }
    }
}

impl Pattern {
    /// Whether the whole name matches.
    pub fn matches(&self, name: &str) -> bool {
        matches(self.0.as_bytes(), name.as_bytes(), |a, b| a == b)
    }

    /// Whether it can match the device or one of its ports.
    fn covers_device(&self, device: &str) -> bool {
        let (pattern, _) = self.0.split_once('/').unwrap_or((&self.0, ""));
        matches(pattern.as_bytes(), device.as_bytes(), |a, b| a == b)
    }
}

/// Backtracks to the last star only, so the effort is at most the product of both lengths.
fn matches(pattern: &[u8], name: &[u8], is: impl Fn(u8, u8) -> bool) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        match (pattern.get(p), name.get(n)) {
            (None, None) => return true,
            (Some(b'*'), _) => {
                star = Some((p, n));
                p += 1;
            }
            (Some(b'?'), Some(_)) => (p, n) = (p + 1, n + 1),
            (Some(a), Some(b)) if is(*a, *b) => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((at, from)) if from < name.len() => {
                    star = Some((at, from + 1));
                    (p, n) = (at + 1, from + 1);
                }
                _ => return false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rdma::SPEC;

    fn table(text: &str) -> RdmaSettings {
        RdmaSettings::new(&SPEC.settings(text).unwrap()).unwrap()
    }

    #[test]
    fn without_a_table_everything_is_taken_but_virtual_functions() {
        let table = table("");
        assert!(table.takes_device("mlx5_0") && table.takes_port("mlx5_0", "mlx5_0/1"));
        assert!(table.takes_pci("") && !table.asks_netdevs() && !table.virtual_functions);
    }

    #[test]
    fn addresses_may_be_written_as_lspci_does() {
        let table =
            table("exclude_pci = [\"19:00.0\", \"0000:3B:00.*\", \"0001:2a:00.0\", \"00000000:5E:00.0\"]");
        for (address, taken) in [
            ("0000:19:00.0", false),
            ("0001:19:00.0", true),
            ("0000:3b:00.1", false),
            ("0000:2a:00.0", true),
            ("0001:2a:00.0", false),
            ("0000:5e:00.0", false),
            ("0000:5e:00.1", true),
            ("", true),
        ] {
            assert_eq!(table.takes_pci(address), taken, "{address}");
        }
    }

    #[test]
    fn wildcards_stand_for_any_part_of_an_address() {
        for text in [
            "*",
            "c1:*",
            "*:c1:00.?",
            "0000:c1:*",
            "10000:e1:00.0",
            "????:c1:00.*",
            "C1:1f.7",
        ] {
            assert!(
                SPEC.settings(&format!("exclude_pci = [{text:?}]")).is_ok(),
                "{text}"
            );
        }
    }

    #[test]
    fn names_are_left_out_by_pattern() {
        let table = table("exclude = [\"mlx5_1\", \"mlx5_bond_*\", \"mlx4_?/2\"]");
        for (device, taken) in [
            ("mlx5_0", true),
            ("mlx5_1", false),
            ("mlx5_10", true),
            ("mlx5_bond_0", false),
            ("mlx4_0", true),
        ] {
            assert_eq!(table.takes_device(device), taken, "{device}");
        }
        assert!(table.takes_port("mlx4_0", "mlx4_0/1"));
        assert!(!table.takes_port("mlx4_0", "mlx4_0/2"));
    }

    #[test]
    fn what_is_not_included_is_left_out_and_exclude_wins() {
        let table = table("include = [\"mlx5_*\", \"mlx4_0/2\"]\nexclude = [\"mlx5_3\"]");
        assert!(table.takes_device("mlx5_0") && table.takes_port("mlx5_0", "mlx5_0/1"));
        assert!(table.takes_device("mlx4_0"));
        assert!(!table.takes_port("mlx4_0", "mlx4_0/1") && table.takes_port("mlx4_0", "mlx4_0/2"));
        assert!(!table.takes_device("irdma0") && !table.takes_device("mlx5_3"));
    }

    #[test]
    fn a_bad_pattern_is_an_error_that_names_it() {
        for (text, part) in [
            ("exclude = [\"\"]", "expected a name"),
            (
                "exclude_pci = [\"0000:18:00\"]",
                "found string \"0000:18:00\", expected a PCI address with its function, such as",
            ),
            ("exclude_pci = [\"18:00\"]", "found string \"18:00\""),
            ("exclude_pci = [\"18:00.8\"]", "found string \"18:00.8\""),
            ("exclude_pci = [\"x\"]", "found string \"x\""),
            ("exclude_pci = [\"mlx5_*\"]", "found string \"mlx5_*\""),
            ("exclude_pci = [\"[0-9]\"]", "found string \"[0-9]\""),
            ("include = [\"mlx5 0\"]", "found string \"mlx5 0\""),
            (
                "include = [\"mlx5_0:1\"]",
                "found string \"mlx5_0:1\", expected a name such as",
            ),
            ("exclude = [\"mlx5_0/1/2\"]", "found string \"mlx5_0/1/2\""),
            ("exclude = [\"mlx5_0/\"]", "found string \"mlx5_0/\""),
            ("exclude = [\"mlx5_0/a\"]", "found string \"mlx5_0/a\""),
            ("exclude = [\"/1\"]", "found string \"/1\""),
            ("exclude = \"mlx5_0\"", "expected an array"),
            ("excludes = []", "excludes"),
        ] {
            let error = SPEC.settings(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    /// The same by definition, without optimization.
    fn plain(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern, name) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => {
                plain(rest, name) || name.split_first().is_some_and(|(_, n)| plain(pattern, n))
            }
            ([b'?', p @ ..], [_, n @ ..]) => plain(p, n),
            ([a, p @ ..], [b, n @ ..]) => a == b && plain(p, n),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn patterns_match_as_defined(pattern in "[ab*?]{0,8}", name in "[ab]{0,8}") {
            prop_assert_eq!(matches(pattern.as_bytes(), name.as_bytes(), |a, b| a == b), plain(pattern.as_bytes(), name.as_bytes()));
        }
    }
}
