//! The audit trail: one entry for each fact, whatever order things happen in.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::properties::{Happens, apply, happens, watched};
use super::sim::*;
use crate::audit::{Act, Entry, Kind};
use crate::{Mode, OrderVerb};
use collectors::event::Recovery;
use model::scheduler::HeldBy;
use slurm::state::{Base, Flag};

fn last(sim: &Sim) -> &Entry {
    sim.audit.last().unwrap()
}

fn why(entry: &Entry) -> &str {
    entry.why.as_deref().unwrap_or_default()
}

#[test]
fn a_drain_and_its_lift_are_an_intent_and_an_outcome_each_with_the_evidence() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    sim.pass(60);
    assert_eq!(sim.trail(), ["Wanted Drain", "Written Drain"]);
    let reason = sim.reason();
    let id = sim.engine.view().incidents[0].id.clone();
    for entry in &sim.audit {
        assert_eq!(entry.incident.as_ref().unwrap().0, id);
        assert_eq!(entry.reason.as_deref(), Some(reason.as_str()));
        assert_eq!(entry.check.as_deref(), Some("xid"));
        assert_eq!(entry.subject, Some(format!("gpu pci:{GPU}")));
        assert_eq!(entry.detail.as_deref(), Some("xid119"));
        assert_eq!(entry.evidence, ["line 1"]);
        assert_eq!((why(entry), entry.at), ("", 1_700_000_000));
    }
    sim.reboot();
    sim.pass(60);
    assert!(!sim.slurm.is_drained());
    assert_eq!(sim.trail()[2..], ["Wanted Undrain", "Lifted Undrain"]);
    assert_eq!(why(&sim.audit[2]), "all incidents behind it are cleared");
    assert_eq!(last(&sim).reason, Some(reason), "of the drain that was lifted");
    assert_eq!(last(&sim).detail.as_deref(), Some("xid119"));
}

#[test]
fn a_healthy_node_and_a_drain_that_stands_add_nothing() {
    let mut sim = Sim::new(Mode::Drain);
    sim.pass(3600);
    assert_eq!(sim.trail(), [""; 0]);
    sim.xid(79);
    sim.pass(3600);
    sim.xid(79);
    sim.xid(119);
    sim.restart();
    sim.pass(3600);
    assert_eq!(sim.trail(), ["Wanted Drain", "Written Drain"]);
}

#[test]
fn observing_nodes_have_no_trail() {
    for mode in [Mode::Observe, Mode::Comment] {
        let mut sim = Sim::new(mode);
        sim.xid(79);
        sim.pass(60);
        assert_eq!(sim.trail(), [""; 0], "{mode:?}");
    }
}

#[test]
fn each_cause_of_a_refusal_is_one_entry_however_often_it_is_tried() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.trouble = std::iter::repeat_n(Trouble::Failed, 6).collect();
    sim.slurm
        .trouble
        .extend([Trouble::NotOurs, Trouble::Failed, Trouble::Failed]);
    sim.xid(79);
    sim.pass(600);
    assert!(sim.slurm.is_drained() && sim.acts > 8);
    assert_eq!(
        sim.trail(),
        ["Wanted Drain", "Refused Drain", "Refused Drain", "Written Drain"]
    );
    assert_eq!(why(&sim.audit[1]), "refused");
    assert_eq!(why(&sim.audit[2]), "other boot time");
}

#[test]
fn a_drain_that_is_held_says_so_once_and_its_slot_when_it_is_written() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.held = Some(HeldBy::Guard);
    sim.xid(119);
    sim.pass(3600);
    assert_eq!(sim.trail(), ["Wanted Drain", "Held Drain"]);
    assert!(!why(last(&sim)).is_empty() && last(&sim).slot.is_none());
    sim.slurm.held = None;
    sim.slurm.slot = Some("nodewarden--gpu--119--1".to_owned());
    sim.pass(301);
    assert_eq!(sim.trail()[2..], ["Written Drain"]);
    assert_eq!(last(&sim).slot.as_deref(), Some("nodewarden--gpu--119--1"));
}

#[test]
fn incidents_that_are_held_by_turns_are_an_entry_each() {
    let mut sim = Sim::expecting(GPU2);
    sim.slurm.held = Some(HeldBy::Guard);
    sim.remove_gpu(GPU2);
    sim.xid(119);
    sim.pass(3600);
    let both = ["Wanted Drain", "Held Drain"];
    assert_eq!(sim.trail(), [both, both].concat());
    let of: BTreeSet<_> = sim.audit.iter().map(|entry| entry.incident.clone()).collect();
    assert_eq!(of.len(), 2);
}

