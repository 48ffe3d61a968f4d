//! Records of the prolog hook, and their limits.

use super::*;

const RECORD: &str =
    "start = 1795227133.5\nuid = 1000\nuser = \"ada\"\naccount = \"projb\"\npartition = \"gpu\"\n";

fn record(node: &Node, job: u32, more: &str) {
    let file = format!("run/nodewarden/jobs/{job}.toml");
    node.write(&file, &format!("job = {job}\n{RECORD}{more}"));
}

fn info(node: &Node) -> String {
    of(&node.read(""), "slurm_job_info").concat()
}

#[test]
fn what_the_hook_wrote_stands_beside_what_the_kernel_says() {
    let node = Node::new();
    node.job(&format!("{SCOPE}/job_7"), 500);
    node.write(
        "run/nodewarden/jobs/7.toml",
        "job = 7\nstart = 1795227133.5\nuid = 1000\nuser = \"ada\"\naccount = \"projb\"\npartition = \"gpu\"\narray_job = \"5\"\narray_task = \"2\"\n",
    );
    let info = |settings: &str| {
        let lines = node.read(settings);
        of(&lines, "slurm_job_info").concat()
    };
    assert_eq!(info(""), "slurm_job_info 7,1000,projb,gpu,5,2, = 1");
    assert_eq!(info("user = \"name\""), "slurm_job_info 7,ada,projb,gpu,5,2, = 1");
    assert_eq!(info("user = \"off\""), "slurm_job_info 7,,projb,gpu,5,2, = 1");
    let start = node.read("");
    assert_eq!(
        of(&start, "slurm_job_start_time_seconds"),
        ["slurm_job_start_time_seconds 7 = 1795227133.5"]
    );
}

/// Slurm cannot always remove a cgroup, nor end its processes.
#[test]
fn a_job_whose_epilog_has_run_is_over_whatever_is_left_of_it() {
    let node = Node::new();
    node.job(&format!("{SCOPE}/job_7"), 500);
    record(&node, 7, "");
    let mut devices = node.devices("");
    let mut jobs = devices.scan().unwrap();
    let mut infos = || of(&read(&mut jobs[0]), "slurm_job_info").len();
    assert_eq!(infos(), 1);
    node.remove("run/nodewarden/jobs/7.toml");
    assert_eq!(infos(), 1, "that alone is no end");
    devices.common.hooks.end(7, 1_795_227_100.0);
    assert_eq!(infos(), 1, "an earlier run");
    devices.common.hooks.end(7, 1_795_227_133.5);
    assert_eq!(infos(), 0);
}

/// Its inode is the same then. Also without hooks.
#[test]
fn a_run_in_the_cgroup_of_an_earlier_one_that_slurm_could_not_remove_is_another_job() {
    for has_hook in [true, false] {
        let node = Node::new();
        let job = format!("{SCOPE}/job_7");
        let procs = format!("{job}/step_extern/slurm/cgroup.procs");
        let started = |pid: u32, ticks: u32| {
            let stat = format!("{pid} (x) S {0}{ticks} {0}", "0 ".repeat(18));
            node.write(&format!("proc/{pid}/stat"), &stat);
        };
        let file = "run/nodewarden/jobs/7.toml";
        let prolog = |start: &str| node.write(file, &format!("job = 7\nstart = {start}\n"));
        let start = |lines: &[String]| of(lines, "slurm_job_start_time_seconds").concat();
        node.job(&job, 500);
        started(500, 100);
        if has_hook {
            prolog("1795227133.5");
        }
        let mut devices = node.devices("");
        let mut first = devices.scan().unwrap();
        let before = start(&read(&mut first[0]));
        assert!(!before.is_empty());
        // Between two steps.
        node.cgroup(&procs, "");
        assert_eq!(read(&mut first[0]), [""; 0]);
        if has_hook {
            node.cgroup(&procs, "501\n");
            started(501, 500);
            assert_eq!(start(&read(&mut first[0])), before);
            node.remove(file);
            devices.common.hooks.end(7, 1_795_227_133.5);
            assert_eq!(read(&mut first[0]), [""; 0], "its slurmstepd is still there");
        }
        assert!(!devices.changed());
        node.cgroup(&procs, "502\n");
        started(502, 900);
        if has_hook {
            prolog("1795228000.5");
        }
        assert_eq!(read(&mut first[0]), [""; 0], "it has no subject of its own yet");
        assert!(devices.changed());
        let mut second = devices.scan().unwrap();
        assert_eq!(second.len(), 1);
        assert_ne!(first[0].subject(), second[0].subject());
        let after = start(&read(&mut second[0]));
        assert!(!after.is_empty() && after != before, "{after}");
        assert_eq!(read(&mut first[0]), [""; 0]);
        assert!(!devices.changed());
    }
}

/// From two clusters, or from before the numbers restarted.
#[test]
fn a_record_of_another_user_is_not_this_jobs() {
    let node = Node::new();
    let job = format!("{SCOPE}/job_7");
    node.job(&job, 500);
    record(&node, 7, "");
    assert_eq!(info(&node), "slurm_job_info 7,1000,projb,gpu,,, = 1");
    node.cgroup(&format!("{job}/step_0/user/task_0/cgroup.procs"), "501\n");
    node.write("proc/501/stat", "");
    let owner = node.dir.path().join("root/proc/501");
    let owner_is = |uid| std::os::unix::fs::chown(&owner, Some(uid), None).unwrap();
    owner_is(1000);
    assert_eq!(info(&node), "slurm_job_info 7,1000,projb,gpu,,, = 1");
    owner_is(1001);
    assert_eq!(info(&node), "slurm_job_info 7,1001,,,,, = 1");
    assert_eq!(of(&node.read(""), "slurm_job_start_time_seconds"), [""; 0]);
    assert_eq!(of(&node.read(""), "slurm_job_prolog_info"), [""; 0]);
}

#[test]
fn under_v1_the_user_of_a_record_is_that_of_the_path() {
    let node = Node::new();
    node.remove("sys/fs/cgroup/cgroup.controllers");
    node.cgroup("freezer/slurm/uid_1001/job_7/step_0/cgroup.procs", "500\n");
    record(&node, 7, "");
    assert_eq!(info(&node), "slurm_job_info 7,1001,,,,, = 1");
}

#[test]
fn a_record_of_another_sluid_is_not_this_jobs() {
    let node = Node::new();
    node.job(&format!("{SCOPE}/sFR5M7XZ5Z3000"), 500);
    node.write("proc/500/cmdline", "slurmstepd: [12.extern]\0");
    record(&node, 12, "sluid = \"sFR5M7XZ5Z3000\"\n");
    assert_eq!(info(&node), "slurm_job_info 12,1000,projb,gpu,,, = 1");
    record(&node, 12, "sluid = \"sFR5M7XZ5Z3001\"\n");
    assert_eq!(info(&node), "slurm_job_info 12,,,,,, = 1");
}

#[test]
fn a_sluid_whose_daemons_do_not_tell_its_number_is_looked_up_in_the_records() {
    let node = Node::new();
    node.job(&format!("{SCOPE}/sFR5M7XZ5Z3000"), 500);
    record(&node, 11, "sluid = \"sFR5M7XZ5Z3001\"\n");
    node.write("run/nodewarden/jobs/10.toml", "job = 10\nsta");
    assert_eq!(node.read(""), [""; 0]);
    record(&node, 12, "sluid = \"sFR5M7XZ5Z3000\"\n");
    assert_eq!(info(&node), "slurm_job_info 12,1000,projb,gpu,,, = 1");
}
