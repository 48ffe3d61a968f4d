//! A job that Slurm cannot end, because a filesystem does not answer.

use std::fs;
use std::time::Duration;

use testkit::fuse_hang::FuseHang;
use testkit::wait::{self, PATIENCE};

use crate::cluster::Cluster;

/// A minute after SIGKILL, seen every half minute, and twice by the health engine.
const FOUND: Duration = Duration::from_secs(300);

#[test]
fn a_job_that_waits_for_a_dead_mount_is_found_with_the_mount() {
    let cluster = Cluster::new(1);
    let name = cluster.name(0);
    let dir = cluster.slurm.dir().join("dead");
    let mount = FuseHang::mount(&dir).unwrap();
    let file = mount.add("data", vec![b'x'; 4096]);
    let [ready, go] = ["ready", "go"].map(|n| cluster.slurm.dir().join(n));
    let script = format!(
        "exec 5<{}; touch {}; while [ ! -e {} ]; do sleep 0.1; done; read line <&5",
        file.display(),
        ready.display(),
        go.display()
    );
    let job = cluster.slurm.sbatch(&["--wrap", &script]).unwrap();
    wait::until_true("the file is open", PATIENCE, || ready.exists()).unwrap();
    mount.freeze_file("data").unwrap();
    fs::write(&go, "").unwrap();
    wait::until_true("the job reads", PATIENCE, || mount.waiting() > 0).unwrap();
    cluster.slurm.cancel(job).unwrap();

    let node = &cluster.nodes[&name];
    let mut shown = Vec::new();
    let found = wait::until("the finding", FOUND, || {
        shown = node.open_incidents();
        let mut findings = shown
            .iter()
            .flat_map(|i| i["findings"].as_array().into_iter().flatten());
        Ok(findings.find(|f| f["check"] == "job-blocked").cloned())
    });
    let finding = found.unwrap_or_else(|e| panic!("{e:#}\n{shown:#?}"));
    assert_eq!(finding["detail"], "cannot be killed on fuse", "{finding:#}");
    let evidence = finding["evidence"].to_string();
    for text in [
        format!("in read {}", file.display()),
        format!(" {})", mount.dir().display()),
    ] {
        assert!(evidence.contains(&text), "{evidence}");
    }
    assert_eq!(finding["jobs"], serde_json::json!([job.to_string()]));
    assert_eq!(
        node.metric("slurm_job_blocked_processes", &[("jobid", &job.to_string())]),
        Some(1.0)
    );
    // A filesystem affects many nodes: only Slurm drains this one.
    assert_eq!(node.drain_state(), "none");

    mount.thaw();
    wait::until_true("no process waits", PATIENCE, || {
        node.metric("slurm_job_blocked_processes", &[("jobid", &job.to_string())])
            .is_none_or(|many| many == 0.0)
    })
    .unwrap();
}
