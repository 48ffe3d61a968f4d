use std::collections::BTreeSet;

use super::calls::{self, NEWEST};
use super::policy::{self, Policy};
use super::program::compile;

mod machine;
mod real;

use machine::{ALLOW, DENY, FOREIGN, UNKNOWN, answer};

const ALL: [&str; 12] = [
    "parent", "daemon", "kernel", "host", "rdma", "nvidia", "slurm", "lustre", "bpf", "proc", "debugfs",
    "nvme",
];
/// Those with a list of allowed calls.
const NARROW: [&str; 10] = [
    "daemon", "kernel", "host", "rdma", "slurm", "lustre", "bpf", "proc", "debugfs", "nvme",
];

fn call(process: &str, name: &str, args: &[u64]) -> u32 {
    let number = calls::number(name).unwrap_or_else(|| panic!("{name}"));
    answer(&compile(policy::of(process)).unwrap(), number, None, args)
}

#[test]
fn every_name_of_a_policy_is_a_call_of_an_architecture() {
    for policy in ALL.map(policy::of) {
        let ruled = policy.rules.iter().copied().flatten().map(|rule| rule.call);
        for name in policy.calls().chain(policy.modern.iter().copied()).chain(ruled) {
            let [x86_64, aarch64] = calls::both(name);
            assert!(x86_64.or(aarch64).is_some(), "{name}");
        }
    }
}

/// The names of both architectures, compared with what the C library's bindings say of the one that runs this.
#[test]
fn the_table_has_the_numbers_of_the_running_architecture() {
    macro_rules! compare {
        ($($name:ident)*) => { $(
            let expected = u32::try_from(paste::$name).ok();
            assert_eq!(calls::number(stringify!($name)), expected, stringify!($name));
        )* };
    }
    mod paste {
        pub(super) use libc::{
            SYS_accept4 as accept4, SYS_bind as bind, SYS_bpf as bpf, SYS_brk as brk, SYS_clone as clone,
            SYS_clone3 as clone3, SYS_close as close, SYS_close_range as close_range, SYS_connect as connect,
            SYS_epoll_ctl as epoll_ctl, SYS_epoll_pwait as epoll_pwait, SYS_epoll_pwait2 as epoll_pwait2,
            SYS_eventfd2 as eventfd2, SYS_execve as execve, SYS_exit_group as exit_group,
            SYS_faccessat2 as faccessat2, SYS_fcntl as fcntl, SYS_finit_module as finit_module,
            SYS_fsync as fsync, SYS_futex as futex, SYS_getdents64 as getdents64, SYS_getrandom as getrandom,
            SYS_inotify_init1 as inotify_init1, SYS_ioctl as ioctl, SYS_kexec_load as kexec_load,
            SYS_kill as kill, SYS_landlock_restrict_self as landlock_restrict_self, SYS_lseek as lseek,
            SYS_madvise as madvise, SYS_mmap as mmap, SYS_mount as mount, SYS_mprotect as mprotect,
            SYS_newfstatat as newfstatat, SYS_open_by_handle_at as open_by_handle_at, SYS_openat as openat,
            SYS_ppoll as ppoll, SYS_prctl as prctl, SYS_prlimit64 as prlimit64,
            SYS_process_vm_writev as process_vm_writev, SYS_ptrace as ptrace, SYS_read as read,
            SYS_recvmsg as recvmsg, SYS_renameat2 as renameat2, SYS_rseq as rseq,
            SYS_rt_sigaction as rt_sigaction, SYS_seccomp as seccomp, SYS_sendmsg as sendmsg,
            SYS_sendto as sendto, SYS_set_robust_list as set_robust_list, SYS_setns as setns,
            SYS_socket as socket, SYS_statx as statx, SYS_tgkill as tgkill,
            SYS_timerfd_settime as timerfd_settime, SYS_umount2 as umount2, SYS_unlinkat as unlinkat,
            SYS_unshare as unshare, SYS_userfaultfd as userfaultfd, SYS_write as write, SYS_writev as writev,
        };
    }
    compare!(accept4 bind bpf brk clone clone3 close close_range connect epoll_ctl epoll_pwait epoll_pwait2 eventfd2
        execve exit_group faccessat2 fcntl finit_module fsync futex getdents64 getrandom inotify_init1 ioctl kexec_load
        kill landlock_restrict_self lseek madvise mmap mount mprotect newfstatat open_by_handle_at openat ppoll prctl
        prlimit64 process_vm_writev ptrace read recvmsg renameat2 rseq rt_sigaction seccomp sendmsg sendto setns
        set_robust_list socket statx tgkill timerfd_settime umount2 unlinkat unshare userfaultfd write writev);
    let numbers = |column: usize| -> Vec<u32> {
        calls::all()
            .filter_map(|name| calls::both(name)[column])
            .collect()
    };
    for column in [0, 1] {
        let numbers = numbers(column);
        assert_eq!(
            numbers.iter().collect::<BTreeSet<_>>().len(),
            numbers.len(),
            "a number twice"
        );
        assert_eq!(numbers.iter().max(), Some(&NEWEST));
    }
}

