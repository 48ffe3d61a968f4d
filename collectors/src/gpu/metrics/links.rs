//! What a GPU is connected by, as its driver sees it: the PCI bus and the links between GPUs.

use super::row::metrics;
use super::{GPU, counter, gauge};

metrics! {
    ALL_LINKS;
    PCIE_GENERATION "gpu_pcie_link_generation" Gauge None Detail GPU, "nvmlDeviceGetCurrPcieLinkGeneration",
        [gauge("DCGM_FI_DEV_PCIE_LINK_GEN").same()]
        "Generation at which a GPU's PCI link runs, which GPUs lower while idle.";
    PCIE_GENERATION_MAX "gpu_pcie_link_generation_max" Gauge None Detail GPU, "nvmlDeviceGetMaxPcieLinkGeneration",
        [gauge("DCGM_FI_DEV_PCIE_MAX_LINK_GEN").same()]
        "Highest generation that a GPU and its slot offer.";
    PCIE_WIDTH "gpu_pcie_link_width" Gauge None Detail GPU, "nvmlDeviceGetCurrPcieLinkWidth",
        [gauge("DCGM_FI_DEV_PCIE_LINK_WIDTH").same()]
        "Lanes that a GPU's PCI link uses, as its driver sees it.";
    PCIE_WIDTH_MAX "gpu_pcie_link_width_max" Gauge None Detail GPU, "nvmlDeviceGetMaxPcieLinkWidth",
        [gauge("DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH").same()]
        "Most lanes that a GPU and its slot offer.";
    PCIE_REPLAYS "gpu_pcie_replays_total" Counter None Core GPU, "NVML_FI_DEV_PCIE_REPLAY_COUNTER",
        [counter("DCGM_FI_DEV_PCIE_REPLAY_COUNTER").same()]
        "Packets that a GPU had to send again over the PCI bus.";
    PCIE_ERRORS "gpu_pcie_errors_total" Counter None Detail &["gpu", "kind"], "NVML_FI_DEV_PCIE_COUNT_*, NVML_FI_DEV_PCIE_L0_TO_RECOVERY_COUNTER",
        [counter("DCGM_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS").only(&[("kind", "correctable")]).same()]
        "Errors of a GPU's PCI link: correctable, non_fatal, fatal, receiver, bad_tlp, bad_dllp, nak_received, nak_sent, unsupported_request, lcrc, lane, recovery.";
    PCIE_TRANSMITTED "gpu_pcie_transmit_bytes_total" Counter Bytes Core GPU, "NVML_GPM_METRIC_PCIE_TX (255)", []
        "Bytes that a GPU has sent over the PCI bus.";
    PCIE_RECEIVED "gpu_pcie_receive_bytes_total" Counter Bytes Core GPU, "NVML_GPM_METRIC_PCIE_RX (256)", []
        "Bytes that a GPU has received over the PCI bus.";
}
