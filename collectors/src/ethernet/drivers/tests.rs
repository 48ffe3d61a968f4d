use std::collections::BTreeSet;

use super::*;
use crate::ethernet::metrics as m;
use crate::{Kind, Metric};

/// What becomes of a driver's words: metric, number, label.
fn known(driver: &str, word: &str) -> Option<(&'static Metric, Option<u8>, Option<&'static str>)> {
    let rows = EthernetDriver::named(driver).unwrap().rows;
    rows.iter()
        .find_map(|r| Some((r.metric, r.matches(word)?, r.label)))
}

#[test]
fn each_driver_has_its_words() {
    for (driver, word, metric, number, label) in [
        ("mlx5_core", "rx_prio3_pause", &m::PFC_RX_FRAMES, Some(3), None),
        (
            "mlx5_core",
            "tx_prio0_pause_duration",
            &m::PFC_TX_PAUSE,
            Some(0),
            None,
        ),
        (
            "mlx5_core",
            "rx_prio7_cong_discard",
            &m::PRIORITY_DISCARDS,
            Some(7),
            Some("congestion"),
        ),
        (
            "mlx5_core",
            "rx_err_lane_2_phy",
            &m::PHY_LANE_ERRORS,
            Some(2),
            None,
        ),
        (
            "mlx5_core",
            "tx_pause_storm_error_events",
            &m::PAUSE_STORM_EVENTS,
            None,
            Some("error"),
        ),
        (
            "mlx5_core.sf",
            "outbound_pci_stalled_wr",
            &m::PCI_STALLED,
            None,
            Some("write"),
        ),
        (
            "bnxt_en",
            "rx_pfc_ena_frames_pri3",
            &m::PFC_RX_FRAMES,
            Some(3),
            None,
        ),
        (
            "bnxt_en",
            "pfc_pri5_tx_duration_us",
            &m::PFC_TX_PAUSE,
            Some(5),
            None,
        ),
        (
            "bnxt_en",
            "continuous_pause_events",
            &m::PAUSE_STORM_EVENTS,
            None,
            Some("any"),
        ),
        ("ice", "rx_priority_3_xon.nic", &m::PFC_RX_FRAMES, Some(3), None),
        ("ice", "rx_priority_3_xoff.nic", &m::PFC_RX_FRAMES, Some(3), None),
        (
            "ionic",
            "rx_pripause_3_1us_count",
            &m::PFC_RX_PAUSE,
            Some(3),
            None,
        ),
        ("ionic", "rx_pause_1us_count", &m::PAUSE_RX_SECONDS, None, None),
        (
            "ionic",
            "frames_tx_pripause",
            &m::PFC_TX_FRAMES,
            None,
            Some("all"),
        ),
        (
            "hns3",
            "mac_tx_pfc_pri6_pkt_num",
            &m::PFC_TX_FRAMES,
            Some(6),
            None,
        ),
        ("mlx5_core", "rx_global_pause", &m::PAUSE_RX_FRAMES, None, None),
        (
            "mlx5_core",
            "tx_global_pause_duration",
            &m::PAUSE_TX_SECONDS,
            None,
            None,
        ),
        (
            "mlx5_core",
            "rx_global_pause_transition",
            &m::PAUSE_RX_TRANSITIONS,
            None,
            None,
        ),
        ("mlx5_core", "tx_discards_phy", &m::TX_DISCARDS, None, None),
        (
            "mlx5_core",
            "tx_prio7_bytes",
            &m::PRIORITY_TX_BYTES,
            Some(7),
            None,
        ),
        ("bnxt_en", "tx_stat_discard", &m::TX_DISCARDS, None, None),
        ("bnxt_en", "rx_bytes_pri3", &m::PRIORITY_RX_BYTES, Some(3), None),
        ("ice", "link_xoff_tx.nic", &m::PAUSE_TX_FRAMES, None, None),
        ("ionic", "frames_rx_pause", &m::PAUSE_RX_FRAMES, None, None),
        ("hns3", "mac_tx_mac_pause_num", &m::PAUSE_TX_FRAMES, None, None),
        (
            "mlx4_core",
            "rx_pause_transition",
            &m::PAUSE_RX_TRANSITIONS,
            None,
            None,
        ),
        (
            "mlx4_core",
            "rx_prio_2_bytes",
            &m::PRIORITY_RX_BYTES,
            Some(2),
            None,
        ),
        ("mlx4_core", "rx_pause_prio_1", &m::PFC_RX_FRAMES, Some(1), None),
        ("mlx4_core", "tx_pause", &m::PAUSE_TX_FRAMES, None, None),
    ] {
        assert_eq!(
            known(driver, word),
            Some((metric, number, label)),
            "{driver} {word}"
        );
    }
    for (driver, word) in [
        ("mlx5_core", "rx_prio8_pause"),
        ("mlx5_core", "rx_prio33_pause"),
        ("mlx5_core", "rx_prio_pause"),
        ("mlx5_core", "rx_global_pauses"),
        ("mlx5_core", "rx_prio3_packets"),
        ("bnxt_en", "rx_bytes"),
        ("ice", "tx_dropped_link_down.nic"),
        ("mlx4_core", "rx_pause_duration"),
        ("mlx5_core", "rx_prio3_pause_durations"),
        ("mlx5_core", "outbound_pci_stalled_rd_events"),
        ("bnxt_en", "rx_discard_packets_cos3"),
        ("hns3", "mac_rx_pfc_pri0_xoff_time"),
        ("mlx4_core", "rx_pause_duration_prio_3"),
    ] {
        assert_eq!(known(driver, word), None, "{driver} {word}");
    }
    assert!(EthernetDriver::named("virtio_net").is_none() && EthernetDriver::named("").is_none());
}

