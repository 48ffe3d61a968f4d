//! The part of the page of AMD's device-metrics-exporter that is no series of a collector: the number of GPUs, and whether
//! each is healthy.

use collectors::gpu::metrics::{AMD_INFO, AMD_LABELS, UP};
use collectors::{Part, Value};

use exposition::{Writer, header, line, number};
use model::snapshot::{Sample, Snapshot};

use super::{Page, joined};

/// The page with the names of AMD's exporter.
pub(super) const PAGE: &str = "amd";

/// The collector of this page.
const COLLECTOR: &str = "amd";

const NODES: header::Family<'static> = joined::gauge(
    "gpu_nodes_total",
    "AMD GPUs of the node; of a divided GPU, its partitions.",
);

/// The GPUs that are shown, each as its info series; of a divided GPU, its partitions: the exporter counts these as GPUs.
fn gpus(snapshot: &Snapshot) -> Vec<Sample<'_>> {
    let all = snapshot.shown(&AMD_INFO).filter(|s| s.value != Value::Absent);
    let (whole, mut gpus): (Vec<_>, Vec<_>) = all.partition(|s| s.label("gpu_instance") == Some(""));
    let is_divided = |gpu: &Sample<'_>| gpus.iter().any(|part| part.label("gpu") == gpu.label("gpu"));
    let whole: Vec<_> = whole.into_iter().filter(|gpu| !is_divided(gpu)).collect();
    gpus.extend(whole);
    gpus
}

const HEALTH: header::Family<'static> = joined::gauge(
    "gpu_health",
    "Health of a GPU by nodewarden's checks: 0 with an open incident that requires an act, 1 without; absent if the GPU does not answer.",
);

/// Whether a GPU answers. `None`: unknown, as of one that is suspended.
fn up(snapshot: &Snapshot, gpu: Option<&str>) -> Option<Value> {
    let mut ups = snapshot.shown(&UP);
    ups.find(|up| up.label("gpu") == gpu).map(|up| up.value)
}

/// Appends the number of GPUs.
pub(super) fn nodes(snapshot: &Snapshot, w: &mut Writer<'_>) {
    if !w.shown().filter.takes(COLLECTOR) {
        return;
    }
    let gpus = gpus(snapshot);
    let Some(first) = gpus.first() else { return };
    let hostname = first.label("hostname").filter(|name| !name.is_empty());
    let labels = hostname.into_iter().map(|name| ("hostname", name));
    let (format, out) = w.raw();
    NODES.write(format, out);
    line::start(NODES.name, NODES.kind, Part::Whole, 1.0, labels, out);
    let answer = |gpu: &&Sample<'_>| up(snapshot, gpu.label("gpu")) != Some(Value::U64(0));
    number::u64(gpus.iter().filter(answer).count() as u64, out);
    out.push(b'\n');
}

/// Appends the health of each GPU.
pub(super) fn health(page: &Page, w: &mut Writer<'_>) {
    if !w.shown().filter.takes(COLLECTOR) {
        return;
    }
    let incidents = page.view.incidents.iter();
    let open: Vec<&str> = incidents
        .filter(|i| i.closed.is_none() && i.acts && i.subject_kind == "gpu")
        .map(|i| i.subject_name.as_str())
        .collect();
    let rows = gpus(&page.snapshot).into_iter().filter_map(|gpu| {
        let name = gpu.label("gpu")?;
        let value = match open.contains(&name) {
            true => 0,
            false => (up(&page.snapshot, Some(name)) == Some(Value::U64(1))).then_some(1)?,
        };
        Some((gpu, Vec::new(), Value::U64(value)))
    });
    joined::family(&HEALTH, &AMD_LABELS, rows, w);
}
