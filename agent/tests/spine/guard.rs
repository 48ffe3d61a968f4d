//! The cluster's limit on drains and the pause, on a real slurmctld.

use std::process::Command;
use std::time::Duration;

use testkit::scontrol_wrapper::{Fault, On};

use crate::cluster::Cluster;
use crate::common::program;

fn scontrol(c: &Cluster, args: &[&str]) -> String {
    c.slurm.scontrol(args).unwrap().ok().unwrap().stdout
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

/// The partition of the test cluster, as slots name it.
fn partition(c: &Cluster) -> String {
    let text = scontrol(c, &["show", "partition", "-o"]);
    let name = text.strip_prefix("PartitionName=").unwrap();
    name.split(' ').next().unwrap().to_owned()
}

#[test]
fn a_drain_has_a_slot_that_names_the_node_and_touches_no_job() {
    let mut c = Cluster::guarded();
    c.start();
    c.xid(3, 119);
    c.wait_drained();
    c.wait_drain_state("drained");
    let slots = c.reservations();
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
    c.clear(&id, "test");
    c.wait_undrained();
    assert_eq!(c.reservations(), slots);
}

#[test]
fn a_drain_without_a_free_slot_is_held_shown_and_written_when_one_is_free() {
    let mut c = Cluster::guarded();
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
        c.delete(name);
    }
}

/// On this machine only: the subcommand runs its scontrol.
#[test]
fn here_an_operator_pauses_the_cluster_and_ends_it_with_one_command() {
    let mut c = Cluster::guarded();
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
    let pause = c.reservations();
    assert!(pause[0].contains(" Features=by root: network work "), "{pause:?}");
    assert!(pause[0].contains(" Duration=01:00:00 "), "{pause:?}");
    ok(
        &c,
        &["pause", "--cluster", "--for", "3h", "--reason", "takes longer"],
    );
    assert!(
        c.reservations()[0].contains(" Duration=03:00:0"),
        "{:?}",
        c.reservations()
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

/// The command of docs/operations/slurm.md for who has no nodewarden at hand.
#[test]
fn a_pause_that_an_operator_makes_with_scontrol_holds_until_it_is_deleted() {
    let mut c = Cluster::guarded();
    scontrol(
        &c,
        &[
            "create",
            "reservation",
            "ReservationName=nodewarden-pause",
            "StartTime=now",
            "Duration=120",
            "Users=root",
            "Flags=ANY_NODES",
            "BurstBuffer=nodewarden:0",
            "Features=by alice: network work",
        ],
    );
    c.start();
    c.xid(3, 119);
    c.wait_drain_state("held");
    let why = c.view()["drain"]["why"].as_str().unwrap().to_owned();
    assert!(why.contains("by alice: network work"), "{why}");
    assert_eq!((c.is_drained(), c.reservations().len()), (false, 1));
    c.delete("nodewarden-pause");
    c.wait_drained();
}

#[test]
fn an_operator_pauses_the_node_and_a_stop_file_stops_it() {
    let mut c = Cluster::guarded();
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

/// slurmctld writes its state at most every 5 s: what follows a write is only in memory. Both are lost together.
#[test]
fn a_slurmctld_that_is_killed_right_after_a_drain_and_has_lost_it_gets_it_again() {
    let mut c = Cluster::guarded();
    c.seldom();
    c.set("slurm.watch=\"2s\"");
    c.start();
    c.settle();
    // A write of another change just before.
    std::thread::sleep(Duration::from_secs(6));
    scontrol(&c, &["update", &format!("NodeName={}", c.name), "Comment=before"]);
    c.until("that change is stored", |_| {
        std::fs::read(c.slurm.dir().join("state/node_state"))
            .is_ok_and(|state| state.windows(6).any(|word| word == b"before"))
    });
    c.xid(3, 119);
    let first = c.wait_drained();
    c.slurm.kill_controller().unwrap();
    assert_eq!(c.drains(), 1);
    c.slurm.start_controller().unwrap();
    c.until("drained a second time", |_| c.drains() == 2);
    assert_eq!(c.wait_drained(), first, "the same incident");
    c.wait_drain_state("drained");
    let slots = c.reservations();
    assert_eq!(slots.len(), 1, "it had to take a slot again: {slots:?}");
    let overridden = c.incidents().iter().any(|i| i["state"] == "overridden");
    assert!(!overridden, "a loss is no decision of a person");
}

#[test]
fn a_slurmctld_that_is_killed_after_it_stored_the_drain_has_it_still() {
    let mut c = Cluster::guarded();
    c.start();
    c.settle();
    std::thread::sleep(Duration::from_secs(6));
    c.xid(3, 119);
    c.wait_drained();
    c.wait_drain_state("drained");
    c.until("the drain is stored", |_| {
        std::fs::read(c.slurm.dir().join("state/node_state"))
            .is_ok_and(|state| state.windows(11).any(|word| word == b"nodewarden:"))
    });
    c.slurm.kill_controller().unwrap();
    c.slurm.start_controller().unwrap();
    assert!(c.is_drained());
    c.wait_looks(3);
    assert_eq!((c.drains(), c.drain_state().as_str()), (1, "drained"));
}

/// `config check` on a node says whether its drains would get a slot.
#[test]
fn config_check_creates_a_reservation_and_deletes_it() {
    let c = Cluster::guarded();
    let check = |more: &[String]| {
        let mut command = Command::new(program());
        command.args(["config", "check"]).args(&c.args).args(more);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let said = check(&[]);
    assert!(
        said.ends_with("drain slots: Slurm creates, lists and deletes reservations\n"),
        "{said}"
    );
    assert!(
        said.contains(&format!("Slurm node: {} is this machine\n", c.name)),
        "{said}"
    );
    let calls = c.wrapper.calls().unwrap();
    let created = calls.iter().filter(|call| call.args[0] == "create").count();
    assert_eq!((created, c.reservations().len()), (1, 0));

    c.wrapper.set_at("show reservation", 1, Fault::Garbage).unwrap();
    let said = check(&[]);
    assert!(
        said.contains("drain slots: every drain would be held:")
            && said.contains("expected ReservationName="),
        "{said}"
    );
    assert!(c.reservations().is_empty(), "it is deleted all the same");

    let refused = Fault::Fail(1, "Error creating the reservation: Invalid user id".to_owned());
    c.wrapper.set(On::Create, refused).unwrap();
    let said = check(&[]);
    assert!(
        said.contains("drain slots: every drain would be held:") && said.contains("Invalid user id"),
        "{said}"
    );
    let off = ["--set", "health.guard.mode=\"off\""].map(str::to_owned);
    assert!(!check(&off).contains("drain slots"));
}

/// Another node has other limits: its slots count, and the difference is a series.
#[test]
fn limits_that_differ_between_nodes_are_a_series() {
    let mut c = Cluster::guarded();
    c.start();
    c.settle();
    let name = format!("nodewarden--{}--xid119--2", partition(&c));
    scontrol(
        &c,
        &[
            "create",
            "reservation",
            &format!("ReservationName={name}"),
            "StartTime=now",
            "Duration=10",
            "Users=root",
            "Flags=ANY_NODES",
            "BurstBuffer=nodewarden:0",
            "Features=othernode 50/5%/3/5%/600s",
        ],
    );
    c.xid(3, 119);
    c.wait_drained();
    c.until("differing limits", |c| {
        c.metric("nodewarden_guard_limits_differ", &[]) == Some(1.0)
    });
}
