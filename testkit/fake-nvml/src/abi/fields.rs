//! nvmlDeviceGetFieldValues.

use std::ffi::{c_int, c_uint, c_ulonglong};
use std::sync::Arc;

use nvml_wrapper_sys::bindings::{nvmlFieldValue_t, nvmlValue_t};

use super::place::{self, LinkValue, Place};
use super::{device, link};
use crate::call::{Reply, code};
use crate::control::{Fault, Rule};
use crate::field_ids::{Field, Kind, Numbering, by_name};
use crate::scenario::Of;
use crate::scenario::keys::Key;
use crate::state::View;

device! {
    nvmlDeviceGetFieldValues(count: c_int, values: *mut nvmlFieldValue_t) |view| {
        if count <= 0 || values.is_null() {
            return Err(code::INVALID_ARGUMENT);
        }
        let ids = Numbering::of(&view.library.scenario.system.driver);
        let (mut has_ecc, mut has_counts, mut broken) = (false, false, None);
        for i in 0..count as usize {
            // SAFETY: the caller gives that many values, which only this call uses meanwhile.
            let value = unsafe { &mut *values.add(i) };
            answer(view, value, ids);
            has_ecc |= (3..=28).contains(&value.fieldId);
            has_counts |= (201..=222).contains(&value.fieldId);
            broken = broken.or_else(|| breaks_call(view, ids.field(value.fieldId)?));
        }
        // The library returns the code of one group after it wrote the values of the others.
        match (broken, view.library.scenario.mixed_fields) {
            (Some(code), _) => Err(code),
            (None, code) if has_ecc && has_counts && code != code::SUCCESS => Err(code),
            _ => Ok(()),
        }
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

fn answer(view: &View, out: &mut nvmlFieldValue_t, ids: Numbering) {
    out.timestamp = super::process::stamp(view) as i64;
    out.latencyUsec = 0;
    let found = ids.field(out.fieldId).ok_or(code::INVALID_ARGUMENT);
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
    for rule in rules(view, field).filter(|rule| rule.call.is_none()) {
        match rule.fault {
            Fault::Code(code) => return Err(code),
            Fault::Garbage => garbage = true,
            _ => {}
        }
    }
    Ok(garbage)
}

/// The code of every call with that field: of a rule that names the function too.
fn breaks_call(view: &View, field: &Field) -> Option<u32> {
    let mut of_calls = rules(view, field).filter(|rule| rule.call.is_some());
    of_calls.find_map(|rule| match rule.fault {
        Fault::Code(code) => Some(code),
        _ => None,
    })
}

/// The rules about a field.
fn rules<'a>(view: &'a View, field: &Field) -> impl Iterator<Item = &'a Rule> {
    let id = field.id;
    view.live.control.rules.iter().filter(move |rule| {
        let name = rule.field.as_deref();
        name.and_then(by_name).is_some_and(|f| f.id == id)
            && rule.gpu.is_none_or(|g| g as usize == view.index)
    })
}

/// NVML_POWER_SCOPE_MODULE.
const MODULE_SCOPE: c_uint = 1;

/// Whether nvml.h has this scope for it: power, its limits and energy.
fn is_power(field: &Field) -> bool {
    (185..=192).contains(&field.id)
}

/// The value from the scenario's field, or from its equivalent elsewhere in the scenario.
fn lookup(view: &View, field: &Field, scope: c_uint) -> Reply<i64> {
    if view.mig.is_some() {
        return Err(code::NOT_SUPPORTED);
    }
    if is_power(field) && scope == MODULE_SCOPE {
        return match field.name {
            "DEV_POWER_AVERAGE" => view.num(Key::PowerModule),
            _ => Err(code::NOT_SUPPORTED),
        };
    }
    if let Some(value) = view.gpu.fields.get(&field.id) {
        return value.int(view.time).ok_or(code::NOT_SUPPORTED);
    }
    match place::of(field) {
        Place::Plain(key) => view.num(*key),
        Place::Ecc(key) => match view.num(Key::EccMode)? {
            0 => Err(code::NOT_SUPPORTED),
            _ => view.num(*key),
        },
        Place::Retired { is_double } => {
            view.num(Key::RetiredPending)?;
            let gpu = view.gpu;
            let pages = if *is_double {
                &gpu.retired_dbe
            } else {
                &gpu.retired_sbe
            };
            Ok(i64::try_from(pages.len()).unwrap_or(0))
        }
        Place::Link(value) => of_links(view, value, scope),
        Place::Nowhere => Err(code::NOT_SUPPORTED),
    }
}

fn of_links(view: &View, value: &LinkValue, scope: c_uint) -> Reply<i64> {
    let one = |link: usize| -> Reply<i64> {
        let link = c_uint::try_from(link).map_err(|_| code::INVALID_ARGUMENT)?;
        let found = link::value(view, link, value.key);
        let found = found.or_else(|error| link::value(view, link, Some(value.older.ok_or(error)?)))?;
        found.int(view.time).ok_or(code::NOT_SUPPORTED)
    };
    match value.of.unwrap_or_else(|| Of::scope(scope)) {
        Of::Link(link) => one(link),
        Of::All if view.gpu.links.is_empty() => Err(code::NOT_SUPPORTED),
        Of::All => {
            let mut all = Vec::with_capacity(view.gpu.links.len());
            let mut before: Option<(&Arc<_>, i64)> = None;
            for (number, values) in view.gpu.links.iter().enumerate() {
                // Most links share their values.
                let same = before.filter(|(known, _)| Arc::ptr_eq(known, values));
                let found = same.map_or_else(|| one(number), |(_, found)| Ok(found))?;
                before = Some((values, found));
                all.push(found);
            }
            Ok(if value.is_ratio {
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
