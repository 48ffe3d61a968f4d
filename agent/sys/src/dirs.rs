//! The state and run directories: made and owned by the parent.
//!
//! Both belong to root with the sticky bit: the daemon's group may add files (verdict, socket, record), and cannot
//! remove or replace root's (locks, slots). What root believes lies in folders of root's inside them ([`own`]). Whatever
//! else has the name of one is renamed, so that no other user can block it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{
    DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, fchown,
};
use std::path::{Path, PathBuf};

use collectors::domain::{DAEMON_UID, Domain, FORMER_DAEMON_UID};
use collectors::sys::root;

use super::privileges::is_root;
use super::store;
use super::trust::{self, Expected, OpenError};

/// Why an instance may not start.
#[derive(Debug, thiserror::Error)]
pub enum DirError {
    /// Another instance holds the run directory.
    #[error(
        "{} is locked by {holder}: stop that process, or use another --run-dir and --state-dir",
        path.display()
    )]
    Held {
        /// The lock file.
        path: PathBuf,
        /// What the holder wrote into it, if that process is there.
        holder: String,
        /// That process has ended, and a thread of it that hangs in the kernel keeps the lock.
        is_zombie: bool,
    },
    /// A directory or lock could not be created.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

/// The lock file of a directory; it names the holder.
const LOCK: &str = "lock";
/// The folder that only the parent's user may enter: files that the parent believes.
const OWN: &str = "parent";
/// The folder of the hooks' records.
const JOBS: &str = collectors::slurm::hook::FOLDER;
/// The folder of the output of commands of GPFS.
const GPFS: &str = collectors::gpfs::commands::FOLDER;
/// The folder of lock slots.
const SLOTS: &str = "slots";
/// What the parent creates in a state or run directory: a new file needs a row.
const OF_PARENT: &[&str] = &[LOCK, OWN, "own-drain", JOBS, GPFS, SLOTS];
/// What the daemon creates there.
const OF_DAEMON: &[&str] = &[
    // Of the state directory.
    "state.json",
    "audit.jsonl",
    "jobs.jsonl",
    // Of the run directory.
    "verdict",
    "jobs.json",
    "control.sock",
];

fn at(path: &Path) -> impl Fn(io::Error) -> DirError {
    let path = path.to_owned();
    move |source| DirError::Io {
        path: path.clone(),
        source,
    }
}

/// Creates missing folders that every user may enter, whatever the umask is.
fn folders(path: &Path) -> io::Result<()> {
    let create = || DirBuilder::new().mode(0o755).create(path);
    let created = match (create(), path.parent()) {
        (Err(e), Some(above)) if e.kind() == io::ErrorKind::NotFound => {
            folders(above)?;
            create()
        }
        (created, _) => created,
    };
    match created {
        // The open folder, since another one may take the name.
        Ok(()) => OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
            .open(path)?
            .set_permissions(fs::Permissions::from_mode(0o755)),
        Err(_) if path.is_dir() => Ok(()),
        Err(e) => Err(e),
    }
}

/// Creates a folder or finds an existing one: no link, and owned by root or a daemon's user, so that a foreign folder is
/// never taken over. A folder that is refused is not written to.
fn find(path: &Path, daemons: &[u32]) -> Result<Metadata, DirError> {
    let refused = |what| Err(at(path)(io::Error::new(io::ErrorKind::PermissionDenied, what)));
    if let Ok(to) = fs::read_link(path) {
        let to = to.display();
        return refused(format!(
            "found a symbolic link to {to}, expected a folder: bind-mount {to} there, or give {to} itself as \
             --state-dir or --run-dir"
        ));
    }
    folders(path).map_err(at(path))?;
    let found = fs::symlink_metadata(path).map_err(at(path))?;
    let own = nix::unistd::geteuid().as_raw();
    if !found.is_dir() || !(found.uid() == own || daemons.contains(&found.uid())) {
        let (kind, uid) = (trust::kind(&found), found.uid());
        return refused(format!(
            "expected a folder of uid {own}, found {kind} of uid {uid}"
        ));
    }
    if let Some(name) = foreign(path).map_err(at(path))? {
        let what = format!(
            "contains foreign files, such as {name:?}: choose a folder that is empty or was created by nodewarden"
        );
        return Err(at(path)(io::Error::new(io::ErrorKind::AlreadyExists, what)));
    }
    Ok(found)
}

