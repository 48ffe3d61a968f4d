//! What the record alone says after a start or a reboot drains nothing before the node was read.

use collectors::gpu::metrics as m;
use model::scheduler::HeldBy;

use super::gpus::{Series, driven, node, show, well};
use super::sim::*;
use crate::Mode;
use crate::verdict::Health;
use slurm::state::Flag;

fn health(sim: &Sim) -> Health {
    sim.engine.view().verdict.health
}

/// Lets time pass, in which the node is never called unhealthy.
fn is_never_unhealthy(sim: &mut Sim, seconds: u64) {
    for second in 1..=seconds {
        sim.pass(1);
        if second % 15 == 0 {
            sim.snapshot();
        }
        assert_ne!(health(sim), Health::Unhealthy, "{second} s");
    }
}

/// What keeps a drain from standing.
#[derive(Clone, Copy, Debug)]
enum Obstacle {
    Person,
    RebootAsap,
    RebootIssued,
    InvalidReg,
    Guard,
    Unproven,
    Failed,
    NoSlurmd,
}

const OBSTACLES: [Obstacle; 8] = [
    Obstacle::Person,
    Obstacle::RebootAsap,
    Obstacle::RebootIssued,
    Obstacle::InvalidReg,
    Obstacle::Guard,
    Obstacle::Unproven,
    Obstacle::Failed,
    Obstacle::NoSlurmd,
];

fn set(sim: &mut Sim, obstacle: Obstacle, is_there: bool) {
    let flag = match obstacle {
        Obstacle::RebootIssued => Some(Flag::RebootIssued),
        Obstacle::InvalidReg => Some(Flag::InvalidReg),
        _ => None,
    };
    match obstacle {
        Obstacle::RebootAsap if is_there => {
            sim.slurm.admin_drains("Reboot ASAP");
            sim.slurm.flags.insert(Flag::RebootRequested);
        }
        Obstacle::RebootAsap => {
            sim.slurm.admin_resumes();
            sim.slurm.flags.remove(&Flag::RebootRequested);
        }
        Obstacle::Person if is_there => sim.slurm.admin_drains("firmware update"),
        Obstacle::Person => sim.slurm.admin_resumes(),
        Obstacle::Guard => sim.slurm.held = is_there.then_some(HeldBy::Guard),
        Obstacle::Unproven => sim.slurm.proven = !is_there,
        Obstacle::Failed if is_there => sim.slurm.trouble = vec![Trouble::Failed; 10_000].into(),
        Obstacle::Failed => sim.slurm.trouble.clear(),
        Obstacle::NoSlurmd => sim.slurm.here = !is_there,
        _ if is_there => sim.slurm.flags.extend(flag),
        _ => sim.slurm.flags.retain(|set| Some(*set) != flag),
    }
}

/// An Xid whose drain does not stand at the reboot. Nothing forbids it after.
fn rebooted_after(code: u32, obstacle: Obstacle) -> Sim {
    let mut sim = Sim::new(Mode::Drain);
    set(&mut sim, obstacle, true);
    sim.xid(code);
    sim.pass(300);
    assert_eq!(sim.slurm.drains, 0, "{obstacle:?}");
    assert_eq!(health(&sim), Health::Unhealthy);
    set(&mut sim, obstacle, false);
    sim.reboot();
    sim
}

#[test]
fn a_fault_of_the_last_boot_that_the_reboot_repaired_drains_nothing_and_is_not_called_unhealthy() {
    for obstacle in OBSTACLES {
        for code in [119, 79] {
            let mut sim = rebooted_after(code, obstacle);
            assert_ne!(health(&sim), Health::Unhealthy);
            is_never_unhealthy(&mut sim, 60);
            assert_eq!(health(&sim), Health::Healthy, "{obstacle:?}");
            sim.pass(1200);
            assert_eq!(sim.slurm.drains, 0, "{obstacle:?} {code}");
            assert_eq!(sim.incidents(), [format!("xid{code} cleared")]);
            assert_eq!(sim.drain_state(), "none", "{obstacle:?}");
        }
    }
}

#[test]
fn the_verdict_says_why_it_is_unknown_meanwhile() {
    let mut sim = rebooted_after(119, Obstacle::Person);
    sim.pass(20);
    let text = format!("a fault is not confirmed by the latest readings; 1 open incident: xid gpu pci:{GPU}");
    assert_eq!(sim.engine.view().verdict.text, text);
}

