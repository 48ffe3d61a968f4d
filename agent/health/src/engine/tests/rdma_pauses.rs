//! Checks `rdma-pfc-storm`, `rdma-lossless-loss` and `rdma-pause-without-cnp`.

use collectors::ethernet::metrics::{
    CALL_SECONDS, PAUSE_RX_FRAMES, PAUSE_RX_SECONDS, PAUSE_STORM_EVENTS, PAUSE_TX_FRAMES, PAUSE_TX_SECONDS,
    PFC_ENABLED, PFC_RX_FRAMES, PFC_RX_PAUSE, PFC_TX_PAUSE, PRIORITY_DISCARDS, UNREADABLE,
};
use collectors::rdma::metrics::{NP_CNP_SENT, ROCE_SLOW_RESTART_CNPS, RP_CNP_HANDLED};

use super::host::Port;
use super::sim::*;
use crate::Mode;

const HOUR: u64 = 3600;

fn with(config: crate::Settings) -> Sim {
    let mut sim = Sim::with(config, None);
    sim.host.ports = (0..8).map(Port::new).collect();
    for port in &mut sim.host.ports {
        port.layer = "Ethernet";
        port.set(&PFC_ENABLED, &["3"], 1.0);
        port.set(&PFC_ENABLED, &["0"], 0.0);
        port.set(&PFC_TX_PAUSE, &["3"], 5.5);
        port.set(&PFC_RX_PAUSE, &["3"], 5.5);
        port.set(&PAUSE_STORM_EVENTS, &["error"], 0.0);
        port.set(&PRIORITY_DISCARDS, &["3", "discard"], 9.0);
        port.set(&PRIORITY_DISCARDS, &["0", "discard"], 9.0);
    }
    sim.pass(1000);
    sim
}

fn node() -> Sim {
    with(config(Mode::Drain))
}

/// Minutes in which these ports pause their switch for this share of the time.
fn pause(sim: &mut Sim, minutes: u64, ports: &[usize], share: f64) {
    for _ in 0..minutes * 4 {
        for port in ports {
            sim.host.ports[*port].add(&PFC_TX_PAUSE, &["3"], 15.0 * share);
        }
        sim.pass(15);
    }
}

#[test]
fn one_in_ten_is_shown_and_most_of_the_time_is_more() {
    let mut sim = node();
    pause(&mut sim, 3, &[3], 0.04);
    assert!(sim.incidents().is_empty());
    pause(&mut sim, 3, &[3], 0.1);
    assert_eq!(sim.incidents(), ["pauses its switch at 0000:13:00.0 open"]);
    assert_eq!(sim.slurm.comment, None);
    pause(&mut sim, 3, &[3], 0.9);
    assert!(sim.slurm.comment.clone().unwrap().contains("rdma-pfc-storm"));
    assert_eq!(sim.slurm.drains, 0);
    sim.pass(900);
    assert!(
        sim.incidents().iter().all(|i| i.ends_with("cleared")),
        "{:?}",
        sim.incidents()
    );
}

#[test]
fn a_storm_that_the_adapter_counts_is_one_for_ten_minutes() {
    let mut sim = node();
    sim.host.ports[3].add(&PAUSE_STORM_EVENTS, &["error"], 1.0);
    sim.pass(60);
    assert_eq!(sim.incidents(), ["pause storm at 0000:13:00.0 open"]);
    sim.pass(500);
    assert_eq!(sim.incidents(), ["pause storm at 0000:13:00.0 open"]);
    sim.pass(700);
    assert_eq!(sim.incidents(), ["pause storm at 0000:13:00.0 cleared"]);
}

#[test]
fn received_pauses_are_the_fabrics_and_no_finding() {
    let mut sim = node();
    for _ in 0..40 {
        sim.host.ports[3].add(&PFC_RX_PAUSE, &["3"], 14.0);
        sim.pass(15);
    }
    assert!(sim.incidents().is_empty());
}

#[test]
fn all_ports_pausing_is_the_host_and_not_one_port() {
    let mut sim = node();
    pause(&mut sim, 4, &[0, 1, 2, 3, 4, 5, 6, 7], 0.3);
    assert_eq!(
        sim.incidents(),
        ["pauses of most Ethernet ports of mlx5_core together open"]
    );
    assert_eq!(sim.slurm.drains, 0);
}

