//! Guests that run from their initramfs: a kernel, some programs, and a script that is their only init.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::kernel::Kernel;
use super::{Clock, Machine, image, kernel};
use crate::cmd;

/// Debian packages that the host needs for each of them.
pub(super) const BASE: &[&str] = &[
    "qemu-system-x86",
    "binutils",
    "busybox-static",
    "cpio",
    "dash",
    "iproute2",
    "kmod",
];

/// Programs of every guest. dash, because the shell of Debian's busybox prefers its own ip.
const PROGRAMS: &[&str] = &["/usr/bin/dash", "/usr/bin/ip"];

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

/// The specific parts of a guest.
#[derive(Clone, Copy)]
pub(super) struct Guest<'a> {
    pub(super) name: &'static str,
    /// Its init: a script below xtask/vm/guest.
    pub(super) script: &'a str,
    pub(super) modules: &'a [&'a str],
    /// Modules that were built here; `modules` contains their dependencies.
    pub(super) built: &'a [PathBuf],
    /// Files, which get their own names below /usr/bin.
    pub(super) programs: &'a [&'a str],
    pub(super) clock: Clock,
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

/// Makes one guest's initramfs. `more` adds files to its root, and returns those of them that need libraries.
///
/// # Errors
/// When a part of it is missing.
pub(super) fn machine(
    guest: &Guest<'_>,
    parts: &Parts,
    work: &Path,
    more: impl FnOnce(&Path) -> Result<Vec<PathBuf>>,
) -> Result<Machine> {
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
    linked.extend(more(&root)?);
    for library in image::libraries(&linked)? {
        image::copy_as(&library, &root)?;
    }
    image::modules(&parts.kernel, guest.modules, &root.join("modules"))?;
    for module in guest.built {
        let name = module.file_name().context("a module without a name")?;
        fs::copy(
            module,
            root.join("modules")
                .join(format!("99-{}", name.to_string_lossy())),
        )?;
    }
    image::program(&image::guest("ram-lib.sh"), &root.join("ram-lib.sh"))?;
    image::program(&image::guest(guest.script), &root.join("init"))?;
    Ok(Machine {
        name: guest.name,
        initramfs: image::pack(&root, &work.join(format!("{}.cpio", guest.name)))?,
        vmlinuz: parts.kernel.vmlinuz(),
        disk: None,
        append: "",
        nvme: false,
        clock: guest.clock,
    })
}
