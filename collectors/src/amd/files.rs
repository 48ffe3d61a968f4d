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

    /// The table of most values. `Ok(None)`: this GPU or driver has none, and answers. `had`: it has given one before.
    ///
    /// # Errors
    /// When the driver does not answer for the GPU.
    pub(super) fn table(&self, had: bool) -> Result<Option<Vec<u8>>, Failure> {
        match root::read_bytes(&self.path("gpu_metrics"), TABLE) {
            Ok(Some(bytes)) => Ok(Some(bytes)),
            // Unsupported, or the GPU has left.
            Ok(None) if self.text("mem_info_vram_total").is_some() => Ok(None),
            Ok(None) => Err(Failure::Gone),
            Err(error) => self.failure(&error, had).map_or(Ok(None), Err),
        }
    }

    /// What an error of the table means. `None`: this GPU has no table, and answers.
    fn failure(&self, error: &Error, had: bool) -> Option<Failure> {
        // After a reset that failed the driver refuses table and sensors as if the GPU did not support them (`dpm_enabled`).
        let is_dead = || had || self.refuses_sensors();
        Failure::of(error).or_else(|| is_dead().then_some(Failure::Unknown))
    }

    /// Whether the driver has sensors of temperature, and refuses them all.
    fn refuses_sensors(&self) -> bool {
        let Some(hwmon) = self.hwmon() else {
            return false;
        };
        let read = |name| root::read_lossy(&self.path(&format!("{hwmon}/{name}")));
        let sensors = ["temp1_input", "temp2_input"].map(read);
        let is_read = sensors.iter().any(|sensor| matches!(sensor, Ok(Some(_))));
        !is_read && sensors.iter().any(Result::is_err)
    }

    /// The folder of hwmon, below the GPU's.
    pub(super) fn hwmon(&self) -> Option<String> {
        let mut names = self.list("hwmon").into_iter();
        let name = names.find(|name| name.starts_with("hwmon"))?;
        Some(format!("hwmon/{name}"))
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
    /// The driver refuses with EPERM or EBUSY while a GPU is reset: the files are open to every user. `None`: it says that the
    /// GPU has no such table.
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

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests make the files that they read")]
mod tests {
    use std::fs;

    use super::*;

    /// `smu_sys_get_gpu_metrics()` and `smu_read_sensor()` return EOPNOTSUPP while `dpm_enabled` is false.
    #[test]
    fn a_gpu_that_refuses_table_and_sensors_does_not_answer() {
        let dir = tempfile::tempdir().unwrap();
        let files = GpuFiles::new(dir.path().to_owned());
        let of = |errno, had| {
            let error = std::io::Error::from_raw_os_error(errno);
            files.failure(&Error::io(dir.path(), error), had)
        };
        let unsupported = |had| of(libc::EOPNOTSUPP, had);
        assert_eq!(unsupported(false), None, "a virtual function without hwmon");
        assert_eq!(unsupported(true), Some(Failure::Unknown), "it had a table");
        let hwmon = dir.path().join("hwmon/hwmon3");
        fs::create_dir_all(&hwmon).unwrap();
        assert_eq!(unsupported(false), None, "a virtual function without sensors");
        // read(2) of a folder fails with EISDIR.
        fs::create_dir(hwmon.join("temp2_input")).unwrap();
        assert_eq!(unsupported(false), Some(Failure::Unknown));
        assert_eq!(of(libc::EPERM, false), Some(Failure::Busy));
        fs::write(hwmon.join("temp1_input"), "45000\n").unwrap();
        assert_eq!(unsupported(false), None, "as of Picasso");
    }
}
