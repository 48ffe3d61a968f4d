//! The part of dcgm-exporter's page that is no series of a collector: the last Xid of each GPU.

use collectors::gpu::metrics::{DCGM_INFO, DCGM_LABELS};

use exposition::{Writer, header};

use super::{Page, joined};

/// The page with dcgm-exporter's names.
pub(super) const PAGE: &str = "dcgm";

/// The collector of this page.
const COLLECTOR: &str = "nvidia";

const LAST_XID: header::Family<'static> = joined::gauge(
    "DCGM_FI_DEV_XID_ERRORS",
    "Last Xid code of the GPU, 0 if none; gpu_xid_errors_total counts them.",
);

/// Appends the last Xid of each GPU. Xids belong to GPUs, not to instances.
pub(super) fn last_xids(page: &Page, w: &mut Writer<'_>) {
    if !w.shown().filter.takes(COLLECTOR) {
        return;
    }
    let rows = joined::gpus(&page.snapshot, &DCGM_INFO).map(|gpu| {
        let codes = gpu.label("gpu").and_then(|gpu| page.view.ledger.xids.get(gpu));
        let last = codes.and_then(|codes| codes.iter().max_by_key(|(_, count)| count.last));
        let code = last.map_or(0, |(code, _)| *code);
        (gpu, Some(("err_code", code.to_string())), u64::from(code))
    });
    joined::family(&LAST_XID, &DCGM_LABELS, rows, w);
}