/// Slurm ends our drain when the rebooted node registers: `scontrol reboot nextstate=RESUME`.
#[test]
fn a_drain_that_slurm_ends_with_the_reboot_does_not_come_back_for_what_the_reboot_repaired() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(119);
    sim.pass(300);
    sim.slurm.admin_resumes();
    sim.reboot();
    sim.pass(1200);
    assert_eq!(sim.slurm.drains, 1);
    assert_eq!(sim.incidents(), ["xid119 cleared"]);
}

/// `scontrol reboot` without ASAP: Slurm starts jobs on the node until it is idle.
#[test]
fn a_requested_reboot_does_not_hold_the_drain() {
    let mut sim = Sim::new(Mode::Drain);
    sim.slurm.flags.insert(Flag::RebootRequested);
    sim.xid(79);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (1, "drained"));
}

/// `scontrol reboot nextstate=RESUME`, requested before the fault: its author has not seen our drain, which ends when the node
/// registers.
fn resumed_by_a_reboot(code: u32, change: impl Fn(&mut Sim)) -> Sim {
    let mut sim = Sim::expecting(GPU);
    sim.slurm.flags.insert(Flag::RebootRequested);
    sim.xid(code);
    sim.pass(300);
    assert!(sim.slurm.is_drained());
    sim.slurm.flags.remove(&Flag::RebootRequested);
    sim.slurm.flags.insert(Flag::RebootIssued);
    sim.pass(300);
    change(&mut sim);
    sim.reboot();
    // slurmd registers later than nodewarden starts.
    sim.pass(10);
    sim.slurm.flags.remove(&Flag::RebootIssued);
    sim.slurm.admin_resumes();
    sim.pass(1200);
    sim
}

#[test]
fn a_reboot_that_was_requested_before_our_drain_is_no_operators_lift() {
    let sim = resumed_by_a_reboot(119, |_| {});
    assert_eq!((sim.slurm.drains, sim.engine.view().overrides), (1, 0));
    assert_eq!(sim.incidents(), ["xid119 cleared"]);
    assert!(sim.trail().contains(&"Lost".to_owned()), "{:?}", sim.trail());
    // Only a person ends the second one: as a lift, the reboot would have silenced it.
    for code in [79, 54] {
        let mut sim = resumed_by_a_reboot(code, |sim| {
            if code == 79 {
                sim.remove_gpu(GPU);
            }
        });
        assert_eq!((sim.slurm.drains, sim.engine.view().overrides), (2, 0), "{code}");
        assert!(!sim.reason().contains("after-lift"), "{code}");
        assert_eq!(health(&sim), Health::Unhealthy, "{code}");
        // A person's lift after it counts as ever.
        sim.slurm.admin_resumes();
        sim.pass(60);
        assert_eq!(sim.engine.view().overrides, 1, "{code}");
    }
}

#[test]
fn a_lift_before_the_requested_reboot_or_after_it_was_cancelled_is_an_operators() {
    for is_cancelled in [false, true] {
        let mut sim = Sim::new(Mode::Drain);
        sim.slurm.flags.insert(Flag::RebootRequested);
        sim.xid(54);
        sim.pass(600);
        if is_cancelled {
            sim.slurm.admin_cancels_reboot(true);
            sim.pass(600);
            sim.reboot();
            sim.pass(60);
        }
        sim.slurm.admin_undrains();
        sim.pass(600);
        assert_eq!(sim.drain_state(), "overridden", "{is_cancelled}");
    }
}

#[test]
fn a_drain_that_slurmctld_ends_with_a_cancelled_reboot_is_no_lift() {
    for is_before in [true, false] {
        for code in [54, 119] {
            let mut sim = Sim::new(Mode::Drain);
            if is_before {
                sim.slurm.flags.insert(Flag::RebootRequested);
            }
            sim.xid(code);
            sim.slurm.flags.insert(Flag::RebootRequested);
            sim.pass(600);
            sim.restart();
            sim.slurm.admin_cancels_reboot(false);
            assert!(!sim.slurm.is_drained());
            sim.pass(600);
            assert_eq!((sim.slurm.drains, sim.engine.view().overrides), (2, 0), "{code}");
            assert!(!sim.reason().contains("after-lift"), "{code}");
            assert_eq!(health(&sim), Health::Unhealthy, "{code}");
            assert!(sim.trail().contains(&"Lost".to_owned()), "{:?}", sim.trail());
            // A person's lift after it counts as ever.
            sim.slurm.admin_resumes();
            sim.pass(600);
            assert_eq!(sim.engine.view().overrides, 1, "{code}");
        }
    }
}

