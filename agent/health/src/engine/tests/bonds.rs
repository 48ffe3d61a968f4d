//! A bonded port that lost a member is up for every check but those about lost redundancy.

use collectors::ethernet::metrics::{
    FEC_MODE, LAG_MEMBER_UP, PHY_LINK_DOWN, PHY_RX_BITS, PHY_SYMBOL_ERRORS, RESTING, UNREADABLE,
};
use collectors::rdma::metrics::{ROCE_V2_GIDS, RX_ICRC_ENCAPSULATED};

use super::host::Port;
use super::sim::*;
use crate::Mode;
use crate::verdict::Health;

const HOUR: u64 = 3600;
const MEMBERS: [&str; 2] = ["eth0", "eth1"];

/// Ports on bonds of two links each, all up.
fn node(ports: usize, change: fn(&mut crate::settings::Settings)) -> Sim {
    let mut config = config(Mode::Drain);
    change(&mut config);
    let mut sim = Sim::with(config, None);
    sim.host.ports = (0..ports).map(Port::new).collect();
    for port in &mut sim.host.ports {
        port.layer = "Ethernet";
        for member in MEMBERS {
            port.set(&LAG_MEMBER_UP, &[member], 1.0);
        }
    }
    sim.pass(2000);
    sim
}

fn lose(port: &mut Port) {
    port.set(&LAG_MEMBER_UP, &["eth0"], 0.0);
}

fn evidence_of(sim: &Sim, detail: &str) -> String {
    let view = sim.engine.view();
    let mut all = view.incidents.iter().flat_map(|incident| &incident.findings);
    let found = all.find(|finding| finding.detail == detail);
    found
        .map(|finding| finding.evidence[0].clone())
        .unwrap_or_default()
}

/// One of two leaf switches restarts: every bond of the rack loses a member.
#[test]
fn all_bonds_that_lost_a_member_are_no_missing_ports() {
    let mut sim = node(4, |config| {
        config.expect.rdma_ports = Some(4);
        config.checks.insert("rdma-ports-missing".to_owned(), Mode::Drain);
    });
    sim.host.ports.iter_mut().for_each(lose);
    sim.pass(600);
    let together = "a link of most Ethernet ports of mlx5_core down together";
    assert_eq!(sim.incidents(), [format!("{together} open")]);
    assert_eq!(
        (sim.slurm.drains, sim.engine.view().verdict.health),
        (0, Health::Healthy)
    );
    let evidence = evidence_of(&sim, together);
    for words in [
        "4 of 4 Ethernet ports of mlx5_core up, 4 of them with a member of their bond down: shared",
        "down: eth0 of mlx5_0/1, eth0 of mlx5_1/1, ",
    ] {
        assert!(evidence.contains(words), "{evidence}");
    }
}

#[test]
fn a_port_without_members_read_is_up_and_its_evidence_is_true() {
    let mut sim = node(4, |config| config.expect.rdma_ports = Some(5));
    let detail = "RDMA ports up: 4 found, 5 expected";
    assert_eq!(sim.incidents(), [format!("{detail} open")]);
    sim.host.ports[0].series.clear();
    sim.restart();
    sim.pass(300);
    assert_eq!(sim.incidents(), [format!("{detail} open")]);
    let evidence = evidence_of(&sim, detail);
    assert!(evidence.contains("4 of 4 ports up"), "{evidence}");
}

/// Minutes at 400 Gb/s on each link of each bond, with this number of errors each minute on a link of port 3.
fn carry(sim: &mut Sim, minutes: u64, member: &'static str, errors: f64) {
    for _ in 0..minutes {
        for port in &mut sim.host.ports {
            for link in MEMBERS {
                port.add(&PHY_RX_BITS, &[link], 400e9 * 60.0);
                port.add(&PHY_SYMBOL_ERRORS, &[link], 0.0);
            }
        }
        sim.host.ports[3].add(&PHY_SYMBOL_ERRORS, &[member], errors);
        sim.pass(60);
    }
}

