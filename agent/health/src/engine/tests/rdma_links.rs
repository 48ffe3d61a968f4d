//! Checks `rdma-bit-errors`, `rdma-port-degraded` and `rdma-packet-loss`.

use collectors::ethernet::metrics::{
    LAG_MEMBER_HAD_LINK, LAG_MEMBER_UP, PHY_CORRECTED_BITS, PHY_RX_BITS, PHY_SYMBOL_ERRORS, RESTING,
};
use collectors::rdma::metrics::{
    COUNTER_SATURATED, PACKET_SEQ_ERR, PORT_LANES, PORT_XMIT_PACKETS, SYMBOL_ERROR, UNICAST_XMIT_PACKETS,
};

use model::snapshot::Presence;

use super::host::Port;
use super::sim::*;
use crate::Mode;

const HOUR: u64 = 3600;

fn node(ports: usize) -> Sim {
    let mut sim = Sim::new(Mode::Drain);
    sim.host.ports = (0..ports).map(Port::new).collect();
    sim
}

mod bits {
    use super::*;

    const ERRORS: &str = "bit errors at 0000:13:00.0";

    /// This number of minutes, with these errors per minute on each of these ports.
    fn run(sim: &mut Sim, minutes: u64, ports: &[usize], errors: f64) {
        for _ in 0..minutes {
            for port in ports {
                sim.host.ports[*port].add(&SYMBOL_ERROR, &[], errors);
            }
            sim.pass(60);
        }
    }

    fn counting(ports: usize) -> Sim {
        let mut sim = node(ports);
        for port in &mut sim.host.ports {
            port.set(&SYMBOL_ERROR, &[], 40.0);
        }
        sim
    }

    #[test]
    fn more_than_the_standard_allows_comments_and_ends_when_it_was_less_for_long_enough() {
        let mut sim = counting(8);
        run(&mut sim, 29, &[3], 100.0);
        assert!(sim.incidents().is_empty(), "the link may still have trained");
        run(&mut sim, 4, &[3], 100.0);
        assert_eq!(sim.incidents(), [format!("{ERRORS} open")]);
        assert!(sim.slurm.comment.clone().unwrap().contains("rdma-bit-errors"));
        assert_eq!(sim.slurm.drains, 0);
        sim.pass(2 * HOUR);
        assert_eq!(sim.incidents(), [format!("{ERRORS} open")]);
        sim.pass(HOUR);
        assert_eq!(sim.incidents(), [format!("{ERRORS} cleared")]);
    }

    #[test]
    fn as_many_as_the_standard_allows_are_none() {
        let mut sim = counting(8);
        run(&mut sim, 300, &[3], 1.9);
        assert!(sim.incidents().is_empty());
    }

    #[test]
    fn all_at_once_are_shared_and_only_shown() {
        let mut sim = counting(8);
        run(&mut sim, 40, &[0, 1, 2, 3, 4, 5, 6, 7], 100.0);
        assert_eq!(
            sim.incidents(),
            ["bit errors of most InfiniBand ports of mlx5_core together open"]
        );
        assert_eq!(sim.slurm.comment, None);
    }

    #[test]
    fn what_a_link_counts_while_it_trains_is_none() {
        let mut sim = counting(8);
        for _ in 0..20 {
            sim.host.ports[3].down();
            sim.host.ports[3].add(&SYMBOL_ERROR, &[], 3000.0);
            sim.pass(60);
            sim.host.ports[3].up();
            sim.pass(240);
        }
        assert!(!sim.incidents().iter().any(|i| i.starts_with("bit errors")));
    }

    #[test]
    fn a_full_counter_is_no_end_and_a_reset_is_no_error() {
        let mut sim = counting(8);
        run(&mut sim, 35, &[3], 100.0);
        sim.host.ports[3].set(&SYMBOL_ERROR, &[], 65535.0);
        sim.host.ports[3].set(&COUNTER_SATURATED, &["symbol_error"], 1.0);
        sim.pass(4 * HOUR);
        assert_eq!(sim.incidents(), [format!("{ERRORS} open")]);
        sim.host.ports[3].set(&SYMBOL_ERROR, &[], 0.0);
        sim.host.ports[3].set(&COUNTER_SATURATED, &["symbol_error"], 0.0);
        sim.pass(3 * HOUR);
        assert_eq!(sim.incidents(), [format!("{ERRORS} cleared")]);
    }

