//! slurmctld carries out what we had given up.

use collectors::EventBody;
use collectors::event::Recovery;
use slurm::state::Base;

use super::sim::*;
use crate::{Mode, OrderVerb};

/// Drained for a GPU, and a lift lies in slurmctld's queue when another fault comes.
fn fault_after_a_lift_that_hangs() -> Sim {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    sim.slurm.trouble.push_back(Trouble::TimeoutLate);
    sim.verdict_154(Recovery::None);
    assert_eq!(sim.drain_state(), "lifting");
    sim.xid(79);
    assert_eq!(sim.drain_state(), "drained");
    sim
}

#[test]
fn our_own_late_lift_is_no_persons() {
    for restart in [false, true] {
        let mut sim = fault_after_a_lift_that_hangs();
        if restart {
            sim.restart();
        }
        sim.slurm.catch_up();
        assert!(!sim.slurm.is_drained());
        sim.pass(60);
        assert!(sim.slurm.is_drained());
        assert_eq!((sim.drain_state().as_str(), sim.slurm.drains), ("drained", 2));
        assert_eq!(sim.incidents()[0], "xid79 open");
        assert_eq!(sim.engine.view().overrides, 0);
        let lifts = sim.record()["lifts"].as_array().map(Vec::len);
        assert_eq!(lifts, Some(1), "an automatic lift, and so one of the day's two");
        // It was that one lift; the next is a person's.
        sim.admin_insists();
        assert_eq!((sim.drain_state().as_str(), sim.slurm.drains), ("overridden", 3));
        assert_eq!(sim.engine.view().overrides, 2);
    }
}

#[test]
fn a_lift_long_after_ours_was_given_up_is_a_persons() {
    let mut sim = fault_after_a_lift_that_hangs();
    sim.pass(1000);
    sim.admin_insists();
    assert_eq!((sim.drain_state().as_str(), sim.slurm.drains), ("overridden", 2));
}

#[test]
fn a_lift_whose_answer_died_with_the_daemon_is_ours_too() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    sim.slurm.trouble.push_back(Trouble::TimeoutLate);
    // Store, acknowledge, act; dead before the answer is taken in.
    sim.die_before = Some(sim.effects + 4);
    sim.verdict_154(Recovery::None);
    sim.die_before = None;
    sim.xid(79);
    sim.slurm.catch_up();
    sim.pass(60);
    assert!(sim.slurm.is_drained());
    assert_eq!(sim.engine.view().overrides, 0);
}

#[test]
fn a_lift_that_only_waited_makes_no_later_lift_of_a_person_ours() {
    let down: fn(&mut Sim) = |sim| sim.slurm.base = Base::Down;
    let refused: fn(&mut Sim) = |sim| sim.slurm.trouble = vec![Trouble::Failed; 9].into();
    for (waits, answer) in [(down, "withheld: down"), (refused, "refused")] {
        let mut sim = Sim::new(Mode::Drain);
        sim.xid(119);
        waits(&mut sim);
        sim.verdict_154(Recovery::None);
        for _ in 0..2 {
            sim.restart();
            sim.pass(1);
            let drain = sim.engine.view().drain;
            assert_eq!((drain.state.as_str(), drain.why.as_str()), ("lifting", answer));
        }
        sim.slurm.base = Base::Idle;
        sim.slurm.trouble.clear();
        sim.pass(330);
        assert_eq!((sim.drain_state().as_str(), sim.slurm.undrains), ("none", 1));
        sim.xid(79);
        assert_eq!(sim.drain_state(), "drained");
        sim.admin_insists();
        let view = sim.engine.view();
        assert_eq!((view.drain.state.as_str(), view.overrides), ("overridden", 2));
        assert_eq!(sim.slurm.drains, 3, "once more after the first lift");
    }
}

#[test]
fn a_drain_that_a_look_or_the_next_try_shows_is_counted() {
    let (done, late) = (Trouble::TimeoutDone, Trouble::TimeoutLate);
    for (trouble, dies) in [(done.clone(), false), (done, true), (late, false)] {
        let mut sim = Sim::new(Mode::Drain);
        sim.slurm.trouble.push_back(trouble.clone());
        // Store, acknowledge, act; dead before the answer is taken in.
        sim.die_before = dies.then_some(sim.effects + 4);
        sim.xid(119);
        sim.die_before = None;
        sim.slurm.catch_up();
        sim.pass(60);
        let view = sim.engine.view();
        assert_eq!((view.drain.state.as_str(), sim.slurm.drains), ("drained", 1));
        assert_eq!(view.drains, [("xid".to_owned(), 1)], "{trouble:?} {dies}");
        let history = &view.incidents[0].history;
        let is_it = |(_, text): &&(i64, String)| text == "drained the node";
        assert_eq!(history.iter().filter(is_it).count(), 1, "{history:?}");
    }
}

