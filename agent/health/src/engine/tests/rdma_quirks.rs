//! Known quirks of RDMA states and counters: one test each, named after the quirk. Quirks of a single check are tested
//! with that check.

use collectors::Metric;
use collectors::ethernet::metrics::{PFC_RX_FRAMES, PHY_CORRECTED_BITS, PHY_RX_BITS, PHY_SYMBOL_ERRORS};
use collectors::rdma::metrics::{
    COUNTER_SATURATED, EXCESSIVE_BUFFER_OVERRUN_ERRORS, LOCAL_ACK_TIMEOUT_ERR, LOCAL_LINK_INTEGRITY_ERRORS,
    NETDEV_UP, NP_CNP_SENT, NP_ECN_MARKED_ROCE_PACKETS, OUT_OF_SEQUENCE, PACKET_SEQ_ERR, PORT_XMIT_WAIT,
    REQ_RNR_RETRIES_EXCEEDED, RNR_NAK_RETRY_ERR, ROCE_SLOW_RESTART, RP_CNP_HANDLED, SYMBOL_ERROR,
};

use super::host::Port;
use super::sim::*;
use crate::Mode;

const HOUR: u64 = 3600;

/// Eight such ports, long after boot.
fn node(make: impl Fn(&mut Port)) -> Sim {
    let mut sim = Sim::new(Mode::Drain);
    sim.host.ports = (0..8).map(Port::new).collect();
    sim.host.ports.iter_mut().for_each(make);
    sim.pass(2000);
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
    sim
}

/// An Ethernet port whose interface is up.
fn ethernet(port: &mut Port) {
    port.layer = "Ethernet";
    port.link_downed = None;
    port.set(&NETDEV_UP, &[], 1.0);
}

/// One port's counter grows by this value every minute, for longer than any window. Returns the findings.
fn counting(sim: &mut Sim, metric: &'static Metric, labels: &[&'static str], more: f64) -> Vec<String> {
    for _ in 0..30 {
        sim.host.ports[3].add(metric, labels, more);
        sim.pass(60);
    }
    sim.incidents()
}

#[test]
fn a_roce_port_is_down_by_its_interface_whatever_its_states_say() {
    let mut sim = node(ethernet);
    sim.host.ports[3].set(&NETDEV_UP, &[], 0.0);
    sim.pass(300);
    assert_eq!(sim.incidents(), ["interface down at 0000:13:00.0 open"]);
    let evidence = sim.engine.view().incidents[0].findings[0].evidence[0].clone();
    assert!(
        evidence.contains("rdma_port_netdev_up{device=\"mlx5_3\",port=\"1\"} 0, expected 1"),
        "{evidence}"
    );
    sim.host.ports[3].set(&NETDEV_UP, &[], 1.0);
    sim.pass(900);
    assert_eq!(sim.incidents(), ["interface down at 0000:13:00.0 cleared"]);
}

