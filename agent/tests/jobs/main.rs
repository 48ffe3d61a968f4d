//! Whose each GPU is, on the nodes of a real Slurm: one daemon a node, each with a stand-in for NVIDIA's library.
//!
//! Needs root, Debian's slurmctld, slurmd and munge, and a C compiler where controllers of cgroup v1 are mounted too.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    unreachable_pub,
    missing_docs,
    reason = "a test fails by panicking, and looks at the process from outside"
)]

#[path = "../common/mod.rs"]
mod common;

mod blocked;
mod cluster;
mod ends;
mod faults;
mod free;
mod given;
mod hooks;
mod kinds;
mod ledger;
mod mig;
mod mix;
mod order;
mod rows;
mod seen;
mod spool;
mod stale;
mod table;
