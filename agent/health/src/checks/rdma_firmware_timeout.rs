//! Check `rdma-firmware-timeout`: the driver of an RDMA adapter reports unresponsive or failed firmware.

use std::collections::BTreeMap;
use std::time::Duration;

use collectors::event::FirmwareFault;
use collectors::rdma::metrics::{DEVICE_HW_COUNTER, HW_COUNTER};
use collectors::{EventBody, PciAddress, Subject, SubjectKind};

use super::growth::HOUR_MS;
use super::rdma_scope::excluded;
use super::{Check, Heard, May, Said, Scope, Version, Watch};
use crate::bounded::{Bounded, STORED};
use crate::condition::{Judged, Reading, USUAL};
use crate::counts::{Counters, Times, Watched};
use crate::finding::{Finding, Joins, Remedy};
use crate::judge::{Judge, evidence};
use crate::reads::port::{Port, number};
use model::snapshot::Presence;

/// The row.
pub static CHECK: Check = Check {
    id: "rdma-firmware-timeout",
    subject: SubjectKind::Pci,
    fires_when: "The kernel log reports that an adapter's firmware timed out, stopped, failed or was reset. EFA: the driver counts commands without completion.",
    lasting: "2 consecutive readings, at least 10 s",
    clears_when: "No further report for 6 h with the log (EFA: the counter) readable, confirmed by 3 consecutive readings, at least 60 s.",
    ignored_when: "Commands that the firmware rejects. Log lines older than 15 min or logged before the first start.",
    scope: Scope::Node,
    // The adapter may still work, but its next command may block a job or a reader of its counters for 60 s.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Box::<State>::default(),
};

/// A report counts for this time; this time without one ends the finding.
const QUIET_MS: u64 = 6 * HOUR_MS;

fn key(pci: &PciAddress) -> String {
    format!("{} {pci}", CHECK.id)
}

#[derive(Default)]
struct State {
    /// The times of faults of each adapter, by address.
    faults: Times,
    /// The last report of each adapter since start.
    lines: Bounded<PciAddress, String, STORED>,
    counters: Counters<PciAddress>,
    watched: Watched<PciAddress>,
    /// How long the kernel log has been read.
    log: Watched<()>,
}

impl Watch for State {
    fn look<'a>(&mut self, judge: &Judge<'a>) -> Vec<Judged<'a>> {
        conditions(judge, self)
    }

    fn hear(&mut self, heard: &Heard<'_>) -> Vec<Said> {
        // An old line cannot be confirmed on the node.
        if let (EventBody::Firmware { pci, what, .. }, false) = (&heard.event.body, heard.is_old()) {
            let now_ms = u64::try_from(heard.now.boottime.as_millis()).unwrap_or(u64::MAX);
            self.faults.add(&pci.0, what.word(), heard.count(), now_ms);
            self.lines.put(pci.clone(), heard.event.text.clone());
        }
        Vec::new()
    }

    fn times(&mut self) -> Option<&mut Times> {
        Some(&mut self.faults)
    }
}

/// EFA's driver logs nothing: it counts commands without completion, per device (older kernels: per port).
const UNANSWERED: &str = "no_completion_cmds";

/// Records the drivers' counters. Returns how long each device has been read.
fn count(judge: &Judge<'_>, state: &mut State) -> BTreeMap<PciAddress, Duration> {
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
        let watched = state.watched.read(pci.clone(), judge.read_at(&sample));
        let grown = state.counters.growth(pci.clone(), value);
        // Growth before the first reading has no time.
        let grown = if watched.is_zero() { 0 } else { grown };
        state.faults.note(judge, &pci.0, UNANSWERED, grown);
        if grown > 0 {
            state.lines.put(pci.clone(), evidence(&sample, "not to grow"));
        }
        read.insert(pci.clone(), watched);
    }
    read
}

/// Whether the kernel log is being read.
fn log_is_read(judge: &Judge<'_>) -> bool {
    let log = judge.snapshot.collector("kernel_log");
    log.is_some_and(|log| log.presence == Presence::Open && matches!(log.watcher, Some(Ok(()))))
}

fn conditions<'a>(judge: &Judge<'a>, state: &mut State) -> Vec<Judged<'a>> {
    let now = judge.since_boot();
    let counted = count(judge, state);
    let watched = log_is_read(judge).then(|| state.log.read((), now));
    // Only RDMA adapters that the site did not exclude.
    let mut adapters: BTreeMap<PciAddress, (String, String)> = BTreeMap::new();
    for port in judge.ports {
        if let Some(pci) = &port.pci {
            adapters.insert(pci.clone(), (port.name.clone(), port.driver.to_owned()));
        }
    }
    for (pci, role) in judge.known.adapters.iter() {
        let known = (role.name.clone(), role.driver.clone());
        adapters.entry(pci.clone()).or_insert(known);
    }
    let mut judged = Vec::new();
    for (pci, (name, driver)) in adapters {
        let times = state.faults.of_device(&pci.0, QUIET_MS, judge.now_ms());
        let quiet = Duration::from_millis(QUIET_MS);
        let is_efa = driver == "efa";
        let counter_is_quiet = !is_efa || counted.get(&pci).is_some_and(|w| *w >= quiet);
        // A finding from the counter alone clears without the log.
        let all = state.faults.of_device(&pci.0, u64::MAX, judge.now_ms());
        let needs_log = !is_efa || !all.keys().all(|what| *what == UNANSWERED);
        let reading = if let Some(excluded) = excluded(judge, &name) {
            excluded
        } else if !times.is_empty() {
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
                let times = times.get(word)?;
                Some(format!("{} {word}", times.len()))
            })
            .collect();
        let line = state
            .lines
            .get(&pci)
            .map_or("lines from before the last restart", String::as_str);
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
