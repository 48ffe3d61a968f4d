//! Failures of Slurm, the disk and the daemon.

use std::time::Duration;

use collectors::EventBody;
use collectors::event::Recovery;

use super::sim::*;
use crate::engine::Engine;
use crate::{Effect, Input, Mode};
use model::scheduler::{Action, ActionId, Outcome};
use slurm::state::{Base, Flag};

#[test]
fn a_store_that_fails_drains_but_never_lifts() {
    let mut sim = Sim::new(Mode::Drain);
    sim.disk_works = false;
    sim.xid(119);
    assert!(sim.slurm.is_drained());
    let view = sim.engine.view();
    assert_eq!(
        (view.drain.state.as_str(), view.drain.recorded),
        ("drained", false)
    );
    sim.disk_works = true;
    sim.verdict_154(Recovery::None);
    sim.pass(600);
    assert_eq!(sim.incidents(), ["xid119 cleared"]);
    assert!(sim.slurm.is_drained());
    let kept = sim.drain_state();
    sim.restart();
    sim.pass(600);
    assert_eq!((kept.as_str(), sim.slurm.undrains), ("drained", 0));
    assert!(!sim.engine.view().drain.recorded);
}

#[test]
fn a_wiped_state_directory_without_a_copy_leaves_the_drain_as_it_is() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.has_extra = false;
    sim.xid(119);
    let id = sim.engine.view().incidents[0].id.clone();
    sim.wipe();
    sim.pass(15);
    let view = sim.engine.view();
    assert_eq!(view.drain.state, "drained");
    assert_eq!(view.drain.incident.as_ref(), Some(&id));
    assert!(!view.drain.recorded);
    sim.xid(119);
    assert_eq!(sim.engine.view().incidents[0].id, id, "the same fault");
    sim.verdict_154(Recovery::None);
    sim.reboot();
    sim.pass(600);
    assert_eq!((sim.slurm.drains, sim.slurm.undrains), (1, 0));
    sim.slurm.admin_resumes();
    sim.pass(60);
    assert_eq!(sim.drain_state(), "none");
}

#[test]
fn a_wiped_record_and_a_line_before_the_first_look_do_not_make_the_drain_ours_to_lift() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    sim.slurm.readable = false;
    sim.wipe();
    sim.xid(119);
    sim.slurm.readable = true;
    sim.pass(60);
    assert_eq!(sim.drain_state(), "drained");
    sim.verdict_154(Recovery::None);
    sim.pass(600);
    assert_eq!((sim.slurm.drains, sim.slurm.undrains), (1, 0));
}

#[test]
fn no_answer_means_looking_before_anything_else() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.trouble.push_back(Trouble::TimeoutDone);
    sim.xid(79);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (1, "drained"));
    assert!(sim.engine.view().drain.recorded);

    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.trouble.push_back(Trouble::TimeoutLost);
    sim.xid(79);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (0, "wanted"));
    sim.pass(2);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (1, "drained"));

    for lost in [Trouble::TimeoutDone, Trouble::TimeoutLost] {
        let mut sim = Sim::new(Mode::Drain);
        sim.xid(119);
        sim.slurm.trouble.push_back(lost);
        sim.verdict_154(Recovery::None);
        sim.pass(60);
        assert_eq!((sim.slurm.undrains, sim.drain_state().as_str()), (1, "none"));
    }
}

#[test]
fn a_failure_is_tried_again_with_longer_pauses() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.trouble.extend(vec![Trouble::Failed; 8]);
    sim.xid(79);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (0, "wanted"));
    sim.pass(2 + 4 + 8 + 10 + 10 - 1);
    assert_eq!(sim.slurm.trouble.len(), 3);
    sim.pass(2000);
    assert_eq!(sim.slurm.drains, 1);
    assert_eq!(sim.engine.view().incidents.len(), 1);
}

#[test]
fn what_may_have_happened_is_repeated_with_longer_pauses_too() {
    for lifting in [false, true] {
        let mut sim = Sim::new(Mode::Drain);
        if lifting {
            sim.xid(119);
        }
        sim.slurm.trouble.extend(vec![Trouble::TimeoutLost; 1000]);
        let (acts, looks) = (sim.acts, sim.looks);
        if lifting {
            sim.verdict_154(Recovery::None);
        } else {
            sim.xid(119);
        }
        assert_eq!(sim.acts - acts, 1);
        sim.pass(2 + 4 + 8 + 16 + 32 - 1);
        assert_eq!(sim.acts - acts, 5, "lifting: {lifting}");
        sim.pass(3600);
        assert!(sim.acts - acts < 20 && sim.looks - looks < 20);
        sim.slurm.trouble.clear();
        sim.pass(600);
        assert_eq!(sim.slurm.is_drained(), !lifting);
    }
}

