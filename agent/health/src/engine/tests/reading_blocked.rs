//! Check `reading-blocked`.

use std::time::Duration;

use collectors::rdma::Pattern;

use super::gpus::{driven, node, well};
use super::host::{Driven, Port};
use super::sim::*;
use crate::Mode;

/// The first GPU is the one of the tests. The other one answers, so that check collector-silent has nothing to report.
fn two_gpus() -> Sim {
    let other = Driven {
        label: "GPU-other".to_owned(),
        ..driven(well())
    };
    node(Mode::Drain, vec![driven(well()), other])
}

/// The GPU's reading has not returned since now.
fn blocks(sim: &mut Sim, state: char, wchan: &'static str) {
    let since = sim.now.boottime;
    sim.host.driven[0].late = Some((state, wchan, since));
    sim.host.driven[0].read_at = Some(since);
}

fn answers(sim: &mut Sim) {
    sim.host.driven[0].late = None;
    sim.host.driven[0].read_at = None;
}

/// The evidence of the finding. Check gpu-unreadable reports a thread in state S earlier, and is never commented.
fn evidence(sim: &Sim) -> Option<String> {
    let view = sim.engine.view();
    let mut findings = view.incidents.iter().flat_map(|i| &i.findings);
    let own = findings.find(|f| f.check == "reading-blocked")?;
    Some(own.evidence.join("; "))
}

#[test]
fn a_reading_that_has_not_returned_for_300_s_is_commented_whatever_its_thread_does() {
    for (state, wchan, shown) in [
        ('S', "futex_do_wait", "state S, wait channel futex_do_wait"),
        ('S', "", "state S, wait channel none"),
        ('R', "", "state R, wait channel none"),
        ('D', "", "state D, wait channel none"),
        ('D', "proc_cgroup_show", "state D, wait channel proc_cgroup_show"),
    ] {
        let mut sim = two_gpus();
        blocks(&mut sim, state, wchan);
        sim.pass(290);
        assert_eq!(
            (evidence(&sim), &sim.slurm.comment),
            (None, &None),
            "{shown}: not for long enough"
        );
        sim.pass(190);
        let seconds = "nodewarden_device_late_seconds 3";
        let evidence = evidence(&sim).unwrap();
        assert!(
            evidence.contains(shown) && evidence.contains(seconds),
            "{evidence}"
        );
        sim.pass(3600);
        let comment = sim.slurm.comment.clone().unwrap_or_default();
        assert!(comment.contains("nodewarden"), "{comment:?}");
        assert_eq!(
            sim.slurm.drains, 0,
            "{shown}: no proof that the driver is blocked"
        );
        answers(&mut sim);
        sim.pass(300);
        assert!(
            sim.incidents().iter().all(|i| i.ends_with("cleared")),
            "{:?}",
            sim.incidents()
        );
        assert_eq!(sim.slurm.comment, None);
    }
}

/// The state of the thread is sampled: a thread that polls its device is sometimes asleep, sometimes not.
#[test]
fn a_thread_that_changes_its_state_makes_no_progress() {
    let mut sim = two_gpus();
    blocks(&mut sim, 'R', "");
    let since = sim.now.boottime;
    for place in 0..40 {
        let (state, wchan) = [('R', ""), ('S', "usleep_range"), ('D', "rm_lock")][place % 3];
        sim.host.driven[0].late = Some((state, wchan, since));
        sim.pass(15);
    }
    assert_eq!(sim.incidents(), ["reading does not return open"]);
    assert_eq!(sim.slurm.drains, 0);
}

#[test]
fn a_reading_that_returns_however_slowly_is_no_finding_and_ends_one() {
    let mut sim = two_gpus();
    let slowly = |sim: &mut Sim| {
        for _ in 0..30 {
            blocks(sim, 'S', "futex_do_wait");
            sim.pass(200);
        }
    };
    slowly(&mut sim);
    assert_eq!((evidence(&sim), &sim.slurm.comment), (None, &None));
    blocks(&mut sim, 'S', "futex_do_wait");
    sim.pass(400);
    assert!(evidence(&sim).is_some() && sim.slurm.comment.is_some());
    slowly(&mut sim);
    assert_eq!(sim.slurm.comment, None);
}

#[test]
fn a_new_worker_whose_reading_blocks_again_ends_nothing() {
    let mut sim = two_gpus();
    blocks(&mut sim, 'S', "futex_do_wait");
    sim.pass(400);
    let since = sim.now.boottime;
    sim.host.driven[0].late = Some(('S', "futex_do_wait", since));
    sim.host.driven[0].read_at = Some(Duration::ZERO);
    sim.pass(280);
    assert!(sim.slurm.comment.is_some());
}

#[test]
fn the_proof_of_a_blocked_driver_drains_as_before() {
    let mut sim = two_gpus();
    blocks(&mut sim, 'S', "futex_do_wait");
    sim.pass(400);
    assert_eq!(sim.slurm.drains, 0);
    let (_, _, since) = sim.host.driven[0].late.unwrap();
    sim.host.driven[0].late = Some(('D', "os_acquire_rwlock", since));
    sim.pass(400);
    assert_eq!(sim.incidents(), ["driver blocked open"]);
    assert_eq!(sim.slurm.drains, 1);
    answers(&mut sim);
    sim.pass(300);
    assert_eq!(sim.incidents(), ["driver blocked cleared"]);
}

#[test]
fn two_processes_that_do_not_end_are_one_finding_for_each_collector_of_the_worker() {
    let mut sim = two_gpus();
    sim.host.stuck = Some("nvidia");
    sim.pass(270);
    assert_eq!(evidence(&sim), None);
    sim.pass(150);
    assert!(
        sim.incidents()
            .contains(&"no worker can be started open".to_owned()),
        "{:?}",
        sim.incidents()
    );
    assert!(
        evidence(&sim)
            .unwrap()
            .contains("nodewarden_worker_stuck_slots{worker=\"nvidia\"} 2"),
        "{:?}",
        evidence(&sim)
    );
    assert_eq!(sim.slurm.drains, 0);
    sim.host.stuck = None;
    sim.pass(200);
    assert!(
        sim.incidents()
            .contains(&"no worker can be started cleared".to_owned()),
        "{:?}",
        sim.incidents()
    );
}

#[test]
fn an_excluded_port_is_no_finding() {
    for (exclude, found) in [(None, 1), (Some("mlx5_2"), 0)] {
        let mut config = config(Mode::Drain);
        let pattern = |text: &str| Pattern::try_from(text.to_owned()).unwrap();
        config.rdma.exclude.extend(exclude.map(pattern));
        let mut sim = Sim::with(config, None);
        sim.host.ports = (0..4).map(Port::new).collect();
        sim.pass(2000);
        sim.host.ports[2].late = true;
        sim.host.ports[2].late_since = Some(sim.now.boottime);
        sim.pass(500);
        assert_eq!(sim.incidents().len(), found, "{exclude:?}");
    }
}
