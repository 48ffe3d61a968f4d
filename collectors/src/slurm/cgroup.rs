//! The job and step of a cgroup, by its path: every form that Slurm has used since cgroup v1.

use std::path::Path;

use super::pod;
use crate::Error;
use crate::sys::root;

/// How a cgroup names its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobName<'a> {
    /// `job_<id>`.
    Id(u32),
    /// A SLUID: the job's name from 26.05 on. Its number comes from elsewhere.
    Sluid(&'a str),
}

impl std::fmt::Display for JobName<'_> {
    /// The name of the folder.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Id(id) => write!(f, "job_{id}"),
            Self::Sluid(sluid) => f.write_str(sluid),
        }
    }
}

impl<'a> JobName<'a> {
    /// Parses the name of a job's folder. `None`: another folder, such as `slurmd` and `system` beside the jobs.
    pub fn parse(name: &'a str) -> Option<Self> {
        match name.strip_prefix("job_") {
            Some(id) => number(id).map(Self::Id),
            None => is_sluid(name).then_some(Self::Sluid(name)),
        }
    }
}

/// The place of a process or a folder among Slurm's cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlurmCgroup<'a> {
    /// The node name in the path, which builds with several slurmds per host add (such as Debian's).
    pub node: Option<&'a str>,
    /// The job.
    pub job: JobName<'a>,
    /// The user, which only paths of cgroup v1 contain.
    pub uid: Option<u32>,
    /// `batch`, `extern`, `interactive` or a number.
    pub step: Option<&'a str>,
}

impl<'a> SlurmCgroup<'a> {
    /// Reads a path from `/proc/PID/cgroup`, or one below a mount point. `None`: not below a Slurm job.
    ///
    /// A pod that holds a slurmd has Slurm's path after its own. Below anything else, a folder of that name may be
    /// made by a user with delegated cgroups.
    pub fn of(path: &'a str) -> Option<Self> {
        let mut parts = path.split('/').filter(|p| !p.is_empty());
        let mut is_top = true;
        let mut above = "";
        while let Some(part) = parts.next() {
            // Above the root of our own namespace.
            if part == ".." && is_top {
                continue;
            }
            if let Some(node) = scope_node(part) {
                let job = JobName::parse(parts.next()?)?;
                return Some(Self {
                    node,
                    job,
                    uid: None,
                    step: parts.next().and_then(step),
                });
            }
            if let Some(node) = v1_node(part).filter(|_| is_top) {
                let uid = parts.next().and_then(|p| number(p.strip_prefix("uid_")?))?;
                let job = parts.next().and_then(|p| number(p.strip_prefix("job_")?))?;
                return Some(Self {
                    node,
                    job: JobName::Id(job),
                    uid: Some(uid),
                    step: parts.next().and_then(step),
                });
            }
            is_top = false;
            if !is_above(above, part) {
                return None;
            }
            above = part;
        }
        None
    }
}

/// Services that have containers below them. Others are not searched: a node has many.
const RUNTIMES: [&str; 5] = [
    "containerd.service",
    "k3s.service",
    "k3s-agent.service",
    "rke2-server.service",
    "rke2-agent.service",
];

/// Whether a Slurm scope may be below a folder of this name, whose parent is `above`: folders made by systemd, kubelets and
/// container runtimes. Files contain a dot too, and every folder of a runtime contains one or has a known name.
pub(super) fn is_above(above: &str, name: &str) -> bool {
    let is_hex = |text: &str| text.len() >= 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let is_pod = ["kubelet", "kubepods", "burstable", "besteffort", "docker"].contains(&name)
        || name.starts_with("pod");
    // CRI-O without systemd; crun below its scope; containerd with the other driver than its kubelet.
    let is_container = name.strip_prefix("crio-").is_some_and(is_hex)
        || (name == "container" && above.ends_with(".scope"))
        // A node may have a slice for them: `runtime.slice`, `podruntime.slice`. user.slice is not searched.
        || (RUNTIMES.contains(&name) && above.ends_with(".slice"))
        || (RUNTIMES.contains(&above) && name.starts_with("kubepods") && name.contains(".slice:"));
    // Users create the folders below that one.
    name != OF_USERS
        && (name.ends_with(".slice") || name.ends_with(".scope") || is_pod || is_container || is_hex(name))
}

