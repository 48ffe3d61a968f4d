//! `health.rdma.ports`, `exclude` and `storage`: which ports are judged, and with which they are compared.

use collectors::rdma::Pattern;

use super::host::Port;
use super::sim::*;
use crate::Mode;
use crate::settings::Rdma;

fn patterns(of: &[&str]) -> Vec<Pattern> {
    of.iter()
        .map(|text| (*text).to_owned().try_into().unwrap())
        .collect()
}

/// Eight compute ports and four for storage, of one kind, long after boot.
fn node(rdma: Rdma) -> Sim {
    let mut config = config(Mode::Drain);
    for check in ["rdma-port-down", "rdma-port-flapping"] {
        config.checks.insert(check.to_owned(), Mode::Drain);
    }
    config.rdma = rdma;
    let mut sim = Sim::with(config, None);
    sim.host.ports = (0..12).map(Port::new).collect();
    sim.pass(2000);
    sim
}

fn storage() -> Rdma {
    Rdma {
        storage: patterns(&["mlx5_8", "mlx5_9", "mlx5_1?/1"]),
        ..Rdma::default()
    }
}

fn storage_down(sim: &mut Sim) {
    for port in &mut sim.host.ports[8..] {
        port.down();
    }
    sim.pass(400);
}

#[test]
fn work_on_the_leaf_of_the_storage_ports_blames_nobody() {
    let mut sim = node(Rdma::default());
    storage_down(&mut sim);
    assert_eq!(sim.slurm.drains, 1, "unnamed, they are ports like the others");

    let mut sim = node(storage());
    storage_down(&mut sim);
    assert_eq!(sim.slurm.drains, 0);
    let together = "most InfiniBand ports of mlx5_core (storage) down together";
    assert_eq!(sim.incidents(), [format!("{together} open")]);
    for port in &mut sim.host.ports[8..] {
        port.up();
    }
    sim.pass(900);
    assert_eq!(sim.incidents(), [format!("{together} cleared")]);
}

#[test]
fn a_storage_port_is_the_nodes_among_storage_ports_and_so_is_a_compute_port() {
    for (port, words) in [
        (3, "7 of 8 InfiniBand ports of mlx5_core up: fault of this node"),
        (
            9,
            "3 of 4 InfiniBand ports of mlx5_core (storage) up: fault of this node",
        ),
    ] {
        let mut sim = node(storage());
        sim.host.ports[port].down();
        sim.pass(300);
        assert_eq!(sim.slurm.drains, 1, "{port}");
        let view = sim.engine.view();
        assert!(
            view.incidents[0].findings[0].evidence[0].contains(words),
            "{:?}",
            view.incidents[0].findings[0].evidence
        );
    }
}

/// Each check of ports sees its fault on a port.
fn break_port(port: &mut Port) {
    port.down();
    port.link_downed = Some(50);
    port.error = Some("failed");
}

#[test]
fn an_excluded_port_is_judged_by_no_check() {
    let broken = |rdma: Rdma| {
        let mut sim = node(rdma);
        sim.pass(100);
        break_port(&mut sim.host.ports[3]);
        sim.pass(400);
        (sim.incidents().len(), sim.slurm.drains)
    };
    assert_eq!(
        broken(Rdma::default()),
        (2, 1),
        "the other one is that it cannot be read"
    );
    for rdma in [
        Rdma {
            exclude: patterns(&["mlx5_3"]),
            ..Rdma::default()
        },
        Rdma {
            ports: patterns(&["mlx5_0", "mlx5_4"]),
            ..Rdma::default()
        },
    ] {
        assert_eq!(broken(rdma), (0, 0));
    }
}

#[test]
fn what_was_found_on_a_port_clears_when_the_site_excludes_it() {
    let mut sim = node(Rdma::default());
    sim.host.ports[3].down();
    sim.pass(300);
    assert!(sim.slurm.is_drained());
    sim.config.rdma.exclude = patterns(&["mlx5_3"]);
    sim.reload();
    sim.pass(700);
    assert_eq!(sim.incidents(), ["link down at 0000:13:00.0 cleared"]);
    assert!(!sim.slurm.is_drained());
}

#[test]
fn what_was_found_on_most_ports_clears_when_the_site_excludes_all_of_them() {
    let mut sim = node(storage());
    storage_down(&mut sim);
    sim.config.rdma.exclude = sim.config.rdma.storage.clone();
    sim.reload();
    sim.pass(200);
    assert_eq!(
        sim.incidents(),
        ["most InfiniBand ports of mlx5_core (storage) down together cleared"]
    );
}

#[test]
fn ports_that_name_no_port_of_the_node_end_no_incident() {
    let mut sim = node(Rdma::default());
    sim.host.ports[3].down();
    sim.pass(300);
    assert!(sim.slurm.is_drained());
    sim.config.rdma.ports = patterns(&["ib0", "mlx5_12"]);
    sim.reload();
    sim.pass(900);
    assert!(sim.engine.names_no_port());
    assert_eq!(sim.incidents(), ["link down at 0000:13:00.0 open"]);
    assert!(sim.slurm.is_drained());
    // Another one is excluded on purpose.
    sim.config.rdma.ports = patterns(&["mlx5_1"]);
    sim.reload();
    sim.pass(900);
    assert!(!sim.engine.names_no_port());
    assert_eq!(sim.incidents(), ["link down at 0000:13:00.0 cleared"]);
}
