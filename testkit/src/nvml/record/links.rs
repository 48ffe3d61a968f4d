//! Fields, links and GPM metrics.

use std::ptr::null_mut;

use fake_nvml::field_ids::{FIELDS, Field, Kind, Numbering};
use fake_nvml::scenario::same::SAME;
use fake_nvml::scenario::{gpm, link_field};
use nvml_wrapper_sys::bindings as h;
use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlGpmSample_t};

use super::ask::{NO_FUNCTION, Nvml, Said, int, set};

/// The highest number of links in the headers.
const MOST_LINKS: u32 = 36;

/// NVML_POWER_SCOPE_MODULE: a Grace processor and its GPUs.
const MODULE_SCOPE: u32 = 1;

/// Records all of them.
pub(super) fn ask(nvml: &mut Nvml, index: u32, gpu: nvmlDevice_t, ids: Numbering, table: &mut toml::Table) {
    let who = format!("GPU {index}");
    let links = fields(nvml, &who, gpu, ids, table);
    each(nvml, &who, gpu, links, table);
    measured(nvml, &who, gpu, table);
}

/// Reads every field, for link fields of every link. Returns the number of links.
fn fields(nvml: &mut Nvml, who: &str, gpu: nvmlDevice_t, ids: Numbering, table: &mut toml::Table) -> u32 {
    let plain = FIELDS.iter().filter(|f| !of_link(f)).map(|f| (f, 0));
    let module = FIELDS.iter().find(|f| f.name == "DEV_POWER_AVERAGE");
    let plain = plain.chain(module.map(|f| (f, MODULE_SCOPE))).collect();
    for (field, scope, said) in values(nvml, who, gpu, ids, plain) {
        if scope == MODULE_SCOPE {
            set(table, "power.module", said);
            continue;
        }
        let name = field.name.strip_prefix("DEV_").unwrap_or(field.name);
        let same = SAME.iter().find(|(n, _)| *n == name);
        match (name, same) {
            ("NVLINK_LINK_COUNT", _) => set(table, "nvlink.links", said),
            (_, Some((_, key))) if table_has(table, key.path()) => {}
            (_, Some((_, key))) => set(table, key.path(), said),
            // Other functions report these by location, page or link.
            _ if name.starts_with("ECC_") || name.starts_with("RETIRED_") || name.starts_with("NVLINK_") => {}
            _ => set(table, &format!("fields.{name}"), said),
        }
    }
    let count = table
        .get("nvlink")
        .and_then(|n| n.get("links")?.as_integer())
        .and_then(|n| u32::try_from(n).ok());
    let count = count.unwrap_or(0).min(MOST_LINKS);
    let each = FIELDS.iter().filter(|f| of_link(f));
    let each = each.flat_map(|f| (0..count).map(move |link| (f, link))).collect();
    for (field, link, said) in values(nvml, who, gpu, ids, each) {
        let key = field.name.trim_start_matches("DEV_NVLINK_").to_ascii_lowercase();
        let key = match key.as_str() {
            "get_speed" => "speed_mbps",
            "get_state" => "state",
            "get_version" => "version",
            "get_power_state" => "power_state",
            other => other,
        };
        set(table, &format!("nvlink.link.{link}.{key}"), said);
    }
    count
}

/// A field that takes a link as its scope.
fn of_link(field: &Field) -> bool {
    let Some(rest) = field.name.strip_prefix("DEV_NVLINK_") else {
        return false;
    };
    link_field(rest).1.is_none() && rest != "LINK_COUNT" && rest != "SPEED_MBPS_COMMON"
}

fn table_has(table: &toml::Table, path: &str) -> bool {
    let mut words = path.split('.');
    let first = words.next().and_then(|w| table.get(w));
    words.fold(first, |value, word| value?.get(word)).is_some()
}

