//! Limits and modes, which administrators change: read once a minute.

use super::files::GpuFiles;
use super::metrics as n;
use crate::Block;
use crate::gpu::metrics as m;
use crate::host::link::{self, PciLinkRate};
use crate::host::pcie::generation;

/// Limits of hwmon, their scale and metric.
const LIMITS: [(&str, f64, &crate::Metric); 7] = [
    ("power1_cap", 1e-6, &m::POWER_LIMIT),
    ("power1_cap_default", 1e-6, &m::POWER_LIMIT_DEFAULT),
    ("power1_cap_min", 1e-6, &m::POWER_LIMIT_MIN),
    ("power1_cap_max", 1e-6, &m::POWER_LIMIT_MAX),
    ("temp2_crit", 1e-3, &m::TEMPERATURE_SLOWDOWN),
    ("temp2_emergency", 1e-3, &m::TEMPERATURE_SHUTDOWN),
    ("temp3_crit", 1e-3, &m::MEMORY_TEMPERATURE_MAX),
];

/// What was read. A value that could not be read now keeps its last one.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    /// The folder of hwmon, below the GPU's. A virtual function has none.
    pub(super) hwmon: Option<String>,
    values: [Option<u64>; LIMITS.len()],
    /// The best that both ends of the link support.
    link: PciLinkRate,
    compute: String,
    memory: String,
    firmware: Vec<(String, String)>,
}

impl Limits {
    pub(super) fn read(&mut self, files: &GpuFiles) {
        self.hwmon = files.hwmon();
        for ((name, ..), value) in LIMITS.iter().zip(&mut self.values) {
            let path = self.hwmon.as_ref().map(|hwmon| format!("{hwmon}/{name}"));
            *value = path.and_then(|path| files.number(&path)).or(*value);
        }
        let PciLinkRate { speed, width } = files.card().as_deref().map(link::max).unwrap_or_default();
        self.link.speed = speed.or(self.link.speed);
        self.link.width = width.or(self.link.width);
        for (file, mode) in [
            ("current_compute_partition", &mut self.compute),
            ("current_memory_partition", &mut self.memory),
        ] {
            if let Some(text) = files.text(file) {
                *mode = text;
            }
        }
        let versions = files.list("fw_version").into_iter();
        self.firmware = versions
            .filter_map(|name| {
                let block = name.strip_suffix("_fw_version")?.to_owned();
                Some((block, files.text(&format!("fw_version/{name}"))?))
            })
            .collect();
    }

    pub(super) fn push(&self, gpu: &str, out: &mut Block) {
        for ((.., scale, metric), value) in LIMITS.iter().zip(self.values) {
            // The second die of a board has a limit of 0: the first one's is that of both.
            let value = value.filter(|value| *value > 0);
            #[expect(clippy::cast_precision_loss, reason = "watts and degrees")]
            if let Some(value) = value {
                out.f64(metric, &[gpu], value as f64 * scale);
            }
        }
        let PciLinkRate { speed, width } = self.link;
        out.maybe_u64(&m::PCIE_GENERATION_MAX, &[gpu], speed.and_then(generation));
        out.maybe_u64(&n::PCIE_SPEED_MAX, &[gpu], speed);
        out.maybe_u64(&m::PCIE_WIDTH_MAX, &[gpu], width);
        if !self.compute.is_empty() || !self.memory.is_empty() {
            out.info(&n::PARTITION_INFO, &[gpu, &self.compute, &self.memory]);
        }
        // Blocks that a GPU does not have show 0.
        let is_there = |version: &str| version.trim_start_matches("0x").bytes().any(|b| b != b'0');
        for (block, version) in self.firmware.iter().filter(|(_, version)| is_there(version)) {
            out.info(&n::FIRMWARE_INFO, &[gpu, block, version]);
        }
    }

    /// The temperature at which the hotspot reduces the clocks, in degrees Celsius.
    pub(super) fn hotspot(&self) -> Option<u64> {
        let mut limits = LIMITS.iter().zip(self.values);
        let (_, millidegrees) = limits.find(|((name, ..), _)| *name == "temp2_crit")?;
        millidegrees.filter(|limit| *limit > 0).map(|limit| limit / 1000)
    }

    /// The modes of compute and memory partitions.
    pub(super) fn modes(&self) -> (&str, &str) {
        (&self.compute, &self.memory)
    }
}
