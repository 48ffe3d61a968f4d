//! A family of another exporter's page that is no series of a collector, with the labels which that exporter puts on every
//! series of a device.

use collectors::{Join, Kind, Metric, Part, Unit, Value};

use exposition::{Writer, header, line, number};
use model::snapshot::{Sample, Snapshot};

/// A gauge without a unit.
pub(super) const fn gauge(name: &'static str, help: &'static str) -> header::Family<'static> {
    header::Family {
        name,
        kind: Kind::Gauge,
        unit: Unit::None,
        help,
    }
}

/// The GPUs that are shown, each as its info series. Instances and partitions are left out.
pub(super) fn gpus<'a>(snapshot: &'a Snapshot, info: &'static Metric) -> impl Iterator<Item = Sample<'a>> {
    let all = snapshot.shown(info);
    all.filter(|gpu| gpu.label("gpu_instance") == Some("") && gpu.value != Value::Absent)
}

/// Appends one line for each device, with the header before the first. A row: the device's info series, the labels besides
/// the joined ones, and the value.
pub(super) fn family<'a>(
    family: &header::Family<'static>,
    join: &'static Join,
    rows: impl Iterator<Item = (Sample<'a>, Vec<(&'static str, String)>, Value)>,
    w: &mut Writer<'_>,
) {
    let (format, out) = w.raw();
    let mut headed = false;
    for (device, extra, value) in rows {
        if !std::mem::replace(&mut headed, true) {
            family.write(format, out);
        }
        let joined = join.labels.iter();
        let joined = joined.map(|(their, our)| (*their, device.label(our).unwrap_or("")));
        let extra = extra.iter().map(|(name, value)| (*name, value.as_str()));
        let labels = joined.filter(|(_, value)| !value.is_empty()).chain(extra);
        line::start(family.name, family.kind, Part::Whole, 1.0, labels, out);
        number::value(value, out);
        out.push(b'\n');
    }
}