type Values = Vec<(&'static Field, u32, Said<i64>)>;

/// One call for all of them.
fn values(
    nvml: &mut Nvml,
    who: &str,
    gpu: nvmlDevice_t,
    ids: Numbering,
    wanted: Vec<(&'static Field, u32)>,
) -> Values {
    let mut all: Vec<h::nvmlFieldValue_t> = wanted
        .iter()
        .map(|(field, scope)| h::nvmlFieldValue_t {
            fieldId: ids.id(field),
            scopeId: *scope,
            timestamp: 0,
            latencyUsec: 0,
            valueType: 0,
            nvmlReturn: NO_FUNCTION,
            value: h::nvmlValue_t { ullVal: 0 },
        })
        .collect();
    // A library may limit the number of fields per call.
    for some in all.chunks_mut(100) {
        let count = i32::try_from(some.len()).unwrap_or(0);
        let _ = nvml.call(
            "nvmlDeviceGetFieldValues",
            format!("{who}, {count} fields"),
            |address| {
                // SAFETY: this is its signature, and the values outlive the call.
                unsafe {
                    let function: extern "C" fn(nvmlDevice_t, i32, *mut h::nvmlFieldValue_t) -> u32 =
                        std::mem::transmute(address);
                    function(gpu, count, some.as_mut_ptr())
                }
            },
        );
    }
    wanted
        .into_iter()
        .zip(all)
        .map(|((field, scope), v)| {
            // SAFETY: every bit pattern is a valid number. The known type, not the reported one: drivers have
            // reported wrong types.
            let number = unsafe {
                match field.kind {
                    Kind::Uint => i64::from(v.value.uiVal),
                    Kind::Ulonglong => int(v.value.ullVal),
                    Kind::Int => i64::from(v.value.siVal),
                }
            };
            let said = if v.nvmlReturn == 0 {
                Ok(number)
            } else {
                Err(v.nvmlReturn)
            };
            (field, scope, said)
        })
        .collect()
}

/// Functions that take a link.
fn each(nvml: &mut Nvml, who: &str, gpu: nvmlDevice_t, links: u32, table: &mut toml::Table) {
    // Without links, record the answer for link 0.
    for link in 0..links.max(1) {
        let what = || format!("{who}, link {link}");
        let at = |key: &str| format!("nvlink.link.{link}.{key}");
        let keep = link < links;
        for (function, key) in [
            ("nvmlDeviceGetNvLinkState", "state"),
            ("nvmlDeviceGetNvLinkVersion", "version"),
            ("nvmlDeviceGetNvLinkRemoteDeviceType", "remote_type"),
        ] {
            let said = nvml.with(function, what(), (gpu, link), 0_u32);
            if keep {
                set(table, &at(key), said.map(i64::from));
            }
        }
        let mut bits = Err(0);
        for capability in 0..6 {
            let what = format!("{}, capability {capability}", what());
            let said = nvml.with_two(
                "nvmlDeviceGetNvLinkCapability",
                what,
                (gpu, link, capability),
                0_u32,
            );
            if let Ok(has) = said {
                bits = Ok(bits.unwrap_or(0) | i64::from(has & 1) << capability);
            }
        }
        let names = ["replay", "recovery", "crc_flit", "crc_data", "ecc_data"];
        for (counter, name) in (0..).zip(names) {
            let what = format!("{}, {name}", what());
            let said = nvml.with_two(
                "nvmlDeviceGetNvLinkErrorCounter",
                what,
                (gpu, link, counter),
                0_u64,
            );
            if keep {
                set(table, &at(&format!("{name}_error_count")), said.map(int));
            }
        }
        // SAFETY: all zeroes is a valid struct.
        let pci: h::nvmlPciInfo_t = unsafe { std::mem::zeroed() };
        let _ = nvml.with("nvmlDeviceGetNvLinkRemotePciInfo", what(), (gpu, link), pci);
        let said = nvml.with("nvmlDeviceGetNvLinkRemotePciInfo_v2", what(), (gpu, link), pci);
        if keep {
            set(table, &at("capabilities"), bits);
            set(
                table,
                &at("remote_pci"),
                said.map(|p| super::ask::string(&p.busId)),
            );
        }
    }
}

/// GPM of the whole GPU, between two samples.
fn measured(nvml: &mut Nvml, who: &str, gpu: nvmlDevice_t, table: &mut toml::Table) {
    let support = nvml.one("nvmlGpmQueryDeviceSupport", who.to_owned(), gpu, [1_u32, 0]);
    set(table, "gpm.supported", support.map(|s| i64::from(s[1])));
    let found = metrics(nvml, who, |nvml, sample| {
        nvml.call("nvmlGpmSampleGet", who.to_owned(), |address| {
            // SAFETY: this is its signature.
            unsafe {
                let function: extern "C" fn(nvmlDevice_t, nvmlGpmSample_t) -> u32 =
                    std::mem::transmute(address);
                function(gpu, sample)
            }
        })
    });
    for (name, value) in found {
        set(table, &format!("gpm.metrics.{name}"), Ok(value));
    }
}

/// Metrics between two samples from `take`.
pub(super) fn metrics(
    nvml: &mut Nvml,
    who: &str,
    mut take: impl FnMut(&mut Nvml, nvmlGpmSample_t) -> Said<()>,
) -> Vec<(String, f64)> {
    let mut samples: [nvmlGpmSample_t; 2] = [null_mut(); 2];
    let mut taken = Ok(());
    for (i, sample) in samples.iter_mut().enumerate() {
        let said = nvml.call("nvmlGpmSampleAlloc", who.to_owned(), |address| {
            // SAFETY: as above.
            unsafe {
                let function: extern "C" fn(*mut nvmlGpmSample_t) -> u32 = std::mem::transmute(address);
                function(sample)
            }
        });
        if i == 1 && said.is_ok() && taken.is_ok() {
            // The driver requires some time between the samples.
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        let sample = *sample;
        taken = taken.and(said).and_then(|()| take(nvml, sample));
    }
    let mut found = Vec::new();
    // The list in the bindings has 210 entries, so later ids need further calls.
    let most = h::nvmlGpmMetricId_t_NVML_GPM_METRIC_MAX;
    let ids: Vec<u32> = (1..gpm::MOST).collect();
    for some in ids.chunks(most as usize) {
        // SAFETY: all zeroes is a valid struct.
        let mut get: Box<h::nvmlGpmMetricsGet_t> = unsafe { Box::new(std::mem::zeroed()) };
        get.version = 1;
        get.numMetrics = u32::try_from(some.len()).unwrap_or(0);
        [get.sample1, get.sample2] = samples;
        for (metric, id) in get.metrics.iter_mut().zip(some) {
            metric.metricId = *id;
            metric.nvmlReturn = NO_FUNCTION;
        }
        let said = nvml.call("nvmlGpmMetricsGet", who.to_owned(), |address| {
            // SAFETY: as above.
            unsafe {
                let function: extern "C" fn(*mut h::nvmlGpmMetricsGet_t) -> u32 =
                    std::mem::transmute(address);
                function(&raw mut *get)
            }
        });
        if said.and(taken).is_ok() {
            let good = get.metrics.iter().take(some.len()).filter(|m| m.nvmlReturn == 0);
            found.extend(good.map(|m| (gpm::name(m.metricId), m.value)));
        }
    }
    for sample in samples.into_iter().filter(|s| !s.is_null()) {
        let _ = nvml.call("nvmlGpmSampleFree", who.to_owned(), |address| {
            // SAFETY: as above.
            unsafe {
                let function: extern "C" fn(nvmlGpmSample_t) -> u32 = std::mem::transmute(address);
                function(sample)
            }
        });
    }
    found
}
