//! Several slurmds, and several hierarchies.

use super::*;

#[test]
fn a_name_that_two_slurmds_use_says_that_there_is_a_job_and_nothing_else() {
    let node = Node::new();
    for host in ["n0", "n1"] {
        let job = format!("system.slice/{host}_slurmstepd.scope/job_7");
        node.job(&job, 500);
        node.program(&job, 354, &[(0, true)]);
    }
    node.write("run/nodewarden/jobs/7.toml", "job = 7\nstart = 1.5\nuid = 1000\n");
    let only = [
        "slurm_job_info 7,,,,,, = 1",
        "slurm_job_devices_info 7,ambiguous = 1",
    ];
    assert_eq!(node.read(""), only);
    // Of which one has no processes left: whose the other's number is has not become clear by that.
    node.cgroup(
        "system.slice/n0_slurmstepd.scope/job_7/cgroup.events",
        "populated 0\n",
    );
    assert_eq!(node.read(""), only);
    node.cgroup(
        "system.slice/n1_slurmstepd.scope/job_7/cgroup.events",
        "populated 0\n",
    );
    assert_eq!(node.read(""), [""; 0]);
}

#[test]
fn a_slurmd_whose_node_is_known_has_its_own_job_of_a_name_that_another_uses_too() {
    let node = Node::new();
    for (host, gpu) in [("n0", 0), ("n1", 1)] {
        let job = format!("system.slice/{host}_slurmstepd.scope/job_7");
        node.job(&job, 500);
        node.program(&job, 354, &[(gpu, true)]);
    }
    let lines = node.read("node = \"n1\"");
    assert_eq!(
        of(&lines, "slurm_job_device_info"),
        ["slurm_job_device_info 7,nvidia1 = 1"]
    );
}

#[test]
fn under_v1_a_name_that_two_slurmds_use_is_ambiguous_too() {
    let node = Node::new();
    node.remove("sys/fs/cgroup/cgroup.controllers");
    for top in ["slurm_n0/uid_1000", "slurm_n1/uid_1001"] {
        node.cgroup(&format!("freezer/{top}/job_7/step_0/cgroup.procs"), "500\n");
    }
    let only = [
        "slurm_job_info 7,,,,,, = 1",
        "slurm_job_devices_info 7,ambiguous = 1",
    ];
    assert_eq!(node.read(""), only);
}

#[test]
fn a_job_in_both_versions_of_cgroups_is_one_job_and_version_2_says_more() {
    let node = Node::new();
    node.cgroup("freezer/slurm_n0/uid_1000/job_7/step_0/cgroup.procs", "500\n");
    node.job(&format!("{SCOPE}/job_7"), 500);
    node.program(&format!("{SCOPE}/job_7"), 354, &[(3, true)]);
    let lines = node.read("");
    assert_eq!(
        of(&lines, "slurm_job_device_info"),
        ["slurm_job_device_info 7,nvidia3 = 1"]
    );
    assert_eq!(of(&lines, "slurm_job_tasks"), ["slurm_job_tasks 7 = 11"]);
}

#[test]
fn an_empty_folder_of_slurms_hides_no_jobs_of_another_hierarchy() {
    let node = Node::new();
    node.remove("sys/fs/cgroup/cgroup.controllers");
    node.cgroup("freezer/slurm/cgroup.procs", "");
    node.cgroup("freezer/slurm/uid_1000/cgroup.procs", "");
    let mut devices = node.open("");
    assert!(devices.scan().unwrap().is_empty());
    node.cgroup("devices/slurm_n0/uid_1000/job_7/step_0/cgroup.procs", "500\n");
    assert!(devices.changed());
    let lines: Vec<String> = devices.scan().unwrap().iter_mut().flat_map(read).collect();
    assert_eq!(of(&lines, "slurm_job_info"), ["slurm_job_info 7,1000,,,,, = 1"]);
}

