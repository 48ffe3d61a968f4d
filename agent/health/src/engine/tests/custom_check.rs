//! Check `custom-check`: the site's commands.

use std::time::Duration;

use super::sim::*;
use crate::Mode;
use crate::checks::Scope;
use crate::settings::Command;
use crate::verdict::Health;
use model::commands::{CommandResult, CommandRun, CommandState};

const MINUTE: Duration = Duration::from_secs(60);

fn row(name: &str, mode: Mode) -> Command {
    Command {
        name: name.to_owned(),
        every: MINUTE,
        mode,
        scope: Scope::Node,
        after: 2,
    }
}

/// A node in this mode whose site checks it with these commands.
fn node(mode: Mode, rows: &[Command]) -> Sim {
    let mut config = config(mode);
    config.commands = rows.to_vec();
    let mut sim = Sim::with(config, None);
    sim.host.commands = rows
        .iter()
        .map(|row| CommandState::new(row.check(), row.max_age()))
        .collect();
    sim
}

/// The command ends with this result, and the checks see it over the interval.
fn ends(sim: &mut Sim, result: CommandResult) {
    ends_with(sim, 0, result, "disk /scratch: 98% used");
}

fn ends_with(sim: &mut Sim, at: usize, result: CommandResult, line: &str) {
    let run = CommandRun {
        at: sim.now.boottime,
        took: Duration::from_millis(300),
        result,
        why: "exit code 1".to_owned(),
        line: line.to_owned(),
    };
    sim.host.commands[at].ended(run);
    sim.pass(60);
}

use CommandResult::{Failed, Healthy, TimedOut, Unhealthy, Unknown};

#[test]
fn a_row_that_is_raised_to_drain_acts_on_a_fault_that_stands() {
    let mut sim = node(Mode::Drain, &[row("disk", Mode::Observe)]);
    for _ in 0..3 {
        ends(&mut sim, Unhealthy);
    }
    assert_eq!((sim.incidents().len(), sim.slurm.drains), (1, 0));
    sim.config.commands = vec![row("disk", Mode::Drain)];
    sim.reload();
    ends(&mut sim, Unhealthy);
    assert_eq!((sim.incidents().len(), sim.slurm.drains), (1, 1));
}

/// The reason has other characters than the line, and not all of it.
#[test]
fn after_a_wipe_the_incident_of_the_same_line_goes_on_under_the_id_in_the_reason() {
    let long = format!("mount \"/scratch\" is gone; see {}", "the log ".repeat(40));
    for line in ["mount \"/scratch\" is gone; see log", &long] {
        let mut sim = node(Mode::Drain, &[row("disk", Mode::Drain)]);
        let fail = |sim: &mut Sim| (0..3).for_each(|_| ends_with(sim, 0, Unhealthy, line));
        fail(&mut sim);
        let id = sim.engine.view().incidents[0].id.clone();
        sim.wipe();
        fail(&mut sim);
        assert_eq!(sim.slurm.drains, 1);
        assert_eq!(sim.engine.view().incidents[0].id, id, "{line}");
    }
}

/// The finding of before has another text, and stays: each tick found the new one again.
#[test]
fn a_raised_row_whose_line_changes_is_found_once_more_only() {
    let mut sim = node(Mode::Drain, &[row("disk", Mode::Observe)]);
    for _ in 0..3 {
        ends(&mut sim, Unhealthy);
    }
    sim.config.commands = vec![row("disk", Mode::Drain)];
    sim.reload();
    ends_with(&mut sim, 0, Unhealthy, "disk /scratch: 99% used");
    assert_eq!((sim.incidents().len(), sim.slurm.drains), (1, 1));
    let seen = |sim: &Sim| sim.engine.view().incidents[0].findings.clone();
    let before = format!("{:?}", seen(&sim));
    assert_eq!(seen(&sim).len(), 2);
    sim.pass(60);
    assert_eq!(format!("{:?}", seen(&sim)), before);
}