#[test]
fn repeated_readings_and_a_driver_reload_are_no_storm() {
    let mut sim = node();
    sim.host.ports[3].set(&PFC_TX_PAUSE, &["3"], 0.0);
    sim.pass(600);
    sim.host.ports[4].series.clear();
    sim.pass(600);
    sim.host.ports[4].set(&PFC_TX_PAUSE, &["3"], 4000.0);
    sim.host.ports[4].set(&PAUSE_STORM_EVENTS, &["error"], 7.0);
    sim.pass(600);
    assert!(sim.incidents().is_empty());
}

#[test]
fn an_unreadable_counter_ends_nothing() {
    let mut sim = node();
    pause(&mut sim, 3, &[3], 0.9);
    let before = sim.incidents();
    assert!(!before.is_empty());
    sim.host.ports[3].series.clear();
    sim.pass(HOUR);
    assert_eq!(sim.incidents(), before);
}

/// The series of a port whose pause an administrator turned off: mlx5 counts pauses only while they are on.
fn without_pause(sim: &mut Sim, port: usize) {
    let port = &mut sim.host.ports[port];
    port.series.clear();
    for priority in ["0", "3"] {
        port.set(&PFC_ENABLED, &[priority], 0.0);
    }
    port.set(&CALL_SECONDS, &["dcb"], 0.01);
    port.set(&CALL_SECONDS, &["statistics"], 0.01);
}

#[test]
fn turning_pause_off_ends_a_finding() {
    let mut sim = node();
    pause(&mut sim, 3, &[3], 0.9);
    let open = sim.incidents();
    assert!(!open.is_empty());
    without_pause(&mut sim, 3);
    // A priority that still has flow control.
    sim.host.ports[3].set(&PFC_ENABLED, &["3"], 1.0);
    sim.pass(HOUR);
    assert_eq!(sim.incidents(), open);
    for why in [["statistics", "io"], ["dcb", "resting"]] {
        (0..8).for_each(|port| without_pause(&mut sim, port));
        sim.host.ports[3].set(&UNREADABLE, &why, 1.0);
        sim.pass(HOUR);
        assert_eq!(sim.incidents(), open, "{why:?}");
    }
    without_pause(&mut sim, 3);
    sim.pass(400);
    assert!(
        sim.incidents().iter().all(|i| i.ends_with("cleared")),
        "{:?}",
        sim.incidents()
    );
}

#[test]
fn turning_pause_off_on_every_port_ends_the_finding_about_most() {
    let mut sim = node();
    pause(&mut sim, 4, &[0, 1, 2, 3, 4, 5, 6, 7], 0.3);
    (0..8).for_each(|port| without_pause(&mut sim, port));
    sim.pass(400);
    assert_eq!(
        sim.incidents(),
        ["pauses of most Ethernet ports of mlx5_core together cleared"]
    );
}

#[test]
fn ports_that_never_had_pfc_say_nothing_about_those_that_have_it() {
    let mut sim = node();
    (4..8).for_each(|port| without_pause(&mut sim, port));
    pause(&mut sim, 4, &[0, 1, 2, 3], 0.3);
    let open = sim.incidents();
    assert!(!open.is_empty());
    pause(&mut sim, 30, &[0, 1, 2, 3], 0.3);
    assert_eq!(sim.incidents(), open);
}

/// 802.3x: the whole link is paused, and no priority has flow control.
mod of_the_link {
    use super::*;

    fn node() -> Sim {
        let mut sim = Sim::with(config(Mode::Drain), None);
        sim.host.ports = (0..8).map(Port::new).collect();
        for port in &mut sim.host.ports {
            port.layer = "Ethernet";
            for priority in ["0", "3"] {
                port.set(&PFC_ENABLED, &[priority], 0.0);
            }
            // What it paused before nodewarden started.
            port.set(&PAUSE_TX_SECONDS, &[], 90_000.0);
            port.set(&PAUSE_RX_SECONDS, &[], 90_000.0);
            port.set(&PAUSE_TX_FRAMES, &[], 1e9);
            port.set(&PAUSE_RX_FRAMES, &[], 1e9);
            port.set(&PRIORITY_DISCARDS, &["3", "discard"], 9.0);
        }
        sim
    }

