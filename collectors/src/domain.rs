//! The worker process of each collector, and its rights. A test compares /proc/PID/status with this table.

/// Where fixed ids begin: between those that systemd gives to users (60001-60577), containers and greeters, and its
/// dynamic users (61184-65519, <https://systemd.io/UIDS-GIDS/>).
const FIRST_UID: u32 = 60_800;
/// The daemon's uid and gid without a passwd entry.
pub const DAEMON_UID: u32 = FIRST_UID;
/// The daemon's uid of versions whose ids systemd could give to another service.
pub const FORMER_DAEMON_UID: u32 = 64_190;

/// What may end a worker, besides end of file on its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signals {
    /// Signals are allowed: this worker never runs inside a GPU driver.
    Allowed,
    /// Never: a signal into a GPU driver freezes the GPU (dcgm-exporter#84).
    Never,
}

/// A Linux capability, by its bit in /proc/PID/status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Capability {
    /// Give folders and records to the daemon.
    Chown = 0,
    /// Connect to the socket of mmfsd, whose mode admits only root.
    DacOverride = 1,
    /// Open `syscall`, `fd` and `environ` of another user's thread, whose mode admits only the owner (also needs
    /// [`Self::SysPtrace`]), files of debugfs, and /dev/nvmeN.
    DacReadSearch = 2,
    /// End a daemon that does not answer.
    Kill = 5,
    /// Start children under their own groups.
    Setgid = 6,
    /// Start children under their own users.
    Setuid = 7,
    /// Take capabilities from children.
    Setpcap = 8,
    /// List the BPF programs of a cgroup. Before Linux 6.9 CAP_SYS_ADMIN does not imply it there (kernel/bpf/syscall.c,
    /// `bpf_prog_query`; changed by 1310957bfe65).
    NetAdmin = 12,
    /// Read `wchan`, `syscall`, `fd`, `fdinfo` and `environ` of another user's thread (`ptrace_may_access`).
    SysPtrace = 19,
    /// Read BPF programs, and logs of NVMe controllers. No smaller capability suffices (kernel/bpf/syscall.c,
    /// `bpf_prog_get_fd_by_id`; drivers/nvme/host/ioctl.c, `nvme_cmd_allowed`).
    SysAdmin = 21,
    /// Open /dev/kmsg where kernel.dmesg_restrict is 1.
    Syslog = 34,
}

impl Capability {
    /// The capability's bit in the masks of /proc/PID/status.
    pub const fn mask(self) -> u64 {
        1 << self as u8
    }

    /// The name that capabilities(7) uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chown => "CAP_CHOWN",
            Self::DacOverride => "CAP_DAC_OVERRIDE",
            Self::DacReadSearch => "CAP_DAC_READ_SEARCH",
            Self::Kill => "CAP_KILL",
            Self::Setgid => "CAP_SETGID",
            Self::Setuid => "CAP_SETUID",
            Self::Setpcap => "CAP_SETPCAP",
            Self::NetAdmin => "CAP_NET_ADMIN",
            Self::SysPtrace => "CAP_SYS_PTRACE",
            Self::SysAdmin => "CAP_SYS_ADMIN",
            Self::Syslog => "CAP_SYSLOG",
        }
    }
}

/// One worker process.
#[derive(Debug)]
pub struct Domain {
    /// Argument of `nodewarden worker`, label of the worker's series, name of its lock slots.
    pub name: &'static str,
    /// The passwd entry with its ids, if that entry exists.
    pub user: &'static str,
    /// The numeric uid and gid without a passwd entry.
    pub uid: u32,
    /// The capabilities that it keeps if root started it.
    pub capabilities: &'static [Capability],
    /// Whether it may be signalled.
    pub signals: Signals,
    /// Path prefixes of its driver's device files. A program that has one open prevents a reset of the driver.
    /// Empty: no driver to release.
    pub devices: &'static [&'static str],
    /// Paths of which one exists on a node that has its source. On others the worker is not started. Empty: every node may
    /// have it.
    pub only_with: &'static [&'static str],
    /// The name of the key by which a site names a source elsewhere: where it is set, the worker is started.
    pub named_by: Option<&'static str>,
    /// Processes with a right that this worker lacks. They end with it, and it ends with each of them.
    pub helpers: &'static [&'static Helper],
}

impl Domain {
    /// Its CapEff, CapPrm and CapBnd.
    pub fn capability_mask(&self) -> u64 {
        mask(self.capabilities)
    }
}

/// A process that does one thing for a worker, because that needs a right that a process which parses must not have.
/// It takes requests of fixed size, returns raw bytes, and parses nothing ([`crate::sys::helper`]).
#[derive(Debug)]
pub struct Helper {
    /// Argument of `nodewarden helper`.
    pub name: &'static str,
    /// The passwd entry with its ids, if that entry exists.
    pub user: &'static str,
    /// The numeric uid and gid without a passwd entry.
    pub uid: u32,
    /// The capabilities that it keeps.
    pub capabilities: &'static [Capability],
    /// It has lock slots of its own, because its calls may never return and its worker also reads without it. Others hold
    /// the slot of their worker.
    pub own_slots: bool,
}

impl Helper {
    /// Its CapEff, CapPrm and CapBnd.
    pub fn capability_mask(&self) -> u64 {
        mask(self.capabilities)
    }
}

/// The bits of capabilities, as in /proc/PID/status.
pub fn mask(capabilities: &[Capability]) -> u64 {
    capabilities.iter().fold(0, |mask, c| mask | c.mask())
}

/// The kernel's log.
pub static KERNEL: Domain = Domain {
    name: "kernel",
    user: "nodewarden-kernel",
    uid: FIRST_UID + 1,
    capabilities: &[Capability::Syslog],
    signals: Signals::Allowed,
    devices: &[],
    only_with: &[],
    named_by: None,
    helpers: &[],
};

