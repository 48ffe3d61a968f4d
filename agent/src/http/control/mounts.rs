//! The mounted filesystems as shown by `nodewarden status`: one line each.

use collectors::SubjectKind;
use collectors::mounts::metrics as m;
use serde::{Deserialize, Serialize};

use super::device_values::DeviceValues;
use model::snapshot::{CollectorState, DeviceState, Snapshot};

/// One mounted filesystem.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MountView {
    /// Mount point.
    pub mountpoint: String,
    /// Type, as in mountinfo; empty before its first probe.
    pub fstype: String,
    /// `parallel`, `network` or `local`; empty before its first probe.
    pub class: String,
    /// Its size, in bytes.
    pub size: Option<f64>,
    /// Bytes that users may still write.
    pub available: Option<f64>,
    /// Whether it answered its last probe; `None`: unknown.
    pub up: Option<bool>,
    /// Its faults, in few words; empty if it has none.
    pub trouble: Vec<String>,
}

impl MountView {
    /// The used part of the space that users may use, 0 to 1.
    pub fn used(&self) -> Option<f64> {
        let (size, available) = (self.size?, self.available?);
        (size > 0.0).then(|| (1.0 - available / size).clamp(0.0, 1.0))
    }
}

/// All probed filesystems, by mount point, from the snapshot.
pub fn of(snapshot: &Snapshot) -> Vec<MountView> {
    let collectors = snapshot.collectors.iter();
    let devices = collectors.flat_map(|c| c.devices.iter().map(move |d| (c, d)));
    let mut mounts: Vec<MountView> = devices
        .filter(|(_, d)| d.subject.kind == SubjectKind::Mount)
        .map(|(c, d)| mount(c, d, snapshot))
        .collect();
    mounts.sort_by(|a, b| a.mountpoint.cmp(&b.mountpoint));
    mounts
}

fn mount(collector: &CollectorState, device: &DeviceState, snapshot: &Snapshot) -> MountView {
    let told = DeviceValues(Some(device).filter(|d| d.shown(snapshot.at, collector.max_age())));
    // Its identity stays known while it does not answer.
    let known = DeviceValues(Some(device));
    let label = |name| known.label(&m::INFO, name).unwrap_or_default();
    let mut trouble = Vec::new();
    if device.late.is_some() {
        trouble.push("no answer".to_owned());
    } else if let Some((reason, _)) = &device.error {
        trouble.push(reason.clone());
    } else if device.layout.series.is_empty() {
        trouble.push("not probed yet".to_owned());
    }
    if told.is(&m::READ_ONLY) {
        trouble.push("read-only".to_owned());
    }
    MountView {
        mountpoint: device.subject.name.clone(),
        fstype: label("fstype"),
        class: label("class"),
        size: told.sum(&m::SIZE),
        available: told.sum(&m::AVAILABLE),
        up: collector.device_up(device, snapshot.at),
        trouble,
    }
}