/// It clears the request like a cancellation.
#[test]
fn a_persons_resume_of_a_node_with_a_requested_reboot_is_followed_by_one_more_drain() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(54);
    sim.slurm.flags.insert(Flag::RebootRequested);
    sim.pass(600);
    sim.slurm.admin_resumes();
    sim.pass(600);
    assert_eq!(sim.slurm.drains, 2);
    sim.slurm.admin_resumes();
    sim.pass(600);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (2, "overridden"));
}

#[test]
fn the_end_of_a_requested_reboot_in_another_boot_is_no_cancellation() {
    let mut sim = Sim::new(Mode::Drain);
    sim.xid(54);
    sim.slurm.flags.insert(Flag::RebootRequested);
    sim.pass(600);
    sim.slurm.flags.remove(&Flag::RebootRequested);
    sim.slurm.flags.insert(Flag::RebootIssued);
    sim.reboot();
    sim.pass(10);
    // `nextstate=RESUME`, by who had seen the drain.
    sim.slurm.flags.remove(&Flag::RebootIssued);
    sim.slurm.admin_resumes();
    sim.pass(1200);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (1, "overridden"));
}

#[test]
fn a_fault_that_the_reboot_did_not_repair_drains_when_the_new_boot_shows_it() {
    for obstacle in OBSTACLES {
        for is_silent in [false, true] {
            let mut sim = Sim::new(Mode::Drain);
            set(&mut sim, obstacle, true);
            sim.xid(79);
            sim.pass(300);
            set(&mut sim, obstacle, false);
            if is_silent {
                sim.set_gpu(GPU, "nvidia", Some(false));
            } else {
                sim.remove_gpu(GPU);
            }
            sim.reboot();
            sim.pass(29);
            assert_eq!(sim.slurm.drains, 0, "the log may still say otherwise");
            sim.pass(31);
            assert_eq!(sim.slurm.drains, 1, "{obstacle:?}");
            assert_eq!(health(&sim), Health::Unhealthy);
        }
    }
}

/// Xid 54: the power cable.
#[test]
fn a_fault_that_no_reading_ends_drains_after_the_log_was_quiet() {
    let mut sim = rebooted_after(54, Obstacle::Person);
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 1);
}

#[test]
fn new_evidence_in_the_new_boot_drains_at_once() {
    for code in [119, 79] {
        let mut sim = rebooted_after(119, Obstacle::Person);
        sim.pass(5);
        sim.xid(code);
        sim.pass(2);
        assert_eq!(sim.slurm.drains, 1);
        assert_eq!(health(&sim), Health::Unhealthy);
    }
}

/// The driver's library begins to answer after the log was quiet for long enough.
#[test]
fn what_the_driver_must_show_is_waited_for() {
    for (is_pending, drains) in [(false, 0), (true, 1)] {
        let mut sim = node(Mode::Drain, vec![driven(well())]);
        sim.slurm.admin_drains("firmware update");
        sim.xid(48);
        sim.pass(60);
        sim.slurm.admin_resumes();
        sim.host.driven.clear();
        sim.reboot();
        sim.pass(300);
        assert_eq!(sim.slurm.drains, 0);
        show(
            &mut sim,
            vec![
                (&m::ROW_REMAP_PENDING, vec![], u64::from(is_pending)),
                (&m::ROW_REMAP_FAILURE, vec![], 0),
                (&m::ECC_SRAM_THRESHOLD, vec![], 0),
            ],
        );
        sim.pass(60);
        assert_eq!(sim.slurm.drains, drains, "pending: {is_pending}");
        sim.pass(1200);
        assert_eq!(sim.slurm.drains, drains, "pending: {is_pending}");
    }
}

#[test]
fn what_nothing_answers_for_drains_10_min_after_the_start() {
    let nothing: fn(&mut Sim) = |sim| sim.host.kernel_log = false;
    let no_bus: fn(&mut Sim) = |sim| sim.host.readable = false;
    let not_asked: fn(&mut Sim) = |sim| sim.set_gpu(GPU, "nvidia", None);
    for hide in [nothing, no_bus, not_asked] {
        let mut sim = Sim::new(Mode::Drain);
        sim.slurm.admin_drains("firmware update");
        sim.xid(79);
        sim.pass(60);
        sim.slurm.admin_resumes();
        hide(&mut sim);
        sim.reboot();
        sim.pass(590);
        assert_eq!((sim.slurm.drains, health(&sim)), (0, Health::Unknown));
        sim.pass(40);
        assert_eq!((sim.slurm.drains, health(&sim)), (1, Health::Unhealthy));
    }
}

