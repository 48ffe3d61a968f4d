//! The cluster's limit on drains and the pause, on a real slurmctld.

use std::process::Command;
use std::time::Duration;

use crate::cluster::Cluster;
use crate::common::program;

/// A cluster of one node: two drains of all causes are allowed within the window.
fn guarded() -> Cluster {
    let mut c = Cluster::new();
    c.set("health.guard.mode=\"on\"");
    c
}

fn scontrol(c: &Cluster, args: &[&str]) -> String {
    c.slurm.scontrol(args).unwrap().ok().unwrap().stdout
}

fn reservations(c: &Cluster) -> Vec<String> {
    let text = scontrol(c, &["show", "reservation", "-o"]);
    text.lines()
        .filter(|line| line.starts_with("ReservationName="))
        .map(str::to_owned)
        .collect()
}

/// A slot of this name that another node holds.
fn take(c: &Cluster, name: &str) {
    scontrol(
        c,
        &[
            "create",
            "reservation",
            &format!("ReservationName={name}"),
            "StartTime=now",
            "Duration=10",
            "Users=root",
            "Flags=ANY_NODES",
            "BurstBuffer=nodewarden:0",
            "Features=othernode 10/5%/3/5%/600s",
        ],
    );
}

fn delete(c: &Cluster, name: &str) {
    scontrol(c, &["delete", &format!("ReservationName={name}")]);
}

/// The partition of the test cluster, as slots name it.
fn partition(c: &Cluster) -> String {
    let text = scontrol(c, &["show", "partition", "-o"]);
    let name = text.strip_prefix("PartitionName=").unwrap();
    name.split(' ').next().unwrap().to_owned()
}

#[test]
fn a_drain_has_a_slot_that_names_the_node_and_touches_no_job() {
    let mut c = guarded();
    c.start();
    c.xid(3, 119);
    c.wait_drained();
    c.wait_drain_state("drained");
    let slots = reservations(&c);
    assert_eq!(slots.len(), 1);
    assert!(
        slots[0].starts_with(&format!(
            "ReservationName=nodewarden--{}--xid119--",
            partition(&c)
        )),
        "{slots:?}"
    );
    assert!(
        slots[0].contains(&format!(" Features={} 10/5%/3/5%/600s ", c.name)),
        "{slots:?}"
    );
    assert!(slots[0].contains(" Nodes=(null) NodeCnt=0 "), "{slots:?}");
    assert_eq!(c.metric("nodewarden_guard_limits_differ", &[]), Some(0.0));
    // A lift frees none.
    let id = c.open_incidents()[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(c.cli(&["clear", &id, "--reason", "test"]).0, Some(0));
    c.wait_undrained();
    assert_eq!(reservations(&c), slots);
}

#[test]
fn a_drain_without_a_free_slot_is_held_shown_and_written_when_one_is_free() {
    let mut c = guarded();
    c.start();
    c.settle();
    let partition = partition(&c);
    let names: Vec<String> = (1..=2)
        .map(|n| format!("nodewarden--{partition}--xid119--{n}"))
        .collect();
    for name in &names {
        take(&c, name);
    }
    c.xid(3, 119);
    c.wait_drain_state("held");
    let why = c.view()["drain"]["why"].as_str().unwrap().to_owned();
    assert!(why.contains("drain slots"), "{why}");
    assert_eq!(c.metric("nodewarden_drain_held", &[("by", "guard")]), Some(1.0));
    c.until("the Comment says it", |_| {
        let comment = c
            .slurm
            .node(&c.name)
            .unwrap()
            .get("Comment")
            .unwrap_or_default()
            .to_owned();
        comment.contains("held by the limit on drains")
    });
    // Another cause that proves one device broken has slots of its own.
    c.xid(4, 79);
    let reason = c.wait_drained();
    assert!(reason.contains("xid79"), "{reason}");
    for name in &names {
        delete(&c, name);
    }
}

#[test]
fn an_operator_pauses_the_cluster_and_ends_it_with_one_command() {
    let mut c = guarded();
    c.start();
    c.settle();
    let cli = |c: &Cluster, args: &[&str]| {
        let mut command = Command::new(program());
        command
            .args(args)
            .env("SLURM_CONF", c.slurm.conf())
            .output()
            .unwrap()
            .status
            .success()
    };
    let ok = |c: &Cluster, args: &[&str]| assert!(cli(c, args), "{args:?}");
    ok(
        &c,
        &["pause", "--cluster", "--for", "1h", "--reason", "network work"],
    );
    let pause = reservations(&c);
    assert!(pause[0].contains(" Features=by root: network work "), "{pause:?}");
    assert!(pause[0].contains(" Duration=01:00:00 "), "{pause:?}");
    ok(
        &c,
        &["pause", "--cluster", "--for", "3h", "--reason", "takes longer"],
    );
    assert!(
        reservations(&c)[0].contains(" Duration=03:00:0"),
        "{:?}",
        reservations(&c)
    );
    c.xid(3, 119);
    c.wait_drain_state("held");
    assert!(
        c.view()["drain"]["why"]
            .as_str()
            .unwrap()
            .contains("by root: network work")
    );
    assert!(!c.is_drained());
    ok(&c, &["resume", "--cluster", "--reason", "done"]);
    c.wait_drained();
    assert!(
        !cli(&c, &["resume", "--cluster", "--reason", "again"]),
        "nothing to end"
    );
}

#[test]
fn an_operator_pauses_the_node_and_a_stop_file_stops_it() {
    let mut c = guarded();
    let stop = c.path("stop");
    c.set(&format!("health.guard.stop_files=[{stop:?}]"));
    c.start();
    c.settle();
    assert_eq!(c.cli(&["pause", "--for", "1h", "--reason", "upgrade"]).0, Some(0));
    c.xid(3, 119);
    c.wait_drain_state("held");
    assert_eq!(c.metric("nodewarden_paused", &[]), Some(1.0));
    std::fs::write(&stop, "").unwrap();
    assert_eq!(c.cli(&["resume", "--reason", "done"]).0, Some(0));
    c.until("held by the file", |c| {
        c.view()["drain"]["why"]
            .as_str()
            .unwrap_or_default()
            .ends_with("exists")
    });
    assert!(!c.is_drained());
    std::fs::remove_file(&stop).unwrap();
    c.wait_drained();
}

#[test]
fn a_crash_of_slurmctld_that_loses_drain_and_slot_ends_in_one_drain() {
    let mut c = guarded();
    c.start();
    c.settle();
    c.xid(3, 119);
    c.wait_drained();
    c.slurm.kill_controller().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    c.slurm.start_controller().unwrap();
    c.until("drained after the crash", |_| {
        c.is_drained() && c.reason().starts_with("nodewarden:")
    });
    c.wait_drain_state("drained");
    assert_eq!(
        c.incidents()
            .iter()
            .filter(|i| i["state"] == "overridden")
            .count(),
        0
    );
}
