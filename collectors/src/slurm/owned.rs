//! Which devices a job may use, by the program that Slurm has attached to its cgroup.

use std::collections::BTreeMap;
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

/// How often a program that is replaced while it is read is asked for again: each step replaces it once.
const TRIES: usize = 8;

/// What the driver numbers by itself: the capabilities of instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Caps {
    /// The major number of `nvidia-caps`.
    major: i32,
    /// The instances by the minor number of their access.
    instances: BTreeMap<u32, Instance>,
}

/// GPU's minor, GPU instance, compute instance.
type Instance = (u32, u32, Option<u32>);

impl Caps {
    /// As the node has them now. `None`: no such driver is loaded.
    pub(super) fn read(env: &Env) -> Option<Self> {
        let text = |path: &str| root::read_text(&env.path(path)).ok().flatten();
        let devices = text("/proc/devices")?;
        let major = |line: &str| {
            let (major, name) = line.trim().split_once(' ')?;
            (name == "nvidia-caps").then(|| major.parse().ok())?
        };
        let minors = text("/proc/driver/nvidia-caps/mig-minors").unwrap_or_default();
        Some(Self {
            major: devices.lines().find_map(major)?,
            instances: minors.lines().filter_map(instance).collect(),
        })
    }
}

/// `gpu0/gi1/access 12` or `gpu0/gi1/ci0/access 13`.
fn instance(line: &str) -> Option<(u32, Instance)> {
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
    known: Option<(u32, Result<Vec<String>, Unknown>)>,
}

impl Owned {
    /// The devices of the job, as the kernel names them. `caps`: [`Caps::read`], asked for where a program is new.
    pub(super) fn read(
        &mut self,
        kernel: &mut dyn Programs,
        cgroup: &Path,
        caps: impl Fn() -> Option<Caps>,
    ) -> Result<&[String], Unknown> {
        for _ in 0..TRIES {
            let id = match kernel.attached(cgroup).map_err(Unknown::of)?.as_slice() {
                [] => return Err(Unknown::None),
                [one] => *one,
                // Whose rules hold would have to be guessed.
                _ => return Err(Unknown::Foreign),
            };
            if self.known.as_ref().is_some_and(|(known, _)| *known == id) {
                break;
            }
            // What the one before said is not what this one says.
            self.known = None;
            match kernel.read(cgroup, id) {
                Ok(read) => {
                    let devices = devices(&read.name, read.code.as_deref(), caps().as_ref());
                    self.known = Some((id, devices));
                    break;
                }
                // A step has begun meanwhile and replaced it.
                Err(Errno::ENOENT) => {}
                Err(errno) => return Err(Unknown::of(errno)),
            }
        }
        match &self.known {
            Some((_, Ok(devices))) => Ok(devices),
            Some((_, Err(unknown))) => Err(*unknown),
            None => Err(Unknown::Failed),
        }
    }
}

fn devices(name: &str, code: Option<&[u8]>, caps: Option<&Caps>) -> Result<Vec<String>, Unknown> {
    if name != program::NAME {
        return Err(Unknown::Foreign);
    }
    let code = code.ok_or(Unknown::Withheld)?;
    let rules = Instruction::all(code).and_then(|p| program::parse(&p));
    let rules = rules.ok_or(Unknown::Foreign)?;
    let owned = |major| rules.owned(major).ok_or(Unknown::Foreign);
    let mut whole = owned(NVIDIA)?;
    let mut devices = Vec::new();
    if let Some(caps) = caps {
        let minors = owned(caps.major)?;
        let of = |minor: &u32| caps.instances.get(minor).copied();
        // One that the driver does not list now was given to another instance since, or never was one.
        let instances: Option<Vec<_>> = minors.iter().map(of).collect();
        for (gpu, gi, ci) in instances.ok_or(Unknown::Foreign)? {
            // Who may use a part of a GPU may open it, and does not have all of it.
            whole.retain(|minor| *minor != gpu);
            // The access to a GPU instance stands beside that to its compute instances.
            devices.extend(ci.map(|ci| format!("nvidia{gpu}/{gi}/{ci}")));
        }
    }
    let gpus = whole.into_iter().map(|minor| format!("nvidia{minor}"));
    let render = owned(DRM)?.into_iter().filter(|minor| *minor >= 128);
    let render = render.map(|minor| format!("renderD{minor}"));
    Ok(gpus.chain(devices).chain(render).collect())
}

#[cfg(test)]
mod tests;
