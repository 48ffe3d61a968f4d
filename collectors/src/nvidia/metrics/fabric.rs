//! NVSwitch fabric: a GPU must register with it before it can use its NVLinks.

use crate::gpu::metrics::row::metrics;
use crate::gpu::metrics::{GPU, gauge};

metrics! {
    ALL_FABRIC;
    FABRIC_STATE "gpu_fabric_state" Gauge None Core GPU, "nvmlDeviceGetGpuFabricInfoV",
        []
        "Fabric registration state of a GPU: 1 not started, 2 in progress, 3 completed; absent without a fabric.";
    FABRIC_STATUS "gpu_fabric_status" Gauge None Detail GPU, "nvmlDeviceGetGpuFabricInfoV",
        []
        "Result of the fabric registration as the driver's return code, 0 is success.";
    FABRIC_UNHEALTHY "gpu_fabric_unhealthy" Gauge None Core &["gpu", "aspect"], "nvmlDeviceGetGpuFabricInfoV",
        []
        "Fabric health of a GPU by aspect, 1 if unhealthy, else 0: degraded_bandwidth, route_recovery, route_unhealthy, access_timeout_recovery, partition_unassigned, manager_disconnected, incorrect_configuration.";
    FABRIC_HEALTH_MASK "gpu_fabric_health_mask" Gauge None Debug GPU, "nvmlDeviceGetGpuFabricInfoV",
        [gauge("DCGM_FI_DEV_FABRIC_HEALTH_MASK").same()]
        "Fabric health of a GPU as the driver's bitmask.";
    FABRIC_HEALTH_SUMMARY "gpu_fabric_health" Gauge None Core GPU, "nvmlDeviceGetGpuFabricInfoV",
        [gauge("DCGM_FI_DEV_FABRIC_HEALTH_SUMMARY").same()]
        "Fabric health of a GPU as the driver's summary: 1 healthy, 2 unhealthy, 3 limited capacity; absent before driver R580.";
    FABRIC_INFO "gpu_fabric_info" Info None Detail &["gpu", "cluster_uuid", "clique"], "nvmlDeviceGetGpuFabricInfoV", []
        "Fabric cluster UUID and clique ID of a GPU.";
}
