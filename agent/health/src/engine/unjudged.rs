//! What the node must have and no reading answers. Without a listing of the PCI bus, a node whose devices are missing would look healthy.

use std::collections::BTreeSet;

use collectors::PciAddress;

use crate::Mode;
use crate::checks::{gpu_missing, profile, rdma_missing};
use crate::judge::Judge;
use crate::policy::Policy;
use crate::reads::host::{Place, Slot};
use crate::reads::node::Node;

/// Why a fault that would make the verdict unhealthy cannot be seen. What the driver of a device shows needs no listing.
pub(super) fn doubt(judge: &Judge<'_>, policy: &Policy, unproven: &BTreeSet<PciAddress>) -> Option<String> {
    let drains = |id: &str| policy.own(id) == Mode::Drain;
    let gpus = || gpus(judge, unproven).filter(|_| drains(gpu_missing::CHECK.id));
    let adapters = || adapters(judge).filter(|_| drains(rdma_missing::CHECK.id));
    let unlisted = gpus().or_else(adapters);
    let expect = &judge.site.settings.expect;
    let node = Node::of(judge.snapshot);
    let cpus = node.cpus.is_none() && expect.cpus.is_some() && drains(profile::CPUS.id);
    let memory = node.memory.is_none() && expect.memory.is_some() && drains(profile::MEMORY.id);
    unlisted
        .map(|what| format!("host: no complete listing of /sys/bus/pci/devices to look for {what}"))
        .or_else(|| cpus.then(|| "host: no number of CPUs to compare with health.expect.cpus".to_owned()))
        .or_else(|| memory.then(|| "host: no MemTotal to compare with health.expect.memory".to_owned()))
}

fn gpus(judge: &Judge<'_>, unproven: &BTreeSet<PciAddress>) -> Option<String> {
    let (host, settings) = (judge.host, &judge.site.settings);
    let up = || judge.gpus.iter().filter(|gpu| gpu.is_up() == Some(true));
    let is_up = |pci: &PciAddress| up().any(|gpu| gpu.pci.as_ref() == Some(pci));
    // The absence of an unproven one does not drain.
    let is_unseen =
        |pci: &&PciAddress| host.place(pci) == Place::Unknown && !is_up(pci) && !unproven.contains(*pci);
    if let Some(pci) = settings.gpu_addresses.iter().find(is_unseen) {
        return Some(format!("the GPU at {pci} of health.gpu_addresses"));
    }
    let want = gpu_missing::count_wanted(judge.site);
    let is_short = |want: &usize| !host.is_complete() && host.gpus_listed().max(up().count()) < *want;
    if let Some(want) = want.filter(|want| unproven.is_empty() && is_short(want)) {
        return Some(format!("{want} GPUs of health.expect.gpus"));
    }
    let seen = judge.inventory.keys().any(|pci| !unproven.contains(pci));
    (seen && host.lists_nothing() && up().next().is_none()).then(|| "GPUs that were seen before".to_owned())
}

fn adapters(judge: &Judge<'_>) -> Option<String> {
    let (host, rdma) = (judge.host, &judge.site.settings.rdma);
    let is_visible = |pci: &PciAddress| judge.ports.iter().any(|port| port.pci.as_ref() == Some(pci));
    let is_unseen = |pci: &&PciAddress| host.slot(pci) == Slot::Unknown && !is_visible(pci);
    let mut configured = rdma.addresses.iter().filter(|_| !host.is_complete());
    if let Some(pci) = configured.find(is_unseen) {
        return Some(format!("the RDMA adapter at {pci} of health.rdma.addresses"));
    }
    let seen = judge.known.adapters.iter().next().is_some();
    (seen && host.lists_nothing() && judge.ports.is_empty())
        .then(|| "RDMA adapters that were seen in this boot".to_owned())
}