#[test]
fn a_held_incident_that_ends_is_withdrawn() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.held = Some(HeldBy::Standing);
    sim.xid(119);
    let id = sim.engine.view().drain.incident.unwrap();
    sim.order(OrderVerb::Clear, &id).unwrap();
    sim.pass(60);
    assert_eq!(sim.trail()[1..], ["Held Drain", "Clear", "Withdrawn Drain"]);
}

#[test]
fn a_pause_is_an_entry_with_its_length_and_what_it_holds_is_held() {
    let mut sim = Sim::new(Mode::Drain);
    sim.order_all(OrderVerb::Pause { seconds: 7200 }).unwrap();
    sim.xid(119);
    sim.pass(60);
    assert_eq!(sim.trail(), ["Pause", "Held Drain"]);
    assert_eq!(
        (sim.audit[0].detail.as_deref(), sim.audit[0].uid),
        (Some("7200 s"), Some(1000))
    );
    assert_eq!(sim.audit[0].incident, None);
    assert!(why(last(&sim)).starts_with("paused by bob"));
    sim.order_all(OrderVerb::Resume).unwrap();
    assert_eq!(sim.trail()[2..], ["Resume", "Wanted Drain", "Written Drain"]);
}

#[test]
fn a_lift_that_a_pause_of_the_cluster_holds_is_held_once() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    sim.slurm.held = Some(HeldBy::Pause);
    sim.verdict_154(Recovery::GpuReset);
    sim.verdict_154(Recovery::None);
    sim.pass(7200);
    assert_eq!(sim.trail()[2..], ["Wanted Undrain", "Held Undrain"]);
    sim.slurm.held = None;
    sim.pass(600);
    assert_eq!(sim.trail()[4..], ["Lifted Undrain"]);
}

#[test]
fn a_state_that_forbids_the_drain_is_a_refusal() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.base = Base::Future;
    sim.xid(79);
    sim.pass(600);
    assert_eq!(sim.trail(), ["Wanted Drain", "Refused Drain"]);
    sim.slurm.base = Base::Idle;
    sim.pass(60);
    assert_eq!(sim.trail()[2..], ["Written Drain"]);
}

#[test]
fn a_write_of_unknown_outcome_is_followed_by_what_was_found() {
    for (trouble, trail) in [
        (
            Trouble::TimeoutDone,
            &["Wanted Drain", "Refused Drain", "Written Drain"][..],
        ),
        (
            Trouble::TimeoutLost,
            &["Wanted Drain", "Refused Drain", "Refused Drain", "Written Drain"],
        ),
    ] {
        let mut sim = Sim::new(Mode::Drain);
        sim.slurm.trouble.push_back(trouble.clone());
        sim.xid(79);
        sim.pass(120);
        assert_eq!(sim.trail(), trail, "{trouble:?}");
        assert_eq!(why(&sim.audit[1]), "timed out");
    }
}

#[test]
fn a_drain_of_another_author_is_named_with_its_reason() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.admin_drains("replacing a fan");
    sim.xid(79);
    sim.pass(600);
    assert_eq!(sim.trail(), ["Wanted Drain", "Foreign Drain"]);
    assert_eq!(why(last(&sim)), "replacing a fan by bob");
    sim.slurm.admin_resumes();
    sim.pass(60);
    assert_eq!(
        sim.trail()[2..],
        ["Written Drain"],
        "the intent remains, and it is no lift of nodewarden's drain"
    );
    assert!(!last(&sim).reason.as_ref().unwrap().contains("after-lift"));
}

#[test]
fn an_incident_that_ends_before_its_drain_is_withdrawn() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.trouble = std::iter::repeat_n(Trouble::Failed, 1000).collect();
    sim.xid(48);
    sim.pass(60);
    let id = sim.engine.view().incidents[0].id.clone();
    sim.order(OrderVerb::Clear, &id).unwrap();
    sim.pass(60);
    assert_eq!(
        sim.trail(),
        ["Wanted Drain", "Refused Drain", "Clear", "Withdrawn Drain"]
    );
}

#[test]
fn each_lift_by_an_operator_is_an_override() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(79);
    sim.admin_insists();
    let drained = ["Wanted Drain", "Written Drain", "Overridden"];
    assert_eq!(sim.trail(), [drained, drained].concat());
    assert_eq!(last(&sim).detail.as_deref(), Some("xid79"));
    assert_eq!(why(last(&sim)), "an operator lifted nodewarden's drain");
}

