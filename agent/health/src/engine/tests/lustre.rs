//! Clients of Lustre: targets without a connection, evictions, and LNet's interfaces.

use collectors::lustre::metrics::{
    EVICTIONS, HEALTHY, LAST_EVICTION, NI_UP, SERVER_FAULTY, SERVER_TARGETS, TARGET_STATE, TARGETS_STATE,
    UNREADABLE,
};
use collectors::{Block, Subject, SubjectKind};

use super::host::LustreSeries;
use super::kernel_lines::line;
use super::sim::*;
use crate::{Mode, OrderVerb};

const A: &str = "10.2.0.40@o2ib";
const B: &str = "10.2.0.41@o2ib";

fn network(up: u64) -> Vec<LustreSeries> {
    vec![
        (&HEALTHY, vec![], 1),
        (&NI_UP, vec!["10.2.0.77@o2ib"], 1),
        (&NI_UP, vec!["10.3.0.77@o2ib1"], up),
    ]
}

/// A filesystem with 4 OSTs, of which these have no connection: target, state, server. `all` are the targets of server A.
fn scratch(down: &[(&'static str, &'static str, &'static str)], all: u64) -> Vec<LustreSeries> {
    let mut series: Vec<LustreSeries> = vec![
        (&TARGETS_STATE, vec!["scratch", "ost", "IDLE"], 2),
        (&TARGETS_STATE, vec!["scratch", "ost", "unreadable"], 0),
    ];
    for (target, state, server) in down {
        series.push((&TARGET_STATE, vec!["scratch", target, state, server], 1));
    }
    if down.iter().any(|(_, _, server)| *server == A) {
        series.push((&SERVER_TARGETS, vec!["scratch", A], all));
        let faulty = down.iter().filter(|(_, _, server)| *server == A).count();
        series.push((&SERVER_FAULTY, vec!["scratch", A], u64::try_from(faulty).unwrap()));
    }
    series.push((&EVICTIONS, vec!["scratch"], 0));
    series
}

fn show(sim: &mut Sim, filesystem: Vec<LustreSeries>) {
    sim.host.lustre = vec![filesystem, network(1)];
}

fn node(filesystem: Vec<LustreSeries>) -> Sim {
    let mut sim = Sim::new(Mode::Drain);
    show(&mut sim, filesystem);
    sim
}

#[test]
fn a_target_without_a_connection_for_2_minutes_is_found_and_cleared_when_it_is_back() {
    let mut sim = node(scratch(&[("scratch-OST0001", "DISCONN", A)], 2));
    sim.pass(90);
    assert!(
        sim.incidents().is_empty(),
        "a server that restarts is back by then"
    );
    sim.pass(60);
    assert_eq!(sim.incidents(), ["no connection open"]);
    let view = sim.engine.view();
    assert_eq!(view.incidents[0].subject, "server scratch-OST0001");
    let line = view.incidents[0].findings[0].evidence.join("; ");
    let expected = "lustre_client_target_state{fs=\"scratch\",target=\"scratch-OST0001\",state=\"DISCONN\"";
    assert!(line.contains(expected), "{line}");
    assert_eq!((sim.slurm.drains, sim.slurm.comment.is_some()), (0, true));
    show(&mut sim, scratch(&[], 0));
    sim.pass(90);
    assert_eq!(sim.incidents(), ["no connection cleared"]);
}

/// The kernel limits its lines per place in the code: the line of the return may be missing.
#[test]
fn a_target_that_the_log_calls_lost_is_back_once_a_reading_shows_its_connection() {
    let lost = "the connection to a Lustre target was lost";
    for is_unmounted in [false, true] {
        let mut sim = node(scratch(&[("scratch-OST0001", "DISCONN", A)], 2));
        sim.event(line("lustre-lost", "scratch-OST0001"));
        sim.pass(90);
        assert_eq!(sim.incidents(), [format!("{lost} open")]);
        sim.host.lustre = vec![scratch(&[], 0), network(1)];
        if is_unmounted {
            sim.host.lustre.remove(0);
        }
        sim.pass(150);
        assert_eq!(sim.incidents(), [format!("{lost} cleared")]);
    }
    // Another target, states that cannot be read, and targets of a server.
    let other = scratch(&[("scratch-OST0001", "DISCONN", A)], 2);
    let mut unread = scratch(&[], 0);
    unread[1].2 = 1;
    for (target, series) in [
        ("scratch-OST0001", other),
        ("scratch-OST0001", unread),
        ("scratch-OST0000-osc-MDT0000", scratch(&[], 0)),
        ("scratch-MDT0000-lwp-OST0018", scratch(&[], 0)),
    ] {
        let mut sim = node(series);
        sim.event(line("lustre-lost", target));
        sim.pass(3600);
        let open = format!("{lost} open");
        assert!(sim.incidents().contains(&open), "{target}: {:?}", sim.incidents());
    }
}

/// Lustre limits "Connection restored" over all targets: that of the management server is usually missing.
#[test]
fn a_lost_connection_to_a_management_server_ends_by_itself() {
    let mut sim = node(scratch(&[], 0));
    sim.event(line("lustre-mgs-lost", "MGC10.2.0.40@o2ib"));
    sim.pass(1800);
    let lost = "the connection to a Lustre management server was lost";
    assert_eq!(sim.incidents(), [format!("{lost} open")]);
    sim.pass(2400);
    assert_eq!(sim.incidents(), [format!("{lost} cleared")]);
}

/// The client deactivates the target, whose name no series then has. The line of its return is limited over all targets, and a new mount
/// logs none.
#[test]
fn a_client_that_a_server_refuses_is_found_until_it_is_connected_again() {
    for end in ["line", "active", "unmounted"] {
        let mut refused = scratch(&[], 0);
        refused.push((&TARGETS_STATE, vec!["scratch", "ost", "deactivated"], 1));
        let mut sim = node(refused);
        sim.event(line("lustre-denied", "scratch-OST0001"));
        sim.pass(24 * 3600);
        let denied = "a Lustre server refused this client";
        assert_eq!(sim.incidents(), [format!("{denied} open")], "{end}");
        match end {
            "line" => sim.event(line("lustre-restored", "scratch-OST0001")),
            "active" => show(&mut sim, scratch(&[], 0)),
            _ => sim.host.lustre = vec![network(1)],
        }
        sim.pass(150);
        assert_eq!(sim.incidents(), [format!("{denied} cleared")], "{end}");
    }
}

#[test]
fn idle_connections_and_one_reading_of_connecting_are_healthy() {
    let mut sim = node(scratch(&[], 0));
    sim.pass(300);
    for _ in 0..20 {
        show(&mut sim, scratch(&[("scratch-OST0001", "CONNECTING", A)], 2));
        sim.pass(15);
        show(&mut sim, scratch(&[], 0));
        sim.pass(45);
    }
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
}

/// The states differ while the client tries one target after the other.
#[test]
fn a_fault_of_every_target_of_a_server_is_the_servers() {
    let both = [
        ("scratch-OST0000", "DISCONN", A),
        ("scratch-OST0001", "CONNECTING", A),
    ];
    let mut sim = node(scratch(&both, 2));
    sim.pass(150);
    assert_eq!(
        sim.incidents(),
        ["no connection to any of its targets of scratch open"]
    );
    assert_eq!(sim.engine.view().incidents[0].subject, format!("server {A}"));
    show(&mut sim, scratch(&[], 0));
    sim.pass(90);
    assert_eq!(
        sim.incidents(),
        ["no connection to any of its targets of scratch cleared"]
    );
}

/// The collector names 64 targets at most, and counts all.
#[test]
fn a_server_is_found_also_where_its_targets_are_too_many_to_be_named() {
    for named in [0, 1, 16] {
        let names: Vec<&'static str> = (0..named)
            .map(|n| &*format!("scratch-OST00{n:02}").leak())
            .collect();
        let down: Vec<_> = names.iter().map(|name| (*name, "DISCONN", B)).collect();
        let mut series = scratch(&down, 0);
        series.push((&SERVER_TARGETS, vec!["scratch", B], 25));
        series.push((&SERVER_FAULTY, vec!["scratch", B], 25));
        let mut sim = node(series);
        sim.pass(150);
        let view = sim.engine.view();
        let [incident] = view.incidents.as_slice() else {
            panic!("{named}: {:?}", sim.incidents());
        };
        assert_eq!(incident.subject, format!("server {B}"));
        let line = incident.findings[0].evidence.join("; ");
        assert!(
            line.contains(&format!("all 25 targets of scratch that {B} serves")),
            "{line}"
        );
    }
}

/// An outage has every place of the check: what fails beside it is found as soon as there is room.
#[test]
fn a_target_for_which_there_was_no_room_is_found_by_the_next_reading() {
    let names: Vec<&'static str> = (0..65).map(|n| &*format!("scratch-OST00{n:02}").leak()).collect();
    let mut down: Vec<_> = names.iter().map(|name| (*name, "DISCONN", "")).collect();
    let mut sim = node(scratch(&down, 0));
    sim.pass(600);
    let open = |sim: &Sim| {
        let view = sim.engine.view();
        let open = view.incidents.iter().filter(|i| i.closed.is_none());
        open.map(|i| i.subject.clone()).collect::<Vec<_>>()
    };
    assert_eq!(open(&sim).len(), 64);
    let (first, last) = (format!("server {}", names[0]), format!("server {}", names[64]));
    assert!(!open(&sim).contains(&last));
    let id = sim.engine.view().incidents[0].id.clone();
    down.remove(0);
    show(&mut sim, scratch(&down, 0));
    sim.order(OrderVerb::Clear, &id).unwrap();
    sim.pass(15);
    assert!(
        !open(&sim).contains(&first) && open(&sim).contains(&last),
        "{:?}",
        open(&sim)
    );
}

#[test]
fn a_fault_of_some_targets_of_a_server_is_theirs() {
    let three = [
        ("scratch-OST0000", "DISCONN", A),
        ("scratch-OST0001", "EVICTED", A),
        ("scratch-OST0002", "DISCONN", B),
    ];
    let mut sim = node(scratch(&three, 4));
    sim.pass(150);
    let view = sim.engine.view();
    let subjects: Vec<&str> = view.incidents.iter().map(|i| i.subject.as_str()).collect();
    let expected = ["scratch-OST0000", "scratch-OST0001", "scratch-OST0002"];
    assert_eq!(subjects, expected.map(|target| format!("server {target}")));
}

#[test]
fn a_target_that_cannot_be_read_any_more_is_neither_found_nor_cleared() {
    let unreadable = || {
        let mut series = scratch(&[], 0);
        series[1].2 = 4;
        series
    };
    let mut sim = node(unreadable());
    sim.pass(300);
    assert!(sim.incidents().is_empty());
    show(&mut sim, scratch(&[("scratch-OST0001", "DISCONN", A)], 2));
    sim.pass(150);
    show(&mut sim, unreadable());
    sim.pass(300);
    assert_eq!(sim.incidents(), ["no connection open"]);
}

#[test]
fn an_unmounted_filesystem_has_no_targets_and_an_unread_one_has() {
    let mut sim = node(scratch(&[("scratch-OST0001", "DISCONN", A)], 2));
    sim.pass(150);
    sim.host.lustre = Vec::new();
    sim.pass(300);
    assert_eq!(sim.incidents(), ["no connection open"], "nothing is read");
    sim.host.lustre = vec![network(1)];
    sim.pass(90);
    assert_eq!(sim.incidents(), ["no connection cleared"]);
}

/// The collector names 64 targets at most.
#[test]
fn a_target_that_may_be_among_those_that_are_not_named_is_not_cleared() {
    let mut sim = node(scratch(&[("scratch-OST0001", "DISCONN", A)], 2));
    sim.pass(150);
    let names: Vec<&'static str> = (100..164).map(|n| &*format!("scratch-OST0{n}").leak()).collect();
    let many: Vec<_> = names.iter().map(|name| (*name, "DISCONN", B)).collect();
    show(&mut sim, scratch(&many, 2));
    sim.pass(60);
    assert_eq!(sim.incidents(), ["no connection open"]);
}

fn evicted(times: u64) -> Vec<LustreSeries> {
    let mut series = scratch(&[], 0);
    series.retain(|(metric, ..)| metric.name != EVICTIONS.name);
    series.push((&EVICTIONS, vec!["scratch"], times));
    series
}

#[test]
fn an_eviction_is_found_and_ends_after_an_hour_without_another() {
    let mut sim = node(evicted(0));
    sim.pass(60);
    show(&mut sim, evicted(1));
    sim.pass(60);
    assert_eq!(sim.incidents(), ["client evicted open"]);
    assert_eq!(sim.engine.view().incidents[0].subject, "filesystem scratch");
    sim.pass(3000);
    assert_eq!(sim.incidents(), ["client evicted open"]);
    sim.pass(900);
    assert_eq!(sim.incidents(), ["client evicted cleared"]);
}

/// A history with that time of its last eviction. The collector's count begins at 0 again with each worker.
fn last_evicted(time: i64) -> Vec<LustreSeries> {
    let mut series = evicted(0);
    let time = u64::try_from(time).unwrap();
    series.push((&LAST_EVICTION, vec!["scratch"], time));
    series
}

#[test]
fn an_eviction_while_the_worker_is_restarted_is_found_by_its_time() {
    let mut sim = node(last_evicted(1_700_000_000));
    sim.pass(60);
    show(&mut sim, last_evicted(1_700_000_000));
    sim.pass(60);
    assert!(sim.incidents().is_empty(), "it was there before");
    let now = sim.now.wall;
    sim.host.lustre.clear();
    sim.pass(60);
    show(&mut sim, last_evicted(now + 20));
    sim.pass(60);
    assert_eq!(sim.incidents(), ["client evicted open"]);
}

/// As the client's own mark after an OST was switched on again: one worker leaves it out, the next cannot know.
#[test]
fn an_eviction_from_before_a_reading_without_it_is_no_news() {
    let mut sim = node(last_evicted(1_699_999_500));
    sim.pass(600);
    let while_it_was_read = sim.now.wall - 300;
    show(&mut sim, last_evicted(while_it_was_read));
    sim.pass(600);
    assert_eq!(sim.incidents(), [""; 0]);
    let now = sim.now.wall;
    show(&mut sim, last_evicted(now));
    sim.pass(60);
    assert_eq!(sim.incidents(), ["client evicted open"]);
}

#[test]
fn evictions_before_the_first_reading_and_a_restart_of_the_counter_are_no_news() {
    let mut sim = node(evicted(7));
    sim.pass(300);
    show(&mut sim, evicted(0));
    sim.pass(300);
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
}

#[test]
fn an_interface_that_is_down_is_found_and_one_that_is_removed_clears() {
    let mut sim = node(scratch(&[], 0));
    sim.host.lustre[1] = network(0);
    sim.pass(30);
    assert!(sim.incidents().is_empty());
    sim.pass(45);
    assert_eq!(sim.incidents(), ["LNet interface down open"]);
    assert_eq!(
        sim.engine.view().incidents[0].subject,
        "network_interface 10.3.0.77@o2ib1"
    );
    // The table cannot be read: nothing is known.
    sim.host.lustre[1] = vec![
        (&HEALTHY, vec![], 1),
        (&UNREADABLE, vec!["", "lnet_nis", "denied"], 1),
    ];
    sim.pass(300);
    assert_eq!(sim.incidents(), ["LNet interface down open"]);
    sim.host.lustre[1] = vec![(&HEALTHY, vec![], 1), (&NI_UP, vec!["10.2.0.77@o2ib"], 1)];
    sim.pass(90);
    assert_eq!(sim.incidents(), ["LNet interface down cleared"]);
}

/// `lustre_rmmod`: nothing of them can be bad any more.
#[test]
fn incidents_end_when_the_modules_are_unloaded() {
    let mut sim = node(scratch(&[("scratch-OST0001", "DISCONN", A)], 2));
    sim.host.lustre[1] = network(0);
    sim.pass(150);
    assert_eq!(sim.incidents().len(), 2, "{:?}", sim.incidents());
    let unread = |source: &'static str, reason: &'static str| (&UNREADABLE, vec!["", source, reason], 1);
    sim.host.lustre = vec![vec![
        unread("health_check", "denied"),
        unread("lnet_nis", "absent"),
    ]];
    sim.pass(300);
    assert!(sim.incidents().iter().all(|i| i.ends_with(" open")), "not read");
    sim.host.lustre = vec![vec![
        unread("health_check", "absent"),
        unread("lnet_nis", "absent"),
    ]];
    sim.pass(90);
    assert!(
        sim.incidents().iter().all(|i| i.ends_with(" cleared")),
        "{:?}",
        sim.incidents()
    );
}

/// More targets than can be read in time, or a lock of the client that its reader waits for.
#[test]
fn a_filesystem_that_is_listed_and_not_read_is_not_unmounted() {
    for late in [false, true] {
        let mut filesystem = scratch(&[("scratch-OST0001", "DISCONN", A)], 2);
        let mut sim = node(filesystem.clone());
        sim.pass(60);
        filesystem.retain(|(metric, ..)| *metric != &EVICTIONS);
        filesystem.push((&EVICTIONS, vec!["scratch"], 1));
        show(&mut sim, filesystem);
        sim.pass(150);
        let open = sim.incidents();
        assert_eq!(open.len(), 2, "{open:?}");
        // LNet is read.
        sim.host.lustre = vec![network(1)];
        let subject = Subject::new(SubjectKind::Filesystem, "scratch");
        let read = if late { Ok(Block::default()) } else { Err("io") };
        sim.host.others = vec![("lustre", subject, read)];
        sim.pass(1800);
        assert_eq!(sim.incidents(), open);
        sim.host.others.clear();
        sim.pass(90);
        assert!(
            sim.incidents().iter().all(|i| i.ends_with("cleared")),
            "{:?}",
            sim.incidents()
        );
    }
}