#[test]
fn our_own_late_drain_does_not_outlive_its_incident() {
    for restart in [false, true] {
        let mut sim = Sim::new(Mode::Drain);
        sim.slurm.trouble.push_back(Trouble::TimeoutLate);
        sim.xid(119);
        assert_eq!(sim.drain_state(), "wanted");
        sim.verdict_154(Recovery::None);
        assert_eq!(sim.drain_state(), "none");
        if restart {
            sim.restart();
        }
        sim.slurm.catch_up();
        assert!(sim.slurm.is_drained());
        sim.pass(90);
        assert!(!sim.slurm.is_drained(), "the record proves that it is ours");
        assert_eq!(sim.drain_state(), "none");
    }
}

/// It replaces the reason of another own drain. An operator's would stay.
#[test]
fn our_own_late_drain_over_another_one_is_no_operators() {
    for restart in [false, true] {
        let mut sim = Sim::new(Mode::Drain);
        sim.slurm.trouble.push_back(Trouble::TimeoutLate);
        sim.xid(119);
        sim.verdict_154(Recovery::None);
        sim.xid(119);
        sim.pass(10);
        assert_eq!((sim.drain_state().as_str(), sim.slurm.drains), ("drained", 1));
        if restart {
            sim.restart();
        }
        let before = sim.reason();
        sim.slurm.catch_up();
        assert_ne!(sim.reason(), before);
        sim.pass(600);
        assert_eq!(sim.drain_state(), "drained");
        assert_eq!(sim.engine.view().overrides, 0);
        sim.verdict_154(Recovery::None);
        sim.pass(900);
        assert_eq!(
            (sim.drain_state().as_str(), sim.slurm.is_drained()),
            ("none", false)
        );
    }
}

#[test]
fn a_late_drain_that_no_record_proves_is_left_to_people() {
    let mut sim = Sim::new(Mode::Drain);
    sim.disk_works = false;
    sim.slurm.trouble.push_back(Trouble::TimeoutLate);
    sim.xid(119);
    sim.verdict_154(Recovery::None);
    sim.disk_works = true;
    sim.slurm.catch_up();
    sim.pass(600);
    assert!(sim.slurm.is_drained());
}

#[test]
fn a_late_drain_of_an_incident_that_a_person_cleared_is_lifted() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.trouble.push_back(Trouble::TimeoutLate);
    sim.xid(79);
    let id = sim.engine.view().incidents[0].id.clone();
    sim.order(OrderVerb::Clear, &id).unwrap();
    sim.slurm.catch_up();
    sim.pass(90);
    assert!(!sim.slurm.is_drained());
    assert_eq!(sim.slurm.drains, 1);
}

/// Off the bus: no test verifies the repair, so only an order lifts it.
#[test]
fn a_drain_that_is_being_written_when_a_person_clears_its_incident_is_lifted() {
    let said = "; a drain that was sent before is lifted as soon as it stands";
    for trouble in [None, Some(Trouble::TimeoutDone), Some(Trouble::Failed)] {
        let mut sim = Sim::new(Mode::Drain);
        sim.slurm.trouble.extend(trouble.clone());
        sim.clear_in_flight = true;
        sim.xid(79);
        sim.pass(60);
        assert!(sim.answers.pop().unwrap().unwrap().ends_with(said), "{trouble:?}");
        assert!(!sim.slurm.is_drained(), "{trouble:?}");
        assert_eq!(sim.drain_state(), "none");
        // The order was for that drain alone.
        sim.xid(79);
        sim.verdict_154(Recovery::None);
        sim.pass(600);
        assert_eq!(sim.drain_state(), "drained", "{trouble:?}");
    }
}

#[test]
fn a_drain_that_is_being_written_is_kept_for_another_incident_than_the_cleared_one() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.readable = false;
    sim.xid(79);
    let mut other = xid_of(79);
    other.pci = pci(GPU2);
    sim.event(EventBody::Xid(other));
    sim.slurm.readable = true;
    sim.clear_in_flight = true;
    sim.pass(600);
    let answer = sim.answers.pop().unwrap().unwrap();
    assert!(answer.contains("; other incidents hold the drain"), "{answer}");
    assert!(sim.slurm.is_drained());
    assert_eq!((sim.drain_state().as_str(), sim.slurm.drains), ("drained", 1));
}

#[test]
fn an_answer_is_awaited_for_longer_than_the_parent_takes() {
    let mut sim = Sim::new(Mode::Drain);
    for seconds in [1, 10, 60, 600] {
        sim.config.scheduler.timeout = std::time::Duration::from_secs(seconds);
        let patience = sim.policy().patience;
        assert!(crate::drain::lost(patience) > 2 * patience);
        assert!(patience.as_secs() >= 4 * seconds + 10);
    }
}
