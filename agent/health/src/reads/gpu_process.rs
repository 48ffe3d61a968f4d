//! Processes on GPUs.

use std::collections::BTreeMap;

use collectors::gpu::metrics as m;
use collectors::slurm::cgroup::OF_USERS;

use super::gpu::{Gpu, whole};
use model::ownership::Jobs;

/// Services, by the 15 characters of their names that the kernel keeps. The MPS server computes for its clients, which
/// the driver lists too.
const SERVANTS: [&str; 12] = [
    "nv-hostengine",
    "dcgm-exporter",
    "dcgmi",
    "nvidia-smi",
    "nvidia-persiste",
    "nv-fabricmanage",
    "nvidia-imex",
    "nvidia-cuda-mps",
    "nvidia-device-p",
    "Xorg",
    "Xwayland",
    "gnome-shell",
];

/// The place of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place<'a> {
    /// In the cgroup of a job, by its name.
    Job(&'a str),
    /// In that of a Kubernetes pod, by its uid.
    Pod(&'a str),
    /// In a session or service of a user.
    User,
    /// In none of them.
    Outside,
    /// Not known.
    Unknown,
}

/// A process that uses a GPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process<'a> {
    pub(crate) pid: &'a str,
    pub(crate) place: Place<'a>,
    /// Its name.
    pub(crate) program: Option<&'a str>,
    /// GPU memory that it uses, in bytes.
    pub(crate) memory: Option<u64>,
}

impl Process<'_> {
    /// Whether it is a service. Every process chooses its own name: in a job or a session it proves nothing. In a pod it is all that
    /// shows a service.
    pub(crate) fn is_servant(&self) -> bool {
        matches!(self.place, Place::Pod(_) | Place::Outside)
            && self.program.is_some_and(|program| SERVANTS.contains(&program))
    }

    /// `"python3" (pid 500)`. The name may contain any character.
    pub(crate) fn words(&self) -> String {
        format!("{:?} (pid {})", self.program.unwrap_or_default(), self.pid)
    }
}

/// The processes of a GPU by instance, and whether the list is complete.
pub(crate) fn processes<'a>(gpu: &Gpu<'a>, instances: &[&str]) -> (Vec<(&'a str, Process<'a>)>, bool) {
    let mut found: BTreeMap<(&'a str, &'a str), Process<'a>> = BTreeMap::new();
    for metric in [&m::PROCESS_OWNED, &m::PROCESS_PLACE, &m::PROCESS_PROGRAM] {
        for sample in gpu.all(metric) {
            let [_, instance, pid, rest @ ..] = sample.labels else {
                continue;
            };
            let (instance, pid) = (instance.as_str(), pid.as_str());
            let process = found.entry((instance, pid)).or_insert(Process {
                pid,
                place: Place::Unknown,
                program: None,
                memory: None,
            });
            match rest {
                [folder] if sample.metric == &m::PROCESS_PLACE => process.place = place(folder),
                [program] if sample.metric == &m::PROCESS_PROGRAM => process.program = Some(program.as_str()),
                _ => process.memory = whole(Some(sample)),
            }
        }
    }
    let known = u64::try_from(found.len()).ok();
    let complete =
        whole(gpu.one(&m::PROCESSES)) == known && found.keys().all(|(part, _)| instances.contains(part));
    (
        found
            .into_iter()
            .map(|((part, _), process)| (part, process))
            .collect(),
        complete,
    )
}

fn place(folder: &str) -> Place<'_> {
    match (folder, folder.strip_prefix("pod")) {
        (_, Some(uid)) => Place::Pod(uid),
        ("", None) => Place::Outside,
        (OF_USERS, None) => Place::User,
        (job, None) => Place::Job(job),
    }
}

/// Whether a process on an allocated part is outside the cgroups of its jobs. `None`: unknown.
pub(crate) fn is_foreign(process: &Process<'_>, owners: &[String], jobs: &Jobs) -> Option<bool> {
    if process.is_servant() {
        return Some(false);
    }
    match process.place {
        Place::Job(folder) => {
            let job = jobs.of_folder(folder)?;
            let is_owner = owners.iter().any(|owner| owner == job);
            // A job with unknown device rules may own a share of the part.
            (is_owner || jobs.is_read(job)).then_some(!is_owner)
        }
        // A container that a job starts by a daemon of slurmd's pod, such as Docker's, is in the cgroup of that pod.
        Place::Pod(uid) if owners.iter().any(|job| jobs.is_in_pod(job, uid)) => Some(false),
        // Only the name shows a service.
        Place::Pod(_) | Place::Outside => process.program.map(|_| true),
        Place::User => Some(true),
        Place::Unknown => None,
    }
}

/// The first 4, and the number of others.
pub(crate) fn some(words: &[String]) -> String {
    const MOST: usize = 4;
    let first: Vec<&str> = words.iter().take(MOST).map(String::as_str).collect();
    match words.len().saturating_sub(MOST) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_services_are_no_longer_than_the_kernel_keeps_them() {
        for name in SERVANTS {
            assert!(name.len() <= 15, "{name}");
        }
    }

    #[test]
    fn a_line_names_the_first_four() {
        let names: Vec<String> = (1..=6).map(|n| n.to_string()).collect();
        assert_eq!(some(&names), "1, 2, 3, 4 and 2 more");
        assert_eq!(some(&["1".to_owned(), "2".to_owned()]), "1, 2");
    }
}
