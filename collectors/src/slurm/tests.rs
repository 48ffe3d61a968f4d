//! Jobs as their cgroups, processes and programs tell of them: a node of files, with programs beside it.

use std::fmt::Write as _;

use tempfile::TempDir;
use testkit::tree::{self, Entry};

use super::program::tests::gpu_program;
use super::*;
use crate::{Block, MAX_DEVICES, Value};

mod grants;
mod hooks;
mod kept;
mod parts;
mod several;

const SCOPE: &str = "system.slice/n0_slurmstepd.scope";

/// A node whose files are below `root`.
struct Node {
    dir: TempDir,
}

impl Node {
    fn new() -> Self {
        let node = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        node.cgroup("cgroup.controllers", "cpu memory pids\n");
        node
    }

    fn write(&self, path: &str, text: &str) {
        let entry = Entry::File(text.as_bytes().to_vec());
        tree::put(&self.dir.path().join("root").join(path), &entry).unwrap();
    }

    fn cgroup(&self, path: &str, text: &str) {
        self.write(&format!("sys/fs/cgroup/{path}"), text);
    }

    fn remove(&self, path: &str) {
        tree::put(&self.dir.path().join("root").join(path), &Entry::Removed).unwrap();
    }

    /// A job of cgroup v2 with an extern step whose daemon has this number.
    fn job(&self, folder: &str, daemon: u32) {
        self.cgroup(&format!("{folder}/cgroup.events"), "populated 1\nfrozen 0\n");
        self.cgroup(&format!("{folder}/cpu.stat"), "usage_usec 2500000\nuser_usec 1\n");
        self.cgroup(&format!("{folder}/memory.current"), "4096\n");
        self.cgroup(&format!("{folder}/memory.peak"), "8192\n");
        self.cgroup(&format!("{folder}/memory.max"), "max\n");
        self.cgroup(&format!("{folder}/memory.events"), "low 0\noom 3\noom_kill 2\n");
        self.cgroup(&format!("{folder}/pids.current"), "11\n");
        let daemons = format!("{folder}/step_extern/slurm/cgroup.procs");
        self.cgroup(&daemons, &format!("{daemon}\n"));
    }

    fn program(&self, folder: &str, id: u32, gpus: &[(i32, bool)]) {
        let mut hex = String::new();
        for byte in gpu_program(gpus) {
            write!(hex, "{byte:02x}").unwrap();
        }
        self.write(&format!("bpf/{folder}"), &format!("{id} Slurm_Cgroup_v2 {hex}\n"));
    }

    fn devices(&self, settings: &str) -> JobDevices {
        let (env, settings) = (Env::recorded(self.dir.path()), SPEC.settings(settings).unwrap());
        JobDevices::new(&env, &settings, DescriptorBudget::new(64)).unwrap()
    }

    fn open(&self, settings: &str) -> Box<dyn Devices> {
        let env = Env::recorded(self.dir.path());
        open(&env, &SPEC.settings(settings).unwrap())
            .unwrap()
            .unwrap()
            .devices
    }

    /// One reading of all jobs, absent values left out: `slurm_job_tasks 7 = 11`.
    fn read(&self, settings: &str) -> Vec<String> {
        self.open(settings)
            .scan()
            .unwrap()
            .iter_mut()
            .flat_map(read)
            .collect()
    }
}

fn read(job: &mut Box<dyn Device>) -> Vec<String> {
    let mut block = Block::default();
    job.read(&mut block).unwrap();
    block.finish();
    let line = |(series, value): (&crate::Series, Value)| {
        let name = format!("{} {}", series.metric.name, series.labels.join(","));
        match value {
            Value::U64(n) => Some(format!("{name} = {n}")),
            Value::F64(n) => Some(format!("{name} = {n}")),
            Value::Absent => None,
        }
    };
    block.iter().filter_map(line).collect()
}

fn of<'a>(lines: &'a [String], metric: &str) -> Vec<&'a str> {
    let of = |line: &&str| line.split(' ').next() == Some(metric);
    lines.iter().map(String::as_str).filter(of).collect()
}