    /// Minutes at 400 Gb/s on an Ethernet port, each with this number of errors.
    fn ethernet(sim: &mut Sim, minutes: u64, errors: f64) {
        for _ in 0..minutes {
            for port in &mut sim.host.ports {
                port.layer = "Ethernet";
                port.add(&PHY_RX_BITS, &[], 400e9 * 60.0);
                port.add(&PHY_SYMBOL_ERRORS, &[], 0.0);
                port.add(&PHY_CORRECTED_BITS, &[], 1e9);
            }
            sim.host.ports[3].add(&PHY_SYMBOL_ERRORS, &[], errors);
            sim.pass(60);
        }
    }

    #[test]
    fn ethernet_goes_by_the_share_of_bits_and_corrected_ones_are_normal() {
        let mut sim = node(8);
        // 24 errors per minute are 1 in 10^12.
        ethernet(&mut sim, 60, 20.0);
        assert!(sim.incidents().is_empty());
        ethernet(&mut sim, 60, 200.0);
        assert_eq!(sim.incidents(), [format!("{ERRORS} open")]);
        let evidence = sim.engine.view().incidents[0].findings[0].evidence[0].clone();
        assert!(
            evidence.contains("rdma_phy_symbol_errors_total{device=\"mlx5_3\""),
            "{evidence}"
        );
    }

    /// Minutes of a bond at 400 Gb/s on each of two links, with this number of errors on one of them each minute.
    fn bond(sim: &mut Sim, minutes: u64, member: &'static str, errors: f64) {
        for _ in 0..minutes {
            for link in ["eth0", "eth1"] {
                sim.host.ports[3].add(&PHY_RX_BITS, &[link], 400e9 * 60.0);
                sim.host.ports[3].add(&PHY_SYMBOL_ERRORS, &[link], 0.0);
            }
            sim.host.ports[3].add(&PHY_SYMBOL_ERRORS, &[member], errors);
            sim.pass(60);
        }
    }

    #[test]
    fn each_link_of_a_bond_is_judged_by_its_own_bits() {
        let mut sim = node(8);
        for port in &mut sim.host.ports {
            port.layer = "Ethernet";
        }
        // 24 errors a minute are 1 in 10^12 of one link.
        bond(&mut sim, 60, "eth1", 20.0);
        assert!(sim.incidents().is_empty());
        bond(&mut sim, 60, "eth1", 200.0);
        assert_eq!(sim.incidents(), [format!("{ERRORS} open")]);
        let evidence = sim.engine.view().incidents[0].findings[0].evidence[0].clone();
        assert!(evidence.contains("netdev=\"eth1\""), "{evidence}");
        bond(&mut sim, 120, "eth0", 0.0);
        assert_eq!(sim.incidents(), [format!("{ERRORS} open")]);
        bond(&mut sim, 60, "eth0", 0.0);
        assert_eq!(sim.incidents(), [format!("{ERRORS} cleared")]);
    }

    /// Minutes of ports that count no bits, with this number of errors on one of them each minute.
    fn without_bits(sim: &mut Sim, minutes: u64, errors: f64) {
        for _ in 0..minutes {
            for port in &mut sim.host.ports {
                port.layer = "Ethernet";
                port.add(&PHY_SYMBOL_ERRORS, &[], 0.0);
            }
            sim.host.ports[3].add(&PHY_SYMBOL_ERRORS, &[], errors);
            sim.pass(60);
        }
    }

    #[test]
    fn a_driver_that_counts_no_bits_goes_by_the_rate() {
        let mut sim = node(8);
        // 24 errors a minute are 1 in 10^12 at 400 Gb/s.
        without_bits(&mut sim, 60, 20.0);
        assert!(sim.incidents().is_empty());
        without_bits(&mut sim, 60, 200.0);
        assert_eq!(sim.incidents(), [format!("{ERRORS} open")]);
        without_bits(&mut sim, 180, 0.0);
        assert_eq!(sim.incidents(), [format!("{ERRORS} cleared")]);
    }

    #[test]
    fn without_bits_and_rate_the_share_of_errors_is_unknown() {
        let mut sim = node(8);
        for port in &mut sim.host.ports {
            port.rate = None;
        }
        without_bits(&mut sim, 60, 200.0);
        assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
    }