#[test]
fn the_link_that_carries_everything_is_judged_by_its_bit_errors() {
    let detail = "bit errors at 0000:13:00.0";
    let mut sim = node(8, |_| {});
    lose(&mut sim.host.ports[3]);
    // What the dead one counts is none.
    carry(&mut sim, 60, "eth0", 200.0);
    assert_eq!(sim.incidents(), ["LAG member down at 0000:13:00.0 open"]);
    carry(&mut sim, 60, "eth1", 200.0);
    assert!(sim.says(detail, false), "{:?}", sim.incidents());
    assert!(evidence_of(&sim, detail).contains("netdev=\"eth1\""));
    // A dead link has no errors, and is no proof of a good one.
    sim.host.ports[3].set(&LAG_MEMBER_UP, &["eth0"], 1.0);
    sim.host.ports[3].set(&LAG_MEMBER_UP, &["eth1"], 0.0);
    carry(&mut sim, 300, "eth1", 0.0);
    assert!(sim.says(detail, false));
    sim.host.ports[3].set(&LAG_MEMBER_UP, &["eth1"], 1.0);
    carry(&mut sim, 180, "eth1", 0.0);
    assert!(sim.says(detail, true), "{:?}", sim.incidents());
}

#[test]
fn errors_count_while_a_member_is_down() {
    let mut sim = node(8, |_| {});
    sim.host.ports[3].set(&RX_ICRC_ENCAPSULATED, &[], 0.0);
    lose(&mut sim.host.ports[3]);
    sim.pass(600);
    sim.host.ports[3].add(&RX_ICRC_ENCAPSULATED, &[], 3.0);
    sim.pass(300);
    assert!(
        sim.says("link loses its integrity at 0000:13:00.0", false),
        "{:?}",
        sim.incidents()
    );
}

#[test]
fn a_member_that_flaps_is_named() {
    let detail = "link goes down again and again at 0000:13:00.0";
    let mut sim = node(8, |_| {});
    for _ in 0..3 {
        lose(&mut sim.host.ports[3]);
        sim.pass(60);
        sim.host.ports[3].set(&LAG_MEMBER_UP, &["eth0"], 1.0);
        sim.pass(600);
    }
    let evidence = evidence_of(&sim, detail);
    let line = "rdma_lag_member_up{device=\"mlx5_3\",port=\"1\",netdev=\"eth0\"} 0, expected to go down fewer than 3 times \
                in 12 h, went down 3 times";
    assert!(
        evidence.starts_with(line) && !evidence.contains("rdma_port_state"),
        "{evidence}"
    );
    sim.pass(7 * HOUR);
    assert!(sim.says(detail, true));
}

/// A link is back within seconds: no reading sees it down.
#[test]
fn a_member_that_flaps_between_readings_is_found_by_its_counter() {
    let detail = "link goes down again and again at 0000:13:00.0";
    let mut sim = node(8, |_| {});
    let blink = |sim: &mut Sim, times: usize| {
        for _ in 0..times {
            for port in &mut sim.host.ports {
                port.add(&PHY_LINK_DOWN, &["eth0"], 0.0);
            }
            sim.pass(60);
            sim.host.ports[3].add(&PHY_LINK_DOWN, &["eth0"], 1.0);
            sim.pass(540);
        }
    };
    blink(&mut sim, 4);
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
    blink(&mut sim, 1);
    let evidence = evidence_of(&sim, detail);
    let line = "rdma_phy_link_down_total{device=\"mlx5_3\",port=\"1\",netdev=\"eth0\"} 5, expected to grow by fewer than 5 in \
                24 h, grew by 5";
    assert!(evidence.starts_with(line), "{evidence}");
    sim.pass(7 * HOUR);
    assert!(sim.says(detail, true));
}

