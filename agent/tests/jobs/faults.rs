//! Hooks that fail, a slurmd that is dead while a job ends, a frozen controller: no page hangs, and no job is shown
//! with another job's GPU.

use std::collections::BTreeSet;
use std::fs;

use testkit::slurm::SlurmOptions;
use testkit::wait::{self, PATIENCE};

use crate::cluster::{Cluster, Owned, options};
use crate::seen::Seen;

fn watched(options: SlurmOptions) -> Cluster {
    let mut cluster = Cluster::of(options, std::array::from_fn(|i| i));
    cluster.watch(&[]);
    cluster
}

fn shown(seen: &mut Seen, cluster: &Cluster) -> Owned {
    crate::cluster::owners(&seen.look(cluster)).into_keys().collect()
}

#[test]
fn a_prolog_that_fails_takes_nothing_from_the_jobs_that_run() {
    let cluster = watched(SlurmOptions {
        prolog: Some("#!/bin/sh\n[ ! -e \"${0%/*}/broken\" ]\n".into()),
        ..options(1)
    });
    let runs = cluster.slurm.submit("sleep 1000", "gpu:2").unwrap();
    cluster.slurm.wait_running(1, PATIENCE).unwrap();
    let given = cluster.agree(&[runs]);
    fs::write(cluster.slurm.dir().join("etc/broken"), "").unwrap();
    let fails = cluster.slurm.submit("sleep 1000", "gpu:1").unwrap();
    let mut seen = Seen::default();
    let node = cluster.name(0);
    // Slurm then drains the node and requeues the job.
    wait::until_true("the node is drained", PATIENCE, || {
        assert_eq!(shown(&mut seen, &cluster), given);
        cluster.slurm.state(&node).unwrap().contains("DRAIN")
            && cluster.slurm.job_state(fails).unwrap() == "PENDING"
    })
    .unwrap();
    assert_eq!(cluster.agree(&[runs]), given);
}

#[test]
fn a_hook_that_cannot_write_fails_no_job_and_its_gpus_are_still_known() {
    let program = crate::common::program();
    let cluster = watched(SlurmOptions {
        prolog: Some(format!("#!/bin/sh\n{program} hook prolog --run-dir /proc/none\n")),
        epilog: Some(format!("#!/bin/sh\n{program} hook epilog --run-dir /proc/none\n")),
        ..options(1)
    });
    let job = cluster.slurm.submit("sleep 1000", "gpu:2").unwrap();
    cluster.slurm.wait_running(1, PATIENCE).unwrap();
    assert_eq!(cluster.agree(&[job]).len(), 2);
    cluster.slurm.cancel(job).unwrap();
    cluster
        .slurm
        .wait_state(&cluster.name(0), |state| state == "IDLE", PATIENCE)
        .unwrap();
}

#[test]
fn a_job_that_ends_while_slurmd_is_dead_and_the_controller_is_frozen_has_no_gpu_any_more() {
    let mut cluster = watched(options(1));
    let node = cluster.name(0);
    let end = cluster.slurm.dir().join("opened/end");
    let pid = cluster.slurm.dir().join("opened/pid");
    let script = format!(
        "echo $$ >{}; until [ -e {} ]; do sleep 0.1; done",
        pid.display(),
        end.display()
    );
    let ends = cluster.slurm.submit(&script, "gpu:2").unwrap();
    let stays = cluster.slurm.submit("sleep 1000", "gpu:1").unwrap();
    let jobs = cluster.slurm.wait_running(2, PATIENCE).unwrap();
    let script = || fs::read_to_string(&pid).ok()?.strip_suffix('\n')?.parse().ok();
    wait::until_true("the script runs", PATIENCE, || script().is_some()).unwrap();
    let given = cluster.agree(&jobs);
    let left: Owned = given
        .iter()
        .filter(|(_, _, job)| *job == stays)
        .cloned()
        .collect();

    let slurmd = cluster.slurm.slurmd_pid(&node).unwrap();
    cluster.slurm.stop_controller().unwrap();
    cluster.slurm.kill_slurmd(&node).unwrap();
    assert!(testkit::proc::Stat::read(slurmd).is_none_or(|stat| !stat.alive()));
    let mut seen = Seen::default();
    for _ in 0..3 {
        assert_eq!(shown(&mut seen, &cluster), given);
    }
    let script = script().unwrap();
    fs::write(&end, "").unwrap();
    // The step daemon, and so the job, stays until the controller acknowledges the end.
    wait::until_true("the script ends", PATIENCE, || {
        assert_eq!(shown(&mut seen, &cluster), given);
        testkit::proc::Stat::read(script).is_none_or(|stat| !stat.alive())
    })
    .unwrap();
    // The job's extern step stays until a slurmd ends it.
    cluster.slurm.cont_controller().unwrap();
    assert_eq!(shown(&mut seen, &cluster), given);

    // Slurm restarts and allocates the GPUs to another job.
    cluster.slurm.restart_slurmd(&node, crate::cluster::GPUS).unwrap();
    wait::until_true("its GPUs are free, and one job is left", PATIENCE, || {
        let shown = shown(&mut seen, &cluster);
        assert!(shown.is_subset(&given) && shown.is_superset(&left), "{shown:#?}");
        shown == left && cluster.slurm.jobs().is_ok_and(|jobs| jobs.keys().eq([&stays]))
    })
    .unwrap();
    let next = cluster.slurm.submit("sleep 1000", "gpu:7").unwrap();
    let jobs = cluster.slurm.wait_running(2, PATIENCE).unwrap();
    let owned = cluster.agree(&jobs);
    assert_eq!(owned.len(), 8);
    let of = |job| -> BTreeSet<_> { owned.iter().filter(|(_, _, j)| *j == job).collect() };
    assert_eq!((of(ends).len(), of(next).len()), (0, 7));
    assert!(seen.together.is_empty(), "{:?}", seen.together);
}
