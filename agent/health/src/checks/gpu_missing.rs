//! Check `gpu-missing`: configured GPUs that are absent, fewer GPUs than the profile has, and fewer than Slurm's Gres lists.

use collectors::{PciAddress, Subject, SubjectKind};

use super::expected::unexpected;
use super::{Check, Expected, May, Scope, Version, Watch};
use crate::condition::{Judged, Reading, USUAL};
use crate::finding::{Finding, Joins, Rank, Remedy};
use crate::judge::Judge;
use crate::reads::host::{Host, Place};
use crate::site::Site;
use model::derive::xid::{Inventory, gpu_label};

/// The key of the condition about Gres. The key of the others is the address alone, as in records of the first release.
const GRES: &str = "gres";
/// The condition about `health.expect.gpus`.
const COUNT: &str = "gpu-missing count";

/// The row.
pub static CHECK: Check = Check {
    id: "gpu-missing",
    subject: SubjectKind::Gpu,
    fires_when: "A GPU of `health.gpu_addresses` is not on the PCI bus or does not respond there. Or fewer GPUs are on the bus than `health.expect.gpus`. Fewer than Slurm's Gres lists: shown, never drains.",
    lasting: "2 consecutive readings, at least 10 s",
    clears_when: "3 consecutive readings, at least 60 s, with the GPU on the bus, or with as many GPUs as expected. Or at least 100 s, with the GPU no longer in the configuration. Gres: also if it no longer counts whole GPUs.",
    ignored_when: "GPUs that vfio-pci or the like assigns to others, and incomplete PCI listings. `health.expect.gpus`, if as many addresses are configured. The count of Gres, if it lists MIG instances, shards or MPS, or a GPU was divided when its driver last answered.",
    scope: Scope::Node,
    may: May::Drain,
    since: Version(0, 1, 0),
    watch: || Box::new(Missing::default()),
};

#[derive(Default)]
struct Missing {
    /// A GPU had instances when a driver last answered: partitions of AMD, or MIG.
    is_divided: bool,
}

impl Watch for Missing {
    fn look<'a>(&mut self, judge: &Judge<'a>) -> Vec<Judged<'a>> {
        if !judge.parts.is_empty() {
            self.is_divided = judge.parts.iter().any(|part| !part.instance.is_empty());
        }
        conditions(judge, self.is_divided)
    }

    fn expected(&self, site: &Site, inventory: &Inventory) -> Vec<Expected> {
        let gpus = site.settings.gpu_addresses.iter();
        let each = gpus.map(|address| Expected {
            key: address.0.clone(),
            subject: Subject::gpu(gpu_label(inventory, address)),
            doubt: format!("the GPU at {address} is not on the PCI bus, although its incident was cleared"),
        });
        let count = count_wanted(site).map(|want| Expected {
            key: COUNT.to_owned(),
            subject: Subject::node(),
            doubt: format!("fewer than {want} GPUs are on the PCI bus, although the incident was cleared"),
        });
        each.chain(count).collect()
    }

    fn owns(&self, key: &str) -> bool {
        PciAddress::parse(key).is_some()
    }
}

fn conditions<'a>(judge: &Judge<'a>, is_divided: bool) -> Vec<Judged<'a>> {
    let (host, gres, inventory) = (judge.host, judge.gres, judge.inventory);
    let at = host.read_at.unwrap_or(judge.since_boot());
    let mut judged: Vec<Judged<'a>> = Vec::new();
    for address in &judge.site.settings.gpu_addresses {
        let gpu = gpu_label(inventory, address);
        judged.push(Judged {
            key: address.0.clone(),
            subject: Subject::gpu(gpu.as_str()),
            reading: reading(host, address),
            at,
            pace: &USUAL,
            finding: Box::new(move |_| finding(host, address, &gpu)),
        });
    }
    let want = count_wanted(judge.site);
    judged.push(Judged {
        key: COUNT.to_owned(),
        subject: Subject::node(),
        reading: match (want, host.gpus_there()) {
            (None, _) => Reading::Good,
            (Some(want), Some(have)) if have < want => Reading::Bad,
            (Some(_), Some(_)) => Reading::Good,
            (Some(_), None) => Reading::Unknown,
        },
        at,
        pace: &USUAL,
        finding: Box::new(move |_| too_few(host, want.unwrap_or_default())),
    });
    judged.push(Judged {
        key: GRES.to_owned(),
        subject: Subject::node(),
        reading: match count_reading(host, gres) {
            // Slurm may count each instance under a type of the site's choice, or under none.
            Reading::Bad if is_divided => Reading::Good,
            other => other,
        },
        at,
        pace: &USUAL,
        finding: Box::new(move |_| count_finding(host, gres)),
    });
    let configured = &judge.site.settings.gpu_addresses;
    for key in &judge.bad {
        if let Some(address) = PciAddress::parse(key).filter(|address| !configured.contains(address)) {
            let subject = Subject::gpu(gpu_label(inventory, &address));
            judged.push(unexpected(judge, &CHECK, key.clone(), subject));
        }
    }
    judged
}

