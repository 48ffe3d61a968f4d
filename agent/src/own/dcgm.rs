//! The part of dcgm-exporter's page that is no series of a collector: the last Xid of each GPU.

use collectors::gpu::metrics::{DCGM_INFO, DCGM_LABELS};
use collectors::{Kind, Part, Unit, Value};

use exposition::{Writer, header, line, number};

use super::Page;

/// The page with dcgm-exporter's names.
pub(super) const PAGE: &str = "dcgm";

/// The collector of this page.
const COLLECTOR: &str = "nvidia";

const LAST_XID: header::Family<'static> = header::Family {
    name: "DCGM_FI_DEV_XID_ERRORS",
    kind: Kind::Gauge,
    unit: Unit::None,
    help: "Last Xid code of the GPU, 0 if none; gpu_xid_errors_total counts them.",
};

/// Appends the last Xid of each GPU.
pub(super) fn last_xids(page: &Page, w: &mut Writer<'_>) {
    if !w.shown().filter.takes(COLLECTOR) {
        return;
    }
    let (format, out) = w.raw();
    let mut headed = false;
    for gpu in page.snapshot.all_shown().filter(|s| s.metric == &DCGM_INFO) {
        // Xids belong to GPUs, not to instances.
        if gpu.label("gpu_instance") != Some("") || gpu.value == Value::Absent {
            continue;
        }
        let codes = gpu.label("gpu").and_then(|gpu| page.view.ledger.xids.get(gpu));
        let last = codes.and_then(|codes| codes.iter().max_by_key(|(_, count)| count.last));
        let code = last.map_or(0, |(code, _)| *code);
        if !std::mem::replace(&mut headed, true) {
            LAST_XID.write(format, out);
        }
        let word = code.to_string();
        let joined = DCGM_LABELS.labels.iter().map(|(their, our)| {
            let value = gpu.label(our).unwrap_or("");
            (*their, value)
        });
        let labels = joined
            .filter(|(_, value)| !value.is_empty())
            .chain([("err_code", word.as_str())]);
        line::start(LAST_XID.name, LAST_XID.kind, Part::Whole, 1.0, labels, out);
        number::u64(u64::from(code), out);
        out.push(b'\n');
    }
}
