//! Profiling metrics from GPM (GPU performance monitoring), Hopper and newer. Each value is an average over a window that
//! the collector owns, so that scrapers do not disturb each other. Absent if the window is invalid.

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
        "Averaging window of the GPU profiling metrics in seconds; absent without a valid window.";
    GRAPHICS_ACTIVE "gpu_graphics_active_ratio" Gauge Ratio Core PART, "NVML_GPM_METRIC_GRAPHICS_UTIL",
        [gauge("DCGM_FI_PROF_GR_ENGINE_ACTIVE").same()]
        "Share of time in which the graphics or compute engine of a GPU was active (0-1).";
    SM_ACTIVE "gpu_sm_active_ratio" Gauge Ratio Core PART, "NVML_GPM_METRIC_SM_UTIL",
        [gauge("DCGM_FI_PROF_SM_ACTIVE").same()]
        "Share of time in which an SM was active, averaged over all SMs (0-1).";
    SM_OCCUPANCY "gpu_sm_occupancy_ratio" Gauge Ratio Core PART, "NVML_GPM_METRIC_SM_OCCUPANCY",
        [gauge("DCGM_FI_PROF_SM_OCCUPANCY").same()]
        "SM occupancy: resident warps relative to the maximum (0-1).";
    TENSOR_ACTIVE "gpu_tensor_active_ratio" Gauge Ratio Core PART, "NVML_GPM_METRIC_ANY_TENSOR_UTIL",
        [gauge("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE").same()]
        "Share of time in which the tensor cores were active (0-1).";
    DRAM_ACTIVE "gpu_dram_active_ratio" Gauge Ratio Core PART, "NVML_GPM_METRIC_DRAM_BW_UTIL",
        [gauge("DCGM_FI_PROF_DRAM_ACTIVE").same()]
        "Share of the GPU memory bandwidth in use (0-1).";
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
        "Share of time in which an SM pipe was active (0-1): fp64, fp32, fp16, integer, tensor_dfma, tensor_hmma, tensor_imma.";
    ENGINE_ACTIVE "gpu_engine_active_ratio" Gauge Ratio Detail &["gpu", "gpu_instance", "engine"],
        "NVML_GPM_METRIC_{NVDEC,NVJPG,NVOFA}_*_UTIL",
        [
            pipe("DCGM_FI_PROF_NVDEC0_ACTIVE", &[("engine", "nvdec0")]),
            pipe("DCGM_FI_PROF_NVDEC1_ACTIVE", &[("engine", "nvdec1")]),
            pipe("DCGM_FI_PROF_NVDEC2_ACTIVE", &[("engine", "nvdec2")]),
            pipe("DCGM_FI_PROF_NVDEC3_ACTIVE", &[("engine", "nvdec3")]),
            pipe("DCGM_FI_PROF_NVDEC4_ACTIVE", &[("engine", "nvdec4")]),
            pipe("DCGM_FI_PROF_NVDEC5_ACTIVE", &[("engine", "nvdec5")]),
            pipe("DCGM_FI_PROF_NVDEC6_ACTIVE", &[("engine", "nvdec6")]),
            pipe("DCGM_FI_PROF_NVDEC7_ACTIVE", &[("engine", "nvdec7")]),
            pipe("DCGM_FI_PROF_NVJPG0_ACTIVE", &[("engine", "nvjpg0")]),
            pipe("DCGM_FI_PROF_NVJPG1_ACTIVE", &[("engine", "nvjpg1")]),
            pipe("DCGM_FI_PROF_NVJPG2_ACTIVE", &[("engine", "nvjpg2")]),
            pipe("DCGM_FI_PROF_NVJPG3_ACTIVE", &[("engine", "nvjpg3")]),
            pipe("DCGM_FI_PROF_NVJPG4_ACTIVE", &[("engine", "nvjpg4")]),
            pipe("DCGM_FI_PROF_NVJPG5_ACTIVE", &[("engine", "nvjpg5")]),
            pipe("DCGM_FI_PROF_NVJPG6_ACTIVE", &[("engine", "nvjpg6")]),
            pipe("DCGM_FI_PROF_NVJPG7_ACTIVE", &[("engine", "nvjpg7")]),
            pipe("DCGM_FI_PROF_NVOFA0_ACTIVE", &[("engine", "nvofa0")]),
            pipe("DCGM_FI_PROF_NVOFA1_ACTIVE", &[("engine", "nvofa1")]),
        ]
        "Share of time in which a fixed-function engine was active (0-1): nvdec0 to 7, nvjpg0 to 7, nvofa0 and 1.";
    PCIE_TRANSMIT_RATE "gpu_pcie_transmit_bytes_per_second" Gauge BytesPerSecond Detail PART, "NVML_GPM_METRIC_PCIE_TX_PER_SEC (MiB/s)",
        [gauge("DCGM_FI_PROF_PCIE_TX_BYTES").whole()]
        "PCIe transmit rate of a GPU in the profiling window, in bytes per second.";
    PCIE_RECEIVE_RATE "gpu_pcie_receive_bytes_per_second" Gauge BytesPerSecond Detail PART, "NVML_GPM_METRIC_PCIE_RX_PER_SEC (MiB/s)",
        [gauge("DCGM_FI_PROF_PCIE_RX_BYTES").whole()]
        "PCIe receive rate of a GPU in the profiling window, in bytes per second.";
    NVLINK_TRANSMIT_RATE "gpu_nvlink_transmit_bytes_per_second" Gauge BytesPerSecond Detail PART, "NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC (MiB/s)",
        [gauge("DCGM_FI_PROF_NVLINK_TX_BYTES").whole()]
        "NVLink transmit rate of a GPU in the profiling window, in bytes per second.";
    NVLINK_RECEIVE_RATE "gpu_nvlink_receive_bytes_per_second" Gauge BytesPerSecond Detail PART, "NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC (MiB/s)",
        [gauge("DCGM_FI_PROF_NVLINK_RX_BYTES").whole()]
        "NVLink receive rate of a GPU in the profiling window, in bytes per second.";
    C2C_TRANSMIT_RATE "gpu_c2c_transmit_bytes_per_second" Gauge BytesPerSecond Detail PART, "NVML_GPM_METRIC_C2C_TOTAL_TX_PER_SEC (MiB/s)",
        [gauge("DCGM_FI_PROF_C2C_TX_ALL_BYTES").whole()]
        "NVLink-C2C transmit rate of a GPU in the profiling window, in bytes per second.";
    C2C_RECEIVE_RATE "gpu_c2c_receive_bytes_per_second" Gauge BytesPerSecond Detail PART, "NVML_GPM_METRIC_C2C_TOTAL_RX_PER_SEC (MiB/s)",
        [gauge("DCGM_FI_PROF_C2C_RX_ALL_BYTES").whole()]
        "NVLink-C2C receive rate of a GPU in the profiling window, in bytes per second.";
    SM_CYCLES "gpu_sm_cycles_total" Counter None Detail PART, "NVML_GPM_METRIC_SM_CYCLES_ELAPSED", []
        "Elapsed SM cycles of a GPU.";
    PIPE_CYCLES "gpu_pipe_active_cycles_total" Counter None Detail &["gpu", "gpu_instance", "pipe"],
        "NVML_GPM_METRIC_*_CYCLES_ACTIVE", []
        "Cycles in which an SM pipe was active: sm (any), tensor, tensor_dmma, tensor_hmma, tensor_imma, tensor_dfma, integer, fp64, fp32, fp16.";
}
