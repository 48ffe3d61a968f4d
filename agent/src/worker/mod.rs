//! A worker: one process per domain, which reads devices that may block for ever.

pub mod child;
pub mod monitor;
pub mod proto;

pub use child::main;