    #[test]
    fn a_counter_reset_restarts_the_window() {
        let mut sim = node(8);
        ethernet(&mut sim, 10, 1.0);
        sim.host.ports[3].set(&PHY_RX_BITS, &[], 0.0);
        ethernet(&mut sim, 60, 200.0);
        assert_eq!(sim.incidents(), [format!("{ERRORS} open")]);
    }

    #[test]
    fn few_errors_on_a_quiet_link_say_nothing() {
        let mut sim = node(8);
        for port in &mut sim.host.ports {
            port.layer = "Ethernet";
        }
        for _ in 0..60 {
            sim.host.ports[3].add(&PHY_RX_BITS, &[], 1000.0);
            sim.host.ports[3].add(&PHY_SYMBOL_ERRORS, &[], 0.1);
            sim.pass(60);
        }
        assert!(sim.incidents().is_empty());
    }
}

mod degraded {
    use super::*;

    const SLOW: &str = "link degraded: 200 of 400 Gb/s at 0000:13:00.0";

    #[test]
    fn a_rate_below_the_one_before_comments_and_ends_with_the_rate() {
        let mut sim = node(8);
        sim.pass(1000);
        sim.host.ports[3].rate = Some(25e9);
        sim.pass(90);
        assert!(sim.incidents().is_empty());
        sim.pass(60);
        assert_eq!(sim.incidents(), [format!("{SLOW} open")]);
        assert!(sim.slurm.comment.clone().unwrap().contains("rdma-port-degraded"));
        sim.host.ports[3].rate = Some(50e9);
        sim.pass(700);
        assert_eq!(sim.incidents(), [format!("{SLOW} cleared")]);
    }

    #[test]
    fn lanes_count_too() {
        let mut sim = node(8);
        for port in &mut sim.host.ports {
            port.set(&PORT_LANES, &[], 4.0);
        }
        sim.pass(1000);
        sim.host.ports[3].set(&PORT_LANES, &[], 2.0);
        sim.host.ports[3].rate = Some(25e9);
        sim.pass(150);
        assert_eq!(
            sim.incidents(),
            ["link degraded: x2 of x4 200 of 400 Gb/s at 0000:13:00.0 open"]
        );
    }

    #[test]
    fn fewer_lanes_that_carry_as_much_are_none() {
        let mut sim = node(8);
        for port in &mut sim.host.ports {
            port.set(&PORT_LANES, &[], 8.0);
        }
        sim.pass(1000);
        sim.host.ports[3].set(&PORT_LANES, &[], 4.0);
        sim.pass(600);
        assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
    }

    #[test]
    fn a_port_that_came_up_slow_is_compared_with_its_peers() {
        let mut sim = node(8);
        for port in &mut sim.host.ports {
            port.board = "MT_0000000838";
        }
        sim.host.ports[3].rate = Some(25e9);
        sim.pass(1000);
        assert_eq!(
            sim.incidents(),
            ["link below its equals: 200 of 400 Gb/s at 0000:13:00.0 open"]
        );
        assert_eq!(sim.slurm.comment, None, "it may be one for storage");
    }

    #[test]
    fn storage_ports_of_the_same_board_are_none() {
        let mut sim = node(10);
        for port in &mut sim.host.ports {
            port.board = "MT_0000000838";
        }
        for port in &mut sim.host.ports[8..] {
            port.rate = Some(25e9);
        }
        sim.pass(3000);
        assert!(sim.incidents().is_empty());
    }

    #[test]
    fn a_port_without_a_rate_and_one_that_makes_it_up_are_left_out() {
        let mut sim = node(8);
        sim.host.ports[3].rate = None;
        sim.host.ports[4].driver = "efa";
        sim.pass(1000);
        sim.host.ports[4].rate = Some(12.5e9);
        sim.pass(1000);
        assert!(sim.incidents().is_empty());
    }

