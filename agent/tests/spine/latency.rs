//! How long it takes from the line to the drained node: printed, never asserted, since machines differ. How many commands it
//! takes is asserted.

use std::time::{Duration, Instant};

use crate::cluster::Cluster;
use crate::common::{LONG, is_full};

/// As many drains, and a lift each, as the parent carries out without a pause.
const CODES: [u32; 5] = [79, 48, 62, 95, 109];

/// 50 with `--full`, else 5.
#[test]
fn drains_are_timed_and_take_at_most_six_commands() {
    let mut c = Cluster::guarded();
    // No looks besides those that a drain needs.
    c.seldom();
    // Every drain has a slot.
    c.set("health.guard.drains=1000");
    c.set("health.guard.percent=100");
    c.set("health.guard.per_code=1000");
    // The copy of the record follows a drain as an act of its own.
    c.set("slurm.mirror=false");
    let rounds = if is_full() { 10 } else { 1 };
    let (mut commands, mut times) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let before = c.wrapper.calls().unwrap().len();
        c.start();
        // The proof of the node and its partition are read once in a boot, whether or not a drain follows.
        c.until("the first look", |_| {
            c.wrapper.calls().unwrap().len() >= before + 2
        });
        for (gpu, code) in CODES.into_iter().enumerate() {
            let (count, time) = drain(&c, gpu, code);
            commands.push(count);
            times.push(time);
        }
        c.stop();
        // One node has few slots at a time.
        for slot in c.reservations() {
            let name = slot.split(' ').next().unwrap();
            c.delete(name.strip_prefix("ReservationName=").unwrap());
        }
    }
    times.sort_unstable();
    println!(
        "{} drains, kernel-log line to DRAIN as scontrol shows it: p50 {:?}, max {:?}",
        times.len(),
        times[times.len() / 2],
        times.last().unwrap()
    );
    assert_eq!(c.updates(), 2 * times.len());
    assert!(commands.iter().all(|n| *n <= 6), "{commands:?}");
    println!("commands for each drain: {commands:?}");
}

/// The commands and the time of a drain that is lifted again.
fn drain(c: &Cluster, gpu: usize, code: u32) -> (usize, Duration) {
    let before = c.wrapper.calls().unwrap().len();
    let start = Instant::now();
    c.xid(gpu, code);
    // One scontrol a look, so that the clock is not dominated by how often we ask.
    while !c.is_drained() {
        assert!(start.elapsed() < LONG, "Xid {code}");
    }
    let time = start.elapsed();
    c.wait_drain_state("drained");
    let commands = c.wrapper.calls().unwrap().len() - before;
    c.clear_all();
    (commands, time)
}
