//! GPU utilization, from the driver's own samples.

use super::row::metrics;
use super::{GPU, amd, gauge};

metrics! {
    ALL_LOAD;
    UTILIZATION "gpu_utilization_ratio" Gauge Ratio Core GPU, "nvmlDeviceGetUtilizationRates; gpu_metrics average_gfx_activity, gpu_busy_percent",
        [gauge("DCGM_FI_DEV_GPU_UTIL").percent(), amd("gpu_gfx_activity").percent()]
        "GPU utilization: share of the driver's last sample period in which at least one kernel was running.";
    MEMORY_UTILIZATION "gpu_memory_utilization_ratio" Gauge Ratio Core GPU, "nvmlDeviceGetUtilizationRates; gpu_metrics average_umc_activity, mem_busy_percent",
        [gauge("DCGM_FI_DEV_MEM_COPY_UTIL").percent(), amd("gpu_umc_activity").percent()]
        "Memory utilization: share of the driver's last sample period in which GPU memory was read or written.";
    ENCODER_UTILIZATION "gpu_encoder_utilization_ratio" Gauge Ratio Detail GPU, "nvmlDeviceGetEncoderUtilization",
        [gauge("DCGM_FI_DEV_ENC_UTIL").percent()]
        "Video encoder utilization of a GPU in the driver's last sample period.";
    DECODER_UTILIZATION "gpu_decoder_utilization_ratio" Gauge Ratio Detail GPU, "nvmlDeviceGetDecoderUtilization",
        [gauge("DCGM_FI_DEV_DEC_UTIL").percent()]
        "Video decoder utilization of a GPU in the driver's last sample period.";
    JPEG_UTILIZATION "gpu_jpeg_utilization_ratio" Gauge Ratio Detail GPU, "nvmlDeviceGetJpgUtilization; gpu_metrics jpeg_busy (mean of the engines)", []
        "JPEG decoder utilization of a GPU in the driver's last sample period (0-1).";
    OFA_UTILIZATION "gpu_ofa_utilization_ratio" Gauge Ratio Detail GPU, "nvmlDeviceGetOfaUtilization", []
        "Optical flow accelerator (OFA) utilization of a GPU in the driver's last sample period (0-1).";
}
