//! The devices of the collectors: whether they can be read, and since when not.

use std::collections::BTreeSet;
use std::time::Duration;

use collectors::{SubjectKind, Value};
use exposition::Writer;
use model::snapshot::{CollectorState, DeviceState};

use super::metrics::{DEVICE_AGE, DEVICE_ERROR, DEVICE_LATE, DEVICE_UP};

/// Appends the families about the devices of these collectors.
pub(super) fn render(at: Duration, collectors: &[&CollectorState], w: &mut Writer<'_>) {
    let all = || {
        collectors
            .iter()
            .flat_map(|c| c.devices.iter().map(move |d| (*c, d)))
    };
    // A job is a device too, and has series of its own. A listing of another source may hold a device twice.
    let mut seen = BTreeSet::new();
    let hardware: Vec<_> = all()
        .filter(|(_, d)| d.subject.kind != SubjectKind::Job)
        .map(|(c, d)| (c, d, labels(c, d)))
        .filter(|(_, _, labels)| seen.insert(*labels))
        .collect();
    w.family(&DEVICE_UP, |f| {
        for (c, d, labels) in &hardware {
            if let Some(up) = c.device_up(d, at) {
                f.u64(labels, up.into());
            }
        }
    });
    w.family(&DEVICE_AGE, |f| {
        for (_, d, labels) in hardware.iter().filter(|(_, d, _)| d.at > Duration::ZERO) {
            f.put(labels, Value::F64(at.saturating_sub(d.at).as_secs_f64()));
        }
    });
    w.family(&DEVICE_ERROR, |f| {
        for (c, d) in all() {
            if let Some((reason, _)) = &d.error {
                let [collector, kind, name] = labels(c, d);
                f.once(&[collector, kind, name, reason], Value::U64(1));
            }
        }
    });
    w.family(&DEVICE_LATE, |f| {
        for (c, d) in all() {
            let Some(late) = &d.late else { continue };
            let task = late.task.as_ref();
            let state = task.map(|t| t.state.to_string()).unwrap_or_default();
            let wchan = task.map_or("", |t| t.wchan.as_str());
            let [collector, kind, name] = labels(c, d);
            let since = at.saturating_sub(late.since);
            f.once(
                &[collector, kind, name, &state, wchan],
                Value::F64(since.as_secs_f64()),
            );
        }
    });
}

fn labels<'a>(collector: &'a CollectorState, device: &'a DeviceState) -> [&'a str; 3] {
    [
        collector.spec.name,
        device.subject.kind.word(),
        &device.subject.name,
    ]
}
