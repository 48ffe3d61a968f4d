//! What each process may ask of the kernel. A call of a name that an architecture does not have is skipped there.

use std::collections::BTreeSet;
use std::fmt;

/// The filter of one process.
#[derive(Debug)]
pub struct Policy {
    pub(super) kind: Kind,
    /// Whole calls.
    pub(super) groups: &'static [&'static [&'static str]],
    /// Calls with certain arguments.
    pub(super) rules: &'static [&'static [Rule]],
    /// Of an [`Kind::AllBut`]: the calls since Linux 5.1 that exist.
    pub(super) modern: &'static [&'static str],
}

/// The meaning of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Only these calls are allowed.
    Only,
    /// These calls are denied.
    AllBut,
}

/// A call, and the conditions that all hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) call: &'static str,
    /// Number of the argument, from 0.
    pub(super) when: &'static [(u8, Test)],
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Test {
    Is(u64),
    IsNot(u64),
    /// These bits have that value.
    Bits(u64, u64),
    Null,
    IsOwnPid,
}
use Test::{Bits, Is, IsNot, IsOwnPid, Null};

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Is(value) => write!(f, ": {value:#x}"),
            IsNot(value) => write!(f, ": !{value:#x}"),
            Bits(mask, value) => write!(f, "&{mask:#x}: {value:#x}"),
            Null => write!(f, ": null"),
            IsOwnPid => write!(f, ": own pid"),
        }
    }
}

impl Policy {
    pub(super) fn calls(&self) -> impl Iterator<Item = &'static str> {
        self.groups.iter().copied().flatten().copied()
    }

    /// The kind of list, for the document.
    pub const fn word(&self) -> &'static str {
        match self.kind {
            Kind::Only => "only listed calls",
            Kind::AllBut => "all but listed calls",
        }
    }

    /// The word before the calls of [`Self::describe`].
    pub const fn verb(&self) -> &'static str {
        match self.kind {
            Kind::Only => "Allowed",
            Kind::AllBut => "Denied",
        }
    }

    /// The calls of the list, sorted, with their conditions in parentheses.
    pub fn describe(&self) -> Vec<String> {
        let whole: BTreeSet<String> = self.calls().map(str::to_owned).collect();
        let rules = self.rules.iter().copied().flatten();
        let narrowed = rules.filter(|rule| !whole.contains(rule.call)).map(|rule| {
            let when: Vec<String> = rule
                .when
                .iter()
                .map(|(arg, test)| format!("{arg}{test}"))
                .collect();
            format!("{}({})", rule.call, when.join(", "))
        });
        let all: BTreeSet<String> = narrowed.chain(whole.iter().cloned()).collect();
        all.into_iter().collect()
    }
}

const fn rule(call: &'static str, when: &'static [(u8, Test)]) -> Rule {
    Rule { call, when }
}

/// The filter of a process by its name in [`crate::processes`]. A worker without a row has the narrowest.
pub fn of(process: &str) -> &'static Policy {
    match process {
        "parent" => &PARENT,
        "daemon" => &DAEMON,
        "host" => &HOST,
        "rdma" => &RDMA,
        "nvidia" => &NVIDIA,
        "slurm" => &SLURM,
        "bpf" => &BPF,
        "proc" | "debugfs" => &PROC,
        "mmpmon" => &MMPMON,
        "nvme" => &NVME,
        _ => &WORKER,
    }
}

const CLONE_THREAD: u64 = 0x1_0000;
const O_WRITES: u64 = 0o1103;
const PROT_EXEC: u64 = 4;
const FIONBIO: u64 = 0x5421;
const FIONREAD: u64 = 0x541b;
const TCGETS: u64 = 0x5401;
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541c;
const SIOCETHTOOL: u64 = 0x8946;
const CLOCK_REALTIME: u64 = 0;
/// Commands to the controller itself, not to its disks.
const NVME_IOCTL_ADMIN_CMD: u64 = 0xc048_4e41;
const PR_SET_NAME: u64 = 15;
const PR_GET_NAME: u64 = 16;
const PR_CAPBSET_READ: u64 = 23;
const PR_SET_VMA: u64 = 0x5356_4d41;
const UNIX: u64 = 1;
const INET: u64 = 2;
const INET6: u64 = 10;
const NETLINK: u64 = 16;
const NETLINK_ROUTE: u64 = 0;
/// Size of `struct sockaddr_nl`; those of IPv4 and IPv6 have 16 and 28 bytes.
const NETLINK_ADDRESS: u64 = 12;
const STREAM: u64 = 1;
const DATAGRAM: u64 = 2;
/// Without SOCK_NONBLOCK and SOCK_CLOEXEC.
const SOCKET_TYPE: u64 = 0xf;
const MSG_FASTOPEN: u64 = 0x2000_0000;
const S_IFMT: u64 = 0o170_000;
const S_IFCHR: u64 = 0o020_000;
const S_IFBLK: u64 = 0o060_000;
/// `BPF_PROG_GET_FD_BY_ID`, `BPF_OBJ_GET_INFO_BY_FD` and `BPF_PROG_QUERY`: they read programs.
const BPF_READS: [u64; 3] = [13, 15, 16];

