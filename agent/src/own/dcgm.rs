//! The part of dcgm-exporter's page that is no series of a collector: the last Xid of each GPU, and its fabric in DCGM's codes.

use std::collections::BTreeMap;

use collectors::Value;
use collectors::gpu::metrics::{DCGM_INFO, DCGM_LABELS};
use collectors::nvidia::metrics::{FABRIC_STATE, FABRIC_STATUS};

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

const FABRIC: header::Family<'static> = joined::gauge(
    "DCGM_FI_DEV_FABRIC_MANAGER_STATUS",
    "Fabric registration of a GPU: 1 not started, 2 in progress, 3 success, 4 failure; absent without a fabric.",
);

const FABRIC_ERROR: header::Family<'static> = joined::gauge(
    "DCGM_FI_DEV_FABRIC_MANAGER_ERROR_CODE",
    "Result of the fabric registration as DCGM's return code, 0 is success; gpu_fabric_status has the driver's.",
);

/// Appends all of it. Neither Xids nor the fabric belong to instances.
pub(super) fn render(page: &Page, w: &mut Writer<'_>) {
    if w.shown().filter.takes(COLLECTOR) {
        last_xids(page, w);
        fabric(page, w);
    }
}

/// Appends the last Xid of each GPU.
fn last_xids(page: &Page, w: &mut Writer<'_>) {
    let rows = joined::gpus(&page.snapshot, &DCGM_INFO).map(|gpu| {
        let codes = gpu.label("gpu").and_then(|gpu| page.view.ledger.xids.get(gpu));
        let last = codes.and_then(|codes| codes.iter().max_by_key(|(_, count)| count.last));
        let code = last.map_or(0, |(code, _)| *code);
        let label = Some(("err_code", code.to_string()));
        (gpu, label, Value::U64(u64::from(code)))
    });
    joined::family(&LAST_XID, &DCGM_LABELS, rows, w);
}

/// The driver's state and return code of one GPU.
type Registration = (Option<u64>, Option<u64>);

/// Appends state and result of each GPU's registration.
fn fabric(page: &Page, w: &mut Writer<'_>) {
    let mut found: BTreeMap<&str, Registration> = BTreeMap::new();
    for sample in page.snapshot.all_shown() {
        let (is_state, is_status) = (sample.metric == &FABRIC_STATE, sample.metric == &FABRIC_STATUS);
        if let (true, Some(gpu), Value::U64(value)) =
            (is_state || is_status, sample.label("gpu"), sample.value)
        {
            let (state, status) = found.entry(gpu).or_default();
            *(if is_state { state } else { status }) = Some(value);
        }
    }
    for (family, value) in [
        (&FABRIC, fabric_status as fn(Registration) -> Option<Value>),
        (&FABRIC_ERROR, fabric_error),
    ] {
        let rows = joined::gpus(&page.snapshot, &DCGM_INFO).filter_map(|gpu| {
            let registration = *found.get(gpu.label("gpu")?)?;
            Some((gpu, None, value(registration)?))
        });
        joined::family(family, &DCGM_LABELS, rows, w);
    }
}

/// `dcgmFabricManagerStatus_t`. The driver also calls a registration completed that failed.
fn fabric_status((state, status): Registration) -> Option<Value> {
    let status = match state? {
        3 if status? > 0 => 4,
        state => state,
    };
    Some(Value::U64(status))
}

/// `dcgmReturn_t`, as DCGM's `NvmlReturnToDcgmReturn` translates the driver's codes.
fn fabric_error((_, status): Registration) -> Option<Value> {
    let code: i32 = match status? {
        0 => 0,
        2 => -1,
        3 => -6,
        4 => -17,
        6 => -14,
        10 => -11,
        15 => -18,
        16 => -19,
        23 => -49,
        _ => -8,
    };
    Some(Value::F64(f64::from(code)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_that_completed_with_an_error_is_a_failure() {
        for (registration, status, error) in [
            ((Some(1), None), Some(1), None),
            ((Some(2), None), Some(2), None),
            ((Some(3), Some(0)), Some(3), Some(0.0)),
            ((Some(3), Some(10)), Some(4), Some(-11.0)),
            ((Some(3), Some(999)), Some(4), Some(-8.0)),
            ((Some(3), None), None, None),
            ((None, None), None, None),
        ] {
            assert_eq!(
                fabric_status(registration),
                status.map(Value::U64),
                "{registration:?}"
            );
            assert_eq!(
                fabric_error(registration),
                error.map(Value::F64),
                "{registration:?}"
            );
        }
    }
}
