//! Metrics that have the same meaning for GPUs of every maker.
//!
//! A GPU is named by the label `gpu`: `GPU-<uuid>`, or `pci:<address>` until a driver names it. [`metrics::INFO`]
//! has its other properties. A partition that is used as a separate GPU also has the label `gpu_instance`, which is
//! empty on a whole GPU.

pub(crate) mod identity;
pub mod metrics;
pub(crate) mod process;
pub mod recovery;
