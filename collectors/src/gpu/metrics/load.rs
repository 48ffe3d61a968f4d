//! How busy a GPU is, by the driver's own samples.

use super::row::metrics;
use super::{GPU, gauge};

metrics! {
    ALL_LOAD;
    UTILIZATION "gpu_utilization_ratio" Gauge Ratio Core GPU, "nvmlDeviceGetUtilizationRates",
        [gauge("DCGM_FI_DEV_GPU_UTIL").percent()]
        "Share of the driver's last sample in which at least one kernel ran on a GPU.";
    MEMORY_UTILIZATION "gpu_memory_utilization_ratio" Gauge Ratio Core GPU, "nvmlDeviceGetUtilizationRates",
        [gauge("DCGM_FI_DEV_MEM_COPY_UTIL").percent()]
        "Share of the driver's last sample in which a GPU's memory was read or written.";
    ENCODER_UTILIZATION "gpu_encoder_utilization_ratio" Gauge Ratio Detail GPU, "nvmlDeviceGetEncoderUtilization",
        [gauge("DCGM_FI_DEV_ENC_UTIL").percent()]
        "Share of the driver's last sample in which a GPU's video encoders worked.";
    DECODER_UTILIZATION "gpu_decoder_utilization_ratio" Gauge Ratio Detail GPU, "nvmlDeviceGetDecoderUtilization",
        [gauge("DCGM_FI_DEV_DEC_UTIL").percent()]
        "Share of the driver's last sample in which a GPU's video decoders worked.";
    JPEG_UTILIZATION "gpu_jpeg_utilization_ratio" Gauge Ratio Detail GPU, "nvmlDeviceGetJpgUtilization", []
        "Share of the driver's last sample in which a GPU's JPEG decoders worked.";
    OFA_UTILIZATION "gpu_ofa_utilization_ratio" Gauge Ratio Detail GPU, "nvmlDeviceGetOfaUtilization", []
        "Share of the driver's last sample in which a GPU's optical flow accelerator worked.";
}
