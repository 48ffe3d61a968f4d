//! What a mode allows.

use collectors::EventBody;
use collectors::event::Recovery;

use super::sim::*;
use crate::checks::Version;
use crate::policy::Policy;
use crate::{Mode, OrderVerb};

#[test]
fn observe_counts_what_it_would_have_done() {
    let mut sim = Sim::new(Mode::Observe);
    sim.xid(79);
    sim.xid(79);
    sim.host.edac = Some(1);
    sim.pass(600);
    assert_eq!((sim.slurm.drains, sim.slurm.comment.clone()), (0, None));
    assert_eq!(
        sim.engine.view().would_drain,
        [("edac-uncorrected".to_owned(), 1), ("xid".to_owned(), 1)]
    );
}

/// The counts of drains and of suppressed drains.
#[test]
fn a_drain_under_way_as_the_mode_becomes_lower_counts_as_what_became_of_it() {
    for (trouble, drained, suppressed) in [(None, 1, 0), (Some(Trouble::NotBegun), 0, 1)] {
        let mut sim = Sim::new(Mode::Drain);
        sim.slurm.trouble.extend(trouble);
        sim.mode_in_flight = Some(Mode::Observe);
        sim.xid(79);
        sim.pass(60);
        let view = sim.engine.view();
        let sum = |counts: &[(String, u64)]| counts.iter().map(|(_, n)| n).sum::<u64>();
        assert_eq!(sim.slurm.drains, drained);
        assert_eq!(
            (sum(&view.drains), sum(&view.would_drain)),
            (drained.into(), suppressed)
        );
    }
}

#[test]
fn comment_writes_a_comment_and_takes_it_away() {
    let mut sim = Sim::new(Mode::Comment);
    sim.xid(79);
    let id = sim.engine.view().incidents[0].id.clone();
    sim.pass(15);
    assert!(sim.slurm.comment.clone().unwrap().ends_with(&id));
    sim.pass(600);
    assert_eq!(sim.slurm.drains, 0);
    assert_eq!(sim.engine.view().would_drain, [("xid".to_owned(), 1)]);
    sim.reboot();
    sim.pass(60);
    assert_eq!(sim.slurm.comment, None);
}

#[test]
fn a_persons_comment_is_left_alone() {
    let mut sim = Sim::new(Mode::Comment);
    sim.slurm.comment = Some("rack 3".to_owned());
    sim.xid(79);
    sim.pass(600);
    assert_eq!(sim.slurm.comment.as_deref(), Some("rack 3"));
}

#[test]
fn one_check_may_do_less_than_the_rest() {
    let mut config = config(Mode::Drain);
    config.checks.insert("xid".to_owned(), Mode::Observe);
    let mut sim = Sim::with(config, None);
    sim.xid(79);
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 0);
    sim.host.edac = Some(1);
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 1);
}

#[test]
fn no_check_may_do_more_than_all() {
    let mut config = config(Mode::Observe);
    config.checks.insert("xid".to_owned(), Mode::Drain);
    let mut sim = Sim::with(config, None);
    sim.xid(79);
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 0);
}

#[test]
fn a_check_younger_than_the_baseline_observes() {
    let mut config = config(Mode::Drain);
    config.baseline = Some("0.0.9".to_owned());
    let mut sim = Sim::with(config, None);
    sim.xid(79);
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 0);
    assert_eq!(sim.policy().baseline, Version(0, 0, 9));
}

#[test]
fn a_drain_that_was_being_written_when_the_mode_was_lowered_stands_for_its_incident() {
    let mut sim = Sim::new(Mode::Drain);
    sim.mode_in_flight = Some(Mode::Observe);
    sim.xid(79);
    sim.pass(600);
    assert!(sim.slurm.is_drained());
    let view = sim.engine.view();
    let why = &view.drain.why;
    assert!(why.starts_with("nodewarden:xid "), "not repaired: {why}");
    let id = view.incidents[0].id.clone();
    sim.order(OrderVerb::Clear, &id).unwrap();
    sim.pass(60);
    assert!(!sim.slurm.is_drained(), "a person ends it");
}

#[test]
fn raising_the_mode_acts_on_what_is_open_and_lowering_it_lifts_nothing() {
    let mut sim = Sim::new(Mode::Observe);
    sim.xid(119);
    sim.config.mode = Mode::Drain;
    sim.reload();
    assert_eq!(sim.slurm.drains, 1);
    sim.config.mode = Mode::Observe;
    sim.reload();
    sim.pass(600);
    assert!(sim.slurm.is_drained());
    sim.reboot();
    sim.pass(60);
    assert!(
        !sim.slurm.is_drained(),
        "repaired: our own drain is lifted in any mode"
    );
}

#[test]
fn what_the_configuration_may_not_say() {
    let mut config = config(Mode::Drain);
    config.checks.insert("xids".to_owned(), Mode::Drain);
    let error = Policy::new(&config, None).unwrap_err();
    assert!(
        error.contains("health.checks") && error.contains("\"xids\"") && error.contains("gpu-missing"),
        "{error}"
    );
    config.checks.clear();
    config.checks.insert("gpu-memory-held".to_owned(), Mode::Drain);
    assert_eq!(
        Policy::new(&config, None).unwrap_err(),
        "health.checks.gpu-memory-held: found \"drain\", expected \"observe\" or \"comment\""
    );
    config.checks.clear();
    config.baseline = Some("new".to_owned());
    let error = Policy::new(&config, None).unwrap_err();
    assert!(
        error.contains("health.baseline") && error.contains("\"new\""),
        "{error}"
    );
}

#[test]
fn a_comment_that_was_not_replaced_is_removed_with_its_incident() {
    let mut sim = Sim::new(Mode::Comment);
    sim.xid(119);
    sim.pass(15);
    let first = sim.slurm.comment.clone().unwrap();
    let mut other = xid_of(119);
    other.pci = pci(GPU2);
    sim.event(EventBody::Xid(other.clone()));
    sim.slurm.trouble.push_back(Trouble::Failed);
    sim.verdict_154(Recovery::None);
    sim.pass(15);
    assert!(sim.slurm.trouble.is_empty());
    assert_eq!(
        sim.slurm.comment.as_ref(),
        Some(&first),
        "the other's text was refused"
    );
    (other.code, other.recovery) = (154, Some(Recovery::None));
    sim.event(EventBody::Xid(other));
    sim.pass(1200);
    assert_eq!(sim.slurm.comment, None);
}
