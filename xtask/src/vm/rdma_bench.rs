//! The guest `rdma-bench`, for `cargo xtask bench rdma`: ten ports of soft-RoCE, and a worker that is looked at.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::rdma::{self, Guest};
use super::{Clock, Machine};

/// What the host needs.
pub(super) const PACKAGES: &[&[&str]] = &[rdma::BASE, rdma::PROVIDER_PACKAGE, &["strace"]];

/// Of the host's time.
pub(super) const DEADLINE: Duration = Duration::from_secs(8 * 60);

/// Every result that the guest must tell.
pub(super) const RESULTS: &[&str] = &["kernel", "netlink", "sysfs"];

/// Makes it. Its time is that of its instructions, so that a busy host moves no figure.
///
/// # Errors
/// When a part of it is missing.
pub(super) fn make(work: &Path) -> Result<Vec<Machine>> {
    let guest = Guest {
        name: "rdma-bench",
        script: "rdma-bench.sh",
        modules: &["dummy"],
        built: &[],
        programs: &["/usr/bin/strace"],
        clock: Clock::Leaps,
    };
    Ok(vec![rdma::machine(&guest, &rdma::parts(work)?, work)?])
}