/// Numbers of aarch64 that have another one on x86_64, from include/uapi/asm-generic/unistd.h.
#[test]
fn the_other_architecture_has_its_own_numbers() {
    let both = |name| calls::both(name).map(|n| n.unwrap_or(0));
    assert_eq!(both("openat"), [257, 56]);
    assert_eq!(both("clone"), [56, 220]);
    assert_eq!(both("ptrace"), [101, 117]);
    assert_eq!(both("bpf"), [321, 280]);
    assert_eq!(both("renameat"), [264, 38]);
    assert_eq!(both("open"), [2, 0]);
    assert_eq!(both("landlock_add_rule"), [445, 445]);
}

#[test]
fn no_answer_is_a_signal() {
    for process in ALL {
        let answers = machine::answers(&compile(policy::of(process)).unwrap());
        assert!(
            answers.is_subset(&BTreeSet::from([ALLOW, DENY, UNKNOWN])),
            "{process}: {answers:x?}"
        );
    }
}

#[test]
fn a_call_that_the_table_does_not_know_does_not_exist() {
    for process in ALL {
        let program = compile(policy::of(process)).unwrap();
        for number in [NEWEST + 1, 1000, 0x4000_0000 | 101, u32::MAX] {
            assert_eq!(answer(&program, number, None, &[]), UNKNOWN, "{process} {number}");
        }
        // Of another architecture: there 26 is ptrace.
        assert_eq!(answer(&program, 26, Some(FOREIGN), &[]), UNKNOWN, "{process}");
        for name in [
            "clone3",
            "io_uring_setup",
            "pidfd_getfd",
            "mount_setattr",
            "process_madvise",
            "memfd_secret",
        ] {
            assert_eq!(call(process, name, &[]), UNKNOWN, "{process} {name}");
        }
    }
}

#[test]
fn no_process_touches_another_or_the_system() {
    for process in ALL {
        for name in [
            "ptrace",
            "process_vm_readv",
            "process_vm_writev",
            "mount",
            "umount2",
            "setns",
            "unshare",
            "init_module",
            "finit_module",
            "kexec_load",
            "reboot",
            "open_by_handle_at",
            "perf_event_open",
            "keyctl",
        ] {
            assert_eq!(call(process, name, &[]), DENY, "{process} {name}");
        }
        // AF_PACKET, BPF_PROG_LOAD, TIOCSTI, a user namespace.
        for (name, args) in [
            ("socket", &[17_u64, 3][..]),
            ("bpf", &[5]),
            ("ioctl", &[0, 0x5412]),
            ("clone", &[0x1000_0011]),
        ] {
            assert_eq!(call(process, name, args), DENY, "{process} {name}");
        }
    }
}

#[test]
fn only_the_parent_starts_processes_and_signals_them() {
    for process in NARROW.into_iter().chain(["nvidia"]) {
        for (name, args) in [
            ("execve", &[][..]),
            ("execveat", &[]),
            ("kill", &[1, 9]),
            ("tkill", &[1, 9]),
            ("clone", &[17]),
        ] {
            assert_eq!(call(process, name, args), DENY, "{process} {name}");
        }
        assert_eq!(call(process, "clone", &[0x3d_0f00]), ALLOW, "{process}: a thread");
    }
    for (name, args) in [
        ("execve", &[][..]),
        ("kill", &[1, 9]),
        ("clone", &[17]),
        ("setresuid", &[]),
        ("bpf", &[16]),
    ] {
        assert_eq!(call("parent", name, args), ALLOW, "{name}");
    }
}

