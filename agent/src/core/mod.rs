//! Snapshot (what the node looks like now) and ledger (what has happened), and the loop that keeps them.

pub mod daemon;
pub mod derive;
pub mod effects;
pub mod fleet;
pub mod jobs;
pub mod journal;
pub mod ledger;
pub mod mailbox;
pub mod release;
pub mod snapshot;
pub mod sockets;
pub mod start;
pub mod store;

pub use start::main;
