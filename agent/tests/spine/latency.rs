//! How long it takes from the line to the drained node: printed, never asserted, since machines differ. How many commands it
//! takes is asserted.

use std::time::{Duration, Instant};

use crate::cluster::Cluster;

#[test]
fn five_drains() {
    let mut c = Cluster::new();
    // No looks besides those that a drain needs.
    c.set("slurm.watch=\"1h\"");
    c.set("slurm.poll=\"0\"");
    c.set("health.guard.mode=\"on\"");
    // The copy of the record follows a drain as an act of its own.
    c.set("slurm.mirror=false");
    c.start();
    // The proof of the node and its partition are read once in a boot, whether or not a drain follows.
    c.until("the first look", |_| c.wrapper.calls().unwrap().len() >= 2);
    let mut commands = Vec::new();
    let mut times: Vec<Duration> = Vec::new();
    // As many as the parent carries out without a pause: a drain and a lift each.
    for (round, code) in [79, 48, 62, 95, 109].into_iter().enumerate() {
        let before = c.wrapper.calls().unwrap().len();
        let start = Instant::now();
        c.xid(round, code);
        // One scontrol a look, so that the clock is not dominated by how often we ask.
        while !c.is_drained() {
            assert!(start.elapsed() < crate::common::LONG, "drain {round}");
        }
        times.push(start.elapsed());
        c.wait_drain_state("drained");
        commands.push(c.wrapper.calls().unwrap().len() - before);
        for incident in c.open_incidents() {
            let id = incident["id"].as_str().unwrap().to_owned();
            assert_eq!(c.cli(&["clear", &id, "--reason", "next round"]).0, Some(0));
        }
        c.wait_undrained();
        c.wait_drain_state("none");
    }
    times.sort_unstable();
    println!(
        "5 drains, kernel-log line to DRAIN as scontrol shows it: p50 {:?}, max {:?}",
        times[2], times[4]
    );
    assert_eq!(c.updates(), 10);
    assert!(commands.iter().all(|n| *n <= 6), "{commands:?}");
    println!("commands for each drain: {commands:?}");
}
