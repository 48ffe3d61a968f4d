//! AMD GPUs: what the kernel driver amdgpu shows in sysfs.

pub mod gpu_metrics;
