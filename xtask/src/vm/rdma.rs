//! The guests `rdma` and `rdma-...`: Debian's kernel with soft-RoCE, so that RDMA's netlink, sysfs and traffic are real. All
//! of it lies in the initramfs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::kernel::Kernel;
use super::{Clock, Machine, image, kernel};
use crate::cmd;

/// What the host needs for any guest with soft-RoCE.
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

/// What the host needs.
pub(super) const PACKAGES: &[&[&str]] = &[BASE, &["ibverbs-utils"]];

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

/// crc32c has to be there before what asks for it by its alias.
const MODULES: &[&str] = &[
    "crc32c_generic",
    "crc32_generic",
    "ib_uverbs",
    "rdma_ucm",
    "rdma_rxe",
];

/// Programs that run in every guest. Debian's busybox has an ip of its own, which its shell would prefer: hence dash.
const PROGRAMS: &[&str] = &["/usr/bin/dash", "/usr/bin/ip", "/usr/bin/rdma"];

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

/// A guest, by what it has besides what all of them have.
pub(super) struct Guest<'a> {
    pub(super) name: &'static str,
    /// Its init: a script below xtask/vm/guest.
    pub(super) script: &'a str,
    pub(super) modules: &'a [&'a str],
    /// Modules that were built here; what they need is among the others.
    pub(super) built: &'a [PathBuf],
    pub(super) programs: &'a [&'a str],
    pub(super) clock: Clock,
}

/// Makes the guest with two ports on a pair of interfaces.
///
/// # Errors
/// When something that goes into it is missing.
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

/// What all guests are made of.
pub(super) struct Parts {
    pub(super) kernel: Kernel,
    /// The program with all that is known for debugging, and without: that is four fifths of it, and a guest unpacks it.
    built: PathBuf,
    stripped: PathBuf,
}

/// Builds or gets them.
///
/// # Errors
/// When something is missing.
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
/// When something that goes into it is missing.
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
