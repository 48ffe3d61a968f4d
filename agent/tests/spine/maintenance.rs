//! A node in a maintenance reservation of a real slurmctld.

use crate::cluster::Cluster;
use crate::common::GPUS;

/// In MAINT from now on.
fn in_maintenance(c: &Cluster) {
    let nodes = format!("Nodes={}", c.name);
    let maintenance = [
        "create",
        "reservation",
        "ReservationName=window",
        "StartTime=now",
        "Duration=60",
        "Users=root",
        "Flags=MAINT,IGNORE_JOBS",
        &nodes,
    ];
    c.slurm.scontrol(&maintenance).unwrap().ok().unwrap();
    c.slurm
        .wait_state(&c.name, |state| state.contains("MAINT"), crate::common::LONG)
        .unwrap();
}

#[test]
fn a_condition_drains_at_once_and_slurm_keeps_both_flags() {
    let mut c = Cluster::guarded();
    c.seldom();
    c.set(&format!("health.gpu_addresses=[{:?},{:?}]", GPUS[0], GPUS[1]));
    in_maintenance(&c);
    c.start();
    c.unplug(1);
    let reason = c.wait_drained();
    assert!(reason.starts_with("nodewarden:gpu-missing gpu "), "{reason}");
    assert!(c.state().contains("MAINT"), "{}", c.state());
    c.wait_drain_state("drained");
    // The end of the maintenance ends no drain.
    c.delete("window");
    c.slurm
        .wait_state(&c.name, |state| !state.contains("MAINT"), crate::common::LONG)
        .unwrap();
    assert!(c.is_drained());
    assert_eq!(c.reason(), reason);
}

#[test]
fn in_full_an_event_waits_for_the_end_of_the_maintenance() {
    let mut c = Cluster::guarded();
    c.seldom();
    in_maintenance(&c);
    c.start();
    c.settle();
    c.xid(3, 119);
    c.until("it waits", |n| {
        n.try_view()["drain"]["why"]
            .to_string()
            .to_lowercase()
            .contains("maint")
    });
    c.settle();
    assert!(!c.is_drained());
    c.delete("window");
    // What the maintenance did shows in the readings of the minute after it.
    c.until_patiently("drained after the end", |c| c.is_drained());
    assert!(c.reason().starts_with("nodewarden:xid gpu "), "{}", c.reason());
    assert_eq!(c.drains(), 1);
}
