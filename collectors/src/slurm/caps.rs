//! Device minor numbers assigned by NVIDIA's driver: the capabilities of instances.

use std::collections::BTreeMap;

use crate::sys::root;
use crate::{Env, Error};

/// Larger than the driver's table, which lists all possible instances of 32 GPUs: 109 KB.
const LONGEST: u64 = 1 << 20;

/// An instance: its GPU's minor, GPU instance, compute instance.
pub(super) type InstanceNumbers = (u32, u32, Option<u32>);

/// The major number of `nvidia-caps`. `Ok(None)`: the driver is not loaded.
///
/// # Errors
/// When `/proc/devices` cannot be read.
pub(super) fn major(env: &Env) -> Result<Option<i32>, Error> {
    let major = |line: &str| {
        let (major, name) = line.trim().split_once(' ')?;
        (name == "nvidia-caps").then(|| major.parse().ok())?
    };
    let devices = root::read_text(&env.path("/proc/devices"))?;
    Ok(devices.and_then(|text| text.lines().find_map(major)))
}

/// The instances by the minor number of their access file.
///
/// # Errors
/// When the driver's table cannot be read.
pub(super) fn instances(env: &Env) -> Result<BTreeMap<u32, InstanceNumbers>, Error> {
    let table = root::read_text_within(&env.path("/proc/driver/nvidia-caps/mig-minors"), LONGEST)?;
    Ok(table.unwrap_or_default().lines().filter_map(instance).collect())
}

/// `gpu0/gi1/access 12` or `gpu0/gi1/ci0/access 13`.
fn instance(line: &str) -> Option<(u32, InstanceNumbers)> {
    let (path, minor) = line.trim().split_once(' ')?;
    let mut parts = path.split('/');
    let mut number = |prefix: &str| parts.next()?.strip_prefix(prefix)?.parse::<u32>().ok();
    let (gpu, gi) = (number("gpu")?, number("gi")?);
    let ci = match parts.next()? {
        "access" => None,
        ci => Some(ci.strip_prefix("ci")?.parse().ok()?),
    };
    Some((minor.parse().ok()?, (gpu, gi, ci)))
}