    #[test]
    fn a_port_with_it_that_pauses_nothing_is_no_finding_and_neither_is_its_first_reading() {
        let mut sim = node();
        sim.pass(1500);
        assert!(sim.incidents().is_empty());
    }

    #[test]
    fn it_is_a_storm_like_that_of_a_priority() {
        let mut sim = node();
        sim.pass(900);
        for (share, found) in [
            (0.04, vec![]),
            (0.1, vec!["pauses its switch at 0000:13:00.0 open"]),
            (0.9, vec!["keeps its switch paused at 0000:13:00.0 open"]),
        ] {
            for _ in 0..16 {
                sim.host.ports[3].add(&PAUSE_TX_SECONDS, &[], 15.0 * share);
                sim.pass(15);
            }
            assert_eq!(sim.incidents(), found, "{share}");
        }
        let evidence = sim.engine.view().incidents[0].findings[0].evidence[0].clone();
        assert!(
            evidence.contains("rdma_pause_tx_seconds_total{device=\"mlx5_3\""),
            "{evidence}"
        );
    }

    #[test]
    fn received_pauses_and_lost_packets_are_no_finding() {
        let mut sim = node();
        sim.pass(900);
        for _ in 0..40 {
            sim.host.ports[3].add(&PAUSE_RX_SECONDS, &[], 14.0);
            sim.host.ports[3].add(&PAUSE_TX_FRAMES, &[], 100.0);
            sim.host.ports[3].add(&PRIORITY_DISCARDS, &["3", "discard"], 100.0);
            sim.pass(15);
        }
        assert!(sim.incidents().is_empty());
    }

    /// The counters of a member that joins a bond are not those of the one that left.
    #[test]
    fn each_member_of_a_bond_is_judged_by_its_own_counter() {
        let mut sim = node();
        sim.host.ports[3].series.clear();
        for (member, before) in [("eth0", 10.0), ("eth1", 70_000.0)] {
            sim.host.ports[3].set(&PAUSE_TX_SECONDS, &[member], before);
        }
        sim.pass(900);
        let all = std::mem::take(&mut sim.host.ports[3].series);
        for member in ["eth0", "eth1", "eth0"] {
            sim.host.ports[3].series.clone_from(&all);
            sim.host.ports[3]
                .series
                .retain(|(_, labels, _)| labels == &[member]);
            sim.pass(180);
        }
        sim.host.ports[3].series = all;
        sim.pass(180);
        assert!(sim.incidents().is_empty());
        for _ in 0..12 {
            sim.host.ports[3].add(&PAUSE_TX_SECONDS, &["eth1"], 12.0);
            sim.pass(15);
        }
        assert_eq!(sim.incidents(), ["keeps its switch paused at 0000:13:00.0 open"]);
    }
}

mod loss {
    use super::*;

    const LOSS: &str = "loss on a lossless priority at 0000:13:00.0";

    #[test]
    fn one_packet_of_a_priority_with_flow_control_is_a_finding() {
        let mut sim = node();
        sim.host.ports[3].add(&PRIORITY_DISCARDS, &["3", "discard"], 1.0);
        sim.pass(165);
        assert_eq!(sim.incidents(), [format!("{LOSS} open")]);
        assert!(sim.slurm.comment.clone().unwrap().contains("rdma-lossless-loss"));
        sim.pass(HOUR + 200);
        assert_eq!(sim.incidents(), [format!("{LOSS} cleared")]);
    }

    #[test]
    fn a_priority_without_it_or_of_which_that_is_not_known_may_lose() {
        let mut sim = node();
        sim.host.ports[4].set(&PRIORITY_DISCARDS, &["5", "buffer"], 9.0);
        sim.pass(60);
        for _ in 0..5 {
            sim.host.ports[3].add(&PRIORITY_DISCARDS, &["0", "discard"], 1e6);
            sim.host.ports[4].add(&PRIORITY_DISCARDS, &["5", "buffer"], 1e6);
            sim.pass(60);
        }
        assert!(sim.incidents().is_empty());
    }

