use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::Kind;

/// Metric of a port's counter name.
fn port(driver: &str, word: &str) -> &'static str {
    name(Words::of(driver).port(word))
}

/// Empty for an omitted counter.
fn name(means: Option<Means>) -> &'static str {
    means.map_or("", |m| m.row.map_or(m.own, |r| r.metric).name)
}

#[test]
fn a_name_without_a_known_driver_has_the_meaning_of_any_driver() {
    let mut meanings: BTreeMap<&str, &str> = hw::ROWS.iter().map(|r| (r.file, r.metric.name)).collect();
    for row in DRIVERS.iter().flat_map(|d| d.port) {
        let meaning = *meanings.entry(row.file).or_insert(row.metric.name);
        assert_eq!(meaning, row.metric.name, "{}", row.file);
    }
    assert_eq!(
        port("", "retry_exceeded_err"),
        "rdma_req_transport_retries_exceeded_total"
    );
    assert_eq!(
        port("made_up", "max_retry_exceeded"),
        "rdma_req_transport_retries_exceeded_total"
    );
}

#[test]
fn driver_names_are_unique_and_every_counter_name_has_one_meaning() {
    let mut names = BTreeSet::new();
    for driver in DRIVERS {
        assert!(driver.names.iter().all(|n| names.insert(*n)));
        for rows in [driver.port, driver.device, driver.pma] {
            let words: BTreeSet<_> = rows.iter().map(|r| r.file).collect();
            assert_eq!(words.len(), rows.len());
        }
        // A gauge must not be exported under a counter's name.
        for row in driver.port.iter().chain(driver.device) {
            assert!(
                !driver.gauges.iter().any(|g| is_match(g, row.file)),
                "{}",
                row.file
            );
            assert!(matches!(row.metric.kind, Kind::Counter), "{}", row.file);
        }
    }
}

#[test]
fn pma_counters_of_a_port_are_not_counted_twice() {
    let mut words = Words::of("");
    assert_eq!(name(words.port("link_downed")), "rdma_link_downed_total");
    words.of_pma = vec![&pma::LINK_DOWNED];
    assert_eq!(name(words.port("link_downed")), "rdma_hw_counter_total");
    assert_eq!(name(words.port("sent_pkts")), "rdma_port_xmit_packets_total");
    assert_eq!(name(words.port("np_cnp_sent")), "rdma_np_cnp_sent_total");
}

#[test]
fn the_driver_distinguishes_gauges_from_counters() {
    for (driver, word, expected) in [
        ("bnxt_en", "active_qps", "rdma_hw_gauge"),
        ("bnxt_en", "watermark_rc_qps", "rdma_hw_gauge"),
        ("bnxt_en", "db_fifo_register", "rdma_hw_gauge"),
        ("bnxt_en", "pacing_alerts", "rdma_hw_counter_total"),
        ("mana", "current_rate", "rdma_hw_gauge"),
        ("mana", "num_qps_congested", "rdma_hw_gauge"),
        ("mana", "total_fatal_error", "rdma_hw_counter_total"),
        ("mlx5_core", "active_qps", "rdma_hw_counter_total"),
        ("", "active_qps", "rdma_hw_gauge"),
        ("", "made_up", "rdma_hw_counter_total"),
    ] {
        assert_eq!(port(driver, word), expected, "{driver} {word}");
    }
}

#[test]
fn device_counters_belong_to_the_port_of_a_single_port_device() {
    let mana = Words::of("mana");
    assert_eq!(name(mana.device("sent_cnps", true)), "rdma_np_cnp_sent_total");
    assert_eq!(
        name(mana.device("sent_cnps", false)),
        "rdma_device_hw_counter_total"
    );
    assert_eq!(
        name(mana.device("rate_inc_events", true)),
        "rdma_device_hw_counter_total"
    );
    assert_eq!(
        name(Words::of("cxgb4").device("ip4RetransSegs", true)),
        "rdma_device_hw_counter_total"
    );
}

#[test]
fn only_mellanox_has_32_bit_queue_pair_counters() {
    let maximum = |driver: &str, word| Words::of(driver).port(word).unwrap().width.maximum();
    for (driver, word) in [
        ("mlx5_core", "out_of_buffer"),
        ("mlx5_core", "vport_out_of_buffer"),
        ("mlx4_core", "rq_num_oos"),
    ] {
        assert_eq!(
            maximum(driver, word),
            Some(u64::from(u32::MAX)),
            "{driver} {word}"
        );
    }
    for (driver, word) in [
        ("mlx5_core", "np_cnp_sent"),
        ("mana", "rx_write_requests"),
        ("", "duplicate_request"),
        // 24 and 32 bits in hardware, accumulated by the driver.
        ("ice", "cnpIgnored"),
        ("ice", "cnpHandled"),
    ] {
        assert_eq!(maximum(driver, word), None, "{driver} {word}");
    }
}

