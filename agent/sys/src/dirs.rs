//! The state and run directories: made and owned by the parent.
//!
//! Both belong to root with the sticky bit: the daemon's group may add files (verdict, socket, record), and cannot remove
//! or replace root's (locks, slots, the note of our drain).

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, lchown};
use std::path::{Path, PathBuf};

use super::privileges::is_root;

/// Why an instance may not start.
#[derive(Debug, thiserror::Error)]
pub enum DirError {
    /// Another instance holds the run directory.
    #[error("{} is held by {holder}: one nodewarden per run and state directory", path.display())]
    Held {
        /// The lock file.
        path: PathBuf,
        /// What the holder wrote into it.
        holder: String,
    },
    /// A directory or lock could not be made.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// The file whose lock holds a directory, and that says whose it is.
const LOCK: &str = "lock";
/// The folder of what hooks write.
const JOBS: &str = collectors::slurm::hook::FOLDER;

fn at(path: &Path) -> impl Fn(io::Error) -> DirError {
    let path = path.to_owned();
    move |source| DirError::Io {
        path: path.clone(),
        source,
    }
}

/// Makes a folder that belongs to root and `gid`, or takes one that is there: a real one, of root or of a daemon, so
/// that nobody's link or folder is taken for ours.
fn make(path: &Path, mode: u32, gid: u32, daemons: &[u32]) -> Result<(), DirError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(path)
        .map_err(at(path))?;
    let found = fs::symlink_metadata(path).map_err(at(path))?;
    let own = nix::unistd::geteuid().as_raw();
    if !found.is_dir() || !(found.uid() == own || daemons.contains(&found.uid())) {
        let what = format!("not a folder of uid {own} (found uid {})", found.uid());
        return Err(at(path)(io::Error::new(io::ErrorKind::PermissionDenied, what)));
    }
    if !is_ours(path).map_err(at(path))? {
        let what = "holds files of others: name a folder that is empty or was made by nodewarden";
        return Err(at(path)(io::Error::new(io::ErrorKind::AlreadyExists, what)));
    }
    if is_root() {
        chown(path, Some(0), Some(gid)).map_err(at(path))?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(at(path))
}

/// Whether a folder may be taken: empty but for what a job's prolog has written, or an instance has put its lock there
/// before. A mistyped `--run-dir /run` must not become ours.
fn is_ours(path: &Path) -> io::Result<bool> {
    let mut entries = fs::read_dir(path)?;
    let is_known = |entry: io::Result<fs::DirEntry>| entry.is_ok_and(|e| e.file_name() == JOBS);
    Ok(entries.all(is_known) || path.join(LOCK).is_file())
}

/// Gives the files of an earlier daemon to the one that starts now: its user may have been made since.
fn hand_over(dir: &Path, ids: (u32, u32)) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let found = fs::symlink_metadata(&path)?;
        // A second link could be to anybody's file; root's own stay root's.
        if found.is_file() && found.nlink() == 1 && found.uid() != 0 && found.uid() != ids.0 {
            lchown(&path, Some(ids.0), Some(ids.1))?;
        }
    }
    Ok(())
}

/// Makes both directories for a daemon that runs as `uid` and `gid`.
///
/// # Errors
/// When one cannot be made.
pub fn prepare(run: &Path, state: &Path, uid: u32, gid: u32) -> Result<(), DirError> {
    let daemons = [uid, crate::users::DAEMON_UID];
    make(run, 0o1775, gid, &[])?;
    // A state directory that cannot be used is a daemon without memory, not a node without health checks.
    if let Err(e) = make(state, 0o1770, gid, &daemons) {
        tracing::error!(error = %e, "no state directory: drains will be unrecorded");
    } else if is_root()
        && let Err(e) = hand_over(state, (uid, gid))
    {
        tracing::error!(error = %e, "records of an earlier daemon cannot be handed over");
    }
    Ok(())
}

/// Makes the folder of lock slots, root's alone, in a run directory that is locked.
///
/// # Errors
/// When it cannot be made.
pub fn slots(run: &Path) -> Result<PathBuf, DirError> {
    let slots = run.join("slots");
    match DirBuilder::new().mode(0o700).create(&slots) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(at(&slots)(e)),
        _ => {}
    }
    let found = fs::symlink_metadata(&slots).map_err(at(&slots))?;
    if found.is_dir() && found.uid() == nix::unistd::geteuid().as_raw() {
        return Ok(slots);
    }
    Err(at(&slots)(io::Error::new(
        io::ErrorKind::PermissionDenied,
        "not a folder of ours",
    )))
}

/// Makes the folder in which hooks write of jobs: root's, and read by the worker of jobs alone, since whose a job is may
/// be nobody else's business. May come before the first daemon.
///
/// # Errors
/// When it cannot be made, or is somebody else's.
pub fn jobs(run: &Path) -> Result<PathBuf, DirError> {
    let jobs = run.join(JOBS);
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o755);
    builder.create(run).map_err(at(run))?;
    match DirBuilder::new().mode(0o750).create(&jobs) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(at(&jobs)(e)),
        Err(_) | Ok(()) => {}
    }
    let found = fs::symlink_metadata(&jobs).map_err(at(&jobs))?;
    let own = nix::unistd::geteuid().as_raw();
    if !found.is_dir() || found.uid() != own || found.mode() & 0o022 != 0 {
        let what = format!("not a folder that uid {own} alone may write to");
        return Err(at(&jobs)(io::Error::new(io::ErrorKind::PermissionDenied, what)));
    }
    let reader = crate::users::worker(&collectors::domain::SLURM).gid;
    if is_root() && found.gid() != reader {
        chown(&jobs, None, Some(reader)).map_err(at(&jobs))?;
    }
    // The umask of a hook may have taken bits away.
    if found.mode() & 0o777 != 0o750 {
        fs::set_permissions(&jobs, fs::Permissions::from_mode(0o750)).map_err(at(&jobs))?;
    }
    Ok(jobs)
}

/// Takes a directory for this process. The lock is held as long as the file is open.
///
/// # Errors
/// [`DirError::Held`] names the holder.
pub fn lock(dir: &Path) -> Result<File, DirError> {
    let path = dir.join(LOCK);
    let open = |options: &mut OpenOptions| {
        options
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)
            .map_err(at(&path))
    };
    let mut note = open(
        OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o644),
    )?;
    // Held by a descriptor that cannot write: a filesystem with one that can may not be made read-only.
    let mut lock = open(OpenOptions::new().read(true))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            crate::ignore((&mut lock).take(200).read_to_string(&mut holder));
            return Err(DirError::Held {
                path,
                holder: holder.trim().to_owned(),
            });
        }
        Err(TryLockError::Error(source)) => return Err(DirError::Io { path, source }),
    }
    note.set_len(0).map_err(at(&path))?;
    note.write_all(format!("pid {}\n", std::process::id()).as_bytes())
        .map_err(at(&path))?;
    Ok(lock)
}
