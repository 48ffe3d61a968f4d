//! Events that watchers observe. Delivery is at least once; the daemon drops duplicates by boot id and sequence
//! number.

mod admit;
mod job;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

use serde::{Deserialize, Serialize};

use crate::Subject;
pub(crate) use admit::MAX_TEXT;
pub use job::{End, JobChange, JobEnd, JobEvent, RecordId};

/// The kernel's id of one boot, `/proc/sys/kernel/random/boot_id`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BootId(pub String);

/// Where a watcher resumes: the last event that the daemon stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The boot in which `seq` counts.
    pub boot: BootId,
    /// The sequence number of the last stored record, as the source numbers them.
    pub seq: u64,
}

/// The address of a PCI function in sysfs format: `0000:3b:00.0`, lower case, function 0 if the source names none.
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
        // from_str_radix alone would accept a sign.
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

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The boot in which it happened.
    pub boot: BootId,
    /// The number of the event's (last) record. Increases within a boot and never repeats for different records.
    pub seq: u64,
    /// Microseconds since boot, by the clock of the source (`/dev/kmsg`: CLOCK_MONOTONIC of the printing CPU).
    pub at_us: u64,
    /// The event is older than the watcher's start, and no cursor of an earlier run exists.
    pub history: bool,
    /// Records that the event stands for: 1, or more if a flood of equal lines was folded. 0 if no record was read
    /// ([`EventBody::Progress`], [`EventBody::CursorAhead`]); `seq` is no cursor then.
    pub count: u64,
    /// The original line or message, cut at 512 bytes, control characters escaped.
    pub text: String,
    /// The content of the event.
    pub body: EventBody,
}

/// The content of an event.
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
    /// `NVRM: GPU at PCI:0000:3b:00: GPU-<uuid>`: the GPU at an address. The driver prints it before a GPU's first
    /// Xid.
    Identity {
        /// The GPU's address.
        pci: PciAddress,
        /// Its UUID, `GPU-` included.
        uuid: String,
    },
    /// An event from the driver's library other than an Xid.
    Driver {
        /// The GPU's address.
        pci: PciAddress,
        /// What happened.
        what: DriverEvent,
    },
    /// A change of an RDMA device or one of its ports.
    Rdma(RdmaChange),
    /// A network adapter's firmware did not answer its driver, or failed.
    Firmware {
        /// The adapter's address.
        pci: PciAddress,
        /// Its driver, from the start of the line.
        driver: String,
        /// What happened.
        what: FirmwareFault,
    },
    /// A line of the table of kernel lines.
    Kernel(KernelLine),
    /// A Slurm job began or ended on this node.
    Job(JobChange),
    /// The epilog of a Slurm job has left its record.
    JobEnd(Box<JobEnd>),
    /// Records were overwritten before they could be read (EPIPE of the kernel's log, ENOBUFS of netlink), or the
    /// watcher reached its own limit.
    Overrun {
        /// The number of lost records, if the sequence numbers show it.
        lost: Option<u64>,
    },
    /// The cursor is ahead of the newest record of its boot, so it is not believed: what the source holds follows again,
    /// as without a cursor.
    CursorAhead {
        /// The cursor's number.
        cursor: u64,
        /// The number of the newest record, if the source holds any.
        newest: Option<u64>,
    },
    /// No content; advances the cursor so that a restart does not read the same lines again. The first one of a
    /// watcher's run means that all events held by the source at the start were reported.
    Progress,
}

/// Kinds of events, as a [`crate::Spec`] lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// [`EventBody::Xid`] of that source.
    Xid(XidSource),
    /// [`EventBody::Sxid`].
    Sxid,
    /// [`EventBody::FallenOffBus`].
    FallenOffBus,
    /// [`EventBody::Identity`].
    Identity,
    /// [`EventBody::Driver`].
    Driver,
    /// [`EventBody::Rdma`].
    Rdma,
    /// [`EventBody::Firmware`].
    Firmware,
    /// [`EventBody::Kernel`].
    Kernel,
    /// [`EventBody::Job`].
    Job,
    /// [`EventBody::JobEnd`].
    JobEnd,
    /// [`EventBody::Overrun`].
    Overrun,
    /// [`EventBody::CursorAhead`].
    CursorAhead,
    /// [`EventBody::Progress`].
    Progress,
}

