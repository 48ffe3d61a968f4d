//! slurmctld replaces our reason with its own.

use crate::cluster::Cluster;

#[test]
fn our_drain_is_recognised_when_slurmctld_replaced_its_reason() {
    let mut c = Cluster::new();
    c.start();
    c.xid(3, 79);
    c.wait_drained();
    c.wait_drain_state("drained");

    // If a drained node registers with 7 of 8 GPUs, 22.05 keeps its reason; later releases replace it with this text.
    let name = c.name.clone();
    c.slurm.restart_slurmd(&name, 7).unwrap();
    c.until("registered with 7 of 8", |_| c.state().contains("INVALID_REG"));
    c.slurm
        .set_reason(&name, "gres/gpu count reported lower than configured (7 < 8)")
        .unwrap();
    c.wait_looks(3);
    assert_eq!(c.drain_state(), "drained", "drain no longer recognised as ours");

    // Repaired, but slurmctld would refuse to undrain an invalid registration: the undrain waits.
    let id = c.open_incidents()[0]["id"].as_str().unwrap().to_owned();
    c.clear(&id, "reseated");
    c.wait_looks(3);
    assert!(c.is_drained());
    c.slurm.restart_slurmd(&name, 8).unwrap();
    c.wait_undrained();
    c.wait_drain_state("none");
}

/// slurmctld drains an idle node when a GPU is missing. That drain is not ours, even if we have an incident too.
#[test]
fn slurmctlds_own_drain_is_not_ours_to_lift() {
    let mut c = Cluster::new();
    c.start();
    let name = c.name.clone();
    c.slurm.restart_slurmd(&name, 7).unwrap();
    c.until("slurmctld drained it", |_| c.is_drained());
    c.xid(3, 79);
    c.until("an incident", |n| !n.open_incidents().is_empty());
    let id = c.open_incidents()[0]["id"].as_str().unwrap().to_owned();
    c.cli(&["clear", &id, "--reason", "reseated"]);
    c.slurm.restart_slurmd(&name, 8).unwrap();
    c.until("registered with all GPUs", |_| !c.state().contains("INVALID_REG"));
    c.wait_looks(3);
    assert!(c.is_drained());
    assert!(c.reason().contains("count reported lower"), "{}", c.reason());
    assert_eq!(c.updates(), 0);
}