#[test]
fn a_drain_that_stands_and_one_that_outlived_its_record_are_held_by_the_fault_of_the_last_boot() {
    for is_written in [false, true] {
        let mut sim = Sim::new(Mode::Drain);
        sim.xid(119);
        sim.pass(60);
        if !is_written {
            // The answer died with the daemon.
            let mut record = sim.record();
            record["drain"]["state"] = "writing".into();
            record["incidents"][0]["behind"] = false.into();
            sim.set_record(&record);
        }
        sim.host.kernel_log = false;
        sim.reboot();
        sim.pass(300);
        assert_eq!((sim.slurm.drains, sim.slurm.undrains), (1, 0));
        assert_eq!(sim.drain_state(), "drained");
        assert!(sim.engine.book.open().all(|incident| incident.behind));
    }
}

/// A GPU that was off the bus while a person's drain stood.
fn missing() -> Sim {
    let mut sim = Sim::expecting(GPU);
    sim.slurm.admin_drains("RMA 4711 gpu0");
    sim.remove_gpu(GPU);
    sim.pass(60);
    assert_eq!(sim.drain_state(), "foreign");
    sim
}

#[test]
fn a_condition_that_ended_while_nodewarden_did_not_run_drains_nothing() {
    for reboots in [false, true] {
        let mut sim = missing();
        sim.set_gpu(GPU, "nvidia", Some(true));
        sim.slurm.admin_resumes();
        if reboots {
            sim.reboot();
        } else {
            sim.restart();
        }
        assert_ne!(health(&sim), Health::Unhealthy);
        is_never_unhealthy(&mut sim, 100);
        sim.pass(1200);
        assert_eq!(sim.slurm.drains, 0);
        assert!(sim.incidents().iter().all(|i| i.ends_with(" cleared")));
    }
}

#[test]
fn a_condition_that_is_still_there_drains_with_the_first_reading_after_a_restart() {
    let mut sim = missing();
    sim.slurm.admin_resumes();
    sim.restart();
    sim.pass(14);
    assert_eq!((sim.slurm.drains, health(&sim)), (0, Health::Unknown));
    sim.snapshot();
    assert_eq!((sim.slurm.drains, health(&sim)), (1, Health::Unhealthy));
}

#[test]
fn a_condition_whose_last_readings_are_good_drains_nothing_before_the_next_bad_one() {
    for is_back in [true, false] {
        let mut sim = missing();
        sim.set_gpu(GPU, "nvidia", Some(true));
        sim.pass(35);
        sim.slurm.admin_resumes();
        sim.pass(15);
        // It was read as bad in this run, and has not ended.
        assert_eq!((sim.slurm.drains, health(&sim)), (0, Health::Unhealthy));
        if is_back {
            sim.pass(1200);
            assert_eq!((sim.slurm.drains, health(&sim)), (0, Health::Healthy));
        } else {
            sim.remove_gpu(GPU);
            sim.pass(15);
            assert_eq!((sim.slurm.drains, health(&sim)), (1, Health::Unhealthy));
        }
    }
}

#[test]
fn a_condition_that_was_read_as_good_and_then_not_at_all_never_drains() {
    let mut sim = missing();
    sim.set_gpu(GPU, "nvidia", Some(true));
    sim.pass(15);
    sim.host.readable = false;
    sim.slurm.admin_resumes();
    sim.pass(7200);
    assert_eq!(sim.slurm.drains, 0);
}

#[test]
fn a_condition_that_was_read_as_bad_and_then_not_at_all_drains() {
    let mut sim = missing();
    sim.host.readable = false;
    sim.pass(600);
    sim.slurm.admin_resumes();
    sim.pass(15);
    assert_eq!(sim.slurm.drains, 1);
}

#[test]
fn a_condition_that_is_never_read_drains_10_min_after_the_start() {
    for reboots in [false, true] {
        let mut sim = missing();
        sim.host.readable = false;
        sim.slurm.admin_resumes();
        if reboots {
            sim.reboot();
        } else {
            sim.restart();
        }
        sim.pass(590);
        assert_eq!(sim.slurm.drains, 0);
        sim.pass(40);
        assert_eq!(sim.slurm.drains, 1);
    }
}

