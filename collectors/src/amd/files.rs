//! Files of one GPU. One that is absent is not supported by the GPU; one that cannot be read now is not a 0.

use std::path::PathBuf;
use std::time::Duration;

use crate::Error;
use crate::host::link;
use crate::sys::{records, root};

/// No reset and no start of a GPU takes longer.
const BUSY: Duration = Duration::from_secs(600);
/// The longest table: sysfs returns at most one page.
const TABLE: u64 = 4096;

/// The folder of a GPU's PCI function.
#[derive(Debug)]
pub(super) struct GpuFiles(PathBuf);

impl GpuFiles {
    pub(super) const fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// Where the link of the card is read. `None`: unknown.
    pub(super) fn card(&self) -> Option<PathBuf> {
        link::of_card(&self.0)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The table of most values. `Ok(None)`: this GPU or driver has none, and answers.
    ///
    /// # Errors
    /// When the driver does not answer for the GPU.
    pub(super) fn table(&self) -> Result<Option<Vec<u8>>, Failure> {
        match root::read_bytes(&self.path("gpu_metrics"), TABLE) {
            Ok(Some(bytes)) => Ok(Some(bytes)),
            // Unsupported, or the GPU has left.
            Ok(None) if self.text("mem_info_vram_total").is_some() => Ok(None),
            Ok(None) => Err(Failure::Gone),
            Err(error) => Failure::of(&error).map_or(Ok(None), Err),
        }
    }

    /// The table of the partition whose device this is.
    pub(super) fn partition_table(&self) -> TableFile {
        match root::read_bytes(&self.path("xcp/xcp_metrics"), TABLE) {
            Ok(Some(bytes)) => TableFile::Read(bytes),
            Ok(None) => TableFile::Absent,
            Err(error) => Failure::of(&error).map_or(TableFile::Absent, |_| TableFile::Unreadable),
        }
    }

    /// A text. An empty one is the answer of a query that failed within the driver.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        let text = root::read_lossy(&self.path(name)).ok().flatten();
        text.filter(|text| !text.is_empty())
    }

    /// Whether the driver refuses a file that it has, as during a reset of the GPU (EPERM).
    pub(super) fn refuses(&self, name: &str) -> bool {
        root::read_lossy(&self.path(name)).is_err()
    }

    /// A decimal number.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// A list whose driver returns whole lines only, of about `max` bytes at most.
    pub(super) fn records(&self, name: &str, max: usize) -> Option<String> {
        let bytes = records::read(&self.path(name), max).ok().flatten()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The names in a folder.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        root::list(&self.path(name)).ok().flatten().unwrap_or_default()
    }
}

/// The file of a partition's table.
#[derive(Debug)]
pub(super) enum TableFile {
    /// This driver has none, or the partition is gone.
    Absent,
    /// The driver refused the read.
    Unreadable,
    Read(Vec<u8>),
}

/// Why the driver does not answer for a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It left: the driver has removed its files.
    Gone,
    /// It is being reset, or its start has not ended: the driver refuses reads for that time.
    Busy,
    /// Anything else.
    Unknown,
}

impl Failure {
    /// The driver refuses with EPERM or EBUSY while a GPU is reset: the files are open to every user. `None`: the GPU has
    /// no such table.
    pub(super) fn of(error: &Error) -> Option<Self> {
        let Error::Io { source, .. } = error else {
            return Some(Self::Unknown);
        };
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES | libc::EBUSY | libc::EAGAIN) => Some(Self::Busy),
            Some(libc::ENODEV) => Some(Self::Gone),
            Some(libc::EOPNOTSUPP | libc::ENODATA) => None,
            _ => Some(Self::Unknown),
        }
    }

    /// What it is after the driver has been busy for this long.
    pub(super) fn after(self, busy: Option<Duration>) -> Self {
        match busy {
            Some(busy) if busy >= BUSY => Self::Unknown,
            _ => self,
        }
    }

    /// The value of the label `reason`.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::Gone => "lost",
            Self::Busy => "busy",
            Self::Unknown => "unknown",
        }
    }
}
