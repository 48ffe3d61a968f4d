//! What checks read of a snapshot, each thing once for all of them.

pub mod gpu;
pub mod host;
pub mod known;
pub mod port;
