//! Check `rdma-port-down`, and false alarms.

use collectors::rdma::metrics::REQ_TRANSPORT_RETRIES_EXCEEDED;

use super::host::Port;
use super::sim::*;
use crate::verdict::Health;
use crate::{Mode, OrderVerb};

/// A site that permits the check to drain.
fn drains() -> Sim {
    let mut config = config(Mode::Drain);
    config.checks.insert("rdma-port-down".to_owned(), Mode::Drain);
    Sim::with(config, None)
}

/// A node with this number of InfiniBand ports, long after boot, all seen in use.
pub(super) fn node(ports: usize) -> Sim {
    let mut sim = drains();
    sim.host.ports = (0..ports).map(Port::new).collect();
    sim.pass(2000);
    sim
}

fn first_finding(sim: &Sim) -> crate::view::FindingView {
    sim.engine.view().incidents[0].findings[0].clone()
}

#[test]
fn one_port_of_eight_is_the_nodes_and_drains_after_four_minutes() {
    let mut sim = node(8);
    sim.host.ports[3].down();
    sim.pass(240);
    assert_eq!(sim.slurm.drains, 0, "not for long enough");
    sim.pass(30);
    assert_eq!(sim.slurm.drains, 1);
    let id = sim.engine.view().incidents[0].id.clone();
    assert_eq!(
        sim.slurm.reason.clone().unwrap(),
        format!("nodewarden:rdma-port-down rdma_port mlx5_3/1 link down at 0000:13:00.0 act=inspect id={id}")
    );
    assert_eq!(
        first_finding(&sim).evidence,
        [concat!(
            "17 readings over 240 s: ",
            "rdma_port_state{device=\"mlx5_3\",port=\"1\"} 1, expected 4, 0.0 s old; ",
            "rdma_port_physical_state{device=\"mlx5_3\",port=\"1\"} 2, expected 5, 0.0 s old; ",
            "7 of 8 InfiniBand ports of mlx5_core up: fault of this node: cable, transceiver or adapter"
        )]
    );
    assert_eq!(sim.engine.view().verdict.health, Health::Unhealthy);
}

#[test]
fn it_comments_unless_the_site_lets_it_drain() {
    let mut sim = Sim::new(Mode::Drain);
    sim.host.ports = (0..8).map(Port::new).collect();
    sim.pass(2000);
    sim.host.ports[3].down();
    sim.pass(300);
    assert_eq!(sim.slurm.drains, 0);
    assert!(sim.slurm.comment.clone().unwrap().contains("rdma-port-down"));
    assert_eq!(sim.engine.view().verdict.health, Health::Healthy);
}

#[test]
fn what_is_only_shown_outlives_the_drain_and_does_not_hold_it() {
    let mut sim = node(8);
    for port in &mut sim.host.ports {
        port.set(&REQ_TRANSPORT_RETRIES_EXCEEDED, &[], 0.0);
    }
    sim.pass(60);
    sim.host.ports[3].down();
    sim.pass(300);
    sim.host.ports[3].add(&REQ_TRANSPORT_RETRIES_EXCEEDED, &[], 1.0);
    sim.pass(200);
    assert!(sim.slurm.is_drained());
    assert!(sim.says("a queue pair gave up at 0000:13:00.0", false));
    sim.host.ports[3].up();
    sim.pass(700);
    assert!(!sim.slurm.is_drained());
    assert!(sim.says("link down at 0000:13:00.0", true));
    // The remaining finding names it.
    assert_eq!(sim.incidents(), ["a queue pair gave up at 0000:13:00.0 open"]);
    sim.pass(3600);
    assert_eq!(sim.incidents(), ["link down at 0000:13:00.0 cleared"]);
}

#[test]
fn it_ends_after_ten_minutes_up() {
    let mut sim = node(8);
    sim.host.ports[3].down();
    sim.pass(300);
    sim.host.ports[3].up();
    sim.pass(590);
    assert!(sim.slurm.is_drained());
    sim.pass(45);
    assert!(!sim.slurm.is_drained());
    assert_eq!(sim.incidents(), ["link down at 0000:13:00.0 cleared"]);
}

