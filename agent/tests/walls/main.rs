//! What one of our processes, or a stranger, can do to the next.
//!
//! Needs root and FUSE.

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

mod access;
mod checks;
mod gpfs;
mod hostile_worker;
mod parent;
mod process_table;
mod runner;
mod scrapers;
mod stand_in;
mod web;
mod web_changes;
