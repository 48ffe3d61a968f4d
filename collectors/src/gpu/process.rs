//! The processes that compute on a GPU, with their places: the evidence for the job that has the GPU.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::metrics as m;
use crate::slurm::cgroup;
use crate::sys::kept::{DescriptorBudget, Kept};
use crate::sys::{root, task};
use crate::{Block, Env};

/// Longer than a process's list of cgroups usually is.
const USUAL: usize = 4096;

/// One process on a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GpuProcess<'a> {
    /// In the host's PID namespace.
    pub(crate) pid: u32,
    /// The label of the GPU instance; empty on a whole GPU.
    pub(crate) part: &'a str,
    /// GPU memory that it uses, in bytes.
    pub(crate) memory: Option<u64>,
}

/// Where the processes of GPUs are looked up, and what is shown of them.
#[derive(Clone, Debug)]
pub(crate) struct ProcessTable {
    /// The path of /proc.
    proc: PathBuf,
    /// A driver's process ids are those of this /proc. The namespace of this program never changes, so it is looked at until it is
    /// known.
    placed: Arc<OnceLock<bool>>,
    /// With a series for everyone.
    is_served: bool,
    budget: Arc<DescriptorBudget>,
    on_disk: bool,
}

/// The files of the processes on one GPU. They stay open: a process that gets the number of an ended one has other files.
#[derive(Default)]
pub(crate) struct ProcessFiles(BTreeMap<u32, FilesOfOne>);

struct FilesOfOne {
    cgroup: Kept,
    comm: Kept,
    /// The current reading has named it.
    is_named: bool,
}

impl ProcessFiles {
    /// Ends a reading: files of processes that it has not named are closed.
    pub(crate) fn finish(&mut self) {
        self.0.retain(|_, files| std::mem::take(&mut files.is_named));
    }
}

impl ProcessTable {
    pub(crate) fn new(env: &Env, is_served: bool) -> Self {
        Self {
            proc: env.path("/proc"),
            placed: Arc::default(),
            is_served,
            budget: DescriptorBudget::of_process(),
            on_disk: env.is_tree(),
        }
    }

    fn is_placed(&self) -> bool {
        if let Some(known) = self.placed.get() {
            return *known;
        }
        let Ok(found) = cgroup::has_all_processes(&self.proc) else {
            return false;
        };
        // `hidepid` hides all processes of others, root's first too. A tree need not have it.
        let is_shown = || self.on_disk || matches!(task::status(&self.proc.join("1")), Ok(Some(_)));
        *self.placed.get_or_init(|| found && is_shown())
    }

    fn files(&self, pid: u32) -> FilesOfOne {
        let folder = self.proc.join(pid.to_string());
        let file = |name| Kept::new(folder.join(name), &self.budget, self.on_disk);
        FilesOfOne {
            cgroup: file("cgroup"),
            comm: file("comm"),
            is_named: true,
        }
    }

    /// Pushes whether the host's processes are seen.
    pub(crate) fn push_seen(&self, gpu: &str, out: &mut Block) {
        out.u64(&m::PROCESSES_SEEN, &[gpu], u64::from(self.is_placed()));
    }

    /// Pushes one process of the GPU that has these files.
    pub(crate) fn push(
        &self,
        gpu: &str,
        process: &GpuProcess<'_>,
        files: &mut ProcessFiles,
        out: &mut Block,
    ) {
        let part = process.part;
        let pid = process.pid.to_string();
        out.maybe_u64(&m::PROCESS_OWNED, &[gpu, part, &pid], process.memory);
        if self.is_placed() {
            let files = files.0.entry(process.pid);
            let files = files.or_insert_with(|| self.files(process.pid));
            files.is_named = true;
            // A process that ended meanwhile has no cgroup.
            if let Some(list) = text(&mut files.cgroup) {
                let folder = cgroup::folder_in(&list);
                out.info(&m::PROCESS_PLACE, &[gpu, part, &pid, &folder]);
            }
            if let Some(program) = text(&mut files.comm) {
                out.info(&m::PROCESS_PROGRAM, &[gpu, part, &pid, &program]);
            }
        }
        if self.is_served {
            out.maybe_u64(&m::PROCESS_MEMORY, &[gpu, part, &pid], process.memory);
        }
    }
}

