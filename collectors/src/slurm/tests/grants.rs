//! Which GPUs a job was given where its device program does not tell.

use super::*;

const GRES: &str = "AutoDetect=off\nName=gpu File=/dev/nvidia2,/dev/nvidia3,/dev/nvidia0,/dev/nvidia1\n";

impl Node {
    /// A job of two GPUs whose program cannot be read, on a node whose gres.conf has the GPUs in another order.
    fn permuted(folder: &str) -> Self {
        let node = Self::new();
        node.write("etc/slurm/gres.conf", GRES);
        for minor in 0..4 {
            node.write(&format!("dev/nvidia{minor}"), &format!("195:{minor}\n"));
        }
        node.job(folder, 500);
        node
    }

    /// A process of a task with this environment.
    fn task(&self, task: &str, pid: u32, start: u32, state: char, environment: &str) {
        self.cgroup(&format!("{task}/cgroup.procs"), &format!("{pid}\n"));
        self.process(pid, start, state, environment);
    }

    fn process(&self, pid: u32, start: u32, state: char, environment: &str) {
        let stat = format!("{pid} (a) b) {state} {}{start} 0 0", "0 ".repeat(18));
        self.write(&format!("proc/{pid}/stat"), &stat);
        self.write(&format!("proc/{pid}/task/{pid}/stat"), &stat);
        let told = ["SLURM_STEP_GPUS=", "SLURM_JOB_GPUS="]
            .iter()
            .find_map(|name| environment.split_once(name));
        let environment = match told.and_then(|(_, list)| list.split(' ').next()) {
            Some(list) => format!("{environment} SLURM_GPUS_ON_NODE={}", list.split(',').count()),
            None => environment.to_owned(),
        };
        self.environment(pid, &environment);
    }

    fn environment(&self, pid: u32, environment: &str) {
        self.write(&format!("proc/{pid}/environ"), &environment.replace(' ', "\0"));
    }

    /// `hook nvidia2 nvidia3`.
    fn granted(&self, settings: &str) -> String {
        granted(&self.read(settings))
    }
}

fn granted(lines: &[String]) -> String {
    let mut words: Vec<String> = Vec::new();
    for line in of(lines, "slurm_job_grant_info") {
        let labels = line.split(' ').nth(1).unwrap();
        let [_, evidence, device] = labels.split(',').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        if words.is_empty() {
            words.push(evidence.to_owned());
        }
        assert_eq!(words[0], evidence, "one evidence for a job");
        words.push(device.to_owned());
    }
    words.join(" ")
}

fn job() -> String {
    format!("{SCOPE}/job_7")
}

fn record(node: &Node, more: &str) {
    let text = format!("job = 7\nstart = 1795227133.5\nuid = 1000\n{more}");
    node.write("run/nodewarden/jobs/7.toml", &text);
}

#[test]
fn what_the_prolog_was_told_is_turned_into_devices_by_gres_conf() {
    let node = Node::permuted(&job());
    assert_eq!(node.granted(""), "");
    record(&node, "gpus = \"0,2\"\n");
    assert_eq!(node.granted(""), "hook nvidia2 nvidia0");
    // 20.11 does not tell, and a job without GPUs has none.
    record(&node, "");
    assert_eq!(node.granted(""), "");
    record(&node, "gpus = \"0-1\"\n");
    assert_eq!(node.granted(""), "");
}

#[test]
fn uuids_need_no_gres_conf() {
    let node = Node::permuted(&job());
    node.write("etc/slurm/gres.conf", "AutoDetect=nvml\n");
    record(&node, "gpus = \"0,2\"\n");
    assert_eq!(node.granted(""), "");
    record(&node, "gpus = \"0,2\"\nuuids = \"GPU-1a,MIG-2b\"\n");
    assert_eq!(node.granted(""), "hook GPU-1a MIG-2b");
    record(&node, "gpus = \"0\"\nuuids = \"GPU-1a,MIG-2b\"\n");
    assert_eq!(node.granted(""), "", "more than were given");
}