#[test]
fn a_job_is_what_its_cgroup_says() {
    let node = Node::new();
    node.job(&format!("{SCOPE}/job_7"), 500);
    node.program(
        &format!("{SCOPE}/job_7"),
        354,
        &[(0, true), (1, true), (2, false)],
    );
    node.cgroup(&format!("{SCOPE}/slurmd/cgroup.procs"), "9\n");
    assert_eq!(
        node.read(""),
        [
            "slurm_job_info 7,,,,,, = 1",
            "slurm_job_folder_info 7,job_7, = 1",
            "slurm_job_cpu_seconds_total 7 = 2.5",
            "slurm_job_memory_bytes 7 = 4096",
            "slurm_job_memory_peak_bytes 7 = 8192",
            "slurm_job_oom_kills_total 7 = 2",
            "slurm_job_tasks 7 = 11",
            "slurm_job_devices_info 7, = 1",
            "slurm_job_device_info 7,nvidia0 = 1",
            "slurm_job_device_info 7,nvidia1 = 1",
        ]
    );
}

#[test]
fn processors_and_anonymous_memory_are_read_where_their_controllers_are_enabled() {
    let values = |node: &Node| {
        let lines = node.read("");
        ["slurm_job_cpus", "slurm_job_memory_anonymous_bytes"]
            .map(|metric| {
                of(&lines, metric)
                    .into_iter()
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            })
            .concat()
    };
    let node = Node::new();
    let job = format!("{SCOPE}/job_7");
    node.job(&job, 500);
    assert_eq!(values(&node), [""; 0]);
    node.cgroup(&format!("{job}/cpuset.cpus.effective"), "0-15,112-127\n");
    node.cgroup(
        &format!("{job}/memory.stat"),
        "anon 1024\nfile 8192\ninactive_anon 4096\n",
    );
    let expected = [
        "slurm_job_cpus 7 = 32",
        "slurm_job_memory_anonymous_bytes 7 = 1024",
    ];
    assert_eq!(values(&node), expected);
    for odd in ["\n", "0-\n", "x\n"] {
        node.cgroup(&format!("{job}/cpuset.cpus.effective"), odd);
        node.cgroup(&format!("{job}/memory.stat"), odd);
        assert_eq!(values(&node), [""; 0], "{odd:?}");
    }

    let node = Node::new();
    node.remove("sys/fs/cgroup/cgroup.controllers");
    let job = "slurm_n0/uid_1000/job_7";
    node.cgroup(&format!("freezer/{job}/step_0/cgroup.procs"), "500\n");
    node.cgroup(&format!("cpuset/{job}/cpuset.cpus"), "\n");
    node.cgroup(&format!("cpuset/{job}/cpuset.effective_cpus"), "0-31\n");
    node.cgroup(
        &format!("memory/{job}/memory.stat"),
        "cache 0\nrss 0\ntotal_cache 8192\ntotal_rss 1024\n",
    );
    assert_eq!(values(&node), expected);
}

/// The kernel adds up counters of all processors for one of them.
#[test]
fn files_that_cost_more_are_read_seldom() {
    let node = Node::new();
    let job = format!("{SCOPE}/job_7");
    node.job(&job, 500);
    let mut devices = node.open("").scan().unwrap();
    read(&mut devices[0]);
    // Not before a job's values may be older.
    node.cgroup(&format!("{job}/cpuset.cpus.effective"), "0-15\n");
    node.cgroup(&format!("{job}/memory.stat"), "anon 1024\n");
    let lines = read(&mut devices[0]);
    assert_eq!(of(&lines, "slurm_job_cpus"), [""; 0]);
    assert_eq!(of(&lines, "slurm_job_memory_anonymous_bytes"), [""; 0]);
}

#[test]
fn disks_of_a_job_have_their_names_where_the_controller_counts_them() {
    let disks = |node: &Node| {
        let mut lines = node.read("");
        lines.retain(|line| line.starts_with("slurm_job_disk_"));
        lines
    };
    let node = Node::new();
    let job = format!("{SCOPE}/job_7");
    node.job(&job, 500);
    assert_eq!(disks(&node), [""; 0]);
    let link = Entry::Link("../../devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1".to_owned());
    tree::put(&node.dir.path().join("root/sys/dev/block/259:0"), &link).unwrap();
    node.cgroup(
        &format!("{job}/io.stat"),
        "259:0 rbytes=8192 wbytes=4096 rios=2 wios=1 dbytes=0 dios=0\n253:1 rbytes=1 wbytes=2 rios=1 wios=1\n7:0\n",
    );
    assert_eq!(
        disks(&node),
        [
            "slurm_job_disk_read_bytes_total 7,nvme0n1 = 8192",
            "slurm_job_disk_written_bytes_total 7,nvme0n1 = 4096",
            "slurm_job_disk_read_bytes_total 7,253:1 = 1",
            "slurm_job_disk_written_bytes_total 7,253:1 = 2",
        ]
    );
}

