//! The copy of the drain's record in the node's Extra, and what it proves after the state directory was lost.

use std::time::Duration;

use collectors::event::Recovery;

use slurm::state::Flag;

use super::sim::*;
use crate::{Mode, OrderVerb};

/// The copy, as JSON.
fn copy(sim: &Sim) -> serde_json::Value {
    let extra = sim.slurm.extra.as_deref().unwrap_or("{}");
    let value: serde_json::Value = serde_json::from_str(extra).unwrap();
    value["nodewarden"].clone()
}

/// A drain whose cause another boot repairs, its copy written.
fn drained() -> Sim {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    sim.pass(15);
    assert!(sim.slurm.is_drained());
    sim
}

/// A reboot of a node that keeps nothing.
fn boots_without_a_disk(sim: &mut Sim) {
    sim.disk = None;
    sim.reboot();
    sim.pass(600);
}

#[test]
fn a_drain_is_copied_once_with_all_that_its_lift_needs() {
    let mut sim = drained();
    let id = sim.engine.view().incidents[0].id.clone();
    assert_eq!(
        copy(&sim),
        serde_json::json!({
            "drain": {
                "id": id, "at": sim.slurm.reason_at, "uid": 0, "boot": "boot-0", "reboot": true, "gpus": [GPU],
            },
            "lifts": [],
        })
    );
    assert_eq!(sim.acts, 2, "the drain and the copy");
    sim.pass(7200);
    assert_eq!(sim.acts, 2);
}

#[test]
fn a_node_that_lost_its_state_directory_at_a_reboot_is_lifted_as_with_its_record() {
    let mut sim = drained();
    boots_without_a_disk(&mut sim);
    assert!(!sim.slurm.is_drained(), "{:?}", sim.engine.view().drain);
    assert_eq!(sim.slurm.undrains, 1);
    assert_eq!(sim.incidents(), ["xid119 cleared"]);
}

/// slurmctld appends to the reason when it issues a reboot, and sets time and user.
#[test]
fn a_reboot_by_slurm_leaves_the_copy_its_proof() {
    for (appended, later, is_lifted) in [
        (" : reboot issued", 48, true),
        (" : reboot issued : reboot complete", 300, true),
        (" : reboot issued", -1, false),
        (" : reboot issued : keep for RMA", 48, false),
        (" : Not responding", 48, false),
    ] {
        let mut sim = drained();
        sim.slurm.reason = Some(format!("{}{appended}", sim.reason()));
        sim.slurm.user = "slurm".to_owned();
        sim.slurm.reason_at += later;
        boots_without_a_disk(&mut sim);
        assert_eq!(!sim.slurm.is_drained(), is_lifted, "{appended} {later}");
    }
}

#[test]
fn it_stays_drained_while_the_gpu_is_not_back() {
    let mut sim = drained();
    sim.remove_gpu(GPU);
    boots_without_a_disk(&mut sim);
    assert!(sim.slurm.is_drained());
    sim.set_gpu(GPU, "nvidia", Some(true));
    sim.pass(600);
    assert!(!sim.slurm.is_drained());
}

#[test]
fn it_stays_drained_where_the_same_fault_is_seen_in_the_new_boot() {
    let mut sim = drained();
    let id = sim.engine.view().incidents[0].id.clone();
    sim.disk = None;
    sim.reboot();
    sim.xid(119);
    sim.pass(600);
    assert!(sim.slurm.is_drained());
    assert_eq!(copy(&sim)["drain"]["boot"], "boot-1");
    assert_eq!(copy(&sim)["drain"]["id"], id.as_str());
    boots_without_a_disk(&mut sim);
    assert!(!sim.slurm.is_drained());
}

#[test]
fn without_another_boot_it_stays_drained() {
    let mut sim = drained();
    sim.wipe();
    sim.pass(7200);
    assert!(sim.slurm.is_drained());
    assert!(!sim.engine.view().drain.recorded);
    // The record of this boot does not have it either, and the next boot does.
    sim.reboot();
    sim.pass(600);
    assert!(!sim.slurm.is_drained());
}

#[test]
fn a_fault_that_a_test_must_verify_stays_after_another_boot() {
    for code in [79, 48] {
        let mut sim = Sim::new(Mode::Drain);
        sim.xid(119);
        sim.pass(15);
        sim.xid(code);
        sim.pass(15);
        assert_eq!(copy(&sim)["drain"]["reboot"], false, "{code}");
        boots_without_a_disk(&mut sim);
        assert!(sim.slurm.is_drained(), "{code}");
    }
}

