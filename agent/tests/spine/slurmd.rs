//! A slurmd that does not run, or starts late.

use std::fs;
use std::path::Path;

use testkit::slurm::SlurmOptions;

use crate::cluster::Cluster;
use crate::common::{LONG, open_to_all, program};

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

/// The prolog of docs/operations/slurm.md, up to its comment, with the program and the run directory of this test.
fn documented_prolog(c: &Cluster) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operations/slurm.md");
    let page = fs::read_to_string(page).unwrap();
    let line = page
        .lines()
        .find_map(|line| line.strip_prefix("/usr/bin/nodewarden check --prolog "));
    let (line, _) = line.unwrap().split_once('#').unwrap();
    format!(
        "{} check --prolog --run-dir {} {line}\n",
        program(),
        c.run_dir().display()
    )
}

/// Slurm selects the node, the fault comes while the prolog has not yet asked, and the drain keeps nodewarden's reason.
#[test]
fn the_documented_prolog_keeps_a_job_off_a_node_that_was_drained_after_its_selection() {
    let gate = tempfile::tempdir().unwrap();
    open_to_all(gate.path());
    let begun = gate.path().join("begun");
    let command = gate.path().join("command");
    let prolog = format!(
        "#!/bin/sh\n: > {}\nwhile [ -d {2} ] && ! [ -e {1} ]; do sleep 0.1; done\n. {1}\n",
        begun.display(),
        command.display(),
        gate.path().display()
    );
    let mut c = Cluster::with(SlurmOptions {
        prolog: Some(prolog),
        ..SlurmOptions::default()
    });
    c.start();
    let job = c.slurm.submit("sleep 300", "").unwrap();
    c.until("the prolog of the job", |_| begun.exists());
    c.xid(3, 79);
    let reason = c.wait_drained();
    testkit::executable::write(&command, &documented_prolog(&c)).unwrap();
    c.until("the job is kept back", |_| {
        c.slurm.job_state(job).is_ok_and(|state| state == "PENDING")
    });
    assert_eq!(c.reason(), reason);

    // It is held, and starts 2 min after a release. The prolog lets another one run after the repair.
    c.slurm.cancel(job).unwrap();
    c.clear_all();
    let job = c.slurm.submit("sleep 300", "").unwrap();
    c.slurm.wait_job(job, "RUNNING", LONG).unwrap();
    c.slurm.cancel(job).unwrap();
}