#[test]
fn version_1_tells_the_user_and_no_devices() {
    let node = Node::new();
    node.remove("sys/fs/cgroup/cgroup.controllers");
    let job = "slurm_n0/uid_1000/job_7";
    node.cgroup(&format!("freezer/{job}/step_0/cgroup.procs"), "500\n");
    node.cgroup(&format!("cpuacct/{job}/cpuacct.usage"), "1500000000\n");
    node.cgroup(&format!("memory/{job}/memory.usage_in_bytes"), "4096\n");
    // Each step counts its own there.
    node.cgroup(
        &format!("memory/{job}/memory.oom_control"),
        "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n",
    );
    // None, where pages have 4 KiB and where they have 64.
    for limit in ["9223372036854771712\n", "9223372036854710272\n"] {
        node.cgroup(&format!("memory/{job}/memory.limit_in_bytes"), limit);
        assert_eq!(
            node.read(""),
            [
                "slurm_job_info 7,1000,,,,, = 1",
                "slurm_job_owner_info 7,1000 = 1",
                "slurm_job_folder_info 7,job_7, = 1",
                "slurm_job_cpu_seconds_total 7 = 1.5",
                "slurm_job_memory_bytes 7 = 4096",
                "slurm_job_devices_info 7,none = 1",
            ]
        );
    }
    node.cgroup(&format!("memory/{job}/memory.limit_in_bytes"), "8589934592\n");
    assert_eq!(
        of(&node.read(""), "slurm_job_memory_limit_bytes"),
        ["slurm_job_memory_limit_bytes 7 = 8589934592"]
    );
}

/// Slurm cannot always remove a cgroup.
#[test]
fn a_cgroup_without_processes_is_no_job() {
    let node = Node::new();
    node.job(&format!("{SCOPE}/job_9"), 500);
    node.program(&format!("{SCOPE}/job_9"), 1, &[(0, true)]);
    node.cgroup(&format!("{SCOPE}/job_9/cgroup.events"), "populated 0\n");
    assert_eq!(node.read(""), [""; 0]);
}

/// As before an error "no space left on device" of the cgroup filesystem.
#[test]
fn thousands_of_cgroups_without_processes_take_no_places_of_jobs() {
    let node = Node::new();
    node.job(&format!("{SCOPE}/job_99999"), 500);
    for job in 1..=MAX_DEVICES {
        node.cgroup(&format!("{SCOPE}/job_{job}/cgroup.events"), "populated 0\n");
    }
    assert_eq!(node.open("").scan().unwrap().len(), 1);

    let node = Node::new();
    node.remove("sys/fs/cgroup/cgroup.controllers");
    let job = |number: usize, pids: &str| {
        let list = format!("freezer/slurm/uid_1000/job_{number}/step_extern/cgroup.procs");
        node.cgroup(&list, pids);
    };
    job(99_999, "500\n");
    for number in 1..=MAX_DEVICES {
        job(number, "");
    }
    assert_eq!(node.open("").scan().unwrap().len(), 1);
}

/// Slurm's `sleep` of an extern step outlives a slurmstepd that is killed.
#[test]
fn a_cgroup_without_a_slurmstepd_is_no_job_though_a_task_is_left() {
    let node = Node::new();
    let job = format!("{SCOPE}/job_9");
    node.job(&job, 500);
    node.write("proc/500/comm", "slurmstepd\n");
    let task = format!("{job}/step_extern/user/task_special/cgroup.procs");
    node.cgroup(&task, "501\n");
    node.write("proc/501/comm", "sleep\n");
    let mut devices = node.open("");
    let mut jobs = devices.scan().unwrap();
    let mut tasks = || of(&read(&mut jobs[0]), "slurm_job_tasks").len();
    assert_eq!((tasks(), tasks()), (1, 1));
    // Another step began meanwhile: the job goes on.
    let list = |step: &str| format!("{job}/{step}/slurm/cgroup.procs");
    node.cgroup(&list("step_0"), "502\n");
    node.cgroup(&list("step_extern"), "\n");
    assert_eq!(tasks(), 1);
    node.cgroup(&list("step_0"), "\n");
    assert_eq!(tasks(), 0);
    // Its list cannot be read: that is no end.
    node.remove(&format!("sys/fs/cgroup/{}", list("step_0")));
    node.cgroup(&format!("{}/x", list("step_0")), "");
    let mut block = Block::default();
    jobs[0].read(&mut block).unwrap_err();
}