/// What the program says is exact, and nothing else counts.
#[test]
fn beside_a_program_nothing_else_is_said() {
    let node = Node::permuted(&job());
    record(&node, "gpus = \"0,2\"\n");
    node.program(&job(), 354, &[(1, true)]);
    let lines = node.read("");
    assert_eq!(granted(&lines), "");
    assert_eq!(of(&lines, "slurm_job_device_info").len(), 1);
}

/// One of another user, of another SLUID, or of another node of this host.
#[test]
fn a_record_that_is_another_jobs_says_nothing() {
    let node = Node::permuted(&job());
    record(&node, "gpus = \"0\"\nnode = \"n1\"\n");
    assert_eq!(node.granted(""), "", "the cgroup is of n0");
    record(&node, "gpus = \"0\"\nnode = \"n0\"\n");
    assert_eq!(node.granted(""), "hook nvidia2");
    node.task(&format!("{}/step_0/user/task_0", job()), 501, 9, 'S', "");
    let owner = node.dir.path().join("root/proc/501");
    std::os::unix::fs::chown(&owner, Some(1001), None).unwrap();
    assert_eq!(node.granted(""), "");
}

/// slurmd was away when the job ended, and its file is still there.
#[test]
fn files_of_jobs_that_have_ended_give_nobody_anything() {
    let node = Node::permuted(&job());
    node.write("run/gpustat/0", "6\n");
    record(&node, "gpus = \"1\"\n");
    let settings = "mapping = [{ dir = \"/run/gpustat\", names = \"position\" }]";
    node.remove(&format!("sys/fs/cgroup/{}", job()));
    assert_eq!(node.read(settings), [""; 0]);
    // A cgroup that Slurm could not remove.
    node.job(&job(), 500);
    node.cgroup(&format!("{}/cgroup.events", job()), "populated 0\n");
    assert_eq!(node.read(settings), [""; 0]);
}

#[test]
fn other_tools_files_count_where_no_hook_tells() {
    let node = Node::permuted(&job());
    let settings = "mapping = [{ dir = \"/run/other\", names = \"minor\" }, { dir = \"/run/gpustat\", names = \"position\" }]";
    for (file, text) in [("0", "7 1000\n"), ("1", "8 1000\n"), ("3", "7 1000\n")] {
        node.write(&format!("run/gpustat/{file}"), text);
    }
    assert_eq!(node.granted(settings), "mapping_file nvidia2 nvidia1");
    assert_eq!(node.granted(""), "");
    record(&node, "gpus = \"1\"\n");
    assert_eq!(node.granted(settings), "hook nvidia3");
}

#[test]
fn a_batch_script_was_told_all_gpus_of_its_job_and_a_step_its_own() {
    let node = Node::permuted(&job());
    let step = |step: &str| format!("{}/step_{step}/user/task_0", job());
    let of_step = "SLURM_JOB_ID=7 SLURM_JOB_GPUS=0,1 SLURMD_NODENAME=n0 SLURM_STEP_GPUS=";
    node.task(&step("0"), 501, 9, 'S', &format!("{of_step}3"));
    node.task(&step("1"), 502, 9, 'S', &format!("{of_step}0"));
    node.task(&step("extern"), 503, 9, 'S', &format!("{of_step}1"));
    assert_eq!(node.granted(""), "step_environment nvidia2 nvidia1");
    node.task(
        &step("batch"),
        504,
        9,
        'S',
        "SLURM_JOB_ID=7 SLURM_JOB_GPUS=0,1,3 SLURMD_NODENAME=n0",
    );
    assert_eq!(node.granted(""), "step_environment nvidia2 nvidia3 nvidia1");
    record(&node, "gpus = \"2\"\n");
    assert_eq!(node.granted(""), "hook nvidia0");
}

/// On every other node of a job SLURM_JOB_GPUS is the first node's list.
#[test]
fn what_a_step_inherits_from_another_node_is_not_its_gpus() {
    let node = Node::permuted(&job());
    let task = format!("{}/step_0/user/task_1", job());
    node.task(
        &task,
        501,
        9,
        'S',
        "SLURM_JOB_ID=7 SLURM_JOB_GPUS=3,4 SLURMD_NODENAME=n0",
    );
    assert_eq!(node.granted(""), "");
    node.task(
        &task,
        502,
        9,
        'S',
        "SLURM_JOB_ID=7 SLURM_JOB_GPUS=3,4 SLURM_STEP_GPUS=0,1 SLURMD_NODENAME=n0",
    );
    assert_eq!(node.granted(""), "step_environment nvidia2 nvidia3");
}