#[test]
fn files_are_written_by_the_daemon_alone_and_sockets_are_for_those_who_need_them() {
    let (read, write) = (&[0, 0, 0o2000000_u64][..], &[0, 0, 0o1101_u64][..]);
    for process in NARROW {
        let may_open = if process == "bpf" { DENY } else { ALLOW };
        assert_eq!(call(process, "openat", read), may_open, "{process}");
        let may = if process == "daemon" { ALLOW } else { DENY };
        for (name, args) in [
            ("openat", write),
            ("renameat", &[]),
            ("unlinkat", &[]),
            ("listen", &[]),
        ] {
            assert_eq!(call(process, name, args), may, "{process} {name}");
        }
        assert_eq!(call(process, "connect", &[]), DENY);
        assert_eq!(
            call(process, "sendto", &[3, 1, 1, 0, 1, 16]),
            DENY,
            "to an address"
        );
        assert_eq!(call(process, "mmap", &[0, 4096, 5]), DENY, "code");
        // RDMA's netlink, and the kernel's list of interfaces.
        let may = |processes: &[&str]| if processes.contains(&process) { ALLOW } else { DENY };
        assert_eq!(call(process, "socket", &[16, 3, 20]), may(&["rdma"]), "{process}");
        assert_eq!(
            call(process, "socket", &[16, 3, 0]),
            may(&["rdma", "daemon"]),
            "{process}"
        );
        let nvme = if process == "nvme" { ALLOW } else { DENY };
        assert_eq!(
            call(process, "ioctl", &[3, 0xc048_4e41]),
            nvme,
            "{process}: an admin command"
        );
        // NVME_IOCTL_IO_CMD, NVME_IOCTL_RESET and NVME_IOCTL_ADMIN64_CMD.
        for other in [0xc048_4e43, 0x4e44, 0xc050_4e47] {
            assert_eq!(call(process, "ioctl", &[3, other]), DENY, "{process} {other:#x}");
        }
        let bpf = if process == "bpf" { ALLOW } else { DENY };
        assert_eq!(call(process, "bpf", &[16]), bpf, "{process}");
        assert_eq!(
            call(process, "tgkill", &[u64::from(std::process::id()), 1, 6]),
            ALLOW
        );
        assert_eq!(call(process, "tgkill", &[1, 1, 9]), DENY);
    }
    let stream = 1 | 0o2000000;
    assert_eq!(call("daemon", "socket", &[2, stream]), ALLOW);
    assert_eq!(call("daemon", "socket", &[2, 2]), DENY, "UDP");
    for family in [2, 10, 16, 17] {
        assert_eq!(call("nvidia", "socket", &[family, stream]), DENY);
    }
    assert_eq!(call("nvidia", "socket", &[1, stream]), ALLOW);
}

/// Without CAP_SYS_TIME the call changes nothing, and of a clock of a device it is denied.
#[test]
fn only_the_host_worker_asks_for_the_state_of_the_clock() {
    for process in ALL {
        let may = ["host", "parent"].contains(&process);
        let expected = if may { ALLOW } else { DENY };
        assert_eq!(call(process, "clock_adjtime", &[0]), expected, "{process}");
        assert_eq!(call(process, "clock_adjtime", &[1]), DENY, "{process}");
        for name in ["adjtimex", "clock_settime", "settimeofday"] {
            assert_eq!(call(process, name, &[]), DENY, "{process} {name}");
        }
    }
}

/// All rules at once are far below the kernel's limit, and a call passes a short part of them.
#[test]
fn a_filter_is_short() {
    for process in ALL {
        let length = compile(policy::of(process)).unwrap().len();
        assert!(length < 1000, "{process}: {length}");
    }
    let _: &Policy = policy::of("unknown");
}
