//! Filters in a process of their own.

#![allow(unsafe_code, reason = "fork, and calls that are to be denied")]

use std::io::{Read, Write};

use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};

use super::{ALL, NARROW, policy};
use crate::seccomp::apply;

/// Runs `test` in a child under the filter of `process`. It returns the number of the first thing that went wrong.
fn under(process: &str, test: impl Fn() -> i32) -> i32 {
    // SAFETY: the C library's allocator works in a child of fork, and the child leaves without unwinding.
    match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => match waitpid(child, None).unwrap() {
            WaitStatus::Exited(_, code) => code,
            other => panic!("{process}: {other:?}"),
        },
        ForkResult::Child => {
            let code = if apply(policy::of(process)).is_ok() {
                test()
            } else {
                100
            };
            // SAFETY: ends the child.
            unsafe { libc::_exit(code) }
        }
    }
}

/// Whether a call with these arguments fails with that error.
fn fails(call: libc::c_long, args: [usize; 3], errno: i32) -> bool {
    // SAFETY: the callers pass no address, so the call touches no memory if it is allowed after all.
    let result = unsafe { libc::syscall(call, args[0], args[1], args[2], 0, 0, 0) };
    result == -1 && std::io::Error::last_os_error().raw_os_error() == Some(errno)
}

#[test]
fn denied_calls_fail_and_the_process_lives() {
    for process in ALL {
        let code = under(process, || {
            let all = [
                (libc::SYS_ptrace, [0, 0, 0], libc::EPERM),
                (libc::SYS_process_vm_writev, [1, 0, 0], libc::EPERM),
                (libc::SYS_bpf, [5, 0, 0], libc::EPERM),
                (libc::SYS_socket, [17, 3, 0], libc::EPERM),
                (libc::SYS_umount2, [0, 0, 0], libc::EPERM),
                (libc::SYS_clone3, [0, 0, 0], libc::ENOSYS),
                (500, [0, 0, 0], libc::ENOSYS),
            ];
            let wrong = (1..)
                .zip(all)
                .find(|(_, (call, args, errno))| !fails(*call, *args, *errno));
            wrong.map_or(0, |(number, _)| number)
        });
        assert_eq!(code, 0, "{process}");
    }
}

#[test]
fn threads_files_clocks_and_pipes_work_under_every_filter() {
    for process in ALL {
        let is_helper = ["bpf", "proc", "debugfs", "nvme"].contains(&process);
        // Cgroups come to `bpf` as open folders, and `nvme` reads no file.
        let opens = !["bpf", "nvme"].contains(&process);
        let code = under(process, || {
            let threads = std::thread::Builder::new()
                .name("t".to_owned())
                .spawn(|| 7)
                .is_ok_and(|t| t.join().is_ok_and(|n| n == 7));
            let reads = [
                std::fs::read_to_string("/proc/self/stat").is_ok(),
                std::fs::read_dir("/proc/self/fd")
                    .is_ok_and(|mut list| list.next().is_some_and(|e| e.is_ok())),
            ];
            let reads = reads == [opens; 2];
            let piped = is_helper
                || std::io::pipe().is_ok_and(|(mut r, mut w)| {
                    let mut byte = [0];
                    w.write_all(b"x").is_ok() && r.read_exact(&mut byte).is_ok()
                });
            std::thread::sleep(std::time::Duration::from_millis(1));
            let grown = vec![1_u8; 8 << 20].len() == 8 << 20;
            match (threads, reads, piped, grown) {
                (true, true, true, true) => 0,
                (false, ..) => 1,
                (_, false, ..) => 2,
                (_, _, false, _) => 3,
                _ => 4,
            }
        });
        assert_eq!(code, 0, "{process}");
    }
}

#[test]
fn the_daemon_finds_addresses_of_interfaces() {
    let code = under("daemon", || {
        let found = crate::interfaces::addresses();
        i32::from(!found.is_ok_and(|all| !all.is_empty()))
    });
    assert_eq!(code, 0);
}

#[test]
fn a_command_runs_under_the_parents_filter_and_under_no_other() {
    fn run() -> i32 {
        let done = std::process::Command::new("/bin/sh")
            .args(["-c", "test $(echo a | wc -c) = 2"])
            .status();
        i32::from(!done.is_ok_and(|status| status.success()))
    }
    assert_eq!(under("parent", run), 0);
    for process in NARROW.into_iter().chain(["nvidia"]) {
        assert_eq!(under(process, run), 1, "{process}");
    }
}

#[test]
fn the_filter_of_a_child_narrows_its_parents() {
    let code = under("parent", || {
        if apply(policy::of("host")).is_err() {
            return 1;
        }
        i32::from(!fails(libc::SYS_execve, [0, 0, 0], libc::EPERM)) * 2
    });
    assert_eq!(code, 0);
}
