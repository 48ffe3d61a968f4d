//! Checks mount-unresponsive, mount-read-only and mount-full.

use collectors::event::{EventBody, KernelLine};
use collectors::mounts::metrics::{AVAILABLE, INFO, INODES, INODES_FREE, PROBE_AGE, READ_ONLY, SIZE};
use collectors::{Block, Subject, SubjectKind};

use super::sim::*;
use crate::Mode;

/// The next reading: whether the disk is read-only, its free bytes and inodes of 1000 each; or the word of its error.
fn disk(sim: &mut Sim, read_only: bool, free: Result<(u64, u64), &'static str>) {
    disk_of(sim, "/dev/nvme1n1p1", read_only, free);
}

fn disk_of(sim: &mut Sim, source: &str, read_only: bool, free: Result<(u64, u64), &'static str>) {
    let mut list = Block::default();
    list.info(&INFO, &["/scratch", "xfs", source, "local"]);
    list.u64(&READ_ONLY, &["/scratch"], u64::from(read_only));
    let probe = free.map(|(bytes, inodes)| {
        let mut probe = Block::default();
        let at = ["/scratch"];
        probe.u64(&SIZE, &at, 1000);
        probe.u64(&AVAILABLE, &at, bytes);
        probe.u64(&INODES, &at, 1000);
        probe.u64(&INODES_FREE, &at, inodes);
        probe
    });
    let subject = Subject::new(SubjectKind::Mount, "/scratch");
    sim.host.others = vec![("mounts", Subject::node(), Ok(list)), ("mounts", subject, probe)];
}

const FREE: Result<(u64, u64), &str> = Ok((500, 500));

#[test]
fn a_stale_mount_is_a_finding_and_does_not_drain_by_default() {
    let mut sim = Sim::new(Mode::Drain);
    disk(&mut sim, false, FREE);
    sim.pass(60);
    disk(&mut sim, false, Err("stale"));
    sim.pass(90);
    assert_eq!(sim.incidents(), [""; 0]);
    sim.pass(60);
    assert!(sim.says("cannot be read: stale", false), "{:?}", sim.incidents());
    assert_eq!(sim.slurm.drains, 0);
    disk(&mut sim, false, FREE);
    sim.pass(120);
    assert!(sim.says("cannot be read: stale", true), "{:?}", sim.incidents());
}

#[test]
fn a_folder_that_only_root_may_enter_is_no_finding() {
    let mut sim = Sim::new(Mode::Drain);
    disk(&mut sim, false, Err("denied"));
    sim.pass(900);
    assert_eq!(sim.incidents(), [""; 0]);
}

/// A disk that became read-only a minute ago.
fn read_only_disk() -> Sim {
    let mut sim = Sim::new(Mode::Drain);
    disk(&mut sim, false, FREE);
    sim.pass(60);
    disk(&mut sim, true, FREE);
    sim.pass(60);
    sim
}

#[test]
fn a_disk_that_becomes_read_only_is_a_finding_until_it_is_writable() {
    let mut sim = read_only_disk();
    assert!(sim.says("became read-only", false), "{:?}", sim.incidents());
    disk(&mut sim, false, FREE);
    sim.pass(120);
    assert!(sim.says("became read-only", true), "{:?}", sim.incidents());
}

/// Only the root filesystem is mounted.
fn unmounted(sim: &mut Sim) {
    let mut list = Block::default();
    list.info(&INFO, &["/", "ext4", "/dev/sda1", "local"]);
    list.u64(&READ_ONLY, &["/"], 0);
    sim.host.others = vec![("mounts", Subject::node(), Ok(list))];
}

/// The list is read at once, and after that every minute.
fn minutes(sim: &mut Sim, minutes: u32) {
    for _ in 0..minutes {
        sim.host.others_at = Some(sim.now.boottime);
        sim.pass(60);
    }
}

#[test]
fn a_disk_that_is_unmounted_ends_its_finding() {
    let mut sim = read_only_disk();
    unmounted(&mut sim);
    sim.pass(120);
    assert!(sim.says("became read-only", true), "{:?}", sim.incidents());
}

