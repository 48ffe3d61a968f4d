//! The guest's files: an initramfs that can read the disk, and the disk with the programs that are tested.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::kernel::Kernel;
use crate::cmd;

/// Modules to read the disk. crc32c is listed because ext4 requests it by an alias, not as a dependency.
const MODULES: &[&str] = &["crc32c_generic", "virtio_pci", "virtio_blk", "ext4"];

/// Programs of Debian's packages that run in the guest. Slurm's are links to files with other names.
const PROGRAMS: &[&str] = &[
    "/usr/bin/scontrol",
    "/usr/bin/sinfo",
    "/usr/bin/stat",
    "/usr/sbin/munged",
    "/usr/sbin/slurmctld",
    "/usr/sbin/slurmd",
    "/usr/sbin/slurmstepd",
];

/// Slurm opens these by name, so ldd does not list them.
const PLUGINS: &str = "/usr/lib/x86_64-linux-gnu/slurm-wlm";

/// Empty folders.
const FOLDERS: &[&str] = &[
    "dev",
    "etc/munge",
    "etc/slurm",
    "guest",
    "opt/busybox",
    "proc",
    "root",
    "run",
    "sys",
    "tmp",
    "usr/bin",
    "usr/lib",
    "usr/lib64",
    "usr/sbin",
    "var/lib/munge",
    "var/lib/slurm/ctld",
    "var/lib/slurm/d",
    "var/log/munge",
];

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nmunge:x:101:101::/var/lib/munge:/bin/false\n\
                      nobody:x:65534:65534::/:/bin/false\n";
const GROUP: &str = "root:x:0:\nmunge:x:101:\nnogroup:x:65534:\n";

/// Makes the initramfs; `more` are modules that the programs on the disk need.
///
/// # Errors
/// When a part of it is missing.
pub(super) fn initramfs(kernel: &Kernel, more: &[&str], work: &Path) -> Result<PathBuf> {
    let root = empty(&work.join("initramfs"))?;
    for dir in ["bin", "dev", "disk", "modules"] {
        fs::create_dir(root.join(dir))?;
    }
    fs::copy("/usr/bin/busybox", root.join("bin/busybox")).context("busybox-static")?;
    program(&guest("initramfs"), &root.join("init"))?;
    modules(kernel, &[MODULES, more].concat(), &root.join("modules"))?;
    pack(&root, &work.join("initramfs.cpio"))
}

/// Copies modules and their dependencies. The order of the new names is the order of loading.
///
/// # Errors
/// When the kernel lacks a module.
pub(super) fn modules(kernel: &Kernel, names: &[&str], to: &Path) -> Result<()> {
    for (i, file) in kernel.modules(names)?.iter().enumerate() {
        let name = file.file_name().context("a module without a name")?;
        if file.extension().is_none_or(|e| e != "ko") {
            bail!("{}: compressed modules are not supported", file.display());
        }
        let name = format!("{i:02}-{}", name.to_string_lossy());
        fs::copy(file, to.join(name))?;
    }
    Ok(())
}

/// Makes an initramfs from the files below `root`.
///
/// # Errors
/// When cpio fails.
pub(super) fn pack(root: &Path, archive: &Path) -> Result<PathBuf> {
    let mut pack = cmd::program(
        "sh",
        &[
            "-c",
            "find . -print0 | cpio --null --create --format=newc --quiet",
        ],
    );
    cmd::run(pack.current_dir(root).stdout(File::create(archive)?))?;
    Ok(archive.to_owned())
}

/// Makes the disk, new for every run.
///
/// # Errors
/// When a file for it is missing.
pub(super) fn disk(release: &str, module: &Path, work: &Path) -> Result<PathBuf> {
    let root = skeleton(&work.join("disk"), FOLDERS)?;
    programs(&root)?;
    node(&root)?;
    for (file, text) in [
        ("etc/passwd", PASSWD),
        ("etc/group", GROUP),
        ("etc/hosts", "127.0.0.1 localhost node0\n"),
        // Slurm uses no cgroups here and must not detect them: none are mounted.
        ("etc/slurm/cgroup.conf", "CgroupPlugin=cgroup/v1\n"),
        ("guest/release", release),
        ("var/lib/boots", "0"),
        // One temporary machine: the key protects nothing.
        ("etc/munge/munge.key", &"nodewarden".repeat(16)),
    ] {
        fs::write(root.join(file), text)?;
    }
    fs::copy(guest("slurm.conf"), root.join("etc/slurm/slurm.conf"))?;
    fs::copy(module, root.join("guest/nw_printk.ko"))?;
    program(&guest("init"), &root.join("usr/sbin/init"))?;
    for file in ["lib.sh", "boot-1.sh", "boot-2.sh", "boot-3.sh"] {
        fs::copy(guest(file), root.join("guest").join(file))?;
    }

    ext4(&root, &work.join("disk.img"), "512M")
}

