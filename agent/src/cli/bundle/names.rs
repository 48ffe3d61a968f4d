//! What a bundle shows of a name: the name itself where its form leaves no room for a person, host, path or job, else a
//! pseudonym that is the same in the whole bundle.

use std::collections::{BTreeMap, BTreeSet};

use collectors::{COLLECTORS, DOMAINS, PciAddress, SubjectKind};
use health::checks;
use model::scheduler::IncidentId;

use crate::random;

/// In place of a word whose form is not that of a driver's words.
pub(super) const WITHHELD: &str = "<withheld>";

/// The longest word, in bytes.
const MAX_WORD: usize = 64;

/// The pseudonyms of one bundle: `gpu-4711`, `mount-271`. Names come sorted, so numbers in turn would show their order.
#[derive(Debug)]
pub(super) struct Names {
    given: BTreeMap<(&'static str, String), u64>,
    taken: BTreeSet<(&'static str, u64)>,
    counts: BTreeMap<&'static str, u64>,
    draw: Draw,
}

/// A number from 1 to the second argument for the name with the number of the first.
type Draw = fn(u64, u64) -> u64;

impl Default for Names {
    fn default() -> Self {
        Self::new(|_, most| random::up_to(most))
    }
}

impl Names {
    fn new(draw: Draw) -> Self {
        Self {
            given: BTreeMap::new(),
            taken: BTreeSet::new(),
            counts: BTreeMap::new(),
            draw,
        }
    }

    /// Numbers in turn, for comparisons.
    #[cfg(test)]
    pub(super) fn in_turn() -> Self {
        Self::new(|count, _| count)
    }

    /// The pseudonym of a name of this kind; empty for an empty name.
    pub(super) fn of(&mut self, kind: &'static str, name: &str) -> String {
        if name.is_empty() {
            return String::new();
        }
        let key = (kind, name.to_owned());
        let number = match self.given.get(&key) {
            Some(number) => *number,
            None => {
                let number = self.number(kind);
                self.given.insert(key, number);
                number
            }
        };
        format!("{kind}-{number}")
    }

    /// A number that no name of this kind has.
    fn number(&mut self, kind: &'static str) -> u64 {
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        // At most half of them are taken.
        let most = if *count <= 5_000 { 9_999 } else { 9_999_999 };
        loop {
            let number = (self.draw)(*count, most);
            if self.taken.insert((kind, number)) {
                return number;
            }
        }
    }

    /// The kinds of pseudonyms, with their numbers.
    pub(super) const fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }

    /// What the label `device` names: an NVMe controller, or an RDMA device.
    pub(super) fn device(&mut self, name: &str) -> String {
        if is_numbered(name, &["nvme"]) {
            name.to_owned()
        } else {
            self.rdma(name)
        }
    }

    /// A GPU: `gpu-1` for its UUID, `pci:<address>` as it is.
    pub(super) fn gpu(&mut self, name: &str) -> String {
        match name.strip_prefix("pci:") {
            Some(address) => self.pci(address).map_pci(),
            None => self.of("gpu", name),
        }
    }

    /// A PCI address as it is.
    pub(super) fn pci(&mut self, name: &str) -> Pci {
        match PciAddress::parse(name).filter(|pci| pci.0 == name) {
            Some(pci) => Pci::Address(pci.0),
            None => Pci::Other(self.of("pci", name)),
        }
    }

    /// An RDMA device: a name that the kernel or udev makes from number or PCI address as it is. Sites may rename them.
    pub(super) fn rdma(&mut self, name: &str) -> String {
        if is_rdma_device(name) {
            name.to_owned()
        } else {
            self.of("rdma", name)
        }
    }

    /// A check: its id; those of the site have names that the site chose.
    pub(super) fn check(&mut self, id: &str) -> String {
        if checks::CHECKS.iter().any(|check| check.id == id) {
            id.to_owned()
        } else {
            self.of("site-check", id)
        }
    }

    /// What an incident or a reading is about, by the word of its kind.
    pub(super) fn subject(&mut self, kind: &str, name: &str) -> String {
        let Some(kind) = SubjectKinds::of(kind) else {
            return self.of("subject", name);
        };
        match kind {
            SubjectKind::Node => String::new(),
            SubjectKind::Gpu | SubjectKind::Nvswitch => self.gpu(name),
            SubjectKind::Pci => self.pci(name).text(),
            SubjectKind::MemoryController if is_numbered(name, &["mc"]) => name.to_owned(),
            SubjectKind::MemoryController => self.of("controller", name),
            SubjectKind::RdmaDevice => self.rdma(name),
            SubjectKind::RdmaPort => match name.rsplit_once('/') {
                Some((device, port)) if is_number(port) => format!("{}/{port}", self.rdma(device)),
                _ => self.of("rdma", name),
            },
            SubjectKind::Job => self.of("job", name),
            SubjectKind::Worker if is_part(name) => name.to_owned(),
            SubjectKind::Worker => self.of("worker", name),
            SubjectKind::Disk if is_numbered(name, &["nvme"]) => name.to_owned(),
            SubjectKind::Disk => self.of("disk", name),
            SubjectKind::Filesystem => self.of("filesystem", name),
            SubjectKind::NetworkInterface => self.of("interface", name),
            SubjectKind::Server => self.of("server", name),
            SubjectKind::Mount => self.of("mount", name),
        }
    }
}

/// A PCI address, or the pseudonym of what is none.
pub(super) enum Pci {
    Address(String),
    Other(String),
}

impl Pci {
    pub(super) fn text(self) -> String {
        match self {
            Self::Address(text) | Self::Other(text) => text,
        }
    }