/// The number of GPUs in `health.expect.gpus`. `None`: not set, or each of them is judged by its address.
pub(crate) fn count_wanted(site: &Site) -> Option<usize> {
    let want = site.settings.expect.gpus?;
    let want = usize::try_from(want).unwrap_or(usize::MAX);
    (want > site.settings.gpu_addresses.len()).then_some(want)
}

/// The reading of a configured address.
pub fn reading(host: &Host, address: &PciAddress) -> Reading {
    match host.place(address) {
        Place::Present(_) => Reading::Good,
        Place::Silent | Place::Gone => Reading::Bad,
        Place::Reassigned | Place::Unknown => Reading::Unknown,
    }
}

/// The finding about a configured address.
pub fn finding(host: &Host, address: &PciAddress, gpu: &str) -> Finding {
    let (detail, evidence) = match host.place(address) {
        Place::Silent => (
            format!("{address} does not respond on the PCI bus"),
            format!("host_pci_function_responding{{pci=\"{address}\"}} 0, expected 1"),
        ),
        _ => (
            format!("{address} not on the PCI bus"),
            format!("host_pci_gpu_info{{pci=\"{address}\"}} not in a complete PCI listing"),
        ),
    };
    Finding {
        pci: Some(address.clone()),
        detail,
        remedy: Remedy::Reboot,
        drains: true,
        joins: Joins::Attaches,
        evidence,
        ..Finding::of_condition(CHECK.id, Subject::gpu(gpu))
    }
}

/// The finding about `health.expect.gpus`.
fn too_few(host: &Host, want: usize) -> Finding {
    let have = host.gpus_there().unwrap_or_default();
    Finding {
        detail: format!("GPUs on the PCI bus: {have} found, {want} expected"),
        remedy: Remedy::Reboot,
        drains: true,
        joins: Joins::AttachesToGpu,
        evidence: format!("host_pci_gpus {have} < {want} of health.expect.gpus"),
        ..Finding::of_condition(CHECK.id, Subject::node())
    }
}

/// The number of whole GPUs in Slurm's Gres: `gpu:8`, `gpu:h100:8(S:0-1)`. `None` if it also counts MIG instances,
/// shards or MPS: not comparable.
pub fn expected(gres: &str) -> Option<usize> {
    let mut total = 0;
    for entry in split(gres) {
        let entry = entry.split('(').next().unwrap_or_default().trim();
        let mut parts = entry.split(':');
        match parts.next()? {
            "gpu" => {}
            "shard" | "mps" => return None,
            _ => continue,
        }
        let parts: Vec<&str> = parts.collect();
        let (kind, count) = match parts.as_slice() {
            [count] => ("", count),
            [kind, count] => (*kind, count),
            _ => return None,
        };
        if kind.contains("g.") {
            return None;
        }
        total += count.parse::<usize>().ok()?;
    }
    (total > 0).then_some(total)
}

/// Splits at commas outside parentheses.
fn split(gres: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    gres.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
}

/// The reading of the Gres count.
pub fn count_reading(host: &Host, gres: Option<&str>) -> Reading {
    match (gres.map(expected), host.gpus_there()) {
        (Some(Some(want)), Some(have)) if have < want => Reading::Bad,
        (None, _) | (Some(Some(_)), None) => Reading::Unknown,
        // Also if it was changed to one that counts no whole GPUs.
        (Some(_), _) => Reading::Good,
    }
}

/// The finding about the Gres count. It never drains: slurmctld does when slurmd registers.
pub fn count_finding(host: &Host, gres: Option<&str>) -> Finding {
    let want = gres.and_then(expected).unwrap_or_default();
    let have = host.gpus_there().unwrap_or_default();
    Finding {
        detail: "fewer GPUs on the PCI bus than Gres has".to_owned(),
        rank: Rank::Of(GRES),
        remedy: Remedy::None,
        drains: false,
        joins: Joins::AttachesToGpu,
        evidence: format!("host_pci_gpus {have} < {want} of Gres"),
        ..Finding::of_condition(CHECK.id, Subject::node())
    }
}

#[cfg(test)]
mod tests {
    use super::expected;

    #[test]
    fn only_whole_gpus_are_counted() {
        for (gres, want) in [
            ("gpu:8", Some(8)),
            ("gpu:h100:8(S:0-1)", Some(8)),
            ("gpu:a:2(S:0,1),gpu:b:1,lustre:1", Some(3)),
            ("gpu:8(IDX:0-7)", Some(8)),
            ("", None),
            ("(null)", None),
            ("lustre:1", None),
            ("gpu", None),
            ("gpu:h100:8,shard:64", None),
            ("gpu:h100:8,mps:800", None),
            ("gpu:1g.10gb:7", None),
            ("gpu:a100_3g.20gb:2,gpu:a100:7", None),
            ("gpu:x:y:8", None),
            ("gpu:8K", None),
        ] {
            assert_eq!(expected(gres), want, "{gres}");
        }
    }
}