/// `PROC_PID_INIT_INO`.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Whether a driver's process ids are those of this `/proc`: a container with its own PID namespace has others. A
/// tree of files without that link is a recording.
///
/// # Errors
/// Of readlink(2).
pub fn has_all_processes(proc: &Path) -> Result<bool, Error> {
    let namespace = root::link_text(&proc.join("self/ns/pid"))?;
    Ok(namespace.is_none_or(|ns| ns == FIRST_NAMESPACE))
}

/// Below it are the sessions and services of users, and folders that they create.
pub const OF_USERS: &str = "user.slice";

/// The name of the job's folder in the text of `/proc/PID/cgroup`; outside of all jobs, `pod` and the uid of its pod, or
/// [`OF_USERS`]; otherwise empty.
pub fn folder_in(text: &str) -> String {
    // `5:devices:/slurm/uid_0/job_1`, `0::/system.slice/...`: any hierarchy in which Slurm has it.
    let path = |line: &'_ str| Some(line.splitn(3, ':').nth(2)?.to_owned());
    let paths = || text.lines().filter_map(path);
    // A pod that holds a slurmd has its jobs below it: their processes belong to the jobs.
    let job = paths().find_map(|path| Some(SlurmCgroup::of(&path)?.job.to_string()));
    let pod = || paths().find_map(|path| pod::of(&path));
    // A cgroup namespace shows the folders above its own as `..`.
    let is_of_users = |path: String| {
        let first = path.split('/').find(|part| !["", ".."].contains(part));
        first == Some(OF_USERS)
    };
    let user = || paths().any(is_of_users).then(|| OF_USERS.to_owned());
    job.or_else(pod).or_else(user).unwrap_or_default()
}

/// The node name of `[<node>_]slurmstepd.scope` (cgroup v2). `None`: another folder.
pub fn scope_node(name: &str) -> Option<Option<&str>> {
    match name.strip_suffix("slurmstepd.scope")? {
        "" => Some(None),
        prefix => prefix.strip_suffix('_').filter(|node| !node.is_empty()).map(Some),
    }
}

/// The node name of `slurm[_<node>]` (cgroup v1). `None`: another folder.
pub fn v1_node(name: &str) -> Option<Option<&str>> {
    match name.strip_prefix("slurm")? {
        "" => Some(None),
        suffix => suffix.strip_prefix('_').filter(|node| !node.is_empty()).map(Some),
    }
}

fn step(name: &str) -> Option<&str> {
    name.strip_prefix("step_").filter(|s| !s.is_empty())
}

/// A number without a sign, as the kernel and Slurm print it.
fn number(text: &str) -> Option<u32> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// `s` and thirteen characters of Crockford's base 32 (src/common/sluid.h).
fn is_sluid(name: &str) -> bool {
    let digit = |b: u8| b.is_ascii_digit() || (b.is_ascii_uppercase() && !b"ILOU".contains(&b));
    match name.as_bytes() {
        [b's', rest @ ..] => rest.len() == 13 && rest.iter().all(|b| digit(*b)),
        _ => false,
    }
}

/// Fuzzing: a job that is parsed from a path is named in it.
///
/// # Panics
/// If it is not.
pub(crate) fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Some(place) = SlurmCgroup::of(&text) {
        // A number may have leading zeros.
        let named = match place.job {
            JobName::Id(_) => text.contains("/job_") || text.starts_with("job_"),
            JobName::Sluid(sluid) => text.contains(sluid),
        };
        assert!(named, "{text:?}: {place:?}");
    }
    if let Some(pod) = pod::of(&text) {
        let is_relative = text.contains("..");
        assert!(
            (text.contains("kubepods") || is_relative) && pod.len() >= 35,
            "{text:?}: {pod:?}"
        );
    }
}

#[cfg(test)]
mod tests;