#[test]
fn another_mount_at_the_same_place_did_not_become_read_only() {
    let same: fn(&mut Sim) = |sim| disk(sim, true, FREE);
    let other: fn(&mut Sim) = |sim| disk_of(sim, "/dev/sdc1", true, FREE);
    for (mount, was_seen_unmounted) in [(same, true), (other, true), (other, false)] {
        let mut sim = Sim::new(Mode::Drain);
        disk(&mut sim, false, FREE);
        sim.pass(60);
        if was_seen_unmounted {
            unmounted(&mut sim);
            sim.pass(15);
        }
        sim.restart();
        mount(&mut sim);
        sim.pass(600);
        assert_eq!(sim.incidents(), [""; 0]);
    }
}

#[test]
fn another_mount_at_the_same_place_ends_the_finding() {
    let mut sim = read_only_disk();
    unmounted(&mut sim);
    sim.pass(15);
    assert!(sim.says("became read-only", false), "{:?}", sim.incidents());
    disk_of(&mut sim, "/dev/sdc1", true, FREE);
    sim.pass(120);
    assert!(sim.says("became read-only", true), "{:?}", sim.incidents());
    sim.pass(600);
    assert_eq!(sim.incidents().len(), 1);
}

#[test]
fn a_list_that_cannot_be_read_forgets_nothing() {
    let mut sim = Sim::new(Mode::Drain);
    disk(&mut sim, false, FREE);
    sim.pass(60);
    sim.host.others = vec![("mounts", Subject::node(), Err("slow"))];
    sim.pass(120);
    disk(&mut sim, true, FREE);
    sim.pass(60);
    assert!(sim.says("became read-only", false), "{:?}", sim.incidents());
}

#[test]
fn one_reading_that_several_snapshots_show_counts_once() {
    let mut sim = Sim::new(Mode::Drain);
    disk(&mut sim, false, FREE);
    minutes(&mut sim, 1);
    disk(&mut sim, true, FREE);
    minutes(&mut sim, 1);
    assert_eq!(sim.incidents(), [""; 0]);
    minutes(&mut sim, 1);
    assert!(sim.says("became read-only", false), "{:?}", sim.incidents());
    unmounted(&mut sim);
    minutes(&mut sim, 2);
    assert!(sim.says("became read-only", false), "{:?}", sim.incidents());
    minutes(&mut sim, 1);
    assert!(sim.says("became read-only", true), "{:?}", sim.incidents());

    let mut sim = Sim::new(Mode::Drain);
    disk(&mut sim, false, Ok((9, 500)));
    minutes(&mut sim, 5);
    assert_eq!(sim.incidents(), [""; 0]);
    minutes(&mut sim, 1);
    assert_eq!(sim.incidents().len(), 1, "6 readings over 5 min");
}

#[test]
fn a_disk_that_was_always_read_only_is_no_finding() {
    let mut sim = Sim::new(Mode::Drain);
    disk(&mut sim, true, Ok((0, 0)));
    sim.pass(900);
    assert_eq!(sim.incidents(), [""; 0]);
}

#[test]
fn a_full_disk_is_a_finding_after_5_min_and_one_with_1_percent_is_not() {
    for (free, is_full) in [((9, 500), true), ((500, 9), true), ((10, 10), false)] {
        let mut sim = Sim::new(Mode::Drain);
        disk(&mut sim, false, Ok(free));
        sim.pass(240);
        assert_eq!(sim.incidents(), [""; 0], "{free:?}");
        sim.pass(120);
        assert_eq!(
            !sim.incidents().is_empty(),
            is_full,
            "{free:?} {:?}",
            sim.incidents()
        );
        assert_eq!(sim.slurm.drains, 0);
    }
}

#[test]
fn a_check_that_the_site_lets_drain_drains_when_the_mode_of_all_is_raised_later() {
    let mut settings = config(Mode::Observe);
    settings.checks.insert("mount-full".to_owned(), Mode::Drain);
    let mut sim = Sim::with(settings, None);
    disk(&mut sim, false, Ok((1, 500)));
    sim.pass(400);
    assert_eq!((sim.incidents().len(), sim.slurm.drains), (1, 0));
    sim.config.mode = Mode::Drain;
    sim.reload();
    assert_eq!(sim.slurm.drains, 1);
}

