//! Landlock: which files a process may use, in addition to permissions. Three system calls, no library.
//!
//! The rules hold for the calling thread and what it starts from then on, permanently: call [`apply`] before any thread.
//! A confined process also cannot trace others, or read what needs that right.

#![allow(unsafe_code, reason = "no wrapper in libc")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, SFlag, fstat};

const CREATE_RULESET: libc::c_long = 444;
const ADD_RULE: libc::c_long = 445;
const RESTRICT_SELF: libc::c_long = 446;
/// `LANDLOCK_CREATE_RULESET_VERSION`.
const VERSION: u32 = 1;
/// `LANDLOCK_RULE_PATH_BENEATH`.
const PATH_BENEATH: libc::c_int = 1;

/// `LANDLOCK_ACCESS_FS_*`.
mod right {
    pub(super) const WRITE_FILE: u64 = 1 << 1;
    pub(super) const READ_FILE: u64 = 1 << 2;
    pub(super) const READ_DIR: u64 = 1 << 3;
    pub(super) const REMOVE_FILE: u64 = 1 << 5;
    pub(super) const MAKE_REG: u64 = 1 << 8;
    pub(super) const MAKE_SOCK: u64 = 1 << 9;
    pub(super) const MAKE_FIFO: u64 = 1 << 10;
    pub(super) const MAKE_SYM: u64 = 1 << 12;
    pub(super) const TRUNCATE: u64 = 1 << 14;
    /// The rights of the first version.
    pub(super) const FIRST: u64 = (1 << 13) - 1;
    /// `REFER`, version 2.
    pub(super) const SECOND: u64 = 1 << 13;
    /// `IOCTL_DEV`, version 5.
    pub(super) const FIFTH: u64 = 1 << 15;
}
const READ: u64 = right::READ_FILE | right::READ_DIR;
const WRITE: u64 = READ
    | right::WRITE_FILE
    | right::TRUNCATE
    | right::MAKE_REG
    | right::MAKE_SOCK
    | right::REMOVE_FILE
    // To rename what another process has put in place of a record.
    | right::MAKE_FIFO
    | right::MAKE_SYM;
/// The only rights that a rule for a file may name.
const OF_FILES: u64 = right::READ_FILE | right::WRITE_FILE | right::TRUNCATE;
/// `LANDLOCK_ACCESS_NET_BIND_TCP` and `LANDLOCK_ACCESS_NET_CONNECT_TCP`, version 4.
const BIND: u64 = 1;
const CONNECT: u64 = 2;
/// Signals and abstract unix sockets of processes outside, version 6.
const SCOPES: u64 = 3;

/// `struct landlock_ruleset_attr`. Older kernels accept this length if what they do not know is zero.
#[repr(C)]
struct Ruleset {
    files: u64,
    network: u64,
    scopes: u64,
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct Beneath {
    allowed: u64,
    folder: libc::c_int,
}

/// What a process may use. A path that does not exist is skipped.
#[derive(Clone, Debug, Default)]
pub struct FileAccess {
    /// Files and folders to read, with what lies below.
    pub read: Vec<PathBuf>,
    /// Folders to read, and to create, replace and remove files and sockets in.
    pub write: Vec<PathBuf>,
    /// Whether it may listen on TCP ports. None may connect to one.
    pub listens: bool,
}

impl FileAccess {
    /// Of the daemon, which writes these folders: users and time zones, its own figures, the boot id.
    pub fn of_daemon(write: Vec<PathBuf>) -> Self {
        Self {
            read: ["/proc", "/etc", "/usr/share/zoneinfo", "/dev/null"]
                .map(PathBuf::from)
                .into(),
            write,
            listens: true,
        }
    }