#[test]
fn every_pma_counter_clamps_at_its_own_width() {
    for (bits, words) in [
        (
            4,
            &["local_link_integrity_errors", "excessive_buffer_overrun_errors"][..],
        ),
        (
            8,
            &[
                "link_error_recovery",
                "link_downed",
                "port_xmit_constraint_errors",
                "port_rcv_constraint_errors",
            ],
        ),
        (
            16,
            &[
                "symbol_error",
                "port_rcv_errors",
                "port_rcv_remote_physical_errors",
                "port_rcv_switch_relay_errors",
                "port_xmit_discards",
                "VL15_dropped",
            ],
        ),
        (
            32,
            &[
                "port_xmit_wait",
                "port_xmit_data",
                "port_rcv_data",
                "port_xmit_packets",
                "port_rcv_packets",
            ],
        ),
        (
            64,
            &[
                "unicast_xmit_packets",
                "unicast_rcv_packets",
                "multicast_xmit_packets",
                "multicast_rcv_packets",
            ],
        ),
    ] {
        let maximum = (bits < 64).then(|| (1_u64 << bits) - 1);
        for word in words {
            let means = Words::of("mlx5_core").pma(word).unwrap();
            assert_eq!(means.width.maximum(), maximum, "{word}");
        }
    }
}

#[test]
fn a_counter_with_a_wrong_name_is_omitted() {
    assert_eq!(port("bnxt_en", "recoverable_errors"), "");
    for word in [
        "rp_cnp_ignored",
        "rx_icrc_encapsulated",
        "roce_adp_retrans",
        "roce_slow_restart_trans",
    ] {
        assert_eq!(port("bnxt_en", word), "");
        assert_ne!(port("mlx5_core", word), "");
    }
    for word in ["symbol_error", "unicast_rcv_packets"] {
        assert_eq!(name(Words::of("hfi1").pma(word)), "", "{word}");
    }
    assert_eq!(
        name(Words::of("mlx5_core").pma("unicast_rcv_packets")),
        "rdma_unicast_rcv_packets_total"
    );
}

#[test]
fn drivers_share_metrics_for_congestion_and_failed_queue_pairs() {
    for (driver, word, expected) in [
        ("mlx5_core", "vport_out_of_buffer", "rdma_out_of_buffer_total"),
        ("mlx5_core", "cc_tx_cnp_pkts", "rdma_cc_tx_cnp_pkts_total"),
        ("mlx5_core", "rdma_tx_bytes", "rdma_optional_tx_bytes_total"),
        (
            "mlx4_core",
            "sq_num_tree",
            "rdma_req_transport_retries_exceeded_total",
        ),
        ("mlx4_core", "sq_num_rnr", "rdma_rnr_nak_retry_err_total"),
        ("bnxt_en", "np_cnp_pkts", "rdma_np_cnp_sent_total"),
        ("bnxt_en", "rp_cnp_handled", "rdma_rp_cnp_handled_total"),
        ("bnxt_en", "rx_roce_discards", "rdma_port_rcv_discards_total"),
        ("ice", "cnpIgnored", "rdma_rp_cnp_ignored_total"),
        ("ice", "Nak Sequence Error", "rdma_packet_seq_err_total"),
        ("hns3", "rx_cnp_pkt", "rdma_rp_cnp_handled_total"),
        ("ionic", "resp_rx_outouf_seq", "rdma_out_of_sequence_total"),
        ("ionic", "tx_rdma_retx_pkts", "rdma_retransmitted_packets_total"),
        ("efa", "retrans_pkts", "rdma_retransmitted_packets_total"),
        ("bng_en", "seq_err_naks_rcvd", "rdma_packet_seq_err_total"),
        ("bng_re", "rx_roce_discards", "rdma_port_rcv_discards_total"),
        (
            "mana",
            "requester_retries_exceeded",
            "rdma_req_transport_retries_exceeded_total",
        ),
        ("efa", "rx_drops", "rdma_port_rcv_discards_total"),
        ("erdma", "hw_rx_bytes_cnt", "rdma_port_rcv_data_bytes_total"),
        ("hfi1", "SDMAInt10,32", "rdma_hw_counter_total"),
    ] {
        assert_eq!(port(driver, word), expected, "{driver} {word}");
    }
}