/// A GPU whose memory cannot be repaired is sent in while a person's drain stands.
#[test]
fn a_condition_of_a_gpu_that_was_taken_out_drains_nothing_until_it_is_back_and_bad() {
    let failed: Vec<Series> = vec![(&m::ROW_REMAP_FAILURE, vec![], 1)];
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    sim.slurm.admin_drains("RMA 4711 gpu0");
    show(&mut sim, failed.clone());
    sim.pass(60);
    assert!(sim.says("row remap failed", false), "{:?}", sim.incidents());
    sim.host.driven.clear();
    sim.remove_gpu(GPU);
    sim.reboot();
    sim.slurm.admin_resumes();
    for restarts in [false, true] {
        if restarts {
            sim.restart();
        }
        sim.pass(1200);
        assert_eq!((sim.slurm.drains, health(&sim)), (0, Health::Unknown));
        assert!(sim.says("row remap failed", false), "{:?}", sim.incidents());
    }
    // A listing that is not complete says nothing new.
    sim.host.readable = false;
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 0);
    sim.host.readable = true;
    sim.set_gpu(GPU, "nvidia", Some(true));
    show(&mut sim, failed);
    sim.reboot();
    sim.pass(300);
    assert_eq!(sim.slurm.drains, 1);
}

#[test]
fn a_condition_of_a_gpu_that_is_there_and_not_read_drains_10_min_after_the_start() {
    let mut sim = node(Mode::Drain, vec![driven(well())]);
    sim.slurm.admin_drains("RMA 4711 gpu0");
    show(&mut sim, vec![(&m::ROW_REMAP_FAILURE, vec![], 1)]);
    sim.pass(60);
    sim.host.driven.clear();
    sim.reboot();
    sim.slurm.admin_resumes();
    sim.pass(590);
    assert_eq!(sim.slurm.drains, 0);
    sim.pass(40);
    assert_eq!(sim.slurm.drains, 1);
}

/// A link trains, a filesystem is mounted: what is bad right after a boot may be well a moment later.
#[test]
fn a_condition_of_the_last_boot_needs_as_many_readings_as_a_new_one() {
    for comes_back in [true, false] {
        let mut sim = missing();
        sim.slurm.admin_resumes();
        sim.reboot();
        sim.pass(16);
        assert_eq!(sim.slurm.drains, 0);
        if comes_back {
            sim.set_gpu(GPU, "nvidia", Some(true));
        }
        sim.pass(300);
        assert_eq!(sim.slurm.drains, u32::from(!comes_back));
    }
}

#[test]
fn a_held_drain_of_a_condition_is_not_tried_while_its_readings_are_good() {
    let mut sim = Sim::expecting(GPU);
    sim.slurm.held = Some(HeldBy::Guard);
    sim.remove_gpu(GPU);
    sim.pass(31);
    assert_eq!(sim.drain_state(), "held");
    sim.set_gpu(GPU, "nvidia", Some(true));
    sim.pass(15);
    let tries = sim.slurm.tries;
    sim.slurm.held = None;
    sim.pass(1200);
    assert_eq!((sim.slurm.tries, sim.slurm.drains), (tries, 0));
    assert_eq!(sim.drain_state(), "none");
}

/// Many nodes start again at the same time: each waits for its turn, and writes no comment again.
#[test]
fn a_restart_while_a_condition_is_held_changes_neither_the_wait_nor_the_comment() {
    let mut sim = Sim::expecting(GPU);
    sim.slurm.held = Some(HeldBy::Guard);
    sim.remove_gpu(GPU);
    sim.pass(600);
    let (tries, comments) = (sim.slurm.tries, sim.slurm.comments);
    assert_eq!(comments, 1);
    for reboots in [false, true] {
        if reboots {
            sim.reboot();
        } else {
            sim.restart();
        }
        assert_eq!((sim.slurm.tries, sim.drain_state().as_str()), (tries, "held"));
        sim.pass(1);
        assert_eq!((sim.slurm.tries, sim.drain_state().as_str()), (tries, "held"));
    }
    sim.pass(600);
    assert_eq!(sim.slurm.comments, comments);
    sim.slurm.held = None;
    sim.pass(301);
    assert!(sim.slurm.is_drained());
}
