//! The guests `rdma-loss`: two with one soft-RoCE port each and a cable between them, so that real packets are lost.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::rdma::{self, Guest};
use super::{Clock, Machine};

/// Debian packages that the host needs.
pub(super) const PACKAGES: &[&[&str]] = &[rdma::BASE, rdma::PROVIDER_PACKAGE, &["perftest"]];

/// Time limit: one boot of both, and minutes of traffic and waiting. Two idle cores need a quarter of it.
pub(super) const DEADLINE: Duration = Duration::from_secs(20 * 60);

/// Every result that the sender must report.
pub(super) const RESULTS: &[&str] = &[
    "receiver: kernel",
    "kernel",
    "start: both agents",
    "clean: traffic",
    "clean: nothing sent twice",
    "clean: no finding",
    "loss: traffic",
    "loss: sender counts",
    "loss: receiver counts",
    "loss: more packets than the work needs",
    "loss: no retries exceeded",
    "cut: the transfer breaks",
    "cut: retries exceeded",
    "loss: finding",
    "loss: evidence",
    "cut: finding",
];

/// Makes both guests: the sender first, because it reports the results.
///
/// # Errors
/// When a part of them is missing.
pub(super) fn make(work: &Path) -> Result<Vec<Machine>> {
    let parts = rdma::parts(work)?;
    let guest = |name, script| Guest {
        name,
        script,
        modules: &["virtio_pci", "virtio_net", "sch_netem"],
        built: &[],
        programs: &["/usr/bin/ib_write_bw", "/usr/sbin/tc"],
        clock: Clock::Host,
    };
    Ok(vec![
        rdma::machine(&guest("rdma-loss", "rdma-sender.sh"), &parts, work)?,
        rdma::machine(&guest("rdma-loss-receiver", "rdma-receiver.sh"), &parts, work)?,
    ])
}