#[test]
fn a_speed_that_the_kernel_does_not_know_reads_as_sdr_and_is_no_degraded_link() {
    let mut sim = node(|port| port.rate = Some(1.25e9));
    // After a driver reload a newer kernel reports another speed of each port, although none is degraded.
    for port in 0..8 {
        sim.host.ports[port].rate = Some(100e9);
        sim.pass(600);
        assert!(
            !sim.incidents().iter().any(|i| i.contains("degraded")),
            "{:?}",
            sim.incidents()
        );
    }
    sim.pass(HOUR);
    let open: Vec<_> = sim
        .incidents()
        .into_iter()
        .filter(|i| i.ends_with("open"))
        .collect();
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn efa_reports_every_port_active_so_only_its_interface_counts() {
    let mut sim = node(|port| {
        ethernet(port);
        (port.driver, port.layer) = ("efa", "Unknown");
    });
    sim.host.ports[3].set(&NETDEV_UP, &[], 0.0);
    sim.pass(300);
    assert_eq!(sim.incidents(), ["interface down at 0000:13:00.0 open"]);
}

#[test]
fn efa_without_an_interface_is_neither_up_nor_down_and_its_counters_are_judged() {
    let mut sim = node(|port| {
        (port.driver, port.layer) = ("efa", "Unknown");
        port.set(&REQ_RNR_RETRIES_EXCEEDED, &[], 0.0);
    });
    for port in &mut sim.host.ports[..4] {
        port.down();
    }
    sim.pass(HOUR);
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
    sim.host.ports[3].add(&REQ_RNR_RETRIES_EXCEEDED, &[], 1.0);
    sim.pass(180);
    assert_eq!(sim.incidents(), ["a queue pair gave up at 0000:13:00.0 open"]);
}

#[test]
fn rnr_nak_retry_err_is_not_a_dead_queue_pair() {
    let mut sim = node(|port| port.set(&RNR_NAK_RETRY_ERR, &[], 0.0));
    assert!(counting(&mut sim, &RNR_NAK_RETRY_ERR, &[], 1000.0).is_empty());
}

#[test]
fn a_receiver_that_was_never_ready_is_a_dead_queue_pair_at_the_first() {
    let mut sim = node(|port| port.set(&REQ_RNR_RETRIES_EXCEEDED, &[], 0.0));
    sim.host.ports[3].add(&REQ_RNR_RETRIES_EXCEEDED, &[], 1.0);
    sim.pass(180);
    assert_eq!(sim.incidents(), ["a queue pair gave up at 0000:13:00.0 open"]);
}

#[test]
fn adaptive_routing_makes_out_of_sequence_normal() {
    let mut sim = node(|port| port.set(&OUT_OF_SEQUENCE, &[], 0.0));
    assert!(counting(&mut sim, &OUT_OF_SEQUENCE, &[], 1e6).is_empty());
}

#[test]
fn ticks_of_port_xmit_wait_have_no_known_length_so_nothing_is_made_of_them() {
    let mut sim = node(|port| port.set(&PORT_XMIT_WAIT, &[], 0.0));
    assert!(counting(&mut sim, &PORT_XMIT_WAIT, &[], 4e8).is_empty());
}

#[test]
fn forward_error_correction_corrects_bits_all_the_time() {
    let mut sim = node(|port| {
        ethernet(port);
        port.set(&PHY_SYMBOL_ERRORS, &[], 0.0);
        port.set(&PHY_RX_BITS, &[], 0.0);
    });
    for _ in 0..45 {
        sim.host.ports[3].add(&PHY_RX_BITS, &[], 400e9 * 60.0);
        sim.host.ports[3].add(&PHY_CORRECTED_BITS, &[], 1e7);
        sim.pass(60);
    }
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
}

#[test]
fn one_symbol_error_in_ten_to_the_twelve_bits_is_what_the_standard_allows() {
    // 120 per hour on a 4X link.
    let mut sim = node(|port| port.set(&SYMBOL_ERROR, &[], 0.0));
    for _ in 0..130 {
        sim.host.ports[3].add(&SYMBOL_ERROR, &[], 1.0);
        sim.pass(60);
    }
    assert!(sim.incidents().is_empty(), "{:?}", sim.incidents());
    for _ in 0..60 {
        sim.host.ports[3].add(&SYMBOL_ERROR, &[], 6.0);
        sim.pass(60);
    }
    assert_eq!(sim.incidents(), ["bit errors at 0000:13:00.0 open"]);
}

#[test]
fn integrity_and_overrun_have_four_bits_so_any_growth_counts_and_fifteen_proves_no_health() {
    for (metric, file) in [
        (&LOCAL_LINK_INTEGRITY_ERRORS, "local_link_integrity_errors"),
        (
            &EXCESSIVE_BUFFER_OVERRUN_ERRORS,
            "excessive_buffer_overrun_errors",
        ),
    ] {
        let mut sim = node(|port| port.set(metric, &[], 14.0));
        sim.host.ports[3].add(metric, &[], 1.0);
        sim.host.ports[3].set(&COUNTER_SATURATED, &[file], 1.0);
        sim.pass(180);
        let open = sim.incidents();
        assert!(open.len() == 1 && open[0].ends_with("open"), "{open:?}");
        sim.pass(7 * HOUR);
        assert_eq!(sim.incidents(), open, "a saturated counter proves nothing");
    }
}

#[test]
fn a_fabric_may_run_without_dcqcn_so_pauses_without_notifications_are_no_finding_by_default() {
    let mut sim = node(|port| {
        ethernet(port);
        for metric in [&NP_ECN_MARKED_ROCE_PACKETS, &NP_CNP_SENT, &RP_CNP_HANDLED] {
            port.set(metric, &[], 0.0);
        }
        port.set(&PFC_RX_FRAMES, &["3"], 0.0);
    });
    assert!(counting(&mut sim, &PFC_RX_FRAMES, &["3"], 1e5).is_empty());
}

#[test]
fn a_path_that_loses_two_packets_of_a_hundred_retries_and_kills_no_queue_pair() {
    // As measured between two guests: hundreds of sequence errors, no failed queue pair.
    let mut sim = node(|port| {
        for metric in [
            &PACKET_SEQ_ERR,
            &OUT_OF_SEQUENCE,
            &LOCAL_ACK_TIMEOUT_ERR,
            &ROCE_SLOW_RESTART,
        ] {
            port.set(metric, &[], 0.0);
        }
        port.set(&REQ_RNR_RETRIES_EXCEEDED, &[], 0.0);
    });
    for _ in 0..10 {
        sim.host.ports[3].add(&PACKET_SEQ_ERR, &[], 234.0);
        sim.host.ports[3].add(&OUT_OF_SEQUENCE, &[], 238.0);
        sim.pass(60);
    }
    assert!(
        !sim.incidents().iter().any(|i| i.contains("gave up")),
        "{:?}",
        sim.incidents()
    );
    assert_eq!(sim.slurm.drains, 0);
}
