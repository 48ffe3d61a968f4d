//! Administrators' settings and hardware limits: read rarely, reported at every reading.

use std::time::{Duration, Instant};

use super::call::Caller;
use crate::gpu::metrics as m;
use crate::sys::nvml::Library;
use crate::{Block, Metric};

/// The reported clocks, with the library's numbers.
pub(super) const CLOCKS: [(&str, u32); 3] = [("sm", 1), ("memory", 2), ("video", 3)];

/// Temperature limits, with the library's numbers.
static TEMPERATURES: [(&Metric, u32); 4] = [
    (&m::TEMPERATURE_SHUTDOWN, 0),
    (&m::TEMPERATURE_SLOWDOWN, 1),
    (&m::MEMORY_TEMPERATURE_MAX, 2),
    (&m::TEMPERATURE_MAX, 3),
];

/// Classes of spare rows, in the library's order.
const SPARES: [&str; 5] = ["max", "high", "partial", "low", "none"];

/// The InfoROM checksums are verified again after this: no other query here takes the driver longer.
const INFOROM: Duration = Duration::from_secs(3600);

/// Above any real temperature: an invalid answer.
pub(super) const HOTTEST: u32 = 250;
/// Above any real clock, in MHz.
pub(super) const FASTEST: u32 = 100_000;

/// The values read. `None`: not reported.
#[derive(Debug, Default)]
pub(super) struct Limits {
    persistence: Option<u32>,
    compute: Option<u32>,
    ecc: Option<(u32, u32)>,
    temperatures: [Option<u32>; 4],
    clocks: [Option<u32>; 3],
    power: [Option<u32>; 3],
    pcie: [Option<u32>; 2],
    banks: [Option<u32>; 5],
    /// Pending ones: of a memory channel, of a TPC.
    repairs: [Option<u32>; 2],
    /// And when that was answered.
    pub(super) inforom_valid: Option<(bool, Instant)>,
    inforom: Option<[String; 4]>,
}

impl Limits {
    /// `before`: the values read last.
    pub(super) fn read(caller: &mut Caller, before: &Self) -> Self {
        let mut ask = |name, number, call: fn(&Library, _) -> _| caller.ask((name, number), call);
        let mode = |v: &u32| *v <= 1;
        let persistence = ask("GetPersistenceMode", 0, Library::persistence_mode).filter(mode);
        let compute = ask("GetComputeMode", 0, Library::compute_mode).filter(|v| *v <= 3);
        let default = ask("GetPowerManagementDefaultLimit", 0, Library::default_power_limit).filter(known);
        let pcie = [
            ask("GetMaxPcieLinkGeneration", 0, Library::pcie_generation_max).filter(small),
            ask("GetMaxPcieLinkWidth", 0, Library::pcie_width_max).filter(small),
        ];
        let range = caller
            .ask(
                ("GetPowerManagementLimitConstraints", 0),
                Library::power_limit_range,
            )
            .filter(|(low, high)| known(low) && known(high));
        let ecc = caller
            .ask(("GetEccMode", 0), Library::ecc_mode)
            .filter(|(now, later)| mode(now) && mode(later));
        let temperatures = TEMPERATURES.map(|(_, which)| {
            caller
                .ask(("GetTemperatureThreshold", which), |l, d| {
                    l.temperature_threshold(d, which)
                })
                .filter(|t| (1..HOTTEST).contains(t))
        });
        let clocks = CLOCKS.map(|(_, which)| {
            caller
                .ask(("GetMaxClockInfo", which), |l, d| l.clock_max(d, which))
                .filter(|mhz| *mhz < FASTEST)
        });
        let banks = caller.ask(("GetRowRemapperHistogram", 0), Library::remapped_banks);
        let repairs = caller.ask(("GetRepairStatus", 0), Library::repairs);
        let repairs = repairs.map(|r| [r.bChannelRepairPending, r.bTpcRepairPending]);
        let inforom_valid = before
            .inforom_valid
            .filter(|(_, at)| at.elapsed() < INFOROM)
            .or_else(|| {
                let valid = caller.ask(("ValidateInforom", 0), Library::inforom_valid)?;
                Some((valid, Instant::now()))
            });
        let image = caller.ask(("GetInforomImageVersion", 0), Library::inforom_image);
        let objects = [0, 1, 2].map(|object| {
            caller
                .ask(("GetInforomVersion", object), |l, d| l.inforom(d, object))
                .unwrap_or_default()
        });
        let [oem, errors, power] = objects;
        Self {
            persistence,
            compute,
            ecc,
            temperatures,
            clocks,
            power: [default, range.map(|r| r.0), range.map(|r| r.1)],
            pcie,
            banks: banks.map_or([None; 5], |b| b.banks.map(|n| Some(n).filter(known))),
            repairs: repairs.map_or([None; 2], |all| all.map(|pending| Some(pending).filter(mode))),
            inforom_valid,
            inforom: image.map(|image| [image, oem, errors, power]),
        }
    }

    /// Whether ECC is enabled: with ECC off the counters have arbitrary content. `None`: unknown.
    pub(super) fn ecc(&self) -> Option<bool> {
        self.ecc.map(|(now, _)| now == 1)
    }

    pub(super) fn push(&self, gpu: &str, out: &mut Block) {
        let mut number = |metric, value: Option<u32>| out.maybe_u64(metric, &[gpu], value.map(u64::from));
        number(&m::PERSISTENCE_MODE, self.persistence);
        number(&m::COMPUTE_MODE, self.compute);
        number(&m::ECC_MODE, self.ecc.map(|(now, _)| now));
        number(&m::ECC_MODE_PENDING, self.ecc.map(|(_, later)| later));
        for ((metric, _), value) in TEMPERATURES.iter().zip(self.temperatures) {
            number(metric, value);
        }
        number(&m::PCIE_GENERATION_MAX, self.pcie[0]);
        number(&m::PCIE_WIDTH_MAX, self.pcie[1]);
        number(
            &m::INFOROM_VALID,
            self.inforom_valid.map(|(valid, _)| u32::from(valid)),
        );
        let limits = [&m::POWER_LIMIT_DEFAULT, &m::POWER_LIMIT_MIN, &m::POWER_LIMIT_MAX];
        for (metric, milliwatts) in limits.into_iter().zip(self.power) {
            super::simple::real(out, metric, &[gpu], milliwatts.map(|mw| f64::from(mw) / 1e3));
        }
        for ((clock, _), mhz) in CLOCKS.iter().zip(self.clocks) {
            out.maybe_u64(
                &m::CLOCK_MAX,
                &[gpu, clock],
                mhz.map(|mhz| u64::from(mhz) * 1_000_000),
            );
        }
        for (spares, banks) in SPARES.iter().zip(self.banks) {
            out.maybe_u64(&m::ROW_REMAP_BANKS, &[gpu, spares], banks.map(u64::from));
        }
        for (kind, pending) in ["channel", "tpc"].into_iter().zip(self.repairs) {
            out.maybe_u64(&m::REPAIR_PENDING, &[gpu, kind], pending.map(u64::from));
        }
        if let Some([image, oem, errors, power]) = &self.inforom {
            out.info(&m::INFOROM_INFO, &[gpu, image, oem, errors, power]);
        }
    }
}

/// Drivers set all bits in a value that they did not read.
pub(super) fn known(value: &u32) -> bool {
    *value != u32::MAX
}

/// A generation or a number of lanes.
pub(super) fn small(value: &u32) -> bool {
    (1..=64).contains(value)
}
