//! A FUSE mount that can always be unmounted, even if all calls on it hang.
//!
//! A task that waits for a FUSE answer passes these steps (fs/fuse/dev.c, `request_wait_answer`):
//!
//! 1. It is interruptible (state S). A signal sends FUSE_INTERRUPT.
//! 2. It is then killable (state D).
//! 3. After a SIGKILL it is uninterruptible (state D), if the server has already accepted the request.
//!
//! This server answers FUSE_INTERRUPT with ENOSYS; the kernel then skips step 1 for the lifetime of the mount.
//! [`Mount::teach_no_interrupts`] provokes that once. Later every waiting task is in state D at once and survives
//! SIGKILL, as with a dead NFS server or a stuck driver.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use fuser::{
    BackgroundSession, Config, FileAttr, FileType, Filesystem, INodeNo, InitFlags, KernelConfig, MountOption,
    SessionACL,
};
use nix::mount::{MntFlags, MsFlags, umount2};

use crate::guard::Guard;
use crate::{proc, wait};

/// The file that [`Mount::teach_no_interrupts`] reads; the filesystem must leave its reads unanswered.
pub(crate) const HUNG_FILE: &str = ".hung";
/// Its inode.
pub(crate) const HUNG_INO: INodeNo = INodeNo(2);

const CONTROL: &str = "/sys/fs/fuse/connections";

/// Prevents a hung lookup from blocking lookups of other names.
pub(crate) fn parallel_lookups(config: &mut KernelConfig) {
    // Older kernels do not support it.
    config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS).ok();
}

/// A mounted filesystem.
#[derive(Debug)]
pub struct Mount {
    dir: PathBuf,
    connection: u64,
    session: Option<BackgroundSession>,
    guard: Option<Guard>,
}

impl Mount {
    /// Mounts `fs` on `dir`, for all users; creates `dir` if missing.
    pub(crate) fn new(fs: impl Filesystem, dir: &Path, name: &str) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        let dir = dir.canonicalize()?;
        let mut config = Config::default();
        config.acl = SessionACL::All;
        config.mount_options = vec![
            MountOption::FSName(name.to_owned()),
            MountOption::Exec,
            MountOption::DefaultPermissions,
        ];
        let session = fuser::spawn_mount(fs, &dir, &config)
            .with_context(|| format!("mount FUSE on {} (needs root and /dev/fuse)", dir.display()))?;
        let connection = connection_of(&dir);
        let mut mount = Self {
            dir,
            connection: *connection.as_ref().unwrap_or(&0),
            session: Some(session),
            guard: None,
        };
        // From here on, an error also unmounts.
        connection?;
        mount_control()?;
        mount.guard = Some(Guard::of_mount(mount.connection, &mount.dir)?);
        Ok(mount)
    }

    /// The mount point.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The number under /sys/fs/fuse/connections, which is the minor number of the mount's device.
    pub fn connection(&self) -> u64 {
        self.connection
    }

    /// Ends every waiting request with an error: the only way to release tasks that hang on this mount.
    pub fn abort(&self) -> Result<()> {
        let file = format!("{CONTROL}/{}/abort", self.connection);
        fs::write(&file, "1").context(file)
    }

    /// Shows the kernel that this server does not support interrupts; see the module's text. `hung` returns whether a
    /// read of the hidden file waits; `release` answers it.
    pub(crate) fn teach_no_interrupts(&self, hung: impl Fn() -> bool, release: impl FnOnce()) -> Result<()> {
        let mut victim = Command::new("/bin/cat")
            .arg(self.dir.join(HUNG_FILE))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let taught = wait::until_true("read of the hidden file", wait::PATIENCE, hung).and_then(|()| {
            proc::send(victim.id(), nix::sys::signal::Signal::SIGKILL)?;
            // In state D the interrupt is queued, and interrupts go to the server before other requests. So once
            // our request is answered, the interrupt was answered too.
            proc::wait_for_state(victim.id(), 'D', wait::PATIENCE)?;
            fs::metadata(&self.dir)?;
            Ok(())
        });
        release();
        victim.wait()?;
        taught
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.guard = None;
        // Order matters: abort frees the tasks, unmount removes the name, then the session ends automatically.
        let aborted = self.abort();
        let unmounted = umount2(&self.dir, MntFlags::MNT_DETACH);
        if let Some(session) = self.session.take()
            && aborted.is_ok()
        {
            session.join().ok();
        }
        if aborted.is_err() || unmounted.is_err() {
            eprintln!(
                "testkit: {}: abort {aborted:?}, unmount {unmounted:?}",
                self.dir.display()
            );
        }
    }
}

fn connection_of(dir: &Path) -> Result<u64> {
    // From the mount table, not by stat: nothing here may wait for the filesystem.
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    table
        .lines()
        .rev()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .find(|fields| fields.get(4).is_some_and(|at| Path::new(at) == dir))
        .and_then(|fields| fields.get(2)?.split_once(':')?.1.parse().ok())
        .with_context(|| format!("{} is not in the mount table", dir.display()))
}

fn mount_control() -> Result<()> {
    let mounted = || {
        let here = fs::metadata(CONTROL)?;
        let above = fs::metadata("/sys/fs/fuse")?;
        std::io::Result::Ok(here.dev() != above.dev())
    };
    if mounted().context(CONTROL)? {
        return Ok(());
    }
    let none: Option<&str> = None;
    let result = nix::mount::mount(Some("fusectl"), CONTROL, Some("fusectl"), MsFlags::empty(), none);
    // Another test may have mounted it first.
    if mounted()? {
        Ok(())
    } else {
        result.context("mount fusectl")
    }
}

/// Attributes of an inode.
pub(crate) fn attr(ino: INodeNo, kind: FileType, perm: u16, size: u64) -> FileAttr {
    let epoch = std::time::UNIX_EPOCH;
    FileAttr {
        ino,
        size,
        blocks: size.div_ceil(512),
        atime: epoch,
        mtime: epoch,
        ctime: epoch,
        crtime: epoch,
        kind,
        perm,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}
