//! What a collector may read, and where: the live node, a tree of files in place of /sys and /proc, or a recording.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The node as collectors see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Env {
    /// Prefix of every read of /sys and /proc: `/` on a live node.
    pub sysroot: PathBuf,
    /// A recording: live sources (kernel log, netlink, ioctl) answer from it or not at all.
    pub recorded: Option<PathBuf>,
    /// A boot id in place of the kernel's (builds with the `testing` feature only).
    pub boot_id: Option<String>,
}

impl Default for Env {
    fn default() -> Self {
        Self {
            sysroot: PathBuf::from("/"),
            recorded: None,
            boot_id: None,
        }
    }
}

impl Env {
    /// An environment whose files lie below `sysroot`, with the kernel log and other live sources still live.
    pub fn with_sysroot(sysroot: impl Into<PathBuf>) -> Self {
        Self {
            sysroot: sysroot.into(),
            ..Self::default()
        }
    }

    /// A recording: `dir/root` is the tree of files.
    pub fn recorded(dir: &Path) -> Self {
        Self {
            sysroot: dir.join("root"),
            recorded: Some(dir.to_owned()),
            boot_id: None,
        }
    }

    /// Where `absolute` (`/sys/...`, `/proc/...`) is read.
    pub fn path(&self, absolute: &str) -> PathBuf {
        self.sysroot.join(absolute.trim_start_matches('/'))
    }

    /// Whether files are on a disk: a tree in place of the kernel's own. There a file may be replaced by another of its name.
    pub fn is_tree(&self) -> bool {
        self.sysroot != Path::new("/")
    }

    /// Whether live sources may be asked.
    pub fn is_live(&self) -> bool {
        self.recorded.is_none()
    }
}
