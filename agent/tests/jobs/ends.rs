//! Jobs that end, and Slurm daemons that do not answer.

use std::collections::BTreeSet;

use testkit::wait::{self, PATIENCE};

use crate::cluster::{Cluster, ENDS, Owned, owners};

#[test]
fn no_query_goes_to_slurm_and_ended_jobs_disappear() {
    let mut cluster = Cluster::new(2);
    let [n0, n1] = [0, 1].map(|i| cluster.name(i));
    let submit = |args: &[&str]| {
        let args = [args, &["--wrap", "sleep 1000"]].concat();
        cluster.slurm.sbatch(&args).unwrap()
    };
    let short = submit(&["--gres=gpu:4", "-w", &n0]);
    let long = submit(&["--gres=gpu:1", "-N2"]);
    let jobs = cluster.slurm.wait_running(2, PATIENCE).unwrap();
    let given = cluster.agree(&jobs);

    // A cgroup that Slurm could not remove is not a running job.
    let stale = cluster.slurm.job_cgroup(&n0, 4711).unwrap();
    std::fs::create_dir(&stale).unwrap();

    // A frozen controller, and a slurmd that has ended.
    cluster.slurm.stop_controller().unwrap();
    cluster.slurm.kill_slurmd(&n1).unwrap();
    for _ in 0..3 {
        let shown: BTreeSet<_> = owners(&cluster.pages()).into_keys().collect();
        assert_eq!(shown, given);
    }
    cluster.slurm.cont_controller().unwrap();

    cluster.slurm.cancel(short).unwrap();

    let left: BTreeSet<_> = given.iter().filter(|(_, _, job)| *job == long).cloned().collect();
    wait::until_true("the job's GPUs are free", PATIENCE, || {
        let shown: BTreeSet<_> = owners(&cluster.pages()).into_keys().collect();
        assert!(shown.is_subset(&given) && shown.is_superset(&left), "{shown:#?}");
        shown == left
    })
    .unwrap();
    // slurmstepd ends only after its report to a controller that was frozen until now.
    let folder = cluster.slurm.job_cgroup(&n0, short).unwrap();
    wait::until_true("Slurm has removed the job's cgroup", ENDS, || !folder.exists()).unwrap();
    // No series of the job is left.
    let of_ended = || -> Vec<_> {
        let pages = cluster.pages().into_values().flatten();
        pages
            .filter(|s| s.label("jobid").is_some_and(|job| job != long.to_string()))
            .map(|s| (s.name, s.labels))
            .collect()
    };
    wait::while_moving("series of ended jobs", PATIENCE, &Vec::new(), of_ended).unwrap();
    assert_eq!(cluster.agree(&[long]), left);
}

#[test]
fn a_job_that_is_requeued_has_the_gpus_of_its_new_start() {
    let cluster = Cluster::new(1);
    let submit = |gres: &str| cluster.slurm.submit("sleep 1000", gres).unwrap();
    let scontrol = |args: &[&str]| cluster.slurm.scontrol(args).unwrap().ok().unwrap();
    let first = submit("gpu:2");
    cluster.slurm.wait_running(1, PATIENCE).unwrap();
    let before = cluster.agree(&[first]);
    scontrol(&["requeuehold", &first.to_string()]);
    wait::until_true("no job has a GPU", PATIENCE, || {
        owners(&cluster.pages()).is_empty()
    })
    .unwrap();
    let second = submit("gpu:1");
    cluster.slurm.wait_job(second, "RUNNING", PATIENCE).unwrap();
    // Slurm delays a requeued job by two minutes.
    scontrol(&["update", &format!("JobId={first}"), "StartTime=now"]);
    scontrol(&["release", &first.to_string()]);
    let jobs = cluster.slurm.wait_running(2, PATIENCE).unwrap();
    let after = cluster.agree(&jobs);
    let of = |owned: &Owned| -> Owned {
        owned
            .iter()
            .filter(|(_, _, job)| *job == first)
            .cloned()
            .collect()
    };
    assert_eq!(of(&after).len(), 2);
    assert_ne!(of(&after), before);
}