#[test]
fn a_drain_that_the_copy_is_not_of_stays() {
    let another_time: fn(&mut Sim) = |sim| sim.slurm.reason_at += 1;
    let another_user: fn(&mut Sim) = |sim| sim.slurm.user = "bob".to_owned();
    let another_id: fn(&mut Sim) = |sim| {
        let reason = sim.reason();
        let (head, _) = reason.split_once("id=").unwrap();
        sim.slurm.reason = Some(format!("{head}id=abcdefgh"));
    };
    let another_uid: fn(&mut Sim) = |sim| {
        let extra = sim.slurm.extra.take().unwrap();
        sim.slurm.extra = Some(extra.replace("\"uid\":0", "\"uid\":1000"));
    };
    let no_extra: fn(&mut Sim) = |sim| sim.slurm.has_extra = false;
    let another_form: fn(&mut Sim) = |sim| sim.slurm.extra = Some("rack=7".to_owned());
    for change in [
        another_time,
        another_user,
        another_id,
        another_uid,
        no_extra,
        another_form,
    ] {
        let mut sim = drained();
        change(&mut sim);
        boots_without_a_disk(&mut sim);
        assert!(sim.slurm.is_drained(), "{:?}", sim.slurm);
    }
}

#[test]
fn other_keys_stay_and_another_text_is_never_touched() {
    for (site, kept) in [("{\"rack\": 7.50}", "{\"rack\":7.50}"), ("rack=7", "rack=7")] {
        let mut sim = Sim::new(Mode::Drain);
        sim.slurm.extra = Some(site.to_owned());
        sim.xid(119);
        sim.pass(60);
        let head = kept.strip_suffix('}').unwrap_or(kept);
        assert!(
            sim.slurm.extra.as_ref().unwrap().starts_with(head),
            "{:?}",
            sim.slurm
        );
        assert_eq!(sim.acts, if site == kept { 1 } else { 2 });
        let id = sim.engine.view().incidents[0].id.clone();
        sim.order(OrderVerb::Clear, &id).unwrap();
        sim.pass(60);
        assert!(!sim.slurm.is_drained());
        assert_eq!(sim.slurm.extra.as_deref(), Some(kept));
    }
}

#[test]
fn automatic_lifts_are_counted_over_lost_state_directories_and_the_third_waits_for_a_person() {
    let mut sim = Sim::new(Mode::Drain);
    for lifts in 1..=2 {
        sim.xid(119);
        sim.pass(15);
        boots_without_a_disk(&mut sim);
        assert!(!sim.slurm.is_drained(), "{lifts}");
        assert_eq!(copy(&sim)["lifts"].as_array().map(Vec::len), Some(lifts));
        assert!(copy(&sim)["drain"].is_null());
    }
    sim.xid(119);
    sim.verdict_154(Recovery::None);
    sim.pass(600);
    assert!(sim.slurm.is_drained());
    assert!(sim.engine.view().drain.why.contains("lifted 2 drains in 24 h"));
    boots_without_a_disk(&mut sim);
    assert!(sim.slurm.is_drained());
    sim.pass(25 * 3600);
    assert!(!sim.slurm.is_drained());
    assert_eq!(
        copy(&sim)["lifts"].as_array().map(Vec::len),
        Some(2),
        "the oldest is dropped"
    );
}

/// Slurm 20.11, a text of the site in Extra, or `slurm.mirror = false`.
#[test]
fn without_a_copy_a_lost_state_directory_allows_no_automatic_lift_for_a_day_or_until_a_person_lifted() {
    let broken = |sim: &mut Sim| {
        sim.xid(119);
        sim.pass(15);
        sim.verdict_154(Recovery::None);
        sim.pass(600);
    };
    for by_person in [false, true] {
        let mut sim = Sim::new(Mode::Drain);
        sim.slurm.has_extra = false;
        sim.sleep_until(sim.now.boottime + Duration::from_secs(25 * 3600));
        broken(&mut sim);
        assert!(!sim.slurm.is_drained(), "the record is old enough");
        sim.wipe();
        broken(&mut sim);
        sim.restart();
        sim.pass(600);
        assert!(sim.slurm.is_drained(), "{by_person}");
        let why = sim.engine.view().drain.why;
        assert!(why.contains("no copy of it shows earlier lifts"), "{why}");
        if by_person {
            let id = sim.engine.view().drain.incident.unwrap();
            sim.order(OrderVerb::Clear, &id).unwrap();
            sim.pass(60);
            assert!(!sim.slurm.is_drained());
            broken(&mut sim);
        } else {
            sim.sleep_until(sim.now.boottime + Duration::from_secs(25 * 3600));
            sim.tick();
            sim.pass(120);
        }
        assert!(!sim.slurm.is_drained(), "{by_person}");
    }
}

