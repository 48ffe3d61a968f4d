//! Parsed snapshots, shared by all checks.

pub mod gpu;
pub mod host;
pub mod known;
pub mod port;
