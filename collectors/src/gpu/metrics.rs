//! The metrics of GPUs, by theme.

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

pub use clocks::*;
pub use dcgm::DCGM_LABELS;
pub(crate) use dcgm::{AliasBuilder, counter, gauge};
pub use errors::*;
pub use identity::*;
pub use links::*;
pub use load::*;
pub use memory::*;
pub use power::*;

/// The labels of everything about a GPU as a whole.
pub(crate) const GPU: &[&str] = &["gpu"];
/// The labels of what a part of a GPU has too.
pub(crate) const PART: &[&str] = &["gpu", "gpu_instance"];

/// All of them, by theme, in the order of the exposition.
pub(crate) const THEMES: &[&[&Metric]] = &[
    ALL_IDENTITY,
    ALL_LOAD,
    ALL_MEMORY,
    ALL_POWER,
    ALL_CLOCKS,
    ALL_ERRORS,
    ALL_LINKS,
];
