//! The checks of GPFS.

use collectors::event::Recovery;
use collectors::gpfs::command_metrics::{
    COMPONENT_EVENT, COMPONENT_STATUS, LONGEST_WAIT, LONGEST_WAITER, NODE_STATE, TIMESTAMP, WAITERS,
};
use collectors::gpfs::commands;
use collectors::gpfs::metrics::DAEMON_UP;
use collectors::{Block, Subject};

use super::sim::*;
use crate::Mode;
use crate::verdict::Health;

/// The next reading of mmfsd.
fn reading(sim: &mut Sim, read: Result<u64, &'static str>) {
    let block = read.map(|up| {
        let mut block = Block::default();
        block.u64(&DAEMON_UP, &[], up);
        block
    });
    sim.host.others = vec![("gpfs", Subject::node(), block)];
}

#[test]
fn a_daemon_that_ran_and_ended_is_a_finding_and_never_drains_by_default() {
    let mut sim = Sim::new(Mode::Drain);
    reading(&mut sim, Ok(1));
    sim.pass(60);
    reading(&mut sim, Ok(0));
    sim.pass(90);
    assert_eq!(sim.incidents(), [""; 0], "a restart takes a moment");
    sim.pass(60);
    assert!(sim.says("mmfsd does not run", false), "{:?}", sim.incidents());
    assert_eq!((sim.slurm.drains, sim.slurm.undrains), (0, 0));
    reading(&mut sim, Ok(1));
    sim.pass(120);
    assert!(sim.says("mmfsd does not run", true), "{:?}", sim.incidents());
}

#[test]
fn a_daemon_that_does_not_answer_is_a_finding() {
    let mut sim = Sim::new(Mode::Drain);
    reading(&mut sim, Ok(1));
    sim.pass(60);
    reading(&mut sim, Err("timeout"));
    sim.pass(180);
    assert!(sim.says("mmfsd does not answer", false), "{:?}", sim.incidents());
}

#[test]
fn a_daemon_that_was_never_started_and_a_missing_permission_are_no_finding() {
    for read in [Ok(0), Err("denied"), Err("timeout")] {
        let mut sim = Sim::new(Mode::Drain);
        reading(&mut sim, read);
        sim.pass(900);
        assert_eq!(sim.incidents(), [""; 0], "{read:?}");
    }
}

#[test]
fn that_it_ran_is_known_over_a_restart_and_forgotten_at_a_reboot() {
    let mut sim = Sim::new(Mode::Drain);
    reading(&mut sim, Ok(1));
    sim.pass(60);
    reading(&mut sim, Ok(0));
    sim.restart();
    sim.pass(180);
    assert!(sim.says("mmfsd does not run", false), "{:?}", sim.incidents());
    sim.reboot();
    sim.pass(900);
    assert!(sim.says("mmfsd does not run", false), "unknown ends no incident");
    assert_eq!(sim.slurm.drains, 0);
}

/// What the commands of GPFS report, written at that time.
struct Commands {
    state: &'static str,
    status: &'static str,
    events: &'static [&'static str],
    wait: f64,
}

const WELL: Commands = Commands {
    state: "active",
    status: "HEALTHY",
    events: &[],
    wait: 2.0,
};

const QUORUM: &[&str] = &["quorum_down"];

/// The next outputs of the commands, with mmfsd as it is read.
fn outputs(sim: &mut Sim, up: Option<u64>, commands: &Commands, written: f64) {
    let read = up.ok_or("denied");
    reading(sim, read);
    let mut block = Block::default();
    for state in ["active", "arbitrating", "down", "unknown", "unresponsive"] {
        block.u64(&NODE_STATE, &[state], u64::from(state == commands.state));
    }
    let gpfs = ["GPFS", "gpu07", "NODE"];
    block.u64(
        &COMPONENT_STATUS,
        &[gpfs[0], gpfs[1], gpfs[2], commands.status],
        1,
    );
    for event in commands.events {
        let (event, severity) = event.split_once(' ').unwrap_or((event, ""));
        block.u64(&COMPONENT_EVENT, &[gpfs[0], gpfs[1], gpfs[2], event, severity], 1);
    }
    block.u64(&WAITERS, &[], 3);
    block.f64(&LONGEST_WAIT, &[], commands.wait);
    block.info(&LONGEST_WAITER, &["NSDThread", "for I/O completion"]);
    for command in ["mmgetstate", "mmdiag-waiters", "mmhealth"] {
        block.f64(&TIMESTAMP, &[command], written);
    }
    sim.host.others.push(("gpfs", commands::subject(), Ok(block)));
}

