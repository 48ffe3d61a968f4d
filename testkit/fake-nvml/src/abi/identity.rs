//! What a GPU is.

use std::ffi::{c_char, c_int, c_uint, c_ulong};

use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlDeviceAddressingMode_v1_t, nvmlPciInfo_t, nvmlPciInfoExt_v1_t, nvmlPlatformInfo_v1_t,
    nvmlPlatformInfo_v2_t,
};

use super::{device, numbers, texts};
use crate::call::{Reply, chars, code, version};
use crate::scenario::keys::Key;
use crate::state::{Handle, View, library};

numbers! {
    nvmlDeviceGetBrand: c_uint = Brand;
    nvmlDeviceGetArchitecture: c_uint = Architecture;
    nvmlDeviceGetMinorNumber: c_uint = Minor;
    nvmlDeviceGetModuleId: c_uint = ModuleId;
    nvmlDeviceGetBoardId: c_uint = BoardId;
    nvmlDeviceGetMultiGpuBoard: c_uint = MultiGpuBoard;
    nvmlDeviceGetNumGpuCores: c_uint = Cores;
    nvmlDeviceGetIrqNum: c_uint = Irq;
    nvmlDeviceGetMemoryBusWidth: c_uint = MemoryBusWidth;
    nvmlDeviceGetNumaNodeId: c_uint = NumaNode;
    nvmlDeviceGetPersistenceMode: c_uint = Persistence;
    nvmlDeviceGetComputeMode: c_uint = ComputeMode;
    nvmlDeviceGetDisplayMode: c_uint = DisplayMode;
    nvmlDeviceGetDisplayActive: c_uint = DisplayActive;
    nvmlDeviceGetAccountingMode: c_uint = Accounting;
    nvmlDeviceGetVirtualizationMode: c_uint = VirtualizationMode;
    nvmlDeviceGetInforomConfigurationChecksum: c_uint = InforomChecksum;
}

texts! {
    nvmlDeviceGetSerial = Serial;
    nvmlDeviceGetBoardPartNumber = BoardPart;
    nvmlDeviceGetVbiosVersion = Vbios;
    nvmlDeviceGetInforomImageVersion = InforomImage;
}

device! {
    nvmlDeviceGetName(out: *mut c_char, length: c_uint) |view| {
        let name = match view.mig {
            Some((_, device)) => &device.name,
            None => view.text(Key::Name)?,
        };
        view.put_text(out, length, name)
    };
    nvmlDeviceGetUUID(out: *mut c_char, length: c_uint) |view| {
        let uuid = match view.mig {
            Some((_, device)) => &device.uuid,
            None => view.text(Key::Uuid)?,
        };
        view.put_text(out, length, uuid)
    };
    nvmlDeviceGetIndex(out: *mut c_uint) |view| {
        let index = view.live.visible.iter().position(|i| *i == view.index);
        let index = index.ok_or(code::INVALID_ARGUMENT)?;
        let index = view.mig.map_or(index, |(mig, _)| mig);
        view.put(out, c_uint::try_from(index).unwrap_or(0))
    };
    nvmlDeviceGetCudaComputeCapability(major: *mut c_int, minor: *mut c_int) |view| {
        let text = view.text(Key::ComputeCapability)?;
        let (a, b) = text.split_once('.').ok_or(code::UNKNOWN)?;
        view.put(major, a.parse().map_err(|_| code::UNKNOWN)?)?;
        view.put(minor, b.parse().map_err(|_| code::UNKNOWN)?)
    };
    nvmlDeviceGetInforomVersion(object: c_uint, out: *mut c_char, length: c_uint) [object] |view| {
        let key = match object {
            0 => Key::InforomOem,
            1 => Key::InforomEcc,
            2 => Key::InforomPower,
            _ => return Err(code::INVALID_ARGUMENT),
        };
        view.put_text(out, length, view.text(key)?)
    };
    nvmlDeviceValidateInforom() |view| match view.num(Key::InforomValid)? {
        0 => Err(code::CORRUPTED_INFOROM),
        _ => Ok(()),
    };
    nvmlDeviceGetGspFirmwareVersion(out: *mut c_char) |view| view.put_text(out, 80, view.text(Key::GspVersion)?);
    nvmlDeviceGetGspFirmwareMode(enabled: *mut c_uint, default: *mut c_uint) |view| {
        view.put(enabled, view.num(Key::GspMode)? as c_uint)?;
        view.put(default, view.or_zero(Key::GspDefault) as c_uint)
    };
    nvmlDeviceGetPciInfo(out: *mut nvmlPciInfo_t) |view| view.put(out, pci(view)?);
    nvmlDeviceGetPciInfo_v2(out: *mut nvmlPciInfo_t) |view| view.put(out, pci(view)?);
    nvmlDeviceGetPciInfo_v3(out: *mut nvmlPciInfo_t) |view| view.put(out, pci(view)?);
    nvmlDeviceGetPciInfoExt(out: *mut nvmlPciInfoExt_v1_t) |view| {
        view.version(out, 1)?;
        let pci = pci(view)?;
        view.put_versioned(out, nvmlPciInfoExt_v1_t {
            version: 0,
            domain: pci.domain,
            bus: pci.bus,
            device: pci.device,
            pciDeviceId: pci.pciDeviceId,
            pciSubSystemId: pci.pciSubSystemId,
            baseClass: 3,
            subClass: 2,
            busId: pci.busId,
        })
    };
    nvmlDeviceGetCpuAffinity(words: c_uint, out: *mut c_ulong) |view| masks(view, words, out, Key::NumaCpus);
    nvmlDeviceGetCpuAffinityWithinScope(words: c_uint, out: *mut c_ulong, scope: c_uint) [scope] |view|
        masks(view, words, out, Key::NumaCpus);
    nvmlDeviceGetMemoryAffinity(words: c_uint, out: *mut c_ulong, scope: c_uint) [scope] |view|
        masks(view, words, out, Key::NumaMemory);
    nvmlDeviceGetAddressingMode(out: *mut nvmlDeviceAddressingMode_v1_t) |view| {
        view.version(out, 1)?;
        let value = view.num(Key::AddressingMode)? as c_uint;
        view.put_versioned(out, nvmlDeviceAddressingMode_v1_t { version: 0, value })
    };
    nvmlDeviceGetPlatformInfo(out: *mut nvmlPlatformInfo_v2_t) |view| platform(view, out);
    nvmlDeviceGetP2PStatus(other: nvmlDevice_t, index: c_uint, out: *mut c_uint) [index] |view| {
        let other = Handle::decode(other).filter(|h| h.gpu < library().scenario.gpus.len());
        let other = other.ok_or(code::INVALID_ARGUMENT)?;
        // NVML_P2P_STATUS_OK between GPUs with NVLink, NVML_P2P_STATUS_NOT_SUPPORTED between others.
        let linked = |gpu: usize| library().scenario.gpus.get(gpu).is_some_and(|g| !g.links.is_empty());
        let status = if linked(view.index) && linked(other.gpu) { 0 } else { 5 };
        view.put(out, status)
    };
    nvmlDeviceGetTopologyCommonAncestor(other: nvmlDevice_t, out: *mut c_uint) |view| {
        let other = Handle::decode(other).ok_or(code::INVALID_ARGUMENT)?;
        // NVML_TOPOLOGY_INTERNAL, or NVML_TOPOLOGY_SYSTEM.
        view.put(out, if other.gpu == view.index { 0 } else { 50 })
    };
}

