//! From a line in the kernel's log to a drained node in a real slurmctld, and every way in which that can go wrong.
//!
//! Needs root and Debian's slurmctld, slurmd and munge.

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

mod audit;
mod brake;
mod bundle;
mod cluster;
mod controller;
mod crash;
mod crash_slots;
mod diskless;
mod guard;
mod history;
mod latency;
mod maintenance;
mod outages;
mod people;
mod register;
mod series;
mod slurmd;
mod straight;
