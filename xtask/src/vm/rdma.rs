//! The guests `rdma` and `rdma-...`: Debian's kernel with soft-RoCE, so that RDMA's netlink, sysfs and traffic are
//! real. They run from the initramfs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::ram::{self, Parts};
use super::{Clock, Machine, image};

pub(super) use super::ram::{BASE, Guest, parts};

/// The soft-RoCE provider of libibverbs, which every guest with soft-RoCE needs.
pub(super) const PROVIDER_PACKAGE: &[&str] = &["ibverbs-providers"];

/// Debian packages that the host needs.
pub(super) const PACKAGES: &[&[&str]] = &[BASE, PROVIDER_PACKAGE, &["ibverbs-utils"]];

/// Time limit of one boot without a disk. Two idle cores need 30 s.
pub(super) const DEADLINE: Duration = Duration::from_secs(6 * 60);

/// Every result that the guest must report.
pub(super) const RESULTS: &[&str] = &[
    "kernel",
    "start: two ports",
    "start: by netlink",
    "start: rights of the worker",
    "traffic",
    "traffic: netlink says what sysfs says",
    "link down: event",
    "link down: state",
    "link down: counted",
    "link up: state",
    "link up: event",
    "renamed: by netlink still",
    "removed: gone",
    "removed: event",
    "back: by netlink",
    "back: event",
    "back: netlink says what sysfs says",
    "unloaded: gone",
    "unloaded: while the agent runs",
    "loaded: by netlink",
    "loaded: event",
    "sysfs: two ports",
    "sysfs: no netlink",
    "cost: files read",
];

/// crc32c must be loaded before the modules that request it by its alias.
const MODULES: &[&str] = &[
    "crc32c_generic",
    "crc32_generic",
    "ib_uverbs",
    "rdma_ucm",
    "rdma_rxe",
];

/// Programs of every guest with soft-RoCE.
const PROGRAMS: &[&str] = &["/usr/bin/rdma"];

/// The soft-RoCE provider file, which libibverbs opens by name.
const PROVIDER: &str = "/etc/libibverbs.d/rxe.driver";
const PROVIDERS: &str = "/usr/lib/x86_64-linux-gnu/libibverbs";

/// Makes the guest with two ports on a pair of interfaces.
///
/// # Errors
/// When a part of it is missing.
pub(super) fn make(work: &Path) -> Result<Vec<Machine>> {
    let guest = Guest {
        name: "rdma",
        script: "rdma.sh",
        modules: &["veth"],
        built: &[],
        programs: &["/usr/bin/ibv_rc_pingpong"],
        clock: Clock::Host,
    };
    Ok(vec![machine(&guest, &parts(work)?, work)?])
}

/// Makes the initramfs of a guest with soft-RoCE.
///
/// # Errors
/// When a part of it is missing.
pub(super) fn machine(guest: &Guest<'_>, parts: &Parts, work: &Path) -> Result<Machine> {
    let whole = Guest {
        modules: &[MODULES, guest.modules].concat(),
        programs: &[PROGRAMS, guest.programs].concat(),
        ..*guest
    };
    ram::machine(&whole, parts, work, |root| {
        image::program(&image::guest("rdma-lib.sh"), &root.join("rdma-lib.sh"))?;
        image::copy_as(Path::new(PROVIDER), root)?;
        let mut linked = Vec::new();
        for provider in fs::read_dir(PROVIDERS).context(PROVIDERS)? {
            let provider: PathBuf = provider?.path();
            if provider.to_string_lossy().contains("librxe") {
                image::copy_as(&provider, root)?;
                linked.push(provider);
            }
        }
        Ok(linked)
    })
}
