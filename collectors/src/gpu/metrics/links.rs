//! PCIe link of a GPU, as reported by the driver.

use super::row::metrics;
use super::{GPU, amd, counter, gauge};

metrics! {
    ALL_LINKS;
    PCIE_GENERATION "gpu_pcie_link_generation" Gauge None Detail GPU, "nvmlDeviceGetCurrPcieLinkGeneration; gpu_metrics pcie_link_speed, current_link_speed",
        [gauge("DCGM_FI_DEV_PCIE_LINK_GEN").same()]
        "Current PCIe link generation of a GPU; idle GPUs lower it.";
    PCIE_GENERATION_MAX "gpu_pcie_link_generation_max" Gauge None Detail GPU, "nvmlDeviceGetMaxPcieLinkGeneration; max_link_speed",
        [gauge("DCGM_FI_DEV_PCIE_MAX_LINK_GEN").same()]
        "Maximum PCIe link generation of a GPU and its slot.";
    PCIE_WIDTH "gpu_pcie_link_width" Gauge None Detail GPU, "nvmlDeviceGetCurrPcieLinkWidth; gpu_metrics pcie_link_width, current_link_width",
        [gauge("DCGM_FI_DEV_PCIE_LINK_WIDTH").same()]
        "Current PCIe link width of a GPU in lanes, as reported by the driver.";
    PCIE_WIDTH_MAX "gpu_pcie_link_width_max" Gauge None Detail GPU, "nvmlDeviceGetMaxPcieLinkWidth; max_link_width",
        [gauge("DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH").same()]
        "Maximum PCIe link width of a GPU and its slot in lanes.";
    PCIE_REPLAYS "gpu_pcie_replays_total" Counter None Core GPU, "NVML_FI_DEV_PCIE_REPLAY_COUNTER; gpu_metrics pcie_replay_count_acc, pcie_replay_count",
        [counter("DCGM_FI_DEV_PCIE_REPLAY_COUNTER").same(), amd("pcie_replay_count").same()]
        "PCIe replays (retransmitted packets) of a GPU.";
    PCIE_ERRORS "gpu_pcie_errors_total" Counter None Detail &["gpu", "kind"], "NVML_FI_DEV_PCIE_COUNT_*, NVML_FI_DEV_PCIE_L0_TO_RECOVERY_COUNTER; gpu_metrics pcie_{l0_to_recov,nak_sent,nak_rcvd,replay_rover}_count_acc",
        [
            counter("DCGM_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS").only(&[("kind", "correctable")]).same(),
            amd("pcie_recovery_count").only(&[("kind", "recovery")]).same(),
            amd("pcie_replay_rollover_count").only(&[("kind", "replay_rollover")]).same(),
            amd("pcie_nack_sent_count").only(&[("kind", "nak_sent")]).same(),
            amd("pcie_nack_received_count").only(&[("kind", "nak_received")]).same(),
        ]
        "PCIe link errors of a GPU: correctable, non_fatal, fatal, receiver, bad_tlp, bad_dllp, nak_received, nak_sent, unsupported_request, lcrc, lane, recovery, replay_rollover.";
    PCIE_TRANSMITTED "gpu_pcie_transmit_bytes_total" Counter Bytes Core GPU, "NVML_GPM_METRIC_PCIE_TX (255)", []
        "Bytes sent by a GPU over PCIe.";
    PCIE_RECEIVED "gpu_pcie_receive_bytes_total" Counter Bytes Core GPU, "NVML_GPM_METRIC_PCIE_RX (256)", []
        "Bytes received by a GPU over PCIe.";
}
