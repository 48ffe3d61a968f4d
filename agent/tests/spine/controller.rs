//! A slurmctld or scontrol that is absent or slow, rejects requests, or answers wrongly or with garbage.

use std::time::Duration;

use testkit::fuse_hang::FuseHang;
use testkit::scontrol_wrapper::{Fault, On};

use crate::cluster::Cluster;

/// During `fault` the node is not drained and the daemon stays alive; afterwards it drains.
fn drains_after(on: On, fault: Fault) {
    let mut c = Cluster::new();
    c.set("slurm.timeout=\"2s\"");
    c.start();
    c.wrapper.set(on, fault).unwrap();
    c.xid(3, 79);
    c.until("an incident", |n| !n.open_incidents().is_empty());
    c.until("a failed call", |n| {
        !["none", "drained", "wanted", "writing"].contains(&n.drain_state().as_str())
            || !n.try_view()["drain"]["why"]
                .as_str()
                .unwrap_or_default()
                .is_empty()
    });
    assert!(!c.reason().starts_with("nodewarden:"));
    // Slurm still fails: readers of the verdict file do not wait for Slurm.
    c.until("the verdict does not wait for Slurm", |n| {
        n.cli(&["check"]).0 == Some(1)
    });
    c.wrapper.set(on, Fault::None).unwrap();
    c.wait_drained();
    c.wait_drain_state("drained");
}

#[test]
fn refuses() {
    drains_after(
        On::Update,
        Fault::Fail(1, "slurm_update error: Invalid user id".to_owned()),
    );
}

#[test]
fn lies() {
    drains_after(On::Update, Fault::Lie);
}

#[test]
fn hangs_at_the_write() {
    drains_after(On::Update, Fault::Hang);
}

#[test]
fn hangs_at_the_read() {
    drains_after(On::Show, Fault::Hang);
}

#[test]
fn talks_nonsense() {
    drains_after(On::Show, Fault::Garbage);
}

#[test]
fn answers_about_another_node() {
    let mut c = Cluster::new();
    c.start();
    let fault = Fault::WrongNode {
        from: c.name.clone(),
        to: "other1".to_owned(),
    };
    c.wrapper.set(On::Show, fault).unwrap();
    c.xid(3, 79);
    c.until("noticed", |n| {
        !n.try_view()["drain"]["why"]
            .as_str()
            .unwrap_or_default()
            .is_empty()
    });
    assert_eq!(
        c.updates(),
        0,
        "nothing is written to a node that is not proven to be ours"
    );
}

#[test]
fn slow_but_in_time() {
    let mut c = Cluster::new();
    c.start();
    c.wrapper
        .set(On::Show, Fault::Slow(Duration::from_secs(1)))
        .unwrap();
    c.wrapper
        .set(On::Update, Fault::Slow(Duration::from_secs(1)))
        .unwrap();
    c.xid(3, 79);
    c.wait_drained();
    c.wait_drain_state("drained");
    assert_eq!(c.updates(), 1);
}

#[test]
fn is_stopped_and_goes_on() {
    let mut c = Cluster::new();
    c.set("slurm.timeout=\"2s\"");
    c.start();
    c.slurm.stop_controller().unwrap();
    c.xid(3, 79);
    c.until("noticed", |n| {
        !n.try_view()["drain"]["why"]
            .as_str()
            .unwrap_or_default()
            .is_empty()
    });
    // The verdict follows the record, whose write the disk may delay.
    c.until("unhealthy", |n| n.cli(&["check"]).0 == Some(1));
    c.slurm.cont_controller().unwrap();
    c.wait_drained();
    c.wait_drain_state("drained");
}

#[test]
fn is_away_and_comes_back() {
    let mut c = Cluster::new();
    c.set("slurm.timeout=\"2s\"");
    c.start();
    c.slurm.kill_controller().unwrap();
    c.xid(3, 79);
    c.until("noticed", |n| {
        !n.try_view()["drain"]["why"]
            .as_str()
            .unwrap_or_default()
            .is_empty()
    });
    c.slurm.start_controller().unwrap();
    c.wait_drained();
    c.wait_drain_state("drained");
}

#[test]
fn scontrol_is_missing() {
    let mut c = Cluster::new();
    c.set("slurm.scontrol=\"/nonexistent/scontrol\"");
    c.start();
    c.xid(3, 79);
    c.until("noticed", |n| {
        n.try_view()["drain"]["why"]
            .as_str()
            .unwrap_or_default()
            .contains("/nonexistent/scontrol")
    });
    c.until("unhealthy", |n| n.cli(&["check"]).0 == Some(1));
}

/// The exec itself blocks. Only the command's own process hangs: metrics, verdict and a restart still work.
#[test]
fn scontrol_lies_on_a_dead_mount() {
    let mut c = Cluster::new();
    let mount = c.path("mount");
    std::fs::create_dir(&mount).unwrap();
    let hang = FuseHang::mount(&mount).unwrap();
    let scontrol = hang.add_executable("scontrol", "#!/bin/sh\nexit 0\n");
    c.set(&format!("slurm.scontrol={scontrol:?}"));
    c.set("slurm.timeout=\"1s\"");
    hang.freeze();
    c.start();
    c.xid(3, 79);
    c.until("noticed", |n| {
        !n.try_view()["drain"]["why"]
            .as_str()
            .unwrap_or_default()
            .is_empty()
    });
    // The verdict follows the record, whose write the disk may delay.
    c.until("unhealthy", |n| n.cli(&["check"]).0 == Some(1));
    assert!(c.metrics_text().contains("gpu_xid_errors_total"));
    // A second instance can take over: the stuck child holds neither lock nor port.
    let daemon = c.daemon.take().unwrap();
    daemon.kill9().unwrap();
    c.start();
    c.until("unhealthy", |n| n.cli(&["check"]).0 == Some(1));
}