/// Makes a disk with the files below `root`.
///
/// # Errors
/// When they do not fit.
pub(super) fn ext4(root: &Path, image: &Path, size: &str) -> Result<PathBuf> {
    if image.exists() {
        fs::remove_file(image)?;
    }
    let mut mkfs = cmd::program("mkfs.ext4", &["-q", "-F", "-m", "0", "-d"]);
    cmd::run(mkfs.arg(root).arg(image).arg(size))?;
    Ok(image.to_owned())
}

/// nodewarden, Slurm, munge and all libraries that they need, at the same paths as here.
fn programs(root: &Path) -> Result<()> {
    let busybox = root.join("usr/bin/busybox");
    program(Path::new("/usr/bin/busybox"), &busybox).context("busybox-static")?;
    symlink("busybox", root.join("usr/bin/sh"))?;
    let ours = cmd::root().join("target/ci/nodewarden");
    program(&ours, &root.join("usr/sbin/nodewarden"))?;

    let mut linked = vec![ours];
    for path in PROGRAMS {
        let path = Path::new(path);
        let real = fs::canonicalize(path).with_context(|| path.display().to_string())?;
        let there = root.join(real.strip_prefix("/")?);
        program(&real, &there)?;
        if real != path {
            symlink(&real, root.join(path.strip_prefix("/")?))?;
        }
        linked.push(real);
    }
    for plugin in fs::read_dir(PLUGINS).context(PLUGINS)? {
        let plugin = plugin?.path();
        if plugin.extension().is_some_and(|e| e == "so") {
            linked.push(plugin);
        }
    }
    for library in linked
        .iter()
        .filter(|l| l.starts_with(PLUGINS))
        .cloned()
        .chain(libraries(&linked)?)
    {
        copy_as(&library, root)?;
    }
    Ok(())
}

/// The libraries that the dynamic linker loads for these files.
pub(super) fn libraries(files: &[PathBuf]) -> Result<BTreeSet<PathBuf>> {
    let text = cmd::output(cmd::program("ldd", &[]).args(files))?;
    linker_paths(&text)
}

fn linker_paths(text: &str) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    // Lines are `name => path (address)` or `path (address)`; lines without indentation name the file itself.
    for line in text.lines().filter(|l| l.starts_with(char::is_whitespace)) {
        if line.contains("not found") {
            bail!("a library is missing:{line}");
        }
        let path = line.split_once("=> ").map_or(line, |(_, path)| path).trim();
        let path = path.split(" (").next().unwrap_or_default();
        if path.starts_with('/') {
            found.insert(PathBuf::from(path));
        }
    }
    Ok(found)
}

/// Copies a file to the same path in the guest. /lib and /lib64 are links there too.
pub(super) fn copy_as(file: &Path, root: &Path) -> Result<()> {
    let there = root.join(file.strip_prefix("/")?);
    fs::create_dir_all(there.parent().context("a file without a folder")?)?;
    program(file, &there)
}

/// The node that the daemon sees, because QEMU has no GPU. Its boot id and kernel log are the guest's own.
fn node(root: &Path) -> Result<()> {
    let fixture = cmd::root().join("fixtures/host/h100");
    let (recording, node) = (root.join("opt/recording"), root.join("opt/node"));
    testkit::tree::unpack(&fixture, &recording)?;
    fs::rename(recording.join("root"), &node)?;
    fs::remove_dir_all(recording)?;
    fs::remove_dir_all(node.join("proc/sys"))?;
    Ok(())
}

/// A file below `xtask/vm/guest`.
pub(super) fn guest(name: &str) -> PathBuf {
    cmd::root().join("xtask/vm/guest").join(name)
}

/// Copies a program.
///
/// # Errors
/// When it does not exist.
pub(super) fn program(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| from.display().to_string())?;
    fs::set_permissions(to, Permissions::from_mode(0o755))?;
    Ok(())
}

/// An empty root with these folders, and Debian's links to those below usr.
///
/// # Errors
/// When it cannot be created.
pub(super) fn skeleton(root: &Path, folders: &[&str]) -> Result<PathBuf> {
    let root = empty(root)?;
    for dir in folders {
        fs::create_dir_all(root.join(dir))?;
    }
    for link in ["bin", "lib", "lib64", "sbin"] {
        symlink(format!("usr/{link}"), root.join(link))?;
    }
    Ok(root)
}

/// An empty folder.
///
/// # Errors
/// When it cannot be created.
pub(super) fn empty(dir: &Path) -> Result<PathBuf> {
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    fs::create_dir_all(dir)?;
    Ok(dir.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_taken_from_what_ldd_prints() {
        let text = "/usr/sbin/a:\n\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x2)\n\
                    /usr/lib/b.so:\n\tlibc.so.6 => /lib/x/libc.so.6 (0x3)\n\t/lib64/ld.so (0x4)\n";
        let paths: Vec<_> = linker_paths(text).unwrap().into_iter().collect();
        assert_eq!(paths, [Path::new("/lib/x/libc.so.6"), Path::new("/lib64/ld.so")]);
        assert!(linker_paths("\tliblua.so => not found\n").is_err());
    }
}
