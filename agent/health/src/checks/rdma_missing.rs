//! Check `rdma-missing`: an RDMA adapter seen in this boot, or configured, is absent.
//!
//! The device and interface of an adapter in a container's network namespace are invisible. Its PCI function and the
//! folder `infiniband` below it stay visible while a device is registered in any namespace. So the folder distinguishes
//! an adapter in another namespace from a missing one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use collectors::{PciAddress, Subject, SubjectKind};

use super::expected::unexpected;
use super::rdma_scope::excluded;
use super::{Check, Kept, May, Scope, Version, Watch};
use crate::condition::{Judged, Pace, Reading};
use crate::finding::{Finding, Joins, Remedy};
use crate::judge::Judge;
use crate::reads::host::Slot;
use crate::reads::known::Role;
use crate::reads::port::Port;

/// The row.
pub static CHECK: Check = Check {
    id: "rdma-missing",
    subject: SubjectKind::Pci,
    fires_when: "An RDMA adapter seen in this boot, or in `health.rdma.addresses`, is not on the PCI bus or has a driver but no RDMA device. Or a configured adapter has no driver.",
    lasting: "4 consecutive readings, at least 120 s",
    clears_when: "3 consecutive readings, at least 60 s, with an RDMA device registered on the adapter. Or at least 100 s, with the address no longer in the configuration, if no adapter was seen there in this boot.",
    ignored_when: "Adapters in another network namespace, assigned to a virtual machine, or possibly bonded to another function of the card. Configured adapters not seen yet, in the first 600 s after boot.",
    scope: Scope::Node,
    // An administrator may have removed it, and jobs without RDMA still run.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Box::<Missing>::default(),
};

/// Longer than a driver reload or a firmware restart.
static PACE: Pace = Pace {
    bad: 4,
    bad_span: Duration::from_secs(120),
    good: 3,
    hold: Duration::from_secs(60),
};

/// Adapters that only the configuration expects, or expected when their incident opened: this boot has not seen them.
#[derive(Default)]
struct Missing(BTreeSet<PciAddress>);

impl Watch for Missing {
    fn look<'a>(&mut self, judge: &Judge<'a>) -> Vec<Judged<'a>> {
        let mut judged = conditions(judge);
        let configured = &judge.site.settings.rdma.addresses;
        let is_unseen = |pci: &PciAddress| judge.known.adapters.get(pci).is_none();
        let bad: BTreeSet<PciAddress> = judge.bad.iter().filter_map(|key| address_of(key)).collect();
        // One that an earlier boot had may be broken: only its return or a person ends that.
        let is_over = |pci: &&PciAddress| bad.contains(*pci) && is_unseen(pci) && !configured.contains(pci);
        let mut unseen: BTreeSet<PciAddress> = self.0.iter().filter(is_over).cloned().collect();
        judged.extend(
            unseen
                .iter()
                .map(|pci| unexpected(judge, &CHECK, key(pci), subject(pci))),
        );
        let is_only_configured =
            |pci: &&PciAddress| is_unseen(pci) && (!bad.contains(*pci) || self.0.contains(*pci));
        unseen.extend(configured.iter().filter(is_only_configured).cloned());
        judge.changed(self.0 != unseen);
        self.0 = unseen;
        judged
    }

    fn kept(&mut self) -> Option<&mut dyn Kept> {
        Some(&mut self.0)
    }
}

/// The address in the key of a condition.
fn address_of(key: &str) -> Option<PciAddress> {
    PciAddress::parse(key.strip_prefix(CHECK.id)?.trim_start())
}

fn key(pci: &PciAddress) -> String {
    format!("{} {pci}", CHECK.id)
}

fn subject(pci: &PciAddress) -> Subject {
    Subject::new(SubjectKind::Pci, pci.0.as_str())
}

