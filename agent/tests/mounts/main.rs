//! Filesystems and their daemons that answer late, in part, or not at all.
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

mod fuse;
mod mmfsd;