    /// Of a worker that reads devices by /sys and netlink: no device files, and nothing to write.
    pub fn of_worker() -> Self {
        Self {
            read: ["/proc", "/sys", "/dev/null"].map(PathBuf::from).into(),
            ..Self::default()
        }
    }
}

/// The version of Landlock that the kernel offers. `None`: none, or disabled at boot.
pub fn version() -> Option<u32> {
    // SAFETY: with this flag the kernel reads no memory.
    let version = unsafe { libc::syscall(CREATE_RULESET, std::ptr::null::<Ruleset>(), 0_usize, VERSION) };
    u32::try_from(version).ok().filter(|v| *v > 0)
}

/// Confines the calling thread and all that it starts. Requires no_new_privs.
///
/// # Errors
/// EOPNOTSUPP or ENOSYS without Landlock, and errors of the paths.
pub fn apply(access: &FileAccess) -> io::Result<()> {
    let version = version().ok_or_else(|| io::Error::from_raw_os_error(libc::EOPNOTSUPP))?;
    let since = |first: u32, rights: u64| if version >= first { rights } else { 0 };
    let files = right::FIRST | since(2, right::SECOND) | since(3, right::TRUNCATE) | since(5, right::FIFTH);
    let network = if access.listens { CONNECT } else { BIND | CONNECT };
    let ruleset = create(&Ruleset {
        files,
        network: since(4, network),
        scopes: since(6, SCOPES),
    })?;
    for (paths, rights) in [(&access.read, READ), (&access.write, WRITE)] {
        for path in paths {
            allow(&ruleset, path, rights & files)?;
        }
    }
    // SAFETY: a descriptor and no flags.
    checked(unsafe { libc::syscall(RESTRICT_SELF, ruleset.as_raw_fd(), 0_u32) }).map(drop)
}

fn create(ruleset: &Ruleset) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads this many bytes of the structure, which has that length.
    let fd =
        checked(unsafe { libc::syscall(CREATE_RULESET, &raw const *ruleset, size_of::<Ruleset>(), 0_u32) })?;
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel has just created this descriptor, and no other code owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn allow(ruleset: &OwnedFd, path: &Path, rights: u64) -> io::Result<()> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let file = match open(path, flags, Mode::empty()) {
        Ok(file) => file,
        Err(nix::errno::Errno::ENOENT | nix::errno::Errno::EACCES) => return Ok(()),
        Err(e) => return Err(e.into()),
    };
    let kind = SFlag::from_bits_truncate(fstat(&file)?.st_mode) & SFlag::S_IFMT;
    let rights = if kind == SFlag::S_IFDIR {
        rights
    } else {
        rights & OF_FILES
    };
    let rule = Beneath {
        allowed: rights,
        folder: file.as_raw_fd(),
    };
    // SAFETY: the kernel reads the structure, which outlives the call.
    checked(unsafe {
        libc::syscall(
            ADD_RULE,
            ruleset.as_raw_fd(),
            PATH_BENEATH,
            &raw const rule,
            0_u32,
        )
    })
    .map(drop)
}

fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Runs `test` in a thread of its own, which alone is confined. `None`: the kernel has no Landlock.
    fn confined<T: Send + 'static>(
        access: FileAccess,
        test: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        version()?;
        let done = std::thread::spawn(move || {
            nix::sys::prctl::set_no_new_privs().unwrap();
            apply(&access).unwrap();
            test()
        });
        Some(done.join().unwrap())
    }

    #[test]
    fn files_outside_are_neither_read_nor_written() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (folder, other) = (inside.path().to_owned(), outside.path().join("secret"));
        fs::write(&other, "x").unwrap();
        let access = FileAccess {
            read: vec!["/proc".into(), "/dev/null".into(), "/does/not/exist".into()],
            write: vec![folder.clone()],
            listens: true,
        };
        let seen = confined(access, move || {
            let (old, new) = (folder.join("old"), folder.join("new"));
            let record = fs::write(&new, "1").and_then(|()| fs::rename(&new, &old));
            let again = fs::write(&new, "2").and_then(|()| fs::rename(&new, &old));
            let socket = UnixListener::bind(folder.join("socket")).is_ok();
            let kept = record.is_ok() && again.is_ok() && fs::remove_file(old).is_ok() && socket;
            let reads = fs::read_to_string("/proc/self/stat").is_ok() && fs::read("/dev/null").is_ok();
            let denied = [
                fs::read(&other).err(),
                fs::write(&other, "y").err(),
                fs::remove_file(&other).err(),
                fs::write("/proc/self/comm", "y").err(),
                fs::read_dir("/etc").err(),
                fs::create_dir(folder.join("folder")).err(),
            ];
            let all = denied.map(|e| e.map(|e| e.kind()));
            (kept, reads, all)
        });
        if let Some((kept, reads, denied)) = seen {
            assert!(kept && reads);
            assert_eq!(denied, [Some(io::ErrorKind::PermissionDenied); 6]);
        }
    }

    #[test]
    fn no_port_of_another_program_is_called() {
        if version().is_none_or(|v| v < 4) {
            return;
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        for listens in [true, false] {
            let access = FileAccess {
                listens,
                ..FileAccess::default()
            };
            let done = confined(access, move || {
                let called = std::net::TcpStream::connect(address).is_ok();
                (called, std::net::TcpListener::bind("127.0.0.1:0").is_ok())
            });
            assert_eq!(done, Some((false, listens)));
        }
    }
}
