//! The guest `rdma`: Debian's kernel with soft-RoCE, so that RDMA's netlink, sysfs and traffic are real. All of it lies in
//! the initramfs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Machine, image, kernel};
use crate::cmd;

/// What the host needs.
pub(super) const PACKAGES: &[&str] = &[
    "qemu-system-x86",
    "busybox-static",
    "cpio",
    "dash",
    "ibverbs-providers",
    "ibverbs-utils",
    "iproute2",
    "kmod",
];

/// One boot without a disk: half a minute on two idle cores.
pub(super) const DEADLINE: Duration = Duration::from_secs(6 * 60);

/// Every result that the guest must tell.
pub(super) const RESULTS: &[&str] = &[
    "kernel",
    "start: two ports",
    "start: by netlink",
    "start: rights of the worker",
    "traffic",
    "traffic: netlink says what sysfs says",
    "link down: state",
    "link down: counted",
    "link up: state",
    "renamed: by netlink still",
    "removed: gone",
    "back: by netlink",
    "back: netlink says what sysfs says",
    "sysfs: two ports",
    "sysfs: no netlink",
    "cost: files read",
];

/// crc32c has to be there before what asks for it by its alias.
const MODULES: &[&str] = &[
    "crc32c_generic",
    "crc32_generic",
    "veth",
    "ib_uverbs",
    "rdma_ucm",
    "rdma_rxe",
];

/// Programs that run in the guest. Debian's busybox has an ip of its own, which its shell would prefer: hence dash.
const PROGRAMS: &[&str] = &[
    "/usr/bin/dash",
    "/usr/bin/ip",
    "/usr/bin/rdma",
    "/usr/bin/ibv_rc_pingpong",
];

/// Folders that are empty at first.
const FOLDERS: &[&str] = &[
    "dev",
    "etc",
    "modules",
    "proc",
    "run",
    "sys",
    "tmp",
    "usr/bin",
    "usr/lib",
    "usr/lib64",
    "usr/sbin",
];

/// What libibverbs opens by name for soft-RoCE.
const PROVIDER: &str = "/etc/libibverbs.d/rxe.driver";
const PROVIDERS: &str = "/usr/lib/x86_64-linux-gnu/libibverbs";

/// Makes kernel and initramfs.
///
/// # Errors
/// When something that goes into them is missing.
pub(super) fn make(work: &Path) -> Result<Machine> {
    let ours = cmd::build_nodewarden()?;
    fs::create_dir_all(work)?;
    let kernel = kernel::get(work)?;
    let root = image::skeleton(&work.join("rdma"), FOLDERS)?;
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n")?;
    fs::write(root.join("etc/group"), "root:x:0:\n")?;
    image::program(Path::new("/usr/bin/busybox"), &root.join("usr/bin/busybox")).context("busybox-static")?;
    image::program(&ours, &root.join("usr/sbin/nodewarden"))?;
    let mut linked = vec![ours];
    for path in PROGRAMS {
        let real = fs::canonicalize(path).with_context(|| (*path).to_owned())?;
        image::program(
            &real,
            &root
                .join("usr/bin")
                .join(Path::new(path).file_name().context("a name")?),
        )?;
        linked.push(real);
    }
    image::copy_as(Path::new(PROVIDER), &root)?;
    for provider in fs::read_dir(PROVIDERS).context(PROVIDERS)? {
        let provider: PathBuf = provider?.path();
        if provider.to_string_lossy().contains("librxe") {
            image::copy_as(&provider, &root)?;
            linked.push(provider);
        }
    }
    for library in image::libraries(&linked)? {
        image::copy_as(&library, &root)?;
    }
    image::modules(&kernel, MODULES, &root.join("modules"))?;
    image::program(&image::guest("rdma.sh"), &root.join("init"))?;
    Ok(Machine {
        initramfs: image::pack(&root, &work.join("rdma.cpio"))?,
        vmlinuz: kernel.vmlinuz(),
        disk: None,
        append: "",
    })
}
