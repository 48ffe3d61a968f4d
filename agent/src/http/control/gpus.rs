//! The GPUs as shown by `nodewarden status`: one line each.

use collectors::gpu::{metrics as m, recovery};
use collectors::{Subject, SubjectKind};
use serde::{Deserialize, Serialize};

use super::device_values::DeviceValues;
use health::checks::xid;
use health::view::{IncidentView, View};
use model::ownership::jobs_on;
use model::snapshot::{CollectorState, DeviceState, Snapshot};

/// One GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuView {
    /// The name of its collector.
    pub collector: String,
    /// `GPU-<uuid>`, or `pci:<address>`.
    pub gpu: String,
    /// PCI address as in sysfs; empty if unknown.
    pub pci: String,
    /// The driver's index; empty if unknown.
    pub index: String,
    /// Product name.
    pub name: String,
    /// Utilization, 0 to 1.
    pub utilization: Option<f64>,
    /// Memory in use, in bytes, all instances together.
    pub memory_used: Option<f64>,
    /// Total memory, in bytes.
    pub memory_total: Option<f64>,
    /// Temperature of the die, in degrees Celsius.
    pub temperature: Option<f64>,
    /// Power, in watts.
    pub power: Option<f64>,
    /// The limit in force, in watts.
    pub power_limit: Option<f64>,
    /// Number of instances.
    pub instances: usize,
    /// Whether the driver reports it as working; `None`: unknown.
    pub up: Option<bool>,
    /// Its faults, in few words; empty if it has none.
    pub trouble: Vec<String>,
    /// Its owners, or those of a part of it: Slurm job ids.
    pub jobs: Vec<String>,
}

/// The GPU of a subject `gpu GPU-<uuid>`, if its index is known. That of a lost GPU may be another one's by now.
pub fn of_subject<'g>(subject: &str, gpus: &'g [GpuView]) -> Option<&'g GpuView> {
    let name = subject.strip_prefix("gpu ")?;
    let gpu = gpus.iter().find(|gpu| gpu.gpu == name && !gpu.index.is_empty())?;
    let mut same = gpus.iter().filter(|other| other.index == gpu.index);
    (same.next().is_some() && same.next().is_none()).then_some(gpu)
}

/// `GPU 1 (0000:43:00.0)`, or the subject as it is.
pub fn place(subject: &str, gpus: &[GpuView]) -> String {
    of_subject(subject, gpus).map_or_else(
        || subject.to_owned(),
        |gpu| format!("GPU {} ({})", gpu.index, gpu.pci),
    )
}

/// The subject, with the address at which it is on the bus, and the index if it is a GPU: `gpu GPU-<uuid> at 0000:43:00.0 (GPU 1)`.
pub fn subject_at(incident: &IncidentView, gpus: &[GpuView]) -> String {
    let IncidentView { subject, pci, .. } = incident;
    if pci.is_empty() || subject.contains(pci.as_str()) {
        return subject.clone();
    }
    let index = of_subject(subject, gpus).map_or_else(String::new, |gpu| format!(" (GPU {})", gpu.index));
    format!("{subject} at {pci}{index}")
}

/// All GPUs, by index, from the snapshot.
pub fn of(snapshot: &Snapshot, view: &View) -> Vec<GpuView> {
    let devices = snapshot
        .collectors
        .iter()
        .flat_map(|c| c.devices.iter().map(move |d| (c, d)));
    let mut gpus: Vec<GpuView> = devices
        .filter(|(_, d)| d.subject.kind == SubjectKind::Gpu)
        .map(|(c, d)| gpu(c, d, snapshot, view))
        .collect();
    let owners = &snapshot.ownership().owners;
    for gpu in &mut gpus {
        gpu.jobs = jobs_on(owners, &Subject::gpu(gpu.gpu.as_str()));
    }
    // GPUs without a known index come last.
    gpus.sort_by_key(|g| (g.index.parse().unwrap_or(u64::MAX), g.gpu.clone()));
    gpus
}

fn gpu(collector: &CollectorState, device: &DeviceState, snapshot: &Snapshot, view: &View) -> GpuView {
    let told = DeviceValues(Some(device).filter(|d| d.shown(snapshot.at, collector.max_age())));
    // Its identity stays known while it does not answer.
    let known = DeviceValues(Some(device));
    let label = |name| known.label(&m::INFO, name).unwrap_or_default();
    let is_overdue = collector.is_overdue(device, snapshot.at);
    let up = told.sum(&m::UP).filter(|_| !is_overdue).map(|v| v > 0.0);
    GpuView {
        collector: collector.spec.name.to_owned(),
        gpu: device.subject.name.clone(),
        pci: label("pci"),
        index: label("index"),
        name: label("name"),
        utilization: told.sum(&m::UTILIZATION),
        memory_used: told.sum(&m::MEMORY_USED),
        memory_total: told.sum(&m::MEMORY_TOTAL),
        temperature: told.sum(&m::TEMPERATURE),
        power: told.sum(&m::POWER),
        power_limit: told.sum(&m::POWER_LIMIT),
        instances: told.all(&m::INSTANCE_INFO).count(),
        up,
        trouble: trouble(device, &told, up, view),
        jobs: Vec::new(),
    }
}

