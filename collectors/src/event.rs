//! What a watcher saw happen. Watchers deliver at least once; the daemon drops duplicates by boot id and sequence.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

use serde::{Deserialize, Serialize};

/// The kernel's id of one boot, `/proc/sys/kernel/random/boot_id`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BootId(pub String);

/// Where a watcher is to go on: the last event that the daemon stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The boot in which `seq` counts.
    pub boot: BootId,
    /// The sequence number of the last stored record, as the source numbers them.
    pub seq: u64,
}

/// The address of a PCI function as sysfs writes it: `0000:3b:00.0`, lower case, function 0 where the source names none.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PciAddress(pub String);

impl PciAddress {
    /// Reads `3b:00.0`, `0000:3b:00`, `0000:3b:00.0` or NVML's `00000000:3B:00.0`. `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let (rest, function) = match text.rsplit_once('.') {
            Some((rest, function)) => (rest, function),
            None => (text, "0"),
        };
        let mut parts = rest.rsplit(':');
        let device = parts.next()?;
        let bus = parts.next()?;
        let domain = parts.next().unwrap_or("0");
        if parts.next().is_some() || function.len() != 1 || device.len() != 2 || bus.len() != 2 {
            return None;
        }
        if domain.is_empty() || domain.len() > 8 || !function.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        // from_str_radix alone would take a sign.
        let hex = |s: &str| {
            s.bytes()
                .all(|b| b.is_ascii_hexdigit())
                .then(|| u32::from_str_radix(s, 16).ok())?
        };
        let (domain, bus, device) = (hex(domain)?, hex(bus)?, hex(device)?);
        if device > 0x1f || function > "7" {
            return None;
        }
        Some(Self(format!("{domain:04x}:{bus:02x}:{device:02x}.{function}")))
    }
}

impl std::fmt::Display for PciAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The boot in which it happened.
    pub boot: BootId,
    /// The sequence number of the (last) record behind it. Grows within one boot, never repeats for different records.
    pub seq: u64,
    /// When, in microseconds since boot, by the clock of the source (`/dev/kmsg`: CLOCK_MONOTONIC of the printing CPU).
    pub at_us: u64,
    /// It lies before the watcher's start, and no cursor of an earlier run was there: history.
    pub history: bool,
    /// How many records it stands for: 1, or more where a flood of equal lines was folded; 0 where nothing was read
    /// (only [`EventBody::Progress`]), and `seq` is no cursor then.
    pub count: u64,
    /// The line or message as it was, cut at 512 bytes, control characters escaped.
    pub text: String,
    /// What it says.
    pub body: EventBody,
}

/// What an event says.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum EventBody {
    /// `NVRM: Xid (PCI:0000:3b:00): 79, ...`
    Xid(Xid),
    /// `nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, ...`
    Sxid(Sxid),
    /// `NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.`: Xid 79's companion line, without a code.
    FallenOffBus {
        /// The GPU.
        pci: PciAddress,
    },
    /// `NVRM: GPU at PCI:0000:3b:00: GPU-<uuid>`: which GPU sits there. The driver prints it before a GPU's first Xid.
    Identity {
        /// Where it sits.
        pci: PciAddress,
        /// Its UUID, `GPU-` included.
        uuid: String,
    },
    /// What a GPU's driver tells through its library and is no Xid.
    Driver {
        /// Where the GPU sits.
        pci: PciAddress,
        /// What happened.
        what: DriverEvent,
    },
    /// What the kernel tells of an RDMA device or one of its ports.
    Rdma(RdmaChange),
    /// A network adapter's firmware did not answer its driver, or failed.
    Firmware {
        /// Where the adapter sits.
        pci: PciAddress,
        /// Its driver, as the line begins.
        driver: String,
        /// What happened.
        what: FirmwareFault,
    },
    /// A job of Slurm's began or ended on this node.
    Job(JobChange),
    /// Records were overwritten before they could be read (EPIPE of the kernel's log, ENOBUFS of netlink), or the watcher's
    /// own bound was reached.
    Overrun {
        /// How many, where the sequence numbers tell.
        lost: Option<u64>,
    },
    /// Nothing of interest; moves the cursor on so that a restart does not read the same lines again. The first of a
    /// watcher's run says that everything the source held at its start has been told.
    Progress,
}

/// A change of an RDMA device or port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RdmaChange {
    /// The device, by its name as of then.
    pub device: String,
    /// The port's number, empty where it is about the device.
    pub port: String,
    /// What happened.
    pub what: RdmaEvent,
}

/// What may happen to an RDMA device or port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RdmaEvent {
    /// A device came.
    DeviceAdded,
    /// A device left.
    DeviceRemoved,
    /// A port got a network interface.
    NetdevAttached,
    /// A port lost its network interface.
    NetdevDetached,
    /// A device, or the network interface of a port, has another name.
    Renamed,
    /// The network interface of a port lost its carrier.
    LinkDown,
    /// The network interface of a port has a carrier again.
    LinkUp,
}