#[test]
fn a_switch_that_restarts_never_drains_and_is_one_incident() {
    let mut sim = node(8);
    for port in &mut sim.host.ports {
        port.down();
    }
    sim.pass(3600);
    assert_eq!(sim.slurm.drains, 0);
    assert_eq!(
        sim.incidents(),
        ["most InfiniBand ports of mlx5_core down together open"]
    );
    let finding = first_finding(&sim);
    assert!(
        finding.evidence[0].contains("0 of 8 InfiniBand ports of mlx5_core up: shared"),
        "{finding:?}"
    );
    assert_eq!(sim.engine.view().verdict.health, Health::Healthy);
    assert!(sim.engine.view().would_drain.is_empty());
    // One port stays down: a fault of the node.
    for port in &mut sim.host.ports[1..] {
        port.up();
    }
    sim.pass(900);
    assert_eq!(
        sim.incidents(),
        [
            "link down at 0000:10:00.0 open",
            "most InfiniBand ports of mlx5_core down together cleared"
        ]
    );
    assert_eq!(sim.slurm.drains, 1);
}

#[test]
fn a_subnet_manager_that_is_gone_is_shared_too() {
    let mut sim = node(8);
    for port in &mut sim.host.ports {
        port.state = Some(2);
    }
    sim.pass(600);
    assert_eq!(sim.slurm.drains, 0);
    for port in &mut sim.host.ports[1..] {
        port.up();
    }
    sim.pass(600);
    assert!(
        sim.incidents()
            .contains(&"not active at 0000:10:00.0 open".to_owned())
    );
}

#[test]
fn fewer_than_four_ports_tell_nothing_about_whose_fault_it_is() {
    for ports in 1..4 {
        let mut sim = node(ports);
        sim.host.ports[0].down();
        sim.pass(900);
        assert_eq!(sim.incidents(), ["link down at 0000:10:00.0 open"], "{ports}");
        assert_eq!(sim.slurm.drains, 0);
        assert_eq!(sim.engine.view().verdict.health, Health::Healthy);
        assert!(first_finding(&sim).evidence[0].contains("too few ports to attribute the fault"));
        let incident = &sim.engine.view().incidents[0];
        assert_eq!((incident.acts, incident.could), (true, Mode::Comment));
        let comment = sim.slurm.comment.clone().unwrap_or_default();
        assert!(comment.contains("link down at 0000:10:00.0"), "{comment}");
        sim.host.ports[0].up();
        sim.pass(700);
        assert_eq!(sim.incidents(), ["link down at 0000:10:00.0 cleared"]);
    }
}

/// A node with these ports, whose adapters are on the PCI bus.
fn on_the_bus(ports: impl Iterator<Item = usize>) -> Sim {
    let mut sim = drains();
    set_ports(&mut sim, ports);
    sim.pass(2000);
    sim
}

fn set_ports(sim: &mut Sim, ports: impl Iterator<Item = usize>) {
    sim.host.ports = ports.map(Port::new).collect();
    let on_bus = |port: &Port| (port.pci.clone(), "mlx5_core", Some(true));
    sim.host.networks = sim.host.ports.iter().map(on_bus).collect();
}

/// The firmware numbers the buses again, or a card is taken out.
#[test]
fn a_port_that_this_boot_has_not_seen_is_no_peer() {
    for (before, after) in [(0..2, 8..10), (0..3, 1..4), (0..4, 0..3)] {
        let mut sim = on_the_bus(before.clone());
        set_ports(&mut sim, after.clone());
        sim.reboot();
        sim.pass(2000);
        sim.host.ports[0].down();
        sim.pass(600);
        let address = sim.host.ports[0].pci.clone();
        let case = format!("{before:?} {after:?}");
        assert_eq!(
            sim.incidents(),
            [format!("link down at {address} open")],
            "{case}"
        );
        assert!(first_finding(&sim).evidence[0].contains("too few ports to attribute the fault"));
        assert_eq!(sim.slurm.drains, 0, "{case}");
    }
}

#[test]
fn a_port_that_was_there_in_this_boot_is_a_peer_also_after_a_restart() {
    let mut sim = on_the_bus(0..8);
    set_ports(&mut sim, 0..3);
    sim.restart();
    sim.pass(2000);
    sim.host.ports[0].down();
    sim.pass(600);
    let is_down = |i: &String| i.starts_with("link down");
    assert!(!sim.incidents().iter().any(is_down), "{:?}", sim.incidents());
}

#[test]
fn storage_ports_are_no_peers_of_the_fabric() {
    let mut sim = drains();
    sim.host.ports = (0..6).map(Port::new).collect();
    for port in &mut sim.host.ports[4..] {
        port.layer = "Ethernet";
    }
    sim.pass(2000);
    for port in &mut sim.host.ports[..4] {
        port.down();
    }
    sim.pass(600);
    assert_eq!(sim.slurm.drains, 0, "all four of the fabric");
    sim.host.ports[4].down();
    sim.pass(600);
    assert_eq!(sim.slurm.drains, 0, "one of two");
    assert_eq!(sim.incidents().len(), 2);
}

