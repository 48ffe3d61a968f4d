//! Drain slots against a scontrol that is a shell script: see write_tests.rs.

use std::time::Duration;

use super::super::write::tests::Cluster;
use super::*;
use model::scheduler::{IncidentId, Reason};
use slurm::guard::Settings;
use slurm::guard::limits::Standing;

/// A cluster with the limits in force; the node is proven.
fn guarded() -> Cluster {
    let mut cluster = Cluster::new().with_sinfo();
    cluster.slurm.config.guard = Settings {
        on: true,
        drains: 4,
        percent: 100,
        per_code: 2,
        standing: Standing::Nodes(5),
        window: Duration::from_secs(600),
        stop_files: Vec::new(),
    };
    cluster.slurm.look().unwrap();
    cluster.set("argv", "");
    cluster
}

fn slot_of(name: &str, holder: &str, minutes: i64) -> String {
    let at = |minutes: i64| jiff::Timestamp::from_second(wall() + minutes * 60).unwrap();
    let shown = |minutes| at(minutes).strftime("%Y-%m-%dT%H:%M:%S").to_string();
    format!(
        "ReservationName={name} StartTime={} EndTime={} Nodes=(null) Features={holder} 4/100%/2/5/600s \
         PartitionName=(null) State=ACTIVE\n",
        shown(0),
        shown(minutes)
    )
}

/// The slots of the stand-in, without times.
fn slots(cluster: &Cluster) -> Vec<String> {
    let text = cluster.get("reservations");
    let names = text.lines().filter_map(|line| line.split(' ').next());
    names
        .map(|name| name.trim_start_matches("ReservationName=").to_owned())
        .collect()
}

fn held_by(outcome: &Outcome) -> (HeldBy, &str) {
    match outcome {
        Outcome::Held(held) => (held.by, &held.why),
        other => panic!("{other:?}"),
    }
}

