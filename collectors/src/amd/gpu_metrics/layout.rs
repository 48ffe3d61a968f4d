//! Revisions with fixed offsets, in the natural alignment of C.

use super::Field as F;
use super::{Place, Revision};

/// The layout of a revision.
pub(super) struct Layout {
    /// Size of the table. `None`: it describes itself.
    pub(super) size: Option<u16>,
    /// In groups, of which several revisions have some.
    places: &'static [&'static [Place]],
}

impl Layout {
    /// The place of each value.
    pub(super) fn places(&self) -> impl Iterator<Item = &'static Place> {
        self.places.iter().copied().flatten()
    }
}

/// One value.
const fn one(field: F, offset: usize, width: usize) -> Place {
    array(field, offset, width, 1)
}

/// An array.
const fn array(field: F, offset: usize, width: usize, count: usize) -> Place {
    Place {
        field,
        offset,
        width,
        count,
        stride: 0,
    }
}

/// An array of each partition: the first one's offset, and the distance to the next.
const fn parts(field: F, (offset, stride): (usize, usize), width: usize, count: usize) -> Place {
    Place {
        stride,
        ..array(field, offset, width, count)
    }
}

/// The layout of a revision, if it is known. v2.0 has another order than the later ones of its family.
pub(super) const fn of(revision: Revision) -> Option<Layout> {
    let (size, places): (u16, &'static [&'static [Place]]) = match (revision.format, revision.content) {
        (1, 0) => (80, &[V1_0]),
        (1, 1) => (96, &[V1_3]),
        (1, 2) => (104, &[V1_3]),
        (1, 3) => (120, &[V1_3]),
        (1, 4) => (288, &[MI300, V1_4]),
        (1, 5) => (360, &[MI300, V1_5]),
        (1, 6) => (1664, &[MI300, V1_6]),
        (1, 7) => (2208, &[MI300, V1_7, PARTS_1_7]),
        (1, 8) => (3872, &[MI300, V1_7, PARTS_1_8]),
        (1, 9) => {
            return Some(Layout {
                size: None,
                places: &[],
            });
        }
        (2, 1) => (120, &[V2_1]),
        (2, 2) => (128, &[V2_1]),
        (2, 3) => (152, &[V2_1]),
        (2, 4) => (168, &[V2_1]),
        (3, 0) => (264, &[V3_0]),
        _ => return None,
    };
    Some(Layout {
        size: Some(size),
        places,
    })
}

/// The layout of a revision of `xcp_metrics`, the table of one partition. Its revisions are counted on their own.
pub(super) const fn of_partition(revision: Revision) -> Option<Layout> {
    match (revision.format, revision.content) {
        (1, 0) => Some(Layout {
            size: Some(488),
            places: &[PARTITION_1_0],
        }),
        (1, 1) => Some(Layout {
            size: None,
            places: &[],
        }),
        _ => None,
    }
}

/// Vega.
const V1_0: &[Place] = &[
    one(F::TemperatureEdge, 16, 2),
    one(F::TemperatureHotspot, 18, 2),
    one(F::TemperatureMemory, 20, 2),
    one(F::TemperatureRegulator, 24, 2),
    one(F::GfxActivity, 28, 2),
    one(F::MemoryActivity, 30, 2),
    one(F::SocketPower, 34, 2),
    one(F::Energy, 36, 4),
    one(F::GfxClock, 54, 2),
    one(F::SocClock, 56, 2),
    one(F::MemoryClock, 58, 2),
    one(F::SystemClock, 8, 8),
];

/// MI100, MI200 and consumer cards. v1.1 and v1.2 are the same up to their end.
const V1_3: &[Place] = &[
    one(F::TemperatureEdge, 4, 2),
    one(F::TemperatureHotspot, 6, 2),
    one(F::TemperatureMemory, 8, 2),
    one(F::TemperatureRegulator, 12, 2),
    one(F::GfxActivity, 16, 2),
    one(F::MemoryActivity, 18, 2),
    one(F::SocketPower, 22, 2),
    one(F::Energy, 24, 8),
    one(F::GfxClock, 54, 2),
    one(F::SocClock, 56, 2),
    one(F::MemoryClock, 58, 2),
    one(F::PcieLinkWidth, 74, 2),
    one(F::PcieLinkSpeed, 76, 2),
    array(F::TemperatureHbm, 88, 2, 4),
    one(F::ThrottleReasons, 112, 8),
    one(F::SystemClock, 32, 8),
];

/// How the tables of MI300 and later begin, v1.4 to v1.8.
const MI300: &[Place] = &[
    one(F::TemperatureHotspot, 4, 2),
    one(F::TemperatureMemory, 6, 2),
    one(F::TemperatureRegulator, 8, 2),
    one(F::SocketPower, 10, 2),
    one(F::GfxActivity, 12, 2),
    one(F::MemoryActivity, 14, 2),
];

/// v1.4.
const V1_4: &[Place] = &[
    one(F::Energy, 24, 8),
    one(F::PcieLinkWidth, 48, 2),
    one(F::PcieLinkSpeed, 50, 2),
    one(F::PcieReplays, 88, 8),
    array(F::XgmiRead, 104, 8, 8),
    array(F::XgmiWritten, 168, 8, 8),
    array(F::GfxClock, 240, 2, 8),
    array(F::SocClock, 256, 2, 4),
    one(F::MemoryClock, 280, 2),
    one(F::SystemClock, 32, 8),
    one(F::PcieRecoveries, 80, 8),
    one(F::PcieReplayRollovers, 96, 8),
    array(F::VideoActivity, 16, 2, 4),
    array(F::VideoClock, 264, 2, 4),
];