/// Gives a found folder to root and `gid`, with this mode. Nothing is written where that is so already: the disk may be
/// read-only.
fn adjust(path: &Path, found: &Metadata, mode: u32, gid: u32) -> Result<(), DirError> {
    if is_root() && (found.uid(), found.gid()) != (0, gid) {
        chown(path, Some(0), Some(gid)).map_err(at(path))?;
    }
    if found.mode() & 0o7777 == mode {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(at(path))
}

/// A file because of which a folder may not be taken. It has only what nodewarden creates, or an instance's lock beside
/// other files. A mistyped `--run-dir /run` must not be taken over; a removed lock must not cost the record.
fn foreign(path: &Path) -> io::Result<Option<OsString>> {
    let is_disk = path.metadata()?.dev() != path.join("..").metadata()?.dev();
    if fs::symlink_metadata(path.join(LOCK)).is_ok_and(|lock| lock.is_file()) {
        return Ok(None);
    }
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if !is_known(&name, is_disk) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Whether a run or state directory may contain this. `is_disk`: it is the root of a filesystem, which mkfs(8) may
/// have left a folder in.
fn is_known(name: &OsStr, is_disk: bool) -> bool {
    is_own_name(name) || (is_disk && name == "lost+found")
}

/// Whether nodewarden creates files of this name in a run or state directory. Also `.NAME.new`, which is being written,
/// `NAME.bad-TIME`, which was set aside, and `NAME.1` with older lines.
pub fn is_own_name(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let was_set_aside = name.rsplit_once(".bad-").is_some_and(|(own, time)| {
        is_number(time) && OF_PARENT.iter().chain(OF_DAEMON).any(|name| *name == own)
    });
    was_set_aside || is_one_of(OF_PARENT, name) || is_one_of(OF_DAEMON, name)
}

/// Whether a name is one of these, or that of a file which is being written or has older lines.
fn is_one_of(all: &[&str], name: &str) -> bool {
    let written = name.strip_prefix('.').and_then(|n| n.strip_suffix(".new"));
    let older = name.rsplit_once('.').filter(|(_, number)| is_number(number));
    let is_one = |name: &str| all.contains(&name);
    is_one(name) || written.is_some_and(is_one) || older.is_some_and(|(name, _)| is_one(name))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Creates a folder of this user inside a run or state directory, or takes an existing one, that only this user may write
/// to. Anything else of that name is renamed.
fn folder(path: &Path, mode: u32) -> Result<Metadata, DirError> {
    let mut refused = None;
    // Another process may take the name again; it cannot take it from a folder of this user.
    for _ in 0..3 {
        match DirBuilder::new().mode(mode).create(path) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(at(path)(e)),
            Err(_) | Ok(()) => {}
        }
        let found = fs::symlink_metadata(path).map_err(at(path))?;
        let own = nix::unistd::geteuid().as_raw();
        if found.is_dir() && found.uid() == own && found.mode() & 0o022 == 0 {
            return Ok(found);
        }
        let what = format!(
            "found mode {:o} of uid {}, expected a folder that only uid {own} may write to",
            found.mode(),
            found.uid()
        );
        set_aside(path, &what)?;
        refused = Some(what);
    }
    let what = refused.unwrap_or_default();
    Err(at(path)(io::Error::new(io::ErrorKind::PermissionDenied, what)))
}

fn set_aside(path: &Path, why: &str) -> Result<(), DirError> {
    let aside = store::set_aside(path).map_err(at(path))?;
    tracing::warn!("{}: {why}; renamed to {}", path.display(), aside.display());
    Ok(())
}

/// Creates the folder inside a run or state directory that only the parent's user may enter.
///
/// # Errors
/// When it cannot be created.
pub fn own(dir: &Path) -> Result<PathBuf, DirError> {
    let own = own_path(dir);
    folder(&own, 0o700)?;
    Ok(own)
}

/// Creates a folder that only this user may enter inside [`own`].
///
/// # Errors
/// When it cannot be created.
pub fn private(path: &Path) -> Result<(), DirError> {
    folder(path, 0o700).map(drop)
}

/// The path of [`own`].
pub fn own_path(dir: &Path) -> PathBuf {
    dir.join(OWN)
}

/// Gives the files and sockets of an earlier daemon to the new one: its user may have been created since, versions without such
/// a user have used different ids, and root may have restored or edited a record. Otherwise the sticky bit would protect them
/// from the new one. Whatever else has the name of one is renamed.
fn hand_over(dir: &Path, ids: (u32, u32)) -> Result<(), DirError> {
    // All names first: a listing may leave out files while others are renamed.
    let listed: Vec<_> = fs::read_dir(dir).and_then(Iterator::collect).map_err(at(dir))?;
    for path in listed.iter().map(fs::DirEntry::path) {
        let found = fs::symlink_metadata(&path).map_err(at(&path))?;
        let name = path.file_name().and_then(OsStr::to_str);
        let is_daemons = name.is_some_and(|name| is_one_of(OF_DAEMON, name));
        // Root's other files stay root's.
        if found.uid() == ids.0 || (found.uid() == 0 && !is_daemons) {
            continue;
        }
        if found.file_type().is_socket() {
            // Of an earlier daemon. The new one binds its own.
            fs::remove_file(&path).map_err(at(&path))?;
        } else if found.is_file() {
            // A second link could point to any file.
            let expected = Expected {
                owners: &[found.uid()],
                most: u64::MAX,
                private: false,
            };
            // The open file, since another one may take the name.
            match trust::open(&path, &expected, OpenOptions::new().read(true)) {
                Ok(Some(file)) => fchown(&file, Some(ids.0), Some(ids.1)).map_err(at(&path))?,
                Ok(None) => {}
                Err(OpenError::Unexpected { found, .. }) if is_daemons => {
                    set_aside(&path, &format!("found {found}, expected a regular file"))?;
                }
                Err(e) => tracing::warn!("not given to this daemon: {e}"),
            }
        } else if is_daemons {
            // Such as the folder that a container runtime creates for a bind mount of the socket.
            let what = trust::kind(&found);
            set_aside(&path, &format!("found {what}, expected a regular file"))?;
        }
    }
    Ok(())
}

/// Creates and locks the run directory for a daemon that runs as `uid` and `gid`.
///
/// # Errors
/// When it cannot be created, contains foreign files, or is locked by another instance.
pub fn take_run(run: &Path, uid: u32, gid: u32) -> Result<File, DirError> {
    let found = find(run, &[])?;
    adjust(run, &found, 0o1775, gid)?;
    let lock = lock(run)?;
    if is_root()
        && let Err(e) = hand_over(run, (uid, gid))
    {
        tracing::error!(error = %e, "cannot give the files of an earlier daemon to this one");
    }
    // Before a daemon can create one: the worker's group may read the records.
    if let Err(e) = ended_jobs(run) {
        tracing::error!(error = %e, "cannot create the folders of the hooks' records");
    }
    report_own(run);
    Ok(lock)
}

/// Creates and locks the state directory likewise. May block with its disk. `None`: it is ours, and cannot be locked now.
///
/// # Errors
/// When it is locked by another instance, or must not be used: it is foreign or cannot be read. Nothing has then been
/// written to it.
pub fn take_state(state: &Path, uid: u32, gid: u32) -> Result<Option<File>, DirError> {
    let found = find(state, &[uid, DAEMON_UID, FORMER_DAEMON_UID])?;
    // A disk may be writable later.
    if let Err(e) = adjust(state, &found, 0o1770, gid) {
        tracing::error!(error = %e, "cannot set owner and mode of the state directory");
    }
    let lock = match lock(state) {
        Ok(lock) => Some(lock),
        Err(e @ DirError::Held { .. }) => return Err(e),
        Err(e) => {
            tracing::error!(
                error = %e,
                "cannot lock the state directory; a second instance that uses it would replace its records"
            );
            None
        }
    };
    if is_root()
        && let Err(e) = hand_over(state, (uid, gid))
    {
        tracing::error!(error = %e, "cannot give the records of an earlier daemon to this one");
    }
    report_own(state);
    Ok(lock)
}

/// Before the daemon can create files there. Without it, the parent forgets its drain or configuration.
fn report_own(dir: &Path) {
    if let Err(e) = own(dir) {
        tracing::error!(error = %e, "cannot create the parent's folder");
    }
}

/// Whether the directory with this lock was emptied, or only the lock was removed.
pub fn is_emptied(lock: &File) -> bool {
    lock.metadata().is_ok_and(|lock| lock.nlink() == 0)
}

/// Creates the folder of lock slots, owned by root, in a locked run directory.
///
/// # Errors
/// When it cannot be created.
pub fn slots(run: &Path) -> Result<PathBuf, DirError> {
    let slots = run.join(SLOTS);
    folder(&slots, 0o700)?;
    Ok(slots)
}

/// Creates the folder of the hooks' records. It belongs to root, and only the worker of jobs reads it, since job
/// owners may be confidential. May be called before the first daemon.
///
/// # Errors
/// When it cannot be created.
pub fn jobs(run: &Path) -> Result<PathBuf, DirError> {
    folders(run).map_err(at(run))?;
    read_by(&collectors::domain::SLURM, run.join(JOBS))
}

/// Creates the folder of the output of commands of GPFS. It belongs to root, and only their worker reads it: it names
/// nodes and errors of the cluster.
///
/// # Errors
/// When it cannot be created.
pub fn gpfs(run: &Path) -> Result<PathBuf, DirError> {
    read_by(&collectors::domain::GPFS, run.join(GPFS))
}

/// Creates the folder of the records that epilogs leave, inside that of [`jobs`] and likewise.
///
/// # Errors
/// When it cannot be created.
pub fn ended_jobs(run: &Path) -> Result<PathBuf, DirError> {
    let ended = jobs(run)?.join(collectors::slurm::hook::ENDED);
    read_by(&collectors::domain::SLURM, ended)
}

/// Creates a folder of this user that one worker may read.
fn read_by(worker: &Domain, path: PathBuf) -> Result<PathBuf, DirError> {
    let found = folder(&path, 0o750)?;
    let reader = crate::users::worker(worker).gid;
    if is_root() && found.gid() != reader {
        chown(&path, None, Some(reader)).map_err(at(&path))?;
    }
    // The umask may have removed bits.
    if found.mode() & 0o777 != 0o750 {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).map_err(at(&path))?;
    }
    Ok(path)
}

/// Locks a directory for this process. The lock is held as long as the file is open.
///
/// # Errors
/// [`DirError::Held`] names the holder.
pub fn lock(dir: &Path) -> Result<File, DirError> {
    lock_by(dir, File::try_lock)
}

fn lock_by(dir: &Path, try_lock: impl Fn(&File) -> Result<(), TryLockError>) -> Result<File, DirError> {
    let path = dir.join(LOCK);
    let mut create = OpenOptions::new();
    // Who can open it can lock it.
    create.create(true).truncate(false).write(true).mode(0o600);
    let mut note = match lock_file(&path, &mut create) {
        Err(OpenError::Unexpected { found, .. }) => {
            set_aside(
                &path,
                &format!("found {found}, expected a lock file of this user"),
            )?;
            lock_file(&path, &mut create)
        }
        opened => opened,
    }
    .map_err(|e| at(&path)(e.into()))?;
    close_to_others(&note).map_err(at(&path))?;
    // The lock file is open read-only: a filesystem with a file open for writing cannot be remounted read-only.
    let mut lock = lock_file(&path, OpenOptions::new().read(true)).map_err(|e| at(&path)(e.into()))?;
    let locked = match try_lock(&lock) {
        // NFS locks only files that are open for writing.
        Err(TryLockError::Error(e)) if e.raw_os_error() == Some(libc::EBADF) => {
            try_lock(&note).map(|()| true)
        }
        tried => tried.map(|()| false),
    };
    let host = nix::unistd::gethostname().unwrap_or_default();
    let host = host.to_string_lossy();
    let is_by_note = match locked {
        Ok(is_by_note) => is_by_note,
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            crate::ignore((&mut lock).take(200).read_to_string(&mut holder));
            let holder = living(holder.trim(), &host);
            let is_zombie = local_pid(holder, &host).is_some_and(is_zombie);
            let hangs = match is_zombie {
                true => ", which has ended, but for a thread that hangs in the kernel",
                false => "",
            };
            return Err(DirError::Held {
                path,
                holder: format!("{holder}{hangs}"),
                is_zombie,
            });
        }
        Err(TryLockError::Error(source)) => return Err(DirError::Io { path, source }),
    };
    let written = note
        .set_len(0)
        .and_then(|()| note.write_all(format!("pid {} on {host}\n", std::process::id()).as_bytes()));
    if let Err(e) = written {
        // The lock holds without it. A full disk, or RLIMIT_FSIZE, must not end the start.
        tracing::warn!(path = %path.display(), error = %e, "cannot write this process's pid into the lock file");
    }
    Ok(if is_by_note { note } else { lock })
}

