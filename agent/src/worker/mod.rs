//! A worker: one process per domain, which reads devices that may block for ever.

pub mod child;
mod collector;
pub mod monitor;
mod out;
pub mod proto;
mod watch;

pub use child::main;