#[test]
fn links_train_for_minutes_after_boot() {
    let mut sim = node(8);
    sim.reboot();
    sim.host.ports[3].down();
    sim.pass(565);
    sim.host.ports[3].up();
    sim.pass(3600);
    assert!(sim.incidents().is_empty());
    // A port that stays down is found 240 s after the grace time.
    sim.reboot();
    sim.host.ports[3].down();
    sim.pass(570 + 225);
    assert!(sim.incidents().is_empty());
    sim.pass(60);
    assert_eq!(sim.slurm.drains, 1, "it was in use before the reboot");
}

#[test]
fn a_restart_restarts_the_count() {
    let mut sim = node(8);
    sim.host.ports[3].down();
    sim.pass(200);
    sim.restart();
    sim.pass(285);
    assert_eq!(sim.slurm.drains, 0);
    sim.pass(45);
    assert_eq!(sim.slurm.drains, 1);
    sim.restart();
    sim.pass(900);
    assert_eq!((sim.slurm.drains, sim.slurm.undrains), (1, 0));
    assert_eq!(sim.incidents(), ["link down at 0000:13:00.0 open"]);
}

#[test]
fn a_port_that_was_never_in_use_is_no_finding() {
    let mut sim = drains();
    sim.host.ports = (0..8).map(Port::new).collect();
    sim.host.ports[7].down();
    sim.pass(7200);
    assert!(sim.incidents().is_empty());
    sim.host.ports[7].up();
    sim.pass(60);
    sim.host.ports[7].down();
    sim.pass(300);
    assert_eq!(sim.slurm.drains, 1, "now it was");
}

/// An InfiniBand port without a cable or a module says "disabled" too.
#[test]
fn a_disabled_port_that_was_in_use_is_found_and_never_drains() {
    let mut sim = node(8);
    (sim.host.ports[3].state, sim.host.ports[3].physical) = (Some(1), Some(3));
    sim.pass(3600);
    assert_eq!(
        sim.incidents(),
        ["disabled or not connected at 0000:13:00.0 open"]
    );
    assert_eq!((sim.slurm.drains, sim.slurm.comment.is_some()), (0, true));
    sim.host.ports[3].up();
    sim.pass(900);
    assert_eq!(
        sim.incidents(),
        ["disabled or not connected at 0000:13:00.0 cleared"]
    );
    // A cable that has no link after it: the same port is down by now.
    (sim.host.ports[3].state, sim.host.ports[3].physical) = (Some(1), Some(3));
    sim.pass(3600);
    sim.host.ports[3].down();
    sim.pass(600);
    assert_eq!(sim.slurm.drains, 1, "{:?}", sim.incidents());
    // All at once is no fault of each.
    let mut sim = node(8);
    for port in &mut sim.host.ports {
        (port.state, port.physical) = (Some(1), Some(3));
    }
    sim.pass(3600);
    assert!(sim.incidents().is_empty());
    // It is not a peer: three others are too few.
    let mut sim = node(4);
    (sim.host.ports[3].state, sim.host.ports[3].physical) = (Some(1), Some(3));
    sim.pass(60);
    sim.host.ports[0].down();
    sim.pass(600);
    assert_eq!(sim.slurm.drains, 0);
    // Disabled while it is down: not a repair.
    let mut sim = node(8);
    sim.host.ports[3].down();
    sim.pass(300);
    sim.host.ports[3].physical = Some(3);
    sim.pass(3600);
    assert_eq!(sim.incidents(), ["link down at 0000:13:00.0 open"]);
}

#[test]
fn an_ethernet_port_without_a_carrier_says_disabled() {
    let mut sim = drains();
    sim.host.ports = (0..8).map(Port::new).collect();
    for port in &mut sim.host.ports {
        port.layer = "Ethernet";
    }
    sim.pass(2000);
    (sim.host.ports[3].state, sim.host.ports[3].physical) = (Some(1), Some(3));
    sim.pass(300);
    assert_eq!(sim.slurm.drains, 1);
}

#[test]
fn virtual_functions_are_no_finding_and_no_peers() {
    let mut sim = drains();
    sim.host.ports = (0..8).map(Port::new).collect();
    for port in &mut sim.host.ports[1..] {
        port.function = "virtual";
    }
    sim.pass(2000);
    for port in &mut sim.host.ports {
        port.down();
    }
    sim.pass(900);
    assert_eq!(sim.incidents(), ["link down at 0000:10:00.0 open"]);
    assert_eq!(sim.slurm.drains, 0);
}

