//! Metrics of NVIDIA GPUs only, and the list of every metric of the collector.

mod c2c;
mod fabric;
mod nvlink;
mod profiling;

use crate::Metric;
use crate::gpu::metrics::{THEMES, row};

pub use c2c::*;
pub use fabric::*;
pub use nvlink::*;
pub use profiling::*;

const OWN: &[&[&Metric]] = &[ALL_NVLINK, ALL_C2C, ALL_FABRIC, ALL_PROFILING];

/// Every metric of this collector.
pub static METRICS: [&Metric; row::count(&[THEMES, OWN])] = row::join(&[THEMES, OWN]);