impl EventBody {
    /// Its kind.
    pub const fn kind(&self) -> EventKind {
        match self {
            Self::Xid(xid) => EventKind::Xid(xid.source),
            Self::Sxid(_) => EventKind::Sxid,
            Self::FallenOffBus { .. } => EventKind::FallenOffBus,
            Self::Identity { .. } => EventKind::Identity,
            Self::Driver { .. } => EventKind::Driver,
            Self::Rdma(_) => EventKind::Rdma,
            Self::Firmware { .. } => EventKind::Firmware,
            Self::Kernel(_) => EventKind::Kernel,
            Self::Job(_) => EventKind::Job,
            Self::JobEnd(_) => EventKind::JobEnd,
            Self::Overrun { .. } => EventKind::Overrun,
            Self::CursorAhead { .. } => EventKind::CursorAhead,
            Self::Progress => EventKind::Progress,
        }
    }
}

/// A line of the table of kernel lines ([`crate::kernel_log::lines`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KernelLine {
    /// The id of its row.
    pub row: String,
    /// What it is about.
    pub subject: Subject,
}

/// A change of an RDMA device or port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RdmaChange {
    /// The name of the device at the time of the event.
    pub device: String,
    /// The port's number, empty if the event concerns the device.
    pub port: String,
    /// What happened.
    pub what: RdmaEvent,
}

/// Kinds of changes of an RDMA device or port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RdmaEvent {
    /// A device was added.
    DeviceAdded,
    /// A device was removed.
    DeviceRemoved,
    /// A port got a network interface.
    NetdevAttached,
    /// A port lost its network interface.
    NetdevDetached,
    /// A device, or the network interface of a port, was renamed.
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

/// The source of an Xid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum XidSource {
    /// The kernel log, with the full message of the driver.
    #[default]
    KernelLog,
    /// The driver's library (NVML): only the code and the affected part of the GPU.
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

/// Events of NVML other than Xids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DriverEvent {
    /// An uncorrectable ECC error.
    DoubleBitError,
    /// Too many corrected ECC errors in a short time.
    SingleBitStorm,
    /// A memory row or page was retired.
    MemoryRetired,
    /// Retirement of a memory row or page failed.
    MemoryNotRetired,
    /// Poisoned data was used; the error was contained.
    Poison,
    /// Poisoned data was used; the error was not contained.
    FatalPoison,
    /// The GPU cannot be used.
    Unavailable,
    /// The driver requests another recovery action.
    RecoveryAction,
    /// The node's power source changed.
    PowerSource,
    /// The GPU's MIG configuration changed.
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

/// Firmware faults that an adapter's driver reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum FirmwareFault {
    /// A command time-out (mlx5: 60 s); the command's resources are lost.
    CommandTimeout,
    /// A command completed after its time-out.
    LateCompletion,
    /// The firmware's heartbeat stopped.
    Unresponsive,
    /// The firmware or its driver reports an unrecoverable error.
    Fatal,
    /// The driver requests a reset of the adapter, or could not set it up again after one.
    Reset,
}

