//! A slurmstepd that is killed: what it leaves in the job's cgroup is no job.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::slurm::{Cgroups, SlurmOptions, Version, cgroups};
use testkit::wait::{self, PATIENCE};

use crate::cluster::{Cluster, options, owners};

/// The processes in a cgroup and those below it that have this name.
fn named(cgroup: &Path, name: &str) -> Vec<i32> {
    let mut found = Vec::new();
    let list = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    for pid in list.lines() {
        let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        found.extend((comm.trim() == name).then(|| pid.parse::<i32>().unwrap()));
    }
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(named(&entry.path(), name));
        }
    }
    found
}

/// The folder of a job in which its processes are listed.
fn folder(cluster: &Cluster, version: Version, job: u32) -> PathBuf {
    let node = cluster.name(0);
    match version {
        Version::V2 => cluster.slurm.job_cgroup(&node, job).unwrap(),
        Version::V1 => format!("/sys/fs/cgroup/freezer/slurm_{node}/uid_0/job_{job}").into(),
    }
}

fn kill_daemons(folder: &Path, many: usize) {
    let daemons = wait::until("its slurmstepds", PATIENCE, || {
        let daemons = named(folder, "slurmstepd");
        Ok((daemons.len() == many).then_some(daemons))
    });
    for pid in daemons.unwrap() {
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    }
}

fn job_infos(cluster: &Cluster) -> BTreeMap<u32, usize> {
    let mut jobs = BTreeMap::new();
    for sample in cluster.pages().values().flatten() {
        if sample.name == "slurm_job_info" {
            *jobs.entry(crate::cluster::job(sample)).or_default() += 1;
        }
    }
    jobs
}

/// Slurm starts `sleep 100000000` in an extern step. Only its slurmstepd ends it.
fn what_is_left_of_an_extern_step_is_no_job(version: Version) {
    let mut cluster = Cluster::of(
        SlurmOptions {
            cgroups: Some(Cgroups {
                version,
                ..Cgroups::default()
            }),
            gres_conf: Some(
                "AutoDetect=off\nName=gpu Type=h100 File=@DEV@/nvidia[0-7]\nName=shard Count=32\n".into(),
            ),
            node_gres: Some("gpu:h100:8,shard:32".into()),
            extra_conf: "GresTypes=gpu,shard".into(),
            ..options(1)
        },
        std::array::from_fn(|i| i),
    );
    cluster.watch(&[]);
    let submit = || cluster.slurm.submit("exec sleep 1000", "shard:1").unwrap();
    let (ends, stays) = (submit(), submit());
    cluster.slurm.wait_running(2, PATIENCE).unwrap();
    wait::until_true("both are shown", PATIENCE, || {
        job_infos(&cluster).keys().eq([&ends, &stays])
    })
    .unwrap();
    let left = folder(&cluster, version, ends);
    // Those of the extern step and of the batch script. Of the other job none is touched.
    kill_daemons(&left, 2);
    cluster.slurm.cancel(ends).unwrap();
    cluster.slurm.wait_running(1, PATIENCE).unwrap();
    wait::until_true("the job is over", PATIENCE, || {
        assert!(!named(&left, "sleep").is_empty(), "a process is left");
        job_infos(&cluster).keys().eq([&stays])
    })
    .unwrap();
    // The other one has its GPU alone again.
    if version == Version::V2 {
        let shares = owners(&cluster.pages());
        let jobs: Vec<_> = shares
            .iter()
            .map(|((_, _, job), (_, share))| (*job, *share))
            .collect();
        assert_eq!(jobs, [(stays, 1.0)]);
    }
    // A restarted slurmd ends no slurmstepd: a job that runs goes on.
    let node = cluster.name(0);
    cluster.slurm.kill_slurmd(&node).unwrap();
    cluster.slurm.restart_slurmd(&node, crate::cluster::GPUS).unwrap();
    assert!(job_infos(&cluster).keys().eq([&stays]));
    for pid in named(&left, "sleep") {
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    }
}

#[test]
fn a_sleep_that_its_killed_slurmstepd_left_is_no_job() {
    what_is_left_of_an_extern_step_is_no_job(Version::V2);
}

#[test]
fn under_cgroup_v1_a_sleep_that_its_killed_slurmstepd_left_is_no_job() {
    cgroups::needs_v1().unwrap();
    what_is_left_of_an_extern_step_is_no_job(Version::V1);
}
