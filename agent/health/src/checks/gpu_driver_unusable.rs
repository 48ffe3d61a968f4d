//! Check `gpu-driver-unusable`: the library of a GPU driver cannot be initialised, or the driver is not loaded, or did not take
//! a GPU.

use std::collections::BTreeSet;
use std::time::Duration;

use collectors::{PciAddress, Subject, SubjectKind};
use model::derive::xid::gpu_label;
use serde::{Deserialize, Serialize};

use super::gpu_missing::count_wanted;
use super::{Check, Kept, May, Scope, Version, Watch};
use crate::condition::{Judged, Pace, Reading};
use crate::finding::{Finding, Joins, Remedy};
use crate::judge::Judge;
use crate::reads::host::{Host, Place};
use model::snapshot::{CollectorState, Presence};

/// The row.
pub static CHECK: Check = Check {
    id: "gpu-driver-unusable",
    subject: SubjectKind::Gpu,
    fires_when: "NVIDIA's library cannot be initialised (versions of library and kernel module differ, code 999), while GPUs are bound to the driver. Or a GPU that was served in this boot, or is in `health.gpu_addresses` or needed for `health.expect.gpus`, has no driver. Beside GPUs with their driver, also one that was served in an earlier boot.",
    lasting: "8 consecutive readings, at least 600 s",
    clears_when: "3 consecutive readings, at least 60 s, in which the driver responds, or is bound to the GPU. Or with no GPU left that was served or is expected.",
    ignored_when: "A driver released with `nodewarden release`, GPUs that vfio-pci or the like assigns to others, and incomplete PCI listings. Missing permission, device files or library: shown, never drains.",
    scope: Scope::Node,
    // A driver that an administrator upgrades is unusable until the module is reloaded.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Box::<Unusable>::default(),
};

/// Longer than an upgrade of the driver, which may compile the module.
static PACE: Pace = Pace {
    bad: 8,
    bad_span: Duration::from_secs(600),
    good: 3,
    hold: Duration::from_secs(60),
};

/// The collector, and the name of its driver on the bus.
const COLLECTOR: &str = "nvidia";

/// The most addresses: far more than a node has GPUs.
const MAX: usize = 128;

/// Reasons that are no fault of the driver. `blocked` is that of check `gpu-driver-blocked`.
const OTHERS: [&str; 5] = ["blocked", "limit", "panic", "settings", "thread"];

/// Reasons of an incomplete installation of nodewarden: jobs may still use the GPUs.
const INSTALLATION: [&str; 4] = ["denied", "no_device_files", "no_library", "no_permission"];

/// The GPUs that the driver served in this boot, or had while it was faulty.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
struct Unusable(BTreeSet<PciAddress>);

/// The fault: its word, and its evidence.
struct Fault {
    reason: String,
    evidence: String,
}

impl Watch for Unusable {
    fn look<'a>(&mut self, judge: &Judge<'a>) -> Vec<Judged<'a>> {
        let up = judge.gpus.iter().filter(|g| g.is_up() == Some(true));
        self.had(judge, up.filter_map(|g| g.pci.as_ref()));
        let Some(collector) = judge.snapshot.collector(COLLECTOR) else {
            return Vec::new();
        };
        let fault = self.fault(judge, collector);
        if fault.is_some() {
            // Its module is unloaded for the repair: they are then without a driver, and not well.
            self.had(judge, judge.host.gpus_of(COLLECTOR));
        }
        let has_gpus = judge.host.gpus_of(COLLECTOR).next().is_some() || !self.missed(judge).is_empty();
        let reading = match (&fault, &collector.presence) {
            (Some(_), _) => Reading::Bad,
            (None, Presence::Open) => Reading::Good,
            (None, _) if judge.host.is_complete() && !has_gpus => Reading::Good,
            (None, _) => Reading::Unknown,
        };
        let mut judged = vec![Judged {
            key: format!("{} {COLLECTOR}", CHECK.id),
            subject: Subject::node(),
            reading,
            at: judge.snapshot.at,
            pace: &PACE,
            finding: Box::new(move |_| finding(fault)),
        }];
        judged.extend(self.each(judge, &collector.presence));
        judged
    }

    fn rebooted(&mut self) {
        self.0.clear();
    }

    fn kept(&mut self) -> Option<&mut dyn Kept> {
        Some(self)
    }
}

