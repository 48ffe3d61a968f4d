//! The guest `systemd`: installs the package with dpkg under a real systemd, and tests the unit.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Clock, Machine, image, kernel, rootfs};
use crate::{cmd, package};

/// What the host needs.
pub(super) const PACKAGES: &[&str] = &[
    "qemu-system-x86",
    "binutils",
    "busybox-static",
    "cpio",
    "dpkg-dev",
    "e2fsprogs",
    "kmod",
    "mmdebstrap",
    "tar",
];

/// One boot, and a dozen starts of the service.
pub(super) const DEADLINE: Duration = Duration::from_secs(15 * 60);

/// Every result that the guest must tell.
pub(super) const RESULTS: &[&str] = &[
    "boot",
    "install",
    "start: ready",
    "start: metrics",
    "start: status",
    "start: device programs",
    "start: users",
    "start: rights",
    "confined: table",
    "confined: systemd",
    "confined: score",
    "commands: run",
    "reload",
    "watchdog: fed",
    "watchdog: stopped daemon",
    "watchdog: metrics again",
    "killed: started again",
    "killed: state kept",
    "socket: one listener",
    "socket: restart",
    "socket: killed",
    "stuck: worker in D",
    "stuck: watchdog is fed",
    "stuck: restart",
    "stuck: left alone",
    "stuck: second slot",
    "stuck: stop",
    "disks: state directory",
    "disks: temporary files",
    "upgrade: state kept",
    "remove: stopped",
    "purge: nothing kept",
];

/// Makes kernel, initramfs and disk.
///
/// # Errors
/// When something that goes into them is missing.
pub(super) fn make(work: &Path) -> Result<Vec<Machine>> {
    fs::create_dir_all(work)?;
    // The guest installs the same package as a release, from a profile that is already built.
    let deb = package::build("ci")?;
    cmd::run(&mut cmd::cargo(&[
        "build",
        "--locked",
        "--profile=ci",
        "--package=nodewarden-testkit",
        "--bin=victim",
    ]))?;
    let kernel = kernel::get(work)?;
    let root = work.join("systemd");
    rootfs::unpack(work, &root)?;
    for (name, text) in [
        ("etc/hostname", "node0\n"),
        ("etc/hosts", "127.0.0.1 localhost node0\n"),
        // A new id for every boot of the image, as systemd makes it.
        ("etc/machine-id", ""),
    ] {
        fs::write(root.join(name), text)?;
    }
    let guest = root.join("guest");
    fs::create_dir_all(guest.join("mnt"))?;
    fs::copy(&deb, guest.join("nodewarden.deb")).with_context(|| deb.display().to_string())?;
    image::program(&cmd::target_dir()?.join("ci/victim"), &guest.join("victim"))?;
    for file in ["lib.sh", "systemd.sh"] {
        fs::copy(image::guest(file), guest.join(file))?;
    }
    // The table that the processes are compared with.
    let table = cmd::root().join("docs/security.md");
    fs::copy(&table, guest.join("security.md")).with_context(|| table.display().to_string())?;
    let units = root.join("etc/systemd/system");
    fs::copy(image::guest("systemd.service"), units.join("guest.service"))?;
    let wants = units.join("multi-user.target.wants");
    fs::create_dir_all(&wants)?;
    symlink("../guest.service", wants.join("guest.service"))?;
    // No udev here announces the device that a login on the console waits 90 s for.
    symlink("/dev/null", units.join("serial-getty@ttyS0.service"))?;
    Ok(vec![Machine {
        name: "systemd",
        vmlinuz: kernel.vmlinuz(),
        initramfs: image::initramfs(&kernel, &["fuse", "autofs4", "nvme"], work)?,
        disk: Some(image::ext4(&root, &work.join("systemd.img"), "768M")?),
        append: "systemd.show_status=no systemd.log_target=journal",
        // The helper that reads its SMART log runs only where there is one.
        nvme: true,
        clock: Clock::Host,
    }])
}