#[test]
fn under_version_1_a_task_whose_slurmstepd_is_gone_is_no_job() {
    let node = Node::new();
    node.remove("sys/fs/cgroup/cgroup.controllers");
    let job = "freezer/slurm_n0/uid_1000/job_7";
    node.cgroup(&format!("{job}/cgroup.procs"), "500\n");
    node.cgroup(&format!("{job}/step_extern/cgroup.procs"), "501\n");
    node.write("proc/500/comm", "slurmstepd\n");
    assert_eq!(of(&node.read(""), "slurm_job_info").len(), 1);
    node.cgroup(&format!("{job}/cgroup.procs"), "\n");
    assert_eq!(of(&node.read(""), "slurm_job_info").len(), 1, "501 may be one");
    node.write("proc/501/comm", "sleep\n");
    assert_eq!(node.read(""), [""; 0]);
}

#[test]
fn a_sluid_is_read_as_the_number_that_its_daemons_bear() {
    let node = Node::new();
    node.job(&format!("{SCOPE}/sFR5M7XZ5Z3000"), 500);
    assert_eq!(node.read(""), [""; 0], "until there is a number nothing is said");
    node.write("proc/500/cmdline", "slurmstepd: [12.extern]\0\0");
    assert_eq!(of(&node.read(""), "slurm_job_tasks"), ["slurm_job_tasks 12 = 11"]);
}

#[test]
fn each_of_several_slurmds_sees_its_own_jobs() {
    let node = Node::new();
    for (host, id) in [("n0", 1), ("n1", 2), ("n10", 3)] {
        node.job(&format!("system.slice/{host}_slurmstepd.scope/job_{id}"), 500);
    }
    let tasks = |settings: &str| of(&node.read(settings), "slurm_job_tasks").len();
    assert_eq!(tasks(""), 3);
    assert_eq!(
        of(&node.read("node = \"n1\""), "slurm_job_tasks"),
        ["slurm_job_tasks 2 = 11"]
    );
    // A build without names has one slurmd.
    node.job("system.slice/slurmstepd.scope/job_4", 500);
    assert_eq!(tasks("node = \"n1\""), 2);
}

#[test]
fn a_slurmd_in_a_pod_and_in_a_slice_of_its_own_are_found() {
    let node = Node::new();
    let pod =
        "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1a.slice/cri-containerd-7f.scope";
    node.job(&format!("{pod}/system.slice/slurmstepd.scope/job_5"), 500);
    node.job("foo.slice/n0_slurmstepd.scope/job_6", 501);
    let id = "0123456789abcdef0123456789abcdef";
    node.job(
        &format!("kubepods/besteffort/pod-7/{id}/system.slice/slurmstepd.scope/job_7"),
        502,
    );
    assert_eq!(of(&node.read(""), "slurm_job_tasks").len(), 3);
}

/// By which processes of the pod beside the job are known as those of its slurmd's pod.
#[test]
fn a_job_of_a_slurmd_in_a_pod_has_the_uid_of_the_pod() {
    let node = Node::new();
    let pod = "kubepods.slice/kubepods-pod1a2b3c4d_0000_4000_8000_00000000abcd.slice/cri-containerd-7f.scope";
    node.job(&format!("{pod}/system.slice/slurmstepd.scope/job_5"), 500);
    assert_eq!(
        of(&node.read(""), "slurm_job_folder_info"),
        ["slurm_job_folder_info 5,job_5,1a2b3c4d-0000-4000-8000-00000000abcd = 1"]
    );
}