#[test]
fn two_bad_results_in_a_row_are_a_finding_and_two_good_ones_end_it() {
    let mut sim = node(Mode::Drain, &[row("disk", Mode::Observe)]);
    ends(&mut sim, Unhealthy);
    assert!(sim.incidents().is_empty(), "one result in 4 ticks counts once");
    ends(&mut sim, Unhealthy);
    assert_eq!(sim.incidents(), ["disk /scratch: 98% used open"]);
    let incident = &sim.engine.view().incidents[0];
    assert_eq!(
        (incident.check.as_str(), incident.subject.as_str()),
        ("site-disk", "node")
    );
    // Pages show it to every user.
    assert!(incident.clears.starts_with("site-disk: "), "{}", incident.clears);
    let evidence = &incident.findings[0].evidence[0];
    assert!(
        evidence.starts_with("nodewarden_command_healthy{check=\"site-disk\"} 0, expected 1")
            && evidence.ends_with("exit code 1 after 0.3 s: disk /scratch: 98% used"),
        "{evidence}"
    );
    ends(&mut sim, Healthy);
    assert_eq!(sim.incidents(), ["disk /scratch: 98% used open"]);
    ends(&mut sim, Healthy);
    assert_eq!(sim.incidents(), ["disk /scratch: 98% used cleared"]);
    assert_eq!((sim.slurm.drains, sim.engine.view().would_drain.len()), (0, 0));
}

#[test]
fn an_unknown_result_starts_nothing_ends_nothing_and_breaks_the_count() {
    for unknown in [Unknown, TimedOut, Failed] {
        let mut sim = node(Mode::Drain, &[row("disk", Mode::Drain)]);
        for _ in 0..5 {
            ends(&mut sim, unknown);
        }
        assert!(sim.incidents().is_empty());
        for _ in 0..3 {
            ends(&mut sim, Unhealthy);
            ends(&mut sim, unknown);
        }
        assert!(sim.incidents().is_empty(), "not consecutive");
        ends(&mut sim, Unhealthy);
        ends(&mut sim, Unhealthy);
        assert!(sim.slurm.is_drained());
        for _ in 0..5 {
            ends(&mut sim, unknown);
            ends(&mut sim, Healthy);
        }
        ends(&mut sim, unknown);
        assert!(sim.slurm.is_drained(), "{unknown:?} never lifts a drain");
        ends(&mut sim, Healthy);
        ends(&mut sim, Healthy);
        sim.pass(120);
        assert!(!sim.slurm.is_drained());
    }
}

#[test]
fn a_result_older_than_three_intervals_is_unknown() {
    let mut sim = node(Mode::Drain, &[row("disk", Mode::Drain)]);
    ends(&mut sim, Unhealthy);
    sim.pass(180);
    ends(&mut sim, Unhealthy);
    assert!(sim.incidents().is_empty(), "the first one no longer counts");
    ends(&mut sim, Unhealthy);
    assert!(sim.slurm.is_drained());
    // The command no longer runs.
    sim.pass(3600);
    assert!(sim.slurm.is_drained());
}

#[test]
fn only_a_row_with_mode_drain_drains_and_never_above_health_mode() {
    for (of_node, of_row, drains, would, health) in [
        (Mode::Drain, Mode::Observe, 0, 0, Health::Healthy),
        (Mode::Drain, Mode::Comment, 0, 0, Health::Healthy),
        (Mode::Drain, Mode::Drain, 1, 0, Health::Unhealthy),
        (Mode::Comment, Mode::Drain, 0, 1, Health::Unhealthy),
        (Mode::Observe, Mode::Drain, 0, 1, Health::Unhealthy),
    ] {
        let mut sim = node(of_node, &[row("disk", of_row)]);
        ends(&mut sim, Unhealthy);
        ends(&mut sim, Unhealthy);
        let view = sim.engine.view();
        let counted: u64 = view.would_drain.iter().map(|(_, n)| n).sum();
        assert_eq!(
            (sim.slurm.drains, counted, view.verdict.health),
            (drains, would, health),
            "{of_node:?} {of_row:?}"
        );
        assert_eq!(
            sim.slurm.comment.is_some(),
            of_node.min(of_row) == Mode::Comment,
            "{of_node:?} {of_row:?}"
        );
        assert_eq!(view.verdict.incidents, 1);
    }
}

