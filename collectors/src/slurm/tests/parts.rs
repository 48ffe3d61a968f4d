//! The parts of a GPU that jobs have.

use super::*;

impl Node {
    /// A job that may use these GPUs, and whose batch script has this environment.
    fn sharer(&self, job: u32, gpus: &[(i32, bool)], environ: &str) {
        let folder = format!("{SCOPE}/job_{job}");
        self.job(&folder, 500);
        self.program(&folder, job, gpus);
        let task = 1000 + job;
        self.cgroup(
            &format!("{folder}/step_batch/user/task_0/cgroup.procs"),
            &format!("{task}\n"),
        );
        self.write(&format!("proc/{task}/comm"), "slurm_script\n");
        self.write(&format!("proc/{task}/task/{task}/environ"), environ);
    }

    /// Once as many are known: the first reading of a job does not know of later ones, and an environment may not be
    /// read in time.
    fn parts(&self, many: usize) -> Vec<String> {
        let mut jobs = self.open("").scan().unwrap();
        jobs.iter_mut().for_each(|job| drop(read(job)));
        until(many, &mut jobs)
    }
}

fn parts(jobs: &mut [Box<dyn Device>]) -> Vec<String> {
    let lines: Vec<String> = jobs.iter_mut().flat_map(read).collect();
    of(&lines, "slurm_job_gpu_parts")
        .into_iter()
        .map(str::to_owned)
        .collect()
}

fn until(many: usize, jobs: &mut [Box<dyn Device>]) -> Vec<String> {
    let known = || {
        let parts = parts(jobs);
        Ok((parts.len() == many).then_some(parts))
    };
    testkit::wait::until("the parts", testkit::wait::PATIENCE, known).unwrap()
}

const SHARED: &[(i32, bool)] = &[(0, true), (1, false)];

#[test]
fn jobs_that_share_a_gpu_have_as_many_parts_as_their_tasks_have_shards() {
    let node = Node::new();
    node.sharer(7, SHARED, "SLURM_SHARDS_ON_NODE=2\0");
    assert_eq!(node.parts(0), [""; 0], "alone");
    node.sharer(8, SHARED, "A=b\0SLURM_SHARDS_ON_NODE=1\0");
    // One that shares nothing, and one that has several GPUs.
    node.sharer(9, &[(0, false), (1, true)], "SLURM_SHARDS_ON_NODE=3\0");
    node.sharer(10, &[(0, true), (2, true)], "SLURM_SHARDS_ON_NODE=4\0");
    assert_eq!(
        node.parts(2),
        ["slurm_job_gpu_parts 7 = 2", "slurm_job_gpu_parts 8 = 1"]
    );
}

#[test]
fn a_job_without_that_variable_has_unknown_parts() {
    let node = Node::new();
    node.sharer(7, SHARED, "SLURM_SHARDS_ON_NODE=2\0");
    node.sharer(8, SHARED, "A=b\0");
    assert_eq!(node.parts(1), ["slurm_job_gpu_parts 7 = 2"]);
}

/// Its steps may have fewer shards than the job.
#[test]
fn the_batch_script_counts_before_steps_and_of_steps_the_largest() {
    let node = Node::new();
    let step = |job: u32, step: u32, shards: u32| {
        let (task, folder) = (job * 100 + step, format!("{SCOPE}/job_{job}/step_{step}"));
        node.cgroup(
            &format!("{folder}/user/task_0/cgroup.procs"),
            &format!("{task}\n"),
        );
        node.write(
            &format!("proc/{task}/task/{task}/environ"),
            &format!("SLURM_SHARDS_ON_NODE={shards}\0"),
        );
    };
    for job in [7, 8] {
        node.sharer(job, SHARED, "SLURM_SHARDS_ON_NODE=4\0");
        step(job, 0, 1);
        step(job, 1, 6);
    }
    node.remove(&format!("sys/fs/cgroup/{SCOPE}/job_8/step_batch"));
    assert_eq!(
        node.parts(2),
        ["slurm_job_gpu_parts 7 = 4", "slurm_job_gpu_parts 8 = 6"]
    );
}

#[test]
fn percent_of_mps_are_those_of_the_prolog() {
    let node = Node::new();
    for (job, percent) in [(7, 50), (8, 25)] {
        node.sharer(job, SHARED, "SLURM_SHARDS_ON_NODE=9\0");
        node.write(
            &format!("run/nodewarden/jobs/{job}.toml"),
            &format!("job = {job}\npercent = {percent}\n"),
        );
    }
    assert_eq!(
        node.parts(2),
        ["slurm_job_gpu_parts 7 = 50", "slurm_job_gpu_parts 8 = 25"]
    );
}

#[test]
fn a_job_that_has_ended_shares_nothing_any_more() {
    let node = Node::new();
    node.sharer(7, SHARED, "SLURM_SHARDS_ON_NODE=2\0");
    node.sharer(8, SHARED, "SLURM_SHARDS_ON_NODE=1\0");
    let mut devices = node.open("");
    let mut jobs = devices.scan().unwrap();
    until(2, &mut jobs);
    node.cgroup(&format!("{SCOPE}/job_8/cgroup.events"), "populated 0\n");
    parts(&mut jobs);
    assert_eq!(parts(&mut jobs), [""; 0]);
    // Another run of it in the same folder, which is then gone, and nothing reads it any more.
    node.cgroup(&format!("{SCOPE}/job_8/cgroup.events"), "populated 1\n");
    assert_eq!(parts(&mut jobs), [""; 0]);
    jobs = devices.scan().unwrap();
    until(2, &mut jobs);
    node.remove(&format!("sys/fs/cgroup/{SCOPE}/job_8"));
    let mut left = devices.scan().unwrap();
    drop(jobs);
    assert_eq!((left.len(), parts(&mut left).len()), (1, 0));
}
