//! Check `rdma-firmware-timeout`: the driver of an RDMA adapter says that its firmware does not answer, or fails.

use std::collections::BTreeMap;
use std::time::Duration;

use collectors::event::FirmwareFault;
use collectors::rdma::metrics::{DEVICE_HW_COUNTER, HW_COUNTER};
use collectors::{PciAddress, Subject, SubjectKind};

use super::growth::HOUR_MS;
use super::rdma_port::{Port, number};
use super::{Check, May, Scope, Version};
use crate::condition::{Judged, Reading, USUAL};
use crate::finding::{Finding, Joins, Remedy};
use crate::judge::{Judge, evidence};
use crate::memory::Memory;
use model::snapshot::Presence;

/// The row.
pub static CHECK: Check = Check {
    id: "rdma-firmware-timeout",
    subject: SubjectKind::Pci,
    condition: "The kernel's log says of an RDMA adapter that its firmware did not answer a command, stands still, failed or had to be reset, or EFA's driver counts commands that were not completed. Commands that it refused do not count.",
    scope: Scope::Node,
    // The adapter may serve on; the next command may hang a job, or whoever reads its counters, for a minute.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    clears: "By itself: the log, and EFA's counter, were read for six hours without another.",
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

/// EFA's driver writes no line: it counts what its firmware did not answer, of the device (older kernels: of its port).
const UNANSWERED: &str = "no_completion_cmds";

/// Notes what the drivers count, and gives for how long each device has been read.
fn count(judge: &mut Judge<'_>) -> BTreeMap<PciAddress, Duration> {
    let snapshot = judge.snapshot;
    let of_devices = snapshot
        .samples(&DEVICE_HW_COUNTER)
        .chain(snapshot.samples(&HW_COUNTER))
        .filter(|s| s.label("counter") == Some(UNANSWERED));
    let mut read = BTreeMap::new();
    for sample in of_devices {
        let is_its = |port: &&Port<'_>| sample.label("device").is_some_and(|d| port.is_of(d));
        let port = judge.ports.iter().find(is_its).filter(|p| p.driver == "efa");
        let (Some(port), Some(value)) = (port, number(Some(&sample))) else {
            continue;
        };
        let Some(pci) = &port.pci else { continue };
        let name = format!("{} {UNANSWERED}", key(pci));
        let watched = judge.memory.watched(&name, judge.read_at(&sample));
        // What grew while nobody looked has no time.
        let grown = Some(judge.memory.growth(&name, value)).filter(|_| !watched.is_zero());
        let grown = grown.unwrap_or(0);
        let now_ms = judge.now_ms();
        judge.memory.note(&name, grown, now_ms);
        if grown > 0 {
            let line = evidence(&sample, "not to grow");
            judge.memory.say(&key(pci), &line);
        }
        read.insert(pci.clone(), watched);
    }
    read
}

/// Whether the kernel's log is being read.
fn log_is_read(judge: &Judge<'_>) -> bool {
    let log = judge.snapshot.collector("kernel_log");
    log.is_some_and(|log| log.presence == Presence::Open && matches!(log.watcher, Some(Ok(()))))
}

fn conditions<'a>(judge: &mut Judge<'a>) -> Vec<Judged<'a>> {
    let now = judge.since_boot;
    let counted = count(judge);
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
        let quiet = Duration::from_millis(QUIET_MS);
        let is_efa = driver == "efa";
        let counter_is_quiet = !is_efa || counted.get(&pci).is_some_and(|w| *w >= quiet);
        // A finding that the counter alone has begun needs no log to end.
        let all = judge.memory.times_below(&key(&pci), u64::MAX, judge.now_ms());
        let needs_log = !is_efa || !all.keys().all(|name| name.ends_with(UNANSWERED));
        let reading = if !times.is_empty() {
            Reading::Bad
        } else if counter_is_quiet && (!needs_log || watched.is_some_and(|w| w >= quiet)) {
            Reading::Good
        } else {
            Reading::Unknown
        };
        let words = FirmwareFault::ALL.iter().map(|what| what.word());
        let counts: Vec<String> = words
            .chain([UNANSWERED])
            .filter_map(|word| {
                let times = times.get(format!("{} {word}", key(&pci)).as_str())?;
                Some(format!("{} {word}", times.len()))
            })
            .collect();
        let line = judge.memory.said(&key(&pci)).unwrap_or("lines of an earlier run");
        let counts = counts.join(", ");
        let evidence = if driver == "efa" {
            format!("{line}; {name} within 6 h: {counts}")
        } else {
            format!(
                "kernel log: {line}; {name}: rdma_firmware_faults_total{{pci=\"{pci}\"}} within 6 h: {counts}, expected none"
            )
        };
        let finding = Finding {
            pci: Some(pci.clone()),
            detail: format!("firmware of {driver} does not answer"),
            remedy: Remedy::Reboot,
            drains: true,
            joins: Joins::Attaches,
            evidence,
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
