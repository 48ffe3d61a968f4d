//! A made-up page for tests.

use std::sync::Arc;

use health::Mode;
use health::verdict::{Health, Verdict};
use health::view::{DrainView, FindingView, IncidentView, View};
use model::derive::affinity::{Affinity, Distance};
use model::ledger::{Count, Ledger};
pub(crate) use model::sample::*;

use super::{OwnFacts, Page};

/// A view with one open incident.
pub(crate) fn view() -> View {
    let mut ledger = Ledger::default();
    let count = Count {
        count: 2,
        last: 1_700_000_000,
    };
    ledger
        .xids
        .entry("GPU-1".to_owned())
        .or_default()
        .insert(79, count);
    let reports = ledger.xid_reports.entry("GPU-1".to_owned()).or_default();
    let sources = ["kernel_log", "nvml"].map(|source| (source.to_owned(), 2));
    reports.insert(79, sources.into());
    let events = ledger.driver_events.entry("GPU-1".to_owned()).or_default();
    events.insert("mig_config".to_owned(), count);
    let ports = ledger.rdma_events.entry("mlx5_0".to_owned()).or_default();
    let down = [("link_down".to_owned(), count)];
    ports.insert("1".to_owned(), down.into());
    let events = ledger.firmware.entry("0000:19:00.0".to_owned()).or_default();
    events.insert("command_timeout".to_owned(), count);
    let kinds = ledger.kernel_lines.entry("aer-nonfatal".to_owned()).or_default();
    let names = kinds.entry("pci".to_owned()).or_default();
    names.insert("0000:3b:00.0".to_owned(), count);
    ledger
        .sxids
        .entry("pci:0000:05:00.0".to_owned())
        .or_default()
        .insert(20009, count);
    ledger.fallen_off_bus.insert("GPU-1".to_owned(), count);
    View {
        verdict: Verdict {
            health: Health::Unhealthy,
            text: "xid79 gpu GPU-1 act=reboot id=abcdefgh".to_owned(),
            incidents: 1,
            boot: "b".to_owned(),
            at_ms: 1_000_000,
            valid_until_ms: 1_045_000,
            drained_ms: None,
            blind: None,
        },
        incidents: vec![IncidentView {
            id: "abcdefgh".to_owned(),
            state: "open".to_owned(),
            subject: "gpu GPU-1".to_owned(),
            subject_kind: "gpu".to_owned(),
            subject_name: "GPU-1".to_owned(),
            pci: "0000:3b:00.0".to_owned(),
            check: "xid".to_owned(),
            cause: "xid".to_owned(),
            detail: "xid79 \"fell\"\n".to_owned(),
            meaning: "GPU has fallen off the bus".to_owned(),
            act: "reboot".to_owned(),
            acts: true,
            drains: true,
            mode: Mode::Observe,
            could: Mode::Drain,
            since: 1_700_000_000,
            closed: None,
            clears: "a reboot".to_owned(),
            findings: vec![FindingView {
                check: "xid".to_owned(),
                detail: "xid79".to_owned(),
                count: 2,
                first: 1_700_000_000,
                last: 1_700_000_000,
                evidence: vec!["NVRM: Xid (PCI:0000:3b:00): 79".to_owned()],
                jobs: Vec::new(),
                others: false,
            }],
            history: vec![(1_700_000_000, "opened".to_owned())],
            ack: None,
        }],
        drain: DrainView {
            state: "none".to_owned(),
            why: String::new(),
            incident: None,
            reason: None,
            since: None,
            recorded: true,
            held: None,
            guard: None,
        },
        comment: None,
        node: None,
        would_drain: vec![("xid".to_owned(), 1)],
        drains: vec![("gpu-missing".to_owned(), 0)],
        undrains: 0,
        dropped: 0,
        overrides: 0,
        pause: None,
        pauses: 0,
        ledger,
        affinity: vec![Affinity {
            gpu: "GPU-1".to_owned(),
            device: "mlx5_0".to_owned(),
            port: "1".to_owned(),
            distance: Distance::Pix,
        }],
    }
}

/// A page with two good devices and a late one.
pub(crate) fn page() -> Page {
    let devices = ["a", "b"].map(|name| {
        device(name, |b| {
            b.u64(&LEVEL, &[name], 7);
            b.u64(&ERRORS, &[name], 1);
        })
    });
    let mut devices = devices.to_vec();
    devices.push(late("c"));
    Page {
        snapshot: Arc::new(snapshot(devices)),
        view: Arc::new(view()),
        facts: OwnFacts {
            started: 1_700_000_000.5,
            ..OwnFacts::default()
        },
    }
}