#[test]
fn a_driver_reload_is_no_finding() {
    let mut sim = node(8);
    let ports = std::mem::take(&mut sim.host.ports);
    sim.pass(60);
    sim.host.ports = ports;
    for port in &mut sim.host.ports {
        port.down();
    }
    sim.pass(120);
    for port in &mut sim.host.ports {
        port.up();
    }
    sim.pass(900);
    assert!(sim.incidents().is_empty());
}

#[test]
fn what_is_late_or_gone_neither_begins_nor_ends() {
    let mut sim = node(8);
    sim.host.ports[3].down();
    for _ in 0..10 {
        sim.host.ports[3].late = false;
        sim.pass(150);
        sim.host.ports[3].late = true;
        sim.pass(30);
    }
    assert!(sim.incidents().is_empty(), "never down for 240 s");
    sim.host.ports[3].late = false;
    sim.pass(300);
    assert_eq!(sim.slurm.drains, 1);
    sim.host.ports[3].up();
    sim.host.ports[3].late = true;
    sim.pass(3600);
    assert!(sim.slurm.is_drained());
    let gone = sim.host.ports.remove(3);
    sim.pass(3600);
    assert!(sim.slurm.is_drained(), "a missing port is not healthy");
    sim.host.ports.push(gone);
    sim.host.ports[7].late = false;
    sim.pass(700);
    assert!(!sim.slurm.is_drained());
}

#[test]
fn a_port_under_another_name_ends_its_own_finding() {
    let mut sim = node(8);
    sim.host.ports[3].down();
    sim.pass(300);
    // Names swapped: the healthy port now has the name of the faulty one.
    sim.host.ports[3].device = "mlx5_4".to_owned();
    sim.host.ports[4].device = "mlx5_3".to_owned();
    sim.pass(3600);
    assert_eq!(sim.incidents(), ["link down at 0000:13:00.0 open"]);
    sim.restart();
    sim.host.ports[3].up();
    sim.pass(720);
    assert_eq!(sim.incidents(), ["link down at 0000:13:00.0 cleared"]);
}

#[test]
fn devices_that_share_an_address_are_distinguished() {
    let mut sim = drains();
    sim.host.ports = (0..8).map(Port::new).collect();
    for port in &mut sim.host.ports {
        port.pci = "0000:10:00.0".to_owned();
    }
    sim.pass(2000);
    sim.host.ports[3].down();
    sim.pass(300);
    let view = sim.engine.view();
    assert_eq!(view.incidents.len(), 1);
    assert_eq!(view.incidents[0].subject, "rdma_port mlx5_3/1");
}

#[test]
fn a_person_who_lifts_the_drain_is_obeyed_until_the_port_was_up_again() {
    let mut sim = node(8);
    sim.host.ports[3].down();
    sim.pass(300);
    sim.admin_insists();
    sim.pass(3600);
    assert_eq!((sim.slurm.drains, sim.drain_state().as_str()), (2, "overridden"));
    sim.host.ports[3].up();
    sim.pass(700);
    sim.host.ports[3].down();
    sim.pass(300);
    assert_eq!(sim.slurm.drains, 3);
}

#[test]
fn a_port_that_a_person_cleared_stays_quiet() {
    let mut sim = node(8);
    sim.host.ports[3].down();
    sim.pass(300);
    let id = sim.engine.view().incidents[0].id.clone();
    sim.order(OrderVerb::Clear, &id).unwrap();
    sim.pass(7200);
    assert_eq!(sim.slurm.drains, 1);
    assert!(!sim.slurm.is_drained());
}

#[test]
fn an_observing_check_makes_no_node_unhealthy() {
    let set = |check: &str, mode: Mode, baseline: Option<&str>| {
        let mut config = config(Mode::Drain);
        let checks = &mut config.checks;
        checks.insert("rdma-port-down".to_owned(), Mode::Drain);
        checks.insert(check.to_owned(), mode);
        config.baseline = baseline.map(str::to_owned);
        let mut sim = Sim::with(config, None);
        sim.host.ports = (0..8).map(Port::new).collect();
        sim.pass(2000);
        sim.host.ports[3].down();
        sim.pass(300);
        assert_eq!(sim.incidents(), ["link down at 0000:13:00.0 open"]);
        (sim.slurm.drains, sim.engine.view().verdict.health)
    };
    let id = "rdma-port-down";
    assert_eq!(set(id, Mode::Observe, None), (0, Health::Healthy));
    assert_eq!(set(id, Mode::Comment, None), (0, Health::Healthy));
    assert_eq!(set(id, Mode::Drain, Some("0.0.9")), (0, Health::Healthy));
    assert_eq!(set(id, Mode::Drain, None), (1, Health::Unhealthy));
    assert_eq!(set("xid", Mode::Observe, None), (1, Health::Unhealthy));
}
