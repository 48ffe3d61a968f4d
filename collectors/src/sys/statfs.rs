//! Size and state of a mounted filesystem, without mounting anything.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::statfs::{AUTOFS_SUPER_MAGIC, fstatfs};
use nix::sys::statvfs::fstatvfs;

/// The figures of a filesystem.
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

/// Asks the filesystem at a mount point. The call returns when the filesystem answers, which may be never. O_PATH mounts
/// nothing where an automounter waits.
///
/// # Errors
/// Of open(2) and fstatfs(2); `ENOENT` if only an automounter is there.
pub(crate) fn figures(point: &Path) -> Result<Figures, Errno> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC)
        .open(point)
        .map_err(|e| e.raw_os_error().map_or(Errno::EIO, Errno::from_raw))?;
    if fstatfs(&file)?.filesystem_type() == AUTOFS_SUPER_MAGIC {
        return Err(Errno::ENOENT);
    }
    let found = fstatvfs(&file)?;
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
}