    #[test]
    fn a_member_of_a_bond_without_it_may_lose_though_the_other_has_it() {
        let mut sim = node();
        sim.host.ports[3].series.clear();
        for (member, on) in [("eth0", 1.0), ("eth1", 0.0)] {
            sim.host.ports[3].set(&PFC_ENABLED, &["3", member], on);
            sim.host.ports[3].set(&PRIORITY_DISCARDS, &["3", "discard", member], 9.0);
        }
        sim.pass(120);
        for (member, found) in [("eth1", 0), ("eth0", 1)] {
            let labels = ["3", "discard", member];
            sim.host.ports[3].add(&PRIORITY_DISCARDS, &labels, 1.0);
            sim.pass(165);
            let lost = sim.incidents();
            let lost = lost.iter().filter(|i| i.starts_with(LOSS)).count();
            assert_eq!(lost, found, "{member}");
        }
    }

    #[test]
    fn all_at_once_are_the_fabrics() {
        let mut sim = node();
        for port in &mut sim.host.ports {
            port.add(&PRIORITY_DISCARDS, &["3", "discard"], 50.0);
        }
        sim.pass(180);
        assert_eq!(
            sim.incidents(),
            ["loss on a lossless priority of most Ethernet ports of mlx5_core together open"]
        );
        assert_eq!(sim.slurm.comment, None);
    }
}

mod without_notifications {
    use super::*;

    /// 10 min of pauses, with this number of notifications.
    fn run(sim: &mut Sim, notifications: f64) {
        for _ in 0..48 {
            sim.host.ports[3].add(&NP_CNP_SENT, &[], notifications);
            sim.host.ports[3].add(&RP_CNP_HANDLED, &[], 0.0);
            run_once(sim);
        }
    }

    fn run_once(sim: &mut Sim) {
        sim.host.ports[3].add(&PFC_RX_FRAMES, &["3"], 100.0);
        sim.pass(15);
    }

    fn asked() -> Sim {
        let mut config = config(Mode::Drain);
        let check = "rdma-pause-without-cnp".to_owned();
        config.checks.insert(check, Mode::Observe);
        with(config)
    }

    #[test]
    fn it_is_looked_for_only_where_the_site_names_it() {
        let mut sim = node();
        run(&mut sim, 0.0);
        assert!(sim.incidents().is_empty());
        let mut sim = asked();
        run(&mut sim, 0.0);
        assert_eq!(
            sim.incidents(),
            ["pauses without congestion notifications at 0000:13:00.0 open"]
        );
        assert_eq!(sim.slurm.comment, None);
        sim.pass(1500);
        assert_eq!(
            sim.incidents(),
            ["pauses without congestion notifications at 0000:13:00.0 cleared"]
        );
    }

    #[test]
    fn it_ends_where_the_site_names_it_no_longer() {
        let mut sim = asked();
        run(&mut sim, 0.0);
        sim.config.checks.clear();
        sim.reload();
        sim.pass(200);
        assert_eq!(
            sim.incidents(),
            ["pauses without congestion notifications at 0000:13:00.0 cleared"]
        );
    }

    #[test]
    fn turning_flow_control_off_ends_it() {
        let mut sim = asked();
        run(&mut sim, 0.0);
        (0..8).for_each(|port| without_pause(&mut sim, port));
        sim.pass(700);
        assert_eq!(
            sim.incidents(),
            ["pauses without congestion notifications at 0000:13:00.0 cleared"]
        );
    }

    #[test]
    fn with_notifications_pauses_are_as_they_should_be() {
        let mut sim = asked();
        run(&mut sim, 1.0);
        assert!(sim.incidents().is_empty());
    }

    #[test]
    fn notifications_that_slow_restart_generates_are_none() {
        for (received, incidents) in [(0.0, 1), (1.0, 0)] {
            let mut sim = asked();
            for _ in 0..48 {
                sim.host.ports[3].add(&ROCE_SLOW_RESTART_CNPS, &[], 3.0);
                sim.host.ports[3].add(&RP_CNP_HANDLED, &[], 3.0 + received);
                run_once(&mut sim);
            }
            assert_eq!(sim.incidents().len(), incidents, "{received}");
        }
    }

    #[test]
    fn a_port_that_counts_no_notifications_is_unknown() {
        let mut sim = asked();
        for _ in 0..48 {
            sim.host.ports[3].add(&PFC_RX_FRAMES, &["3"], 1000.0);
            sim.pass(15);
        }
        assert!(sim.incidents().is_empty());
    }
}
