//! The fabric of NVSwitches that a GPU must have joined before it can use its NVLinks.

use crate::gpu::metrics::row::metrics;
use crate::gpu::metrics::{GPU, gauge};

metrics! {
    ALL_FABRIC;
    FABRIC_STATE "gpu_fabric_state" Gauge None Core GPU, "nvmlDeviceGetGpuFabricInfoV",
        [gauge("DCGM_FI_DEV_FABRIC_MANAGER_STATUS").same()]
        "How far a GPU has joined the fabric: 1 not begun, 2 under way, 3 done; not shown where there is no fabric.";
    FABRIC_STATUS "gpu_fabric_status" Gauge None Detail GPU, "nvmlDeviceGetGpuFabricInfoV",
        [gauge("DCGM_FI_DEV_FABRIC_MANAGER_ERROR_CODE").same()]
        "How joining the fabric ended, 0 being well and the rest the driver's return codes.";
    FABRIC_UNHEALTHY "gpu_fabric_unhealthy" Gauge None Core &["gpu", "aspect"], "nvmlDeviceGetGpuFabricInfoV",
        []
        "Whether something is wrong with a GPU's fabric: degraded_bandwidth, route_recovery, route_unhealthy, access_timeout_recovery, incorrect_configuration.";
    FABRIC_HEALTH_MASK "gpu_fabric_health_mask" Gauge None Debug GPU, "nvmlDeviceGetGpuFabricInfoV",
        [gauge("DCGM_FI_DEV_FABRIC_HEALTH_MASK").same()]
        "The driver's bits of a fabric's health.";
    FABRIC_INFO "gpu_fabric_info" Info None Detail &["gpu", "cluster_uuid", "clique"], "nvmlDeviceGetGpuFabricInfoV", []
        "The cluster and the clique of a GPU's fabric.";
}
