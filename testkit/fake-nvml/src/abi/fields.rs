//! nvmlDeviceGetFieldValues.

use std::ffi::{c_int, c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{nvmlFieldValue_t, nvmlValue_t};

use super::{device, link};
use crate::call::{Reply, code};
use crate::control::Fault;
use crate::field_ids::{self, Field, Kind};
use crate::scenario::keys::Key;
use crate::scenario::same::SAME;
use crate::scenario::{Of, link_field};
use crate::state::View;

device! {
    nvmlDeviceGetFieldValues(count: c_int, values: *mut nvmlFieldValue_t) |view| {
        if count <= 0 || values.is_null() {
            return Err(code::INVALID_ARGUMENT);
        }
        let newer = field_ids::is_renumbered(&view.library.scenario.system.driver);
        for i in 0..count as usize {
            // SAFETY: the caller gives that many values, which only this call uses meanwhile.
            answer(view, unsafe { &mut *values.add(i) }, newer);
        }
        Ok(())
    };
    nvmlDeviceClearFieldValues(count: c_int, values: *mut nvmlFieldValue_t) |_view| {
        if count <= 0 || values.is_null() {
            return Err(code::INVALID_ARGUMENT);
        }
        Err(code::NOT_SUPPORTED)
    };
}

/// nvmlValueType_t.
const DOUBLE: c_uint = 0;

fn answer(view: &View, out: &mut nvmlFieldValue_t, newer: bool) {
    out.timestamp = super::process::stamp(view) as i64;
    out.latencyUsec = 0;
    let found = field_ids::by_id(out.fieldId, newer).ok_or(code::INVALID_ARGUMENT);
    let garbage = match found.map(|f| faults(view, f)) {
        Ok(Ok(garbage)) => garbage,
        Ok(Err(code)) => {
            out.nvmlReturn = code;
            return;
        }
        Err(_) => false,
    };
    if garbage {
        out.nvmlReturn = code::SUCCESS;
        out.valueType = DOUBLE;
        out.value = nvmlValue_t { ullVal: u64::MAX };
        return;
    }
    match found.and_then(|field| Ok((field, lookup(view, field, out.scopeId)?))) {
        Ok((field, number)) => {
            out.nvmlReturn = code::SUCCESS;
            (out.valueType, out.value) = match field.kind {
                // The whole of it, so that no byte is left to chance.
                Kind::Uint => (
                    1,
                    nvmlValue_t {
                        ullVal: c_ulonglong::from(number as c_uint),
                    },
                ),
                Kind::Ulonglong => (
                    3,
                    nvmlValue_t {
                        ullVal: number as c_ulonglong,
                    },
                ),
                Kind::Int => (
                    5,
                    nvmlValue_t {
                        ullVal: c_ulonglong::from((number as c_int).cast_unsigned()),
                    },
                ),
            };
        }
        // As in the real library, the value is unchanged.
        Err(code) => out.nvmlReturn = code,
    }
}

/// Faults of one field: an error code, or whether the value is garbage.
fn faults(view: &View, field: &Field) -> Reply<bool> {
    let mut garbage = view.garbage;
    for rule in &view.live.control.rules {
        let Some(name) = &rule.field else { continue };
        let mine = field_ids::by_name(name).is_some_and(|f| f.id == field.id)
            && rule.gpu.is_none_or(|g| g as usize == view.index);
        match rule.fault {
            Fault::Code(code) if mine => return Err(code),
            Fault::Garbage if mine => garbage = true,
            _ => {}
        }
    }
    Ok(garbage)
}

/// The value from the scenario's field, or from its equivalent elsewhere in the scenario.
fn lookup(view: &View, field: &Field, scope: c_uint) -> Reply<i64> {
    if view.mig.is_some() {
        return Err(code::NOT_SUPPORTED);
    }
    if let Some(value) = view.gpu.fields.get(&field.id) {
        return value.int(view.time).ok_or(code::NOT_SUPPORTED);
    }
    let name = field.name.strip_prefix("DEV_").unwrap_or(field.name);
    match name {
        "NVLINK_LINK_COUNT" => return view.num(Key::NvlinkLinks),
        "RETIRED_SBE" | "RETIRED_DBE" => {
            view.num(Key::RetiredPending)?;
            let pages = if name == "RETIRED_SBE" {
                &view.gpu.retired_sbe
            } else {
                &view.gpu.retired_dbe
            };
            return Ok(i64::try_from(pages.len()).unwrap_or(0));
        }
        _ => {}
    }
    if let Some(rest) = name.strip_prefix("NVLINK_") {
        return of_links(view, rest, scope);
    }
    if let Some(rest) = name.strip_prefix("ECC_")
        && let Some(path) = ecc_path(rest)
    {
        if view.num(Key::EccMode)? == 0 {
            return Err(code::NOT_SUPPORTED);
        }
        return view.num(Key::find(&path).ok_or(code::NOT_SUPPORTED)?);
    }
    let same = SAME.iter().find(|(n, _)| *n == name);
    view.num(same.ok_or(code::NOT_SUPPORTED)?.1)
}

/// `SBE_VOL_L1`.
fn ecc_path(rest: &str) -> Option<String> {
    let mut words = rest.split('_');
    let error = match words.next()? {
        "SBE" => "corrected",
        "DBE" => "uncorrected",
        _ => return None,
    };
    let counter = match words.next()? {
        "VOL" => "volatile",
        "AGG" => "aggregate",
        _ => return None,
    };
    let location = match words.next()? {
        "TOTAL" => "total",
        "L1" => "l1",
        "L2" => "l2",
        "DEV" => "device",
        "REG" => "register",
        "TEX" => "texture",
        "CBU" => "cbu",
        _ => return None,
    };
    Some(format!("ecc.{counter}.{error}.{location}"))
}

fn of_links(view: &View, rest: &str, scope: c_uint) -> Reply<i64> {
    let (base, of) = link_field(rest);
    let base = base.to_ascii_lowercase();
    let of = match (of, base.as_str()) {
        (Some(of), _) => of,
        (None, "speed_mbps_common") => Of::Link(0),
        (None, _) if scope == c_uint::MAX => Of::All,
        (None, _) => Of::Link(scope as usize),
    };
    let base = match base.as_str() {
        "get_speed" | "speed_mbps_common" => "speed_mbps",
        "get_state" => "state",
        "get_version" => "version",
        "get_power_state" => "power_state",
        other => other,
    };
    let one = |link: usize| -> Reply<i64> {
        let link = c_uint::try_from(link).map_err(|_| code::INVALID_ARGUMENT)?;
        let value = link::value(view, link, base).or_else(|error| {
            let older = match base {
                "error_dl_replay" => "replay_error_count",
                "error_dl_recovery" => "recovery_error_count",
                "error_dl_crc" => "crc_flit_error_count",
                _ => return Err(error),
            };
            link::value(view, link, older)
        })?;
        value.int(view.time).ok_or(code::NOT_SUPPORTED)
    };
    match of {
        Of::Link(link) => one(link),
        Of::All if view.gpu.links.is_empty() => Err(code::NOT_SUPPORTED),
        Of::All => {
            let all = (0..view.gpu.links.len()).map(one).collect::<Reply<Vec<i64>>>()?;
            Ok(if base.ends_with("_ber") {
                all.into_iter()
                    .max_by(|a, b| ratio(*a).total_cmp(&ratio(*b)))
                    .unwrap_or(0)
            } else {
                all.into_iter().sum()
            })
        }
    }
}

/// A bit error ratio as nvml.h packs it: 4 bits of mantissa above 8 bits of negative exponent.
fn ratio(packed: i64) -> f64 {
    let (mantissa, exponent) = (packed >> 8 & 0xf, (packed & 0xff) as i32);
    mantissa as f64 * 10_f64.powi(-exponent)
}