    /// The kernel reports its default rate, 40 Gb/s, for the first member of a bond that is down.
    #[test]
    fn a_member_of_a_bond_that_is_down_is_found_and_its_rate_is_none() {
        let mut sim = node(8);
        for member in ["eth0", "eth1"] {
            sim.host.ports[3].set(&LAG_MEMBER_UP, &[member], 1.0);
        }
        sim.pass(1000);
        assert!(sim.incidents().is_empty());
        sim.host.ports[3].set(&LAG_MEMBER_UP, &["eth0"], 0.0);
        sim.host.ports[3].rate = Some(5e9);
        sim.pass(300);
        assert_eq!(sim.incidents(), ["LAG member down at 0000:13:00.0 open"]);
        let evidence = sim.engine.view().incidents[0].findings[0].evidence[0].clone();
        assert!(evidence.contains("netdev=\"eth0\""), "{evidence}");
        // Unread members are no repair.
        let all = std::mem::take(&mut sim.host.ports[3].series);
        sim.pass(3000);
        assert_eq!(sim.incidents(), ["LAG member down at 0000:13:00.0 open"]);
        // Nor is the kernel's default rate a fault of the link.
        let findings = &sim.engine.view().incidents[0].findings;
        assert_eq!(findings.len(), 1, "{findings:?}");
        sim.host.ports[3].series = all;
        sim.host.ports[3].set(&LAG_MEMBER_UP, &["eth0"], 1.0);
        sim.host.ports[3].rate = Some(50e9);
        sim.pass(700);
        assert_eq!(sim.incidents(), ["LAG member down at 0000:13:00.0 cleared"]);
    }

    /// As after an installation. Removing the broken member from the bond is a repair.
    #[test]
    fn a_member_that_is_down_from_the_first_reading_is_found_until_it_leaves_the_bond() {
        let mut sim = node(8);
        sim.host.ports[3].set(&LAG_MEMBER_UP, &["eth0"], 0.0);
        sim.host.ports[3].set(&LAG_MEMBER_UP, &["eth1"], 1.0);
        sim.host.ports[3].rate = Some(5e9);
        sim.pass(2000);
        assert_eq!(sim.incidents(), ["LAG member down at 0000:13:00.0 open"]);
        sim.host.ports[3].series.clear();
        sim.host.ports[3].set(&RESTING, &["bond0"], 0.0);
        sim.host.ports[3].rate = Some(50e9);
        sim.pass(700);
        assert_eq!(sim.incidents(), ["LAG member down at 0000:13:00.0 cleared"]);
    }

    /// The kernel creates its interface again, and no longer knows that it had a link.
    #[test]
    fn a_member_of_a_bond_that_was_up_is_not_repaired_by_a_reboot() {
        let mut sim = node(8);
        let of_bond = |sim: &mut Sim, up: &[&'static str], had_none: &[&'static str]| {
            let port = &mut sim.host.ports[3];
            port.series.clear();
            up.iter()
                .for_each(|member| port.set(&LAG_MEMBER_UP, &[member], 1.0));
            for member in had_none {
                port.set(&LAG_MEMBER_HAD_LINK, &[member], 0.0);
            }
        };
        // The second port of a card with one cable.
        of_bond(&mut sim, &["eth0", "eth1"], &["eth2"]);
        sim.pass(1000);
        assert!(sim.incidents().is_empty());
        of_bond(&mut sim, &["eth0"], &["eth2"]);
        sim.host.ports[3].set(&LAG_MEMBER_UP, &["eth1"], 0.0);
        sim.pass(300);
        assert_eq!(sim.incidents(), ["LAG member down at 0000:13:00.0 open"]);
        of_bond(&mut sim, &["eth0"], &["eth1", "eth2"]);
        sim.reboot();
        sim.pass(3000);
        assert_eq!(sim.incidents(), ["LAG member down at 0000:13:00.0 open"]);
        of_bond(&mut sim, &["eth0", "eth1"], &["eth2"]);
        sim.pass(700);
        assert_eq!(sim.incidents(), ["LAG member down at 0000:13:00.0 cleared"]);
    }

    /// `[ethernet] enabled = false`.
    #[test]
    fn a_bond_is_judged_by_its_port_alone_where_members_are_not_read() {
        let mut sim = node(8);
        sim.host.ports[3].set(&LAG_MEMBER_UP, &["eth0"], 0.0);
        sim.pass(1000);
        assert_eq!(sim.incidents(), ["LAG member down at 0000:13:00.0 open"]);
        sim.host.ports[3].series.clear();
        sim.host.ethernet = Presence::NotHere;
        sim.restart();
        sim.pass(1000);
        assert_eq!(sim.incidents(), ["LAG member down at 0000:13:00.0 cleared"]);
    }