    /// As the label `gpu` has it.
    fn map_pci(self) -> String {
        match self {
            Self::Address(text) => format!("pci:{text}"),
            Self::Other(text) => text,
        }
    }
}

/// The kinds of subjects by their words.
struct SubjectKinds;

impl SubjectKinds {
    const ALL: [SubjectKind; 14] = [
        SubjectKind::Node,
        SubjectKind::Gpu,
        SubjectKind::Nvswitch,
        SubjectKind::MemoryController,
        SubjectKind::Pci,
        SubjectKind::RdmaDevice,
        SubjectKind::RdmaPort,
        SubjectKind::Job,
        SubjectKind::Worker,
        SubjectKind::Disk,
        SubjectKind::Filesystem,
        SubjectKind::NetworkInterface,
        SubjectKind::Server,
        SubjectKind::Mount,
    ];

    fn of(word: &str) -> Option<SubjectKind> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// A word that nodewarden, the kernel, a driver or a firmware has chosen, from a label that has nothing else: letters, digits, space and a
/// few signs, none of which paths, addresses of mail and quoted texts can do without.
pub(super) fn word(text: &str) -> String {
    let known = |b: u8| b.is_ascii_alphanumeric() || b" ._-+:#()".contains(&b);
    if text.len() <= MAX_WORD && text.bytes().all(known) {
        text.to_owned()
    } else {
        WITHHELD.to_owned()
    }
}

/// One of these words.
pub(super) fn one_of(text: &str, words: &[&str]) -> String {
    if words.contains(&text) {
        text.to_owned()
    } else {
        WITHHELD.to_owned()
    }
}

/// A number in any notation.
pub(super) fn number(text: &str) -> String {
    let hex = |t: &str| !t.is_empty() && t.len() <= 16 && t.bytes().all(|b| b.is_ascii_hexdigit());
    let is_hex = text.strip_prefix("0x").is_some_and(hex);
    if text.is_empty() || is_hex || text.parse::<f64>().is_ok() {
        text.to_owned()
    } else {
        WITHHELD.to_owned()
    }
}

/// The id of an incident, which nodewarden made.
pub(super) fn incident(text: &str) -> String {
    IncidentId::parse(text).map_or_else(|| WITHHELD.to_owned(), |id| id.0)
}

/// A collector, a worker or a helper.
pub(super) fn is_part(name: &str) -> bool {
    COLLECTORS.iter().any(|spec| spec.name == name) || DOMAINS.iter().any(|domain| domain.name == name)
}

fn is_number(text: &str) -> bool {
    (1..=5).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
}

/// One of these words with a number after it.
fn is_numbered(name: &str, words: &[&str]) -> bool {
    words
        .iter()
        .any(|word| name.strip_prefix(word).is_some_and(is_number))
}

/// The names that RDMA drivers give to their devices.
const RDMA_DRIVERS: [&str; 21] = [
    "mlx5_",
    "mlx4_",
    "mlx5_bond_",
    "mlx4_bond_",
    "bng_re",
    "bnxt_re",
    "bnxt_re_bond",
    "irdma",
    "i40iw",
    "efa_",
    "erdma_",
    "hfi1_",
    "hns_",
    "ionic_",
    "mana_",
    "qib",
    "qedr",
    "cxgb4_",
    "rxe",
    "siw",
    "vmw_pvrdma",
];

/// The beginnings of the names that udev makes of PCI addresses: `rocep129s0f1`.
const RDMA_UDEV: [&str; 4] = ["roce", "ib", "iw", "opa"];

fn is_rdma_device(name: &str) -> bool {
    is_numbered(name, &RDMA_DRIVERS)
        || RDMA_UDEV.iter().any(|begin| {
            name.strip_prefix(begin)
                .is_some_and(|rest| rest.starts_with('p') && is_pci_path(rest))
        })
}

/// `p129s0f1`: single letters, each with a number.
fn is_pci_path(text: &str) -> bool {
    let mut rest = text;
    while let Some(after) = rest.strip_prefix(['p', 's', 'f', 'd', 'v']) {
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        if !(1..=5).contains(&digits) {
            return false;
        }
        rest = after.get(digits..).unwrap_or_default();
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pseudonym_is_stable_and_counts_within_its_kind() {
        let mut names = Names::in_turn();
        let given = ["/home", "/scratch", "/home"].map(|m| names.of("mount", m));
        assert_eq!(given, ["mount-1", "mount-2", "mount-1"]);
        assert_eq!(names.of("job", "/home"), "job-1");
        assert_eq!(names.of("job", ""), "");
        assert_eq!(names.counts().get("mount"), Some(&2));
    }

    #[test]
    fn the_numbers_of_a_bundle_do_not_show_the_order_of_names() {
        let mut names = Names::default();
        let hosts: Vec<String> = (100..164).map(|n| format!("node{n}")).collect();
        let given: Vec<u64> = (hosts.iter())
            .map(|host| {
                names
                    .of("node", host)
                    .strip_prefix("node-")
                    .unwrap()
                    .parse()
                    .unwrap()
            })
            .collect();
        assert!(!given.is_sorted() && !given.iter().rev().is_sorted(), "{given:?}");
        let all: BTreeSet<u64> = given.iter().copied().collect();
        assert_eq!(all.len(), hosts.len());
        assert_eq!(names.of("node", "node100"), format!("node-{}", given[0]));
        assert_eq!(names.counts().get("node"), Some(&64));
        let mut other = Names::default();
        let again: Vec<String> = hosts.iter().map(|host| other.of("node", host)).collect();
        assert_ne!(
            again[0..8],
            given[0..8]
                .iter()
                .map(|n| format!("node-{n}"))
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn names_of_hardware_stay_and_names_of_people_do_not() {
        let mut names = Names::in_turn();
        for name in [
            "mlx5_0",
            "mlx5_bond_12",
            "bnxt_re1",
            "rocep129s0f1",
            "ibp24s0",
            "efa_0",
        ] {
            assert_eq!(names.rdma(name), name);
        }
        for name in [
            "canary",
            "mlx5_canary",
            "mlx5_",
            "rocecanary",
            "ibp",
            "ibpcanary",
            "rxe_eth0",
        ] {
            assert!(names.rdma(name).starts_with("rdma-"), "{name}");
        }
        assert_eq!(names.gpu("GPU-6f1c2f0e"), "gpu-1");
        assert_eq!(names.gpu("pci:0000:18:00.0"), "pci:0000:18:00.0");
        assert_eq!(names.gpu("pci:canary"), "pci-1");
        assert_eq!(names.check("xid"), "xid");
        assert_eq!(names.check("site-canary"), "site-check-1");
    }

    #[test]
    fn subjects_follow_their_kind() {
        let mut names = Names::in_turn();
        for (kind, name, shown) in [
            ("node", "canary", ""),
            ("gpu", "GPU-1", "gpu-1"),
            ("pci", "0000:18:00.0", "0000:18:00.0"),
            ("rdma_port", "mlx5_0/1", "mlx5_0/1"),
            ("rdma_port", "canary/1", "rdma-1/1"),
            ("rdma_port", "mlx5_0/canary", "rdma-2"),
            ("memory_controller", "mc0", "mc0"),
            ("memory_controller", "canary", "controller-1"),
            ("mount", "/canary", "mount-1"),
            ("filesystem", "canary", "filesystem-1"),
            ("server", "canary", "server-1"),
            ("worker", "rdma", "rdma"),
            ("worker", "canary", "worker-1"),
            ("job", "4711", "job-1"),
            ("disk", "nvme0", "nvme0"),
            ("disk", "canary", "disk-1"),
            ("canary", "canary", "subject-1"),
        ] {
            assert_eq!(names.subject(kind, name), shown, "{kind} {name}");
        }
    }

    #[test]
    fn every_kind_of_subject_is_known() {
        // A kind without a row here would be a `subject-1`.
        let words: BTreeSet<&str> = SubjectKinds::ALL.iter().map(|k| k.word()).collect();
        assert_eq!(words.len(), SubjectKinds::ALL.len());
    }

    #[test]
    fn words_have_no_paths_addresses_or_quotes() {
        for text in [
            "NVIDIA H100 80GB HBM3",
            "96.00.9F.00.01",
            "1g.10gb+me",
            "",
            "row remapper (SRAM)",
        ] {
            assert_eq!(word(text), text);
        }
        for text in [
            "/home/canary",
            "canary@site",
            "\"canary\"",
            "a=b",
            "d\u{e9}j\u{e0}",
            &"x".repeat(65),
        ] {
            assert_eq!(word(text), WITHHELD, "{text}");
        }
        assert_eq!(
            (number("0x10de"), number("+Inf"), number("canary")),
            ("0x10de".into(), "+Inf".into(), WITHHELD.into())
        );
        assert_eq!(
            (incident("k3v7qzpa"), incident("canary")),
            ("k3v7qzpa".into(), WITHHELD.into())
        );
    }
}
