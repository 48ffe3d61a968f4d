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
    node.cgroup(&format!("{}/step_0/user/task_0/cgroup.procs", job()), "501\n");
    node.write("proc/501/stat", "");
    let owner = node.dir.path().join("root/proc/501");
    std::os::unix::fs::chown(&owner, Some(1001), None).unwrap();
    assert_eq!(node.granted(""), "");
}

/// A burn-in of root's that runs its programs as other users.
#[test]
fn roots_job_keeps_its_record_whoever_its_tasks_run_as() {
    let node = Node::permuted(&job());
    node.cgroup(&format!("{}/step_0/user/task_0/cgroup.procs", job()), "501\n");
    node.write("proc/501/stat", "");
    let owner = node.dir.path().join("root/proc/501");
    std::os::unix::fs::chown(&owner, Some(1001), None).unwrap();
    let text = "job = 7\nstart = 1795227133.5\nuid = 0\npartition = \"burnin\"\ngpus = \"0\"\n";
    node.write("run/nodewarden/jobs/7.toml", text);
    let lines = node.read("");
    assert_eq!(granted(&lines), "hook nvidia2");
    let owners = of(&lines, "slurm_job_owner_info");
    assert_eq!(owners, ["slurm_job_owner_info 7,0 = 1"]);
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

/// A restart of slurmd, or another gres.conf, changes nothing for jobs that run.
#[test]
fn what_other_tools_files_meant_is_kept_while_they_say_the_same() {
    let node = Node::permuted(&job());
    let mut jobs = node.open("mapping = [{ dir = \"/run/gpustat\", names = \"position\" }]");
    let mut granted = || {
        let lines: Vec<String> = jobs.scan().unwrap().iter_mut().flat_map(read).collect();
        granted(&lines)
    };
    node.write("run/gpustat/0", "7 1000\n");
    assert_eq!(granted(), "mapping_file nvidia2");
    node.write("etc/slurm/gres.conf", "AutoDetect=nvml\n");
    assert_eq!(granted(), "mapping_file nvidia2");
    node.write("run/gpustat/1", "7 1000\n");
    assert_eq!(granted(), "", "positions that are new have no meaning");
}
