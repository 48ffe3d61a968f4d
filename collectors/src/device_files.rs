//! Drivers of GPUs: their names, and their device files as Slurm's device programs and gres.conf name them.

use std::ops::RangeInclusive;

/// The driver and the device files of the GPUs of one collector.
#[derive(Debug)]
pub struct DeviceFiles {
    /// The name of the collector.
    pub collector: &'static str,
    /// The value of the label `vendor`.
    pub vendor: &'static str,
    /// The name of the driver on the PCI bus.
    pub driver: &'static str,
    /// Whether a recording of real hardware has proven the checks of these GPUs.
    pub is_proven: bool,
    /// The name of a file without its minor number.
    pub prefix: &'static str,
    /// Their major number.
    pub major: i32,
    /// The minor numbers of GPUs. Others are control devices.
    pub minors: RangeInclusive<u32>,
    /// Whether each partition of a GPU has a file of its own, and GPUs of other drivers have such files too.
    pub of_partitions: bool,
    /// Whether the lowest level of an idle GPU's link may have fewer lanes (`pp_dpm_pcie`).
    pub drops_lanes: bool,
    /// Whether a reset of a GPU leaves its volatile counts of errors (`amdgpu_ras.c`: `err_data.ue_count`).
    pub keeps_errors: bool,
}

/// `NV_MAJOR_DEVICE_NUMBER`: /dev/nvidia0 and its like. Control devices have minor numbers from 254 on.
pub static NVIDIA: DeviceFiles = DeviceFiles {
    collector: "nvidia",
    vendor: "nvidia",
    driver: "nvidia",
    is_proven: true,
    prefix: "nvidia",
    major: 195,
    minors: 0..=253,
    of_partitions: false,
    drops_lanes: false,
    keeps_errors: false,
};

/// `DRM_MAJOR`: render nodes, from minor 128 on. KFD checks a job's access to a partition by the same numbers
/// (`kfd_devcgroup_check_permission`).
pub static AMD: DeviceFiles = DeviceFiles {
    collector: "amd",
    vendor: "amd",
    driver: "amdgpu",
    is_proven: false,
    prefix: "renderD",
    major: 226,
    minors: 128..=u32::MAX,
    of_partitions: true,
    drops_lanes: true,
    keeps_errors: true,
};

/// Of every collector of GPUs.
pub static ALL: [&DeviceFiles; 2] = [&NVIDIA, &AMD];

impl DeviceFiles {
    /// The kernel's name of the file with this minor number.
    pub fn name(&self, minor: impl std::fmt::Display) -> String {
        format!("{}{minor}", self.prefix)
    }

    /// Whether a device number is that of a GPU.
    pub(crate) fn has(&self, (major, minor): (u32, u32)) -> bool {
        i32::try_from(major) == Ok(self.major) && self.minors.contains(&minor)
    }

    /// The row of a file's name. `None`: no GPU's file.
    pub fn of_name(name: &str) -> Option<&'static Self> {
        let is_its = |files: &&&Self| {
            let minor = name.strip_prefix(files.prefix).unwrap_or_default();
            !minor.is_empty() && minor.bytes().all(|b| b.is_ascii_digit())
        };
        ALL.iter().find(is_its).copied()
    }

    /// The row of a `vendor` label.
    pub fn of_vendor(vendor: &str) -> Option<&'static Self> {
        ALL.iter().find(|files| files.vendor == vendor).copied()
    }

    /// The row of a device number. `None`: no GPU's.
    pub(crate) fn of_number(number: (u32, u32)) -> Option<&'static Self> {
        ALL.iter().find(|files| files.has(number)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_by_its_name_and_by_its_number() {
        let collector = |files: Option<&'static DeviceFiles>| files.map(|files| files.collector);
        for (name, found) in [
            ("nvidia0", Some("nvidia")),
            ("renderD128", Some("amd")),
            ("nvidiactl", None),
            ("nvidia", None),
            ("card0", None),
            ("", None),
        ] {
            assert_eq!(collector(DeviceFiles::of_name(name)), found, "{name}");
        }
        for (number, found) in [
            ((195, 0), Some("nvidia")),
            ((195, 255), None),
            ((226, 128), Some("amd")),
            ((226, 1), None),
        ] {
            assert_eq!(collector(DeviceFiles::of_number(number)), found, "{number:?}");
        }
    }
}
