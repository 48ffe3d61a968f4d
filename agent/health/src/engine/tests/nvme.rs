//! Checks nvme-failing and nvme-worn.

use collectors::nvme::metrics::{CRITICAL_WARNING, STATE, USED};
use collectors::{Block, Subject, SubjectKind};

use super::sim::*;
use crate::Mode;

/// The next reading of two drives: the critical warning and the used part of the second; or the word of its error.
fn drives(sim: &mut Sim, second: Result<(u64, f64), &'static str>) {
    let block = |device: &str, pci: &str, (warning, used): (u64, f64)| {
        let mut block = Block::default();
        block.u64(&CRITICAL_WARNING, &[device, pci], warning);
        block.f64(&USED, &[device, pci], used);
        block
    };
    let subject = |device: &str| Subject::new(SubjectKind::Disk, device);
    let first = block("nvme0", "0000:01:00.0", (0, 0.5));
    let second = second.map(|figures| block("nvme1", "0000:e1:00.0", figures));
    sim.host.others = vec![
        ("nvme", subject("nvme0"), Ok(first)),
        ("nvme", subject("nvme1"), second),
    ];
}

#[test]
fn each_warning_of_a_failing_drive_is_a_finding_and_does_not_drain_by_default() {
    for (bit, detail) in [
        (1, "spare below threshold"),
        (4, "reliability degraded"),
        (8, "media are read-only"),
        (16, "volatile memory backup failed"),
        (32, "persistent memory region unreliable"),
    ] {
        let mut sim = Sim::new(Mode::Drain);
        drives(&mut sim, Ok((0, 0.5)));
        sim.pass(120);
        drives(&mut sim, Ok((bit, 0.5)));
        sim.pass(300);
        assert_eq!(sim.incidents(), [""; 0], "one log");
        sim.pass(180);
        assert!(sim.says(detail, false), "{bit}: {:?}", sim.incidents());
        assert_eq!(sim.incidents().len(), 1);
        let comment = sim.slurm.comment.clone().unwrap_or_default();
        assert!(comment.contains("nvme-failing"), "{comment}");
        assert_eq!(sim.slurm.drains, 0);
        drives(&mut sim, Ok((0, 0.0)));
        sim.pass(180);
        assert!(sim.says(detail, true), "{bit}: {:?}", sim.incidents());
    }
}

#[test]
fn a_hot_drive_and_one_that_cannot_be_read_are_no_finding() {
    for second in [
        Ok((2, 0.99)),
        Ok((0, 0.0)),
        Ok((1 << 6, 0.5)),
        Err("timeout"),
        Err("denied"),
    ] {
        let mut sim = Sim::new(Mode::Drain);
        drives(&mut sim, second);
        sim.pass(1200);
        assert_eq!(sim.incidents(), [""; 0], "{second:?}");
    }
}

#[test]
fn a_warning_stays_while_the_drive_does_not_answer() {
    let mut sim = Sim::new(Mode::Drain);
    drives(&mut sim, Ok((8, 0.5)));
    sim.pass(600);
    drives(&mut sim, Err("timeout"));
    sim.pass(600);
    assert!(sim.says("media are read-only", false), "{:?}", sim.incidents());
}

/// Each time-out restarted the count, so that the worst drives were no finding.
#[test]
fn a_failing_drive_that_also_hangs_now_and_then_is_found() {
    let mut sim = Sim::new(Mode::Drain);
    for _ in 0..6 {
        drives(&mut sim, Ok((4, 0.5)));
        sim.pass(60);
        drives(&mut sim, Err("timeout"));
        sim.pass(60);
    }
    drives(&mut sim, Ok((4, 0.5)));
    sim.pass(60);
    assert!(sim.says("reliability degraded", false), "{:?}", sim.incidents());
}

#[test]
fn a_drive_that_hangs_and_reports_no_warning_in_between_is_no_finding() {
    let mut sim = Sim::new(Mode::Drain);
    for _ in 0..6 {
        for reading in [Ok((4, 0.5)), Err("timeout"), Ok((0, 0.5))] {
            drives(&mut sim, reading);
            sim.pass(60);
        }
    }
    assert_eq!(sim.incidents(), [""; 0]);
}

#[test]
fn a_drive_beyond_its_rated_endurance_is_shown_and_neither_drains_nor_comments() {
    let mut sim = Sim::new(Mode::Drain);
    drives(&mut sim, Ok((0, 0.99)));
    sim.pass(600);
    assert_eq!(sim.incidents(), [""; 0]);
    drives(&mut sim, Ok((0, 1.0)));
    sim.pass(480);
    assert!(sim.says("rated endurance used", false), "{:?}", sim.incidents());
    assert_eq!((sim.slurm.drains, sim.slurm.comment.clone()), (0, None));
}

#[test]
fn a_failing_drive_drains_where_the_site_permits_it() {
    let mut settings = config(Mode::Drain);
    settings.checks.insert("nvme-failing".to_owned(), Mode::Drain);
    let mut sim = Sim::with(settings, None);
    drives(&mut sim, Ok((4, 0.5)));
    sim.pass(600);
    assert_eq!(sim.slurm.drains, 1, "{:?}", sim.incidents());
}

/// The states of two local controllers and of one behind a network.
fn states(sim: &mut Sim, second: &str) {
    let mut block = Block::default();
    block.u64(&STATE, &["nvme0", "0000:01:00.0", "live"], 1);
    block.u64(&STATE, &["nvme1", "0000:e1:00.0", second], 1);
    block.u64(&STATE, &["nvme2", "", "dead"], 1);
    sim.host.others = vec![("nvme", Subject::new(SubjectKind::Node, ""), Ok(block))];
}

#[test]
fn a_controller_that_the_kernel_gave_up_is_found_also_without_its_line_in_the_log() {
    let mut sim = Sim::new(Mode::Drain);
    states(&mut sim, "dead");
    sim.pass(480);
    assert!(sim.says("controller dead", false), "{:?}", sim.incidents());
    assert_eq!(sim.incidents().len(), 1);
    assert_eq!(sim.slurm.drains, 0);
    states(&mut sim, "resetting");
    sim.pass(600);
    assert!(sim.says("controller dead", false), "{:?}", sim.incidents());
    states(&mut sim, "live");
    sim.pass(240);
    assert!(sim.says("controller dead", true), "{:?}", sim.incidents());
}

#[test]
fn a_controller_that_starts_leaves_or_is_reset_is_no_finding() {
    for state in ["new", "resetting", "connecting", "deleting", "unknown"] {
        let mut sim = Sim::new(Mode::Drain);
        states(&mut sim, state);
        sim.pass(1200);
        assert_eq!(sim.incidents(), [""; 0], "{state}");
    }
}