#[test]
fn the_reason_names_the_sites_check_and_what_it_said() {
    let mut sim = node(Mode::Drain, &[row("disk", Mode::Drain)]);
    ends(&mut sim, Unhealthy);
    ends(&mut sim, Unhealthy);
    let reason = sim.reason();
    assert!(
        reason.starts_with("nodewarden:site-disk node disk /scratch: 98% used act=inspect id="),
        "{reason}"
    );
    // Pages show the verdict to everyone; what a script prints may name a user.
    let verdict = sim.engine.view().verdict.text;
    assert!(verdict.starts_with("site-disk node act=inspect id="), "{verdict}");
}

#[test]
fn after_is_the_number_of_results_for_bad_and_for_good() {
    for after in [1, 3, 10] {
        let mut rows = [row("disk", Mode::Observe)];
        rows[0].after = after;
        let mut sim = node(Mode::Drain, &rows);
        for (result, state) in [(Unhealthy, "open"), (Healthy, "cleared")] {
            for _ in 1..after {
                ends(&mut sim, result);
            }
            let changed = |sim: &Sim| sim.incidents() == [format!("disk /scratch: 98% used {state}")];
            assert!(!changed(&sim), "{after} {state}");
            ends(&mut sim, result);
            assert!(changed(&sim), "{after} {state}: {:?}", sim.incidents());
        }
    }
}

#[test]
fn two_commands_are_two_incidents_and_a_removed_row_ends_its_own() {
    let rows = [row("disk", Mode::Drain), row("ntp", Mode::Observe)];
    let mut sim = node(Mode::Drain, &rows);
    for _ in 0..2 {
        ends_with(&mut sim, 0, Unhealthy, "full");
        ends_with(&mut sim, 1, Unhealthy, "no server");
    }
    assert_eq!(sim.incidents(), ["full open", "no server open"]);
    assert!(sim.slurm.is_drained());
    sim.config.commands.remove(0);
    sim.reload();
    sim.pass(120);
    assert_eq!(sim.incidents(), ["no server open", "full cleared"]);
    assert!(!sim.slurm.is_drained());
}

#[test]
fn an_incident_of_a_command_outlives_a_restart() {
    let mut sim = node(Mode::Drain, &[row("disk", Mode::Drain)]);
    ends(&mut sim, Unhealthy);
    ends(&mut sim, Unhealthy);
    assert!(sim.slurm.is_drained());
    let before = std::mem::take(&mut sim.host.commands[0].last);
    sim.restart();
    sim.pass(300);
    assert!(sim.slurm.is_drained(), "no result is known");
    sim.host.commands[0].last = before;
    ends(&mut sim, Healthy);
    ends(&mut sim, Healthy);
    sim.pass(120);
    assert_eq!(sim.incidents(), ["disk /scratch: 98% used cleared"]);
    assert!(!sim.slurm.is_drained());
}

/// What a script prints may be anything.
#[test]
fn a_detail_is_short_and_without_a_line_it_is_the_exit_code() {
    for (line, detail) in [("", "exit code 1"), (&"x".repeat(256) as &str, &"x".repeat(120))] {
        let mut sim = node(Mode::Drain, &[row("disk", Mode::Drain)]);
        for _ in 0..2 {
            ends_with(&mut sim, 0, Unhealthy, line);
        }
        assert_eq!(sim.incidents(), [format!("{detail} open")]);
    }
}
