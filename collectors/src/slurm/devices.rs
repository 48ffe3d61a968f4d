//! The devices that a job may use, by the device program that Slurm attached to its cgroup.

use std::path::Path;

use nix::errno::Errno;

use super::caps;
use super::metrics::AMBIGUOUS;
use super::program::{self, Instruction};
use crate::device_files;
use crate::sys::bpf::Programs;
use crate::{Env, Error};

/// Attempts to read a program that is replaced meanwhile: each step replaces it once.
const TRIES: usize = 8;

/// Why the devices are unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnknownReason {
    /// CAP_SYS_ADMIN is missing, or CAP_NET_ADMIN before Linux 6.9.
    Denied,
    /// The kernel does not show instructions.
    Withheld,
    /// The program is not Slurm's, or has an unknown form.
    Foreign,
    /// No program exists: `ConstrainDevices=no`, no gres, or cgroup v1.
    None,
    /// Several jobs have this name.
    Ambiguous,
    /// Another error of the kernel, or the driver's table of instances is unreadable.
    Failed,
}

impl UnknownReason {
    /// The value of the `reason` label.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Withheld => "withheld",
            Self::Foreign => "foreign",
            Self::None => "none",
            Self::Ambiguous => AMBIGUOUS,
            Self::Failed => "failed",
        }
    }
}

/// The content of a job's program, read again after each replacement: a program is immutable, and each step
/// attaches its own.
#[derive(Debug, Default)]
pub(super) struct DeviceList {
    known: Option<(u32, Result<Vec<String>, UnknownReason>)>,
    /// The last logged reason.
    logged: Option<String>,
}

impl DeviceList {
    /// The devices of the job, as the kernel names them.
    pub(super) fn read(
        &mut self,
        kernel: &mut dyn Programs,
        cgroup: &Path,
        env: &Env,
    ) -> Result<&[String], UnknownReason> {
        for _ in 0..TRIES {
            let attached = match kernel.attached(cgroup) {
                // A kernel without BPF for cgroups.
                Err(Errno::EINVAL | Errno::ENOSYS) => return Err(UnknownReason::None),
                attached => attached.map_err(|errno| self.refused(cgroup, "BPF_PROG_QUERY", errno))?,
            };
            let id = match attached.as_slice() {
                [] => return Err(UnknownReason::None),
                [one] => *one,
                // It is undefined which rules apply.
                _ => return Err(UnknownReason::Foreign),
            };
            if self.known.as_ref().is_some_and(|(known, _)| *known == id) {
                break;
            }
            // The content of the previous program does not apply to this one.
            self.known = None;
            match kernel.read(cgroup, id) {
                Ok(read) => {
                    let devices = match devices(&read.name, read.code.as_deref(), env) {
                        Ok(devices) => Ok(devices),
                        Err(ProgramError::Unknown(unknown)) => Err(unknown),
                        // It may be readable the next time.
                        Err(ProgramError::Caps(error)) => return Err(self.failed(error.to_string())),
                    };
                    self.known = Some((id, devices));
                    break;
                }
                // A step began meanwhile and replaced it.
                Err(Errno::ENOENT) => {}
                Err(errno) => {
                    let call = "BPF_PROG_GET_FD_BY_ID and BPF_OBJ_GET_INFO_BY_FD";
                    return Err(self.refused(cgroup, call, errno));
                }
            }
        }
        if self.known.is_none() {
            let what = format!(
                "{}: another program at each of {TRIES} readings",
                cgroup.display()
            );
            return Err(self.failed(what));
        }
        match &self.known {
            Some((_, Ok(devices))) => Ok(devices),
            Some((_, Err(unknown))) => Err(*unknown),
            None => Err(UnknownReason::Failed),
        }
    }

    fn refused(&mut self, cgroup: &Path, call: &str, errno: Errno) -> UnknownReason {
        match errno {
            Errno::EPERM | Errno::EACCES => UnknownReason::Denied,
            // The job has just ended.
            Errno::ENOENT | Errno::ENODEV => UnknownReason::Failed,
            _ => self.failed(format!("{}: {call}: {errno}", cgroup.display())),
        }
    }

    /// Logs it once for each job.
    fn failed(&mut self, what: String) -> UnknownReason {
        if self.logged.as_ref() != Some(&what) {
            tracing::warn!("the devices of a job are unknown: {what}");
            self.logged = Some(what);
        }
        UnknownReason::Failed
    }
}

/// Why a program does not yield the devices.
enum ProgramError {
    Unknown(UnknownReason),
    /// The driver's table of instances is unreadable.
    Caps(Error),
}

impl From<UnknownReason> for ProgramError {
    fn from(unknown: UnknownReason) -> Self {
        Self::Unknown(unknown)
    }
}

impl From<Error> for ProgramError {
    fn from(error: Error) -> Self {
        Self::Caps(error)
    }
}

fn devices(name: &str, code: Option<&[u8]>, env: &Env) -> Result<Vec<String>, ProgramError> {
    if name != program::NAME {
        return Err(UnknownReason::Foreign.into());
    }
    let code = code.ok_or(UnknownReason::Withheld)?;
    let rules = Instruction::all(code).and_then(|p| program::parse(&p));
    let rules = rules.ok_or(UnknownReason::Foreign)?;
    let owned = |major| rules.owned(major).ok_or(UnknownReason::Foreign);
    let mut whole = owned(device_files::NVIDIA.major)?;
    let mut devices = Vec::new();
    let minors = caps::major(env)?.map(owned).transpose()?.unwrap_or_default();
    if !minors.is_empty() {
        let instances = caps::instances(env)?;
        let of = |minor: &u32| instances.get(minor).copied();
        // An instance that the driver does not list was replaced since, or never existed.
        let instances: Option<Vec<_>> = minors.iter().map(of).collect();
        for (gpu, gi, ci) in instances.ok_or(UnknownReason::Foreign)? {
            // A job with an instance may open the GPU's device file, but does not have the whole GPU.
            whole.retain(|minor| *minor != gpu);
            // The access to a GPU instance is listed beside that to its compute instances.
            devices.extend(ci.map(|ci| format!("nvidia{gpu}/{gi}/{ci}")));
        }
    }
    let gpus = whole.into_iter().map(|minor| device_files::NVIDIA.name(minor));
    let (render, cards): (Vec<u32>, Vec<u32>) = owned(device_files::AMD.major)?
        .into_iter()
        .partition(|minor| device_files::AMD.minors.contains(minor));
    if render.is_empty() && !cards.is_empty() {
        // gres.conf names cards, whose numbers say nothing about partitions.
        return Err(UnknownReason::Foreign.into());
    }
    let render = render.into_iter().map(|minor| device_files::AMD.name(minor));
    Ok(gpus.chain(devices).chain(render).collect())
}

#[cfg(test)]
mod tests;