fn trouble(device: &DeviceState, told: &DeviceValues<'_>, up: Option<bool>, view: &View) -> Vec<String> {
    let mut trouble = Vec::new();
    match up {
        Some(true) if device.late.is_some() => trouble.push("slow".to_owned()),
        Some(true) => {}
        Some(false) => trouble.push(
            told.label(&m::UNAVAILABLE_INFO, "reason")
                .unwrap_or_else(|| "down".to_owned()),
        ),
        None if device.late.is_some() => trouble.push("no answer".to_owned()),
        None => trouble.push("not read".to_owned()),
    }
    let driver = told.label(&m::INFO, "driver").unwrap_or_default();
    let action = told.sum(&m::RECOVERY_ACTION);
    trouble.extend(
        action
            .and_then(|number| wanted(number, &driver))
            .map(|word| format!("wants {word}")),
    );
    if told.is(&m::ROW_REMAP_FAILURE) {
        trouble.push("remap failed".to_owned());
    } else if told.is(&m::ROW_REMAP_PENDING) {
        trouble.push("remap pending".to_owned());
    }
    let uncorrected = told
        .all(&m::ECC_ERRORS)
        .filter(|(labels, _)| {
            let has = |word: &str| labels.iter().any(|l| l == word);
            has("uncorrected") && has("volatile")
        })
        .map(|(_, v)| v)
        .sum::<f64>();
    if uncorrected > 0.0 {
        trouble.push(format!("ecc {uncorrected}"));
    }
    trouble.extend(xid_of(&device.subject.name, view).map(|code| format!("xid {code}")));
    trouble
}

/// The recovery action that the driver requests, in a word.
fn wanted(number: f64, driver: &str) -> Option<&'static str> {
    let action = recovery::action(number, driver)?;
    let actions = [
        (1.0, "reset"),
        (2.0, "reboot"),
        (3.0, "drain peers"),
        (4.0, "drain, reset"),
        (5.0, "recover IMEX"),
        (6.0, "reset bus"),
        (7.0, "reboot"),
    ];
    actions
        .iter()
        .find(|(number, _)| *number == action)
        .map(|(_, word)| *word)
}

/// The Xid that names the open incident of a GPU, or the last one since the boot and its last reset.
fn xid_of(gpu: &str, view: &View) -> Option<String> {
    let mut open = view.incidents.iter().filter(|i| i.closed.is_none());
    let named = open.find_map(|i| {
        let is_its = i.subject_kind == SubjectKind::Gpu.word() && i.subject_name == gpu;
        i.detail
            .strip_prefix("xid")
            .filter(|_| is_its && i.check == xid::CHECK.id)
    });
    let last = || view.ledger.last_xid(gpu).map(|code| code.to_string());
    named.map(str::to_owned).or_else(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own::sample;

    #[test]
    fn the_word_of_a_recovery_action_is_that_of_the_driver_s_release() {
        assert_eq!(wanted(5.0, "580.95.05"), Some("reset bus"));
        assert_eq!(wanted(5.0, "595.45.04"), Some("recover IMEX"));
        assert_eq!(wanted(5.0, "590.48.01"), None);
        assert_eq!(wanted(1.0, "580.95.05"), Some("reset"));
    }

    #[test]
    fn the_xid_of_the_open_incident_is_shown_and_not_a_later_one() {
        let mut view = sample::view();
        let last = view.ledger.xids["GPU-1"][&79].last;
        let codes = view.ledger.xids.get_mut("GPU-1").unwrap();
        codes.insert(
            45,
            model::ledger::Count {
                count: 1,
                last: last + 60,
            },
        );
        view.incidents[0].check = "gpu-missing".to_owned();
        assert_eq!(xid_of("GPU-1", &view).as_deref(), Some("45"), "of another check");
        view.incidents[0].check = xid::CHECK.id.to_owned();
        view.incidents[0].detail = "xid79".to_owned();
        assert_eq!(xid_of("GPU-1", &view).as_deref(), Some("79"));
        assert_eq!(xid_of("GPU-2", &view), None);
        view.incidents[0].closed = Some(last + 120);
        assert_eq!(xid_of("GPU-1", &view).as_deref(), Some("45"));
    }
}
