//! A made-up node for tests.

use std::sync::Arc;
use std::time::Duration;

use collectors::sys::task::Task;
use collectors::{Alias, Block, Buckets, Cadence, Kind, Metric, Spec, Subject, SubjectKind, Tier, Unit};

use super::own::{OwnFacts, Page};
use crate::core::derive::affinity::{Affinity, Distance};
use crate::core::ledger::{Count, Ledger};
use crate::core::snapshot::{CollectorState, DeviceState, Late, Prepared, Presence, Snapshot};
use crate::health::Mode;
use crate::health::verdict::{Health, Verdict};
use crate::health::view::{DrainView, FindingView, IncidentView, View};

const fn metric(name: &'static str, kind: Kind, tier: Tier) -> Metric {
    Metric {
        name,
        kind,
        unit: Unit::None,
        labels: &["device"],
        help: "A \\ in help.",
        tier,
        source: "test",
        aliases: &[],
    }
}

/// A row to make others of.
pub(crate) const LEVEL_ROW: Metric = metric("test_level", Kind::Gauge, Tier::Core);

pub(crate) static ERRORS: Metric = metric("test_errors_total", Kind::Counter, Tier::Core);
pub(crate) static LEVEL: Metric = metric("test_level", Kind::Gauge, Tier::Core);
pub(crate) static FINE: Metric = metric("test_fine", Kind::Gauge, Tier::Detail);
pub(crate) static DEEP: Metric = metric("test_deep", Kind::Gauge, Tier::Debug);
pub(crate) static HIDDEN: Metric = metric("test_hidden", Kind::Gauge, Tier::Private);

/// A histogram.
pub(crate) static TOOK: Metric = Metric {
    unit: Unit::Seconds,
    ..metric(
        "test_took_seconds",
        Kind::Histogram(Buckets::new(&[0.5, 1.0])),
        Tier::Detail,
    )
};

/// What the two directions of another exporter's traffic are with us: one counter each, in words of four bytes.
pub(crate) static RECEIVED: Metric = Metric {
    labels: &["device", "port", "queue"],
    aliases: &[traffic("rx", 4.0)],
    ..metric("test_received_words_total", Kind::Counter, Tier::Core)
};

pub(crate) static SENT: Metric = Metric {
    labels: &["device", "port", "queue"],
    aliases: &[
        traffic("tx", 0.25),
        Alias {
            scale: 0.1,
            ..Alias::new("other", "OTHER_SENT", Kind::Counter, &[])
        },
    ],
    ..metric("test_sent_words_total", Kind::Counter, Tier::Debug)
};

/// `their` has no label of ours; they call the port first.
const fn traffic(their: &'static str, scale: f64) -> Alias {
    let labels: &[(&str, &str)] = match their.as_bytes() {
        b"rx" => &[("port", "port"), ("hca", "device"), ("rx", "nothing")],
        _ => &[("port", "port"), ("hca", "device")],
    };
    Alias {
        scale,
        ..Alias::new("other", "other_bytes_total", Kind::Counter, labels)
    }
}

/// A second collector with the same family of the other exporter.
pub(crate) static ELSEWHERE: Metric = Metric {
    aliases: &[Alias::new(
        "other",
        "other_bytes_total",
        Kind::Counter,
        &[("hca", "device")],
    )],
    ..metric("more_bytes_total", Kind::Counter, Tier::Core)
};

pub(crate) static MORE: Spec = Spec {
    name: "more",
    metrics: &[&ELSEWHERE],
    ..SPEC
};

pub(crate) static SPEC: Spec = Spec {
    name: "test",
    domain: &collectors::domain::HOST,
    metrics: &[&ERRORS, &LEVEL, &FINE, &DEEP, &HIDDEN, &TOOK, &RECEIVED, &SENT],
    events: false,
    notes: false,
    cadence: Cadence::Every(Duration::from_secs(15)),
    slice: Duration::from_millis(500),
    deadline: Duration::from_secs(5),
    validate: |_| Ok(()),
    open: |_, _| Ok(None),
};

/// The time of every made-up snapshot.
pub(crate) const AT: Duration = Duration::from_secs(1000);

/// A device that was read just now.
pub(crate) fn device(name: &str, fill: impl FnOnce(&mut Block)) -> DeviceState {
    let mut block = Block::default();
    fill(&mut block);
    block.finish();
    DeviceState {
        subject: Subject::new(SubjectKind::Pci, name),
        layout: Arc::new(Prepared::new(block.layout().to_vec())),
        values: Arc::new(block.values().to_vec()),
        refused: block.refused(),
        at: AT,
        took: Duration::from_millis(3),
        error: None,
        late: None,
    }
}

/// A snapshot of one collector with these devices.
pub(crate) fn snapshot(devices: Vec<DeviceState>) -> Snapshot {
    let mut snapshot = Snapshot::empty(AT);
    snapshot.collectors.push(CollectorState {
        spec: &SPEC,
        presence: Presence::Open,
        watcher: None,
        devices,
        late: Vec::new(),
    });
    snapshot
}

/// A device that has not answered for ten seconds.
pub(crate) fn late(name: &str) -> DeviceState {
    let mut state = device(name, |b| b.u64(&LEVEL, &[name], 1));
    state.late = Some(Late {
        since: AT - Duration::from_secs(10),
        task: Some(Task {
            tid: 1,
            name: "r:test".to_owned(),
            state: 'D',
            wchan: "nv_wait".to_owned(),
            call: "ioctl /dev/nvidiactl".to_owned(),
        }),
    });
    state
}

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
            boot: "b".to_owned(),
            at_ms: 1_000_000,
            valid_until_ms: 1_045_000,
        },
        incidents: vec![IncidentView {
            id: "abcdefgh".to_owned(),
            state: "open".to_owned(),
            subject: "gpu GPU-1".to_owned(),
            subject_kind: "gpu".to_owned(),
            subject_name: "GPU-1".to_owned(),
            pci: "0000:3b:00.0".to_owned(),
            check: "gpu_xid".to_owned(),
            detail: "xid79 \"fell\"\n".to_owned(),
            act: "reboot".to_owned(),
            drains: true,
            mode: Mode::Observe,
            could: Mode::Drain,
            since: 1_700_000_000,
            closed: None,
            clears: "a reboot".to_owned(),
            findings: vec![FindingView {
                check: "gpu_xid".to_owned(),
                detail: "xid79".to_owned(),
                count: 2,
                first: 1_700_000_000,
                last: 1_700_000_000,
                evidence: vec!["NVRM: Xid (PCI:0000:3b:00): 79".to_owned()],
                jobs: Vec::new(),
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
        },
        would_drain: vec![("gpu_xid".to_owned(), 1)],
        drains: vec![("gpu_missing".to_owned(), 0)],
        undrains: 0,
        overrides: 0,
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