#[test]
fn a_check_that_only_observed_drains_for_what_is_still_so_once_the_site_lets_it() {
    let mut settings = config(Mode::Drain);
    settings.checks.insert("mount-full".to_owned(), Mode::Observe);
    let mut sim = Sim::with(settings, None);
    disk(&mut sim, false, Ok((1, 500)));
    sim.pass(400);
    assert_eq!((sim.incidents().len(), sim.slurm.drains), (1, 0));
    sim.config.checks.insert("mount-full".to_owned(), Mode::Drain);
    sim.reload();
    sim.pass(60);
    assert_eq!((sim.incidents().len(), sim.slurm.drains), (1, 1));
}

#[test]
fn a_check_that_the_site_lets_drain_while_nodewarden_is_stopped_drains_after_it() {
    let mut sim = Sim::with(config(Mode::Drain), None);
    disk(&mut sim, false, Ok((1, 500)));
    sim.pass(400);
    assert_eq!((sim.incidents().len(), sim.slurm.drains), (1, 0));
    sim.config.checks.insert("mount-full".to_owned(), Mode::Drain);
    sim.restart();
    sim.pass(400);
    assert_eq!((sim.incidents().len(), sim.slurm.drains), (1, 1));
}

#[test]
fn findings_of_mounts_end_and_drain_nothing_after_the_source_is_switched_off() {
    let mut settings = config(Mode::Observe);
    settings
        .checks
        .insert("mount-unresponsive".to_owned(), Mode::Drain);
    let mut sim = Sim::with(settings, None);
    disk(&mut sim, false, Err("stale"));
    sim.pass(300);
    assert_eq!(sim.incidents(), ["cannot be read: stale open"]);
    (sim.host.off, sim.host.others) = (Some("mounts"), Vec::new());
    sim.pass(150);
    assert_eq!(sim.incidents(), ["cannot be read: stale cleared"]);
    sim.config.mode = Mode::Drain;
    sim.reload();
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 0);
}

#[test]
fn a_late_mount_is_a_comment_and_a_stale_one_after_it_drains_where_the_site_permits_it() {
    let mut settings = config(Mode::Drain);
    settings
        .checks
        .insert("mount-unresponsive".to_owned(), Mode::Drain);
    let mut sim = Sim::with(settings, None);
    disk(&mut sim, false, FREE);
    sim.pass(60);
    disk(&mut sim, false, Err("slow"));
    sim.pass(600);
    let comment = sim.slurm.comment.clone().unwrap_or_default();
    assert!(comment.contains("cannot be read: slow"), "{comment}");
    assert_eq!(sim.slurm.drains, 0);
    disk(&mut sim, false, Err("stale"));
    sim.pass(180);
    assert_eq!(sim.slurm.drains, 1, "{:?}", sim.incidents());
}

/// Mounts of servers, and the words of their errors.
fn of_servers(sim: &mut Sim, mounts: &[(&'static str, &str, Option<&'static str>)]) {
    let mut list = Block::default();
    for (point, source, _) in mounts {
        list.info(&INFO, &[point, "nfs4", source, "network"]);
    }
    sim.host.others = vec![("mounts", Subject::node(), Ok(list))];
    for (point, _, error) in mounts {
        let mut probe = Block::default();
        probe.u64(&SIZE, &[point], 1000);
        let subject = Subject::new(SubjectKind::Mount, *point);
        let read = error.map_or(Ok(probe), Err);
        sim.host.others.push(("mounts", subject, read));
    }
}

#[test]
fn a_fault_of_several_mounts_of_a_server_names_the_server() {
    let mut sim = Sim::new(Mode::Drain);
    let healthy = [
        ("/a", "nas:/a", None),
        ("/b", "nas:/b", None),
        ("/c", "other:/c", None),
    ];
    of_servers(&mut sim, &healthy);
    sim.pass(60);
    let [a, b, c] = healthy;
    of_servers(
        &mut sim,
        &[(a.0, a.1, Some("stale")), (b.0, b.1, Some("stale")), c],
    );
    sim.pass(180);
    let all = sim.incidents();
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(sim.says("cannot be read: stale (server nas)", false), "{all:?}");
    let findings = sim.engine.book.incidents.iter().flat_map(|i| &i.findings);
    let evidence: Vec<&String> = findings.flat_map(|seen| &seen.evidence).collect();
    let told = |text: &&&String| text.ends_with("; 2 of 2 mounts of server nas fail");
    assert_eq!(evidence.iter().filter(told).count(), 2, "{evidence:?}");
    of_servers(&mut sim, &[a, b, (c.0, c.1, Some("stale"))]);
    sim.pass(180);
    assert!(
        sim.says("cannot be read: stale (server nas)", true)
            && sim.says("cannot be read: stale (server other)", false),
        "{:?}",
        sim.incidents()
    );
}