#[test]
fn a_drain_that_an_operator_took_over_and_lifted_is_foreign_and_then_an_override() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(79);
    sim.pass(60);
    sim.slurm.admin_drains("vendor called");
    sim.pass(600);
    assert_eq!(sim.trail()[2..], ["Foreign Drain"]);
    sim.slurm.admin_resumes();
    sim.pass(600);
    assert_eq!(sim.trail()[3..], ["Overridden", "Wanted Drain", "Written Drain"]);
}

#[test]
fn orders_name_the_operator_and_a_refused_one_is_the_callers_to_report() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(48);
    let id = sim.engine.view().incidents[0].id.clone();
    sim.order(OrderVerb::Clear, "aaaaaaaa").unwrap_err();
    sim.order(OrderVerb::Ack, &id).unwrap();
    assert_eq!(last(&sim).kind, Kind::Ack);
    sim.by_root = true;
    sim.order(OrderVerb::Clear, &id).unwrap();
    sim.pass(1);
    assert_eq!(
        sim.trail()[2..],
        ["Ack", "Clear", "Wanted Undrain", "Lifted Undrain"]
    );
    let orders = &sim.audit[2..4];
    let uids: Vec<Option<u32>> = orders.iter().map(|entry| entry.uid).collect();
    assert_eq!(uids, [Some(1000), Some(0)]);
    for entry in orders {
        assert_eq!(entry.by.as_deref(), Some("bob"));
        assert_eq!(entry.reason.as_deref(), Some("replaced"));
        assert_eq!(entry.incident.as_ref().unwrap().0, id);
        assert_eq!(entry.detail.as_deref(), Some("xid48"));
        assert!(!entry.evidence.is_empty());
    }
}

#[test]
fn a_lift_that_waits_names_each_cause_once() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    sim.pass(30);
    sim.slurm.flags.insert(Flag::InvalidReg);
    sim.reboot();
    sim.pass(600);
    assert_eq!(sim.trail()[2..], ["Wanted Undrain", "Refused Undrain"]);
    assert!(why(last(&sim)).starts_with("withheld: "), "{:?}", last(&sim));
    sim.xid(119);
    sim.pass(30);
    assert_eq!(sim.trail()[4..], ["Withdrawn Undrain"], "a fault came back");
}

#[test]
fn a_repaired_drain_that_is_lifted_elsewhere_is_a_lift_without_an_act() {
    let mut sim = Sim::holding();
    sim.xid(119);
    sim.reboot();
    sim.pass(60);
    assert!(sim.slurm.is_drained());
    sim.slurm.admin_resumes();
    sim.pass(600);
    assert_eq!(sim.trail()[2..], ["Lifted"]);
}

#[test]
fn a_drain_that_the_controller_lost_is_wanted_again() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(79);
    sim.slurm.admin_resumes();
    sim.slurm.controller_started = Some(1_700_000_001);
    sim.pass(60);
    assert_eq!(
        sim.trail()[2..],
        ["Lost", "Wanted Drain", "Written Drain"],
        "{:?}",
        sim.audit
    );
}

#[test]
fn a_drain_without_a_record_is_found() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(79);
    sim.audit.clear();
    sim.wipe();
    sim.pass(600);
    assert_eq!(sim.trail(), ["Found"]);
    assert!(last(&sim).reason.is_some());
}

/// A daemon that died between the record and the act asks again: its first entry may have been lost.
#[test]
fn an_intent_is_repeated_after_a_restart_and_every_write_has_one() {
    for effect in 1..8 {
        let mut sim = Sim::new(Mode::Drain);
        sim.die_before = Some(sim.effects + effect);
        sim.xid(79);
        sim.pass(60);
        let trail = sim.trail();
        let intents = trail.iter().filter(|e| *e == "Wanted Drain").count();
        // Before the first record, the event is lost with the daemon.
        assert_eq!(sim.slurm.drains, u32::from(effect > 1), "{effect}");
        assert!(
            intents <= 2 && (intents > 0) == (effect > 1),
            "{effect}: {trail:?}"
        );
    }
}