/// A node that was well, and whose commands report this in as many outputs.
fn reported(up: Option<u64>, commands: &Commands, outputs_of_it: u32) -> Sim {
    let mut sim = Sim::new(Mode::Drain);
    outputs(&mut sim, up.map(|_| 1), &WELL, 1000.0);
    sim.pass(300);
    for n in 1..=outputs_of_it {
        outputs(&mut sim, up, commands, 1000.0 + 300.0 * f64::from(n));
        sim.pass(300);
    }
    sim
}

#[test]
fn a_wait_of_minutes_in_two_outputs_is_a_finding_and_one_output_is_not() {
    let long = Commands { wait: 6861.7, ..WELL };
    let once = reported(Some(1), &long, 1);
    assert_eq!(once.incidents(), [""; 0], "one output, read 20 times");
    let mut sim = reported(Some(1), &long, 2);
    assert!(
        sim.says("a thread of mmfsd waits for more than 300 s", false),
        "{:?}",
        sim.incidents()
    );
    assert_eq!((sim.slurm.drains, sim.slurm.undrains), (0, 0));
    for written in [2000.0, 2300.0] {
        outputs(&mut sim, Some(1), &WELL, written);
        sim.pass(300);
    }
    assert!(
        sim.says("a thread of mmfsd waits for more than 300 s", true),
        "{:?}",
        sim.incidents()
    );
    let short = reported(Some(1), &Commands { wait: 300.0, ..WELL }, 3);
    assert_eq!(short.incidents(), [""; 0]);
}

/// Outputs are minutes apart: a bad one stays the latest reading until the next.
#[test]
fn a_bad_output_holds_the_lift_until_the_next_one() {
    let mut config = config(Mode::Drain);
    config.checks.insert("gpfs-node-state".to_owned(), Mode::Drain);
    let mut sim = Sim::with(config, None);
    outputs(&mut sim, Some(1), &WELL, 1000.0);
    sim.pass(300);
    sim.xid(119);
    sim.pass(15);
    assert!(sim.slurm.is_drained());
    let down = Commands {
        state: "down",
        ..WELL
    };
    outputs(&mut sim, Some(1), &down, 1300.0);
    sim.pass(15);
    sim.verdict_154(Recovery::None);
    for _ in 0..18 {
        sim.pass(15);
        assert!(sim.slurm.is_drained(), "{:?}", sim.incidents());
        assert_eq!(sim.engine.view().verdict.health, Health::Unknown);
    }
    outputs(&mut sim, Some(1), &WELL, 1600.0);
    sim.pass(30);
    assert!(!sim.slurm.is_drained());
    assert_eq!(sim.engine.view().verdict.health, Health::Healthy);
}

#[test]
fn a_node_that_is_not_active_any_more_is_a_finding() {
    for state in ["arbitrating", "down", "unresponsive"] {
        let sim = reported(Some(1), &Commands { state, ..WELL }, 2);
        assert!(
            sim.says(&format!("state {state}"), false),
            "{:?}",
            sim.incidents()
        );
        assert_eq!(sim.slurm.drains, 0);
    }
    // Where the socket cannot be read, as without root.
    let sim = reported(
        None,
        &Commands {
            state: "down",
            ..WELL
        },
        2,
    );
    assert!(sim.says("state down", false), "{:?}", sim.incidents());
    let sim = reported(
        Some(1),
        &Commands {
            state: "unknown",
            ..WELL
        },
        4,
    );
    assert_eq!(sim.incidents(), [""; 0]);
}

#[test]
fn an_unhealthy_component_gpfs_is_a_finding_and_other_words_are_not() {
    for status in ["FAILED", "DEGRADED"] {
        let commands = Commands {
            status,
            events: QUORUM,
            ..WELL
        };
        let sim = reported(Some(1), &commands, 2);
        assert!(
            sim.says(&format!("component GPFS {status}"), false),
            "{:?}",
            sim.incidents()
        );
    }
    for status in ["TIPS", "CHECKING", "UNKNOWN", "DEPEND"] {
        let sim = reported(Some(1), &Commands { status, ..WELL }, 3);
        assert_eq!(sim.incidents(), [""; 0], "{status}");
    }
}