/// Of cpuacct, Slurm 22.05 has only the tasks of a job.
#[test]
fn a_folder_that_is_left_in_one_hierarchy_hides_no_later_job() {
    let node = Node::new();
    node.remove("sys/fs/cgroup/cgroup.controllers");
    for hierarchy in ["cpu,cpuacct", "cpuacct"] {
        node.cgroup(
            &format!("{hierarchy}/slurm/uid_1/job_9/step_0/task_0/cgroup.procs"),
            "",
        );
    }
    let mut devices = node.open("");
    assert!(devices.scan().unwrap().iter_mut().flat_map(read).next().is_none());
    node.cgroup("cpuacct/slurm/uid_1/job_15/step_0/task_0/cgroup.procs", "501\n");
    node.cgroup("freezer/slurm/uid_1/job_15/step_0/cgroup.procs", "500\n501\n");
    assert!(devices.changed());
    let lines: Vec<String> = devices.scan().unwrap().iter_mut().flat_map(read).collect();
    assert_eq!(of(&lines, "slurm_job_info"), ["slurm_job_info 15,1,,,,, = 1"]);
}

/// A job's folders are removed one after the other.
#[test]
fn a_job_whose_folder_is_gone_from_its_hierarchy_has_ended_though_another_still_has_it() {
    let node = Node::new();
    node.remove("sys/fs/cgroup/cgroup.controllers");
    for hierarchy in ["freezer", "devices"] {
        node.cgroup(
            &format!("{hierarchy}/slurm/uid_1000/job_7/step_0/cgroup.procs"),
            "500\n",
        );
    }
    let mut devices = node.open("");
    assert_eq!(devices.scan().unwrap().len(), 1);
    node.remove("sys/fs/cgroup/freezer/slurm/uid_1000/job_7");
    assert!(devices.scan().unwrap().is_empty());
}

/// As Slurm 22.05 leaves a job that has its allocation only.
#[test]
fn under_v1_a_job_whose_daemon_is_in_its_own_folder_alone_is_alive() {
    let node = Node::new();
    node.remove("sys/fs/cgroup/cgroup.controllers");
    node.cgroup("freezer/slurm/uid_1000/job_7/cgroup.procs", "12022\n");
    node.cgroup("freezer/slurm/uid_1000/job_7/step_extern/cgroup.procs", "");
    assert_eq!(
        of(&node.read(""), "slurm_job_info"),
        ["slurm_job_info 7,1000,,,,, = 1"]
    );
}

#[test]
fn a_job_whose_processes_cannot_be_listed_has_not_ended() {
    let node = Node::new();
    node.remove("sys/fs/cgroup/cgroup.controllers");
    node.cgroup("freezer/slurm/uid_1000/job_7/step_0/cgroup.procs/x", "");
    let mut jobs = node.open("").scan().unwrap();
    jobs[0].read(&mut Block::default()).unwrap_err();
}

/// A scope outside of system.slice is searched for once a minute.
#[test]
fn the_jobs_of_a_scope_that_cannot_be_looked_at_have_not_ended() {
    let node = Node::new();
    let slice = "kubepods.slice/system.slice";
    node.job(&format!("{slice}/slurmstepd.scope/job_7"), 500);
    let mut devices = node.open("");
    assert_eq!(devices.scan().unwrap().len(), 1);
    node.remove(&format!("sys/fs/cgroup/{slice}"));
    node.cgroup(slice, "no folder");
    assert!(devices.scan().is_err());
    assert!(!devices.changed());
    node.remove(&format!("sys/fs/cgroup/{slice}"));
    assert!(devices.scan().unwrap().is_empty());
}

#[test]
fn a_folder_that_cannot_be_listed_hides_no_jobs_beside_it() {
    let node = Node::new();
    node.cgroup("kubepods.slice/a.slice", "no folder");
    node.job("kubepods.slice/b.slice/system.slice/slurmstepd.scope/job_7", 500);
    let mut devices = node.open("");
    assert_eq!(devices.scan().unwrap().len(), 1);
    // No job of slurmd's default path is known then.
    node.cgroup("system.slice", "no folder");
    assert!(devices.scan().is_err());
}

#[test]
fn a_scope_below_the_slice_of_users_is_not_slurms() {
    let node = Node::new();
    node.job("user.slice/user-1000.slice/slurmstepd.scope/job_5", 500);
    node.job("user.slice/slurmstepd.scope/job_6", 500);
    assert_eq!(node.read(""), [""; 0]);
}
