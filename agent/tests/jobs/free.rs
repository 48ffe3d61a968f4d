//! ConstrainDevices=no, cgroup v1, no right: nothing that could be read.

use std::fs;

use testkit::slurm::{Cgroups, SlurmOptions, Version, cgroups};
use testkit::wait::{self, PATIENCE};

use crate::cluster::{Cluster, label, options, owners, series};

#[test]
fn without_constrained_devices_only_what_computes_is_known() {
    only_what_computes(Cgroups {
        constrain_devices: false,
        ..Cgroups::default()
    });
}

/// Its rules can be written and not read.
#[test]
fn of_cgroup_version_1_only_what_computes_is_known() {
    cgroups::needs_v1().unwrap();
    only_what_computes(Cgroups {
        version: Version::V1,
        ..Cgroups::default()
    });
}

/// The rules are there, and only CAP_SYS_ADMIN may read them.
#[test]
fn without_root_the_rules_are_denied_and_the_jobs_are_shown() {
    let mut cluster = Cluster::of(options(1), std::array::from_fn(|i| i));
    let job = cluster.slurm.submit("sleep 1000", "gpu:2").unwrap();
    let jobs = cluster.slurm.wait_running(1, PATIENCE).unwrap();
    assert_eq!(cluster.given(&jobs).len(), 2);
    // daemon of Debian's passwd.
    cluster.user = Some(1);
    cluster.watch(&[]);
    cluster.wait_reasons("denied", &[(cluster.name(0), job)].into());
    assert!(owners(&cluster.pages()).is_empty());
}

fn only_what_computes(cgroups: Cgroups) {
    let free = SlurmOptions {
        cgroups: Some(cgroups),
        ..options(1)
    };
    let mut cluster = Cluster::of(free, std::array::from_fn(|i| i));
    let node = cluster.name(0);
    let file = cluster.slurm.dir().join("opened/pid");
    let script = format!("echo $$ >{}; exec sleep 1000", file.display());
    let submit = |script: &str| {
        let args = ["--gres=gpu:2", "--uid=daemon", "--wrap", script];
        cluster.slurm.sbatch(&args).unwrap()
    };
    let busy = submit(&script);
    let idle = submit("exec sleep 1000");
    let jobs = cluster.slurm.wait_running(2, PATIENCE).unwrap();
    let pid = wait::until("a process of the job", PATIENCE, || {
        let text = fs::read_to_string(&file).unwrap_or_default();
        Ok(text.strip_suffix('\n').and_then(|pid| pid.parse().ok()))
    });
    // It computes on a GPU that is not even its own: a library of this kind keeps it from nothing.
    cluster.watch(&[(6, pid.unwrap())]);
    cluster.wait_reasons("none", &cluster.places(&jobs));
    let expected = [((node, label(6), busy), ("process".to_owned(), 1.0))].into();
    wait::until_true("the process is seen", PATIENCE, || {
        let shown = owners(&cluster.pages());
        assert!(!shown.keys().any(|(_, _, job)| *job == idle), "{shown:?}");
        shown == expected
    })
    .unwrap();
    let pages = cluster.pages();
    let users = series(&pages, "slurm_job_info").map(|(_, s)| s.label("user").unwrap());
    assert_eq!(users.collect::<Vec<_>>(), ["1", "1"]);
}
