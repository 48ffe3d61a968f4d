//! What other drivers than mlx5 call the counters that mlx5 has, and those of the PMA, which most of them lack. One table
//! for each driver; a word that several have means the same in all of them.

use super::row::{Row, Width};
use super::{hw, pma};
use crate::Metric;

/// A driver and its words.
pub(in crate::rdma) struct Driver {
    /// Its source below drivers/infiniband/hw or sw in Linux.
    #[cfg(test)]
    name: &'static str,
    rows: &'static [Row],
}

/// Words of a driver: its own, and the metric that says the same.
macro_rules! drivers {
    ($($driver:literal { $($word:literal => $metric:path,)* })*) => {
        static DRIVERS: &[Driver] = &[$(Driver {
            #[cfg(test)]
            name: $driver,
            rows: &[$(same($word, &$metric),)*],
        },)*];
    };
}

const fn same(file: &'static str, metric: &'static Metric) -> Row {
    Row {
        file,
        metric,
        // Whole bytes and packets, in 64 bits.
        scale: 1,
        width: Width::Wide,
    }
}

drivers! {
    // bnxt_re/hw_counters.c
    "bnxt_re" {
        "tx_cnp_pkts" => hw::NP_CNP_SENT,
        "rx_cnp_pkts" => hw::RP_CNP_HANDLED,
        "rx_ecn_marked_pkts" => hw::NP_ECN_MARKED_ROCE_PACKETS,
        "rx_out_of_buffer" => hw::OUT_OF_BUFFER,
        "oos_drop_count" => hw::OUT_OF_SEQUENCE,
        "seq_err_naks_rcvd" => hw::PACKET_SEQ_ERR,
        "rnr_naks_rcvd" => hw::RNR_NAK_RETRY_ERR,
        "to_retransmits" => hw::LOCAL_ACK_TIMEOUT_ERR,
        "max_retry_exceeded" => hw::REQ_TRANSPORT_RETRIES_EXCEEDED,
        "dup_req" => hw::DUPLICATE_REQUEST,
        "rx_write_req" => hw::RX_WRITE_REQUESTS,
        "rx_read_req" => hw::RX_READ_REQUESTS,
        "rx_atomic_req" => hw::RX_ATOMIC_REQUESTS,
        "remote_invalid_req_err" => hw::REQ_REMOTE_INVALID_REQUEST,
        "remote_access_err" => hw::REQ_REMOTE_ACCESS_ERRORS,
        "tx_bytes" => pma::PORT_XMIT_DATA,
        "rx_bytes" => pma::PORT_RCV_DATA,
        "tx_pkts" => pma::PORT_XMIT_PACKETS,
        "rx_pkts" => pma::PORT_RCV_PACKETS,
    }
    // irdma/verbs.c
    "irdma" {
        "cnpSent" => hw::NP_CNP_SENT,
        "cnpHandled" => hw::RP_CNP_HANDLED,
        "cnpIgnored" => hw::RP_CNP_IGNORED,
        "RxECNMrkd" => hw::NP_ECN_MARKED_ROCE_PACKETS,
    }
    // hns/hns_roce_hw_v2.c
    "hns" {
        "tx_cnp_pkt" => hw::NP_CNP_SENT,
        "rx_cnp_pkt" => hw::RP_CNP_HANDLED,
        "tx_pkt" => pma::PORT_XMIT_PACKETS,
        "rx_pkt" => pma::PORT_RCV_PACKETS,
    }
    // ionic: the firmware names them (ionic_hw_stats.c).
    "ionic" {
        "tx_rdma_cnp_pkts" => hw::NP_CNP_SENT,
        "rx_rdma_cnp_pkts" => hw::RP_CNP_HANDLED,
        "rx_rdma_ecn_pkts" => hw::NP_ECN_MARKED_ROCE_PACKETS,
        "req_rx_pkt_seq_err" => hw::PACKET_SEQ_ERR,
        "req_rx_rnr_retry_err" => hw::RNR_NAK_RETRY_ERR,
        "req_rx_impl_nak_seq_err" => hw::IMPLIED_NAK_SEQ_ERR,
        "req_tx_retry_excd_err" => hw::REQ_TRANSPORT_RETRIES_EXCEEDED,
        "resp_rx_dup_request" => hw::DUPLICATE_REQUEST,
        "resp_rx_outof_buf" => hw::OUT_OF_BUFFER,
        "resp_rx_outouf_seq" => hw::OUT_OF_SEQUENCE,
    }
    // mana/counters.c
    "mana" {
        "received_cnps" => hw::RP_CNP_HANDLED,
        "requester_timeout" => hw::LOCAL_ACK_TIMEOUT_ERR,
        "requester_oos_nak" => hw::PACKET_SEQ_ERR,
        "requester_rnr_nak" => hw::RNR_NAK_RETRY_ERR,
        "requester_retries_exceeded" => hw::REQ_TRANSPORT_RETRIES_EXCEEDED,
        "responder_oos" => hw::OUT_OF_SEQUENCE,
        "responder_dup_request" => hw::DUPLICATE_REQUEST,
        "rx_write_requests" => hw::RX_WRITE_REQUESTS,
        "rx_read_requests" => hw::RX_READ_REQUESTS,
        "tx_bytes" => pma::PORT_XMIT_DATA,
        "rx_bytes" => pma::PORT_RCV_DATA,
        "tx_packets" => pma::PORT_XMIT_PACKETS,
        "rx_packets" => pma::PORT_RCV_PACKETS,
    }
    // efa/efa_verbs.c
    "efa" {
        "tx_bytes" => pma::PORT_XMIT_DATA,
        "rx_bytes" => pma::PORT_RCV_DATA,
        "tx_pkts" => pma::PORT_XMIT_PACKETS,
        "rx_pkts" => pma::PORT_RCV_PACKETS,
    }
    // erdma/erdma_verbs.c
    "erdma" {
        "tx_bytes_cnt" => pma::PORT_XMIT_DATA,
        "rx_bytes_cnt" => pma::PORT_RCV_DATA,
        "tx_packets_cnt" => pma::PORT_XMIT_PACKETS,
        "rx_packets_cnt" => pma::PORT_RCV_PACKETS,
    }
    // rxe/rxe_hw_counters.c
    "rxe" {
        "sent_pkts" => pma::PORT_XMIT_PACKETS,
        "rcvd_pkts" => pma::PORT_RCV_PACKETS,
        "out_of_seq_request" => hw::OUT_OF_SEQUENCE,
        "rcvd_seq_err" => hw::PACKET_SEQ_ERR,
        "rcvd_rnr_err" => hw::RNR_NAK_RETRY_ERR,
        "retry_exceeded_err" => hw::REQ_TRANSPORT_RETRIES_EXCEEDED,
        "retry_rnr_exceeded_err" => hw::REQ_RNR_RETRIES_EXCEEDED,
        "link_downed" => pma::LINK_DOWNED,
    }
}