/// /proc, EDAC and PCI.
pub static HOST: Domain = Domain {
    name: "host",
    user: "nodewarden-host",
    uid: FIRST_UID + 2,
    capabilities: &[],
    signals: Signals::Allowed,
    devices: &[],
    only_with: &[],
    named_by: None,
    helpers: &[],
};

/// RDMA devices and the Ethernet ports below them, by sysfs, netlink and ethtool, which are open to every user.
pub static RDMA: Domain = Domain {
    name: "rdma",
    user: "nodewarden-rdma",
    uid: FIRST_UID + 3,
    capabilities: &[],
    signals: Signals::Allowed,
    devices: &[],
    only_with: &[],
    named_by: None,
    helpers: &[],
};

/// NVIDIA GPUs, by the driver's library. /dev/nvidia* is open to every user.
pub static NVIDIA: Domain = Domain {
    name: "nvidia",
    user: "nodewarden-nvidia",
    uid: FIRST_UID + 4,
    capabilities: &[],
    signals: Signals::Never,
    devices: &["/dev/nvidia"],
    only_with: &["/proc/driver/nvidia", "/sys/module/nvidia"],
    named_by: Some("nvidia.library"),
    helpers: &[],
};

/// AMD GPUs, by files of sysfs that are open to every user.
pub static AMD: Domain = Domain {
    name: "amd",
    user: "nodewarden-amd",
    uid: FIRST_UID + 13,
    capabilities: &[],
    signals: Signals::Allowed,
    devices: &[],
    only_with: &[
        "/sys/module/amdgpu",
        "/sys/bus/pci/drivers/amdgpu",
        "/sys/class/kfd",
    ],
    named_by: None,
    helpers: &[],
};

/// Slurm jobs: cgroups, the device programs attached to them, and the wait states of their blocked threads.
pub static SLURM: Domain = Domain {
    name: "slurm",
    user: "nodewarden-slurm",
    uid: FIRST_UID + 5,
    capabilities: &[],
    signals: Signals::Allowed,
    devices: &[],
    only_with: &[],
    named_by: None,
    helpers: &[&BPF, &PROC],
};

/// Clients of Lustre, by files that are open to every user up to 2.11, and in part after.
pub static LUSTRE: Domain = Domain {
    name: "lustre",
    user: "nodewarden-lustre",
    uid: FIRST_UID + 8,
    capabilities: &[],
    signals: Signals::Allowed,
    devices: &[],
    only_with: &["/sys/module/lnet", "/sys/fs/lustre", "/proc/fs/lustre"],
    named_by: None,
    helpers: &[&DEBUGFS],
};

/// GPFS: what mmfsd answers. It keeps its state in the first folder, and its programs are in the second.
pub static GPFS: Domain = Domain {
    name: "gpfs",
    user: "nodewarden-gpfs",
    uid: FIRST_UID + 10,
    capabilities: &[],
    signals: Signals::Allowed,
    devices: &[],
    only_with: &["/var/mmfs/mmpmon", "/usr/lpp/mmfs/bin"],
    named_by: None,
    helpers: &[&MMPMON],
};

/// Mounted filesystems and local NVMe drives, whose calls may never return.
pub static MOUNTS: Domain = Domain {
    name: "mounts",
    user: "nodewarden-mounts",
    uid: FIRST_UID + 12,
    capabilities: &[],
    signals: Signals::Allowed,
    devices: &[],
    only_with: &[],
    named_by: None,
    helpers: &[&NVME],
};

/// Device programs of cgroups: bpf(2) `BPF_PROG_QUERY`, `BPF_PROG_GET_FD_BY_ID`, `BPF_OBJ_GET_INFO_BY_FD`.
pub static BPF: Helper = Helper {
    name: "bpf",
    user: "nodewarden-bpf",
    uid: FIRST_UID + 6,
    capabilities: &[Capability::NetAdmin, Capability::SysAdmin],
    own_slots: false,
};

/// `wchan`, `syscall`, `fd` and `fdinfo` of threads, and the number of shards in `environ`.
pub static PROC: Helper = Helper {
    name: "proc",
    user: "nodewarden-proc",
    uid: FIRST_UID + 7,
    capabilities: &[Capability::DacReadSearch, Capability::SysPtrace],
    own_slots: false,
};

/// Connections to the socket of mmfsd.
pub static MMPMON: Helper = Helper {
    name: "mmpmon",
    user: "nodewarden-mmpmon",
    uid: FIRST_UID + 11,
    capabilities: &[Capability::DacOverride],
    own_slots: false,
};

/// Statistics of Lustre in debugfs, whose root folder only root may enter.
pub static DEBUGFS: Helper = Helper {
    name: "debugfs",
    user: "nodewarden-debugfs",
    uid: FIRST_UID + 9,
    capabilities: &[Capability::DacReadSearch],
    own_slots: false,
};

/// SMART logs of local NVMe drives. Started only where [`crate::needs`] it.
pub static NVME: Helper = Helper {
    name: "nvme",
    user: "nodewarden-nvme",
    uid: FIRST_UID + 14,
    capabilities: &[Capability::DacReadSearch, Capability::SysAdmin],
    own_slots: true,
};

/// All workers.
pub static DOMAINS: &[&Domain] = &[
    &KERNEL, &HOST, &RDMA, &NVIDIA, &AMD, &SLURM, &LUSTRE, &GPFS, &MOUNTS,
];

/// All helpers.
pub fn helpers() -> impl Iterator<Item = &'static Helper> {
    DOMAINS.iter().flat_map(|domain| domain.helpers.iter().copied())
}