#[test]
fn every_row_fits_the_labels_and_the_unit_of_its_metric() {
    for driver in DRIVERS {
        for row in driver.rows {
            let numbers = row.matches(&row_word(row)).unwrap().into_iter().count();
            let labels = 3 + numbers + row.label.into_iter().count();
            // Of all priorities together there is a word in place of the number.
            assert_eq!(labels, row.metric.labels.len(), "{} {row:?}", driver.name);
            let unit = row.metric.unit;
            let fits = match row.scale {
                Scale::Microseconds => unit == crate::Unit::Seconds,
                Scale::Percent => unit == crate::Unit::Ratio && row.metric.kind == Kind::Gauge,
                Scale::One => {
                    let is_count = matches!(unit, crate::Unit::None | crate::Unit::Bytes);
                    is_count && row.metric.kind == Kind::Counter
                }
            };
            assert!(fits, "{} {row:?}", driver.name);
        }
    }
}

/// A word that the row takes.
fn row_word(row: &Row) -> String {
    let text = format!("{row:?}");
    let word = text.split('"').nth(1).unwrap();
    word.replace('#', "3")
}

/// Rows of one count are either parts of it or names of it.
#[test]
fn every_name_of_a_count_says_that_it_is_one() {
    for driver in DRIVERS {
        for (row, other) in driver
            .rows
            .iter()
            .flat_map(|r| driver.rows.iter().map(move |o| (r, o)))
        {
            if row.is_same(other) {
                assert_eq!(row.is_other_name, other.is_other_name, "{} {row:?}", driver.name);
            }
        }
    }
}

#[test]
fn no_word_has_two_meanings() {
    for driver in DRIVERS {
        let words: BTreeSet<String> = driver.rows.iter().map(row_word).collect();
        assert_eq!(words.len(), driver.rows.len(), "{}", driver.name);
        for word in &words {
            let taken = driver.rows.iter().filter(|r| r.matches(word).is_some()).count();
            assert_eq!(taken, 1, "{} {word}", driver.name);
        }
    }
}
