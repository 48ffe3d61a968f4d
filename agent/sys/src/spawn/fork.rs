//! From fork to exec. Own code, because library code between the two may block on the program's file.

#![allow(unsafe_code, reason = "fork, and what a child may do before exec")]

use std::ffi::CString;
use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, pipe2, setpgid};

use super::child::{Child, Stream};
use super::{CommandLine, SpawnError, failed};
use crate::child::{Closing, default_signals};

/// Everything that the child needs, prepared before the fork: afterwards it must not allocate.
struct Prepared {
    program: CString,
    argv: Vec<CString>,
    envp: Vec<CString>,
    input: OwnedFd,
    out: OwnedFd,
    err: OwnedFd,
    exec: OwnedFd,
    closing: Closing,
    parent: Pid,
}

/// Starts a command; returns without waiting for its exec.
pub(super) fn start(command: &CommandLine) -> Result<Child, SpawnError> {
    start_closing(command, Closing::prepare())
}

pub(super) fn start_closing(command: &CommandLine, closing: Closing) -> Result<Child, SpawnError> {
    if !command.program.is_absolute() {
        return Err(SpawnError::NotFound(command.program.clone()));
    }
    let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| failed("an argument")(Errno::EINVAL));
    let program = text(command.program.as_os_str().as_bytes())?;
    let mut argv = vec![program.clone()];
    for arg in &command.args {
        argv.push(text(arg.as_bytes())?);
    }
    let mut envp = Vec::new();
    for (name, value) in &command.env {
        envp.push(text(format!("{name}={value}").as_bytes())?);
    }
    let input = input(&command.input)?;
    let (out_read, out) = pipe()?;
    let (err_read, err) = pipe()?;
    let (exec_read, exec) = pipe()?;
    let prepared = Prepared {
        program,
        argv,
        envp,
        input: high(input)?,
        out: high(out)?,
        err: high(err)?,
        exec: high(exec)?,
        closing,
        parent: Pid::this(),
    };
    let pid = fork(&prepared)?;
    // The child does the same, and the first call wins. It fails harmlessly after the child's exec.
    setpgid(pid, pid).ok();
    Ok(Child {
        pid,
        streams: [
            Stream::new(out_read),
            Stream::new(err_read),
            Stream::new(exec_read),
        ],
    })
}

/// A command's standard input: in memory and complete, so a command that does not read blocks no writer.
fn input(bytes: &[u8]) -> Result<OwnedFd, SpawnError> {
    if bytes.is_empty() {
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        return open("/dev/null", flags, Mode::empty()).map_err(failed("/dev/null"));
    }
    let fd = memfd_create(c"input", MFdFlags::MFD_CLOEXEC).map_err(failed("memfd_create"))?;
    let mut file = File::from(fd);
    let written = file.write_all(bytes).and_then(|()| file.rewind());
    written.map_err(|source| SpawnError::Io {
        what: "a command's input",
        source,
    })?;
    Ok(file.into())
}

/// A pipe whose reading end never blocks.
fn pipe() -> Result<(OwnedFd, OwnedFd), SpawnError> {
    let (read, write) = pipe2(OFlag::O_CLOEXEC).map_err(failed("pipe"))?;
    fcntl(&read, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(failed("fcntl"))?;
    Ok((read, write))
}

/// The same descriptor with a number above those that the child sets up.
fn high(fd: OwnedFd) -> Result<OwnedFd, SpawnError> {
    let number = fcntl(&fd, FcntlArg::F_DUPFD_CLOEXEC(10)).map_err(failed("dup"))?;
    // SAFETY: fcntl has just created this descriptor, and no other code owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

fn fork(prepared: &Prepared) -> Result<Pid, SpawnError> {
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings
            .iter()
            .map(|s| s.as_ptr())
            .chain(std::iter::once(std::ptr::null()))
            .collect()
    };
    let (argv, envp) = (pointers(&prepared.argv), pointers(&prepared.envp));
    // No handler of ours may run in the child before the child has reset them.
    let mut before = SigSet::empty();
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut before))
        .map_err(failed("sigmask"))?;
    // SAFETY: the child calls only async-signal-safe functions on memory prepared before, and never returns.
    let forked = unsafe { libc::fork() };
    if forked == 0 {
        // SAFETY: this is the child; the arrays end in null and outlive the call.
        unsafe { child(prepared, argv.as_ptr(), envp.as_ptr()) }
    }
    let errno = Errno::last();
    // Restoring a mask that was just valid cannot fail.
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None).ok();
    if forked < 0 {
        return Err(failed("fork")(errno));
    }
    Ok(Pid::from_raw(forked))
}

/// What the child does between fork and exec.
///
/// # Safety
/// Only in a fresh child of fork, with null-terminated arrays. Everything in here is async-signal-safe: the other
/// threads are gone, and their locks may stay locked for ever.
unsafe fn child(p: &Prepared, argv: *const *const libc::c_char, envp: *const *const libc::c_char) -> ! {
    const EXEC: RawFd = 3;
    // SAFETY: plain system calls on numbers and on memory that outlives them.
    unsafe {
        libc::setpgid(0, 0);
        // The thread that forked keeps the deadline and outlives the command, unless its process ends: it may have ended already.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        if libc::getppid() != p.parent.as_raw() {
            libc::_exit(126);
        }
        let placed = libc::dup2(p.input.as_raw_fd(), 0) >= 0
            && libc::dup2(p.out.as_raw_fd(), 1) >= 0
            && libc::dup2(p.err.as_raw_fd(), 2) >= 0
            && libc::dup3(p.exec.as_raw_fd(), EXEC, libc::O_CLOEXEC) >= 0;
        if !placed {
            libc::_exit(126);
        }
        // A child that hangs must not keep a lock or socket of ours.
        p.closing.close_from(EXEC + 1);
        libc::chdir(c"/".as_ptr());
        default_signals();
        libc::execve(p.program.as_ptr(), argv, envp);
        let errno = *libc::__errno_location();
        libc::write(EXEC, (&raw const errno).cast(), size_of::<i32>());
        libc::_exit(127)
    }
}
