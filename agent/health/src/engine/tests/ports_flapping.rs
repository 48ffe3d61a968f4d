//! Check `rdma-port-flapping`, and false alarms.

use collectors::ethernet::metrics::{LAG_MEMBER_UP, PHY_LINK_DOWN};

use super::host::Port;
use super::ports_down::node;
use super::sim::*;
use crate::verdict::Health;
use crate::{Mode, OrderVerb};

const HOUR: u64 = 3600;
const FLAPS: &str = "link goes down again and again at 0000:13:00.0";

/// The link of port 3 goes down between two readings.
fn blink(sim: &mut Sim) {
    let count = &mut sim.host.ports[3].link_downed;
    *count = count.map(|c| c + 1);
    sim.pass(600);
}

#[test]
fn five_by_the_counter_within_a_day_are_a_finding_that_comments() {
    let mut sim = node(8);
    for _ in 0..4 {
        blink(&mut sim);
    }
    assert!(sim.incidents().is_empty());
    blink(&mut sim);
    assert_eq!(sim.incidents(), [format!("{FLAPS} open")]);
    assert_eq!(sim.slurm.drains, 0);
    assert!(sim.slurm.comment.clone().unwrap().contains("rdma-port-flapping"));
    assert_eq!(sim.engine.view().verdict.health, Health::Healthy);
    let evidence = sim.engine.view().incidents[0].findings[0].evidence[0].clone();
    assert!(
        evidence.starts_with(
            "rdma_link_downed_total{device=\"mlx5_3\",port=\"1\"} 5, expected to grow by fewer than 5 in 24 h, \
             grew by 5, 0.0 s old"
        ),
        "{evidence}"
    );
}

#[test]
fn a_site_may_let_it_drain() {
    let mut config = config(Mode::Drain);
    let check = "rdma-port-flapping".to_owned();
    config.checks.insert(check, Mode::Drain);
    let mut sim = Sim::with(config, None);
    sim.host.ports = (0..8).map(Port::new).collect();
    sim.pass(2000);
    for _ in 0..5 {
        blink(&mut sim);
    }
    assert_eq!(sim.slurm.drains, 1);
    assert_eq!(sim.engine.view().verdict.health, Health::Unhealthy);
}

/// The next ones are counted from 0, and are a new incident.
#[test]
fn two_lifts_end_the_incident_whose_count_they_reset() {
    let mut config = config(Mode::Drain);
    config.checks.insert("rdma-port-flapping".to_owned(), Mode::Drain);
    let mut sim = Sim::with(config, None);
    sim.host.ports = (0..8).map(Port::new).collect();
    sim.pass(2000);
    for _ in 0..5 {
        blink(&mut sim);
    }
    sim.admin_insists();
    assert_eq!(sim.incidents(), [format!("{FLAPS} cleared")]);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (2, "none"));
    for _ in 0..4 {
        blink(&mut sim);
    }
    assert_eq!(sim.slurm.drains, 2);
    blink(&mut sim);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (3, "drained"));
}

#[test]
fn three_seen_within_half_a_day_are_enough() {
    let mut sim = node(8);
    sim.host.ports[3].link_downed = None;
    for n in 1..=3 {
        sim.host.ports[3].down();
        sim.pass(30);
        sim.host.ports[3].up();
        sim.pass(600);
        assert_eq!(sim.incidents().len(), usize::from(n == 3), "{n}");
    }
}

/// They are read 30 s later than their port, which the kernel calls active all the time.
#[test]
fn a_bond_has_not_lost_its_link_while_its_members_are_not_read_yet() {
    let mut sim = node(8);
    sim.host.ports[3].set(&LAG_MEMBER_UP, &["eth0"], 0.0);
    sim.pass(600);
    for _ in 0..3 {
        let members = std::mem::take(&mut sim.host.ports[3].series);
        sim.restart();
        sim.pass(60);
        sim.host.ports[3].series = members;
        sim.pass(600);
    }
    assert!(sim.says("LAG member down at 0000:13:00.0", false));
    assert!(!sim.says(FLAPS, false));
}