/// Earlier releases let others read it.
fn close_to_others(lock: &File) -> io::Result<()> {
    if lock.metadata()?.mode() & 0o077 == 0 {
        return Ok(());
    }
    lock.set_permissions(fs::Permissions::from_mode(0o600))
}

/// `pid N on HOST`, unless that process of this host has ended: another one then holds the lock. Earlier releases name no
/// host.
fn living<'h>(holder: &'h str, own_host: &str) -> &'h str {
    if holder
        .split_once(" on ")
        .is_some_and(|(_, host)| host != own_host)
    {
        return holder;
    }
    let pid = local_pid(holder, own_host);
    let is_there = |pid| {
        let found = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None);
        found != Err(nix::errno::Errno::ESRCH)
    };
    if pid.is_some_and(|pid| pid > 0 && is_there(pid)) {
        holder
    } else {
        "a process that lslocks(8) shows"
    }
}

/// The process of this host in the text of a lock.
fn local_pid(holder: &str, own_host: &str) -> Option<i32> {
    let (process, host) = holder.split_once(" on ").unwrap_or((holder, own_host));
    let pid = process.strip_prefix("pid ").filter(|_| host == own_host)?;
    pid.parse().ok()
}

fn is_zombie(pid: i32) -> bool {
    let status = root::read_lossy(Path::new(&format!("/proc/{pid}/status")));
    let status = status.ok().flatten().unwrap_or_default();
    status
        .lines()
        .any(|line| line.starts_with("State:\tZ") || line.starts_with("State:\tX"))
}

fn lock_file(path: &Path, options: &mut OpenOptions) -> Result<File, OpenError> {
    let expected = Expected {
        owners: &[nix::unistd::geteuid().as_raw()],
        most: 4096,
        private: true,
    };
    trust::open(path, &expected, options)?.ok_or_else(|| OpenError::Io {
        path: path.to_owned(),
        source: io::ErrorKind::NotFound.into(),
    })
}

#[cfg(test)]
mod tests;
