//! ECC errors, row remapping and page retirement, and the driver's recovery action.

use super::alias::join;
use super::amd::BLOCKS;
use super::row::metrics;
use super::{GPU, amd, counter, gauge};
use crate::metric::Alias;

const ECC: &[&str] = &["gpu", "kind", "scope"];
const KIND: &[&str] = &["gpu", "kind"];

/// Errors of one location.
const fn at(name: &'static str, only: &'static [(&'static str, &'static str)]) -> Alias {
    counter(name).only(only).same()
}

metrics! {
    ALL_ERRORS;
    RECOVERY_ACTION "gpu_recovery_action" Gauge None Core GPU, "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION",
        [gauge("DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION").same()]
        "Recovery action requested by the driver: 0 none, 1 reset the GPU, 2 reboot the node, 3 drain P2P, 4 drain and reset, 5 recover IMEX (R580: reset the bus), 6 reset the bus, 7 reboot the system.";
    ECC_MODE "gpu_ecc_mode" Gauge None Core GPU, "nvmlDeviceGetEccMode; ras/features",
        [gauge("DCGM_FI_DEV_ECC_CURRENT").same()]
        "Current ECC mode of a GPU: 1 enabled, 0 disabled.";
    ECC_MODE_PENDING "gpu_ecc_mode_pending" Gauge None Detail GPU, "nvmlDeviceGetEccMode",
        [gauge("DCGM_FI_DEV_ECC_PENDING").same()]
        "ECC mode of a GPU after its next reset: 1 enabled, 0 disabled.";
    ECC_ERRORS "gpu_ecc_errors_total" Counter None Core ECC, "NVML_FI_DEV_ECC_{SBE,DBE}_{VOL,AGG}_TOTAL; ras/*_err_count, ras/aca_*",
        [
            counter("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL").only(&[("kind", "corrected"), ("scope", "volatile")]).same(),
            counter("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL").only(&[("kind", "uncorrected"), ("scope", "volatile")]).same(),
            counter("DCGM_FI_DEV_ECC_SBE_AGG_TOTAL").only(&[("kind", "corrected"), ("scope", "aggregate")]).same(),
            counter("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL").only(&[("kind", "uncorrected"), ("scope", "aggregate")]).same(),
            amd("gpu_ecc_correct_total").only(&[("kind", "corrected"), ("scope", "volatile")]).same(),
            amd("gpu_ecc_uncorrect_total").only(&[("kind", "uncorrected"), ("scope", "volatile")]).same(),
            amd("gpu_ecc_deferred_total").only(&[("kind", "deferred"), ("scope", "volatile")]).same(),
        ]
        "ECC errors of a GPU, corrected, uncorrected or deferred, since the driver was loaded (volatile) or over the GPU's lifetime (aggregate).";
    ECC_LOCATION_ERRORS "gpu_ecc_location_errors_total" Counter None Detail &["gpu", "kind", "scope", "location"],
        "NVML_FI_DEV_ECC_*, nvmlDeviceGetSramEccErrorStatus; ras/*_err_count, ras/aca_*",
        (join::<{ 26 + BLOCKS.len() }>(&[
            at("DCGM_FI_DEV_ECC_SBE_VOL_L1", &[("kind", "corrected"), ("scope", "volatile"), ("location", "l1")]),
            at("DCGM_FI_DEV_ECC_SBE_VOL_L2", &[("kind", "corrected"), ("scope", "volatile"), ("location", "l2")]),
            at("DCGM_FI_DEV_ECC_SBE_VOL_DEV", &[("kind", "corrected"), ("scope", "volatile"), ("location", "dram")]),
            at("DCGM_FI_DEV_ECC_SBE_VOL_REG", &[("kind", "corrected"), ("scope", "volatile"), ("location", "register_file")]),
            at("DCGM_FI_DEV_ECC_SBE_VOL_TEX", &[("kind", "corrected"), ("scope", "volatile"), ("location", "texture")]),
            at("DCGM_FI_DEV_ECC_SBE_VOL_SRM", &[("kind", "corrected"), ("scope", "volatile"), ("location", "sram")]),
            at("DCGM_FI_DEV_ECC_SBE_AGG_L1", &[("kind", "corrected"), ("scope", "aggregate"), ("location", "l1")]),
            at("DCGM_FI_DEV_ECC_SBE_AGG_L2", &[("kind", "corrected"), ("scope", "aggregate"), ("location", "l2")]),
            at("DCGM_FI_DEV_ECC_SBE_AGG_DEV", &[("kind", "corrected"), ("scope", "aggregate"), ("location", "dram")]),
            at("DCGM_FI_DEV_ECC_SBE_AGG_REG", &[("kind", "corrected"), ("scope", "aggregate"), ("location", "register_file")]),
            at("DCGM_FI_DEV_ECC_SBE_AGG_TEX", &[("kind", "corrected"), ("scope", "aggregate"), ("location", "texture")]),
            at("DCGM_FI_DEV_ECC_SBE_AGG_SRM", &[("kind", "corrected"), ("scope", "aggregate"), ("location", "sram")]),
            at("DCGM_FI_DEV_ECC_DBE_VOL_L1", &[("kind", "uncorrected"), ("scope", "volatile"), ("location", "l1")]),
            at("DCGM_FI_DEV_ECC_DBE_VOL_L2", &[("kind", "uncorrected"), ("scope", "volatile"), ("location", "l2")]),
            at("DCGM_FI_DEV_ECC_DBE_VOL_DEV", &[("kind", "uncorrected"), ("scope", "volatile"), ("location", "dram")]),
            at("DCGM_FI_DEV_ECC_DBE_VOL_REG", &[("kind", "uncorrected"), ("scope", "volatile"), ("location", "register_file")]),
            at("DCGM_FI_DEV_ECC_DBE_VOL_TEX", &[("kind", "uncorrected"), ("scope", "volatile"), ("location", "texture")]),
            at("DCGM_FI_DEV_ECC_DBE_VOL_SRM", &[("kind", "uncorrected"), ("scope", "volatile"), ("location", "sram")]),
            at("DCGM_FI_DEV_ECC_DBE_VOL_CBU", &[("kind", "uncorrected"), ("scope", "volatile"), ("location", "cbu")]),
            at("DCGM_FI_DEV_ECC_DBE_AGG_L1", &[("kind", "uncorrected"), ("scope", "aggregate"), ("location", "l1")]),
            at("DCGM_FI_DEV_ECC_DBE_AGG_L2", &[("kind", "uncorrected"), ("scope", "aggregate"), ("location", "l2")]),
            at("DCGM_FI_DEV_ECC_DBE_AGG_DEV", &[("kind", "uncorrected"), ("scope", "aggregate"), ("location", "dram")]),
            at("DCGM_FI_DEV_ECC_DBE_AGG_REG", &[("kind", "uncorrected"), ("scope", "aggregate"), ("location", "register_file")]),
            at("DCGM_FI_DEV_ECC_DBE_AGG_TEX", &[("kind", "uncorrected"), ("scope", "aggregate"), ("location", "texture")]),
            at("DCGM_FI_DEV_ECC_DBE_AGG_SRM", &[("kind", "uncorrected"), ("scope", "aggregate"), ("location", "sram")]),
            at("DCGM_FI_DEV_ECC_DBE_AGG_CBU", &[("kind", "uncorrected"), ("scope", "aggregate"), ("location", "cbu")]),
        ], BLOCKS))
        "ECC errors of a GPU by location: dram, sram, l1, l2, register_file, texture, cbu, or a RAS block such as umc.";
    ECC_SRAM_UNCORRECTED "gpu_ecc_sram_uncorrected_errors_total" Counter None Detail &["gpu", "scope", "code"],
        "nvmlDeviceGetSramEccErrorStatus", []
        "Uncorrected SRAM ECC errors of a GPU by detection code: parity or secded.";
    ECC_SRAM_BUCKET "gpu_ecc_sram_bucket_errors_total" Counter None Detail &["gpu", "bucket"],
        "nvmlDeviceGetSramEccErrorStatus", []
        "Uncorrected SRAM ECC errors over a GPU's lifetime by unit: l2, sm, mcu, pcie, other.";
    ECC_SRAM_THRESHOLD "gpu_ecc_sram_threshold_exceeded" Gauge None Core GPU, "nvmlDeviceGetSramEccErrorStatus",
        [gauge("DCGM_FI_DEV_THRESHOLD_SRM").same()]
        "State of the vendor's threshold for uncorrected SRAM ECC errors of a GPU: 1 exceeded, 0 not exceeded.";
    ECC_SRAM_LACKING "gpu_ecc_sram_status_lacking" Gauge None Private GPU, "symbols of libnvidia-ml.so", []
        "Whether the driver of a GPU lacks the function for the SRAM error status, 1 or absent.";
    REMAPPED_ROWS "gpu_remapped_rows_total" Counter None Core KIND, "NVML_FI_DEV_REMAPPED_{COR,UNC}",
        [
            counter("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS").only(&[("kind", "corrected")]).same(),
            counter("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS").only(&[("kind", "uncorrected")]).same(),
        ]
        "Remapped rows of GPU memory by kind of error: corrected or uncorrected.";
    ROW_REMAP_PENDING "gpu_row_remap_pending" Gauge None Core GPU, "NVML_FI_DEV_REMAPPED_PENDING",
        [gauge("DCGM_FI_DEV_ROW_REMAP_PENDING").same()]
        "Pending row remapping of a GPU: 1 until the next GPU reset, else 0.";
    REPAIR_PENDING "gpu_repair_pending" Gauge None Core KIND, "nvmlDeviceGetRepairStatus", []
        "Pending repair of a GPU, of a memory channel (kind channel) or of compute units (tpc): 1 until a GPU reset, else 0.";
    ROW_REMAP_FAILURE "gpu_row_remap_failure" Gauge None Core GPU, "NVML_FI_DEV_REMAPPED_FAILURE",
        [gauge("DCGM_FI_DEV_ROW_REMAP_FAILURE").same()]
        "Row remapping failure of a GPU: 1 if a row could not be remapped, else 0.";
    ROW_REMAP_BANKS "gpu_row_remap_banks" Gauge None Detail &["gpu", "spares"], "nvmlDeviceGetRowRemapperHistogram",
        [
            gauge("DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_MAX").only(&[("spares", "max")]).same(),
            gauge("DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_HIGH").only(&[("spares", "high")]).same(),
            gauge("DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_PARTIAL").only(&[("spares", "partial")]).same(),
            gauge("DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_LOW").only(&[("spares", "low")]).same(),
            gauge("DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_NONE").only(&[("spares", "none")]).same(),
        ]
        "GPU memory banks by spare rows available for remapping: max, high, partial, low, none.";
    RETIRED_PAGES "gpu_retired_pages_total" Counter None Core KIND, "NVML_FI_DEV_RETIRED_{SBE,DBE}",
        [
            counter("DCGM_FI_DEV_RETIRED_SBE").only(&[("kind", "corrected")]).same(),
            counter("DCGM_FI_DEV_RETIRED_DBE").only(&[("kind", "uncorrected")]).same(),
        ]
        "Retired pages of GPU memory by kind of error: corrected or uncorrected.";
    RETIRED_PAGES_PENDING "gpu_retired_pages_pending" Gauge None Core GPU, "NVML_FI_DEV_RETIRED_PENDING",
        [counter("DCGM_FI_DEV_RETIRED_PENDING").same()]
        "Pending page retirement of a GPU: 1 until the next reboot, else 0.";
}
