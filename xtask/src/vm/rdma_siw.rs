//! The guest `rdma-siw`: a device whose driver has no counters of its hardware, soft-iWARP, beside one that has them.
//! A port without `hw_counters` is never asked by RDMA_NLDEV_CMD_STAT_GET: that it is left alone is shown here, and not
//! what a refusal does. Debian does not configure the driver, so it is built from the kernel's source.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::rdma::{self, Guest};
use super::{Clock, Machine};

/// What the host needs.
pub(super) const PACKAGES: &[&[&str]] = &[
    rdma::BASE,
    rdma::PROVIDER_PACKAGE,
    &["gcc-12", "libelf1", "make", "xz-utils"],
];

/// Of the host's time.
pub(super) const DEADLINE: Duration = Duration::from_secs(6 * 60);

/// Every result that the guest must tell.
pub(super) const RESULTS: &[&str] = &[
    "kernel",
    "kernel: no statistics of siw",
    "start: both ports",
    "start: collector up",
    "siw: shown without counters",
    "siw: nothing is said at each reading",
    "siw: no warning",
];

/// Makes it.
///
/// # Errors
/// When a part of it is missing, or the module cannot be built.
pub(super) fn make(work: &Path) -> Result<Vec<Machine>> {
    let parts = rdma::parts(work)?;
    let siw = parts
        .kernel
        .build_own("drivers/infiniband/sw/siw", "CONFIG_RDMA_SIW", work)?;
    let guest = Guest {
        name: "rdma-siw",
        script: "rdma-siw.sh",
        modules: &["dummy", "libcrc32c"],
        built: &[siw],
        programs: &[],
        clock: Clock::Leaps,
    };
    Ok(vec![rdma::machine(&guest, &parts, work)?])
}