/// The kernel reports a server as back only to the program that waited, and that one may have been killed.
#[test]
fn a_server_is_back_when_each_of_its_nfs_mounts_has_answered_since_the_line() {
    let mut sim = Sim::new(Mode::Drain);
    let healthy = [
        ("/a", "nas:/a", None),
        ("/b", "nas:/b", None),
        ("/c", "[fd00::7]:/c", None),
        ("/d", "[fd00::8]:/d", None),
    ];
    let [a, b, c, d] = healthy;
    of_servers(&mut sim, &healthy);
    // The last answers are from before the lines, and the log's clock is 90 s behind.
    sim.host.others_at = Some(sim.now.boottime);
    sim.pass(40);
    let lines = [
        ("nfs-not-responding", "nas"),
        ("nfs-locks-not-responding", "fd00::7"),
        ("nfs-not-responding", "fd00::8"),
        ("nfs-not-responding", "unmounted"),
    ];
    for (row, server) in lines {
        let subject = Subject::new(SubjectKind::Server, server);
        let row = row.to_owned();
        sim.event_behind(90, EventBody::Kernel(KernelLine { row, subject }));
    }
    let open = |sim: &Sim| -> Vec<String> {
        let all = sim.engine.view().incidents;
        let mut open: Vec<String> = (all.iter().filter(|i| i.state == "open"))
            .map(|i| i.subject.clone())
            .filter(|subject| subject.starts_with("server "))
            .collect();
        open.sort();
        open
    };
    let all = [
        "server fd00::7",
        "server fd00::8",
        "server nas",
        "server unmounted",
    ];
    sim.pass(60);
    assert_eq!(open(&sim), all, "no answer since");
    sim.host.others_at = None;
    of_servers(&mut sim, &[(a.0, a.1, Some("stale")), b, c, d]);
    sim.pass(300);
    let one_of_two = ["server fd00::7", "server nas", "server unmounted"];
    assert_eq!(open(&sim), one_of_two, "one of two");
    of_servers(&mut sim, &healthy);
    sim.pass(300);
    assert_eq!(
        open(&sim),
        ["server fd00::7", "server unmounted"],
        "a mount says nothing about locks"
    );
}

/// Sets the age of the answer of the last mount.
fn answered(sim: &mut Sim, point: &str, seconds: u32) {
    let (_, _, probe) = sim.host.others.last_mut().unwrap();
    let probe = probe.as_mut().unwrap();
    probe.f64(&PROBE_AGE, &[point], f64::from(seconds));
}

/// A mount that an automounter unmounts is probed rarely, and its last answer is shown each minute.
#[test]
fn an_answer_from_before_the_line_does_not_show_that_the_server_is_back() {
    let mut sim = Sim::new(Mode::Drain);
    let show = |sim: &mut Sim, age| {
        of_servers(sim, &[("/home/alice", "nas:/alice", None)]);
        answered(sim, "/home/alice", age);
    };
    show(&mut sim, 0);
    sim.pass(40);
    let subject = Subject::new(SubjectKind::Server, "nas");
    let row = "nfs-not-responding".to_owned();
    sim.event_behind(90, EventBody::Kernel(KernelLine { row, subject }));
    let is_open = |sim: &Sim| sim.engine.view().incidents.iter().any(|i| i.state == "open");
    for age in [60, 120, 180] {
        show(&mut sim, age);
        sim.pass(60);
        assert!(is_open(&sim), "{age}");
    }
    show(&mut sim, 0);
    sim.pass(300);
    assert!(!is_open(&sim), "{:?}", sim.incidents());
}

#[test]
fn a_full_disk_that_is_rarely_probed_is_a_finding_after_6_probes() {
    let mut sim = Sim::new(Mode::Drain);
    for minute in 0..=50 {
        assert_eq!(sim.incidents(), [""; 0], "minute {minute}");
        disk(&mut sim, false, Ok((9, 500)));
        // The end of a reading varies by seconds.
        let since = minute % 10;
        answered(&mut sim, "/scratch", since * 60 - since % 3);
        minutes(&mut sim, 1);
    }
    assert_eq!(sim.incidents().len(), 1);
}