/// Memory, threads, clocks, random numbers: what the C library and the runtime ask for.
#[rustfmt::skip]
const RUNTIME: &[&str] = &[
    "brk", "munmap", "mremap", "madvise", "membarrier", "mincore", "futex", "set_robust_list",
    "get_robust_list", "rseq", "set_tid_address", "exit", "exit_group", "sched_yield", "sched_getaffinity",
    "getcpu", "gettid", "getpid", "getppid", "getuid", "geteuid", "getgid", "getegid", "getresuid",
    "getresgid", "getgroups", "capget", "uname", "sysinfo", "getrusage", "times", "getrlimit", "getrandom",
    "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time", "rt_sigaction",
    "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "restart_syscall", "umask",
];
/// Threads and no process; no memory that holds code; signals and limits of the process itself.
const RUNTIME_RULES: &[Rule] = &[
    rule("clone", &[(0, Bits(CLONE_THREAD, CLONE_THREAD))]),
    rule("mmap", &[(2, Bits(PROT_EXEC, 0))]),
    rule("mprotect", &[(2, Bits(PROT_EXEC, 0))]),
    rule("tgkill", &[(0, IsOwnPid)]),
    rule("prlimit64", &[(2, Null)]),
    rule("prctl", &[(0, Is(PR_SET_NAME))]),
    rule("prctl", &[(0, Is(PR_GET_NAME))]),
    rule("prctl", &[(0, Is(PR_CAPBSET_READ))]),
    rule("prctl", &[(0, Is(PR_SET_VMA))]),
    rule("ioctl", &[(1, Is(FIONBIO))]),
    rule("ioctl", &[(1, Is(FIONREAD))]),
    rule("ioctl", &[(1, Is(TCGETS))]),
];

/// Reads of files and folders.
#[rustfmt::skip]
const READS: &[&str] = &[
    "read", "readv", "pread64", "preadv", "close", "close_range", "fstat", "newfstatat", "stat", "lstat",
    "statx", "statfs", "fstatfs", "lseek", "getdents64", "readlink", "readlinkat", "access", "faccessat",
    "faccessat2", "fcntl", "dup", "dup2", "dup3", "getcwd", "fadvise64",
];
const OPEN_TO_READ: &[Rule] = &[rule("openat", &[(2, Bits(O_WRITES, 0))])];

/// Which files come, leave and are replaced.
const FILE_CHANGES: &[&str] = &["inotify_init1", "inotify_add_watch"];

/// Waiting, and the socket or pipe that a process already has.
#[rustfmt::skip]
const LINK: &[&str] = &[
    "write", "writev", "poll", "ppoll", "select", "pselect6", "epoll_create1", "epoll_ctl", "epoll_wait",
    "epoll_pwait", "epoll_pwait2", "eventfd2", "pipe2", "timerfd_create", "timerfd_settime",
    "timerfd_gettime", "recvfrom", "recvmsg", "getsockopt", "setsockopt", "getsockname", "getpeername",
    "shutdown",
];
/// No address: to the peer alone.
const LINK_RULES: &[Rule] = &[rule("sendto", &[(3, Bits(MSG_FASTOPEN, 0)), (4, Null)])];

/// Files of the state and run directories, and listening.
#[rustfmt::skip]
const DAEMON_CALLS: &[&str] = &[
    "openat", "pwrite64", "fsync", "fdatasync", "ftruncate", "fallocate", "rename", "renameat", "renameat2",
    "unlink", "unlinkat", "chmod", "fchmod", "fchmodat", "mkdir", "mkdirat", "flock", "bind", "listen",
    "accept", "accept4",
];
/// Streams only, and no connect(2): the daemon answers and never calls. No sendmsg(2): a descriptor that the parent
/// receives may block it when it is closed.
const DAEMON_RULES: &[Rule] = &[
    rule("socket", &[(0, Is(UNIX)), (1, Bits(SOCKET_TYPE, STREAM))]),
    rule("socket", &[(0, Is(INET)), (1, Bits(SOCKET_TYPE, STREAM))]),
    rule("socket", &[(0, Is(INET6)), (1, Bits(SOCKET_TYPE, STREAM))]),
    // The C library's list of interfaces, with an address as long as netlink's.
    rule("socket", &[(0, Is(NETLINK)), (2, Is(NETLINK_ROUTE))]),
    rule("sendto", &[(3, Bits(MSG_FASTOPEN, 0)), (5, Is(NETLINK_ADDRESS))]),
];

