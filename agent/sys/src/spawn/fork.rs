//! From fork to exec. Own code, because whatever stands between the two in a library may wait for the program's file.

#![allow(unsafe_code, reason = "fork, and what a child may do before exec")]

use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, pipe2, setpgid};

use super::child::{Child, Stream};
use super::{CommandLine, SpawnError, failed};

/// Everything that the child needs, prepared before the fork: afterwards it may not allocate.
struct Prepared {
    program: CString,
    argv: Vec<CString>,
    envp: Vec<CString>,
    null: OwnedFd,
    out: OwnedFd,
    err: OwnedFd,
    exec: OwnedFd,
    highest_fd: RawFd,
}

/// Starts a command; comes back without waiting for its exec.
pub(super) fn start(command: &CommandLine) -> Result<Child, SpawnError> {
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
    let null =
        open("/dev/null", OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty()).map_err(failed("/dev/null"))?;
    let (out_read, out) = pipe()?;
    let (err_read, err) = pipe()?;
    let (exec_read, exec) = pipe()?;
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
    let prepared = Prepared {
        program,
        argv,
        envp,
        null: high(null)?,
        out: high(out)?,
        err: high(err)?,
        exec: high(exec)?,
        highest_fd: RawFd::try_from(limit.min(1 << 20)).unwrap_or(1 << 20),
    };
    let pid = fork(&prepared)?;
    // The child does the same; whoever comes first. It fails harmlessly once the child has called exec.
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

/// A pipe whose reading end never blocks.
fn pipe() -> Result<(OwnedFd, OwnedFd), SpawnError> {
    let (read, write) = pipe2(OFlag::O_CLOEXEC).map_err(failed("pipe"))?;
    fcntl(&read, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(failed("fcntl"))?;
    Ok((read, write))
}

/// The same descriptor with a number above those that the child puts in place.
fn high(fd: OwnedFd) -> Result<OwnedFd, SpawnError> {
    let number = fcntl(&fd, FcntlArg::F_DUPFD_CLOEXEC(10)).map_err(failed("dup"))?;
    // SAFETY: fcntl has just made this descriptor, and nobody else knows its number.
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
    // No handler of ours may run in the child before it has put them back to their defaults.
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
    // Restoring a mask that was valid a moment ago cannot fail.
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
/// threads are gone, and their locks may be held for ever.
unsafe fn child(p: &Prepared, argv: *const *const libc::c_char, envp: *const *const libc::c_char) -> ! {
    const EXEC: RawFd = 3;
    const SIGSET: usize = 8;
    // SAFETY: plain system calls on numbers and on memory that outlives them.
    unsafe {
        libc::setpgid(0, 0);
        let placed = libc::dup2(p.null.as_raw_fd(), 0) >= 0
            && libc::dup2(p.out.as_raw_fd(), 1) >= 0
            && libc::dup2(p.err.as_raw_fd(), 2) >= 0
            && libc::dup3(p.exec.as_raw_fd(), EXEC, libc::O_CLOEXEC) >= 0;
        if !placed {
            libc::_exit(126);
        }
        // No lock and no socket of ours may live on in a child that hangs. Before 5.9 there is no close_range.
        if libc::syscall(libc::SYS_close_range, EXEC + 1, libc::c_uint::MAX, 0) != 0 {
            for fd in EXEC + 1..p.highest_fd {
                libc::close(fd);
            }
        }
        libc::chdir(c"/".as_ptr());
        // The system call itself: libc refuses the two signals that it keeps to itself, which may be ignored.
        let default = [0_u64; 4];
        for signal in 1..=64 {
            let none = std::ptr::null_mut::<u64>();
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), none, SIGSET);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        libc::execve(p.program.as_ptr(), argv, envp);
        let errno = *libc::__errno_location();
        libc::write(EXEC, (&raw const errno).cast(), size_of::<i32>());
        libc::_exit(127)
    }
}
