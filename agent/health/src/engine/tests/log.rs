//! Conclusions wait until the kernel log was read.

use std::time::Duration;

use collectors::EventBody;
use collectors::event::Recovery;

use super::sim::*;
use crate::verdict::Health;
use crate::{Effect, Input, Mode, OrderVerb};

const DAY: u64 = 24 * 3600;

fn is_drained(sim: &Sim) -> bool {
    sim.slurm.is_drained()
}

/// A line printed `age` seconds ago.
fn old(sim: &mut Sim, age: u64, body: EventBody) {
    let mut event = sim.event_of(body);
    event.at_us = event.at_us.saturating_sub(age * 1_000_000);
    sim.input(Input::Event("kernel_log", &event));
}

fn verdict(recovery: Recovery) -> EventBody {
    let mut xid = xid_of(154);
    xid.recovery = Some(recovery);
    EventBody::Xid(xid)
}

#[test]
fn a_reboot_clears_nothing_while_the_log_cannot_be_read() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(79);
    sim.host.kernel_log = false;
    sim.reboot();
    sim.pass(3600);
    assert_eq!(sim.engine.view().verdict.health, Health::Unhealthy);
    assert_eq!(sim.incidents(), ["xid79 open"]);
    assert!(is_drained(&sim));
    // Readable, but not read to its end.
    sim.host.kernel_log = true;
    sim.pass(3600);
    assert!(is_drained(&sim));
    sim.log_is_read();
    sim.pass(29);
    assert_eq!(sim.incidents(), ["xid79 open"]);
    sim.pass(16);
    assert_eq!(sim.incidents(), ["xid79 cleared"]);
}

#[test]
fn a_reboot_clears_nothing_before_the_log_of_the_new_boot_was_read_and_was_quiet_for_a_while() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(79);
    sim.reboot_unread();
    sim.snapshot();
    assert!(is_drained(&sim), "the ring may hold the same line again");
    sim.xid(79);
    sim.log_is_read();
    sim.pass(3600);
    assert_eq!((sim.slurm.drains, sim.slurm.undrains), (1, 0));
    assert_eq!(sim.incidents(), ["xid79 open"]);

    // An unreadable log restarts the wait.
    sim.reboot();
    sim.pass(20);
    sim.host.kernel_log = false;
    sim.snapshot();
    sim.host.kernel_log = true;
    sim.pass(20);
    assert_eq!(sim.incidents(), ["xid79 open"]);
    sim.pass(60);
    assert_eq!(sim.incidents(), ["xid79 cleared"]);
}

#[test]
fn without_the_log_only_a_person_lifts() {
    let mut config = config(Mode::Drain);
    config.gpu_addresses = vec![pci(GPU)];
    let mut sim = Sim::with(config, None);
    sim.remove_gpu(GPU);
    sim.pass(60);
    assert!(is_drained(&sim));
    sim.host.kernel_log = false;
    sim.set_gpu(GPU, "nvidia", Some(true));
    sim.pass(300);
    assert_eq!(sim.slurm.undrains, 0);
    sim.host.kernel_log = true;
    sim.pass(60);
    sim.clear_repaired();

    let mut sim = Sim::new(Mode::Drain);
    sim.host.kernel_log = false;
    sim.restart();
    sim.xid(79);
    sim.pass(60);
    let id = sim.engine.view().incidents[0].id.clone();
    sim.order(OrderVerb::Clear, &id).unwrap();
    assert!(!is_drained(&sim));
}

#[test]
fn a_stale_line_does_not_count() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(13);
    sim.now.boottime += Duration::from_secs(20 * DAY);
    sim.restart_unread();
    old(&mut sim, 19 * DAY, EventBody::Xid(xid_of(119)));
    old(&mut sim, 19 * DAY, EventBody::Xid(xid_of(79)));
    sim.log_is_read();
    sim.pass(600);
    assert_eq!(sim.slurm.drains, 0);
    assert!(sim.incidents().is_empty());

    sim.restart_unread();
    old(&mut sim, 19 * DAY, EventBody::Xid(xid_of(79)));
    sim.remove_gpu(GPU);
    sim.log_is_read();
    sim.pass(15);
    assert_eq!(sim.slurm.drains, 1, "the node agrees");
}

