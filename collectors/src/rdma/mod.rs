//! Ports of InfiniBand, RoCE and other RDMA devices.

pub mod metrics;
