//! A slurmd that does not run, or starts late.

use crate::cluster::Cluster;

/// After a reboot the fault is there before slurmd: the drain follows slurmd within a second or two, not after half a
/// minute. In a boot in which the name was proven, it does not wait for slurmd.
#[test]
fn a_fault_before_the_start_of_slurmd_drains_when_it_starts() {
    let mut c = Cluster::new();
    c.set("slurm.watch=\"1h\"");
    c.set("slurm.poll=\"0\"");
    let name = c.name.clone();
    c.slurm.kill_slurmd(&name).unwrap();
    c.start();
    c.xid(3, 79);
    c.until("an incident", |n| !n.open_incidents().is_empty());
    assert!(!c.is_drained());
    c.slurm.restart_slurmd(&name, 8).unwrap();
    let start = std::time::Instant::now();
    c.wait_drained();
    println!("slurmd's start to drained: {:?}", start.elapsed());
    c.wait_drain_state("drained");
    let id = c.open_incidents()[0]["id"].as_str().unwrap().to_owned();
    c.cli(&["clear", &id, "--reason", "next"]);
    c.wait_undrained();
    c.wait_drain_state("none");

    c.slurm.kill_slurmd(&name).unwrap();
    c.xid(4, 79);
    c.until("drained without slurmd", |_| {
        c.reason().starts_with("nodewarden:")
    });
}
