//! What a reading, a finding or an incident is about.

use serde::{Deserialize, Serialize};

/// Limit of the name of a device, a unit or a place, in bytes.
pub const MAX_NAME: usize = 256;

/// The kinds of things that can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubjectKind {
    /// The node as a whole.
    Node,
    /// A GPU, by `GPU-<uuid>`, or `pci:<address>` while no driver ever named it.
    Gpu,
    /// An NVSwitch, by `pci:<address>`.
    Nvswitch,
    /// A memory controller, by its EDAC name.
    MemoryController,
    /// A PCI function, by address.
    Pci,
    /// An RDMA device, by the kernel's name (`mlx5_0`).
    RdmaDevice,
    /// A port of an RDMA device: `mlx5_0/1`.
    RdmaPort,
    /// A job of Slurm's, by its number.
    Job,
    /// A part of nodewarden itself, by name.
    Worker,
    /// A disk or its controller, by the kernel's name (`nvme0`, `sda`).
    Disk,
    /// A filesystem: a local one by the kernel's name of its device (`dm-4`), one of Lustre by its own name.
    Filesystem,
    /// A network interface, by name, or by its nid in LNet.
    NetworkInterface,
    /// A server of storage, or one of its targets, as the kernel names it.
    Server,
    /// A mounted filesystem, by its mount point.
    Mount,
}

/// What a reading, a finding or an incident is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Subject {
    /// Its kind.
    pub kind: SubjectKind,
    /// Its name within the kind; empty for the node.
    pub name: String,
}

impl Subject {
    /// The node.
    pub fn node() -> Self {
        Self {
            kind: SubjectKind::Node,
            name: String::new(),
        }
    }

    /// A GPU, by its `gpu` label.
    pub fn gpu(label: impl Into<String>) -> Self {
        Self {
            kind: SubjectKind::Gpu,
            name: label.into(),
        }
    }

    /// A subject of any kind.
    pub fn new(kind: SubjectKind, name: impl Into<String>) -> Self {
        Self {
            kind,
            name: name.into(),
        }
    }
}

impl SubjectKind {
    /// The word used in labels and reasons.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Gpu => "gpu",
            Self::Nvswitch => "nvswitch",
            Self::MemoryController => "memory_controller",
            Self::Pci => "pci",
            Self::RdmaDevice => "rdma_device",
            Self::RdmaPort => "rdma_port",
            Self::Job => "job",
            Self::Worker => "worker",
            Self::Disk => "disk",
            Self::Filesystem => "filesystem",
            Self::NetworkInterface => "network_interface",
            Self::Server => "server",
            Self::Mount => "mount",
        }
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.kind.word())?;
        if !self.name.is_empty() {
            write!(f, " {}", self.name)?;
        }
        Ok(())
    }
}
