//! The part of dcgm-exporter's page that is no series of a collector: the last Xid of each GPU, its fabric in DCGM's codes, and the
//! share of its memory that is in use.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use collectors::gpu::metrics::{DCGM_INFO, DCGM_LABELS, MEMORY_RESERVED, MEMORY_TOTAL, MEMORY_USED};
use collectors::nvidia::metrics::{FABRIC_STATE, FABRIC_STATUS};
use collectors::{Metric, Value};

use exposition::{Writer, header};
use health::xids::Table;

use super::{Page, joined};

/// The page with dcgm-exporter's names.
pub(super) const PAGE: &str = "dcgm";

/// The collector of this page.
const COLLECTOR: &str = "nvidia";

const LAST_XID: header::Family<'static> = joined::gauge(
    "DCGM_FI_DEV_XID_ERRORS",
    "Last Xid code of the GPU since the boot and its last reset, 0 if none; gpu_xid_errors_total counts them.",
);

const FABRIC: header::Family<'static> = joined::gauge(
    "DCGM_FI_DEV_FABRIC_MANAGER_STATUS",
    "Fabric registration of a GPU: 1 not started, 2 in progress, 3 success, 4 failure; absent without a fabric.",
);

const FABRIC_ERROR: header::Family<'static> = joined::gauge(
    "DCGM_FI_DEV_FABRIC_MANAGER_ERROR_CODE",
    "Result of the fabric registration as DCGM's return code, 0 is success; gpu_fabric_status has the driver's.",
);

const MEMORY_SHARE: header::Family<'static> = joined::gauge(
    "DCGM_FI_DEV_FB_USED_PERCENT",
    "Share of a GPU's memory that is in use, from 0 to 1, without reserved memory.",
);

/// The meanings of Xids. Made with the first Xid.
static XIDS: LazyLock<Table> = LazyLock::new(|| Table::built_in().unwrap_or_default());

/// The text of an Xid, as the label `err_msg`. dcgm-exporter has the same words without an Xid and for an unknown one.
fn message(code: u32) -> String {
    match code {
        0 => "No Error".to_owned(),
        code => XIDS
            .row(code)
            .map_or("Unknown Error", |row| &row.meaning)
            .to_owned(),
    }
}

/// Appends all of it. None of it belongs to instances.
pub(super) fn render(page: &Page, w: &mut Writer<'_>) {
    if w.shown().filter.takes(COLLECTOR) {
        last_xids(page, w);
        fabric(page, w);
        memory_share(page, w);
    }
}

/// Appends the last Xid of each GPU. One that the driver refuses has no index, and no series without an Xid: sites count GPUs by them.
fn last_xids(page: &Page, w: &mut Writer<'_>) {
    let rows = joined::gpus(&page.snapshot, &DCGM_INFO).filter_map(|gpu| {
        let last = page.view.ledger.last_xid(gpu.label("gpu")?);
        let is_listed = gpu.label("index").is_some_and(|index| !index.is_empty());
        let code = last.or(is_listed.then_some(0))?;
        let labels = vec![("err_code", code.to_string()), ("err_msg", message(code))];
        Some((gpu, labels, Value::U64(u64::from(code))))
    });
    joined::family(&LAST_XID, &DCGM_LABELS, rows, w);
}

/// The driver's state and return code of one GPU.
type Registration = (Option<u64>, Option<u64>);

/// Appends state and result of each GPU's registration.
fn fabric(page: &Page, w: &mut Writer<'_>) {
    let mut found: BTreeMap<&str, Registration> = BTreeMap::new();
    let both = page
        .snapshot
        .shown(&FABRIC_STATE)
        .chain(page.snapshot.shown(&FABRIC_STATUS));
    for sample in both {
        if let (Some(gpu), Value::U64(value)) = (sample.label("gpu"), sample.value) {
            let (state, status) = found.entry(gpu).or_default();
            *(if sample.metric == &FABRIC_STATE {
                state
            } else {
                status
            }) = Some(value);
        }
    }
    for (family, value) in [
        (&FABRIC, fabric_status as fn(Registration) -> Option<Value>),
        (&FABRIC_ERROR, fabric_error),
    ] {
        let rows = joined::gpus(&page.snapshot, &DCGM_INFO).filter_map(|gpu| {
            let registration = *found.get(gpu.label("gpu")?)?;
            Some((gpu, Vec::new(), value(registration)?))
        });
        joined::family(family, &DCGM_LABELS, rows, w);
    }
}

/// Appends used / (total - reserved) of each GPU, as DCGM's field 254.
fn memory_share(page: &Page, w: &mut Writer<'_>) {
    let bytes = |metric: &'static Metric| -> BTreeMap<&str, u64> {
        let all = page.snapshot.shown(metric);
        all.filter(|s| s.label("gpu_instance") == Some(""))
            .filter_map(|s| match s.value {
                Value::U64(bytes) => Some((s.label("gpu")?, bytes)),
                Value::F64(_) | Value::Absent => None,
            })
            .collect()
    };
    let [total, used, reserved] = [&MEMORY_TOTAL, &MEMORY_USED, &MEMORY_RESERVED].map(bytes);
    let rows = joined::gpus(&page.snapshot, &DCGM_INFO).filter_map(|gpu| {
        let of = |all: &BTreeMap<&str, u64>| all.get(gpu.label("gpu")?).copied();
        let share = share(of(&total)?, of(&used)?, of(&reserved)?)?;
        Some((gpu, Vec::new(), Value::F64(share)))
    });
    joined::family(&MEMORY_SHARE, &DCGM_LABELS, rows, w);
}

#[expect(clippy::cast_precision_loss, reason = "bytes of memory are below 2^53")]
fn share(total: u64, used: u64, reserved: u64) -> Option<f64> {
    let free_for_programs = total.checked_sub(reserved).filter(|bytes| *bytes > 0)?;
    Some(used as f64 / free_for_programs as f64)
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
    fn the_share_of_memory_is_that_without_the_reserved_part() {
        assert_eq!(share(100, 40, 20), Some(0.5));
        assert_eq!((share(20, 0, 20), share(10, 0, 20)), (None, None));
    }

    #[test]
    fn an_xid_has_a_text() {
        assert_eq!(message(0), "No Error");
        assert!(message(79).contains("bus"), "{}", message(79));
        assert_eq!(message(9999), "Unknown Error");
    }

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
