//! The fields that are read.

/// Above any real temperature, in °C.
pub const HOTTEST: u64 = 250;

/// A field, whatever its offset in a revision.
///
/// Not read: fields that a GPU may leave constant at 0 without a sign (`throttle_status` of v1.4 and v1.5, clocks of
/// the video engines and fans of v1.3), and those whose unit is not documented (`pcie_bandwidth_acc`). Fields of a
/// partition have one array for each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Edge of the die, °C.
    TemperatureEdge,
    /// Hottest point of the socket, °C.
    TemperatureHotspot,
    /// Hottest memory, °C.
    TemperatureMemory,
    /// Hottest voltage regulator of the SoC rail, °C.
    TemperatureRegulator,
    /// Each HBM stack, °C.
    TemperatureHbm,
    /// Power of the socket, W: current in v1.4 and later, a mean before.
    SocketPower,
    /// Graphics and compute activity, percent.
    GfxActivity,
    /// Memory controller activity, percent.
    MemoryActivity,
    /// Energy since the driver was loaded, in 2^-16 J.
    Energy,
    /// Time of the host at which the driver filled the table, in ns since boot.
    SystemClock,
    /// Ticks of which the residency counters are a part.
    Accumulation,
    /// Ticks with throttling by PROCHOT.
    ProchotResidency,
    /// Ticks with throttling by the package power limit.
    PowerResidency,
    /// Ticks with throttling by the temperature of the socket.
    SocketThermalResidency,
    /// Ticks with throttling by the temperature of a voltage regulator.
    RegulatorThermalResidency,
    /// Ticks with throttling by the temperature of HBM.
    HbmThermalResidency,
    /// Lanes of the PCIe link.
    PcieLinkWidth,
    /// Speed of the PCIe link, 0.1 GT/s.
    PcieLinkSpeed,
    /// PCIe replays.
    PcieReplays,
    /// Roll-overs of the PCIe replay counter.
    PcieReplayRollovers,
    /// PCIe transitions from L0 to the recovery state.
    PcieRecoveries,
    /// PCIe NAKs sent.
    PcieNaksSent,
    /// PCIe NAKs received.
    PcieNaksReceived,
    /// Data read over each xGMI link, KB.
    XgmiRead,
    /// Data written over each xGMI link, KB.
    XgmiWritten,
    /// State of each xGMI link: 0 inactive, 1 active, 2 not applicable.
    XgmiLinkStatus,
    /// Clock of each compute die, MHz.
    GfxClock,
    /// Clock of each SoC die, MHz.
    SocClock,
    /// Memory clock, MHz.
    MemoryClock,
    /// Clock of each video engine, MHz.
    VideoClock,
    /// Activity of each compute die (XCC) of a partition, percent.
    XccActivity,
    /// Activity of each video engine of a partition, percent.
    VideoActivity,
    /// Activity of each JPEG engine of a partition, percent.
    JpegActivity,
    /// Compute partitions.
    Partitions,
    /// Why the GPU is throttled now, bits of `amdgpu_smu.h` that do not depend on the GPU.
    ThrottleReasons,
    /// Graphics part of an APU, 0.01 °C.
    ApuTemperatureGfx,
    /// SoC part of an APU, 0.01 °C.
    ApuTemperatureSoc,
}

impl Field {
    /// Whether 0 says that the GPU does not report the field: temperatures, and power and energy of the second die of an
    /// MI250.
    pub(super) const fn zero_is_absent(self) -> bool {
        matches!(
            self,
            Self::TemperatureEdge
                | Self::TemperatureHotspot
                | Self::TemperatureMemory
                | Self::TemperatureRegulator
                | Self::TemperatureHbm
                | Self::SocketPower
                | Self::Energy
                | Self::ApuTemperatureGfx
                | Self::ApuTemperatureSoc
        )
    }

    /// The highest real value: the firmware may write the table while the driver reads it, and MI350X have shown 2112 °C so.
    pub(super) const fn most(self) -> u64 {
        match self {
            Self::TemperatureEdge
            | Self::TemperatureHotspot
            | Self::TemperatureMemory
            | Self::TemperatureRegulator
            | Self::TemperatureHbm => HOTTEST,
            Self::ApuTemperatureGfx | Self::ApuTemperatureSoc => HOTTEST * 100,
            _ => u64::MAX,
        }
    }

    /// The field with this id in a table that describes itself.
    pub(super) const fn of_attribute(id: u16) -> Option<Self> {
        Some(match id {
            0 => Self::TemperatureHotspot,
            1 => Self::TemperatureMemory,
            2 => Self::TemperatureRegulator,
            48 => Self::TemperatureHbm,
            3 => Self::SocketPower,
            4 => Self::GfxActivity,
            5 => Self::MemoryActivity,
            7 => Self::Energy,
            8 => Self::SystemClock,
            9 => Self::Accumulation,
            10 => Self::ProchotResidency,
            11 => Self::PowerResidency,
            12 => Self::SocketThermalResidency,
            13 => Self::RegulatorThermalResidency,
            14 => Self::HbmThermalResidency,
            16 => Self::PcieLinkWidth,
            17 => Self::PcieLinkSpeed,
            24 => Self::PcieRecoveries,
            25 => Self::PcieReplays,
            26 => Self::PcieReplayRollovers,
            27 => Self::PcieNaksSent,
            28 => Self::PcieNaksReceived,
            29 => Self::XgmiRead,
            30 => Self::XgmiWritten,
            31 => Self::XgmiLinkStatus,
            33 => Self::GfxClock,
            34 => Self::SocClock,
            35 => Self::VideoClock,
            37 => Self::MemoryClock,
            38 => Self::Partitions,
            40 => Self::XccActivity,
            41 => Self::JpegActivity,
            42 => Self::VideoActivity,
            _ => return None,
        })
    }
}
