//! kill -9 of nodewarden before and after each command of a drain with a slot, on a real slurmctld.

use std::time::{Duration, Instant};

use testkit::scontrol_wrapper::Fault;

use crate::cluster::{Cluster, Meeting};
use crate::common::is_full;

/// The commands of a drain: words of their arguments, and which of several.
const COMMANDS: [(&str, usize); 6] = [
    (" show reservation ", 1),
    (" create ", 1),
    (" show reservation ", 2),
    (" -p ", 1),
    (" update ", 1),
    (" -n ", 1),
];
/// A reservation that is over keeps its name for at most 35 s.
const PURGE: Duration = Duration::from_secs(35);
const WINDOW: Duration = Duration::from_secs(120);

/// The drain stands once, whatever was done before the crash; a slot that was taken for it stays until its end.
fn killed_at_each_command(fault: impl Fn(String) -> Fault) {
    let mut c = Cluster::guarded();
    c.seldom();
    c.set("slurm.timeout=\"5s\"");
    c.set("slurm.mirror=false");
    c.set("health.guard.window=\"2m\"");
    let mut last = Instant::now();
    for (round, (command, nth)) in COMMANDS.into_iter().enumerate() {
        c.start();
        c.settle();
        // Until slurmd registers again after a lift, scontrol reads the node in place of sinfo.
        c.wait_registered();
        let drains = c.drains();
        let meeting = Meeting::new(&c);
        c.wrapper.set_at(command, nth, fault(meeting.script())).unwrap();
        c.xid(round, 119);
        meeting.wait(&c);
        // The command outlives its agent, and does what it was started for.
        c.daemon().kill9().unwrap();
        meeting.leave();
        c.until("all processes have ended", |n| n.daemon().children().is_empty());
        c.daemon = None;
        c.wrapper.set_none().unwrap();
        c.start();
        let reason = c.wait_drained();
        c.wait_drain_state("drained");
        assert_eq!(c.drains(), drains + 1, "{command}{nth}: one drain");
        assert_eq!(c.open_incidents().len(), 1, "{command}{nth}");
        let id = c.open_incidents()[0]["id"].as_str().unwrap().to_owned();
        assert!(reason.ends_with(&format!("id={id}")), "{reason}");
        let slots = c.reservations();
        assert!((1..=2).contains(&slots.len()), "{command}{nth}: {slots:?}");
        assert!(
            slots.iter().all(|slot| slot.contains(" Duration=00:02:00 ")),
            "{slots:?}"
        );
        last = Instant::now();
        c.clear_all();
        c.stop();
        if round + 1 < COMMANDS.len() {
            // An operator makes room for the next round.
            for slot in slots {
                let name = slot.split(' ').next().unwrap();
                c.delete(name.strip_prefix("ReservationName=").unwrap());
            }
        }
    }
    if is_full() {
        c.until_patiently("the slots are over", |c| c.reservations().is_empty());
        let over = last.elapsed();
        println!("the last slot was over after {over:?}");
        assert!(over <= WINDOW + PURGE, "{over:?}");
    }
}

#[test]
fn killed_before_each_command() {
    killed_at_each_command(Fault::Before);
}

#[test]
fn killed_after_each_command() {
    killed_at_each_command(Fault::After);
}