#[test]
fn an_environment_of_another_job_or_node_says_nothing() {
    let node = Node::permuted(&job());
    let task = format!("{}/step_batch/user/task_0", job());
    for (pid, environment) in [
        (501, "SLURM_JOB_ID=8 SLURM_JOB_GPUS=0 SLURMD_NODENAME=n0"),
        (502, "SLURM_JOB_ID=7 SLURM_JOB_GPUS=0 SLURMD_NODENAME=n1"),
        (503, "SLURM_JOB_GPUS=0"),
        (504, "PATH=/bin"),
    ] {
        node.task(&task, pid, 9, 'S', environment);
        assert_eq!(node.granted(""), "", "{environment}");
    }
}

/// Of a task the process that slurmstepd started counts, and not what that has started since.
#[test]
fn the_oldest_process_of_a_task_is_read() {
    let node = Node::permuted(&job());
    let task = format!("{}/step_0/user/task_0", job());
    node.process(501, 20, 'S', "SLURM_JOB_ID=7 SLURM_STEP_GPUS=1");
    node.process(502, 10, 'S', "SLURM_JOB_ID=7 SLURM_STEP_GPUS=0");
    node.cgroup(&format!("{task}/cgroup.procs"), "501\n502\n503\n");
    assert_eq!(node.granted(""), "step_environment nvidia2");
}

/// Reading takes a lock that a thread in state D may hold for ever. What was read once is not read again.
#[test]
fn a_process_that_waits_in_the_kernel_is_left_alone_and_each_is_read_once() {
    let node = Node::permuted(&job());
    let task = format!("{}/step_0/user/task_0", job());
    let of = |gpus: &str| format!("SLURM_JOB_ID=7 SLURM_STEP_GPUS={gpus}");
    let mut devices = node.open("");
    let mut jobs = devices.scan().unwrap();
    node.task(&task, 501, 9, 'D', &of("0"));
    assert_eq!(granted(&read(&mut jobs[0])), "");
    node.process(501, 9, 'S', &of("0"));
    let waiting = "502 (x) D 1";
    node.write("proc/501/task/502/stat", waiting);
    assert_eq!(granted(&read(&mut jobs[0])), "", "one of its threads");
    node.remove("proc/501/task/502");
    assert_eq!(granted(&read(&mut jobs[0])), "step_environment nvidia2");
    node.process(501, 9, 'D', &of("1"));
    assert_eq!(granted(&read(&mut jobs[0])), "step_environment nvidia2");
    // Another process that was given the number.
    node.process(501, 10, 'S', &of("1"));
    assert_eq!(granted(&read(&mut jobs[0])), "step_environment nvidia3");
}

/// A process that slurmstepd has forked bears slurmstepd's name and environment until it starts its program.
#[test]
fn a_task_that_has_not_started_its_program_is_read_when_it_has() {
    let node = Node::permuted(&job());
    let task = format!("{}/step_0/user/task_0", job());
    let mut devices = node.open("");
    let mut jobs = devices.scan().unwrap();
    node.task(&task, 501, 9, 'S', "SLURMD_NODENAME=n0");
    let daemon = format!("501 (slurmstepd) S {}9 0 0", "0 ".repeat(18));
    node.write("proc/501/stat", &daemon);
    assert_eq!(granted(&read(&mut jobs[0])), "");
    node.process(501, 9, 'S', "");
    assert_eq!(granted(&read(&mut jobs[0])), "");
    node.process(501, 9, 'S', "SLURM_JOB_ID=7 SLURM_STEP_GPUS=0");
    assert_eq!(granted(&read(&mut jobs[0])), "step_environment nvidia2");
}