#[test]
fn an_unproven_node_is_drained_within_2_s_of_the_proof_and_within_2_min_of_a_late_one() {
    for (unproven, after) in [(2, 2), (300, 120)] {
        let mut sim = Sim::new(Mode::Drain);
        sim.slurm.proven = false;
        sim.xid(79);
        assert_eq!(sim.drain_state(), "unproven");
        sim.pass(unproven);
        assert_eq!(sim.slurm.drains, 0);
        sim.slurm.proven = true;
        sim.pass(after);
        assert_eq!(sim.drain_state(), "drained");
    }
}

#[test]
fn without_slurm_nothing_acts_and_incidents_exist() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.here = false;
    sim.restart();
    sim.xid(79);
    sim.pass(600);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (0, "none"));
    assert_eq!(sim.incidents(), ["xid79 open"]);
    sim.slurm.here = true;
    sim.pass(1);
    assert_eq!(sim.slurm.drains, 1, "the start of slurmd is noticed");
}

#[test]
fn slurmd_away_for_a_while_does_not_lose_the_drain() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    sim.slurm.here = false;
    sim.pass(600);
    sim.restart();
    sim.pass(600);
    sim.slurm.here = true;
    sim.verdict_154(Recovery::None);
    sim.pass(600);
    assert_eq!((sim.slurm.drains, sim.slurm.undrains), (1, 1));
}

#[test]
fn what_is_withheld_waits_for_the_node() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.flags.insert(Flag::Maint);
    sim.xid(119);
    assert_eq!(sim.drain_state(), "withheld");
    assert_eq!(sim.engine.view().drain.why, "maint");
    sim.pass(300);
    assert_eq!(sim.slurm.drains, 0);
    sim.slurm.flags.remove(&Flag::Maint);
    sim.pass(90);
    assert_eq!(sim.slurm.drains, 1);
    sim.slurm.flags.insert(Flag::RebootIssued);
    sim.verdict_154(Recovery::None);
    sim.pass(300);
    assert_eq!((sim.slurm.undrains, sim.drain_state().as_str()), (0, "lifting"));
    sim.slurm.flags.remove(&Flag::RebootIssued);
    sim.pass(30);
    assert_eq!((sim.slurm.undrains, sim.drain_state().as_str()), (1, "none"));
}

#[test]
fn what_was_withheld_is_forgotten_with_its_incident() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.flags.insert(Flag::Maint);
    sim.xid(119);
    sim.verdict_154(Recovery::None);
    sim.slurm.flags.remove(&Flag::Maint);
    sim.pass(300);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (0, "none"));
}

#[test]
fn a_down_node_is_not_undrained() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    sim.slurm.base = Base::Down;
    sim.verdict_154(Recovery::None);
    sim.pass(300);
    assert_eq!(sim.slurm.undrains, 0);
    sim.slurm.base = Base::Idle;
    sim.pass(60);
    assert_eq!(sim.slurm.undrains, 1);
}

#[test]
fn a_slurmctld_that_does_not_know_the_node_is_no_person() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    sim.slurm.base = Base::Future;
    sim.slurm.flags.clear();
    sim.pass(300);
    assert_eq!(sim.engine.view().overrides, 0);
    sim.slurm.base = Base::Idle;
    sim.pass(60);
    assert_eq!(sim.engine.view().overrides, 1);
}

#[test]
fn an_unreadable_slurmctld_is_no_person_either() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    sim.slurm.readable = false;
    sim.slurm.admin_resumes();
    sim.pass(600);
    assert_eq!(sim.drain_state(), "drained");
}

/// Delivers an event, stops before one of its effects, and delivers it again.
fn tell_and_die(sim: &mut Sim, at: usize, body: EventBody) {
    sim.die_before = Some(sim.effects + at);
    let event = sim.event_of(body);
    sim.input(Input::Event("kernel_log", &event));
    sim.die_before = None;
    sim.input(Input::Event("kernel_log", &event));
    sim.pass(300);
}

#[test]
fn every_point_to_die_at_ends_in_one_drain_and_one_lift() {
    let mut none = xid_of(154);
    none.recovery = Some(Recovery::None);
    for (first, second) in (1..12).flat_map(|a| (1..12).map(move |b| (a, b))) {
        let mut sim = Sim::new(Mode::Drain);
        tell_and_die(&mut sim, first, EventBody::Xid(xid_of(119)));
        assert_eq!((sim.slurm.drains, sim.incidents().len()), (1, 1), "{first}");
        tell_and_die(&mut sim, second, EventBody::Xid(none.clone()));
        assert_eq!((sim.slurm.drains, sim.slurm.undrains), (1, 1), "{first} {second}");
        assert_eq!(sim.drain_state(), "none");
    }
}

