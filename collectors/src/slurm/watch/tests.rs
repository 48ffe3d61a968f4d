use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use testkit::tree;

use super::*;
use crate::slurm::{JobDevices, SPEC};
use crate::sys::kept::DescriptorBudget;
use crate::{Env, Event};

const LONG: Duration = Duration::from_secs(60);

fn watcher(env: &Env) -> JobWatcher {
    let settings = SPEC.settings("").unwrap();
    JobWatcher {
        tree: Tree::new(env, None),
        boot: BootId("b".to_owned()),
        known: SeenJobs::default(),
        spool: Spool::new(
            &JobDevices::new(env, &settings, DescriptorBudget::new(1))
                .unwrap()
                .common,
        ),
    }
}

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
        Self::new_with(folders, |_| {})
    }

    /// The same, with files that `prepare` writes before.
    fn new_with(folders: &[&str], prepare: impl FnOnce(&Self)) -> Self {
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
        let mut watcher = watcher(&env);
        let (to, events) = sync_channel(64);
        let stop = Arc::new(AtomicBool::new(false));
        let mut node = Self {
            dir,
            events,
            stop: Arc::clone(&stop),
            runs: None,
        };
        prepare(&node);
        let (listens, listening) = sync_channel(1);
        let listens = Mutex::new(listens);
        let out = Events::until(to, stop).heeding(move || listens.lock().unwrap().send(()).unwrap());
        node.runs = Some(std::thread::spawn(move || watcher.run(None, &out).unwrap()));
        listening.recv_timeout(LONG).unwrap();
        node
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
            EventBody::Job(JobChange { folder, what, .. }) => (folder, what.word()),
            EventBody::JobEnd(end) => (format!("record of {}", end.record.job), "read"),
            other => panic!("{other:?}"),
        }
    }

    /// As hooks leave a file: whole at once.
    fn record(&self, name: &str, text: &str) {
        let folder = self.dir.path().join("run/nodewarden/jobs");
        fs::create_dir_all(folder.join("ended")).unwrap();
        let written = folder.join("new");
        tree::put(&written, &tree::Entry::File(text.as_bytes().to_vec())).unwrap();
        fs::rename(written, folder.join(name)).unwrap();
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
fn a_job_that_begins_comes_with_the_start_of_its_prolog() {
    let node = Node::new(&[SCOPE]);
    node.record("7.toml", "job = 7\nstart = 12.5\n");
    for job in ["job_7", "job_8"] {
        node.make(&format!("{SCOPE}/{job}"));
    }
    let starts = [(); 2].map(|()| match node.events.recv_timeout(LONG).unwrap().body {
        EventBody::Job(change) => (change.folder, change.start_us),
        other => panic!("{other:?}"),
    });
    let expected = [("job_7", Some(12_500_000)), ("job_8", None)];
    assert_eq!(starts, expected.map(|(job, start)| (job.to_owned(), start)));
    assert_eq!(node.end(SCOPE), 0);
}

/// Before the watcher started, while it runs, and of jobs whose cgroups were never listed.
#[test]
fn each_record_of_an_epilog_is_reported_once_in_order() {
    let node = Node::new_with(&[SCOPE], |node| {
        node.record("ended/0000000000000002-8.toml", "job = 8\n");
        node.record("ended/0000000000000001-9.toml", "job = 9\n");
    });
    let read = |job: u32| (format!("record of {job}"), "read");
    assert_eq!([node.next(), node.next()], [read(9), read(8)]);
    node.record("ended/0000000000000003-7.toml", "job = 7\n");
    assert_eq!(node.next(), read(7));
    // A broken one costs no other.
    node.record("ended/0000000000000004-5.toml", "job = 5\nsta");
    node.record("ended/0000000000000005-6.toml", "job = 6\n");
    assert_eq!(node.next(), read(6));
    assert_eq!(node.end(SCOPE), 0);
}

#[test]
fn without_a_slurmd_records_are_read_too() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::with_sysroot(dir.path());
    let mut watcher = watcher(&env);
    assert!(!watcher.ready(Duration::ZERO));
    let file = tree::Entry::File(b"job = 7\n".to_vec());
    let folder = dir.path().join("run/nodewarden/jobs/ended");
    tree::put(&folder.join("0000000000000001-7.toml"), &file).unwrap();
    assert!(watcher.ready(Duration::ZERO));
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
    let mut watcher = watcher(&env);
    assert!(!watcher.ready(Duration::ZERO));
    fs::create_dir_all(dir.path().join("sys/fs/cgroup/freezer/slurm_n0")).unwrap();
    assert!(watcher.ready(Duration::ZERO));
}