/// As 22.05 has them then; one that is empty is usual.
#[test]
fn without_constrained_devices_all_tasks_of_a_step_are_in_one_folder() {
    let node = Node::permuted(&job());
    let task = format!("{}/step_batch/user/task_special", job());
    node.task(
        &task,
        501,
        9,
        'S',
        "SLURM_JOB_ID=7 SLURM_JOB_GPUS=1 SLURMD_NODENAME=n0",
    );
    assert_eq!(node.granted(""), "step_environment nvidia3");
    node.cgroup(&format!("{task}/cgroup.procs"), "");
    assert_eq!(node.granted(""), "");
}

#[test]
fn under_v1_tasks_are_in_the_hierarchy_that_has_them() {
    let node = Node::permuted("unused");
    node.remove("sys/fs/cgroup/cgroup.controllers");
    let job = "slurm_n0/uid_1000/job_7";
    node.cgroup(&format!("freezer/{job}/step_batch/cgroup.procs"), "500\n501\n");
    let environment = "SLURM_JOB_ID=7 SLURM_JOB_GPUS=1 SLURMD_NODENAME=n0";
    node.task(
        &format!("devices/{job}/step_batch/task_0"),
        501,
        9,
        'S',
        environment,
    );
    assert_eq!(node.granted(""), "step_environment nvidia3");
}

#[test]
fn under_v1_a_step_without_folders_of_tasks_has_them_beside_its_daemon() {
    let node = Node::permuted("unused");
    node.remove("sys/fs/cgroup/cgroup.controllers");
    let step = "freezer/slurm_n0/uid_1000/job_7/step_batch/cgroup.procs";
    node.cgroup(step, "500\n501\n");
    node.process(500, 5, 'S', "SLURM_JOB_ID=7 SLURM_JOB_GPUS=0");
    let daemon = format!("500 (slurmstepd) S {}5 0 0", "0 ".repeat(18));
    node.write("proc/500/stat", &daemon);
    node.process(501, 9, 'S', "SLURM_JOB_ID=7 SLURM_JOB_GPUS=1");
    assert_eq!(node.granted(""), "step_environment nvidia3");
}

/// `--gpus-per-task`: each task is told its own.
#[test]
fn tasks_that_are_bound_to_gpus_have_those_of_all_of_them() {
    let node = Node::permuted(&job());
    let told = |pid: u32, gpu: u32| {
        node.process(pid, 9, 'S', "");
        let environment = format!("SLURM_JOB_ID=7 SLURM_STEP_GPUS={gpu} SLURM_GPUS_ON_NODE=2");
        node.environment(pid, &environment);
    };
    for (task, pid) in [(0, 501), (1, 502)] {
        let folder = format!("{}/step_0/user/task_{task}", job());
        node.cgroup(&format!("{folder}/cgroup.procs"), &format!("{pid}\n"));
    }
    told(501, 3);
    node.process(502, 9, 'D', "");
    assert_eq!(node.granted(""), "", "one of them is not known");
    told(502, 0);
    assert_eq!(node.granted(""), "step_environment nvidia2 nvidia1");
    // A third was told something else, and is not seen.
    node.environment(502, "SLURM_JOB_ID=7 SLURM_STEP_GPUS=0 SLURM_GPUS_ON_NODE=3");
    assert_eq!(node.granted(""), "");
}

#[test]
fn of_tasks_in_one_folder_each_that_slurmstepd_started_is_read() {
    let node = Node::permuted(&job());
    let folder = format!("{}/step_0/user/task_special", job());
    node.cgroup(&format!("{folder}/cgroup.procs"), "501\n502\n503\n");
    let daemon = format!("400 (slurmstepd) S 1 {}5 0 0", "0 ".repeat(17));
    node.write("proc/400/stat", &daemon);
    for (pid, parent, gpu) in [(501, 400, 3), (502, 400, 0), (503, 502, 1)] {
        node.process(pid, 9, 'S', "");
        let stat = format!("{pid} (a) S {parent} {}9 0 0", "0 ".repeat(17));
        node.write(&format!("proc/{pid}/stat"), &stat);
        let environment = format!("SLURM_JOB_ID=7 SLURM_STEP_GPUS={gpu} SLURM_GPUS_ON_NODE=2");
        node.environment(pid, &environment);
    }
    assert_eq!(node.granted(""), "step_environment nvidia2 nvidia1");
}
