//! The guest `rdma-link`: tests the checks, which wait for minutes, with a port that is down for minutes.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::rdma::{self, Guest};
use super::{Clock, Machine};

/// What the host needs.
pub(super) const PACKAGES: &[&[&str]] = &[rdma::BASE, rdma::PROVIDER_PACKAGE];

/// Of the host's time: the guest's own passes as fast as there is nothing to do.
pub(super) const DEADLINE: Duration = Duration::from_secs(8 * 60);

/// Every result that the guest must tell.
pub(super) const RESULTS: &[&str] = &[
    "kernel",
    "start: four ports",
    "in use: no finding",
    "link down: event",
    "link down: state",
    "link down: counted",
    "link down: finding",
    "link down: evidence",
    "link up: event",
    "link up: state",
    "link up: held",
    "link up: finding clears",
    "link up: counted once",
];

/// Makes it.
///
/// # Errors
/// When a part of it is missing.
pub(super) fn make(work: &Path) -> Result<Vec<Machine>> {
    let guest = Guest {
        name: "rdma-link",
        script: "rdma-link.sh",
        modules: &["veth"],
        built: &[],
        programs: &[],
        clock: Clock::Leaps,
    };
    Ok(vec![rdma::machine(&guest, &rdma::parts(work)?, work)?])
}
