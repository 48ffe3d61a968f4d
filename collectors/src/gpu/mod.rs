//! What every maker's GPUs have in common: the metrics that mean the same whoever reads them.
//!
//! A GPU is named by the label `gpu`, which is `GPU-<uuid>`, or `pci:<address>` while no driver ever named it. What else
//! there is to say of it stands on [`metrics::INFO`]. A part of a GPU that is used as a GPU of its own has the label
//! `gpu_instance` too; on a whole GPU that label is empty.

pub mod metrics;
