//! A filesystem in memory of a given size: for a full disk, or for a tree in place of sysfs.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::wait::{self, PATIENCE};

/// A mounted tmpfs. Dropping it unmounts.
#[derive(Debug)]
pub struct Tmpfs {
    dir: PathBuf,
}

impl Tmpfs {
    /// Mounts one of `bytes` on an existing folder. As in sysfs, a read writes no access time.
    pub fn mount(dir: &Path, bytes: u64) -> Result<Self> {
        let options = format!("size={bytes},mode=0755");
        mount(
            Some("tmpfs"),
            dir,
            Some("tmpfs"),
            MsFlags::MS_NOATIME,
            Some(options.as_str()),
        )
        .with_context(|| format!("mount tmpfs on {}", dir.display()))?;
        Ok(Self { dir: dir.to_owned() })
    }

    fn ballast(&self) -> PathBuf {
        self.dir.join(".ballast")
    }

    /// Takes every byte that is left.
    pub fn fill(&self) -> Result<()> {
        let mut file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.ballast())?;
        let chunk = [0; 512];
        while file.write_all(&chunk).is_ok() {}
        Ok(())
    }

    /// Gives them back, also while a child that another thread has just forked holds the file open.
    pub fn empty(&self) -> Result<()> {
        let file = fs::OpenOptions::new().write(true).open(self.ballast())?;
        file.set_len(0).context("empty the ballast")?;
        fs::remove_file(self.ballast()).context("remove the ballast")
    }

    /// Makes it read-only, or writable again. The kernel refuses the former (EBUSY) while a file is open for writing: a
    /// child that another thread has just forked has our open files until its exec, so it is asked again.
    pub fn read_only(&self, on: bool) -> Result<()> {
        let mut flags = MsFlags::MS_REMOUNT;
        flags.set(MsFlags::MS_RDONLY, on);
        wait::until("remount tmpfs", PATIENCE, || {
            match mount(None::<&str>, &self.dir, None::<&str>, flags, None::<&str>) {
                Err(Errno::EBUSY) => Ok(None),
                other => other.map(Some).context("remount tmpfs"),
            }
        })
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        umount2(&self.dir, MntFlags::MNT_DETACH).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn it_becomes_read_only_while_other_threads_start_processes() {
        let dir = tempfile::tempdir().unwrap();
        let fs_ = Tmpfs::mount(dir.path(), 64 * 1024).unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        Command::new("true").status().unwrap();
                    }
                });
            }
            let turns = (0..300).try_for_each(|_| {
                fs::write(dir.path().join("f"), b"x")?;
                fs_.read_only(true)?;
                fs_.read_only(false)
            });
            is_over.store(true, Ordering::Relaxed);
            turns.unwrap();
        });
    }

    #[test]
    fn it_is_full_until_it_is_emptied() {
        let dir = tempfile::tempdir().unwrap();
        let fs_ = Tmpfs::mount(dir.path(), 64 * 1024).unwrap();
        let file = dir.path().join("f");
        fs_.fill().unwrap();
        assert!(fs::write(&file, [1; 4096]).is_err());
        fs_.empty().unwrap();
        fs::write(&file, [1; 4096]).unwrap();
        fs_.read_only(true).unwrap();
        assert!(fs::write(&file, b"x").is_err());
        fs_.read_only(false).unwrap();
        fs::write(&file, b"x").unwrap();
    }
}
