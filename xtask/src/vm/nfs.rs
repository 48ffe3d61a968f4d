//! The guest `nfs`: Debian's kernel as client and as servers of NFS, in network namespaces of their own. A server
//! stops and comes back under its mounts.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::ram::{self, Guest};
use super::{Clock, Machine, image, kernel};

/// What the host needs. The libraries are those of the programs of NFS, which are unpacked and not installed.
pub(super) const PACKAGES: &[&[&str]] = &[
    ram::BASE,
    &["libevent-core-2.1-7", "libsqlite3-0", "libtirpc3", "libwrap0"],
];

/// Of the host's time: the guest's own passes as fast as there is nothing to do.
pub(super) const DEADLINE: Duration = Duration::from_secs(15 * 60);

/// Every result that the guest must report.
pub(super) const RESULTS: &[&str] = &[
    "kernel",
    "servers",
    "mounts",
    "start: all answer",
    "traffic: counted",
    "traffic: what mountstats says",
    "stopped: no answer",
    "stopped: pages",
    "stopped: one thread",
    "stopped: status",
    "stopped: finding",
    "stopped: evidence",
    "stopped: others",
    "restart: ends",
    "restart: answers",
    "restart: finding stays",
    "back: answers",
    "back: finding clears",
    "back: figures go on",
    "back: what mountstats says",
    "server: hard and soft",
    "server: findings",
    "server: findings clear",
    "umount",
];

/// Loaded with all that they need.
const MODULES: &[&str] = &["crc32c_generic", "veth", "nfsd", "nfsv4"];

/// Debian packages with the programs of NFS.
const UNPACKED: &[&str] = &["nfs-common", "nfs-kernel-server", "libtirpc-common"];
const PROGRAMS: &[&str] = &[
    "sbin/mount.nfs",
    "usr/sbin/exportfs",
    "usr/sbin/rpc.mountd",
    "usr/sbin/rpc.nfsd",
];

/// Makes it.
///
/// # Errors
/// When a part of it is missing.
pub(super) fn make(work: &Path) -> Result<Vec<Machine>> {
    let parts = ram::parts(work)?;
    let unpacked = kernel::packages("nfs-packages", UNPACKED, work)?;
    let programs: Vec<String> = (PROGRAMS.iter())
        .map(|program| unpacked.join(program).display().to_string())
        .collect();
    let guest = Guest {
        name: "nfs",
        script: "nfs.sh",
        modules: MODULES,
        built: &[],
        programs: &programs.iter().map(String::as_str).collect::<Vec<_>>(),
        clock: Clock::Leaps,
    };
    let machine = ram::machine(&guest, &parts, work, |root| {
        fs::copy(unpacked.join("etc/netconfig"), root.join("etc/netconfig"))?;
        fs::create_dir_all(root.join("var/lib/nfs"))?;
        image::program(&image::guest("nfs-server.sh"), &root.join("nfs-server.sh"))?;
        Ok(Vec::new())
    })?;
    Ok(vec![machine])
}
