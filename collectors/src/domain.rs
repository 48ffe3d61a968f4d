//! Which worker process a collector runs in, and with which rights. A test compares /proc/PID/status with this table.

/// What may end a worker besides the end of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signals {
    /// A signal is allowed: nothing in it can be inside a GPU driver.
    Allowed,
    /// Never: a signal into a GPU driver freezes the GPU (dcgm-exporter#84).
    Never,
}

/// A Linux capability, by its bit in /proc/PID/status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Capability {
    /// Open `syscall` and `fd` of another user's thread: their mode admits the owner alone. Needs [`Self::SysPtrace`] too.
    DacReadSearch = 2,
    /// Read `wchan`, `syscall`, `fd` and `fdinfo` of another user's thread (`ptrace_may_access`).
    SysPtrace = 19,
    /// Read what BPF programs say. Nothing less suffices (kernel/bpf/syscall.c, `bpf_prog_get_fd_by_id`).
    SysAdmin = 21,
    /// Open /dev/kmsg where kernel.dmesg_restrict is 1.
    Syslog = 34,
}

impl Capability {
    /// The capability's bit in the masks of /proc/PID/status.
    pub const fn mask(self) -> u64 {
        1 << self as u8
    }
}

/// One worker process.
#[derive(Debug)]
pub struct Domain {
    /// The name: argument of `nodewarden worker`, label of its series, name of its lock slots.
    pub name: &'static str,
    /// The passwd entry whose ids it runs with, where there is one.
    pub user: &'static str,
    /// The numeric uid and gid without a passwd entry.
    pub uid: u32,
    /// What it keeps when root started it.
    pub capabilities: &'static [Capability],
    /// Whether it may be signalled.
    pub signals: Signals,
    /// What the device files of its driver begin with: whoever has one open keeps the driver from being reset. Empty
    /// where there is no driver to let go of.
    pub devices: &'static [&'static str],
}

impl Domain {
    /// The CapEff (and CapPrm, CapBnd) that it runs with.
    pub fn capability_mask(&self) -> u64 {
        self.capabilities.iter().fold(0, |mask, c| mask | c.mask())
    }
}

/// The kernel's log.
pub static KERNEL: Domain = Domain {
    name: "kernel",
    user: "nodewarden-kernel",
    uid: 64191,
    capabilities: &[Capability::Syslog],
    signals: Signals::Allowed,
    devices: &[],
};

/// /proc, EDAC and PCI.
pub static HOST: Domain = Domain {
    name: "host",
    user: "nodewarden-host",
    uid: 64192,
    capabilities: &[],
    signals: Signals::Allowed,
    devices: &[],
};

/// RDMA devices and the Ethernet ports below them, by sysfs, netlink and ethtool: open to everybody.
pub static RDMA: Domain = Domain {
    name: "rdma",
    user: "nodewarden-rdma",
    uid: 64193,
    capabilities: &[],
    signals: Signals::Allowed,
    devices: &[],
};

/// NVIDIA's GPUs, by the driver's library. /dev/nvidia* is open to everybody.
pub static NVIDIA: Domain = Domain {
    name: "nvidia",
    user: "nodewarden-nvidia",
    uid: 64194,
    capabilities: &[],
    signals: Signals::Never,
    devices: &["/dev/nvidia"],
};

/// Slurm's jobs: cgroups, the device programs that are attached to them, and what their blocked threads wait for.
pub static SLURM: Domain = Domain {
    name: "slurm",
    user: "nodewarden-slurm",
    uid: 64195,
    capabilities: &[
        Capability::DacReadSearch,
        Capability::SysPtrace,
        Capability::SysAdmin,
    ],
    signals: Signals::Allowed,
    devices: &[],
};

/// Every worker there is.
pub static DOMAINS: &[&Domain] = &[&KERNEL, &HOST, &RDMA, &NVIDIA, &SLURM];