impl RdmaEvent {
    /// The word used in labels.
    pub const fn word(self) -> &'static str {
        match self {
            Self::DeviceAdded => "device_added",
            Self::DeviceRemoved => "device_removed",
            Self::NetdevAttached => "netdev_attached",
            Self::NetdevDetached => "netdev_detached",
            Self::Renamed => "renamed",
            Self::LinkDown => "link_down",
            Self::LinkUp => "link_up",
        }
    }
}

/// A job of Slurm's that came or left.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobChange {
    /// The name of its cgroup: `job_7`, or a SLUID.
    pub folder: String,
    /// What happened.
    pub what: JobEvent,
}

/// What may happen to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum JobEvent {
    /// Its cgroup is there.
    Began,
    /// Its cgroup is gone.
    Ended,
}

impl JobEvent {
    /// The word for texts.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Began => "began",
            Self::Ended => "ended",
        }
    }
}

/// Who told of an Xid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum XidSource {
    /// The kernel's log: with everything that the driver printed.
    #[default]
    KernelLog,
    /// The driver's library (NVML): the code alone, and which part of the GPU it is about.
    Nvml,
}

impl XidSource {
    /// The word used in labels.
    pub const fn word(self) -> &'static str {
        match self {
            Self::KernelLog => "kernel_log",
            Self::Nvml => "nvml",
        }
    }
}

/// What NVML's event set tells besides Xids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DriverEvent {
    /// An ECC error that could not be corrected.
    DoubleBitError,
    /// Too many corrected ECC errors at once.
    SingleBitStorm,
    /// A row of memory was taken out of use.
    MemoryRetired,
    /// A row of memory could not be taken out of use.
    MemoryNotRetired,
    /// Wrong data was used, and contained.
    Poison,
    /// Wrong data was used, and not contained.
    FatalPoison,
    /// The GPU cannot be used.
    Unavailable,
    /// The driver asks for another recovery action.
    RecoveryAction,
    /// The node's power source changed.
    PowerSource,
    /// The GPU was divided into instances, or put together again.
    MigConfig,
}

impl DriverEvent {
    /// The word used in labels.
    pub const fn word(self) -> &'static str {
        match self {
            Self::DoubleBitError => "double_bit_error",
            Self::SingleBitStorm => "single_bit_storm",
            Self::MemoryRetired => "memory_retired",
            Self::MemoryNotRetired => "memory_not_retired",
            Self::Poison => "poison",
            Self::FatalPoison => "fatal_poison",
            Self::Unavailable => "unavailable",
            Self::RecoveryAction => "recovery_action",
            Self::PowerSource => "power_source",
            Self::MigConfig => "mig_config",
        }
    }
}

/// What a driver says of its adapter's firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum FirmwareFault {
    /// A command was not answered in time (mlx5: a minute); its resources are lost.
    CommandTimeout,
    /// A command was answered after its driver had given up.
    LateCompletion,
    /// The firmware's own heartbeat stands still.
    Unresponsive,
    /// The firmware, or the driver for it, tells of an error that it cannot recover from.
    Fatal,
    /// The driver asks for a reset of the adapter, or could not set it up again after one.
    Reset,
}

impl FirmwareFault {
    /// Every one.
    pub const ALL: [Self; 5] = [
        Self::CommandTimeout,
        Self::LateCompletion,
        Self::Unresponsive,
        Self::Fatal,
        Self::Reset,
    ];

    /// The word used in labels.
    pub const fn word(self) -> &'static str {
        match self {
            Self::CommandTimeout => "command_timeout",
            Self::LateCompletion => "late_completion",
            Self::Unresponsive => "unresponsive",
            Self::Fatal => "fatal",
            Self::Reset => "reset",
        }
    }
}

/// An Xid of NVIDIA's driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Xid {
    /// Who told of it.
    pub source: XidSource,
    /// The GPU.
    pub pci: PciAddress,
    /// What the driver wrote inside the parentheses behind the address (MIG instance, ...), trimmed, else empty.
    pub place: String,
    /// The code.
    pub code: u32,
    /// `pid=`, where it is a number.
    pub pid: Option<u32>,
    /// `name=`, where it is not `<unknown>`.
    pub process: Option<String>,
    /// The unit word of an NVLink 5 error (144 to 150): `RLW_SRC_TRACK`, `TLW_RX/TLW_RX_PIPE0`, `NETIR`.
    pub unit: Option<String>,
    /// Fatal or Nonfatal in an NVLink 5 error.
    pub fatal: Option<bool>,
    /// `Link N` in an NVLink 5 error (-1 means that the driver names none), `on link N` in Xid 74.
    pub link: Option<i32>,
    /// The hexadecimal words in the last parentheses (Xid 74 registers, NVLink 5 intrInfo and errorStatus).
    pub words: Vec<u64>,
    /// Xid 154: the driver's verdict.
    pub recovery: Option<Recovery>,
    /// The number of the GPU instance that it is about, where the library told one.
    pub gpu_instance: Option<u32>,
    /// The number of the compute instance.
    pub compute_instance: Option<u32>,
}

