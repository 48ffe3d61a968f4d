//! A GPU's memory.

use super::row::metrics;
use super::{GPU, PART, gauge};

metrics! {
    ALL_MEMORY;
    MEMORY_TOTAL "gpu_memory_total_bytes" Gauge Bytes Core PART, "nvmlDeviceGetMemoryInfo_v2",
        [gauge("DCGM_FI_DEV_FB_TOTAL").mebibytes()]
        "Memory of a GPU, or of each of the instances that it is divided into.";
    MEMORY_USED "gpu_memory_used_bytes" Gauge Bytes Core PART, "nvmlDeviceGetMemoryInfo_v2",
        [gauge("DCGM_FI_DEV_FB_USED").mebibytes()]
        "Memory that programs have allocated on a GPU, without what the driver keeps for itself.";
    MEMORY_FREE "gpu_memory_free_bytes" Gauge Bytes Detail PART, "nvmlDeviceGetMemoryInfo_v2",
        [gauge("DCGM_FI_DEV_FB_FREE").mebibytes()]
        "Memory of a GPU that programs can still allocate.";
    MEMORY_RESERVED "gpu_memory_reserved_bytes" Gauge Bytes Detail PART, "nvmlDeviceGetMemoryInfo_v2",
        [gauge("DCGM_FI_DEV_FB_RESERVED").mebibytes()]
        "Memory of a GPU that driver and firmware keep for themselves.";
    BAR1_TOTAL "gpu_bar1_total_bytes" Gauge Bytes Detail GPU, "nvmlDeviceGetBAR1MemoryInfo",
        [gauge("DCGM_FI_DEV_BAR1_TOTAL").mebibytes()]
        "Size of the window through which the PCI bus reaches a GPU's memory.";
    BAR1_USED "gpu_bar1_used_bytes" Gauge Bytes Detail GPU, "nvmlDeviceGetBAR1MemoryInfo",
        [gauge("DCGM_FI_DEV_BAR1_USED").mebibytes()]
        "How much of the window to a GPU's memory is in use.";
    BAR1_FREE "gpu_bar1_free_bytes" Gauge Bytes Detail GPU, "nvmlDeviceGetBAR1MemoryInfo",
        [gauge("DCGM_FI_DEV_BAR1_FREE").mebibytes()]
        "How much of the window to a GPU's memory is free.";
}
