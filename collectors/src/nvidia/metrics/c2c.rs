//! NVLink-C2C: links between a GPU and the CPU on its module.

use crate::gpu::metrics::row::metrics;
use crate::gpu::metrics::{AliasBuilder, GPU, counter, gauge};
use crate::metric::Alias;

const LINK: &[&str] = &["gpu", "link"];

/// DCGM queries these fields of link 0.
const fn first(theirs: AliasBuilder) -> AliasBuilder {
    theirs.only(&[("link", "0")])
}

/// Errors of link 0 of one kind.
const fn errors(name: &'static str, only: &'static [(&'static str, &'static str)]) -> Alias {
    counter(name).only(only).same()
}

metrics! {
    ALL_C2C;
    C2C_LINKS "gpu_c2c_links" Gauge None Core GPU, "NVML_FI_DEV_C2C_LINK_COUNT",
        [gauge("DCGM_FI_DEV_C2C_LINK_COUNT").same()]
        "NVLink-C2C links of a GPU to the CPU on its module.";
    C2C_LINKS_UP "gpu_c2c_links_up" Gauge None Core GPU, "NVML_FI_DEV_C2C_LINK_GET_STATUS", []
        "NVLink-C2C links of a GPU that are up.";
    C2C_LINK_UP "gpu_c2c_link_up" Gauge None Detail LINK, "NVML_FI_DEV_C2C_LINK_GET_STATUS",
        [first(gauge("DCGM_FI_DEV_C2C_LINK_STATUS")).same()]
        "State of an NVLink-C2C link: 1 up, 0 down.";
    C2C_LINK_SPEED "gpu_c2c_link_speed_bytes_per_second" Gauge BytesPerSecond Detail LINK, "NVML_FI_DEV_C2C_LINK_GET_MAX_BW (MB/s)",
        [first(gauge("DCGM_FI_DEV_C2C_MAX_BANDWIDTH")).megabytes()]
        "Maximum bandwidth of an NVLink-C2C link in bytes per second.";
    C2C_LINK_ERRORS "gpu_c2c_link_errors_total" Counter None Detail &["gpu", "link", "kind"],
        "NVML_FI_DEV_C2C_LINK_ERROR_{INTR,REPLAY,REPLAY_B2B}",
        [
            errors("DCGM_FI_DEV_C2C_LINK_ERROR_INTR", &[("link", "0"), ("kind", "interrupt")]),
            errors("DCGM_FI_DEV_C2C_LINK_ERROR_REPLAY", &[("link", "0"), ("kind", "replay")]),
            errors("DCGM_FI_DEV_C2C_LINK_ERROR_REPLAY_B2B", &[("link", "0"), ("kind", "replay_back_to_back")]),
        ]
        "Errors of an NVLink-C2C link: interrupt (CRC errors), replay, replay_back_to_back.";
}
