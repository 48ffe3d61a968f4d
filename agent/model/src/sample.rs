//! A made-up node for tests.

#![allow(missing_docs, reason = "for tests alone")]

pub mod jobs;

use std::sync::Arc;
use std::time::Duration;

use collectors::sys::task::Task;
use collectors::{
    Alias, Block, Buckets, Cadence, Histogram, Kind, Metric, Spec, Subject, SubjectKind, Tier, Unit,
};

use crate::snapshot::{CollectorState, DeviceState, Late, Prepared, Presence, Snapshot};

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

pub static ERRORS: Metric = metric("test_errors_total", Kind::Counter, Tier::Core);
pub static LEVEL: Metric = metric("test_level", Kind::Gauge, Tier::Core);
pub static FINE: Metric = metric("test_fine", Kind::Gauge, Tier::Detail);
pub static DEEP: Metric = metric("test_deep", Kind::Gauge, Tier::Debug);
pub static HIDDEN: Metric = metric("test_hidden", Kind::Gauge, Tier::Private);

/// A histogram.
pub static TOOK: Metric = Metric {
    unit: Unit::Seconds,
    ..metric(
        "test_took_seconds",
        Kind::Histogram(Buckets::new(&[0.5, 1.0])),
        Tier::Detail,
    )
};

/// What the two directions of another exporter's traffic are with us: one counter each, in words of four bytes.
pub static RECEIVED: Metric = Metric {
    labels: &["device", "port", "queue"],
    aliases: &[traffic("rx", 4.0)],
    ..metric("test_received_words_total", Kind::Counter, Tier::Core)
};

pub static SENT: Metric = Metric {
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
pub static ELSEWHERE: Metric = Metric {
    aliases: &[Alias::new(
        "other",
        "other_bytes_total",
        Kind::Counter,
        &[("hca", "device")],
    )],
    ..metric("more_bytes_total", Kind::Counter, Tier::Core)
};

pub static MORE: Spec = Spec {
    name: "more",
    metrics: &[&ELSEWHERE],
    ..SPEC
};

pub static SPEC: Spec = Spec {
    name: "test",
    domain: &collectors::domain::HOST,
    metrics: &[&ERRORS, &LEVEL, &FINE, &DEEP, &HIDDEN, &TOOK, &RECEIVED, &SENT],
    events: &[],
    notes: false,
    cadence: Cadence::Every(Duration::from_secs(15)),
    slice: Duration::from_millis(500),
    deadline: Duration::from_secs(5),
    keys: &[],
    open: |_, _| Ok(None),
};

/// The time of every made-up snapshot.
pub const AT: Duration = Duration::from_secs(1000);

/// A device that was read just now.
pub fn device(name: &str, fill: impl FnOnce(&mut Block)) -> DeviceState {
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
        is_partial: false,
        late: None,
    }
}

/// A snapshot of one collector with these devices.
pub fn snapshot(devices: Vec<DeviceState>) -> Snapshot {
    let mut snapshot = Snapshot::empty(AT);
    snapshot.collectors.push(Arc::new(CollectorState {
        spec: &SPEC,
        presence: Presence::Open,
        watcher: None,
        devices,
        late: Vec::new(),
    }));
    snapshot
}

/// A device that has not answered for ten seconds.
pub fn late(name: &str) -> DeviceState {
    let mut state = device(name, |b| b.u64(&LEVEL, &[name], 1));
    state.late = Some(Late {
        since: AT - Duration::from_secs(10),
        heard: AT,
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

/// A device with a series of every tier, and a histogram.
pub fn full(name: &'static str) -> DeviceState {
    device(name, |b| {
        b.f64(&LEVEL, &[name], 0.5);
        b.u64(&ERRORS, &[name], u64::MAX);
        b.u64(&FINE, &[name], 1);
        b.u64(&DEEP, &[name], 1);
        b.u64(&HIDDEN, &[name], 1);
        let seen = Histogram {
            buckets: &[1, 3],
            sum: 9.25,
            count: 4,
        };
        b.histogram(&TOOK, &[name], Some(seen));
    })
}