fn done(outcome: Outcome) -> Guard {
    match outcome {
        Outcome::Done(node) => node.guard.unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_drain_takes_a_slot_and_six_commands() {
    let mut cluster = guarded();
    let (calls, sinfo) = (cluster.calls(), cluster.sinfo_calls());
    let guard = done(cluster.drain());
    assert_eq!(
        cluster.calls() - calls,
        4,
        "reservations, create, reservations, update"
    );
    assert_eq!(cluster.sinfo_calls() - sinfo, 2, "the partition, the node");
    let slot = guard.slot.clone().unwrap();
    assert!(
        ["nodewarden--gpu--xid-79--1", "nodewarden--gpu--xid-79--2"].contains(&slot.as_str()),
        "{slot}"
    );
    assert_eq!(slots(&cluster), [slot]);
    assert_eq!(
        (guard.slots, guard.taken, guard.standing, guard.most),
        (2, 1, Some(0), 5)
    );
    assert!(!guard.differs);
}

#[test]
fn without_a_free_slot_the_drain_is_held_after_one_command() {
    let mut cluster = guarded();
    let taken =
        slot_of("nodewarden--gpu--xid-79--1", "n7", 5) + &slot_of("nodewarden--gpu--xid-79--2", "n8", 5);
    cluster.set("reservations", &taken);
    let (calls, sinfo) = (cluster.calls(), cluster.sinfo_calls());
    let outcome = cluster.drain();
    let expected = "2 of 2 drain slots for xid.79 of partition gpu are taken";
    assert_eq!(held_by(&outcome), (HeldBy::Guard, expected));
    assert_eq!((cluster.calls() - calls, cluster.sinfo_calls() - sinfo), (1, 0));
    assert!(!cluster.wrote());
}

#[test]
fn drains_for_other_causes_count_for_the_partition() {
    let mut cluster = guarded();
    let others: String = ["a--1", "a--2", "b--1", "b--2"]
        .map(|name| slot_of(&format!("nodewarden--gpu--{name}"), "n7", 5))
        .concat();
    cluster.set("reservations", &others);
    let outcome = cluster.drain();
    assert_eq!(
        held_by(&outcome),
        (HeldBy::Guard, "4 of 4 drain slots of partition gpu are taken")
    );
    assert!(!cluster.wrote());
}

#[test]
fn whoever_counts_too_many_slots_gives_its_own_back() {
    let mut cluster = guarded();
    let calls = cluster.calls();
    // While this node takes the last one, another node takes one more.
    let others: String = ["a--1", "a--2", "b--1"]
        .map(|name| slot_of(&format!("nodewarden--gpu--{name}"), "n7", 5))
        .concat();
    cluster.set("reservations", &others);
    cluster.set("late", &slot_of("nodewarden--gpu--b--2", "n8", 5));
    cluster.hook(calls + 3, "cat late >> reservations");
    assert_eq!(held_by(&cluster.drain()).0, HeldBy::Guard);
    assert_eq!(slots(&cluster).len(), 4, "the own one is gone");
    assert!(!cluster.wrote());
}

#[test]
fn a_name_that_another_node_took_first_is_tried_again_soon() {
    let mut cluster = guarded();
    cluster.slurm.config.guard.per_code = 1;
    cluster.set("late", &slot_of("nodewarden--gpu--xid-79--1", "n8", 5));
    cluster.hook(cluster.calls() + 2, "cat late >> reservations");
    let outcome = cluster.drain();
    assert!(
        matches!(&outcome, Outcome::Failed(why) if why.contains("another node took")),
        "{outcome:?}"
    );
    assert_eq!(held_by(&cluster.drain()).0, HeldBy::Guard);
}

#[test]
fn a_pause_of_the_cluster_holds_a_drain_also_one_that_has_a_slot_already() {
    let mut cluster = guarded();
    cluster.set(
        "pause",
        &slot_of("nodewarden-pause", "by alice: network work", 60),
    );
    cluster.hook(cluster.calls() + 3, "cat pause >> reservations");
    let outcome = cluster.drain();
    let (by, why) = held_by(&outcome);
    assert_eq!(by, HeldBy::Pause);
    assert!(why.contains("by alice: network work"), "{why}");
    let calls = cluster.calls();
    assert_eq!(held_by(&cluster.drain()).0, HeldBy::Pause);
    assert_eq!(cluster.calls() - calls, 1);
    assert!(!cluster.wrote());
    // Its end: the slot that was not used is, and no other one is taken.
    let without: String = cluster
        .get("reservations")
        .lines()
        .filter(|l| !l.contains("pause"))
        .map(|l| format!("{l}\n"))
        .collect();
    cluster.set("reservations", &without);
    let guard = done(cluster.drain());
    assert_eq!(slots(&cluster), [guard.slot.unwrap()]);
}

#[test]
fn an_answer_that_is_lost_is_no_refusal() {
    let mut cluster = guarded();
    cluster.set("mute", "");
    let guard = done(cluster.drain());
    assert_eq!(
        slots(&cluster),
        [guard.slot.unwrap()],
        "it exists, and names this node"
    );
}

#[test]
fn a_slot_that_another_node_has_is_not_deleted_when_the_answer_to_the_own_try_was_lost() {
    let mut cluster = guarded();
    cluster.slurm.config.guard.per_code = 1;
    let other = slot_of("nodewarden--gpu--xid-79--1", "n8", 5);
    cluster.set("late", &other);
    cluster.hook(
        cluster.calls() + 2,
        "cat late >> reservations; echo 'Error creating the reservation: Unexpected message received' >&2; exit 1",
    );
    assert!(matches!(cluster.drain(), Outcome::Failed(_)));
    assert_eq!(held_by(&cluster.drain()).0, HeldBy::Guard);
    assert_eq!(cluster.get("reservations"), other);
    assert!(!cluster.wrote());
}

#[test]
fn the_slot_of_a_drain_whose_answer_was_lost_is_neither_given_back_nor_taken_for_another_drain() {
    let mut cluster = guarded();
    let written = cluster.calls() + 4;
    // The reading after it fails too.
    cluster.hook(written, "echo IDLE+DRAIN > state; echo 'nodewarden:xid.79 gpu3 off the bus act=reboot id=abcdefg2' > reason; touch fails; exit 1");
    cluster.hook(written + 1, "exit 1");
    assert!(matches!(cluster.drain(), Outcome::Unknown(_)));
    let first = slots(&cluster);
    assert_eq!(first.len(), 1);
    std::fs::remove_file(cluster.path("fails")).unwrap();
    assert!(matches!(cluster.drain(), Outcome::Already(_)));
    assert_eq!(slots(&cluster), first);
    assert!(matches!(cluster.undrain(), Outcome::Done(_)));
    done(cluster.drain());
    assert_eq!(slots(&cluster).len(), 2);
}

#[test]
fn a_slot_that_appears_after_its_answer_was_lost_is_found_again() {
    let mut cluster = guarded();
    cluster.slurm.config.guard.per_code = 1;
    let calls = cluster.calls();
    cluster.hook(
        calls + 2,
        "echo 'Error creating the reservation: Unexpected message received' >&2; exit 1",
    );
    let outcome = cluster.drain();
    assert!(
        matches!(&outcome, Outcome::Failed(why) if why.contains("is not there")),
        "{outcome:?}"
    );
    cluster.set("reservations", &slot_of("nodewarden--gpu--xid-79--1", "n0", 10));
    done(cluster.drain());
    assert_eq!(slots(&cluster).len(), 1);
}

#[test]
fn where_slurm_creates_no_reservations_the_drain_is_held_with_its_words() {
    let mut cluster = guarded();
    cluster.hook(
        cluster.calls() + 2,
        "echo 'Error creating the reservation: Invalid user id' >&2; exit 1",
    );
    let outcome = cluster.drain();
    let (by, why) = held_by(&outcome);
    assert_eq!(by, HeldBy::Refused);
    assert!(why.contains("Invalid user id"), "{why}");
    assert!(!cluster.wrote());
}

#[test]
fn as_many_drains_as_may_stand_wait_for_a_person() {
    let mut cluster = guarded();
    cluster.set(
        "others",
        "5|n[3-7]|idle+drain|2026-11-21T03:20:00|nodewarden:xid.79 id=abcdefg3|\n",
    );
    let outcome = cluster.drain();
    let (by, why) = held_by(&outcome);
    assert_eq!(by, HeldBy::Standing);
    assert!(why.starts_with("5 nodes of partition gpu"), "{why}");
    assert!(!cluster.wrote());
    let taken = slots(&cluster);
    assert_eq!(taken.len(), 1);
    cluster.set("others", "5|n[3-7]|idle|Unknown|none|\n");
    assert_eq!(
        done(cluster.drain()).slot.as_ref(),
        taken.first(),
        "the same slot"
    );
}

#[test]
fn nodes_that_a_cloud_could_start_do_not_raise_the_number_of_drains_that_may_stand() {
    let mut cluster = guarded();
    cluster.set("size", "1000");
    cluster.slurm.config.guard.standing = Standing::Percent(5);
    // The size of the partition is read again.
    cluster.slurmd_started(200);
    cluster.slurm.look().unwrap();
    let ours = "19|n[1-19]|idle+cloud+drain|2026-11-21T03:20:00|nodewarden:xid.79 id=abcdefg3|\n";
    let others = |rest: &str| format!("{ours}980|n[20-999]|{rest}|Unknown|none|\n");
    cluster.set("others", &others("idle+cloud+powered_down"));
    let outcome = cluster.drain();
    let (by, why) = held_by(&outcome);
    assert_eq!(by, HeldBy::Standing);
    assert!(why.contains("at most 2 may be"), "{why}");
    assert!(!cluster.wrote());
    cluster.set("others", &others("idle+cloud"));
    assert_eq!(done(cluster.drain()).most, 50);
}

#[test]
fn nodes_that_have_a_slot_and_did_not_write_yet_count_as_standing() {
    let mut cluster = guarded();
    cluster.set(
        "others",
        "4|n[3-6]|idle+drain|2026-11-21T03:20:00|nodewarden:xid.79 id=abcdefg3|\n",
    );
    let one = slot_of("nodewarden--gpu--a--1", "n3", 5);
    cluster.set(
        "reservations",
        &(one.clone() + &slot_of("nodewarden--gpu--a--2", "n9", 5)),
    );
    let outcome = cluster.drain();
    let (by, why) = held_by(&outcome);
    assert_eq!(by, HeldBy::Standing);
    assert!(why.contains("and 1 more have a slot"), "{why}");
    assert_eq!(
        slots(&cluster).len(),
        2,
        "the own one is given back, so that not both wait for each other"
    );
    cluster.set("reservations", &one);
    done(cluster.drain());
}

#[test]
fn drain_lift_and_drain_count_twice() {
    let mut cluster = guarded();
    let first = done(cluster.drain()).slot;
    assert!(matches!(cluster.undrain(), Outcome::Done(_)));
    let second = done(cluster.drain()).slot;
    assert_ne!(first, second);
    assert_eq!(slots(&cluster).len(), 2, "a lift frees none");
    assert!(matches!(cluster.undrain(), Outcome::Done(_)));
    assert_eq!(held_by(&cluster.drain()).0, HeldBy::Guard);
}

#[test]
fn a_fault_that_proves_one_device_broken_and_a_drain_in_maintenance_have_slots_of_their_own() {
    let mut cluster = guarded();
    let taken =
        slot_of("nodewarden--gpu--xid-79--1", "n7", 5) + &slot_of("nodewarden--gpu--xid-79--2", "n8", 5);
    cluster.set("reservations", &taken);
    let drain = |in_maintenance, is_device| Action::Drain {
        incident: IncidentId::parse("abcdefg2").unwrap(),
        reason: Reason::new("nodewarden:xid.79 gpu3 off the bus act=reboot id=abcdefg2").unwrap(),
        in_maintenance,
        is_device,
    };
    let guard = done(cluster.slurm.act(&drain(false, true)));
    assert_eq!((guard.pool.as_str(), guard.slots, guard.most), ("device", 16, 20));
    assert!(matches!(cluster.undrain(), Outcome::Done(_)));
    let guard = done(cluster.slurm.act(&drain(true, false)));
    assert_eq!((guard.pool.as_str(), guard.slots, guard.most), ("maint", 4, 5));
}

#[test]
fn a_node_that_a_person_drained_or_that_is_in_maintenance_gives_its_slot_back() {
    let mut cluster = guarded();
    cluster.drained("RMA 4711");
    let Outcome::Foreign(node) = cluster.drain() else {
        panic!()
    };
    assert_eq!(node.reason.unwrap().user, "root", "of the node's own sinfo");
    assert_eq!(slots(&cluster), [""; 0]);
    cluster.set("state", "IDLE+MAINTENANCE+RESERVED");
    assert!(matches!(cluster.drain(), Outcome::Withheld(..)));
    assert_eq!(slots(&cluster), [""; 0]);
    assert!(!cluster.wrote());
}

#[test]
fn one_node_does_not_take_the_slots_of_all() {
    let mut cluster = guarded();
    let own: String = ["device--1", "device--2", "device--3", "device--4", "device--5"]
        .map(|name| slot_of(&format!("nodewarden--gpu--{name}"), "n0", 5))
        .concat();
    cluster.set("reservations", &own);
    let outcome = cluster.drain();
    assert_eq!(
        held_by(&outcome),
        (HeldBy::Guard, "this node has 5 drain slots already")
    );
    assert_eq!(slots(&cluster).len(), 5);
}

#[test]
fn a_slot_that_a_node_kept_serves_its_drain_beside_four_used_ones() {
    let mut cluster = guarded();
    let full = "5|n[3-7]|idle+drain|2026-11-21T03:20:00|nodewarden:xid.79 id=abcdefg3|\n";
    cluster.set("others", full);
    assert_eq!(held_by(&cluster.drain()).0, HeldBy::Standing);
    let kept = slots(&cluster).remove(0);
    let own: String = ["device--1", "device--2", "device--3", "device--4"]
        .map(|name| slot_of(&format!("nodewarden--gpu--{name}"), "n0", 5))
        .concat();
    cluster.set("reservations", &(cluster.get("reservations") + &own));
    cluster.set("others", "");
    assert_eq!(done(cluster.drain()).slot, Some(kept));
}

#[test]
fn a_node_whose_partition_is_gone_is_proven_again_with_the_new_one() {
    let mut cluster = guarded();
    cluster.set("others", "hello");
    assert!(matches!(cluster.drain(), Outcome::Failed(_)));
    cluster.set("others", "");
    cluster.set("argv", "");
    done(cluster.drain());
    assert!(cluster.get("argv").contains("show\npartition"));
}

#[test]
fn a_slot_that_is_half_over_is_given_back_and_taken_again() {
    let mut cluster = guarded();
    cluster.slurm.config.guard.per_code = 1;
    cluster.set(
        "others",
        "5|n[3-7]|idle+drain|2026-11-21T03:20:00|nodewarden:xid.79 id=abcdefg3|\n",
    );
    assert_eq!(held_by(&cluster.drain()).0, HeldBy::Standing);
    let name = slots(&cluster).remove(0);
    let slot = slot_of(&name, "n0", 4);
    let at = slot.find("StartTime=").unwrap() + "StartTime=".len();
    let old = format!("{}2026-01-01T00:00:00{}", &slot[..at], &slot[at + 19..]);
    cluster.set("reservations", &old);
    cluster.set("others", "");
    done(cluster.drain());
    assert!(
        !cluster.get("reservations").contains("2026-01-01"),
        "given back, and taken again"
    );
}

#[test]
fn a_slot_that_ends_before_a_write_could_is_not_used() {
    let mut cluster = guarded();
    cluster.slurm.config.guard.per_code = 1;
    cluster.slurm.config.timeout = Duration::from_secs(400);
    let outcome = cluster.drain();
    assert_eq!(held_by(&outcome).0, HeldBy::Refused);
    assert_eq!(slots(&cluster), [""; 0]);
    assert!(!cluster.wrote());
}

#[test]
fn nodes_with_other_limits_are_noticed() {
    let mut cluster = guarded();
    let other = slot_of("nodewarden--gpu--a--1", "n7", 5).replace("4/100%/2/5/600s", "9/100%/2/5/600s");
    cluster.set("reservations", &other);
    assert!(done(cluster.drain()).differs);
}

#[test]
fn the_largest_partition_sets_the_limit_and_is_read_once() {
    let mut cluster = guarded();
    cluster.slurm.config.guard.percent = 2;
    let guard = done(cluster.drain());
    assert_eq!((guard.partition.as_str(), guard.slots), ("gpu", 2));
    assert!(!cluster.get("argv").contains("partition"));
}

#[test]
fn without_the_limit_a_pause_is_read_before_each_write_and_a_person_s_lift_is_not_held() {
    let mut cluster = guarded();
    cluster.slurm.config.guard.on = false;
    assert!(matches!(cluster.drain(), Outcome::Done(node) if node.guard.is_none()));
    assert_eq!(slots(&cluster), [""; 0]);
    cluster.set("reservations", &slot_of("nodewarden-pause", "by alice: work", 60));
    assert_eq!(held_by(&cluster.undrain()).0, HeldBy::Pause);
    let ordered = Action::Undrain {
        incident: IncidentId::parse("abcdefg2").unwrap(),
        is_ordered: true,
        lifts: Vec::new(),
    };
    assert!(matches!(cluster.slurm.act(&ordered), Outcome::Done(_)));
    assert_eq!(held_by(&cluster.drain()).0, HeldBy::Pause);
}

#[test]
fn a_stop_file_holds_every_write_before_any_command_but_a_person_s_lift() {
    let mut cluster = guarded();
    done(cluster.drain());
    let stop = tempfile::NamedTempFile::new().unwrap();
    cluster.slurm.config.guard.stop_files = vec![stop.path().to_owned()];
    let calls = cluster.calls();
    assert_eq!(held_by(&cluster.undrain()).0, HeldBy::Pause);
    assert_eq!(cluster.calls(), calls);
    drop(stop);
    assert!(matches!(cluster.undrain(), Outcome::Done(_)));
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the test removes a file")]
fn nothing_is_written_after_a_stop_file_that_is_made_during_the_act() {
    let mut cluster = guarded();
    let stop = cluster.path("stop");
    cluster.slurm.config.guard.stop_files = vec![stop.clone()];
    cluster.hook(cluster.calls() + 2, "touch stop");
    assert_eq!(held_by(&cluster.drain()).0, HeldBy::Pause);
    assert!(!cluster.wrote() && !cluster.get("argv").contains("delete"));
    let taken = slots(&cluster);
    assert_eq!(taken.len(), 1);
    std::fs::remove_file(&stop).unwrap();
    assert_eq!(done(cluster.drain()).slot, taken.first().cloned());
    assert_eq!(slots(&cluster), taken, "the same slot serves");

    cluster.set("argv", "");
    cluster.hook(cluster.calls() + 1, "touch stop");
    assert_eq!(held_by(&cluster.undrain()).0, HeldBy::Pause);
    assert!(!cluster.wrote());
    let order = Action::Undrain {
        incident: IncidentId::parse("abcdefg2").unwrap(),
        is_ordered: true,
        lifts: Vec::new(),
    };
    assert!(matches!(cluster.slurm.act(&order), Outcome::Done(_)), "ordered");
}