#[test]
fn a_node_that_is_degraded_by_faults_of_other_nodes_is_no_finding() {
    const OTHERS: &[&str] = &[
        "cluster_connections_down WARNING",
        "gpfs_pagepool_small",
        "quorum_even_nodes_no_tiebreaker TIP",
        "a_later_release_reports_it INFO",
    ];
    const BOTH: &[&str] = &["cluster_connections_down WARNING", "quorum_down ERROR"];
    let degraded = |events| Commands {
        status: "DEGRADED",
        events,
        ..WELL
    };
    for events in [OTHERS, &[]] {
        let sim = reported(Some(1), &degraded(events), 3);
        assert_eq!(sim.incidents(), [""; 0], "{events:?}");
    }
    let mut sim = reported(Some(1), &degraded(BOTH), 2);
    assert!(
        sim.says("component GPFS DEGRADED", false),
        "{:?}",
        sim.incidents()
    );
    // Neither bad nor the end of the finding.
    for n in 10..14 {
        outputs(&mut sim, Some(1), &degraded(OTHERS), f64::from(n));
        sim.pass(300);
    }
    assert!(
        sim.says("component GPFS DEGRADED", false),
        "{:?}",
        sim.incidents()
    );
    let failed = Commands {
        status: "FAILED",
        ..degraded(OTHERS)
    };
    let sim = reported(Some(1), &failed, 2);
    assert!(sim.says("component GPFS FAILED", false), "{:?}", sim.incidents());
}

#[test]
fn an_output_of_an_outage_of_the_daemon_counts_no_more_after_it() {
    let down = Commands {
        state: "down",
        status: "FAILED",
        ..WELL
    };
    let back = Commands {
        state: "arbitrating",
        status: "FAILED",
        ..WELL
    };
    let mut sim = Sim::new(Mode::Drain);
    outputs(&mut sim, Some(1), &WELL, 1000.0);
    sim.pass(60);
    // Shorter than what makes it a finding of its own.
    for written in [1300.0, 1600.0] {
        outputs(&mut sim, Some(0), &down, written);
        sim.pass(45);
    }
    outputs(&mut sim, Some(1), &down, 1600.0);
    sim.pass(255);
    outputs(&mut sim, Some(1), &back, 1900.0);
    sim.pass(300);
    assert_eq!(sim.incidents(), [""; 0]);
    outputs(&mut sim, Some(1), &back, 2200.0);
    sim.pass(60);
    assert!(sim.says("state arbitrating", false), "{:?}", sim.incidents());
}

#[test]
fn findings_end_where_the_commands_are_switched_off_and_not_where_their_output_is_missing() {
    let state = Commands {
        state: "arbitrating",
        ..WELL
    };
    let status = Commands {
        status: "FAILED",
        ..WELL
    };
    let wait = Commands { wait: 6861.7, ..WELL };
    for (bad, finding) in [
        (state, "state arbitrating"),
        (status, "component GPFS FAILED"),
        (wait, "a thread of mmfsd waits for more than 300 s"),
    ] {
        let mut sim = reported(Some(1), &bad, 2);
        assert!(sim.says(finding, false), "{:?}", sim.incidents());
        // The files are gone.
        reading(&mut sim, Ok(1));
        let none = Ok(Block::default());
        sim.host.others.push(("gpfs", commands::subject(), none));
        sim.pass(900);
        assert!(sim.says(finding, false), "{:?}", sim.incidents());
        // The collector has not listed its devices, as while its worker starts.
        sim.host.others.clear();
        sim.pass(900);
        assert!(sim.says(finding, false), "{:?}", sim.incidents());
        reading(&mut sim, Ok(1));
        sim.pass(300);
        assert!(sim.says(finding, true), "{:?}", sim.incidents());
    }
}

#[test]
fn a_daemon_that_ended_is_one_finding_and_not_two() {
    let gone = Commands {
        state: "down",
        status: "FAILED",
        ..WELL
    };
    let sim = reported(Some(0), &gone, 4);
    assert!(sim.says("mmfsd does not run", false), "{:?}", sim.incidents());
    assert_eq!(sim.incidents().len(), 1, "{:?}", sim.incidents());
}

#[test]
fn a_node_that_was_never_active_is_no_finding() {
    let never = Commands {
        state: "down",
        status: "FAILED",
        ..WELL
    };
    let mut sim = Sim::new(Mode::Drain);
    for n in 0..4 {
        outputs(&mut sim, None, &never, f64::from(n));
        sim.pass(300);
    }
    assert_eq!(sim.incidents(), [""; 0]);
}
