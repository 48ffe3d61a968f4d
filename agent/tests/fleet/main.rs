//! What many agents cost one controller: a real slurmctld with 10,000 configured nodes, and the code of the parent
//! against it. Method and figures: docs/benchmarks.md.
//!
//! Needs root, Debian's slurmctld, slurmd and munge. Counts of commands are asserted always, times and processor time
//! only where `NODEWARDEN_LIMITS` is set: they depend on the machine and its load.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    unreachable_pub,
    missing_docs,
    reason = "a test fails by panicking, and looks at the process from outside"
)]

mod agents;
mod costs;
mod figures;
mod guard;
mod node;
mod sampled;
