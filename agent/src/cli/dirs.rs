//! The daemon's directories: for root below /run and /var/lib, for other users as XDG specifies.

use std::ffi::OsString;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

use crate::http::control::SOCKET;

/// The run directory of a daemon that root started.
pub use crate::runner::SYSTEM_RUN;

/// The state directory of a daemon that root started.
pub const SYSTEM_STATE: &str = "/var/lib/nodewarden";

/// A daemon's directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dirs {
    /// Sockets, locks, the verdict: gone after a reboot.
    pub run: PathBuf,
    /// State that survives restarts and reboots.
    pub state: PathBuf,
}

impl Dirs {
    /// The directories of a daemon that this user starts.
    pub fn own() -> Self {
        Self::of(nix::unistd::geteuid().as_raw(), |name| std::env::var_os(name))
    }

    fn of(uid: u32, env: impl Fn(&str) -> Option<OsString>) -> Self {
        if uid == 0 {
            return Self {
                run: SYSTEM_RUN.into(),
                state: SYSTEM_STATE.into(),
            };
        }
        // The XDG specification: ignore relative paths.
        let var = |name| env(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let run = var("XDG_RUNTIME_DIR").map_or_else(
            || format!("/tmp/nodewarden-{uid}").into(),
            |d| d.join("nodewarden"),
        );
        let state = var("XDG_STATE_HOME")
            .or_else(|| var("HOME").map(|h| h.join(".local/state")))
            .map_or_else(|| run.join("state"), |d| d.join("nodewarden"));
        Self { run, state }
    }
}

/// The run directory for a client command: the given one, this user's own if it exists, else the system's. A folder
/// below /tmp that another user created is not used, and one that a trial left only where the system has none.
pub fn to_read(given: Option<&Path>) -> PathBuf {
    if let Some(given) = given {
        return given.to_owned();
    }
    let own = Dirs::own().run;
    match nix::unistd::geteuid().as_raw() {
        0 => own,
        uid => choose(own, uid, Path::new(SYSTEM_RUN)),
    }
}

fn choose(own: PathBuf, uid: u32, system: &Path) -> PathBuf {
    let exists = own.symlink_metadata().is_ok_and(|m| m.is_dir() && m.uid() == uid);
    if exists && (listens(&own) || !system.is_dir()) {
        own
    } else {
        system.to_owned()
    }
}

/// Whether a daemon has the control socket. Without waiting for a busy one.
fn listens(run: &Path) -> bool {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let connect = || {
        let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        connect(socket.as_raw_fd(), &UnixAddr::new(&run.join(SOCKET))?)
    };
    matches!(connect(), Ok(()) | Err(Errno::EAGAIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(uid: u32, vars: &[(&str, &str)]) -> (String, String) {
        let dirs = Dirs::of(uid, |name| {
            vars.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).into())
        });
        (dirs.run.display().to_string(), dirs.state.display().to_string())
    }

    fn pair(run: &str, state: &str) -> (String, String) {
        (run.to_owned(), state.to_owned())
    }

    #[test]
    fn roots_directories_do_not_depend_on_the_environment() {
        let vars = [
            ("XDG_RUNTIME_DIR", "/x"),
            ("XDG_STATE_HOME", "/y"),
            ("HOME", "/root"),
        ];
        assert_eq!(of(0, &vars), pair("/run/nodewarden", "/var/lib/nodewarden"));
    }

    #[test]
    fn users_directories_follow_xdg() {
        let all = [
            ("XDG_RUNTIME_DIR", "/run/user/7"),
            ("XDG_STATE_HOME", "/s"),
            ("HOME", "/h"),
        ];
        assert_eq!(of(7, &all), pair("/run/user/7/nodewarden", "/s/nodewarden"));
        assert_eq!(
            of(7, &[("HOME", "/h"), ("XDG_RUNTIME_DIR", "relative")]),
            pair("/tmp/nodewarden-7", "/h/.local/state/nodewarden")
        );
        assert_eq!(of(7, &[]), pair("/tmp/nodewarden-7", "/tmp/nodewarden-7/state"));
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "the test makes folders")]
    fn the_folder_that_a_trial_left_does_not_hide_the_systems_daemon() {
        let dir = tempfile::tempdir().unwrap();
        let (own, system) = (dir.path().join("own"), dir.path().join("system"));
        let chosen = || choose(own.clone(), nix::unistd::geteuid().as_raw(), &system);
        assert_eq!(chosen(), system);
        std::fs::create_dir(&own).unwrap();
        assert_eq!(chosen(), own);
        std::fs::create_dir(&system).unwrap();
        assert_eq!(chosen(), system);
        let listener = std::os::unix::net::UnixListener::bind(own.join(SOCKET)).unwrap();
        assert_eq!(chosen(), own);
        // One that has ended left its socket.
        drop(listener);
        assert_eq!(chosen(), system);
    }

    #[test]
    fn a_given_directory_is_taken() {
        assert_eq!(to_read(Some(Path::new("/x"))), Path::new("/x"));
    }
}