#[test]
fn the_carrier_counts_where_there_is_no_link_downed() {
    let mut sim = node(8);
    for count in 0..=5 {
        (sim.host.ports[3].link_downed, sim.host.ports[3].carrier_down) = (None, Some(100 + count));
        sim.pass(600);
    }
    assert_eq!(sim.incidents(), [format!("{FLAPS} open")]);
}

/// As a tuning role or a CNI with XDP does: RDMA goes on.
#[test]
fn a_carrier_that_the_driver_takes_down_is_no_interruption_where_the_link_is_counted() {
    for is_counted in [true, false] {
        let mut sim = node(8);
        sim.host.ports[3].netdev = "eth0";
        for count in 0..=5 {
            let port = &mut sim.host.ports[3];
            (port.link_downed, port.carrier_down) = (None, Some(100 + count));
            if is_counted {
                port.add(&PHY_LINK_DOWN, &["eth0"], 0.0);
            }
            sim.pass(600);
        }
        assert_eq!(sim.incidents().is_empty(), is_counted);
        for _ in 0..5 {
            sim.host.ports[3].add(&PHY_LINK_DOWN, &["eth0"], 1.0);
            sim.pass(600);
        }
        assert_eq!(sim.incidents(), [format!("{FLAPS} open")]);
    }
}

#[test]
fn one_interruption_in_two_counters_is_one() {
    let mut sim = node(8);
    sim.host.ports[3].carrier_down = Some(0);
    sim.pass(60);
    for count in 1..=4 {
        sim.host.ports[3].carrier_down = Some(count);
        blink(&mut sim);
    }
    assert!(sim.incidents().is_empty());
}

#[test]
fn what_lies_a_day_back_does_not_count() {
    let mut sim = node(8);
    for _ in 0..6 {
        blink(&mut sim);
        sim.pass(6 * HOUR);
    }
    assert!(sim.incidents().is_empty());
}

#[test]
fn a_switch_that_restarts_again_and_again_is_not_the_node() {
    let mut sim = node(8);
    for _ in 0..6 {
        // The readings of one tick are before and after it.
        for n in 0..8 {
            sim.host.ports[n].link_downed = sim.host.ports[n].link_downed.map(|c| c + 1);
            sim.host.ports[n].down();
            if n == 3 {
                sim.pass(15);
            }
        }
        sim.pass(60);
        for port in &mut sim.host.ports {
            port.up();
        }
        sim.pass(600);
    }
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
}

#[test]
fn what_peers_shared_stays_shared_when_it_is_a_day_old() {
    let mut sim = node(8);
    for n in [0, 1, 2, 4, 5, 6, 7] {
        sim.host.ports[n].link_downed = Some(1);
    }
    sim.pass(90);
    sim.host.ports[3].link_downed = Some(1);
    sim.pass(22 * HOUR);
    for _ in 0..4 {
        blink(&mut sim);
    }
    sim.pass(2 * HOUR);
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
}

#[test]
fn alone_it_never_drains() {
    let mut config = config(Mode::Drain);
    let check = "rdma-port-flapping".to_owned();
    config.checks.insert(check, Mode::Drain);
    let mut sim = Sim::with(config, None);
    sim.host.ports = vec![Port::new(3)];
    sim.host.ports.insert(0, Port::new(0));
    sim.host.ports.swap(0, 1);
    sim.pass(2000);
    for count in 1..=5 {
        sim.host.ports[0].link_downed = Some(count);
        sim.pass(600);
    }
    assert_eq!(sim.incidents(), [format!("{FLAPS} open")]);
    assert_eq!(sim.slurm.drains, 0);
}

#[test]
fn the_first_half_hour_after_boot_does_not_count() {
    let mut sim = node(8);
    sim.reboot();
    for _ in 0..50 {
        let count = &mut sim.host.ports[3].link_downed;
        *count = count.map(|c| c + 1);
        sim.host.ports[3].down();
        sim.pass(15);
        sim.host.ports[3].up();
        sim.pass(15);
    }
    sim.pass(HOUR);
    assert!(sim.incidents().is_empty());
}

