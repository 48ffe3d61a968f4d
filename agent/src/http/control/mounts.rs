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
    /// Type, as in mountinfo; empty if the list of mounts is unknown.
    pub fstype: String,
    /// Its source: a device, `server:/export`; empty if the list of mounts is unknown.
    pub source: String,
    /// `parallel`, `network` or `local`; empty if the list of mounts is unknown.
    pub class: String,
    /// Its size, in bytes.
    pub size: Option<f64>,
    /// Free bytes, also those reserved for root.
    pub free: Option<f64>,
    /// Bytes that users may still write.
    pub available: Option<f64>,
    /// Whether it answered its last probe; `None`: unknown.
    pub up: Option<bool>,
    /// Its faults, in few words; empty if it has none.
    pub trouble: Vec<String>,
}

impl MountView {
    /// The used part of the space that users may use, 0 to 1, as df(1) shows it.
    pub fn used(&self) -> Option<f64> {
        let used = self.size? - self.free?;
        let all = used + self.available?;
        (all > 0.0).then(|| (used / all).clamp(0.0, 1.0))
    }

    /// Its faults, with the server or device that they are of; empty if it has none.
    pub fn state(&self) -> String {
        let trouble = self.trouble.join(", ");
        if trouble.is_empty() || self.source.is_empty() {
            return trouble;
        }
        format!("{trouble} ({})", self.source)
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
    // The list of mounts is a device of its own, which is read also while this one does not answer.
    let listed = |metric| {
        let mut all = snapshot.samples(metric);
        all.find(|sample| sample.label("mountpoint") == Some(device.subject.name.as_str()))
    };
    let info = listed(&m::INFO);
    let label = |name| {
        let label = info.as_ref().and_then(|sample| sample.label(name));
        label.unwrap_or_default().to_owned()
    };
    let mut trouble = Vec::new();
    if device.late.is_some() {
        trouble.push("no answer".to_owned());
    } else if let Some((reason, _)) = &device.error {
        trouble.push(reason.clone());
    } else if device.layout.series.is_empty() {
        trouble.push("not probed yet".to_owned());
    }
    if listed(&m::READ_ONLY).is_some_and(|sample| sample.as_f64() > 0.0) {
        trouble.push("read-only".to_owned());
    }
    MountView {
        mountpoint: device.subject.name.clone(),
        fstype: label("fstype"),
        source: label("source"),
        class: label("class"),
        size: told.sum(&m::SIZE),
        free: told.sum(&m::FREE),
        available: told.sum(&m::AVAILABLE),
        up: collector.device_up(device, snapshot.at),
        trouble,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_used_part_is_that_of_df() {
        let mount = MountView {
            size: Some(1000.0),
            free: Some(500.0),
            available: Some(400.0),
            ..MountView::default()
        };
        assert_eq!(mount.used(), Some(500.0 / 900.0));
        let unread = MountView { free: None, ..mount };
        assert_eq!(unread.used(), None);
    }
}
