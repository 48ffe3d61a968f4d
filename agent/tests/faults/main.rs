//! Workers, files, ports and people that let the daemon down.
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

mod amd;
mod config;
mod hotplug;
mod http;
mod idle;
mod instance;
mod kmsg;
mod ownership;
mod rdma;
mod sources;
mod systemd;
mod worker;
