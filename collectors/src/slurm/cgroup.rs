//! Which job and step a cgroup belongs to, by its path: every form that Slurm has given it since cgroup v1.

/// How a cgroup names its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobName<'a> {
    /// `job_<id>`.
    Id(u32),
    /// A SLUID: the job's name from 26.05 on, which its number is found for elsewhere.
    Sluid(&'a str),
}

impl<'a> JobName<'a> {
    /// Reads the name of a job's folder. `None`: it is none, such as `slurmd` and `system` beside the jobs.
    pub fn parse(name: &'a str) -> Option<Self> {
        match name.strip_prefix("job_") {
            Some(id) => number(id).map(Self::Id),
            None => is_sluid(name).then_some(Self::Sluid(name)),
        }
    }
}

/// Where a process or a folder stands among Slurm's cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The node name in the path, which builds with several slurmds on a host put there (Debian's are such).
    pub node: Option<&'a str>,
    /// The job.
    pub job: JobName<'a>,
    /// The user, which paths of cgroup v1 alone hold.
    pub uid: Option<u32>,
    /// `batch`, `extern`, `interactive` or a number.
    pub step: Option<&'a str>,
}

impl<'a> Place<'a> {
    /// Reads a path as `/proc/PID/cgroup` has it, or one below a mount point. `None`: not below a job of Slurm's.
    ///
    /// A pod that holds a slurmd has Slurm's path behind its own, so any part may be the first of Slurm's.
    pub fn of(path: &'a str) -> Option<Self> {
        let mut parts = path.split('/').filter(|p| !p.is_empty());
        while let Some(part) = parts.next() {
            if let Some(node) = scope_node(part) {
                let job = JobName::parse(parts.next()?)?;
                return Some(Self {
                    node,
                    job,
                    uid: None,
                    step: parts.next().and_then(step),
                });
            }
            if let Some(node) = v1_node(part) {
                let mut ahead = parts.clone();
                let uid = ahead.next().and_then(|p| number(p.strip_prefix("uid_")?));
                let job = ahead.next().and_then(|p| number(p.strip_prefix("job_")?));
                if let (Some(uid), Some(job)) = (uid, job) {
                    return Some(Self {
                        node,
                        job: JobName::Id(job),
                        uid: Some(uid),
                        step: ahead.next().and_then(step),
                    });
                }
            }
        }
        None
    }
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

#[cfg(test)]
mod tests;