/// v1.5.
const V1_5: &[Place] = &[
    one(F::Energy, 88, 8),
    one(F::PcieLinkWidth, 112, 2),
    one(F::PcieLinkSpeed, 114, 2),
    one(F::PcieReplays, 152, 8),
    array(F::XgmiRead, 176, 8, 8),
    array(F::XgmiWritten, 240, 8, 8),
    array(F::GfxClock, 312, 2, 8),
    array(F::SocClock, 328, 2, 4),
    one(F::MemoryClock, 352, 2),
    one(F::SystemClock, 96, 8),
    one(F::PcieRecoveries, 144, 8),
    one(F::PcieReplayRollovers, 160, 8),
    one(F::PcieNaksSent, 168, 4),
    one(F::PcieNaksReceived, 172, 4),
    array(F::VideoActivity, 16, 2, 4),
    array(F::JpegActivity, 24, 2, 32),
    array(F::VideoClock, 336, 2, 4),
];

/// v1.6.
const V1_6: &[Place] = &[
    one(F::Energy, 16, 8),
    one(F::Accumulation, 32, 4),
    one(F::ProchotResidency, 36, 4),
    one(F::PowerResidency, 40, 4),
    one(F::SocketThermalResidency, 44, 4),
    one(F::RegulatorThermalResidency, 48, 4),
    one(F::HbmThermalResidency, 52, 4),
    one(F::PcieLinkWidth, 60, 2),
    one(F::PcieLinkSpeed, 62, 2),
    one(F::PcieReplays, 104, 8),
    array(F::XgmiRead, 128, 8, 8),
    array(F::XgmiWritten, 192, 8, 8),
    array(F::GfxClock, 264, 2, 8),
    array(F::SocClock, 280, 2, 4),
    one(F::MemoryClock, 304, 2),
    one(F::Partitions, 306, 2),
    one(F::SystemClock, 24, 8),
    one(F::PcieRecoveries, 96, 8),
    one(F::PcieReplayRollovers, 112, 8),
    one(F::PcieNaksSent, 120, 4),
    one(F::PcieNaksReceived, 124, 4),
    array(F::VideoClock, 288, 2, 4),
    parts(F::XccActivity, (312, 168), 4, 8),
    parts(F::JpegActivity, (344, 168), 2, 32),
    parts(F::VideoActivity, (408, 168), 2, 4),
];

/// v1.7 and v1.8, without their partitions.
const V1_7: &[Place] = &[
    one(F::Energy, 24, 8),
    one(F::Accumulation, 40, 4),
    one(F::ProchotResidency, 44, 4),
    one(F::PowerResidency, 48, 4),
    one(F::SocketThermalResidency, 52, 4),
    one(F::RegulatorThermalResidency, 56, 4),
    one(F::HbmThermalResidency, 60, 4),
    one(F::PcieLinkWidth, 68, 2),
    one(F::PcieLinkSpeed, 70, 2),
    one(F::PcieReplays, 112, 8),
    array(F::XgmiRead, 136, 8, 8),
    array(F::XgmiWritten, 200, 8, 8),
    array(F::XgmiLinkStatus, 264, 2, 8),
    array(F::GfxClock, 296, 2, 8),
    array(F::SocClock, 312, 2, 4),
    one(F::MemoryClock, 336, 2),
    one(F::Partitions, 338, 2),
    one(F::SystemClock, 32, 8),
    one(F::PcieRecoveries, 104, 8),
    one(F::PcieReplayRollovers, 120, 8),
    one(F::PcieNaksSent, 128, 4),
    one(F::PcieNaksReceived, 132, 4),
    array(F::VideoClock, 320, 2, 4),
];

/// The partitions of v1.7.
const PARTS_1_7: &[Place] = &[
    parts(F::XccActivity, (344, 232), 4, 8),
    parts(F::JpegActivity, (376, 232), 2, 32),
    parts(F::VideoActivity, (440, 232), 2, 4),
];

/// The partitions of v1.8.
const PARTS_1_8: &[Place] = &[
    parts(F::XccActivity, (344, 440), 4, 8),
    parts(F::JpegActivity, (376, 440), 2, 40),
    parts(F::VideoActivity, (456, 440), 2, 4),
];

/// v1.0 of `xcp_metrics`.
const PARTITION_1_0: &[Place] = &[
    array(F::GfxClock, 4, 2, 8),
    array(F::SocClock, 20, 2, 4),
    array(F::VideoClock, 28, 2, 4),
    one(F::MemoryClock, 44, 2),
    array(F::XccActivity, 48, 4, 8),
    array(F::JpegActivity, 80, 2, 40),
    array(F::VideoActivity, 160, 2, 4),
];

/// Consumer APUs, v2.1 to v2.4. The units of their activity and power depend on part and firmware.
const V2_1: &[Place] = &[
    one(F::ApuTemperatureGfx, 4, 2),
    one(F::ApuTemperatureSoc, 6, 2),
    one(F::GfxClock, 76, 2),
    one(F::SocClock, 78, 2),
    one(F::MemoryClock, 80, 2),
];

/// Consumer APUs, v3.0.
const V3_0: &[Place] = &[one(F::ApuTemperatureGfx, 4, 2), one(F::ApuTemperatureSoc, 6, 2)];
