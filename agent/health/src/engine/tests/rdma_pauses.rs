//! Checks `rdma-pfc-storm`, `rdma-lossless-loss` and `rdma-pause-without-cnp`.

use collectors::ethernet::metrics::{
    PAUSE_STORM_EVENTS, PFC_ENABLED, PFC_RX_FRAMES, PFC_RX_PAUSE, PFC_TX_PAUSE, PRIORITY_DISCARDS,
};
use collectors::rdma::metrics::{NP_CNP_SENT, RP_CNP_HANDLED};

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
            sim.host.ports[3].add(&PFC_RX_FRAMES, &["3"], 100.0);
            sim.host.ports[3].add(&NP_CNP_SENT, &[], notifications);
            sim.host.ports[3].add(&RP_CNP_HANDLED, &[], 0.0);
            sim.pass(15);
        }
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
    fn with_notifications_pauses_are_as_they_should_be() {
        let mut sim = asked();
        run(&mut sim, 1.0);
        assert!(sim.incidents().is_empty());
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
