//! GPU metrics by theme.

mod alias;
mod amd;
mod clocks;
mod dcgm;
mod errors;
mod identity;
mod links;
mod load;
mod memory;
mod power;
pub(crate) mod row;

use crate::Metric;

pub(crate) use alias::AliasBuilder;
pub use amd::AMD_LABELS;
pub(crate) use amd::amd;
pub use clocks::*;
pub use dcgm::DCGM_LABELS;
pub(crate) use dcgm::{counter, gauge};
pub use errors::*;
pub use identity::*;
pub use links::*;
pub use load::*;
pub use memory::*;
pub use power::*;

/// Labels of metrics about a whole GPU.
pub(crate) const GPU: &[&str] = &["gpu"];
/// Labels of metrics that GPU instances (MIG) have too.
pub(crate) const PART: &[&str] = &["gpu", "gpu_instance"];

/// Every GPU metric by theme, in the order of the exposition.
pub(crate) const THEMES: &[&[&Metric]] = &[
    ALL_IDENTITY,
    ALL_LOAD,
    ALL_MEMORY,
    ALL_POWER,
    ALL_CLOCKS,
    ALL_ERRORS,
    ALL_LINKS,
];
