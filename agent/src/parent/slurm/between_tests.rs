//! What happens between the commands of an act, or between two requests.

use super::tests::{COUNT_LOWER, Cluster, REASON, mirror, with_mirror};
use super::*;

/// slurmctld carries a drain out, and scontrol ends before it has the answer.
fn drain_unseen(cluster: &mut Cluster) {
    cluster.hook(
        cluster.calls() + 2,
        &format!("echo IDLE+DRAIN > state; echo '{REASON}' > reason; kill -9 $$"),
    );
    let outcome = cluster.drain();
    assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
}

#[test]
fn a_drain_that_only_a_look_shows_is_remembered_like_any_other() {
    for restart in [false, true] {
        let record = tempfile::tempdir().unwrap();
        let mut cluster = Cluster::new().with_sinfo();
        cluster.set("started", "2026-11-21T03:21:00");
        cluster.slurm.memory = DrainMemory::of(record.path());
        cluster.slurm.look().unwrap();
        drain_unseen(&mut cluster);
        if restart {
            cluster.slurm.memory = DrainMemory::of(record.path());
        }
        assert!(cluster.slurm.look().unwrap().is_drained());
        cluster.set("state", "IDLE");
        let node = cluster.slurm.look().unwrap();
        assert_eq!(node.controller_started, Some(1_795_231_260), "{restart}");

        drain_unseen(&mut cluster);
        cluster.slurm.look().unwrap();
        cluster.drained(COUNT_LOWER);
        assert!(matches!(cluster.undrain(), Outcome::Done(_)), "{restart}");
    }
}

#[test]
fn without_the_start_of_slurmctld_nothing_is_said_about_a_drain_that_is_gone() {
    let mut cluster = Cluster::new().with_sinfo();
    cluster.set("started", "2026-11-21T03:21:00");
    cluster.slurm.look().unwrap();
    assert!(matches!(cluster.drain(), Outcome::Done(_)));
    cluster.set("state", "IDLE");
    let failure = "echo 'Unable to contact slurm controller' >&2; exit 1";
    cluster.hook(cluster.calls() + 1, failure);
    let Err(LookError::Failed(why)) = cluster.slurm.look() else {
        panic!()
    };
    assert_eq!(
        why,
        "scontrol show config: exit code 1, Unable to contact slurm controller"
    );
    let node = cluster.slurm.look().unwrap();
    assert_eq!(node.controller_started, Some(1_795_231_260));

    // As where one of several slurmctlds hangs.
    cluster.set("state", "IDLE");
    assert!(matches!(cluster.drain(), Outcome::Done(_)));
    cluster.set("state", "IDLE");
    for _ in 0..3 {
        cluster.hook(cluster.calls() + 1, failure);
        assert!(matches!(cluster.slurm.look(), Err(LookError::Failed(_))));
    }
    cluster.hook(cluster.calls() + 1, failure);
    let node = cluster.slurm.look().unwrap();
    assert_eq!((node.is_drained(), node.controller_started), (false, None));
    let calls = cluster.calls();
    cluster.slurm.look().unwrap();
    assert_eq!(cluster.calls(), calls, "not asked again");
}

/// A backup of slurmctld shows the start of its process, which waited for the end of the primary.
#[test]
fn a_drain_that_is_gone_where_a_backup_took_over_is_no_older_than_its_start() {
    let mut cluster = Cluster::new().with_sinfo();
    cluster.set("started", "2026-11-01T00:00:00");
    let pings = "\nSlurmctld(primary) at c1 is DOWN\nSlurmctld(backup) at c2 is UP\n";
    cluster.set("pings", pings);
    cluster.slurm.look().unwrap();
    assert!(matches!(cluster.drain(), Outcome::Done(_)));
    cluster.set("state", "IDLE");
    let node = cluster.slurm.look().unwrap();
    assert_eq!(node.controller_started, Some(i64::MAX));
}

/// On a busy slurmctld, an answer about the pause takes seconds.
#[test]
fn a_person_who_comes_while_the_pause_is_read() {
    let acts: [fn(&mut Cluster) -> Outcome; 2] = [Cluster::undrain, |cluster| mirror(cluster, &[])];
    for act in acts {
        let mut cluster = with_mirror();
        cluster.drained(REASON);
        let person = "echo 'alice: RMA, board removed' > reason";
        cluster.hook(cluster.calls() + 1, person);
        assert!(matches!(act(&mut cluster), Outcome::Foreign(_)));
        assert!(!cluster.wrote());
        assert_eq!(cluster.get("state"), "IDLE+DRAIN");
    }
}
