//! Parsed snapshots, shared by all checks.

pub mod gpu;
pub mod host;
pub mod known;
pub(crate) mod node;
pub mod port;