impl FirmwareFault {
    /// All kinds.
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
    /// Where it was reported.
    pub source: XidSource,
    /// The GPU.
    pub pci: PciAddress,
    /// The text inside the parentheses after the address (MIG instance, ...), trimmed, else empty.
    pub place: String,
    /// The code.
    pub code: u32,
    /// `pid=`, if it is a number.
    pub pid: Option<u32>,
    /// `name=`, if it is not `<unknown>`.
    pub process: Option<String>,
    /// The unit word of an NVLink 5 error (144 to 150): `RLW_SRC_TRACK`, `TLW_RX/TLW_RX_PIPE0`, `NETIR`.
    pub unit: Option<String>,
    /// Fatal or Nonfatal in an NVLink 5 error.
    pub fatal: Option<bool>,
    /// `Link N` in an NVLink 5 error (-1: the driver names none), `on link N` in Xid 74.
    pub link: Option<i32>,
    /// The hexadecimal words in the last parentheses (Xid 74 registers, NVLink 5 intrInfo and errorStatus).
    pub words: Vec<u64>,
    /// Xid 154: the driver's verdict. Xid 94: that the GPU needs a reset all the same.
    pub recovery: Option<Recovery>,
    /// The affected GPU instance, if the library reported one.
    pub gpu_instance: Option<u32>,
    /// The affected compute instance.
    pub compute_instance: Option<u32>,
}

impl Xid {
    /// The affected GPU instance, as the library reported it or from the driver's text after the address
    /// (`GPU-I:05`). `None`: the GPU as a whole, or unknown.
    pub fn instance(&self) -> Option<u32> {
        let by_words = || {
            let (_, rest) = self.place.split_once("GPU-I:")?;
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
            digits.parse().ok()
        };
        self.gpu_instance.or_else(by_words)
    }
}

/// The recovery action that the driver requests: Xid 154, or NVML field 230.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Recovery {
    /// None (any more).
    None,
    /// Reset this GPU.
    GpuReset,
    /// Reboot the node.
    NodeReboot,
    /// Stop peer-to-peer traffic.
    DrainP2p,
    /// Let running work finish, then reset.
    DrainAndReset,
}

impl Recovery {
    /// The Xid that reports it.
    pub const XID: u32 = 154;
}

/// An SXid line of an NVSwitch in this host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sxid {
    /// The NVSwitch.
    pub pci: PciAddress,
    /// The code.
    pub code: u32,
    /// Fatal or Non-fatal, if the line names it.
    pub fatal: Option<bool>,
    /// `Link N`, if the line names it.
    pub link: Option<u32>,
}

/// The channel for a watcher's events. Bounded: if the daemon is slow, the watcher waits, and the kernel's ring
/// buffer counts the loss.
#[derive(Clone, Debug)]
pub struct Events {
    to: SyncSender<Event>,
    stop: Arc<AtomicBool>,
    listens: ListenCallback,
}

/// Called when a watcher has started to listen.
#[derive(Clone)]
struct ListenCallback(Arc<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for ListenCallback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Listens")
    }
}

/// The daemon is gone; the watcher must return.
#[derive(Debug, thiserror::Error)]
#[error("event channel closed: the receiver is gone")]
pub struct Closed;

impl Events {
    /// Wraps the sending side of a bounded channel.
    pub fn new(to: SyncSender<Event>) -> Self {
        Self::until(to, Arc::default())
    }

    /// As [`Self::new`], until `stop` is set: for a watcher that waits in a driver, where it cannot be interrupted.
    pub fn until(to: SyncSender<Event>, stop: Arc<AtomicBool>) -> Self {
        let listens = ListenCallback(Arc::new(|| ()));
        Self { to, stop, listens }
    }

    /// As [`Self::new`], with a callback that is called whenever the watcher reports that it listens.
    #[must_use]
    pub fn heeding(self, listens: impl Fn() + Send + Sync + 'static) -> Self {
        let listens = ListenCallback(Arc::new(listens));
        Self { listens, ..self }
    }

    /// Reports that all further events will be delivered: a watcher that failed before works again, even if no
    /// event follows for days.
    pub fn listens(&self) {
        (self.listens.0)();
    }

    /// Whether the watcher must return as soon as possible.
    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Sends one event; waits while the channel is full.
    ///
    /// # Errors
    /// When the receiver is gone.
    pub fn emit(&self, event: Event) -> Result<(), Closed> {
        self.to.send(event).map_err(|_| Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::{PciAddress, Xid};

    #[test]
    fn the_instance_is_reported_or_read_in_the_words_behind_the_address() {
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
