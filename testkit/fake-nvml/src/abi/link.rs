//! NVLink and C2C.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{nvmlC2cModeInfo_v1_t, nvmlPciInfo_t};

use super::device;
use crate::call::{Reply, chars, code, int};
use crate::scenario::LinkKey;
use crate::scenario::keys::Key;
use crate::scenario::value::Value;
use crate::state::View;

device! {
    nvmlDeviceGetNvLinkState(link: c_uint, out: *mut c_uint) [link] |view|
        view.put(out, number(view, link, "state")? as c_uint);
    nvmlDeviceGetNvLinkVersion(link: c_uint, out: *mut c_uint) [link] |view|
        view.put(out, number(view, link, "version")? as c_uint);
    nvmlDeviceGetNvLinkCapability(link: c_uint, capability: c_uint, out: *mut c_uint) [link * 8 + capability] |view| {
        if capability > 5 {
            return Err(code::INVALID_ARGUMENT);
        }
        view.put(out, (number(view, link, "capabilities")? >> capability & 1) as c_uint)
    };
    nvmlDeviceGetNvLinkErrorCounter(link: c_uint, counter: c_uint, out: *mut c_ulonglong) [link * 8 + counter] |view| {
        const NAMES: [&str; 5] = [
            "replay_error_count",
            "recovery_error_count",
            "crc_flit_error_count",
            "crc_data_error_count",
            "ecc_data_error_count",
        ];
        let name = NAMES.get(counter as usize).ok_or(code::INVALID_ARGUMENT)?;
        view.put(out, number(view, link, name)? as c_ulonglong)
    };
    nvmlDeviceGetNvLinkRemoteDeviceType(link: c_uint, out: *mut c_uint) [link] |view|
        view.put(out, number(view, link, "remote_type")? as c_uint);
    nvmlDeviceGetNvLinkRemotePciInfo(link: c_uint, out: *mut nvmlPciInfo_t) [link] |view| remote(view, link, out);
    nvmlDeviceGetNvLinkRemotePciInfo_v2(link: c_uint, out: *mut nvmlPciInfo_t) [link] |view| remote(view, link, out);
    nvmlDeviceGetC2cModeInfoV(out: *mut nvmlC2cModeInfo_v1_t) |view| {
        // The only versioned call whose struct does not begin with its version.
        let enabled = view.num(Key::C2cEnabled)? as c_uint;
        view.put(out, nvmlC2cModeInfo_v1_t { isC2cEnabled: enabled })
    };
}

/// A value of a link; `None`: no link has such a value.
pub(super) fn value(view: &View, link: c_uint, key: Option<LinkKey>) -> Reply<&Value> {
    if view.mig.is_some() || view.gpu.links.is_empty() {
        return Err(code::NOT_SUPPORTED);
    }
    let values = view.gpu.links.get(link as usize);
    let values = values.ok_or(code::INVALID_ARGUMENT)?;
    key.and_then(|key| values.get(key)).ok_or(code::NOT_SUPPORTED)
}

fn number(view: &View, link: c_uint, name: &str) -> Reply<i64> {
    int(Some(value(view, link, LinkKey::find(name))?), view.time).ok_or(code::NOT_SUPPORTED)
}

fn remote(view: &View, link: c_uint, out: *mut nvmlPciInfo_t) -> Reply {
    let text = value(view, link, LinkKey::find("remote_pci"))?
        .text()
        .ok_or(code::NOT_SUPPORTED)?;
    let mut parts = text.split([':', '.']).map(|p| c_uint::from_str_radix(p, 16));
    let mut next = || parts.next().and_then(Result::ok).ok_or(code::UNKNOWN);
    let (domain, bus, device) = (next()?, next()?, next()?);
    let short = format!("{domain:04X}:{bus:02X}:{device:02X}.0");
    view.put(
        out,
        nvmlPciInfo_t {
            busIdLegacy: chars(&short),
            domain,
            bus,
            device,
            pciDeviceId: 0,
            pciSubSystemId: 0,
            busId: chars(text),
        },
    )
}
