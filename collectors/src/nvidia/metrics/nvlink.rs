//! NVLink: totals of all links of a GPU, and each link.

use crate::gpu::metrics::row::metrics;
use crate::gpu::metrics::{GPU, counter, gauge};
use crate::metric::Alias;

const KIND: &[&str] = &["gpu", "kind"];
const LINK: &[&str] = &["gpu", "link"];
const LINK_KIND: &[&str] = &["gpu", "link", "kind"];

/// Errors of one kind.
const fn kind(name: &'static str, only: &'static [(&'static str, &'static str)]) -> Alias {
    counter(name).only(only).same()
}

metrics! {
    ALL_NVLINK;
    NVLINK_LINKS "gpu_nvlink_links" Gauge None Core GPU, "NVML_FI_DEV_NVLINK_LINK_COUNT", []
        "NVLinks of a GPU, up or down.";
    NVLINK_LINKS_UP "gpu_nvlink_links_up" Gauge None Core GPU, "NVML_FI_DEV_NVLINK_GET_STATE, nvmlDeviceGetNvLinkState", []
        "NVLinks of a GPU that are up.";
    NVLINK_TRANSMITTED "gpu_nvlink_transmit_bytes_total" Counter Bytes Core GPU, "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX (KiB), NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES", []
        "Bytes sent over all NVLinks of a GPU.";
    NVLINK_RECEIVED "gpu_nvlink_receive_bytes_total" Counter Bytes Core GPU, "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX (KiB), NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES", []
        "Bytes received over all NVLinks of a GPU.";
    NVLINK_THROUGHPUT "gpu_nvlink_throughput_bytes_per_second" Gauge BytesPerSecond Debug GPU,
        "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_{TX,RX} (KiB), difference of two readings",
        [counter("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL").thousand_kibibytes()]
        "NVLink throughput of a GPU, sent plus received between two readings, for the dcgm-exporter page.";
    NVLINK_ERRORS "gpu_nvlink_errors_total" Counter None Core KIND,
        "NVML_FI_DEV_NVLINK_{CRC_FLIT,CRC_DATA,REPLAY,RECOVERY,ECC_DATA}_ERROR_COUNT_TOTAL, NVML_FI_DEV_NVLINK_COUNT_*",
        [
            kind("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", &[("kind", "crc_flit")]),
            kind("DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", &[("kind", "crc_data")]),
            kind("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", &[("kind", "replay")]),
            kind("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", &[("kind", "recovery")]),
            kind("DCGM_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_TOTAL", &[("kind", "ecc_data")]),
            kind("DCGM_FI_DEV_NVLINK_COUNT_RX_MALFORMED_PACKET_ERRORS", &[("kind", "malformed_packet")]),
            kind("DCGM_FI_DEV_NVLINK_COUNT_RX_BUFFER_OVERRUN_ERRORS", &[("kind", "buffer_overrun")]),
            kind("DCGM_FI_DEV_NVLINK_COUNT_RX_ERRORS", &[("kind", "receive")]),
            kind("DCGM_FI_DEV_NVLINK_COUNT_RX_REMOTE_ERRORS", &[("kind", "remote")]),
            kind("DCGM_FI_DEV_NVLINK_COUNT_RX_GENERAL_ERRORS", &[("kind", "general")]),
            kind("DCGM_FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS", &[("kind", "link_integrity")]),
            kind("DCGM_FI_DEV_NVLINK_COUNT_TX_DISCARDS", &[("kind", "transmit_discard")]),
            kind("DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS", &[("kind", "recovery_succeeded")]),
            kind("DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS", &[("kind", "recovery_failed")]),
            kind("DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS", &[("kind", "recovery_attempted")]),
            kind("DCGM_FI_DEV_NVLINK_COUNT_RX_SYMBOL_ERRORS", &[("kind", "symbol")]),
            kind("DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS", &[("kind", "effective")]),
        ]
        "Errors of all NVLinks of a GPU: crc_flit, crc_data, ecc_data, replay, recovery; from NVLink 4 on crc; from NVLink 5 on receive, malformed_packet, buffer_overrun, remote, general, link_integrity, transmit_discard, symbol, effective, recovery_attempted, recovery_succeeded, recovery_failed.";
    NVLINK_PACKETS_TRANSMITTED "gpu_nvlink_transmit_packets_total" Counter None Detail GPU, "NVML_FI_DEV_NVLINK_COUNT_XMIT_PACKETS",
        [counter("DCGM_FI_DEV_NVLINK_COUNT_TX_PACKETS").same()]
        "Packets sent over all NVLinks of a GPU, from NVLink 5 on.";
    NVLINK_PACKETS_RECEIVED "gpu_nvlink_receive_packets_total" Counter None Detail GPU, "NVML_FI_DEV_NVLINK_COUNT_RCV_PACKETS",
        [counter("DCGM_FI_DEV_NVLINK_COUNT_RX_PACKETS").same()]
        "Packets received over all NVLinks of a GPU, from NVLink 5 on.";
    NVLINK_COUNTED_TRANSMITTED "gpu_nvlink_counted_transmit_bytes_total" Counter Bytes Debug GPU, "NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES",
        [counter("DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES").same()]
        "Bytes sent over all NVLinks of a GPU by NVLink 5's own counters, for the dcgm-exporter page.";
    NVLINK_COUNTED_RECEIVED "gpu_nvlink_counted_receive_bytes_total" Counter Bytes Debug GPU, "NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES",
        [counter("DCGM_FI_DEV_NVLINK_COUNT_RX_BYTES").same()]
        "Bytes received over all NVLinks of a GPU by NVLink 5's own counters, for the dcgm-exporter page.";
    NVLINK_BER "gpu_nvlink_bit_error_ratio" Gauge Ratio Detail KIND, "NVML_FI_DEV_NVLINK_COUNT_{EFFECTIVE,SYMBOL}_BER",
        [
            gauge("DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER_FLOAT").only(&[("kind", "effective")]).same(),
            gauge("DCGM_FI_DEV_NVLINK_COUNT_SYMBOL_BER_FLOAT").only(&[("kind", "symbol")]).same(),
        ]
        "Bit error ratio (BER) of all NVLinks of a GPU: effective (after FEC) or symbol; the worst link's if the driver has no total.";
    NVLINK_FEC "gpu_nvlink_fec_codewords_total" Counter None Debug &["gpu", "errors"], "NVML_FI_DEV_NVLINK_COUNT_FEC_HISTORY_*",
        [
            kind("DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_0", &[("errors", "0")]),
            kind("DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_1", &[("errors", "1")]),
            kind("DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_2", &[("errors", "2")]),
            kind("DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_3", &[("errors", "3")]),
            kind("DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_4", &[("errors", "4")]),
            kind("DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_5", &[("errors", "5")]),
            kind("DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_6", &[("errors", "6")]),
            kind("DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_7", &[("errors", "7")]),
            kind("DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_8", &[("errors", "8")]),
            kind("DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_9", &[("errors", "9")]),
            kind("DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_10", &[("errors", "10")]),
            kind("DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_11", &[("errors", "11")]),
            kind("DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_12", &[("errors", "12")]),
            kind("DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_13", &[("errors", "13")]),
            kind("DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_14", &[("errors", "14")]),
            kind("DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_15", &[("errors", "15")]),
        ]
        "FEC codewords of all NVLinks of a GPU by number of corrected symbols.";
    NVLINK_LINK_UP "gpu_nvlink_link_up" Gauge None Detail LINK, "NVML_FI_DEV_NVLINK_GET_STATE, nvmlDeviceGetNvLinkState", []
        "State of an NVLink: 1 up, 0 down.";
    NVLINK_LINK_SPEED "gpu_nvlink_link_speed_bytes_per_second" Gauge BytesPerSecond Detail LINK, "NVML_FI_DEV_NVLINK_GET_SPEED, NVML_FI_DEV_NVLINK_SPEED_MBPS_Ln (MB/s)", []
        "Bandwidth of an NVLink in one direction, in bytes per second.";
    NVLINK_LINK_INFO "gpu_nvlink_link_info" Info None Detail &["gpu", "link", "version", "remote_kind", "remote_pci"],
        "nvmlDeviceGetNvLink{Version,RemoteDeviceType,RemotePciInfo_v2}", []
        "NVLink with its version and remote device: gpu, switch, cpu or unknown.";
    NVLINK_LINK_TRANSMITTED "gpu_nvlink_link_transmit_bytes_total" Counter Bytes Detail LINK, "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX (KiB), NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES", []
        "Bytes sent over an NVLink.";
    NVLINK_LINK_RECEIVED "gpu_nvlink_link_receive_bytes_total" Counter Bytes Detail LINK, "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX (KiB), NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES", []
        "Bytes received over an NVLink.";
    NVLINK_LINK_ERRORS "gpu_nvlink_link_errors_total" Counter None Detail LINK_KIND,
        "NVML_FI_DEV_NVLINK_*_ERROR_COUNT_Ln, NVML_FI_DEV_NVLINK_ERROR_DL_*, NVML_FI_DEV_NVLINK_COUNT_*", []
        "Errors of an NVLink, by the kinds of gpu_nvlink_errors_total except ecc_data.";
    NVLINK_LINK_BER "gpu_nvlink_link_bit_error_ratio" Gauge Ratio Detail LINK_KIND, "NVML_FI_DEV_NVLINK_COUNT_{EFFECTIVE,SYMBOL}_BER", []
        "Bit error ratio (BER) of an NVLink: effective (after FEC) or symbol.";
    NVLINK_LINK_FEC "gpu_nvlink_link_fec_codewords_total" Counter None Debug &["gpu", "link", "errors"], "NVML_FI_DEV_NVLINK_COUNT_FEC_HISTORY_*", []
        "FEC codewords of an NVLink by number of corrected symbols.";
}