/// Both links of one cable: the port goes down first, its members are read later.
#[test]
fn a_port_that_goes_down_with_its_members_goes_down_once() {
    let mut sim = node(8, |_| {});
    for _ in 0..2 {
        sim.host.ports[3].down();
        sim.pass(30);
        for member in MEMBERS {
            sim.host.ports[3].set(&LAG_MEMBER_UP, &[member], 0.0);
        }
        sim.pass(60);
        sim.host.ports[3].up();
        sim.pass(30);
        for member in MEMBERS {
            sim.host.ports[3].set(&LAG_MEMBER_UP, &[member], 1.0);
        }
        sim.pass(600);
    }
    assert!(!sim.says("link goes down again and again at 0000:13:00.0", false));
}

#[test]
fn the_configuration_of_the_live_link_is_compared() {
    let mut sim = node(8, |config| {
        config.rdma.fec = Some("rs".to_owned());
        config.rdma.rate = vec![400];
    });
    for port in &mut sim.host.ports {
        for member in MEMBERS {
            port.set(&FEC_MODE, &["rs", member], 1.0);
        }
        port.set(&ROCE_V2_GIDS, &[], 1.0);
    }
    let port = &mut sim.host.ports[3];
    lose(port);
    port.series
        .retain(|(metric, labels, _)| *metric != &FEC_MODE || labels[1] != "eth0");
    port.set(&FEC_MODE, &["off", "eth0"], 1.0);
    port.rate = Some(5e9);
    sim.pass(600);
    assert_eq!(sim.incidents(), ["LAG member down at 0000:13:00.0 open"]);
    let port = &mut sim.host.ports[3];
    port.series
        .retain(|(metric, labels, _)| *metric != &FEC_MODE || labels[1] != "eth1");
    port.set(&FEC_MODE, &["off", "eth1"], 1.0);
    port.set(&ROCE_V2_GIDS, &[], 0.0);
    sim.pass(600);
    let view = sim.engine.view();
    let found = view.incidents.iter().flat_map(|incident| &incident.findings);
    let texts: Vec<String> = found.map(|f| format!("{} {}", f.detail, f.evidence[0])).collect();
    for words in ["FEC (rdma_fec_info) is off, expected rs", "routable RoCE v2 GID"] {
        assert!(texts.iter().any(|text| text.contains(words)), "{texts:?}");
    }
}

/// 40 Gb/s, the kernel's rate for a bond without its first member, is more than a link of 25 Gb/s has.
#[test]
fn the_rate_of_a_bond_that_lost_a_member_is_no_best_one() {
    let mut sim = Sim::new(Mode::Drain);
    sim.host.ports = (0..8).map(Port::new).collect();
    for port in &mut sim.host.ports {
        port.layer = "Ethernet";
        port.rate = Some(25e9 / 8.0);
        for member in MEMBERS {
            port.set(&LAG_MEMBER_UP, &[member], 1.0);
        }
    }
    sim.pass(2000);
    lose(&mut sim.host.ports[3]);
    sim.host.ports[3].rate = Some(5e9);
    sim.pass(600);
    sim.host.ports[3].set(&LAG_MEMBER_UP, &["eth0"], 1.0);
    sim.host.ports[3].rate = Some(25e9 / 8.0);
    sim.pass(1200);
    assert_eq!(sim.incidents(), ["LAG member down at 0000:13:00.0 cleared"]);
}

#[test]
fn members_that_cannot_be_read_are_no_repair() {
    let mut sim = node(8, |_| {});
    lose(&mut sim.host.ports[3]);
    sim.pass(300);
    let port = &mut sim.host.ports[3];
    port.series.clear();
    port.set(&RESTING, &["bond0"], 0.0);
    port.set(&UNREADABLE, &["dcb", "io", "bond0"], 1.0);
    sim.pass(HOUR);
    assert_eq!(sim.incidents(), ["LAG member down at 0000:13:00.0 open"]);
}