fn conditions<'a>(judge: &Judge<'a>) -> Vec<Judged<'a>> {
    let mut visible: BTreeMap<PciAddress, Duration> = BTreeMap::new();
    for port in judge.ports {
        if let Some(pci) = &port.pci {
            visible.insert(pci.clone(), port.at);
        }
    }
    let mut expected: BTreeMap<PciAddress, Option<Role>> = BTreeMap::new();
    for address in &judge.site.settings.rdma.addresses {
        expected.insert(address.clone(), None);
    }
    for (pci, role) in judge.known.adapters.iter() {
        expected.insert(pci.clone(), Some(role.clone()));
    }
    let there = expected.keys().filter(|pci| visible.contains_key(*pci)).count();
    let all = expected.len();
    let settled = judge.is_booted();
    let mut judged = Vec::new();
    for (pci, role) in expected {
        let slot = judge.host.slot(&pci);
        let (reading, at) = match visible.get(&pci) {
            Some(at) => (Reading::Good, *at),
            None => {
                let rdma = &judge.site.settings.rdma;
                let configured = rdma.addresses.contains(&pci);
                let excluded = role.as_ref().and_then(|role| excluded(judge, &role.name));
                let reading = match (reading(&slot, role.as_ref(), configured, settled), excluded) {
                    (Reading::Bad, _)
                        if matches!(slot, Slot::Unregistered(_)) && may_be_joined(judge, &pci) =>
                    {
                        Reading::Unknown
                    }
                    // The site named its address all the same.
                    (reading, _) if configured => reading,
                    (reading, excluded) => excluded.unwrap_or(reading),
                };
                (reading, judge.host.read_at.unwrap_or(judge.since_boot()))
            }
        };
        let finding = finding(&pci, role.as_ref(), &slot, (there, all));
        judged.push(Judged {
            key: key(&pci),
            subject: finding.subject.clone(),
            reading,
            at,
            pace: &PACE,
            finding: Box::new(move |_| finding),
        });
    }
    judged
}

/// Whether this function may share the RDMA device of another function of its card: two bonded Ethernet ports are one device,
/// on the first function, and so are those of one e-switch (lag/lag.c and lag/mpesw.c of mlx5, Linux 6.12; the driver stays
/// bound to both). InfiniBand ports are never joined.
fn may_be_joined(judge: &Judge<'_>, pci: &PciAddress) -> bool {
    let is_apart = |port: &&Port<'_>| {
        let device = port.name.split('/').next().unwrap_or_default();
        let is_alone = judge.ports.iter().filter(|p| p.is_of(device)).count() == 1;
        port.link_layer == "InfiniBand" || (port.is_bond() == Some(false) && is_alone)
    };
    let mut siblings = judge.host.registered_siblings(pci);
    siblings.any(|sibling| {
        let ports = judge.ports.iter().filter(|p| p.pci.as_ref() == Some(sibling));
        let ports: Vec<&Port<'_>> = ports.collect();
        // The device of an invisible port is in another network namespace.
        ports.is_empty() || !ports.iter().all(is_apart)
    })
}

/// The reading of an adapter without visible port, by its place on the bus.
fn reading(slot: &Slot, role: Option<&Role>, configured: bool, settled: bool) -> Reading {
    match slot {
        Slot::Registered => Reading::Good,
        // An adapter not seen in this boot may still be starting.
        Slot::Gone | Slot::Unregistered(_) if role.is_none() && !settled => Reading::Unknown,
        Slot::Gone => Reading::Bad,
        Slot::Unregistered(driver) if role.is_none_or(|r| r.driver == *driver) => Reading::Bad,
        // Its driver may have failed to start it. An intended removal would also leave the configuration.
        Slot::Unbound if configured && settled => Reading::Bad,
        Slot::Unregistered(_) | Slot::Unbound | Slot::Released | Slot::Unknown => Reading::Unknown,
    }
}

fn finding(pci: &PciAddress, role: Option<&Role>, slot: &Slot, (there, all): (usize, usize)) -> Finding {
    let (what, line) = match slot {
        Slot::Unregistered(driver) => (
            format!("{driver} has no RDMA device"),
            format!("host_pci_rdma_registered{{pci=\"{pci}\"}} 0, expected 1"),
        ),
        Slot::Unbound => (
            "RDMA adapter without a driver".to_owned(),
            format!("host_pci_network_info{{pci=\"{pci}\",driver=\"\"}} 1, expected a driver"),
        ),
        _ => (
            "RDMA adapter not on the PCI bus".to_owned(),
            format!("host_pci_network_info{{pci=\"{pci}\"}} not in a complete PCI listing"),
        ),
    };
    let who = match role {
        Some(role) => format!("{} of {} was present in this boot", role.name, role.driver),
        None => "configured in health.rdma.addresses".to_owned(),
    };
    Finding {
        pci: Some(pci.clone()),
        detail: what,
        remedy: Remedy::Reboot,
        drains: true,
        joins: Joins::Attaches,
        evidence: format!("{line}; {who}; {there} of {all} RDMA adapters are visible"),
        ..Finding::of_condition(CHECK.id, subject(pci))
    }
}