#[test]
fn a_reboot_in_the_middle_of_a_write_or_a_lift() {
    for done in [Trouble::TimeoutDone, Trouble::TimeoutLost] {
        let mut sim = Sim::new(Mode::Drain);
        sim.slurm.readable = false;
        sim.xid(79);
        sim.reboot();
        sim.host.gpus.clear();
        sim.slurm.readable = true;
        sim.slurm.trouble.push_back(done.clone());
        sim.pass(300);
        assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (1, "drained"));
        sim.set_gpu(GPU, "nvidia", Some(true));
        sim.set_gpu(GPU2, "nvidia", Some(true));
        sim.pass(120);
        sim.slurm.trouble.push_back(done);
        sim.clear_repaired();
        sim.restart();
        sim.pass(300);
        assert_eq!((sim.slurm.undrains, sim.drain_state().as_str()), (1, "none"));
    }
}

/// The acts and queries among effects, as text.
fn words(effects: &[Effect]) -> Vec<&'static str> {
    effects
        .iter()
        .filter_map(|e| match e {
            Effect::Store(_) => Some("store"),
            Effect::Look(_) => Some("look"),
            Effect::Act(_, Action::Drain { .. }) => Some("drain"),
            Effect::Act(_, Action::Undrain { .. }) => Some("undrain"),
            _ => None,
        })
        .collect()
}

fn act_of(effects: &[Effect]) -> ActionId {
    let act = effects.iter().find_map(|e| match e {
        Effect::Act(id, _) => Some(*id),
        _ => None,
    });
    act.unwrap()
}

#[test]
fn what_may_have_happened_is_looked_at_before_it_is_done_again() {
    let late = Outcome::Unknown("late".to_owned());
    let mut sim = Sim::new(Mode::Drain);
    let event = sim.event_of(EventBody::Xid(xid_of(119)));
    let effects = sim.engine.step(sim.now, Input::Event("kernel_log", &event));
    assert_eq!(words(&effects), ["store", "drain"]);
    let effects = sim.engine.step(sim.now, Input::Done(act_of(&effects), &late));
    assert_eq!(words(&effects), ["store", "look"]);
    let effects = sim.engine.step(sim.now, Input::Scheduler(Ok(&sim.slurm.node())));
    assert_eq!(words(&effects), ["store"]);
    sim.sleep_until(sim.now.boottime + Duration::from_secs(2));
    let effects = sim.engine.step(sim.now, Input::Tick);
    assert_eq!(words(&effects), ["store", "drain"]);
    sim.run(effects);

    let mut none = xid_of(154);
    none.recovery = Some(Recovery::None);
    let event = sim.event_of(EventBody::Xid(none));
    let effects = sim.engine.step(sim.now, Input::Event("kernel_log", &event));
    assert_eq!(words(&effects), ["store", "undrain"]);
    let Effect::Store(record) = &effects[0] else {
        panic!()
    };
    sim.disk = Some(record.json.clone());
    let effects = sim.engine.step(sim.now, Input::Done(act_of(&effects), &late));
    assert_eq!(words(&effects), ["store", "look"]);
    // The same after a crash.
    sim.engine = Engine::new(sim.policy(), sim.boot_id(), sim.disk.as_deref(), sim.now).unwrap();
    let effects = sim.engine.step(sim.now, Input::Tick);
    assert_eq!(words(&effects), ["store", "look"]);
    let end = sim.end_of_log();
    sim.engine.step(sim.now, Input::Event("kernel_log", &end));
    let effects = sim.engine.step(sim.now, Input::Scheduler(Ok(&sim.slurm.node())));
    assert_eq!(words(&effects), ["store", "undrain"]);
}

#[test]
fn a_look_from_before_an_act_says_nothing_after_it() {
    let mut sim = Sim::new(Mode::Drain);
    let before = sim.slurm.node();
    sim.sleep_until(sim.now.boottime + Duration::from_secs(300));
    let effects = sim.engine.step(sim.now, Input::Tick);
    assert_eq!(words(&effects), ["look"]);
    sim.xid(119);
    assert_eq!(sim.drain_state(), "drained");
    sim.input(Input::Scheduler(Ok(&before)));
    assert_eq!(
        (sim.drain_state().as_str(), sim.engine.view().overrides),
        ("drained", 0)
    );
}

#[test]
fn answers_that_never_come_are_given_up() {
    let mut sim = Sim::new(Mode::Drain);
    let event = sim.event_of(EventBody::Xid(xid_of(119)));
    let effects = sim.engine.step(sim.now, Input::Event("kernel_log", &event));
    assert_eq!(words(&effects), ["store", "drain"]);
    // Twice the time that the parent has, and 20 s.
    sim.pass(170);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (1, "drained"));
}