/// A text that differs each time must not fill the trail.
#[test]
fn errors_that_differ_with_each_attempt_are_a_few_entries() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.admin_drains("0");
    sim.xid(79);
    for n in 1..100 {
        sim.slurm.admin_drains(&n.to_string());
        sim.pass(10);
    }
    let texts: BTreeSet<&str> = sim.audit.iter().map(why).collect();
    assert!(
        sim.audit.len() <= 8 && texts.len() == sim.audit.len(),
        "{texts:?}"
    );
    sim.slurm.admin_resumes();
    sim.pass(60);
    assert_eq!(last(&sim).kind, Kind::Written, "an outcome always is");
    assert_eq!(last(&sim).act, Some(Act::Drain));
}

/// Reads the trail: each outcome of an act has had its intent, and that intent is one entry in each run of the daemon.
/// Returns the drains and the lifts that nodewarden wrote.
fn acts(sim: &Sim) -> Result<(u32, u32), TestCaseError> {
    let mut wanted = None;
    let mut starts = sim.starts.iter().peekable();
    let (mut is_restarted, mut drains, mut lifts) = (false, 0, 0);
    // A lift that was withdrawn or cut off by a restart may still take effect.
    let mut is_late = false;
    for (at, entry) in sim.audit.iter().enumerate() {
        while starts.next_if(|start| **start <= at).is_some() {
            is_restarted = true;
            is_late |= wanted.is_some_and(|(act, _)| act == Act::Undrain);
        }
        let of = entry.act.zip(entry.incident.as_ref());
        let context = (at, sim.trail());
        match (entry.kind, entry.act) {
            (Kind::Wanted, _) => {
                prop_assert!(of.is_some() && (is_restarted || wanted != of), "{:?}", context);
                (wanted, is_restarted) = (of, false);
            }
            (Kind::Written, _) => {
                // One that takes effect late may have the id of an earlier incident.
                prop_assert!(wanted.is_some_and(|(act, _)| act == Act::Drain), "{:?}", context);
                (wanted, drains) = (None, drains + 1);
            }
            (Kind::Lifted, Some(_)) => {
                let is_wanted = wanted.is_some_and(|(act, _)| act == Act::Undrain);
                prop_assert!(is_wanted || is_late, "{:?}", context);
                (wanted, lifts) = (None, lifts + 1);
            }
            (Kind::Withdrawn, _) => {
                prop_assert!(
                    wanted.is_some_and(|(act, _)| Some(act) == entry.act),
                    "{:?}",
                    context
                );
                (wanted, is_late) = (None, is_late || entry.act == Some(Act::Undrain));
            }
            (Kind::Overridden | Kind::Lost | Kind::Found | Kind::Lifted, _) => wanted = None,
            (Kind::Refused | Kind::Foreign, _) => {
                prop_assert!(
                    entry.why.as_ref().is_some_and(|why| !why.is_empty()),
                    "{:?}",
                    context
                );
            }
            _ => {}
        }
        prop_assert!(entry.incident.is_some(), "{:?}", context);
    }
    Ok((drains, lifts))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Whatever happens while the daemon is not killed and keeps its record.
    #[test]
    fn each_drain_and_lift_is_one_intent_and_one_outcome(story in prop::collection::vec(happens(), 1..60)) {
        let mut sim = watched(Mode::Drain);
        let is_sure = |h: &&Happens| !matches!(
            h,
            Happens::DieBefore(_) | Happens::Wipe | Happens::Disk(_) | Happens::SlurmReplaces
                | Happens::Trouble(Trouble::TimeoutDone | Trouble::TimeoutLost)
        );
        for happens in story.iter().filter(is_sure) {
            apply(&mut sim, happens);
        }
        let (drains, lifts) = acts(&sim)?;
        prop_assert_eq!(drains, sim.slurm.drains);
        // An operator may lift it just before nodewarden does.
        prop_assert!(lifts >= sim.slurm.undrains, "{:?}", sim.trail());
    }
}

/// The drain for one incident fails, and that for another one is written and lifted before the next try.
#[test]
fn an_intent_that_was_tried_before_another_drain_is_an_entry_again() {
    use Happens as H;
    let mut sim = watched(Mode::Drain);
    for happens in [
        H::Xid(74),
        H::Reboot,
        H::AdminResumes,
        H::Trouble(Trouble::Failed),
        H::Pass(1),
        H::Xid(46),
        H::Xid(74),
        H::AdminResumes,
        H::Pass(11),
    ] {
        apply(&mut sim, &happens);
    }
    let trail = sim.trail();
    let end = ["Overridden", "Wanted Drain", "Written Drain"];
    assert!(trail.ends_with(&end.map(str::to_owned)), "{trail:?}");
    acts(&sim).unwrap();
}
