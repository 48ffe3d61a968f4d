//! Check `rdma-firmware-timeout`: the driver of an RDMA adapter says that its firmware does not answer, or fails.

use std::collections::BTreeMap;
use std::time::Duration;

use collectors::event::FirmwareFault;
use collectors::{PciAddress, Subject, SubjectKind};

use super::growth::HOUR_MS;
use super::{Check, Scope, Version};
use crate::core::snapshot::Presence;
use crate::health::Mode;
use crate::health::condition::{Judged, Reading, USUAL};
use crate::health::finding::{Finding, Joins, Remedy};
use crate::health::judge::Judge;
use crate::health::memory::Memory;

/// The row.
pub static CHECK: Check = Check {
    id: "rdma-firmware-timeout",
    subject: SubjectKind::Pci,
    condition: "The kernel's log says of an RDMA adapter that its firmware did not answer a command, stands still, failed or had to be reset. Commands that it refused do not count.",
    scope: Scope::Node,
    // The adapter may serve on; the next command may hang a job, or whoever reads its counters, for a minute.
    ceiling: Mode::Comment,
    since: Version(0, 1, 0),
    clears: "By itself: the log was read for six hours without another such line.",
    runbook: "docs/runbooks/rdma-firmware-timeout.md",
    conditions: Some(conditions),
};

/// A line counts for so long, and so long without one it is over.
const QUIET_MS: u64 = 6 * HOUR_MS;

fn key(pci: &PciAddress) -> String {
    format!("{} {pci}", CHECK.id)
}

/// Notes a line.
pub fn remember(
    memory: &mut Memory,
    pci: &PciAddress,
    what: FirmwareFault,
    count: u64,
    line: &str,
    now: Duration,
) {
    let name = format!("{} {}", key(pci), what.word());
    let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    memory.note(&name, count, now_ms);
    memory.say(&key(pci), line);
}

/// Whether the kernel's log is being read.
fn log_is_read(judge: &Judge<'_>) -> bool {
    let log = judge.snapshot.collector("kernel_log");
    log.is_some_and(|log| log.presence == Presence::Open && matches!(log.watcher, Some(Ok(()))))
}

fn conditions<'a>(judge: &mut Judge<'a>) -> Vec<Judged<'a>> {
    let now = judge.since_boot;
    let watched = log_is_read(judge).then(|| judge.memory.watched(CHECK.id, now));
    // Only adapters that serve RDMA, and none that the site excluded.
    let mut adapters: BTreeMap<PciAddress, (String, String)> = BTreeMap::new();
    for port in judge.ports {
        if let Some(pci) = &port.pci {
            adapters.insert(pci.clone(), (port.name.clone(), port.driver.to_owned()));
        }
    }
    for (pci, role) in judge.memory.adapters() {
        if let Some(pci) = PciAddress::parse(pci) {
            let known = (role.name.clone(), role.driver.clone());
            adapters.entry(pci).or_insert(known);
        }
    }
    let mut judged = Vec::new();
    for (pci, (name, driver)) in adapters {
        let times = judge.memory.times_below(&key(&pci), QUIET_MS, judge.now_ms());
        let reading = if !times.is_empty() {
            Reading::Bad
        } else if watched.is_some_and(|w| w >= Duration::from_millis(QUIET_MS)) {
            Reading::Good
        } else {
            Reading::Unknown
        };
        let counts: Vec<String> = FirmwareFault::ALL
            .iter()
            .filter_map(|what| {
                let times = times.get(format!("{} {}", key(&pci), what.word()).as_str())?;
                Some(format!("{} {}", times.len(), what.word()))
            })
            .collect();
        let line = judge.memory.said(&key(&pci)).unwrap_or("lines of an earlier run");
        let finding = Finding {
            pci: Some(pci.clone()),
            detail: format!("firmware of {driver} does not answer"),
            rank: 57,
            remedy: Remedy::Reboot,
            drains: true,
            joins: Joins::Attaches,
            evidence: format!(
                "kernel log: {line}; {name}: rdma_firmware_faults_total{{pci=\"{pci}\"}} within 6 h: {}, expected none",
                counts.join(", ")
            ),
            ..Finding::of_condition(CHECK.id, Subject::new(SubjectKind::Pci, pci.0.as_str()))
        };
        judged.push(Judged {
            key: key(&pci),
            subject: finding.subject.clone(),
            reading,
            at: now,
            pace: &USUAL,
            finding: Box::new(move |_| finding),
        });
    }
    judged
}
