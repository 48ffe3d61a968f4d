//! State kept for a job while others come and go.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;

use nix::errno::Errno;

use super::*;
use crate::sys::bpf::{Program, Programs};

/// A kernel in which every job has GPU 3, by one program each.
#[derive(Clone, Default)]
struct Counted {
    read: Arc<AtomicU32>,
}

impl Programs for Counted {
    fn attached(&mut self, _: &Path) -> Result<Vec<u32>, Errno> {
        Ok(vec![354])
    }

    fn read(&mut self, _: &Path, _: u32) -> Result<Program, Errno> {
        self.read.fetch_add(1, Ordering::Relaxed);
        Ok(Program {
            name: program::NAME.to_owned(),
            code: Some(gpu_program(&[(3, true)])),
        })
    }
}

fn jobs(node: &Node, kernel: &Counted) -> JobDevices {
    let env = Env::recorded(node.dir.path());
    let jobs = JobDevices::new(&env, &Settings::default(), DescriptorBudget::new(64)).unwrap();
    *jobs.common.programs.lock().unwrap() = Box::new(kernel.clone());
    jobs
}

fn read_all(jobs: &mut JobDevices) -> Vec<String> {
    jobs.scan().unwrap().iter_mut().flat_map(read).collect()
}

#[test]
fn another_job_that_comes_or_leaves_makes_nothing_of_this_one_be_found_out_again() {
    let node = Node::new();
    node.job(&format!("{SCOPE}/job_7"), 500);
    node.write("proc/500/stat", &format!("500 (x) S {0}100 {0}", "0 ".repeat(18)));
    let kernel = Counted::default();
    let mut jobs = jobs(&node, &kernel);
    let before = read_all(&mut jobs);
    assert_eq!(
        of(&before, "slurm_job_device_info"),
        ["slurm_job_device_info 7,nvidia3 = 1"]
    );
    assert_eq!(of(&before, "slurm_job_start_time_seconds").len(), 1);
    assert_eq!(kernel.read.load(Ordering::Relaxed), 1);
    // The daemon of its first step has ended, and that of a later one has not.
    node.write("proc/500/stat", &format!("500 (x) S {0}900 {0}", "0 ".repeat(18)));
    node.job(&format!("{SCOPE}/job_8"), 501);
    assert!(jobs.changed());
    let after = read_all(&mut jobs);
    assert_eq!(of(&after, "slurm_job_device_info").len(), 2);
    assert_eq!(kernel.read.load(Ordering::Relaxed), 2, "only for job 8");
    let of_7 = |lines: &[String]| -> Vec<String> {
        let of_7 = |line: &&String| line.contains(" 7");
        lines.iter().filter(of_7).cloned().collect()
    };
    assert_eq!(of_7(&after), of_7(&before));
    node.remove(&format!("sys/fs/cgroup/{SCOPE}/job_8"));
    assert_eq!(of_7(&read_all(&mut jobs)), of_7(&before));
    assert_eq!(kernel.read.load(Ordering::Relaxed), 2);
}

/// bpf(2) may block in the kernel while another process holds its locks.
#[test]
fn while_the_kernel_does_not_come_back_with_one_jobs_program_no_other_waits() {
    let node = Node::new();
    node.job(&format!("{SCOPE}/job_7"), 500);
    let mut jobs = jobs(&node, &Counted::default());
    let mut job = jobs.scan().unwrap().remove(0);
    let common = Arc::clone(&jobs.common);
    let asked = common.programs.lock().unwrap();
    let (to, lines) = channel();
    std::thread::spawn(move || {
        to.send(read(&mut job)).unwrap();
        to.send(read(&mut job)).unwrap();
    });
    let next = || lines.recv_timeout(Duration::from_secs(60)).unwrap();
    let first = next();
    assert_eq!(
        of(&first, "slurm_job_devices_info"),
        ["slurm_job_devices_info 7,failed = 1"]
    );
    assert_eq!(of(&first, "slurm_job_tasks"), ["slurm_job_tasks 7 = 11"]);
    next();
    drop(asked);
    let after = read_all(&mut jobs);
    assert_eq!(
        of(&after, "slurm_job_devices_info"),
        ["slurm_job_devices_info 7, = 1"]
    );
}
