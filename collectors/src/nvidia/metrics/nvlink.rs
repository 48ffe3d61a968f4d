//! NVLink: totals of all links of a GPU, and each link.

use crate::gpu::metrics::row::metrics;
use crate::gpu::metrics::{GPU, counter};

const KIND: &[&str] = &["gpu", "kind"];
const LINK: &[&str] = &["gpu", "link"];
const LINK_KIND: &[&str] = &["gpu", "link", "kind"];

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
            counter("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL").only(&[("kind", "crc_flit")]).same(),
            counter("DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL").only(&[("kind", "crc_data")]).same(),
            counter("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL").only(&[("kind", "replay")]).same(),
            counter("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL").only(&[("kind", "recovery")]).same(),
        ]
        "Errors of all NVLinks of a GPU: crc_flit, crc_data, ecc_data, replay, recovery; from NVLink 5 on receive, malformed_packet, buffer_overrun, remote, general, link_integrity, transmit_discard, symbol, effective, recovery_succeeded, recovery_failed.";
    NVLINK_LINK_UP "gpu_nvlink_link_up" Gauge None Detail LINK, "NVML_FI_DEV_NVLINK_GET_STATE, nvmlDeviceGetNvLinkState", []
        "State of an NVLink: 1 up, 0 down.";
    NVLINK_LINK_SPEED "gpu_nvlink_link_speed_bytes_per_second" Gauge BytesPerSecond Detail LINK, "NVML_FI_DEV_NVLINK_GET_SPEED (MB/s), NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON", []
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
        "Errors of an NVLink, by the kinds of gpu_nvlink_errors_total.";
    NVLINK_LINK_BER "gpu_nvlink_link_bit_error_ratio" Gauge Ratio Detail LINK_KIND, "NVML_FI_DEV_NVLINK_COUNT_{RAW,EFFECTIVE,SYMBOL}_BER", []
        "Bit error ratio (BER) of an NVLink: raw, effective (after FEC) or symbol.";
    NVLINK_LINK_FEC "gpu_nvlink_link_fec_codewords_total" Counter None Debug &["gpu", "link", "errors"], "NVML_FI_DEV_NVLINK_COUNT_FEC_HISTORY_*", []
        "FEC codewords of an NVLink by number of corrected symbols.";
}