    #[test]
    fn a_switch_that_was_set_lower_is_shared() {
        let mut sim = node(8);
        sim.pass(1000);
        for port in &mut sim.host.ports {
            port.rate = Some(25e9);
        }
        sim.pass(600);
        assert_eq!(
            sim.incidents(),
            ["lower rate of most InfiniBand ports of mlx5_core together open"]
        );
        assert_eq!(sim.slurm.comment, None);
    }

    #[test]
    fn a_port_that_is_down_is_no_end_and_no_beginning() {
        let mut sim = node(8);
        sim.pass(1000);
        sim.host.ports[3].rate = Some(25e9);
        sim.pass(150);
        sim.host.ports[3].down();
        sim.pass(3000);
        assert!(
            sim.incidents().contains(&format!("{SLOW} open")),
            "{:?}",
            sim.incidents()
        );
    }
}

mod loss {
    use super::*;

    const LOST: &str = "packets are lost on the way at 0000:13:00.0";

    /// Minutes in which every port sends, and these receive this number of gap reports each.
    fn run(sim: &mut Sim, minutes: u64, ports: &[usize], gaps: f64) {
        for _ in 0..minutes * 4 {
            for port in &mut sim.host.ports {
                port.add(&PORT_XMIT_PACKETS, &[], 10_000.0);
                port.add(&PACKET_SEQ_ERR, &[], 0.0);
            }
            for port in ports {
                sim.host.ports[*port].add(&PACKET_SEQ_ERR, &[], gaps);
            }
            sim.pass(15);
        }
    }

    #[test]
    fn two_in_a_hundred_on_one_port_comment_and_end() {
        let mut sim = node(8);
        run(&mut sim, 6, &[], 0.0);
        run(&mut sim, 3, &[3], 200.0);
        assert_eq!(sim.incidents(), [format!("{LOST} open")]);
        assert!(sim.slurm.comment.clone().unwrap().contains("rdma-packet-loss"));
        assert_eq!(sim.slurm.drains, 0);
        run(&mut sim, 12, &[], 0.0);
        assert_eq!(sim.incidents(), [format!("{LOST} cleared")]);
    }

    #[test]
    fn on_all_ports_it_is_the_fabric_and_on_a_single_one_it_is_unknown() {
        for (ports, expected) in [
            (
                8,
                "packet loss of most InfiniBand ports of mlx5_core together open".to_owned(),
            ),
            (1, "packets are lost on the way at 0000:10:00.0 open".to_owned()),
        ] {
            let mut sim = node(ports);
            let all: Vec<usize> = (0..ports).collect();
            run(&mut sim, 3, &all, 200.0);
            assert_eq!(sim.incidents(), [expected]);
            assert_eq!(sim.slurm.comment, None);
        }
    }

    #[test]
    fn a_few_among_many_are_none() {
        let mut sim = node(8);
        run(&mut sim, 10, &[3], 5.0);
        assert!(sim.incidents().is_empty());
    }

    #[test]
    fn a_port_that_sends_nothing_loses_nothing() {
        let mut sim = node(8);
        for port in &mut sim.host.ports {
            port.set(&PORT_XMIT_PACKETS, &[], 10_000.0);
            port.set(&PACKET_SEQ_ERR, &[], 0.0);
        }
        for _ in 0..40 {
            sim.host.ports[3].add(&PACKET_SEQ_ERR, &[], 200.0);
            sim.pass(15);
        }
        assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
    }

    #[test]
    fn a_driver_that_counts_unicast_packets_only_is_judged_by_them() {
        let mut sim = node(8);
        for _ in 0..24 {
            for port in &mut sim.host.ports {
                port.add(&UNICAST_XMIT_PACKETS, &[], 10_000.0);
                port.add(&PACKET_SEQ_ERR, &[], 0.0);
            }
            sim.host.ports[3].add(&PACKET_SEQ_ERR, &[], 200.0);
            sim.pass(15);
        }
        assert_eq!(sim.incidents(), [format!("{LOST} open")]);
    }

    #[test]
    fn a_counter_reset_is_no_loss() {
        let mut sim = node(8);
        run(&mut sim, 2, &[3], 5.0);
        for _ in 0..8 {
            sim.host.ports[3].set(&PORT_XMIT_PACKETS, &[], 0.0);
            run(&mut sim, 1, &[3], 30.0);
            sim.host.ports[3].set(&PACKET_SEQ_ERR, &[], 0.0);
        }
        assert!(sim.incidents().is_empty());
    }
}
