//! Selects incidents by what a user typed.

use collectors::PciAddress;

use crate::http::control::{GpuView, NodeStatus};
use health::view::{IncidentView, View};

/// The selection for a name.
#[derive(Debug, Default)]
pub(super) struct Selected<'a> {
    /// Empty only without incidents, or for a GPU without any.
    pub(super) incidents: Vec<&'a IncidentView>,
    /// The GPU with this name.
    pub(super) gpu: Option<&'a GpuView>,
}

/// Selects by name. Closed incidents match only if no open one does. An exact match precedes a prefix: a UUID may
/// begin with any digit.
pub(super) fn select<'a>(
    status: &'a NodeStatus,
    name: Option<&str>,
    all: bool,
) -> Result<Selected<'a>, String> {
    let incidents = || status.view.incidents.iter();
    let open = |i: &&IncidentView| i.closed.is_none();
    let of = |incidents: Vec<&'a IncidentView>, gpu| Selected { incidents, gpu };
    let Some(name) = name else {
        return Ok(of(incidents().filter(|i| all || open(i)).collect(), None));
    };
    if let Some(one) = incidents().find(|i| i.id == name) {
        return Ok(of(vec![one], None));
    }
    let (named, gpu): (Vec<&IncidentView>, _) = match place(&status.gpus, name) {
        Some(place) => (incidents().filter(|i| place.has(i)).collect(), place.gpu),
        None if is_index(name) => {
            return Err(format!("unknown GPU {name}; `nodewarden status` lists the GPUs"));
        }
        None => (
            incidents().filter(|i| begins(i, name)).collect(),
            status.gpus.iter().find(|gpu| is_start(&gpu.gpu, name)),
        ),
    };
    let current: Vec<&IncidentView> = named.iter().copied().filter(|i| all || open(i)).collect();
    match (named.is_empty(), current.is_empty()) {
        (true, _) if gpu.is_none() => Err(unknown(&status.view, name)),
        (_, true) => Ok(of(named, gpu)),
        (_, false) => Ok(of(current, gpu)),
    }
}

/// One PCI address, and the GPU there.
struct PciLocation<'a> {
    /// As in sysfs; empty if unknown.
    pci: String,
    gpu: Option<&'a GpuView>,
}

impl PciLocation<'_> {
    fn has(&self, incident: &IncidentView) -> bool {
        let pci = !self.pci.is_empty() && incident.pci == self.pci;
        pci || self.gpu.is_some_and(|gpu| gpu.gpu == incident.subject_name)
    }
}

/// The place named by a PCI address, an index or a whole label.
fn place<'a>(gpus: &'a [GpuView], name: &str) -> Option<PciLocation<'a>> {
    let name = name.strip_prefix("gpu ").unwrap_or(name);
    let address = PciAddress::parse(name.strip_prefix("pci:").unwrap_or(name)).map(|a| a.0);
    let is_it = |gpu: &&GpuView| match &address {
        Some(address) => gpu.pci == *address,
        None => !name.is_empty() && (gpu.index == name || gpu.gpu == name),
    };
    let gpu = gpus.iter().find(is_it);
    match (address, gpu) {
        (None, None) => None,
        (address, gpu) => Some(PciLocation {
            pci: address.or_else(|| Some(gpu?.pci.clone())).unwrap_or_default(),
            gpu,
        }),
    }
}

/// Whether a name can only be an index: it is too short for a prefix of a UUID.
fn is_index(name: &str) -> bool {
    let name = name.strip_prefix("gpu ").unwrap_or(name);
    (1..=3).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_digit())
}

fn begins(incident: &IncidentView, name: &str) -> bool {
    let starts = |text: &str| !name.is_empty() && text.starts_with(name);
    let of_check = || incident.check == name || incident.findings.iter().any(|f| f.check == name);
    starts(&incident.id) || starts(&incident.subject) || is_start(&incident.subject_name, name) || of_check()
}

/// Whether a subject's name has this prefix; `status` prints only the first digits of a UUID.
fn is_start(subject: &str, name: &str) -> bool {
    let digits = subject.strip_prefix("GPU-").unwrap_or(subject);
    !name.is_empty() && (subject.starts_with(name) || digits.starts_with(name))
}

fn unknown(view: &View, name: &str) -> String {
    if health::checks::check(name).is_some() {
        return format!("no incident of check {name}");
    }
    let known: Vec<&str> = view.incidents.iter().map(|i| i.id.as_str()).collect();
    if known.is_empty() {
        return format!("unknown incident {name}; there are no incidents");
    }
    format!(
        "unknown incident or subject {name}, expected one of {}",
        known.join(", ")
    )
}