fn text(file: &mut Kept) -> Option<String> {
    let mut buffer = [0; USUAL];
    let bytes = file.read(&mut buffer).ok()?;
    if bytes.len() == USUAL {
        return root::read_lossy(file.path()).ok()?;
    }
    Some(String::from_utf8_lossy(bytes).trim().to_owned())
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests make the files that they read")]
mod tests {
    use std::fs;

    use super::*;
    use crate::sys::kept::count;

    #[test]
    fn files_of_a_process_stay_open_until_another_has_its_number() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("proc/7");
        let begin = |cgroup: &str, comm: &str| {
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("cgroup"), cgroup).unwrap();
            fs::write(folder.join("comm"), format!("{comm}\n")).unwrap();
        };
        let table = ProcessTable::new(&Env::with_sysroot(root.path()), false);
        let mut files = ProcessFiles::default();
        let mut reading = || {
            let process = GpuProcess {
                pid: 7,
                part: "",
                memory: None,
            };
            let mut out = Block::default();
            table.push("GPU-1", &process, &mut files, &mut out);
            files.finish();
            let named = out
                .layout()
                .iter()
                .map(|series| series.labels.last().unwrap().to_string());
            (named.skip(1).collect::<Vec<_>>(), count::take())
        };
        begin("0::/system.slice/slurmstepd.scope/job_5/step_0", "python");
        let first = vec!["job_5".to_owned(), "python".to_owned()];
        assert_eq!(reading(), (first.clone(), (2, 2)));
        assert_eq!(reading(), (first, (0, 2)));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(reading().0, [""; 0], "it has ended");
        // Of many hierarchies, more than the usual room.
        let long = format!(
            "{}0::/system.slice/slurmstepd.scope/job_6",
            "1:a:/x\n".repeat(USUAL / 4)
        );
        begin(&long, "other");
        assert_eq!(reading().0, ["job_6", "other"]);
    }

    #[test]
    fn a_namespace_that_cannot_be_read_is_looked_at_again() {
        let root = tempfile::tempdir().unwrap();
        let namespace = root.path().join("proc/self/ns/pid");
        // No link: an error of readlink(2).
        fs::create_dir_all(&namespace).unwrap();
        let table = ProcessTable::new(&Env::with_sysroot(root.path()), false);
        assert!(!table.is_placed());
        fs::remove_dir(&namespace).unwrap();
        std::os::unix::fs::symlink("pid:[4026531836]", &namespace).unwrap();
        assert!(table.is_placed());
    }

    #[test]
    fn where_hidepid_hides_the_first_process_none_is_seen() {
        let root = tempfile::tempdir().unwrap();
        let namespace = root.path().join("proc/self/ns/pid");
        fs::create_dir_all(namespace.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink("pid:[4026531836]", &namespace).unwrap();
        let seen = || {
            let mut table = ProcessTable::new(&Env::with_sysroot(root.path()), false);
            table.on_disk = false;
            table.is_placed()
        };
        assert!(!seen());
        fs::create_dir_all(root.path().join("proc/1")).unwrap();
        fs::write(
            root.path().join("proc/1/status"),
            "Name:\tsystemd\nState:\tS (sleeping)\n",
        )
        .unwrap();
        assert!(seen());
    }

    #[test]
    fn files_of_processes_that_are_gone_are_closed() {
        let root = tempfile::tempdir().unwrap();
        let table = ProcessTable::new(&Env::with_sysroot(root.path()), false);
        let mut files = ProcessFiles::default();
        for pid in 1..100 {
            let process = GpuProcess {
                pid,
                part: "",
                memory: None,
            };
            table.push("GPU-1", &process, &mut files, &mut Block::default());
            files.finish();
            assert_eq!(files.0.len(), 1);
        }
        files.finish();
        assert!(files.0.is_empty());
    }
}
