//! The unprivileged process: the loop that keeps snapshot, ledger and verdict, and what it reads and writes.

pub mod audit;
pub mod effect_queue;
pub mod event_loop;
pub mod fleet;
pub mod jobs;
pub mod journal;
pub mod lines;
pub mod mailbox;
pub mod refused;
pub mod release;
pub mod sockets;
pub mod start;
pub mod store;
mod web;

pub use start::main;
