//! GPU memory.

use super::row::metrics;
use super::{GPU, PART, amd, gauge};

metrics! {
    ALL_MEMORY;
    MEMORY_TOTAL "gpu_memory_total_bytes" Gauge Bytes Core PART, "nvmlDeviceGetMemoryInfo_v2; mem_info_vram_total, mem_banks of KFD",
        [gauge("DCGM_FI_DEV_FB_TOTAL").mebibytes(), amd("gpu_total_vram").mebibytes()]
        "Total memory of a GPU or GPU instance.";
    MEMORY_USED "gpu_memory_used_bytes" Gauge Bytes Core PART, "nvmlDeviceGetMemoryInfo_v2; mem_info_vram_used",
        [gauge("DCGM_FI_DEV_FB_USED").mebibytes(), amd("gpu_used_vram").mebibytes()]
        "Memory in use on a GPU or GPU instance, excluding reserved memory.";
    MEMORY_FREE "gpu_memory_free_bytes" Gauge Bytes Detail PART, "nvmlDeviceGetMemoryInfo_v2; mem_info_vram_{total,used}",
        [gauge("DCGM_FI_DEV_FB_FREE").mebibytes(), amd("gpu_free_vram").mebibytes()]
        "Free memory of a GPU or GPU instance.";
    MEMORY_RESERVED "gpu_memory_reserved_bytes" Gauge Bytes Detail PART, "nvmlDeviceGetMemoryInfo_v2",
        [gauge("DCGM_FI_DEV_FB_RESERVED").mebibytes()]
        "Memory of a GPU or GPU instance reserved by driver and firmware.";
    BAR1_TOTAL "gpu_bar1_total_bytes" Gauge Bytes Detail GPU, "nvmlDeviceGetBAR1MemoryInfo; mem_info_vis_vram_total",
        [gauge("DCGM_FI_DEV_BAR1_TOTAL").mebibytes(), amd("gpu_total_visible_vram").mebibytes()]
        "Size of BAR1, the PCIe window to GPU memory.";
    BAR1_USED "gpu_bar1_used_bytes" Gauge Bytes Detail GPU, "nvmlDeviceGetBAR1MemoryInfo; mem_info_vis_vram_used",
        [gauge("DCGM_FI_DEV_BAR1_USED").mebibytes(), amd("gpu_used_visible_vram").mebibytes()]
        "BAR1 memory of a GPU in use.";
    BAR1_FREE "gpu_bar1_free_bytes" Gauge Bytes Detail GPU, "nvmlDeviceGetBAR1MemoryInfo; mem_info_vis_vram_{total,used}",
        [gauge("DCGM_FI_DEV_BAR1_FREE").mebibytes(), amd("gpu_free_visible_vram").mebibytes()]
        "Free BAR1 memory of a GPU.";
}
