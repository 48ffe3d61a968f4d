//! slurmd with `-b`: it reports its own start as the boot of its node.

use super::tests::Cluster;
use super::*;

/// Of the stand-in's machine: 2026-11-21T01:41:14.
const BOOT: i64 = 1_795_225_274;

fn with_args(args: &str, started: u64, reported: i64) -> Cluster {
    let cluster = Cluster::new().with_sinfo();
    cluster.set(
        "proc/8/cmdline",
        &format!("slurmd {args} -N n0").replace(' ', "\0"),
    );
    cluster.slurmd_started(started * ticks_per_second());
    let time = jiff::Timestamp::from_second(reported).unwrap();
    cluster.set("boot", &time.strftime("%Y-%m-%dT%H:%M:%S").to_string());
    cluster
}

#[test]
fn with_the_boot_option_the_node_is_booted_when_its_slurmd_starts() {
    for args in ["-b", "--systemd -b", "-bD", "-Dvb"] {
        let mut cluster = with_args(args, 2078, BOOT + 2080);
        assert!(matches!(cluster.drain(), Outcome::Done(_)), "{args}");
    }
    // Another start than that of the process that runs, also where it is the machine's.
    for reported in [BOOT, BOOT + 2078 - 300, BOOT + 2078 + 300] {
        let mut cluster = with_args("-b", 2078, reported);
        assert!(matches!(cluster.drain(), Outcome::NotOurs(_)), "{reported}");
        assert!(!cluster.wrote());
    }
    // The option of another process, and none.
    for args in ["-D", "-L b", "-f /etc/b"] {
        let mut cluster = with_args(args, 2078, BOOT + 2080);
        assert!(matches!(cluster.drain(), Outcome::NotOurs(_)), "{args}");
    }
}

/// 24.11 replaces its process when it reads slurm.conf again, and keeps the time.
#[test]
fn a_slurmd_that_replaced_itself_still_reports_its_first_start() {
    let mut cluster = with_args("-b", 9000, BOOT + 2080);
    assert!(matches!(cluster.drain(), Outcome::NotOurs(_)));
    let time = BOOT + 2078;
    cluster.set("proc/8/environ", &format!("A=b\0SLURMD_BOOT_TIME={time}\0"));
    assert!(matches!(cluster.drain(), Outcome::Done(_)));
    // Without the option it is not used.
    let mut cluster = with_args("-D", 9000, BOOT + 2080);
    cluster.set("proc/8/environ", &format!("SLURMD_BOOT_TIME={time}\0"));
    assert!(matches!(cluster.drain(), Outcome::NotOurs(_)));
}

#[test]
fn a_node_that_was_proven_by_the_start_of_its_slurmd_is_drained_when_that_has_ended() {
    let record = tempfile::tempdir().unwrap();
    let mut cluster = with_args("-b", 2078, BOOT + 2080);
    cluster.slurm.seen = SeenSlurmd::of(record.path());
    cluster.slurm.look().unwrap();
    let mut later = with_args("-b", 2078, BOOT + 2080);
    later.slurm.seen = SeenSlurmd::of(record.path());
    later.set("proc/8/comm", "other\n");
    assert!(matches!(later.drain(), Outcome::Done(_)));
}