#[test]
fn a_recordings_time_stamps_say_nothing() {
    let mut sim = Sim::new(Mode::Drain);
    sim.restart_unread();
    sim.engine = sim.engine_of_disk().replaying();
    sim.now.boottime += Duration::from_secs(DAY);
    let mut event = sim.event_of(EventBody::Xid(xid_of(79)));
    event.at_us = 5;
    sim.input(Input::Event("kernel_log", &event));
    sim.log_is_read();
    assert_eq!(sim.slurm.drains, 1);
}

#[test]
fn a_live_line_counts_with_any_time_stamp() {
    let mut sim = Sim::new(Mode::Drain);
    // Suspended for a day: the clock of the lines stopped.
    old(&mut sim, 99, EventBody::Xid(xid_of(13)));
    sim.now.boottime += Duration::from_secs(DAY);
    old(&mut sim, DAY, EventBody::Xid(xid_of(119)));
    assert_eq!(sim.slurm.drains, 1);
}

#[test]
fn a_late_line_of_a_clock_that_is_behind_counts() {
    // The first is fresh by the clock of the lines, the other is older than 15 min.
    for (age, drains) in [(60, 1), (20 * 60, 0)] {
        let mut sim = Sim::new(Mode::Drain);
        sim.now.boottime += Duration::from_secs(DAY);
        sim.event_behind(30 * 60, EventBody::Progress);
        sim.host.kernel_log = false;
        sim.snapshot();
        sim.event_behind(30 * 60 + age, EventBody::Xid(xid_of(79)));
        assert_eq!(sim.slurm.drains, drains, "{age}");
    }
}

#[test]
fn the_last_line_of_a_backlog_shows_no_clock() {
    let mut sim = Sim::new(Mode::Drain);
    sim.now.boottime += Duration::from_secs(DAY);
    sim.restart_unread();
    sim.event_behind(DAY / 2, EventBody::Progress);
    sim.host.kernel_log = false;
    sim.snapshot();
    sim.event_behind(DAY / 2, EventBody::Xid(xid_of(79)));
    assert_eq!(sim.slurm.drains, 0);
}

#[test]
fn a_backlog_is_judged_when_it_is_read() {
    let mut sim = Sim::new(Mode::Drain);
    sim.restart_unread();
    sim.xid(119);
    assert_eq!(sim.slurm.drains, 0);
    sim.verdict_154(Recovery::None);
    sim.log_is_read();
    sim.pass(600);
    assert_eq!((sim.slurm.drains, sim.slurm.undrains), (0, 0));
    assert!(sim.engine.view().would_drain.is_empty());

    let mut sim = Sim::new(Mode::Drain);
    sim.restart_unread();
    sim.verdict_154(Recovery::None);
    sim.xid(119);
    sim.log_is_read();
    assert_eq!(sim.slurm.drains, 1, "at once when all is read");
}

#[test]
fn a_log_that_does_not_end_holds_nothing_up_for_long() {
    let mut sim = Sim::new(Mode::Drain);
    sim.restart_unread();
    sim.xid(119);
    sim.pass(9);
    assert_eq!(sim.slurm.drains, 0);
    sim.pass(1);
    assert_eq!(sim.slurm.drains, 1);
}

#[test]
fn a_fresh_line_acts_in_the_same_step() {
    let mut sim = Sim::new(Mode::Drain);
    let event = sim.event_of(EventBody::Xid(xid_of(79)));
    let effects = sim.engine.step(sim.now, Input::Event("kernel_log", &event));
    assert!(effects.iter().any(|e| matches!(e, Effect::Act(..))));
}

#[test]
fn an_old_verdict_none_clears_unless_a_fault_came_after_it() {
    // An old line or a new one: the drain stays in both cases.
    for again in [None, Some(2000), Some(60)] {
        let mut sim = Sim::new(Mode::Drain);
        sim.xid(119);
        sim.now.boottime += Duration::from_secs(DAY);
        sim.restart_unread();
        old(&mut sim, 3000, verdict(Recovery::None));
        if let Some(age) = again {
            old(&mut sim, age, EventBody::Xid(xid_of(119)));
        }
        assert!(is_drained(&sim));
        sim.log_is_read();
        sim.pass(15);
        assert_eq!(is_drained(&sim), again.is_some());
    }
}
