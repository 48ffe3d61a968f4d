//! The guests `rdma` and `rdma-...`: Debian's kernel with soft-RoCE, so that RDMA's netlink, sysfs and traffic are
//! real. They run from the initramfs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::kernel::Kernel;
use super::{Clock, Machine, image, kernel};
use crate::cmd;

/// Debian packages that the host needs for every guest with soft-RoCE.
pub(super) const BASE: &[&str] = &[
    "qemu-system-x86",
    "binutils",
    "busybox-static",
    "cpio",
    "dash",
    "ibverbs-providers",
    "iproute2",
    "kmod",
];

/// Debian packages that the host needs.
pub(super) const PACKAGES: &[&[&str]] = &[BASE, &["ibverbs-utils"]];

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

/// Programs of every guest. dash, because the shell of Debian's busybox prefers its own ip.
const PROGRAMS: &[&str] = &["/usr/bin/dash", "/usr/bin/ip", "/usr/bin/rdma"];

/// Empty folders.
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

/// The soft-RoCE provider file, which libibverbs opens by name.
const PROVIDER: &str = "/etc/libibverbs.d/rxe.driver";
const PROVIDERS: &str = "/usr/lib/x86_64-linux-gnu/libibverbs";

/// The specific parts of a guest.
pub(super) struct Guest<'a> {
    pub(super) name: &'static str,
    /// Its init: a script below xtask/vm/guest.
    pub(super) script: &'a str,
    pub(super) modules: &'a [&'a str],
    /// Modules that were built here; `modules` contains their dependencies.
    pub(super) built: &'a [PathBuf],
    pub(super) programs: &'a [&'a str],
    pub(super) clock: Clock,
}

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

/// The common parts of all guests.
pub(super) struct Parts {
    pub(super) kernel: Kernel,
    /// The program with and without debug information, which is four fifths of its size; guests get the small one.
    built: PathBuf,
    stripped: PathBuf,
}

/// Builds or downloads the parts.
///
/// # Errors
/// When a part is missing.
pub(super) fn parts(work: &Path) -> Result<Parts> {
    let built = cmd::build_nodewarden()?;
    fs::create_dir_all(work)?;
    let stripped = work.join("nodewarden");
    cmd::run(cmd::program("strip", &["-o"]).arg(&stripped).arg(&built))?;
    Ok(Parts {
        kernel: kernel::get(work)?,
        built,
        stripped,
    })
}

/// Makes one guest's initramfs.
///
/// # Errors
/// When a part of it is missing.
pub(super) fn machine(guest: &Guest<'_>, parts: &Parts, work: &Path) -> Result<Machine> {
    let root = image::skeleton(&work.join(guest.name), FOLDERS)?;
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n")?;
    fs::write(root.join("etc/group"), "root:x:0:\n")?;
    image::program(Path::new("/usr/bin/busybox"), &root.join("usr/bin/busybox")).context("busybox-static")?;
    image::program(&parts.stripped, &root.join("usr/sbin/nodewarden"))?;
    let mut linked = vec![parts.built.clone()];
    for path in PROGRAMS.iter().chain(guest.programs) {
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
    image::modules(
        &parts.kernel,
        &[MODULES, guest.modules].concat(),
        &root.join("modules"),
    )?;
    for module in guest.built {
        let name = module.file_name().context("a module without a name")?;
        fs::copy(
            module,
            root.join("modules")
                .join(format!("99-{}", name.to_string_lossy())),
        )?;
    }
    image::program(&image::guest("rdma-lib.sh"), &root.join("rdma-lib.sh"))?;
    image::program(&image::guest(guest.script), &root.join("init"))?;
    Ok(Machine {
        name: guest.name,
        initramfs: image::pack(&root, &work.join(format!("{}.cpio", guest.name)))?,
        vmlinuz: parts.kernel.vmlinuz(),
        disk: None,
        append: "",
        clock: guest.clock,
    })
}
