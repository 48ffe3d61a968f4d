//! Blocked processes of jobs: which make a finding, and its text.

use super::host::Tasks;
use super::jobs::job;
use super::sim::*;
use crate::Mode;

/// A thread of process 500 that reads a file on NFS, after this number of context switches.
fn reads(switches: u64, killed: bool) -> [String; 9] {
    let killed = if killed { "1" } else { "" };
    [
        "500",
        "502",
        "123456",
        &switches.to_string(),
        "python3",
        killed,
        "rpc_wait_bit_killable",
        "read /home/ada/data.bin",
        "nfs4 /home",
    ]
    .map(str::to_owned)
}

fn show(sim: &mut Sim, threads: &[[String; 9]]) {
    sim.host.tasks = vec![Tasks {
        job: "7",
        threads: threads.to_vec(),
    }];
}

/// A node with job 7, whose threads have waited for this time.
fn node(threads: &[[String; 9]], seconds: u64) -> Sim {
    let mut sim = Sim::new(Mode::Drain);
    sim.host.jobs = vec![job("7", &[])];
    show(&mut sim, threads);
    sim.pass(seconds);
    sim
}

#[test]
fn a_process_that_a_kill_does_not_end_is_found_with_its_mount_and_ends_with_it() {
    let mut sim = node(&[reads(42, true)], 60);
    assert!(sim.incidents().is_empty(), "a minute of patience");
    sim.pass(60);
    assert_eq!(sim.incidents(), ["cannot be killed on nfs4 open"]);
    let view = sim.engine.view();
    let finding = &view.incidents[0].findings[0];
    assert_eq!(finding.jobs, ["7"]);
    let line = finding.evidence.join("; ");
    let expected = "python3 (pid 500) in read /home/ada/data.bin (nfs4 /home), rpc_wait_bit_killable, for ";
    assert!(
        line.contains(expected) && line.contains("after SIGKILL"),
        "{line}"
    );
    assert_eq!((sim.slurm.drains, sim.slurm.comment.is_some()), (0, true));
    show(&mut sim, &[]);
    sim.pass(120);
    assert_eq!(sim.incidents(), ["cannot be killed on nfs4 cleared"]);
}

#[test]
fn one_that_was_not_killed_may_wait_five_minutes() {
    let mut sim = node(&[reads(42, false)], 300);
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
    sim.pass(60);
    assert_eq!(sim.incidents(), ["does not go on, waits on nfs4 open"]);
}

/// Every reading shows the same function, as for a program that reads much from a slow disk.
#[test]
fn one_that_runs_in_between_is_never_found() {
    let mut sim = node(&[reads(0, false)], 0);
    for switches in 1..100 {
        show(&mut sim, &[reads(switches, switches > 50)]);
        sim.pass(15);
    }
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
}

/// The server is back, and the job reads much from its disk.
#[test]
fn one_that_goes_on_is_over_though_it_waits_for_a_moment_again_and_again() {
    let mut sim = node(&[reads(42, true)], 120);
    assert_eq!(sim.incidents(), ["cannot be killed on nfs4 open"]);
    for switches in 100..120 {
        show(&mut sim, &[reads(switches, false)]);
        sim.pass(15);
    }
    assert_eq!(sim.incidents(), ["cannot be killed on nfs4 cleared"]);
}

#[test]
fn a_driver_is_named_by_its_device_and_no_path_of_a_user_is_in_a_detail() {
    let of = |call: &str, mount: &str, wchan: &str| {
        let mut thread = reads(42, true);
        (thread[6], thread[7], thread[8]) = (wchan.to_owned(), call.to_owned(), mount.to_owned());
        node(&[thread], 120).incidents().join(" ")
    };
    assert_eq!(
        of("ioctl /dev/nvidia3", "devtmpfs /dev", "os_acquire_mutex"),
        "cannot be killed on /dev/nvidia3 open"
    );
    // What a user may name: files below /dev too, and the second part of a type.
    assert_eq!(
        of("read /dev/shm/ada", "tmpfs /dev/shm", ""),
        "cannot be killed on tmpfs open"
    );
    assert_eq!(
        of("read /home/ada/x", "fuse.ada /home/ada", ""),
        "cannot be killed on fuse open"
    );
    assert_eq!(
        of("open", "", "rpc_wait_bit_killable"),
        "cannot be killed in rpc_wait_bit_killable open"
    );
    assert_eq!(of("", "", ""), "cannot be killed open");
}

#[test]
fn what_cannot_be_read_ends_nothing_and_the_end_of_the_job_does() {
    let mut sim = node(&[reads(42, true)], 120);
    let open = ["cannot be killed on nfs4 open"];
    assert_eq!(sim.incidents(), open);
    sim.host.tasks.clear();
    sim.pass(600);
    assert_eq!(sim.incidents(), open);
    sim.host.jobs.clear();
    sim.pass(120);
    assert_eq!(sim.incidents(), ["cannot be killed on nfs4 cleared"]);
}
