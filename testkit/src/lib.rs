//! Stand-ins with the real interface, and harnesses that run the real programs, for integration tests.
//!
//! What mounts filesystems or makes namespaces needs root and fails loudly without it: a test that cannot run is a failed test.
//! Nothing here depends on the daemon, so that the daemon's tests meet an independent reading of every interface.

pub mod alertmanager;
pub mod daemon;
pub mod exec;
pub mod executable;
pub mod exposition;
pub mod footprint;
pub mod fuse_hang;
mod guard;
pub mod hcas;
pub mod http;
pub mod kmsg;
pub mod mi300x;
pub mod mmfsd;
pub mod mount;
pub mod nvml;
pub mod openmetrics;
pub mod play;
pub mod ports;
pub mod proc;
pub mod prometheus;
pub mod promtool;
pub mod pty;
pub mod python;
pub mod scontrol_wrapper;
pub mod scrape;
pub mod slurm;
pub mod strace;
pub mod tmpfs;
pub mod tree;
pub mod wait;
