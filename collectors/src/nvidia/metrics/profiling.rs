//! What the parts of a GPU do, by its own counters (GPM): Hopper and newer. Each value is an average over a window of our
//! own, so that scrapers do not disturb each other. Absent where the window is not valid.

use crate::gpu::metrics::row::metrics;
use crate::gpu::metrics::{AliasBuilder, PART, gauge};
use crate::metric::Alias;

const fn pipe(name: &'static str, only: &'static [(&'static str, &'static str)]) -> Alias {
    let theirs: AliasBuilder = gauge(name);
    theirs.only(only).same()
}

metrics! {
    ALL_PROFILING;
    PROFILING_WINDOW "gpu_profiling_window_seconds" Gauge Seconds Detail PART, "nvmlGpmMetricsGet", []
        "Length of the window that the profiling values of a GPU are averages of; not shown while there is none.";
    GRAPHICS_ACTIVE "gpu_graphics_active_ratio" Gauge Ratio Core PART, "NVML_GPM_METRIC_GRAPHICS_UTIL",
        [gauge("DCGM_FI_PROF_GR_ENGINE_ACTIVE").same()]
        "Share of time in which a GPU's graphics or compute engine was active.";
    SM_ACTIVE "gpu_sm_active_ratio" Gauge Ratio Core PART, "NVML_GPM_METRIC_SM_UTIL",
        [gauge("DCGM_FI_PROF_SM_ACTIVE").same()]
        "Share of time in which a multiprocessor had work, averaged over all multiprocessors.";
    SM_OCCUPANCY "gpu_sm_occupancy_ratio" Gauge Ratio Core PART, "NVML_GPM_METRIC_SM_OCCUPANCY",
        [gauge("DCGM_FI_PROF_SM_OCCUPANCY").same()]
        "Warps that were resident on a multiprocessor, of the most that it holds.";
    TENSOR_ACTIVE "gpu_tensor_active_ratio" Gauge Ratio Core PART, "NVML_GPM_METRIC_ANY_TENSOR_UTIL",
        [gauge("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE").same()]
        "Share of time in which the tensor cores worked.";
    DRAM_ACTIVE "gpu_dram_active_ratio" Gauge Ratio Core PART, "NVML_GPM_METRIC_DRAM_BW_UTIL",
        [gauge("DCGM_FI_PROF_DRAM_ACTIVE").same()]
        "Share of a GPU's memory bandwidth that was used.";
    PIPE_ACTIVE "gpu_pipe_active_ratio" Gauge Ratio Detail &["gpu", "gpu_instance", "pipe"],
        "NVML_GPM_METRIC_{FP64,FP32,FP16,INTEGER,DFMA_TENSOR,HMMA_TENSOR,IMMA_TENSOR}_UTIL",
        [
            pipe("DCGM_FI_PROF_PIPE_FP64_ACTIVE", &[("pipe", "fp64")]),
            pipe("DCGM_FI_PROF_PIPE_FP32_ACTIVE", &[("pipe", "fp32")]),
            pipe("DCGM_FI_PROF_PIPE_FP16_ACTIVE", &[("pipe", "fp16")]),
            pipe("DCGM_FI_PROF_PIPE_INT_ACTIVE", &[("pipe", "integer")]),
            pipe("DCGM_FI_PROF_PIPE_TENSOR_DFMA_ACTIVE", &[("pipe", "tensor_dfma")]),
            pipe("DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE", &[("pipe", "tensor_hmma")]),
            pipe("DCGM_FI_PROF_PIPE_TENSOR_IMMA_ACTIVE", &[("pipe", "tensor_imma")]),
        ]
        "Share of time in which a pipe of the multiprocessors worked: fp64, fp32, fp16, integer, tensor_dfma, tensor_hmma, tensor_imma.";
    ENGINE_ACTIVE "gpu_engine_active_ratio" Gauge Ratio Detail &["gpu", "gpu_instance", "engine"],
        "NVML_GPM_METRIC_{NVDEC,NVJPG,NVOFA}_*_UTIL", []
        "Share of time in which a fixed-function engine worked: nvdec0 to 7, nvjpg0 to 7, nvofa0 and 1.";
    PCIE_TRANSMIT_RATE "gpu_pcie_transmit_bytes_per_second" Gauge BytesPerSecond Detail PART, "NVML_GPM_METRIC_PCIE_TX_PER_SEC (MiB/s)",
        [gauge("DCGM_FI_PROF_PCIE_TX_BYTES").whole()]
        "Bytes per second that a GPU sent over the PCI bus in the window.";
    PCIE_RECEIVE_RATE "gpu_pcie_receive_bytes_per_second" Gauge BytesPerSecond Detail PART, "NVML_GPM_METRIC_PCIE_RX_PER_SEC (MiB/s)",
        [gauge("DCGM_FI_PROF_PCIE_RX_BYTES").whole()]
        "Bytes per second that a GPU received over the PCI bus in the window.";
    NVLINK_TRANSMIT_RATE "gpu_nvlink_transmit_bytes_per_second" Gauge BytesPerSecond Detail PART, "NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC (MiB/s)",
        [gauge("DCGM_FI_PROF_NVLINK_TX_BYTES").whole()]
        "Bytes per second that a GPU sent over its NVLinks in the window.";
    NVLINK_RECEIVE_RATE "gpu_nvlink_receive_bytes_per_second" Gauge BytesPerSecond Detail PART, "NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC (MiB/s)",
        [gauge("DCGM_FI_PROF_NVLINK_RX_BYTES").whole()]
        "Bytes per second that a GPU received over its NVLinks in the window.";
    C2C_TRANSMIT_RATE "gpu_c2c_transmit_bytes_per_second" Gauge BytesPerSecond Detail PART, "NVML_GPM_METRIC_C2C_TOTAL_TX_PER_SEC (MiB/s)", []
        "Bytes per second that a GPU sent to the processor on its module in the window.";
    C2C_RECEIVE_RATE "gpu_c2c_receive_bytes_per_second" Gauge BytesPerSecond Detail PART, "NVML_GPM_METRIC_C2C_TOTAL_RX_PER_SEC (MiB/s)", []
        "Bytes per second that a GPU received from the processor on its module in the window.";
    SM_CYCLES "gpu_sm_cycles_total" Counter None Detail PART, "NVML_GPM_METRIC_SM_CYCLES_ELAPSED", []
        "Cycles of the multiprocessors that have passed.";
    PIPE_CYCLES "gpu_pipe_active_cycles_total" Counter None Detail &["gpu", "gpu_instance", "pipe"],
        "NVML_GPM_METRIC_*_CYCLES_ACTIVE", []
        "Cycles in which a pipe of the multiprocessors worked: sm (any), tensor, tensor_dmma, tensor_hmma, tensor_imma, tensor_dfma, integer, fp64, fp32, fp16.";
}