/// What a file of `hw_counters/` becomes, whoever's it is. A port that has a PMA counts there what belongs there.
pub(in crate::rdma) fn row(word: &str, has_pma: bool) -> Option<&'static Row> {
    let mut all = hw::ROWS.iter().chain(DRIVERS.iter().flat_map(|d| d.rows));
    let row = all.find(|row| row.file == word)?;
    let twice = has_pma && pma::METRICS.iter().any(|m| std::ptr::eq(*m, row.metric));
    (!twice).then_some(row)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn a_word_means_the_same_in_every_driver() {
        let mut meanings: BTreeMap<&str, &str> = hw::ROWS.iter().map(|r| (r.file, r.metric.name)).collect();
        for driver in DRIVERS {
            for row in driver.rows {
                let meaning = *meanings.entry(row.file).or_insert(row.metric.name);
                assert_eq!(meaning, row.metric.name, "{}: {}", driver.name, row.file);
            }
        }
    }

    #[test]
    fn what_a_port_counts_in_its_pma_is_not_counted_twice() {
        let name = |has_pma| row("link_downed", has_pma).map(|r| r.metric.name);
        assert_eq!((name(false), name(true)), (Some("rdma_link_downed_total"), None));
        assert!(row("np_cnp_sent", true).is_some() && row("made_up", false).is_none());
    }

    #[test]
    fn no_two_words_of_a_driver_are_one_counter() {
        for driver in DRIVERS {
            let mut seen = BTreeSet::new();
            for row in driver.rows {
                assert!(seen.insert(row.metric.name), "{}: {}", driver.name, row.file);
            }
        }
    }
}
