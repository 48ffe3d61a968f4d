//! Size and state of a mounted filesystem, without mounting anything.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::statfs::{
    AUTOFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, FsType, OVERLAYFS_SUPER_MAGIC, PROC_SUPER_MAGIC,
    SYSFS_MAGIC, TMPFS_MAGIC, XFS_SUPER_MAGIC, fstatfs, statfs,
};
use nix::sys::statvfs::fstatvfs;

use super::errno;

/// The figures of a filesystem. All ones: the filesystem has no such number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Size, in bytes.
    pub(crate) size: u64,
    /// Free, in bytes.
    pub(crate) free: u64,
    /// Free for users, in bytes.
    pub(crate) available: u64,
    /// Inodes; 0: no fixed number.
    pub(crate) inodes: u64,
    /// Free inodes.
    pub(crate) inodes_free: u64,
}

/// What the filesystem of a folder shows of a file that is removed or replaced while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replacement {
    /// sysfs: the descriptor of a removed device returns ENODEV.
    Error,
    /// inotify reports it: all changes are made by this kernel.
    Event,
    /// Only the file itself shows it: another machine or a server may make the change. So too for a folder that is absent.
    Nothing,
}

/// Asks the filesystem of a folder by its type (statfs(2)).
pub(crate) fn replacement(folder: &Path) -> Replacement {
    const LOCAL: [FsType; 5] = [
        TMPFS_MAGIC,
        EXT4_SUPER_MAGIC,
        XFS_SUPER_MAGIC,
        BTRFS_SUPER_MAGIC,
        OVERLAYFS_SUPER_MAGIC,
    ];
    match statfs(folder).map(|fs| fs.filesystem_type()) {
        Ok(SYSFS_MAGIC) => Replacement::Error,
        Ok(kind) if LOCAL.contains(&kind) => Replacement::Event,
        _ => Replacement::Nothing,
    }
}

/// Whether a folder is the kernel's /proc, and not a copy of one.
pub(crate) fn is_procfs(folder: &Path) -> bool {
    statfs(folder).is_ok_and(|fs| fs.filesystem_type() == PROC_SUPER_MAGIC)
}

/// Asks the filesystem at a mount point. The call returns when the filesystem answers, which may be never. O_PATH mounts
/// nothing where an automounter waits; with O_DIRECTORY it would (fs/namei.c, `follow_automount`).
///
/// # Errors
/// Of open(2) and fstatfs(2); `ENOENT` if only an automounter is there; `EACCES` if a FUSE filesystem is not this user's.
pub(crate) fn figures(point: &Path) -> Result<Figures, Errno> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_CLOEXEC)
        .open(point)
        .map_err(errno)?;
    if fstatfs(&file)?.filesystem_type() == AUTOFS_SUPER_MAGIC {
        return Err(Errno::ENOENT);
    }
    let found = fstatvfs(&file)?;
    // Other users than that of the mount get zeros, and no server is asked (fs/fuse/inode.c, `fuse_statfs`).
    if found.fragment_size() == 0 {
        return Err(Errno::EACCES);
    }
    let bytes = |blocks: u64| blocks.saturating_mul(found.fragment_size());
    Ok(Figures {
        size: bytes(found.blocks()),
        free: bytes(found.blocks_free()),
        available: bytes(found.blocks_available()),
        inodes: found.files(),
        inodes_free: found.files_free(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd as _;
    use std::thread;

    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};

    use super::*;

    #[test]
    fn the_figures_are_those_of_statvfs() {
        let found = figures(Path::new("/")).unwrap();
        let expected = nix::sys::statvfs::statvfs("/").unwrap();
        assert_eq!(found.size, expected.blocks() * expected.fragment_size());
        assert!(found.available <= found.free && found.free <= found.size);
    }

    #[test]
    fn a_path_that_is_not_there_is_an_error() {
        assert_eq!(figures(Path::new("/does/not/exist")), Err(Errno::ENOENT));
    }

    /// Runs on a thread with its own mounts, which end with it. Only root can.
    fn with_own_mounts(run: impl FnOnce() + Send) {
        let own = || {
            unshare(CloneFlags::CLONE_NEWNS).unwrap();
            let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(None::<&str>, "/", None::<&str>, flags, None::<&str>).unwrap();
            run();
        };
        if nix::unistd::geteuid().is_root() {
            thread::scope(|scope| scope.spawn(own).join().unwrap());
        }
    }

    #[test]
    fn a_fuse_filesystem_of_another_user_is_denied_and_not_empty() {
        let dir = tempfile::tempdir().unwrap();
        with_own_mounts(|| {
            // Nothing answers: a request to the server would hang.
            let device = File::options().read(true).write(true).open("/dev/fuse").unwrap();
            let options = format!(
                "fd={},rootmode=40000,user_id=1000,group_id=1000",
                device.as_raw_fd()
            );
            let flags = MsFlags::MS_NODEV | MsFlags::MS_NOSUID;
            mount(
                Some("fuse"),
                dir.path(),
                Some("fuse"),
                flags,
                Some(options.as_str()),
            )
            .unwrap();
            assert_eq!(figures(dir.path()), Err(Errno::EACCES));
        });
    }

    #[test]
    fn nothing_is_mounted_where_an_automounter_waits() {
        let dir = tempfile::tempdir().unwrap();
        with_own_mounts(|| {
            let none = None::<&str>;
            mount(none, dir.path(), Some("debugfs"), MsFlags::empty(), none).unwrap();
            let count = || {
                let mounts = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
                mounts.lines().count()
            };
            let before = count();
            // The kernel mounts tracefs there when a path leads into it.
            let waits = dir.path().join("tracing");
            figures(&waits).unwrap();
            assert_eq!(count(), before);
            std::fs::read_dir(&waits).unwrap();
            assert_eq!(count(), before + 1);
        });
    }
}