static DAEMON: Policy = Policy {
    kind: Kind::Only,
    groups: &[RUNTIME, READS, LINK, DAEMON_CALLS],
    rules: &[RUNTIME_RULES, LINK_RULES, DAEMON_RULES],
    modern: &[],
};

/// Of workers `kernel`, `amd`, `lustre`, `gpfs` and `mounts`.
static WORKER: Policy = Policy {
    kind: Kind::Only,
    groups: &[RUNTIME, READS, LINK],
    rules: &[RUNTIME_RULES, OPEN_TO_READ, LINK_RULES],
    modern: &[],
};

/// It asks for the state of the clock. A change needs CAP_SYS_TIME, which no process has.
static HOST: Policy = Policy {
    kind: Kind::Only,
    groups: &[RUNTIME, READS, LINK],
    rules: &[
        RUNTIME_RULES,
        OPEN_TO_READ,
        LINK_RULES,
        &[rule("clock_adjtime", &[(0, Is(CLOCK_REALTIME))])],
    ],
    modern: &[],
};

static RDMA: Policy = Policy {
    kind: Kind::Only,
    groups: &[RUNTIME, READS, LINK, FILE_CHANGES, &["bind"]],
    rules: &[
        RUNTIME_RULES,
        OPEN_TO_READ,
        LINK_RULES,
        &[
            rule("socket", &[(0, Is(NETLINK))]),
            rule("socket", &[(0, Is(INET)), (1, Bits(SOCKET_TYPE, DATAGRAM))]),
            rule("ioctl", &[(1, Is(SIOCETHTOOL))]),
        ],
    ],
    modern: &[],
};

static SLURM: Policy = Policy {
    kind: Kind::Only,
    groups: &[RUNTIME, READS, LINK, FILE_CHANGES, &["inotify_rm_watch"]],
    rules: &[
        RUNTIME_RULES,
        OPEN_TO_READ,
        LINK_RULES,
        // A cgroup's folder to a helper.
        &[rule("sendmsg", &[(2, Bits(MSG_FASTOPEN, 0))])],
    ],
    modern: &[],
};

/// Its socket, connections to sockets of this node, and no file.
static MMPMON: Policy = Policy {
    kind: Kind::Only,
    groups: &[RUNTIME, &["close", "connect", "recvfrom", "recvmsg", "write"]],
    rules: &[
        RUNTIME_RULES,
        LINK_RULES,
        &[
            rule("socket", &[(0, Is(UNIX)), (1, Bits(SOCKET_TYPE, STREAM))]),
            rule("sendmsg", &[(2, Bits(MSG_FASTOPEN, 0))]),
        ],
    ],
    modern: &[],
};

/// Its socket and its part, and no file: cgroups come as open folders.
static BPF: Policy = Policy {
    kind: Kind::Only,
    groups: &[RUNTIME, &["close", "fstatfs", "recvfrom", "recvmsg", "write"]],
    rules: &[
        RUNTIME_RULES,
        LINK_RULES,
        &[
            rule("bpf", &[(0, Is(BPF_READS[0]))]),
            rule("bpf", &[(0, Is(BPF_READS[1]))]),
            rule("bpf", &[(0, Is(BPF_READS[2]))]),
        ],
    ],
    modern: &[],
};

/// Its socket, devices to open and one call on them; it reads no file.
static NVME: Policy = Policy {
    kind: Kind::Only,
    groups: &[
        RUNTIME,
        &[
            "close",
            "fstat",
            "newfstatat",
            "statx",
            "recvfrom",
            "recvmsg",
            "write",
        ],
    ],
    rules: &[
        RUNTIME_RULES,
        OPEN_TO_READ,
        LINK_RULES,
        &[rule("ioctl", &[(1, Is(NVME_IOCTL_ADMIN_CMD))])],
    ],
    modern: &[],
};

/// Of helpers `proc` and `debugfs`: its socket, and files to read.
static PROC: Policy = Policy {
    kind: Kind::Only,
    groups: &[RUNTIME, READS, &["recvfrom", "recvmsg", "write"]],
    rules: &[RUNTIME_RULES, OPEN_TO_READ, LINK_RULES],
    modern: &[],
};

