//! Check `rdma-port-down` where ports, or facts about them, come and go.

use super::host::Port;
use super::ports_down::node;

const TOGETHER: &str = "most InfiniBand ports of mlx5_core down together";

/// Another device on the function of port 3, first by name, that was never in use.
fn neighbour() -> Port {
    let mut other = Port::new(3);
    other.device = "a_3".to_owned();
    other.down();
    other
}

#[test]
fn few_ports_that_can_be_seen_of_many_tell_nothing_yet() {
    let mut sim = node(8);
    for port in &mut sim.host.ports[..5] {
        port.late = true;
    }
    sim.host.ports[7].down();
    sim.pass(900);
    assert!(sim.incidents().is_empty());
    sim.restart();
    sim.pass(900);
    assert!(sim.incidents().is_empty(), "the group is remembered");
    for port in &mut sim.host.ports {
        port.late = false;
    }
    sim.pass(300);
    assert_eq!(sim.slurm.drains, 1, "it is the node's, and drains");
}

#[test]
fn most_ports_down_is_one_incident_whichever_of_them_can_be_seen() {
    let mut sim = node(8);
    for port in &mut sim.host.ports {
        port.down();
    }
    sim.pass(600);
    sim.host.ports.remove(0);
    sim.pass(900);
    assert_eq!(sim.incidents(), [format!("{TOGETHER} open")]);
    for port in &mut sim.host.ports[..4] {
        port.up();
    }
    sim.pass(900);
    assert_eq!(sim.incidents().last().unwrap(), &format!("{TOGETHER} cleared"));
}

#[test]
fn it_ends_in_a_group_that_has_shrunk() {
    let mut sim = node(4);
    for port in &mut sim.host.ports {
        port.down();
    }
    sim.pass(600);
    sim.host.ports.remove(0);
    sim.pass(900);
    assert_eq!(
        sim.incidents(),
        [format!("{TOGETHER} open")],
        "three down prove nothing"
    );
    for port in &mut sim.host.ports {
        port.up();
    }
    sim.pass(900);
    assert_eq!(sim.incidents(), [format!("{TOGETHER} cleared")]);
}

#[test]
fn it_does_not_end_because_the_ports_are_gone_and_others_are_up() {
    let mut sim = node(8);
    for port in &mut sim.host.ports {
        port.down();
    }
    sim.pass(600);
    sim.host.ports.drain(1..);
    sim.host.ports[0].up();
    sim.pass(3600);
    assert_eq!(sim.incidents(), [format!("{TOGETHER} open")]);
}

#[test]
fn a_port_keeps_its_finding_when_another_device_appears_beside_it() {
    let mut sim = node(8);
    sim.host.ports[3].down();
    sim.pass(300);
    sim.host.ports.push(neighbour());
    sim.pass(1800);
    assert_eq!(sim.incidents(), ["link down at 0000:13:00.0 open"]);
    sim.host.ports[3].up();
    sim.pass(720);
    assert_eq!(sim.incidents(), ["link down at 0000:13:00.0 cleared"]);
}

#[test]
fn a_device_beside_a_port_is_not_taken_for_it_when_it_is_seen_alone() {
    let mut sim = node(8);
    sim.host.ports.push(neighbour());
    sim.pass(60);
    let port = sim.host.ports.remove(3);
    sim.pass(900);
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
    sim.host.ports.push(port);
    sim.pass(60);
    sim.host.ports[8].down();
    sim.pass(300);
    assert_eq!(sim.engine.view().incidents[0].subject, "rdma_port mlx5_3/1");
}

#[test]
fn a_port_whose_link_layer_cannot_be_read_neither_begins_nor_ends() {
    let mut sim = node(8);
    sim.host.ports[3].down();
    sim.host.ports[3].layer = "";
    sim.pass(900);
    assert!(sim.incidents().is_empty());
    sim.host.ports[3].layer = "InfiniBand";
    sim.pass(300);
    assert_eq!(sim.slurm.drains, 1);
    sim.host.ports[3].up();
    sim.host.ports[3].layer = "";
    sim.pass(3600);
    assert!(sim.slurm.is_drained());
    sim.host.ports[3].layer = "InfiniBand";
    sim.pass(720);
    assert!(!sim.slurm.is_drained());
}
