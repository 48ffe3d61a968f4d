use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use testkit::tree;

use super::*;
use crate::Env;

const LONG: Duration = Duration::from_secs(60);

/// A node with a watcher that runs.
struct Node {
    dir: tempfile::TempDir,
    events: Receiver<Event>,
    stop: Arc<AtomicBool>,
    runs: Option<JoinHandle<()>>,
}

impl Node {
    /// `folders` exist before it starts.
    fn new(folders: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mount = dir.path().join("sys/fs/cgroup");
        fs::create_dir_all(&mount).unwrap();
        if folders.iter().any(|f| f.starts_with("system.slice")) {
            let file = tree::Entry::File(b"cpu\n".to_vec());
            tree::put(&mount.join("cgroup.controllers"), &file).unwrap();
        }
        for folder in folders {
            fs::create_dir_all(mount.join(folder)).unwrap();
        }
        let env = Env::with_sysroot(dir.path());
        let mut watcher = JobWatcher {
            tree: Tree::new(&env, None),
            budget: DescriptorBudget::new(1),
            boot: BootId("b".to_owned()),
            known: SeenJobs::default(),
        };
        let (to, events) = sync_channel(64);
        let stop = Arc::new(AtomicBool::new(false));
        let (listens, listening) = sync_channel(1);
        let listens = Mutex::new(listens);
        let out =
            Events::until(to, Arc::clone(&stop)).heeding(move || listens.lock().unwrap().send(()).unwrap());
        let runs = std::thread::spawn(move || watcher.run(None, &out).unwrap());
        listening.recv_timeout(LONG).unwrap();
        Self {
            dir,
            events,
            stop,
            runs: Some(runs),
        }
    }

    fn path(&self, folder: &str) -> PathBuf {
        Path::new(self.dir.path()).join("sys/fs/cgroup").join(folder)
    }

    fn make(&self, folder: &str) {
        fs::create_dir_all(self.path(folder)).unwrap();
    }

    fn remove(&self, folder: &str) {
        fs::remove_dir(self.path(folder)).unwrap();
    }

    fn next(&self) -> (String, &'static str) {
        let event = self.events.recv_timeout(LONG).unwrap();
        match event.body {
            EventBody::Job(JobChange { folder, what }) => (folder, what.word()),
            other => panic!("{other:?}"),
        }
    }

    /// Ends the watcher, which an unrelated folder wakes, and returns the number of remaining events.
    fn end(mut self, slice: &str) -> usize {
        self.stop.store(true, Ordering::Release);
        self.make(&format!("{slice}/system"));
        self.runs.take().unwrap().join().unwrap();
        self.events.try_iter().count()
    }
}

fn change(folder: &str, what: &'static str) -> (String, &'static str) {
    (folder.to_owned(), what)
}

const SCOPE: &str = "system.slice/n0_slurmstepd.scope";

#[test]
fn a_job_that_was_there_is_not_reported_and_one_that_comes_and_leaves_is() {
    let node = Node::new(&["system.slice/n0_slurmstepd.scope/job_1"]);
    node.make(&format!("{SCOPE}/job_7"));
    assert_eq!(node.next(), change("job_7", "began"));
    // Steps of a job and folders of slurmd are no jobs.
    node.make(&format!("{SCOPE}/job_7/step_0"));
    node.make(&format!("{SCOPE}/system2"));
    node.remove(&format!("{SCOPE}/job_1"));
    assert_eq!(node.next(), change("job_1", "ended"));
    assert_eq!(node.end(SCOPE), 0);
}

#[test]
fn a_scope_that_comes_later_is_watched_too() {
    let node = Node::new(&[SCOPE]);
    node.make("system.slice/n1_slurmstepd.scope/job_8");
    assert_eq!(node.next(), change("job_8", "began"));
    node.make("system.slice/n1_slurmstepd.scope/job_9");
    assert_eq!(node.next(), change("job_9", "began"));
    assert_eq!(node.end(SCOPE), 0);
}

#[test]
fn under_cgroup_v1_the_folder_of_a_new_user_is_watched_too() {
    let node = Node::new(&["freezer/slurm"]);
    node.make("freezer/slurm/uid_1000/job_7");
    assert_eq!(node.next(), change("job_7", "began"));
    node.make("freezer/slurm/uid_1000/job_8");
    assert_eq!(node.next(), change("job_8", "began"));
    node.remove("freezer/slurm/uid_1000/job_7");
    assert_eq!(node.next(), change("job_7", "ended"));
    assert_eq!(node.end("freezer/slurm"), 0);
}

#[test]
fn a_node_without_a_slurmd_has_nothing_to_watch() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::with_sysroot(dir.path());
    let mut watcher = JobWatcher {
        tree: Tree::new(&env, None),
        budget: DescriptorBudget::new(1),
        boot: BootId("b".to_owned()),
        known: SeenJobs::default(),
    };
    assert!(!watcher.ready(Duration::ZERO));
    fs::create_dir_all(dir.path().join("sys/fs/cgroup/freezer/slurm_n0")).unwrap();
    assert!(watcher.ready(Duration::ZERO));
}