impl Xid {
    /// The number of the GPU instance that it is about: as the library told it, or by the driver's words behind the
    /// address (`GPU-I:05`). `None`: the GPU as a whole, or not known.
    pub fn instance(&self) -> Option<u32> {
        let by_words = || {
            let (_, rest) = self.place.split_once("GPU-I:")?;
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
            digits.parse().ok()
        };
        self.gpu_instance.or_else(by_words)
    }
}

/// The recovery action that the driver asks for: Xid 154, or NVML field 230.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Recovery {
    /// Nothing (any more).
    None,
    /// Reset this GPU.
    GpuReset,
    /// Reboot the node.
    NodeReboot,
    /// Stop peer-to-peer traffic.
    DrainP2p,
    /// Let the work end, then reset.
    DrainAndReset,
}

/// An SXid line of an NVSwitch in this host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sxid {
    /// The NVSwitch.
    pub pci: PciAddress,
    /// The code.
    pub code: u32,
    /// Fatal or Non-fatal, where the line says it.
    pub fatal: Option<bool>,
    /// `Link N`, where the line says it.
    pub link: Option<u32>,
}

/// Where a watcher puts its events. Bounded: a slow daemon makes the watcher wait, and the kernel's ring count the loss.
#[derive(Clone, Debug)]
pub struct Events {
    to: SyncSender<Event>,
    stop: Arc<AtomicBool>,
    listens: ListenCallback,
}

/// Called when a watcher has begun to listen.
#[derive(Clone)]
struct ListenCallback(Arc<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for ListenCallback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Listens")
    }
}

/// The daemon has gone; the watcher is to return.
#[derive(Debug, thiserror::Error)]
#[error("nobody takes the events any more")]
pub struct Closed;

impl Events {
    /// Wraps the sending side of a bounded channel.
    pub fn new(to: SyncSender<Event>) -> Self {
        Self::until(to, Arc::default())
    }

    /// The same, until `stop` is set: for a watcher that waits inside a driver, where nothing may interrupt it.
    pub fn until(to: SyncSender<Event>, stop: Arc<AtomicBool>) -> Self {
        let listens = ListenCallback(Arc::new(|| ()));
        Self { to, stop, listens }
    }

    /// The same, and this is called whenever the watcher says that it listens.
    #[must_use]
    pub fn heeding(self, listens: impl Fn() + Send + Sync + 'static) -> Self {
        let listens = ListenCallback(Arc::new(listens));
        Self { listens, ..self }
    }

    /// Whatever happens from now on will be told: a watcher that failed before works again, though nothing may happen for
    /// days.
    pub fn listens(&self) {
        (self.listens.0)();
    }

    /// Whether the watcher is to return as soon as it can.
    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Hands one event over, waiting while the channel is full.
    ///
    /// # Errors
    /// When the receiving side is gone.
    pub fn emit(&self, event: Event) -> Result<(), Closed> {
        self.to.send(event).map_err(|_| Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::{PciAddress, Xid};

    #[test]
    fn the_instance_is_told_or_read_in_the_words_behind_the_address() {
        let xid = |place: &str, gpu_instance| Xid {
            place: place.to_owned(),
            gpu_instance,
            ..Xid::default()
        };
        for (xid, want) in [
            (xid("", None), None),
            (xid("", Some(7)), Some(7)),
            (xid("GPU-I:05", None), Some(5)),
            (xid("GPU-I:05, GPU-CI:00", None), Some(5)),
            (xid("GPU-I:", None), None),
            (xid("elsewhere", None), None),
        ] {
            assert_eq!(xid.instance(), want, "{xid:?}");
        }
    }

    #[test]
    fn every_spelling_of_an_address_becomes_the_one_of_sysfs() {
        for (text, want) in [
            ("0000:3b:00", "0000:3b:00.0"),
            ("0000:3B:00.0", "0000:3b:00.0"),
            ("00000000:3B:00.1", "0000:3b:00.1"),
            ("3b:00.0", "0000:3b:00.0"),
            ("0008:01:00", "0008:01:00.0"),
            ("10000:01:1f.7", "10000:01:1f.7"),
        ] {
            assert_eq!(
                PciAddress::parse(text).map(|a| a.0).as_deref(),
                Some(want),
                "{text}"
            );
        }
        for text in [
            "",
            "3b",
            "x:00.0",
            "0000:3b:20.0",
            "0000:3b:00.8",
            "0000:3b:00.",
            "1:2:3:4.0",
            "+000:3b:00",
            "0000:3b:000",
        ] {
            assert_eq!(PciAddress::parse(text), None, "{text}");
        }
    }
}
