//! The part of node_exporter's page that is no series of a collector: whether each of its collectors succeeded.

use collectors::{Kind, Part, Unit};

use exposition::{Writer, header, line, number};
use model::snapshot::{CollectorState, Presence, Snapshot};

/// The page with node_exporter's names.
pub(super) const PAGE: &str = "node_exporter";

/// Our collectors, and those of node_exporter that the page stands for.
const COLLECTORS: [(&str, &str); 1] = [("rdma", "infiniband")];

const DURATION: header::Family<'static> = header::Family {
    name: "node_scrape_collector_duration_seconds",
    kind: Kind::Gauge,
    unit: Unit::Seconds,
    help: "Time that the last readings of all devices of a collector took, in seconds.",
};

const SUCCESS: header::Family<'static> = header::Family {
    name: "node_scrape_collector_success",
    kind: Kind::Gauge,
    unit: Unit::None,
    help: "Whether a collector could read a device: 1 if so, 0 if none or if there is no such hardware.",
};

/// Appends both families.
pub(super) fn scrapes(snapshot: &Snapshot, w: &mut Writer<'_>) {
    let filter = w.shown().filter;
    let shown = COLLECTORS.iter().filter_map(|(ours, theirs)| {
        let state = snapshot.collectors.iter().find(|c| c.spec.name == *ours)?;
        filter.takes(ours).then_some((state, *theirs))
    });
    let shown: Vec<_> = shown.collect();
    let durations = shown.iter().filter(|(state, _)| !state.devices.is_empty());
    let durations = durations.map(|(state, theirs)| {
        let sum: f64 = state.devices.iter().map(|d| d.took.as_secs_f64()).sum();
        (*theirs, sum)
    });
    family(&DURATION, durations, w);
    let successes = shown.iter().filter_map(|(state, theirs)| {
        let succeeded = succeeded(state, snapshot)?;
        Some((*theirs, f64::from(u8::from(succeeded))))
    });
    family(&SUCCESS, successes, w);
}

/// `None`: no report yet. One device that fails hides no other, unlike in node_exporter, so it is no failure.
fn succeeded(state: &CollectorState, snapshot: &Snapshot) -> Option<bool> {
    match state.presence {
        Presence::Unknown => None,
        Presence::NotHere | Presence::Failed(..) => Some(false),
        Presence::Open => {
            let mut devices = state.devices.iter().map(|d| state.device_up(d, snapshot.at));
            let is_known = state.devices.is_empty() || devices.clone().any(|up| up.is_some());
            is_known.then(|| devices.any(|up| up == Some(true)))
        }
    }
}

fn family(
    family: &header::Family<'static>,
    samples: impl Iterator<Item = (&'static str, f64)>,
    w: &mut Writer<'_>,
) {
    let (format, out) = w.raw();
    let mut headed = false;
    for (collector, value) in samples {
        if !std::mem::replace(&mut headed, true) {
            family.write(format, out);
        }
        let labels = [("collector", collector)].into_iter();
        line::start(family.name, family.kind, Part::Whole, 1.0, labels, out);
        number::f64(value, out);
        out.push(b'\n');
    }
}
