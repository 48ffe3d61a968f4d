//! Aliases on the page of AMD's device-metrics-exporter: its names, the labels that it puts on every series of a GPU, and
//! its units. It declares every metric as a gauge, counters too.

use super::AMD_INFO;
use super::alias::AliasBuilder;
use crate::metric::{Alias, Join, Joined, Kind};

/// The compatibility page of AMD's device-metrics-exporter.
const PAGE: &str = "amd";

/// Labels that the exporter puts on every series of a GPU. Those of jobs and pods are not known to a collector.
pub static AMD_LABELS: Join = Join {
    info: &AMD_INFO,
    by: &["gpu", "gpu_instance"],
    labels: &[
        ("gpu_id", "gpu_id"),
        ("gpu_uuid", "uuid"),
        ("gpu_partition_id", "partition_id"),
        ("gpu_compute_partition_type", "compute"),
        ("gpu_memory_partition_type", "memory"),
        ("card_series", "series"),
        ("card_model", "model"),
        ("serial_number", "serial"),
        ("driver_version", "driver"),
        ("vbios_version", "vbios"),
        ("hostname", "hostname"),
    ],
};

/// A metric of a GPU.
pub(crate) const fn amd(name: &'static str) -> AliasBuilder {
    AliasBuilder::new(PAGE, name, Kind::Gauge, Joined::Amd)
}

/// Errors of one RAS block, by kind.
macro_rules! blocks {
    ($($name:literal $location:literal)*) => {
        &[$(
            amd(concat!("gpu_ecc_correct_", $name))
                .only(&[("kind", "corrected"), ("scope", "volatile"), ("location", $location)])
                .same(),
            amd(concat!("gpu_ecc_uncorrect_", $name))
                .only(&[("kind", "uncorrected"), ("scope", "volatile"), ("location", $location)])
                .same(),
            amd(concat!("gpu_ecc_deferred_", $name))
                .only(&[("kind", "deferred"), ("scope", "volatile"), ("location", $location)])
                .same(),
        )*]
    };
}

/// ECC errors by RAS block. The exporter calls the block `pcie_bif` of the driver `bif`.
pub(super) const BLOCKS: &[Alias] = blocks!(
    "sdma" "sdma"
    "gfx" "gfx"
    "mmhub" "mmhub"
    "athub" "athub"
    "bif" "pcie_bif"
    "hdp" "hdp"
    "xgmi_wafl" "xgmi_wafl"
    "df" "df"
    "smn" "smn"
    "sem" "sem"
    "mp0" "mp0"
    "mp1" "mp1"
    "fuse" "fuse"
    "umc" "umc"
    "mca" "mca"
    "vcn" "vcn"
    "jpeg" "jpeg"
    "ih" "ih"
    "mpio" "mpio"
);
