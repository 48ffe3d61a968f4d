//! ConstrainDevices=no: Slurm attaches nothing that could be read.

use std::fs;

use testkit::slurm::{Cgroups, SlurmOptions};
use testkit::wait::{self, PATIENCE};

use crate::cluster::{Cluster, label, options, owners};

#[test]
fn without_constrained_devices_only_what_computes_is_known() {
    let free = SlurmOptions {
        cgroups: Some(Cgroups {
            constrain_devices: false,
        }),
        ..options(1)
    };
    let mut cluster = Cluster::of(free, std::array::from_fn(|i| i));
    let node = cluster.name(0);
    let busy = cluster.slurm.submit("exec sleep 1000", "gpu:2").unwrap();
    let idle = cluster.slurm.submit("exec sleep 1000", "gpu:2").unwrap();
    let jobs = cluster.slurm.wait_running(2, PATIENCE).unwrap();
    let tasks = cluster
        .slurm
        .job_cgroup(&node, busy)
        .unwrap()
        .join("step_batch/user");
    let pid = wait::until("a process of the job", PATIENCE, || {
        let folders = fs::read_dir(&tasks).into_iter().flatten().flatten();
        let procs = folders.filter_map(|f| fs::read_to_string(f.path().join("cgroup.procs")).ok());
        let pid = procs.collect::<String>();
        Ok(pid.lines().next().and_then(|pid| pid.parse().ok()))
    });
    // It computes on a GPU that is not even its own: nobody keeps it from that.
    cluster.watch(&[(6, pid.unwrap())]);
    cluster.wait_reasons("none", &cluster.places(&jobs));
    let expected = [((node, label(6), busy), ("process".to_owned(), 1.0))].into();
    wait::until_true("the process is seen", PATIENCE, || {
        let shown = owners(&cluster.pages());
        assert!(!shown.keys().any(|(_, _, job)| *job == idle), "{shown:?}");
        shown == expected
    })
    .unwrap();
}