fn masks(view: &View, words: c_uint, out: *mut c_ulong, key: Key) -> Reply {
    if words == 0 || out.is_null() {
        return Err(code::INVALID_ARGUMENT);
    }
    let mask = view.num(key)? as c_ulong;
    for i in 0..words as usize {
        // SAFETY: the caller gives a place for that many words.
        view.put(unsafe { out.add(i) }, if i == 0 { mask } else { 0 })?;
    }
    Ok(())
}

fn pci(view: &View) -> Reply<nvmlPciInfo_t> {
    let text = view.text(Key::PciBusId)?;
    let mut parts = text.split([':', '.']).map(|p| c_uint::from_str_radix(p, 16));
    let mut next = || parts.next().and_then(Result::ok).ok_or(code::UNKNOWN);
    let (domain, bus, device) = (next()?, next()?, next()?);
    Ok(nvmlPciInfo_t {
        // The older form has a domain of four digits.
        busIdLegacy: chars(&format!("{domain:04X}:{bus:02X}:{device:02X}.0")),
        domain,
        bus,
        device,
        pciDeviceId: view.of_gpu(Key::PciDeviceId)? as c_uint,
        pciSubSystemId: view.or_zero(Key::PciSubsystemId) as c_uint,
        busId: chars(text),
    })
}

/// Both versions have the same size, and differ in names alone.
fn platform(view: &View, out: *mut nvmlPlatformInfo_v2_t) -> Reply {
    if version(out, 2).is_err() {
        version(out.cast::<nvmlPlatformInfo_v1_t>(), 1)?;
    }
    let guid = view.text(Key::PlatformIbGuid)?;
    let mut serial = [0; 16];
    for (to, from) in serial
        .iter_mut()
        .zip(view.text(Key::PlatformChassisSerial)?.bytes())
    {
        *to = from;
    }
    view.put_versioned(
        out,
        nvmlPlatformInfo_v2_t {
            version: 0,
            ibGuid: sixteen(guid)?,
            chassisSerialNumber: serial,
            slotNumber: view.or_zero(Key::PlatformSlot) as u8,
            trayIndex: view.or_zero(Key::PlatformTray) as u8,
            hostId: view.or_zero(Key::PlatformHost) as u8,
            peerType: view.or_zero(Key::PlatformPeer) as u8,
            moduleId: view.or_zero(Key::PlatformModule) as u8,
        },
    )
}

/// Sixteen bytes from 32 hexadecimal digits; dashes do not count.
pub(super) fn sixteen(text: &str) -> Reply<[u8; 16]> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let number = u128::from_str_radix(&digits, 16).map_err(|_| code::UNKNOWN)?;
    Ok(number.to_be_bytes())
}
