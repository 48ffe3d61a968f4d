//! Which devices a job may use, by the program that Slurm has attached to its cgroup.

use std::path::Path;

use nix::errno::Errno;

use super::program::{self, Instruction};
use crate::Env;
use crate::sys::bpf::Programs;
use crate::sys::root;

/// `NV_MAJOR_DEVICE_NUMBER`: /dev/nvidia0 and its like.
const NVIDIA: i32 = 195;
/// `DRM_MAJOR`: render nodes, from minor 128 on.
const DRM: i32 = 226;

/// A device by its driver's name in /proc/devices, and its minor number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Device {
    pub(super) driver: &'static str,
    pub(super) minor: u32,
}

/// Why nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// CAP_SYS_ADMIN is missing.
    Denied,
    /// The kernel does not show instructions.
    Withheld,
    /// The program is not Slurm's, or not of a form that is known.
    Foreign,
    /// There is no program: `ConstrainDevices=no`, no gres, or cgroup v1.
    None,
    /// The kernel said something else.
    Failed,
}

impl Unknown {
    /// The word for the `reason` label.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Withheld => "withheld",
            Self::Foreign => "foreign",
            Self::None => "none",
            Self::Failed => "failed",
        }
    }

    fn of(errno: Errno) -> Self {
        match errno {
            Errno::EPERM | Errno::EACCES => Self::Denied,
            // A kernel without BPF for cgroups.
            Errno::EINVAL | Errno::ENOSYS => Self::None,
            _ => Self::Failed,
        }
    }
}

/// What a job's program says, read anew when there is another: a program cannot be changed, and each step brings its own.
#[derive(Debug, Default)]
pub(super) struct Owned {
    known: Option<(u32, Result<Vec<Device>, Unknown>)>,
}

impl Owned {
    /// The devices of the job. `caps`: [`caps_major`], asked for where a program is new.
    pub(super) fn read(
        &mut self,
        kernel: &mut dyn Programs,
        cgroup: &Path,
        caps: impl FnOnce() -> Option<i32>,
    ) -> Result<&[Device], Unknown> {
        let id = match kernel.attached(cgroup).map_err(Unknown::of)?.as_slice() {
            [] => return Err(Unknown::None),
            [one] => *one,
            // Whose rules hold would have to be guessed.
            _ => return Err(Unknown::Foreign),
        };
        if self.known.as_ref().is_none_or(|(known, _)| *known != id) {
            let devices = match kernel.read(cgroup, id) {
                Ok(read) => devices(&read.name, read.code.as_deref(), caps()),
                // It was replaced meanwhile; the next reading asks for its successor.
                Err(Errno::ENOENT) => return Err(Unknown::Failed),
                Err(errno) => return Err(Unknown::of(errno)),
            };
            self.known = Some((id, devices));
        }
        match &self.known {
            Some((_, Ok(devices))) => Ok(devices),
            Some((_, Err(unknown))) => Err(*unknown),
            None => Err(Unknown::Failed),
        }
    }
}

fn devices(name: &str, code: Option<&[u8]>, caps: Option<i32>) -> Result<Vec<Device>, Unknown> {
    if name != program::NAME {
        return Err(Unknown::Foreign);
    }
    let code = code.ok_or(Unknown::Withheld)?;
    let rules = Instruction::all(code).and_then(|p| program::parse(&p));
    let rules = rules.ok_or(Unknown::Foreign)?;
    let mut devices = Vec::new();
    for (driver, major) in [
        ("nvidia", Some(NVIDIA)),
        ("nvidia-caps", caps),
        ("drm", Some(DRM)),
    ] {
        let Some(major) = major else { continue };
        let minors = rules.owned(major).ok_or(Unknown::Foreign)?;
        devices.extend(minors.into_iter().map(|minor| Device { driver, minor }));
    }
    Ok(devices)
}

/// The major number of `nvidia-caps`, which the kernel gives when the driver is loaded.
pub(super) fn caps_major(env: &Env) -> Option<i32> {
    let text = root::read_text(&env.path("/proc/devices")).ok()??;
    let major = |line: &str| {
        let (major, name) = line.trim().split_once(' ')?;
        (name == "nvidia-caps").then(|| major.parse().ok())?
    };
    text.lines().find_map(major)
}

#[cfg(test)]
mod tests;
