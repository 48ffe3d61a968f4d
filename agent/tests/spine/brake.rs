//! What keeps a node from draining and returning in a circle: the hold, the quiet time, the two lifts of a day, and faults whose
//! repair no reading proves.

use std::fs;
use std::time::{Duration, Instant};

use crate::cluster::Cluster;
use crate::common::{GPUS, KERN_ERR};

/// The driver's verdict on a GPU changes.
fn verdict(c: &Cluster, gpu: usize, from: &str, to: &str) {
    let place = GPUS[gpu].trim_end_matches(".0");
    let line = format!("NVRM: Xid (PCI:{place}): 154, GPU recovery action changed from {from} to {to}");
    c.kmsg.push(KERN_ERR, &line);
}

const NONE: &str = "0x0 (None)";
const RESET: &str = "0x1 (GPU Reset Required)";

/// One turn of the circle: a fault, the driver wants a reset, the driver wants nothing any more.
fn turn(c: &Cluster, gpu: usize, code: u32, nth: u32) {
    c.xid(gpu, code);
    verdict(c, gpu, NONE, RESET);
    verdict(c, gpu, RESET, NONE);
    c.wait_xids(gpu, code, f64::from(nth));
}

fn why(c: &Cluster) -> String {
    c.try_view()["drain"]["why"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn wait_why(c: &Cluster, part: &str) {
    c.until(part, |_| why(c).contains(part));
}

/// Drained for a fault that the driver's verdict ends, and repaired.
fn drained_and_repaired(c: &Cluster) {
    c.xid(3, 119);
    c.wait_drained();
    c.wait_drain_state("drained");
    verdict(c, 3, RESET, NONE);
}

fn restart(c: &mut Cluster) {
    c.kill9();
    c.start();
    c.settle();
}

#[test]
fn a_fault_that_comes_and_goes_is_one_drain_and_one_lift_after_the_hold_and_a_quiet_time() {
    const HOLD: Duration = Duration::from_secs(12);
    let mut c = Cluster::new();
    c.set("slurm.hold=\"12s\"");
    c.start();
    c.settle();
    let start = Instant::now();
    for nth in 1..=4 {
        turn(&c, 3, 119, nth);
    }
    c.wait_drained();
    wait_why(&c, "slurm.hold at the earliest");
    // A later Xid of the repaired GPU, although one of the program: the quiet time begins again.
    c.until("half of the hold", |_| start.elapsed() > HOLD / 2);
    let last = Instant::now();
    c.xid(3, 31);
    c.wait_xids(3, 31, 1.0);
    c.wait_undrained();
    // Slurm's and the record's times are whole seconds.
    let waited = last.elapsed();
    assert!(waited >= HOLD - Duration::from_secs(1), "{waited:?}");
    c.wait_drain_state("none");
    assert_eq!((c.drains(), c.updates()), (1, 2));
}

#[test]
fn xid_95_in_a_circle_is_one_drain_that_only_a_person_lifts() {
    let mut c = Cluster::new();
    c.start();
    c.settle();
    for nth in 1..=6 {
        turn(&c, 3, 95, nth);
    }
    c.wait_drained();
    wait_why(&c, "no test has verified it");
    c.wait_looks(3);
    assert!(c.is_drained() && c.open_incidents().is_empty());
    assert_eq!((c.drains(), c.updates()), (1, 1));
    let id = c.view()["drain"]["incident"].as_str().unwrap().to_owned();
    c.clear(&id, "memory tested");
    c.wait_undrained();
}

/// The record counts the lifts over a restart, the copy in the node's Extra over a lost state directory.
#[test]
fn the_third_lift_of_a_day_is_a_persons_over_restarts_and_a_lost_state_directory() {
    let mut c = Cluster::new();
    c.start();
    for _ in 0..2 {
        drained_and_repaired(&c);
        c.wait_undrained();
        c.wait_drain_state("none");
        // slurmctld has no boot time of a node until its slurmd registers after a lift.
        c.wait_registered();
        restart(&mut c);
    }
    for is_lost in [false, true] {
        if is_lost {
            c.slurm.resume(&c.name).unwrap();
            c.wait_undrained();
            c.wait_drain_state("none");
            c.wait_registered();
            c.kill9();
            fs::remove_dir_all(c.state_dir()).unwrap();
            c.start();
            c.settle();
        }
        drained_and_repaired(&c);
        wait_why(&c, "lifted 2 drains in 24 h");
        restart(&mut c);
        wait_why(&c, "lifted 2 drains in 24 h");
        c.wait_looks(3);
        assert!(c.is_drained(), "{is_lost}");
    }
    // A person may always lift.
    let id = c.view()["drain"]["incident"].as_str().unwrap().to_owned();
    c.clear(&id, "reset and tested");
    c.wait_undrained();
    assert_eq!(c.drains(), 4);
}

/// Without a copy nothing shows what was lifted before: a person lifts the first drain.
#[test]
fn without_a_copy_the_first_lift_after_a_lost_state_directory_is_a_persons() {
    let mut c = Cluster::new();
    c.set("slurm.mirror=false");
    c.start();
    drained_and_repaired(&c);
    wait_why(&c, "no copy of it shows earlier lifts");
    restart(&mut c);
    wait_why(&c, "no copy of it shows earlier lifts");
    c.wait_looks(3);
    assert!(c.is_drained());
    c.slurm.resume(&c.name).unwrap();
    c.wait_undrained();
    c.wait_drain_state("none");
    drained_and_repaired(&c);
    c.wait_undrained();
    assert_eq!(c.updates(), 3, "drain, drain, lift");
}

#[test]
fn faults_of_memory_nvlink_and_the_bus_are_never_lifted_automatically() {
    let mut c = Cluster::new();
    // The new boot's log must have had no event for this time.
    c.set("health.settle=\"1s\"");
    c.boot_id = Some("11111111-1111-1111-1111-111111111111".to_owned());
    c.start();
    for (gpu, code) in [(0, 48), (1, 74), (2, 79)] {
        c.xid(gpu, code);
        c.wait_xids(gpu, code, 1.0);
    }
    c.wait_drained();
    c.wait_drain_state("drained");
    // Another boot, every GPU is there, and the driver wants nothing.
    c.reboot("22222222-2222-2222-2222-222222222222");
    c.start();
    for gpu in 0..3 {
        verdict(&c, gpu, RESET, NONE);
    }
    c.until("the GPU is back", |n| {
        n.incidents()
            .iter()
            .any(|i| i["detail"] == "xid79" && i["state"] == "cleared")
    });
    c.settle();
    c.wait_looks(3);
    assert!(c.is_drained());
    assert_eq!(c.updates(), 1);
    // Each is a person's.
    for incident in c.open_incidents() {
        assert!(c.is_drained(), "{incident}");
        let id = incident["id"].as_str().unwrap().to_owned();
        c.clear(&id, "tested");
    }
    c.wait_undrained();
}