/// Other processes, the system as a whole, and the kernel's wide interfaces: no process needs them, scontrol neither.
#[rustfmt::skip]
const SYSTEM: &[&str] = &[
    "ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "mount", "umount2", "pivot_root", "chroot",
    "setns", "unshare", "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load",
    "reboot", "swapon", "swapoff", "acct", "quotactl", "iopl", "ioperm", "modify_ldt", "settimeofday",
    "clock_settime", "adjtimex", "sethostname", "setdomainname", "add_key", "request_key",
    "keyctl", "perf_event_open", "userfaultfd", "fanotify_init", "fanotify_mark", "open_by_handle_at",
    "name_to_handle_at", "syslog", "vhangup", "lookup_dcookie", "move_pages", "migrate_pages", "vmsplice",
];
/// New namespaces, device files, text into a terminal, programs for the kernel, and sockets below the network's.
const SYSTEM_RULES: &[Rule] = &[
    rule("clone", &[(0, Bits(0x0200_0000, 0x0200_0000))]),
    rule("clone", &[(0, Bits(0x0400_0000, 0x0400_0000))]),
    rule("clone", &[(0, Bits(0x0800_0000, 0x0800_0000))]),
    rule("clone", &[(0, Bits(0x1000_0000, 0x1000_0000))]),
    rule("clone", &[(0, Bits(0x2000_0000, 0x2000_0000))]),
    rule("clone", &[(0, Bits(0x4000_0000, 0x4000_0000))]),
    rule("clone", &[(0, Bits(0x0002_0000, 0x0002_0000))]),
    rule("mknod", &[(1, Bits(S_IFMT, S_IFCHR))]),
    rule("mknod", &[(1, Bits(S_IFMT, S_IFBLK))]),
    rule("mknodat", &[(2, Bits(S_IFMT, S_IFCHR))]),
    rule("mknodat", &[(2, Bits(S_IFMT, S_IFBLK))]),
    rule("ioctl", &[(1, Is(TIOCSTI))]),
    rule("ioctl", &[(1, Is(TIOCLINUX))]),
    // The worker `host` inherits it.
    rule("clock_adjtime", &[(0, IsNot(CLOCK_REALTIME))]),
    rule(
        "bpf",
        &[
            (0, IsNot(BPF_READS[0])),
            (0, IsNot(BPF_READS[1])),
            (0, IsNot(BPF_READS[2])),
        ],
    ),
    rule(
        "socket",
        &[
            (0, IsNot(UNIX)),
            (0, IsNot(INET)),
            (0, IsNot(INET6)),
            (0, IsNot(NETLINK)),
        ],
    ),
];
/// Not clone3 and io_uring: a filter sees none of their arguments.
#[rustfmt::skip]
const MODERN: &[&str] = &[
    "pidfd_send_signal", "pidfd_open", "openat2", "close_range", "faccessat2", "epoll_pwait2",
    "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "futex_waitv", "futex_wake",
    "futex_wait", "futex_requeue", "set_mempolicy_home_node", "cachestat", "fchmodat2", "map_shadow_stack",
    "mseal",
];

/// Also for its commands and for all children, which inherit it.
static PARENT: Policy = Policy {
    kind: Kind::AllBut,
    groups: &[SYSTEM],
    rules: &[SYSTEM_RULES],
    modern: MODERN,
};

/// Processes, users, servers and shared memory: a reading of a GPU needs none.
#[rustfmt::skip]
const NVIDIA_DENIED: &[&str] = &[
    "bpf", "clock_adjtime", "execve", "execveat", "fork", "vfork", "tkill", "listen", "accept", "accept4", "setuid",
    "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups", "setfsuid", "setfsgid",
    "capset", "seccomp", "mknod", "mknodat", "inotify_init", "inotify_init1", "mq_open", "shmget", "msgget",
    "semget", "setrlimit",
];

/// A list of denied calls, because what the driver's library asks for changes with each version.
static NVIDIA: Policy = Policy {
    kind: Kind::AllBut,
    groups: &[SYSTEM, NVIDIA_DENIED],
    rules: &[
        SYSTEM_RULES,
        &[
            rule("clone", &[(0, Bits(CLONE_THREAD, 0))]),
            rule("socket", &[(0, IsNot(UNIX))]),
            // Signal 0 only asks whether a process exists.
            rule("kill", &[(1, IsNot(0))]),
        ],
    ],
    modern: &[
        "openat2",
        "close_range",
        "faccessat2",
        "epoll_pwait2",
        "futex_waitv",
        "set_mempolicy_home_node",
        "mseal",
    ],
};
