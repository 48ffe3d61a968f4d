//! Check `gpu-driver-unusable`: the library of a GPU driver cannot be initialised, or the driver is not loaded.

use std::collections::BTreeSet;
use std::time::Duration;

use collectors::{PciAddress, Subject, SubjectKind};
use serde::{Deserialize, Serialize};

use super::{Check, Kept, May, Scope, Version, Watch};
use crate::condition::{Judged, Pace, Reading};
use crate::finding::{Finding, Joins, Remedy};
use crate::judge::Judge;
use model::snapshot::{CollectorState, Presence};

/// The row.
pub static CHECK: Check = Check {
    id: "gpu-driver-unusable",
    subject: SubjectKind::Gpu,
    fires_when: "NVIDIA's library cannot be initialised (versions of library and kernel module differ, code 999), while GPUs are bound to the driver. Or no driver is bound to a GPU that was served in this boot or is in `health.gpu_addresses`.",
    lasting: "8 consecutive readings, at least 600 s",
    clears_when: "3 consecutive readings, at least 60 s, in which the driver responds, or with no GPU left for it.",
    ignored_when: "A driver released with `nodewarden release`, GPUs bound to another driver (vfio-pci) and incomplete PCI listings. Missing permission, device files or library: shown, never drains.",
    scope: Scope::Node,
    // A driver that an administrator upgrades is unusable until the module is reloaded.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    runbook: "docs/runbooks/gpu-driver-unusable.md",
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

/// The GPUs that the driver served in this boot.
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
        for pci in up.filter_map(|g| g.pci.clone()) {
            if self.0.len() < MAX && self.0.insert(pci) {
                judge.counted();
            }
        }
        let Some(collector) = judge.snapshot.collector(COLLECTOR) else {
            return Vec::new();
        };
        let fault = self.fault(judge, collector);
        let has_gpus = ["", COLLECTOR].map(|driver| judge.host.gpus_of(driver).next().is_some());
        let reading = match (&fault, &collector.presence) {
            (Some(_), _) => Reading::Bad,
            (None, Presence::Open) => Reading::Good,
            (None, _) if judge.host.is_complete() && has_gpus == [false; 2] => Reading::Good,
            (None, _) => Reading::Unknown,
        };
        vec![Judged {
            key: format!("{} {COLLECTOR}", CHECK.id),
            subject: Subject::node(),
            reading,
            at: judge.snapshot.at,
            pace: &PACE,
            finding: Box::new(move |_| finding(fault)),
        }]
    }

    fn rebooted(&mut self) {
        self.0.clear();
    }

    fn kept(&mut self) -> Option<&mut dyn Kept> {
        Some(self)
    }
}

impl Unusable {
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
                let configured = &judge.site.settings.gpu_addresses;
                let is_expected = |pci: &&PciAddress| self.0.contains(*pci) || configured.contains(pci);
                let unbound: Vec<&str> = host
                    .gpus_of("")
                    .filter(is_expected)
                    .map(|p| p.0.as_str())
                    .collect();
                (!unbound.is_empty()).then(|| Fault {
                    reason: "not_loaded".to_owned(),
                    evidence: format!(
                        "host_pci_gpu_info{{driver=\"\"}} 1, expected a driver: {}",
                        unbound.join(" ")
                    ),
                })
            }
            _ => None,
        }
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