/// As CRI-O, crun, podman, and a kubelet with a root of its own or another driver than containerd's make them.
#[test]
fn a_slurmd_in_a_pod_of_any_runtime_is_found() {
    let id = "0123456789abcdef0123456789abcdef";
    let slices = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1a.slice";
    for pod in [
        format!("{slices}/crio-{id}.scope/container"),
        format!("machine.slice/libpod-{id}.scope/container"),
        format!("kubepods/burstable/pod1a/crio-{id}"),
        format!(
            "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod1a.slice/crio-{id}.scope/container"
        ),
        format!("kubelet/kubepods/burstable/pod1a/{id}"),
        format!("system.slice/containerd.service/kubepods-burstable-pod1a.slice:cri-containerd:{id}"),
        format!("runtime.slice/containerd.service/kubepods-burstable-pod1a.slice:cri-containerd:{id}"),
        format!(
            "system.slice/docker-{id}.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod1a.slice/crio-{id}.scope/container"
        ),
    ] {
        let node = Node::new();
        let job = format!("{pod}/system.slice/slurmstepd.scope/job_5");
        node.job(&job, 500);
        assert_eq!(of(&node.read(""), "slurm_job_tasks").len(), 1, "{pod}");
        assert!(cgroup::SlurmCgroup::of(&job).is_some(), "{pod}");
    }
    for path in [
        "container/slurmstepd.scope",
        "foo.slice/container/slurmstepd.scope",
        "system.slice/mine.service/kubepods-a.slice:b:c/slurmstepd.scope",
        "user.slice/containerd.service/kubepods-a.slice:b:c/slurmstepd.scope",
    ] {
        let node = Node::new();
        node.job(&format!("{path}/job_5"), 500);
        assert_eq!(node.read(""), [""; 0], "{path}");
    }
}

/// Where no rights are, and where the kernel hides instructions, it is said why.
#[test]
fn what_no_program_tells_has_its_reason() {
    let node = Node::new();
    let job = format!("{SCOPE}/job_7");
    node.job(&job, 500);
    for (answer, reason) in [
        ("none", "none"),
        ("error EPERM", "denied"),
        ("1 Slurm_Cgroup_v2 withheld", "withheld"),
        ("1 sd_devices 6112000000000000", "foreign"),
    ] {
        node.write(&format!("bpf/{job}"), answer);
        let lines = node.read("");
        assert_eq!(
            of(&lines, "slurm_job_devices_info"),
            [format!("slurm_job_devices_info 7,{reason} = 1")]
        );
        assert_eq!(of(&lines, "slurm_job_device_info"), [""; 0]);
    }
}

#[test]
fn jobs_that_come_and_go_are_seen_at_the_next_reading() {
    let node = Node::new();
    node.job(&format!("{SCOPE}/job_1"), 500);
    let mut devices = node.open("");
    let mut jobs = devices.scan().unwrap();
    assert_eq!(jobs.len(), 1);
    assert!(!devices.changed());
    node.job(&format!("{SCOPE}/job_2"), 501);
    assert!(devices.changed());
    assert_eq!(devices.scan().unwrap().len(), 2);
    // Requeued under its number: another folder, and no longer what the old device is about.
    let root = node.dir.path().join("root");
    // Kept elsewhere, or the new one may be given its inode.
    std::fs::rename(
        root.join(format!("sys/fs/cgroup/{SCOPE}/job_1")),
        root.join("elsewhere"),
    )
    .unwrap();
    node.job(&format!("{SCOPE}/job_1"), 502);
    assert!(devices.changed());
    assert_eq!(read(&mut jobs[0]), [""; 0]);
}

#[test]
fn settings_that_cannot_be_are_refused() {
    for (settings, expected) in [
        ("user = \"hash\"", "needs a salt"),
        (
            "max_jobs = 0",
            "max_jobs: found integer 0, expected a number from 1 to 1024",
        ),
        (
            "max_jobs = 1025",
            "max_jobs: found integer 1025, expected a number from 1 to 1024",
        ),
        ("hooks = \"jobs\"", "expected an absolute path"),
        ("gres_conf = \"gres.conf\"", "expected an absolute path"),
        (
            "mapping = [{ dir = \"x\", names = \"uuid\" }]",
            "mapping: found string \"x\", expected an absolute path",
        ),
        (
            "mapping = [{ dir = \"/x\", names = \"index\" }]",
            "found string \"index\", expected \"position\", \"minor\" or \"uuid\"",
        ),
        (
            "mapping = [{ dir = \"/x\" }]",
            "found a table without names, expected a table with dir and names",
        ),
        (
            "user = \"email\"",
            "slurm.jobs.user: found string \"email\", expected \"uid\", \"name\", \"hash\" or \"off\"",
        ),
        (
            "users = 1",
            "unknown key slurm.jobs.users, did you mean slurm.jobs.user?",
        ),
    ] {
        let error = SPEC.settings(settings).unwrap_err().to_string();
        assert!(error.contains(expected), "{settings}: {error}");
    }
    SPEC.settings("user = \"hash\"\nsalt = \"s\"").unwrap();
    assert_eq!(max_jobs(&Settings::default()).unwrap(), MAX_JOBS);
}
