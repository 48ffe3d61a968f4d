//! A real slurmctld that is away, stopped, full, refuses reservations or limits requests, with the limit on drains: no
//! drain is lost, none is written twice, and none takes a second slot.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use testkit::scontrol_wrapper::{Fault, On};
use testkit::slurm::SlurmOptions;

use crate::cluster::{Cluster, Meeting};
use crate::common::is_full;

/// Commands give up sooner than slurmctld comes back.
fn impatient() -> Cluster {
    let mut c = Cluster::guarded();
    c.seldom();
    c.set("slurm.timeout=\"2s\"");
    c.set("slurm.mirror=false");
    c.start();
    c.settle();
    c
}

/// The drain stands, after one write and with one slot.
fn nothing_is_lost(c: &Cluster, since: Instant) {
    c.until_patiently("drained", |c| c.is_drained());
    println!("slurmctld answers to drained: {:?}", since.elapsed());
    assert!(c.reason().starts_with("nodewarden:"), "{}", c.reason());
    c.wait_drain_state("drained");
    let log = c.slurm.controller_log().unwrap();
    let of_node = log.lines().filter(|line| line.contains(&c.name));
    let lines = of_node.collect::<Vec<_>>().join("\n");
    assert_eq!((c.drains(), c.incidents().len()), (1, 1), "{lines}");
    assert_eq!(c.reservations().len(), 1, "{:?}", c.reservations());
}

/// slurmctld gets this signal just before a request of that kind, and works again later.
fn during(on: On, signal: Signal, time: Duration) {
    let mut c = impatient();
    let meeting = Meeting::new(&c);
    c.wrapper.set(on, Fault::Before(meeting.script())).unwrap();
    c.xid(3, 119);
    meeting.wait(&c);
    if signal == Signal::SIGSTOP {
        c.slurm.stop_controller().unwrap();
    } else {
        c.slurm.kill_controller().unwrap();
    }
    meeting.leave();
    c.until("unhealthy", |n| n.cli(&["check"]).0 == Some(1));
    std::thread::sleep(time);
    assert!(!["drained", "none"].contains(&c.drain_state().as_str()));
    let since = Instant::now();
    if signal == Signal::SIGSTOP {
        c.slurm.cont_controller().unwrap();
    } else {
        c.slurm.start_controller().unwrap();
    }
    nothing_is_lost(&c, since);
}

fn short_or(full: u64) -> Duration {
    Duration::from_secs(if is_full() { full } else { 3 })
}

#[test]
fn stopped_for_25_s_when_the_slot_is_requested() {
    during(On::Create, Signal::SIGSTOP, short_or(25));
}

#[test]
fn stopped_for_25_s_when_the_drain_is_written() {
    during(On::Update, Signal::SIGSTOP, short_or(25));
}

#[test]
fn away_for_a_minute_when_the_slot_is_requested() {
    during(On::Create, Signal::SIGKILL, short_or(60));
}

#[test]
fn away_for_a_minute_when_the_drain_is_written() {
    during(On::Update, Signal::SIGKILL, short_or(60));
}

/// slurmctld itself refuses: the request comes from a user who is no operator.
#[test]
fn refusing_reservations() {
    let mut c = Cluster::guarded();
    c.start();
    c.settle();
    c.wrapper.set(On::Create, Fault::User(65534)).unwrap();
    c.xid(3, 119);
    c.wait_drain_state("held");
    let why = c.view()["drain"]["why"].as_str().unwrap().to_owned();
    assert!(why.contains("Invalid user id"), "{why}");
    assert_eq!(c.metric("nodewarden_drain_held", &[("by", "refused")]), Some(1.0));
    c.until("unhealthy all the same", |n| n.cli(&["check"]).0 == Some(1));
    assert!(!c.is_drained());
    let since = Instant::now();
    c.wrapper.set(On::Create, Fault::None).unwrap();
    nothing_is_lost(&c, since);
}

/// Slurm has at most 9,999 reservations.
const MOST: usize = 9999;

fn others(from: usize, to: usize) -> Vec<String> {
    let create = |n| {
        format!(
            "create reservation ReservationName=other{n} StartTime=now Duration=60 Users=root Flags=ANY_NODES BurstBuffer=other:0"
        )
    };
    (from..to).map(create).collect()
}

#[test]
fn in_full_full_of_other_reservations() {
    let mut c = Cluster::guarded();
    c.start();
    c.settle();
    let start = Instant::now();
    c.slurm.scontrol_lines(&others(0, MOST)).unwrap().ok().unwrap();
    println!("{MOST} reservations: {:?}", start.elapsed());
    c.xid(3, 119);
    c.wait_drain_state("held");
    let why = c.view()["drain"]["why"].as_str().unwrap().to_owned();
    assert!(
        why.contains("slurmctld creates no reservation for a drain slot"),
        "{why}"
    );
    assert!(!c.is_drained());
    let since = Instant::now();
    for n in 0..10 {
        c.delete(&format!("other{n}"));
    }
    nothing_is_lost(&c, since);
}

/// Reservations of others for the node itself, as for a maintenance window of users, are no obstacle.
#[test]
fn beside_reservations_of_others_for_the_same_node() {
    let mut c = Cluster::guarded();
    let nodes = format!("Nodes={}", c.name);
    let other = [
        "create",
        "reservation",
        "ReservationName=theirs",
        "StartTime=now",
        "Duration=60",
        "Users=root",
        "Flags=IGNORE_JOBS",
        &nodes,
    ];
    c.slurm.scontrol(&other).unwrap().ok().unwrap();
    c.slurm.scontrol_lines(&others(0, 200)).unwrap().ok().unwrap();
    c.start();
    c.settle();
    let since = Instant::now();
    c.xid(3, 119);
    nothing_is_lost(&c, since);
}

/// Releases from 23.02 limit the requests of users; root is exempt.
#[test]
fn under_a_limit_on_requests() {
    let mut c = Cluster::guarded_with(SlurmOptions {
        extra_conf: "SlurmctldParameters=rl_enable,rl_bucket_size=1,rl_refill_rate=1,rl_refill_period=30"
            .to_owned(),
        ..SlurmOptions::default()
    });
    let config = c.slurm.scontrol(&["show", "config"]).unwrap().ok().unwrap();
    assert!(config.stdout.contains("rl_enable"), "{}", config.stdout);
    c.start();
    c.settle();
    for gpu in [3, 4] {
        c.xid(gpu, 119);
        c.wait_drained();
        c.wait_drain_state("drained");
        c.clear_all();
    }
    assert_eq!((c.drains(), c.reservations().len()), (2, 2));
}