impl Unusable {
    fn had<'a>(&mut self, judge: &Judge<'_>, gpus: impl Iterator<Item = &'a PciAddress>) {
        for pci in gpus {
            if self.0.len() < MAX && self.0.insert(pci.clone()) {
                judge.counted();
            }
        }
    }

    fn fault(&self, judge: &Judge<'_>, collector: &CollectorState) -> Option<Fault> {
        let host = judge.host;
        let bound = host.gpus_of(COLLECTOR).count();
        match &collector.presence {
            Presence::Failed(reason, text) if bound > 0 && !OTHERS.contains(&reason.as_str()) => {
                Some(Fault {
                    reason: reason.clone(),
                    evidence: format!(
                        "nodewarden_collector_state_info{{collector=\"{COLLECTOR}\",state=\"failed\",\
                         reason=\"{reason}\"}} 1, expected state \"ok\": {text}; {bound} GPUs are bound to the driver"
                    ),
                })
            }
            Presence::NotHere | Presence::Failed(..) if bound == 0 => {
                let unbound: Vec<String> = self.unbound(judge).map(|pci| unbound_at(host, pci)).collect();
                (!unbound.is_empty()).then(|| Fault {
                    reason: "not_loaded".to_owned(),
                    evidence: unbound.join(" "),
                })
            }
            _ => None,
        }
    }

    /// The GPUs without a driver that served one in this boot or that the site expects.
    fn unbound<'a>(&self, judge: &Judge<'a>) -> impl Iterator<Item = &'a PciAddress> {
        let host = judge.host;
        let configured = &judge.site.settings.gpu_addresses;
        // The count of the profile has room for a GPU of which no address is known.
        let driven = host.gpus_there().map(|all| all - host.gpus_of("").count());
        let is_short = count_wanted(judge.site)
            .zip(driven)
            .is_some_and(|(want, have)| have < want);
        let is_expected =
            move |pci: &&PciAddress| is_short || self.0.contains(*pci) || configured.contains(pci);
        host.gpus_of("").filter(is_expected)
    }

    /// The same, and those that an earlier boot had.
    fn missed<'a>(&self, judge: &Judge<'a>) -> BTreeSet<&'a PciAddress> {
        let known = judge
            .host
            .gpus_of("")
            .filter(|pci| judge.inventory.contains_key(*pci));
        self.unbound(judge).chain(known).collect()
    }

    /// Each GPU without a driver, while the driver serves others. One that an earlier boot had counts too.
    fn each<'a>(&self, judge: &Judge<'a>, presence: &Presence) -> Vec<Judged<'a>> {
        let host = judge.host;
        let mut all: BTreeSet<PciAddress> = judge.bad.iter().filter_map(|key| address_of(key)).collect();
        let is_open = *presence == Presence::Open;
        let missed = self.missed(judge);
        all.extend(missed.iter().filter(|_| is_open).map(|pci| (*pci).clone()));
        let configured = &judge.site.settings.gpu_addresses;
        let judged = all.into_iter().map(|pci| {
            let is_of = |driver| host.gpus_of(driver).any(|other| *other == pci);
            let reading = match host.place(&pci) {
                Place::Present(_) if is_of("") && is_open && missed.contains(&pci) => Reading::Bad,
                // The site no longer expects it, and no boot had it.
                Place::Present(_) if is_of("") && host.is_complete() && !missed.contains(&pci) => {
                    Reading::Good
                }
                Place::Present(_) if is_of(COLLECTOR) => Reading::Good,
                Place::Reassigned => Reading::Good,
                // Check `gpu-missing` has the configured ones.
                Place::Gone if !configured.contains(&pci) => Reading::Good,
                _ => Reading::Unknown,
            };
            let subject = Subject::gpu(gpu_label(judge.inventory, &pci));
            Judged {
                key: format!("{} {pci}", CHECK.id),
                subject: subject.clone(),
                reading,
                at: host.read_at.unwrap_or(judge.since_boot()),
                pace: &PACE,
                finding: Box::new(move |_| unbound_gpu(host, pci, subject)),
            }
        });
        judged.collect()
    }
}

/// The address of a GPU's condition. `None`: it is that of the driver.
fn address_of(key: &str) -> Option<PciAddress> {
    let address = key.strip_prefix(CHECK.id)?.strip_prefix(' ')?;
    PciAddress::parse(address)
}

fn unbound_at(host: &Host, pci: &PciAddress) -> String {
    let driver = host.driver_at(pci).unwrap_or_default();
    format!("host_pci_gpu_info{{pci=\"{pci}\",driver={driver:?}}} 1, expected the GPU's own driver")
}

fn unbound_gpu(host: &Host, pci: PciAddress, subject: Subject) -> Finding {
    Finding {
        detail: "driver unusable: not_bound".to_owned(),
        remedy: Remedy::Inspect,
        drains: true,
        joins: Joins::Attaches,
        evidence: unbound_at(host, &pci),
        pci: Some(pci),
        ..Finding::of_condition(CHECK.id, subject)
    }
}

fn finding(fault: Option<Fault>) -> Finding {
    let Fault { reason, evidence } = fault.unwrap_or_else(|| Fault {
        reason: String::new(),
        evidence: String::new(),
    });
    Finding {
        detail: format!("driver unusable: {reason}"),
        remedy: match reason.as_str() {
            "version_mismatch" => Remedy::Reboot,
            _ => Remedy::Inspect,
        },
        drains: !INSTALLATION.contains(&reason.as_str()),
        joins: Joins::Opens,
        evidence,
        ..Finding::of_condition(CHECK.id, Subject::node())
    }
}
