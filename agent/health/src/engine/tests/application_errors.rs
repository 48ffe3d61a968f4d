//! Application Xids: their attribution to runs, and when they implicate the GPU.

use std::time::Duration;

use collectors::event::XidSource;
use collectors::gpu::metrics as m;
use collectors::{Event, EventBody};

use super::host::Job;
use super::jobs::{Card, evidence, job, jobs_of, show};
use super::sim::*;
use crate::{Input, Mode, OrderVerb};

const ALONE: &str = "application errors on this GPU alone";
const HOUR: u64 = 3600;
const ONE: [&str; 1] = ["nvidia0"];
const BOTH: [&str; 2] = ["nvidia0", "nvidia1"];

/// Two busy GPUs.
fn cards() -> Vec<Card> {
    let process = |pid| [(pid, "?", "", 1 << 30)];
    vec![Card::with("0", &process("500")), Card::with("1", &process("501"))]
}

fn node(mode: Mode) -> Sim {
    let mut sim = Sim::new(mode);
    show(&mut sim, &cards(), &[]);
    sim.pass(60);
    sim
}

/// A run that starts now.
fn run(sim: &Sim, number: &'static str, user: &'static str, devices: &[&'static str]) -> Job {
    Job {
        info: Some((user, "", sim.now.wall)),
        inode: sim.now.boottime.as_secs(),
        ..job(number, devices)
    }
}

fn set(sim: &mut Sim, jobs: &[Job]) {
    show(sim, &cards(), jobs);
}

fn hit(sim: &mut Sim, gpu: &str, code: u32) {
    let mut xid = xid_of(code);
    xid.pci = pci(gpu);
    sim.event(EventBody::Xid(xid));
}

/// Delivers an Xid of that time.
fn late(sim: &mut Sim, mut event: Event, at: u64) {
    event.at_us = at * 1_000_000;
    sim.input(Input::Event("kernel_log", &event));
}

fn ends(sim: &mut Sim, number: &str) {
    sim.engine.job_left(sim.now, number);
    set(sim, &[]);
}

/// A job that runs for 5 min, has an Xid there, and ends.
fn fails(sim: &mut Sim, number: &'static str, user: &'static str, devices: &[&'static str], gpus: &[&str]) {
    let job = run(sim, number, user, devices);
    set(sim, &[job]);
    sim.pass(300);
    for gpu in gpus {
        hit(sim, gpu, 31);
    }
    ends(sim, number);
    sim.pass(60);
}

fn open() -> Vec<String> {
    vec![format!("{ALONE} open")]
}

fn cleared() -> Vec<String> {
    vec![format!("{ALONE} cleared")]
}

fn two_users() -> Sim {
    let mut sim = node(Mode::Drain);
    fails(&mut sim, "7", "1000", &BOTH, &[GPU]);
    assert!(sim.incidents().is_empty(), "a program's own fault");
    fails(&mut sim, "8", "1001", &ONE, &[GPU]);
    sim
}

#[test]
fn two_jobs_of_two_users_that_fail_on_one_gpu_speak_against_it() {
    let sim = two_users();
    assert_eq!(sim.incidents(), open());
    assert_eq!(jobs_of(&sim), ["7", "8"]);
    let line = evidence(&sim);
    for words in [
        "job 7 of user 1000",
        "job 8 of user 1001",
        "xid31 x1",
        "dcgmi diag -r 3",
    ] {
        assert!(line.contains(words), "{line}");
    }
    assert_eq!(
        (sim.slurm.drains, sim.slurm.comment.is_some()),
        (0, true),
        "a comment at most"
    );
}

#[test]
fn a_job_that_was_requeued_and_fails_on_the_same_gpu_again_speaks_against_it() {
    let mut sim = node(Mode::Drain);
    fails(&mut sim, "7", "1000", &BOTH, &[GPU]);
    assert!(sim.incidents().is_empty());
    fails(&mut sim, "7", "1000", &BOTH, &[GPU]);
    assert_eq!(sim.incidents(), open());
    assert_eq!(jobs_of(&sim), ["7"]);
    assert!(
        evidence(&sim).contains("none on 1 more in use"),
        "{}",
        evidence(&sim)
    );
}

#[test]
fn a_run_that_is_hit_again_and_again_on_one_of_its_gpus_speaks_against_it() {
    let mut sim = node(Mode::Drain);
    let job = run(&sim, "7", "1000", &BOTH);
    set(&mut sim, &[job]);
    sim.pass(300);
    for occasion in 1..=3 {
        assert!(sim.incidents().is_empty(), "{occasion}");
        for _ in 0..50 {
            hit(&mut sim, GPU, 13);
        }
        sim.pass(120);
    }
    assert_eq!(sim.incidents(), open());
}

#[test]
fn a_program_that_fails_on_every_gpu_implicates_none() {
    let mut sim = node(Mode::Drain);
    for _ in 0..3 {
        fails(&mut sim, "7", "1000", &BOTH, &[GPU, GPU2]);
        fails(&mut sim, "8", "1001", &BOTH, &[GPU, GPU2]);
    }
    // On one GPU of two in one job, on the other in the next.
    fails(&mut sim, "9", "1002", &ONE, &[GPU]);
    fails(&mut sim, "10", "1002", &["nvidia1"], &[GPU2]);
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
}

#[test]
fn tasks_of_an_array_are_one_program() {
    const TASKS: [&str; 20] = [
        "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20", "21", "22", "23", "24", "25", "26",
        "27", "28", "29",
    ];
    // A prolog does not know their array.
    for (array, devices) in [
        ("10", BOTH.as_slice()),
        ("", ONE.as_slice()),
        ("", BOTH.as_slice()),
    ] {
        let mut sim = node(Mode::Drain);
        for number in TASKS {
            let mut task = run(&sim, number, "1000", devices);
            task.info = Some(("1000", array, sim.now.wall));
            set(&mut sim, &[task]);
            sim.pass(60);
            hit(&mut sim, GPU, 31);
            ends(&mut sim, number);
            sim.pass(30);
        }
        assert!(sim.incidents().is_empty(), "{array:?} {:?}", sim.incidents());
    }
}

#[test]
fn where_jobs_of_two_users_fail_on_every_gpu_it_is_the_programs() {
    let mut sim = two_users();
    assert_eq!(sim.incidents(), open());
    fails(&mut sim, "9", "1002", &BOTH, &[GPU2]);
    fails(&mut sim, "10", "1003", &["nvidia1"], &[GPU2]);
    sim.pass(120);
    assert_eq!(sim.incidents(), cleared());
}

#[test]
fn codes_without_fault_and_faults_of_the_hardware_are_not_a_programs() {
    let mut sim = node(Mode::Drain);
    for (number, user) in [("7", "1000"), ("8", "1001")] {
        let job = run(&sim, number, user, &BOTH);
        set(&mut sim, &[job]);
        sim.pass(60);
        hit(&mut sim, GPU, 45);
        hit(&mut sim, GPU, 99_999);
        ends(&mut sim, number);
        sim.pass(60);
    }
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
}

#[test]
fn without_device_rules_an_xid_is_not_attributed() {
    let mut sim = node(Mode::Drain);
    for (number, user) in [("7", "1000"), ("8", "1001"), ("9", "1002")] {
        let beside = Job {
            reason: "denied",
            ..run(&sim, "6", "1005", &[])
        };
        let job = run(&sim, number, user, &BOTH);
        set(&mut sim, &[job, beside]);
        sim.pass(60);
        hit(&mut sim, GPU, 31);
        ends(&mut sim, number);
        sim.pass(60);
    }
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
}

/// Job 7 of one user fails, then job 8 of another ends 10 s before job 9 starts. The log is read only afterwards: an
/// Xid may be of the time of job 8, of 1 s before its end, or of the time after it.
fn read_late(before_the_end: u64, next_is_there: bool) -> Vec<String> {
    let mut sim = node(Mode::Drain);
    fails(&mut sim, "7", "1000", &BOTH, &[GPU]);
    let job = run(&sim, "8", "1001", &ONE);
    set(&mut sim, &[job]);
    sim.pass(300);
    let at = sim.now.boottime.as_secs() - before_the_end;
    let event = sim.event_of(EventBody::Xid(xid_of(31)));
    ends(&mut sim, "8");
    sim.host.kernel_log = false;
    sim.pass(10);
    sim.snapshot();
    if next_is_there {
        let next = run(&sim, "9", "1002", &ONE);
        set(&mut sim, &[next]);
        sim.pass(30);
    }
    late(&mut sim, event, at);
    sim.pass(60);
    sim.incidents()
}

#[test]
fn an_xid_that_is_read_after_the_end_of_its_job_is_that_jobs() {
    assert_eq!(read_late(1, false), open());
    assert_eq!(read_late(0, false), open());
}

#[test]
fn an_xid_that_may_belong_to_the_next_job_is_not_attributed() {
    assert_eq!(read_late(1, true), [""; 0]);
}

/// The log's clock lags by minutes after weeks.
#[test]
fn an_xid_that_is_read_as_it_is_printed_is_of_who_is_there_whatever_the_logs_clock_says() {
    let mut sim = node(Mode::Drain);
    fails(&mut sim, "7", "1000", &BOTH, &[GPU]);
    let job = run(&sim, "8", "1001", &ONE);
    set(&mut sim, &[job]);
    sim.pass(60);
    let event = sim.event_of(EventBody::Xid(xid_of(31)));
    let behind = sim.now.boottime.as_secs() - 180;
    late(&mut sim, event, behind);
    sim.pass(60);
    assert_eq!(sim.incidents(), open());
    assert_eq!(jobs_of(&sim), ["7", "8"]);
}

/// As on an almost idle node, where all jobs get the first GPU.
#[test]
fn two_users_whose_programs_fail_on_the_only_gpu_in_use_say_nothing_about_it() {
    let mut sim = node(Mode::Drain);
    for (number, user) in [("7", "1000"), ("8", "1001"), ("9", "1000"), ("10", "1001")] {
        fails(&mut sim, number, user, &ONE, &[GPU]);
    }
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
    fails(&mut sim, "11", "1002", &ONE, &[GPU]);
    assert_eq!(sim.incidents(), open(), "a third does");
}

#[test]
fn a_late_xid_of_the_library_belongs_to_the_earlier_job() {
    let mut sim = node(Mode::Drain);
    fails(&mut sim, "7", "1000", &BOTH, &[GPU]);
    let job = run(&sim, "8", "1001", &ONE);
    set(&mut sim, &[job]);
    sim.pass(300);
    ends(&mut sim, "8");
    sim.snapshot();
    sim.pass(2);
    let next = run(&sim, "9", "1002", &ONE);
    set(&mut sim, &[next]);
    sim.pass(1);
    let mut xid = xid_of(31);
    xid.source = XidSource::Nvml;
    let event = sim.event_of(EventBody::Xid(xid));
    sim.input(Input::Event("nvidia", &event));
    sim.pass(60);
    assert!(sim.incidents().is_empty(), "8's or 9's: {:?}", sim.incidents());
}

#[test]
fn it_survives_a_restart_and_counts_once_from_two_sources() {
    let mut sim = node(Mode::Drain);
    fails(&mut sim, "7", "1000", &BOTH, &[GPU]);
    sim.pass(600);
    sim.restart();
    sim.pass(60);
    let job = run(&sim, "8", "1001", &ONE);
    set(&mut sim, &[job]);
    sim.pass(60);
    hit(&mut sim, GPU, 31);
    let mut xid = xid_of(31);
    xid.source = XidSource::Nvml;
    let event = sim.event_of(EventBody::Xid(xid));
    sim.input(Input::Event("nvidia", &event));
    sim.pass(30);
    assert_eq!(sim.incidents(), open());
    let line = evidence(&sim);
    assert_eq!(line.matches("xid31 x1").count(), 2, "{line}");
}

#[test]
fn a_run_that_goes_on_over_a_restart_is_one() {
    let mut sim = node(Mode::Drain);
    let job = run(&sim, "7", "1000", &BOTH);
    set(&mut sim, &[job]);
    sim.pass(300);
    hit(&mut sim, GPU, 31);
    sim.pass(300);
    sim.restart();
    sim.pass(300);
    hit(&mut sim, GPU, 31);
    sim.pass(300);
    assert!(
        sim.incidents().is_empty(),
        "two occasions of one run: {:?}",
        sim.incidents()
    );
    hit(&mut sim, GPU, 31);
    sim.pass(60);
    assert_eq!(sim.incidents(), open(), "and the third");
}

#[test]
fn an_xid_before_the_first_reading_is_not_attributed() {
    let mut sim = node(Mode::Drain);
    fails(&mut sim, "7", "1000", &BOTH, &[GPU]);
    let job = run(&sim, "8", "1001", &ONE);
    set(&mut sim, &[job]);
    sim.pass(60);
    let at = sim.now.boottime.as_secs();
    let event = sim.event_of(EventBody::Xid(xid_of(31)));
    sim.sleep_until(sim.now.boottime + Duration::from_secs(60));
    sim.restart();
    late(&mut sim, event, at);
    sim.pass(120);
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
}

fn later(sim: &mut Sim, hours: u64) {
    sim.sleep_until(sim.now.boottime + Duration::from_secs(hours * HOUR));
    sim.tick();
    sim.pass(120);
}

#[test]
fn it_ends_after_a_day() {
    let mut sim = two_users();
    for hours in [1, 22] {
        later(&mut sim, hours);
        assert_eq!(sim.incidents(), open());
    }
    later(&mut sim, 2);
    assert_eq!(sim.incidents(), cleared());
}

#[test]
fn it_ends_with_another_gpu_in_its_place_a_reset_or_a_reboot() {
    let energy = |sim: &mut Sim, joules| {
        let mut all = cards();
        all[0].more = vec![(&m::ENERGY, vec![], joules)];
        show(sim, &all, &[]);
        sim.pass(120);
    };
    let mut sim = two_users();
    energy(&mut sim, 1000);
    assert_eq!(sim.incidents(), open());
    energy(&mut sim, 10);
    sim.pass(120);
    assert_eq!(sim.incidents(), cleared());

    let mut sim = two_users();
    sim.reboot();
    sim.pass(120);
    assert_eq!(sim.incidents(), cleared());

    let mut sim = two_users();
    sim.host.driven[0].label = "GPU-new".to_owned();
    sim.pass(120);
    assert_eq!(sim.incidents(), cleared());
}

#[test]
fn after_a_clear_the_count_restarts() {
    let mut sim = two_users();
    let id = sim.engine.view().incidents[0].id.clone();
    sim.order(OrderVerb::Clear, &id).unwrap();
    sim.pass(300);
    assert_eq!(sim.incidents(), cleared());
    fails(&mut sim, "9", "1002", &BOTH, &[GPU]);
    assert_eq!(sim.incidents(), cleared(), "one is none");
    fails(&mut sim, "10", "1003", &ONE, &[GPU]);
    assert!(
        sim.incidents().contains(&format!("{ALONE} open")),
        "{:?}",
        sim.incidents()
    );
}