#[test]
fn a_copy_that_cannot_be_written_is_tried_again_after_2_s_then_later_and_later_up_to_5_min() {
    let mut sim = drained();
    // Its fault is lifted by a person only, so another boot must not find the old copy.
    sim.slurm.trouble = vec![Trouble::Failed; 3].into();
    sim.xid(79);
    sim.pass(30);
    assert_eq!(copy(&sim)["drain"]["reboot"], false);
    boots_without_a_disk(&mut sim);
    assert!(sim.slurm.is_drained());
    let mut sim = drained();
    sim.slurm.trouble = vec![Trouble::Failed; 100].into();
    sim.xid(79);
    let acts = sim.acts;
    sim.pass(3600);
    assert!((15..=20).contains(&(sim.acts - acts)), "{}", sim.acts - acts);
}

/// A reboot is certain: what another boot finds must be true.
#[test]
fn a_copy_is_corrected_while_a_reboot_is_requested() {
    let mut sim = drained();
    sim.slurm.flags.insert(Flag::RebootRequested);
    sim.xid(79);
    sim.pass(15);
    assert_eq!(copy(&sim)["drain"]["reboot"], false);
    sim.slurm.flags.remove(&Flag::RebootRequested);
    boots_without_a_disk(&mut sim);
    assert!(sim.slurm.is_drained());
}

/// The copy proves the drain, but a lift that is in no record could be repeated after a restart.
#[test]
fn a_copy_lifts_nothing_while_the_disk_cannot_be_written() {
    let mut sim = drained();
    sim.disk_works = false;
    sim.disk = None;
    sim.reboot();
    sim.pass(3600);
    assert!(sim.slurm.is_drained());
    assert_eq!(sim.slurm.undrains, 0);
    sim.disk_works = true;
    sim.pass(3600);
    assert_eq!(sim.slurm.undrains, 1, "{:?}", sim.incidents());
}

/// The third automatic lift of a day waits for an operator. The copy counts a lift when it is sent, the record when it is
/// answered.
#[test]
fn a_lift_counts_once_although_its_answer_comes_later_or_never() {
    for trouble in [
        None,
        Some(Trouble::TimeoutDone),
        Some(Trouble::TimeoutLate),
        Some(Trouble::Failed),
    ] {
        let mut sim = drained();
        sim.answer_after = Duration::from_secs(1);
        sim.slurm.trouble = trouble.clone().into_iter().collect();
        sim.verdict_154(Recovery::None);
        sim.pass(90);
        sim.slurm.catch_up();
        sim.pass(600);
        assert!(!sim.slurm.is_drained(), "{trouble:?}");
        assert_eq!(
            sim.record()["lifts"].as_array().map(Vec::len),
            Some(1),
            "{trouble:?}"
        );
        sim.xid(119);
        sim.pass(15);
        assert!(sim.slurm.is_drained(), "{trouble:?}");
        sim.verdict_154(Recovery::None);
        sim.pass(600);
        assert!(
            !sim.slurm.is_drained(),
            "{trouble:?}: {}",
            sim.engine.view().drain.why
        );
    }
}

/// The undrain wrote Extra, and DRAIN is still set: each attempt writes its time.
#[test]
fn repeated_attempts_are_one_lift() {
    let mut sim = drained();
    sim.slurm.keeps_drain = 3;
    sim.verdict_154(Recovery::None);
    sim.pass(3600);
    assert!(!sim.slurm.is_drained());
    assert_eq!(sim.slurm.undrains, 4);
    assert_eq!(sim.record()["lifts"].as_array().map(Vec::len), Some(1));
    assert_eq!(copy(&sim)["lifts"], sim.record()["lifts"]);
}

/// The daemon stops before the answer, with the intent on the disk, and slurmctld still carries it out.
#[test]
fn a_lift_counts_once_over_a_restart() {
    let mut sim = drained();
    sim.slurm.trouble = vec![Trouble::TimeoutLate].into();
    sim.verdict_154(Recovery::None);
    while sim.drain_state() != "lifting" {
        sim.pass(1);
    }
    sim.pass(1);
    sim.slurm.catch_up();
    sim.restart();
    sim.pass(600);
    assert_eq!(sim.drain_state(), "none");
    assert_eq!(copy(&sim)["lifts"].as_array().map(Vec::len), Some(1));
    assert_eq!(sim.record()["lifts"], copy(&sim)["lifts"]);
}
