//! The edge: descriptors, privileges, processes and files of the agent, and all of its unsafe code.

#![allow(
    clippy::disallowed_methods,
    reason = "this is the place where files are opened and programs started"
)]

pub mod activation;
mod child;
pub mod dirs;
pub mod files;
pub mod forbidden;
pub mod foreground;
pub mod fork;
pub mod holders;
pub mod interfaces;
pub mod landlock;
pub mod link;
pub mod log;
pub mod memory;
pub mod notify;
pub mod packet;
pub mod poll;
pub mod privileges;
pub mod processes;
pub mod reap;
pub mod sandbox;
pub mod seccomp;
pub mod send;
pub mod signals;
pub mod slots;
pub mod spawn;
pub mod spool;
pub mod store;
pub mod terminal;
pub mod timer;
pub mod trust;
pub mod users;

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};

/// Descriptor 0 as the socket that the parent put there.
///
/// # Errors
/// When it is no socket.
pub fn stdin_socket() -> io::Result<UnixStream> {
    let stdin = io::stdin();
    let copy = stdin.as_fd().try_clone_to_owned()?;
    nix::sys::socket::getsockopt(&copy, nix::sys::socket::sockopt::SockType)?;
    // The copy alone is used from here on; descriptor 0 must not keep the socket open behind it.
    replace_stdin()?;
    Ok(UnixStream::from(copy))
}

/// Descriptor 0 as the listener that the parent put there. It does not block.
///
/// # Errors
/// When it is no listening socket.
pub fn stdin_listener() -> io::Result<UnixListener> {
    let stdin = io::stdin();
    let copy = stdin.as_fd().try_clone_to_owned()?;
    if !nix::sys::socket::getsockopt(&copy, nix::sys::socket::sockopt::AcceptConn)? {
        return Err(io::Error::other("descriptor 0 does not listen"));
    }
    replace_stdin()?;
    let listener = UnixListener::from(copy);
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Puts /dev/null in the place of standard output and error: what reads them does not wait for this process.
///
/// # Errors
/// When /dev/null cannot be opened.
pub fn silence() -> io::Result<()> {
    let null = std::fs::File::options().write(true).open("/dev/null")?;
    nix::unistd::dup2_stdout(null.as_fd())?;
    nix::unistd::dup2_stderr(null.as_fd())?;
    Ok(())
}

/// Puts /dev/null in the place of descriptor 0.
fn replace_stdin() -> io::Result<()> {
    let null = std::fs::File::open("/dev/null")?;
    nix::unistd::dup2_stdin(null.as_fd())?;
    Ok(())
}

/// The name that ps and top show: `nodewarden`, `nw-kernel`.
pub fn set_process_name(name: &str) {
    if let Ok(name) = std::ffi::CString::new(name) {
        // Only for the eye.
        ignore(nix::sys::prctl::set_name(&name));
    }
}

/// Drops a result on purpose. The caller says in a comment why nothing can be done about an error.
pub fn ignore<T, E>(_: Result<T, E>) {}