#[test]
fn a_counter_reset_restarts_the_count() {
    let mut sim = node(8);
    for count in [200, 0, 190, 0, 3, 0, 4, 0] {
        sim.host.ports[3].link_downed = Some(count);
        sim.restart();
        sim.pass(60);
    }
    assert!(
        sim.incidents().is_empty(),
        "growth before the first reading has no time"
    );
    for count in [10, 0] {
        sim.host.ports[3].link_downed = Some(count);
        sim.pass(7 * HOUR);
    }
    assert_eq!(
        sim.incidents(),
        [format!("{FLAPS} cleared")],
        "ten at once were enough"
    );
    sim.host.ports[3].link_downed = Some(9);
    sim.pass(600);
    assert_eq!(
        sim.incidents()[0],
        format!("{FLAPS} open"),
        "nine after the reset too"
    );
}

#[test]
fn a_restart_of_this_program_loses_nothing_that_was_counted() {
    let mut sim = node(8);
    for n in 1..=5 {
        assert!(sim.incidents().is_empty(), "{n}");
        blink(&mut sim);
        sim.restart();
        sim.pass(60);
    }
    assert_eq!(sim.incidents(), [format!("{FLAPS} open")]);
    sim.restart();
    sim.pass(60);
    assert_eq!(sim.incidents(), [format!("{FLAPS} open")]);
}

#[test]
fn it_ends_after_six_quiet_hours_that_were_watched() {
    let mut sim = node(8);
    for _ in 0..5 {
        blink(&mut sim);
    }
    sim.pass(4 * HOUR);
    sim.restart();
    sim.pass(3 * HOUR);
    assert_eq!(sim.incidents(), [format!("{FLAPS} open")], "three were watched");
    sim.pass(3 * HOUR + 60);
    assert_eq!(sim.incidents(), [format!("{FLAPS} cleared")]);
    sim.pass(HOUR);
    assert_eq!(sim.incidents().len(), 1, "the same five make no other");
}

#[test]
fn a_counter_that_is_full_proves_no_quiet_and_seen_falls_still_count() {
    let mut sim = node(8);
    sim.host.ports[3].link_downed = Some(255);
    sim.restart();
    sim.pass(600);
    for _ in 0..3 {
        sim.host.ports[3].down();
        sim.pass(30);
        sim.host.ports[3].up();
        sim.pass(600);
    }
    assert_eq!(sim.incidents(), [format!("{FLAPS} open")]);
    sim.pass(13 * HOUR);
    assert_eq!(sim.incidents(), [format!("{FLAPS} open")]);
    sim.host.ports[3].link_downed = Some(0);
    sim.pass(120);
    assert_eq!(sim.incidents(), [format!("{FLAPS} cleared")]);
}

#[test]
fn a_person_who_clears_it_hears_again_only_of_new_ones() {
    let mut sim = node(8);
    for _ in 0..5 {
        blink(&mut sim);
    }
    let id = sim.engine.view().incidents[0].id.clone();
    sim.order(OrderVerb::Clear, &id).unwrap();
    for _ in 0..4 {
        blink(&mut sim);
    }
    assert_eq!(sim.incidents(), [format!("{FLAPS} cleared")]);
    blink(&mut sim);
    assert_eq!(sim.incidents()[0], format!("{FLAPS} open"));
}

#[test]
fn a_driver_reload_is_no_interruption() {
    let mut sim = node(8);
    for _ in 0..10 {
        let ports = std::mem::take(&mut sim.host.ports);
        sim.pass(30);
        sim.host.ports = ports;
        sim.host.ports[3].link_downed = Some(0);
        sim.host.ports[3].down();
        sim.pass(30);
        sim.host.ports[3].up();
        sim.pass(300);
    }
    assert!(sim.incidents().is_empty());
}
