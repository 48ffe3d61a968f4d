//! ConstrainDevices=no: the GPUs that Slurm gave a job's prolog, where gres.conf has the devices in another order.

use std::collections::BTreeSet;

use testkit::slurm::{Cgroups, SlurmOptions};
use testkit::wait::PATIENCE;

use crate::cluster::{Cluster, label, options};
use crate::hooks::Hooks;
use crate::order::{ORDER, devices};

fn free(nodes: usize) -> SlurmOptions {
    SlurmOptions {
        gres_conf: Some(format!("AutoDetect=off\nName=gpu Type=h100 File={}\n", devices())),
        cgroups: Some(Cgroups {
            constrain_devices: false,
            ..Cgroups::default()
        }),
        ..options(nodes)
    }
}

/// Jobs of which one has GPUs at other positions on its second node than on its first, and one has none, whatever its
/// environment was to say. Returns them, and the second node of the former.
fn submit(cluster: &Cluster) -> (Vec<u32>, String) {
    let [n0, n1] = [0, 1].map(|i| cluster.name(i));
    let sbatch = |args: &[&str]| cluster.slurm.sbatch(args).unwrap();
    sbatch(&["--gres=gpu:3", "-w", &n0, "--wrap", "exec sleep 1000"]);
    cluster.slurm.wait_running(1, PATIENCE).unwrap();
    let both = format!("{n0},{n1}");
    let two = sbatch(&[
        "-N2",
        "-n2",
        "--gres=gpu:2",
        "-w",
        &both,
        "--wrap",
        "srun -N2 -n2 sleep 1000",
    ]);
    sbatch(&[
        "-w",
        &n1,
        "--export=ALL,SLURM_JOB_GPUS=5,SLURM_STEP_GPUS=5",
        "--wrap",
        "exec sleep 1000",
    ]);
    let jobs = cluster.slurm.wait_running(3, PATIENCE).unwrap();
    let positions = cluster.slurm.job_gpus(two).unwrap();
    assert_ne!(positions[&n0], positions[&n1]);
    (jobs, n1)
}

#[test]
fn what_its_prolog_was_told_is_a_jobs_on_each_of_its_nodes() {
    let (hooks, options) = Hooks::of(free(2));
    let mut cluster = Cluster::of(options, ORDER);
    cluster.has_gres_conf = true;
    cluster.watch(&[]);
    hooks.link(&cluster);
    let (jobs, other) = submit(&cluster);
    let given = cluster.agree_by(&jobs, "hook");
    let there: BTreeSet<&str> = given
        .iter()
        .filter(|(n, ..)| *n == other)
        .map(|(_, gpu, _)| gpu.as_str())
        .collect();
    assert_eq!(there, [label(2).as_str(), label(3).as_str()].into());
    assert_eq!(given.len(), 3 + 2 + 2);
    cluster.wait_reasons("none", &cluster.places(&jobs));
    assert_eq!(hooks.errors(), "");
}

#[test]
fn shards_that_prologs_are_told_of_are_parts_of_the_same_gpu() {
    let gres = format!(
        "AutoDetect=off\nName=gpu Type=h100 File={}\nName=shard Count=32\n",
        devices()
    );
    let (hooks, options) = Hooks::of(SlurmOptions {
        gres_conf: Some(gres),
        node_gres: Some("gpu:h100:8,shard:32".into()),
        extra_conf: "GresTypes=gpu,shard".into(),
        ..free(1)
    });
    let mut cluster = Cluster::of(options, ORDER);
    cluster.has_gres_conf = true;
    cluster.watch(&[]);
    hooks.link(&cluster);
    for (gres, parts) in [("gpu:1", 1), ("shard:2", 2), ("shard:1", 1)] {
        let job = cluster.slurm.submit("exec sleep 1000", gres).unwrap();
        cluster.parts.insert(job, parts);
        let jobs = cluster.slurm.jobs().unwrap().len();
        cluster.slurm.wait_running(jobs, PATIENCE).unwrap();
    }
    let jobs = cluster.slurm.wait_running(3, PATIENCE).unwrap();
    let given = cluster.agree_by(&jobs, "hook");
    let gpus: BTreeSet<&String> = given.iter().map(|(_, gpu, _)| gpu).collect();
    assert_eq!((given.len(), gpus.len()), (3, 2), "{given:#?}");
}
