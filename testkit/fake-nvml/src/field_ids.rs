//! Field ids of nvmlDeviceGetFieldValues: their names without `NVML_FI_`, and the type of each value.
//!
//! Drivers 575 and 580.82 (CUDA 13.0 Update 1) gave ids from 251 on another meaning. The rows here have those of 575.

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `uiVal`.
    Uint,
    /// `ullVal`.
    Ulonglong,
    /// `siVal`.
    Int,
}

use Kind::{Int, Uint, Ulonglong};

/// A field.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// As headers of driver 575 number it.
    pub id: u32,
    /// Such as `DEV_MEMORY_TEMP`.
    pub name: &'static str,
    /// Of the value.
    pub kind: Kind,
}

const fn f(id: u32, name: &'static str, kind: Kind) -> Field {
    Field { id, name, kind }
}

/// Which ids a driver has for the fields from 251 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// Power smoothing begins at 251, and the five fields before it do not exist.
    Before575,
    /// That of the rows here.
    From575,
    /// The five fields are behind power smoothing.
    From580_82,
}

impl Numbering {
    /// That of a driver such as `580.95.05`.
    #[must_use]
    pub fn of(driver: &str) -> Self {
        let mut parts = driver.split('.').map(|p| p.parse::<u32>().unwrap_or(0));
        let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        match version {
            _ if version < (575, 0) => Self::Before575,
            _ if version < (580, 82) => Self::From575,
            _ => Self::From580_82,
        }
    }

    /// The field that a consumer asks for by `id`.
    #[must_use]
    pub fn field(self, id: u32) -> Option<&'static Field> {
        let row = match (id, self) {
            (251..=268, Self::Before575 | Self::From580_82) => id + 5,
            (269.., Self::Before575) => return None,
            (269..=273, Self::From580_82) => id - 18,
            _ => id,
        };
        FIELDS.get(usize::try_from(row).ok()?.checked_sub(1)?)
    }

    /// The id of a field. One that none defines: this driver does not have it.
    #[must_use]
    pub fn id(self, field: &Field) -> u32 {
        match (field.id, self) {
            (251..=255, Self::Before575) => u32::MAX,
            (251..=255, Self::From580_82) => field.id + 18,
            (256..=273, Self::Before575 | Self::From580_82) => field.id - 5,
            (id, _) => id,
        }
    }
}

/// The field of that name, with or without `DEV_`.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Field> {
    FIELDS
        .iter()
        .find(|f| f.name == name || f.name.strip_prefix("DEV_") == Some(name))
}

/// All of them: the field with id n is at n - 1.
pub const FIELDS: &[Field] = &[
    f(1, "DEV_ECC_CURRENT", Uint),
    f(2, "DEV_ECC_PENDING", Uint),
    f(3, "DEV_ECC_SBE_VOL_TOTAL", Ulonglong),
    f(4, "DEV_ECC_DBE_VOL_TOTAL", Ulonglong),
    f(5, "DEV_ECC_SBE_AGG_TOTAL", Ulonglong),
    f(6, "DEV_ECC_DBE_AGG_TOTAL", Ulonglong),
    f(7, "DEV_ECC_SBE_VOL_L1", Ulonglong),
    f(8, "DEV_ECC_DBE_VOL_L1", Ulonglong),
    f(9, "DEV_ECC_SBE_VOL_L2", Ulonglong),
    f(10, "DEV_ECC_DBE_VOL_L2", Ulonglong),
    f(11, "DEV_ECC_SBE_VOL_DEV", Ulonglong),
    f(12, "DEV_ECC_DBE_VOL_DEV", Ulonglong),
    f(13, "DEV_ECC_SBE_VOL_REG", Ulonglong),
    f(14, "DEV_ECC_DBE_VOL_REG", Ulonglong),
    f(15, "DEV_ECC_SBE_VOL_TEX", Ulonglong),
    f(16, "DEV_ECC_DBE_VOL_TEX", Ulonglong),
    f(17, "DEV_ECC_DBE_VOL_CBU", Ulonglong),
    f(18, "DEV_ECC_SBE_AGG_L1", Ulonglong),
    f(19, "DEV_ECC_DBE_AGG_L1", Ulonglong),
    f(20, "DEV_ECC_SBE_AGG_L2", Ulonglong),
    f(21, "DEV_ECC_DBE_AGG_L2", Ulonglong),
    f(22, "DEV_ECC_SBE_AGG_DEV", Ulonglong),
    f(23, "DEV_ECC_DBE_AGG_DEV", Ulonglong),
    f(24, "DEV_ECC_SBE_AGG_REG", Ulonglong),
    f(25, "DEV_ECC_DBE_AGG_REG", Ulonglong),
    f(26, "DEV_ECC_SBE_AGG_TEX", Ulonglong),
    f(27, "DEV_ECC_DBE_AGG_TEX", Ulonglong),
    f(28, "DEV_ECC_DBE_AGG_CBU", Ulonglong),
    f(29, "DEV_RETIRED_SBE", Ulonglong),
    f(30, "DEV_RETIRED_DBE", Ulonglong),
    f(31, "DEV_RETIRED_PENDING", Uint),
    f(32, "DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L0", Ulonglong),
    f(33, "DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L1", Ulonglong),
    f(34, "DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L2", Ulonglong),
    f(35, "DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L3", Ulonglong),
    f(36, "DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L4", Ulonglong),
    f(37, "DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L5", Ulonglong),
    f(38, "DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", Ulonglong),
    f(39, "DEV_NVLINK_CRC_DATA_ERROR_COUNT_L0", Ulonglong),
    f(40, "DEV_NVLINK_CRC_DATA_ERROR_COUNT_L1", Ulonglong),
    f(41, "DEV_NVLINK_CRC_DATA_ERROR_COUNT_L2", Ulonglong),
    f(42, "DEV_NVLINK_CRC_DATA_ERROR_COUNT_L3", Ulonglong),
    f(43, "DEV_NVLINK_CRC_DATA_ERROR_COUNT_L4", Ulonglong),
    f(44, "DEV_NVLINK_CRC_DATA_ERROR_COUNT_L5", Ulonglong),
    f(45, "DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", Ulonglong),
    f(46, "DEV_NVLINK_REPLAY_ERROR_COUNT_L0", Ulonglong),
    f(47, "DEV_NVLINK_REPLAY_ERROR_COUNT_L1", Ulonglong),
    f(48, "DEV_NVLINK_REPLAY_ERROR_COUNT_L2", Ulonglong),
    f(49, "DEV_NVLINK_REPLAY_ERROR_COUNT_L3", Ulonglong),
    f(50, "DEV_NVLINK_REPLAY_ERROR_COUNT_L4", Ulonglong),
    f(51, "DEV_NVLINK_REPLAY_ERROR_COUNT_L5", Ulonglong),
    f(52, "DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", Ulonglong),
    f(53, "DEV_NVLINK_RECOVERY_ERROR_COUNT_L0", Ulonglong),
    f(54, "DEV_NVLINK_RECOVERY_ERROR_COUNT_L1", Ulonglong),
    f(55, "DEV_NVLINK_RECOVERY_ERROR_COUNT_L2", Ulonglong),
    f(56, "DEV_NVLINK_RECOVERY_ERROR_COUNT_L3", Ulonglong),
    f(57, "DEV_NVLINK_RECOVERY_ERROR_COUNT_L4", Ulonglong),
    f(58, "DEV_NVLINK_RECOVERY_ERROR_COUNT_L5", Ulonglong),
    f(59, "DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", Ulonglong),
    f(60, "DEV_NVLINK_BANDWIDTH_C0_L0", Ulonglong),
    f(61, "DEV_NVLINK_BANDWIDTH_C0_L1", Ulonglong),
    f(62, "DEV_NVLINK_BANDWIDTH_C0_L2", Ulonglong),
    f(63, "DEV_NVLINK_BANDWIDTH_C0_L3", Ulonglong),
    f(64, "DEV_NVLINK_BANDWIDTH_C0_L4", Ulonglong),
    f(65, "DEV_NVLINK_BANDWIDTH_C0_L5", Ulonglong),
    f(66, "DEV_NVLINK_BANDWIDTH_C0_TOTAL", Ulonglong),
    f(67, "DEV_NVLINK_BANDWIDTH_C1_L0", Ulonglong),
    f(68, "DEV_NVLINK_BANDWIDTH_C1_L1", Ulonglong),
    f(69, "DEV_NVLINK_BANDWIDTH_C1_L2", Ulonglong),
    f(70, "DEV_NVLINK_BANDWIDTH_C1_L3", Ulonglong),
    f(71, "DEV_NVLINK_BANDWIDTH_C1_L4", Ulonglong),
    f(72, "DEV_NVLINK_BANDWIDTH_C1_L5", Ulonglong),
    f(73, "DEV_NVLINK_BANDWIDTH_C1_TOTAL", Ulonglong),
    f(74, "DEV_PERF_POLICY_POWER", Ulonglong),
    f(75, "DEV_PERF_POLICY_THERMAL", Ulonglong),
    f(76, "DEV_PERF_POLICY_SYNC_BOOST", Ulonglong),
    f(77, "DEV_PERF_POLICY_BOARD_LIMIT", Ulonglong),
    f(78, "DEV_PERF_POLICY_LOW_UTILIZATION", Ulonglong),
    f(79, "DEV_PERF_POLICY_RELIABILITY", Ulonglong),
    f(80, "DEV_PERF_POLICY_TOTAL_APP_CLOCKS", Ulonglong),
    f(81, "DEV_PERF_POLICY_TOTAL_BASE_CLOCKS", Ulonglong),
    f(82, "DEV_MEMORY_TEMP", Uint),
    f(83, "DEV_TOTAL_ENERGY_CONSUMPTION", Ulonglong),
    f(84, "DEV_NVLINK_SPEED_MBPS_L0", Uint),
    f(85, "DEV_NVLINK_SPEED_MBPS_L1", Uint),
    f(86, "DEV_NVLINK_SPEED_MBPS_L2", Uint),
    f(87, "DEV_NVLINK_SPEED_MBPS_L3", Uint),
    f(88, "DEV_NVLINK_SPEED_MBPS_L4", Uint),
    f(89, "DEV_NVLINK_SPEED_MBPS_L5", Uint),
    f(90, "DEV_NVLINK_SPEED_MBPS_COMMON", Uint),
    f(91, "DEV_NVLINK_LINK_COUNT", Uint),
    f(92, "DEV_RETIRED_PENDING_SBE", Uint),
    f(93, "DEV_RETIRED_PENDING_DBE", Uint),
    f(94, "DEV_PCIE_REPLAY_COUNTER", Uint),
    f(95, "DEV_PCIE_REPLAY_ROLLOVER_COUNTER", Uint),
    f(96, "DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L6", Ulonglong),
    f(97, "DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L7", Ulonglong),
    f(98, "DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L8", Ulonglong),
    f(99, "DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L9", Ulonglong),
    f(100, "DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L10", Ulonglong),
    f(101, "DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L11", Ulonglong),
    f(102, "DEV_NVLINK_CRC_DATA_ERROR_COUNT_L6", Ulonglong),
    f(103, "DEV_NVLINK_CRC_DATA_ERROR_COUNT_L7", Ulonglong),
    f(104, "DEV_NVLINK_CRC_DATA_ERROR_COUNT_L8", Ulonglong),
    f(105, "DEV_NVLINK_CRC_DATA_ERROR_COUNT_L9", Ulonglong),
    f(106, "DEV_NVLINK_CRC_DATA_ERROR_COUNT_L10", Ulonglong),
    f(107, "DEV_NVLINK_CRC_DATA_ERROR_COUNT_L11", Ulonglong),
    f(108, "DEV_NVLINK_REPLAY_ERROR_COUNT_L6", Ulonglong),
    f(109, "DEV_NVLINK_REPLAY_ERROR_COUNT_L7", Ulonglong),
    f(110, "DEV_NVLINK_REPLAY_ERROR_COUNT_L8", Ulonglong),
    f(111, "DEV_NVLINK_REPLAY_ERROR_COUNT_L9", Ulonglong),
    f(112, "DEV_NVLINK_REPLAY_ERROR_COUNT_L10", Ulonglong),
    f(113, "DEV_NVLINK_REPLAY_ERROR_COUNT_L11", Ulonglong),
    f(114, "DEV_NVLINK_RECOVERY_ERROR_COUNT_L6", Ulonglong),
    f(115, "DEV_NVLINK_RECOVERY_ERROR_COUNT_L7", Ulonglong),
    f(116, "DEV_NVLINK_RECOVERY_ERROR_COUNT_L8", Ulonglong),
    f(117, "DEV_NVLINK_RECOVERY_ERROR_COUNT_L9", Ulonglong),
    f(118, "DEV_NVLINK_RECOVERY_ERROR_COUNT_L10", Ulonglong),
    f(119, "DEV_NVLINK_RECOVERY_ERROR_COUNT_L11", Ulonglong),
    f(120, "DEV_NVLINK_BANDWIDTH_C0_L6", Ulonglong),
    f(121, "DEV_NVLINK_BANDWIDTH_C0_L7", Ulonglong),
    f(122, "DEV_NVLINK_BANDWIDTH_C0_L8", Ulonglong),
    f(123, "DEV_NVLINK_BANDWIDTH_C0_L9", Ulonglong),
    f(124, "DEV_NVLINK_BANDWIDTH_C0_L10", Ulonglong),
    f(125, "DEV_NVLINK_BANDWIDTH_C0_L11", Ulonglong),
    f(126, "DEV_NVLINK_BANDWIDTH_C1_L6", Ulonglong),
    f(127, "DEV_NVLINK_BANDWIDTH_C1_L7", Ulonglong),
    f(128, "DEV_NVLINK_BANDWIDTH_C1_L8", Ulonglong),
    f(129, "DEV_NVLINK_BANDWIDTH_C1_L9", Ulonglong),
    f(130, "DEV_NVLINK_BANDWIDTH_C1_L10", Ulonglong),
    f(131, "DEV_NVLINK_BANDWIDTH_C1_L11", Ulonglong),
    f(132, "DEV_NVLINK_SPEED_MBPS_L6", Uint),
    f(133, "DEV_NVLINK_SPEED_MBPS_L7", Uint),
    f(134, "DEV_NVLINK_SPEED_MBPS_L8", Uint),
    f(135, "DEV_NVLINK_SPEED_MBPS_L9", Uint),
    f(136, "DEV_NVLINK_SPEED_MBPS_L10", Uint),
    f(137, "DEV_NVLINK_SPEED_MBPS_L11", Uint),
    f(138, "DEV_NVLINK_THROUGHPUT_DATA_TX", Ulonglong),
    f(139, "DEV_NVLINK_THROUGHPUT_DATA_RX", Ulonglong),
    f(140, "DEV_NVLINK_THROUGHPUT_RAW_TX", Ulonglong),
    f(141, "DEV_NVLINK_THROUGHPUT_RAW_RX", Ulonglong),
    f(142, "DEV_REMAPPED_COR", Uint),
    f(143, "DEV_REMAPPED_UNC", Uint),
    f(144, "DEV_REMAPPED_PENDING", Uint),
    f(145, "DEV_REMAPPED_FAILURE", Uint),
    f(146, "DEV_NVLINK_REMOTE_NVLINK_ID", Uint),
    f(147, "DEV_NVSWITCH_CONNECTED_LINK_COUNT", Uint),
    f(148, "DEV_NVLINK_ECC_DATA_ERROR_COUNT_L0", Ulonglong),
    f(149, "DEV_NVLINK_ECC_DATA_ERROR_COUNT_L1", Ulonglong),
    f(150, "DEV_NVLINK_ECC_DATA_ERROR_COUNT_L2", Ulonglong),
    f(151, "DEV_NVLINK_ECC_DATA_ERROR_COUNT_L3", Ulonglong),
    f(152, "DEV_NVLINK_ECC_DATA_ERROR_COUNT_L4", Ulonglong),
    f(153, "DEV_NVLINK_ECC_DATA_ERROR_COUNT_L5", Ulonglong),
    f(154, "DEV_NVLINK_ECC_DATA_ERROR_COUNT_L6", Ulonglong),
    f(155, "DEV_NVLINK_ECC_DATA_ERROR_COUNT_L7", Ulonglong),
    f(156, "DEV_NVLINK_ECC_DATA_ERROR_COUNT_L8", Ulonglong),
    f(157, "DEV_NVLINK_ECC_DATA_ERROR_COUNT_L9", Ulonglong),
    f(158, "DEV_NVLINK_ECC_DATA_ERROR_COUNT_L10", Ulonglong),
    f(159, "DEV_NVLINK_ECC_DATA_ERROR_COUNT_L11", Ulonglong),
    f(160, "DEV_NVLINK_ECC_DATA_ERROR_COUNT_TOTAL", Ulonglong),
    f(161, "DEV_NVLINK_ERROR_DL_REPLAY", Ulonglong),
    f(162, "DEV_NVLINK_ERROR_DL_RECOVERY", Ulonglong),
    f(163, "DEV_NVLINK_ERROR_DL_CRC", Ulonglong),
    f(164, "DEV_NVLINK_GET_SPEED", Uint),
    f(165, "DEV_NVLINK_GET_STATE", Uint),
    f(166, "DEV_NVLINK_GET_VERSION", Uint),
    f(167, "DEV_NVLINK_GET_POWER_STATE", Uint),
    f(168, "DEV_NVLINK_GET_POWER_THRESHOLD", Uint),
    f(169, "DEV_PCIE_L0_TO_RECOVERY_COUNTER", Ulonglong),
    f(170, "DEV_C2C_LINK_COUNT", Uint),
    f(171, "DEV_C2C_LINK_GET_STATUS", Uint),
    f(172, "DEV_C2C_LINK_GET_MAX_BW", Uint),
    f(173, "DEV_PCIE_COUNT_CORRECTABLE_ERRORS", Uint),
    f(174, "DEV_PCIE_COUNT_NAKS_RECEIVED", Uint),
    f(175, "DEV_PCIE_COUNT_RECEIVER_ERROR", Uint),
    f(176, "DEV_PCIE_COUNT_BAD_TLP", Uint),
    f(177, "DEV_PCIE_COUNT_NAKS_SENT", Uint),
    f(178, "DEV_PCIE_COUNT_BAD_DLLP", Uint),
    f(179, "DEV_PCIE_COUNT_NON_FATAL_ERROR", Uint),
    f(180, "DEV_PCIE_COUNT_FATAL_ERROR", Uint),
    f(181, "DEV_PCIE_COUNT_UNSUPPORTED_REQ", Uint),
    f(182, "DEV_PCIE_COUNT_LCRC_ERROR", Uint),
    f(183, "DEV_PCIE_COUNT_LANE_ERROR", Uint),
    f(184, "DEV_IS_RESETLESS_MIG_SUPPORTED", Uint),
    f(185, "DEV_POWER_AVERAGE", Uint),
    f(186, "DEV_POWER_INSTANT", Uint),
    f(187, "DEV_POWER_MIN_LIMIT", Uint),
    f(188, "DEV_POWER_MAX_LIMIT", Uint),
    f(189, "DEV_POWER_DEFAULT_LIMIT", Uint),
    f(190, "DEV_POWER_CURRENT_LIMIT", Uint),
    f(191, "DEV_ENERGY", Ulonglong),
    f(192, "DEV_POWER_REQUESTED_LIMIT", Uint),
    f(193, "DEV_TEMPERATURE_SHUTDOWN_TLIMIT", Int),
    f(194, "DEV_TEMPERATURE_SLOWDOWN_TLIMIT", Int),
    f(195, "DEV_TEMPERATURE_MEM_MAX_TLIMIT", Int),
    f(196, "DEV_TEMPERATURE_GPU_MAX_TLIMIT", Int),
    f(197, "DEV_PCIE_COUNT_TX_BYTES", Uint),
    f(198, "DEV_PCIE_COUNT_RX_BYTES", Uint),
    f(199, "DEV_IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE", Uint),
    f(200, "DEV_NVLINK_GET_POWER_THRESHOLD_MAX", Uint),
    f(201, "DEV_NVLINK_COUNT_XMIT_PACKETS", Ulonglong),
    f(202, "DEV_NVLINK_COUNT_XMIT_BYTES", Ulonglong),
    f(203, "DEV_NVLINK_COUNT_RCV_PACKETS", Ulonglong),
    f(204, "DEV_NVLINK_COUNT_RCV_BYTES", Ulonglong),
    f(205, "DEV_NVLINK_COUNT_VL15_DROPPED", Ulonglong),
    f(206, "DEV_NVLINK_COUNT_MALFORMED_PACKET_ERRORS", Ulonglong),
    f(207, "DEV_NVLINK_COUNT_BUFFER_OVERRUN_ERRORS", Ulonglong),
    f(208, "DEV_NVLINK_COUNT_RCV_ERRORS", Ulonglong),
    f(209, "DEV_NVLINK_COUNT_RCV_REMOTE_ERRORS", Ulonglong),
    f(210, "DEV_NVLINK_COUNT_RCV_GENERAL_ERRORS", Ulonglong),
    f(211, "DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS", Ulonglong),
    f(212, "DEV_NVLINK_COUNT_XMIT_DISCARDS", Ulonglong),
    f(213, "DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS", Ulonglong),
    f(214, "DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS", Ulonglong),
    f(215, "DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS", Ulonglong),
    f(216, "DEV_NVLINK_COUNT_RAW_BER_LANE0", Ulonglong),
    f(217, "DEV_NVLINK_COUNT_RAW_BER_LANE1", Ulonglong),
    f(218, "DEV_NVLINK_COUNT_RAW_BER", Ulonglong),
    f(219, "DEV_NVLINK_COUNT_EFFECTIVE_ERRORS", Ulonglong),
    f(220, "DEV_NVLINK_COUNT_EFFECTIVE_BER", Ulonglong),
    f(221, "DEV_NVLINK_COUNT_SYMBOL_ERRORS", Ulonglong),
    f(222, "DEV_NVLINK_COUNT_SYMBOL_BER", Ulonglong),
    f(223, "DEV_NVLINK_GET_POWER_THRESHOLD_MIN", Uint),
    f(224, "DEV_NVLINK_GET_POWER_THRESHOLD_UNITS", Uint),
    f(225, "DEV_NVLINK_GET_POWER_THRESHOLD_SUPPORTED", Uint),
    f(226, "DEV_RESET_STATUS", Uint),
    f(227, "DEV_DRAIN_AND_RESET_STATUS", Uint),
    f(228, "DEV_PCIE_OUTBOUND_ATOMICS_MASK", Uint),
    f(229, "DEV_PCIE_INBOUND_ATOMICS_MASK", Uint),
    f(230, "DEV_GET_GPU_RECOVERY_ACTION", Uint),
    f(231, "DEV_C2C_LINK_ERROR_INTR", Uint),
    f(232, "DEV_C2C_LINK_ERROR_REPLAY", Uint),
    f(233, "DEV_C2C_LINK_ERROR_REPLAY_B2B", Uint),
    f(234, "DEV_C2C_LINK_POWER_STATE", Uint),
    f(235, "DEV_NVLINK_COUNT_FEC_HISTORY_0", Ulonglong),
    f(236, "DEV_NVLINK_COUNT_FEC_HISTORY_1", Ulonglong),
    f(237, "DEV_NVLINK_COUNT_FEC_HISTORY_2", Ulonglong),
    f(238, "DEV_NVLINK_COUNT_FEC_HISTORY_3", Ulonglong),
    f(239, "DEV_NVLINK_COUNT_FEC_HISTORY_4", Ulonglong),
    f(240, "DEV_NVLINK_COUNT_FEC_HISTORY_5", Ulonglong),
    f(241, "DEV_NVLINK_COUNT_FEC_HISTORY_6", Ulonglong),
    f(242, "DEV_NVLINK_COUNT_FEC_HISTORY_7", Ulonglong),
    f(243, "DEV_NVLINK_COUNT_FEC_HISTORY_8", Ulonglong),
    f(244, "DEV_NVLINK_COUNT_FEC_HISTORY_9", Ulonglong),
    f(245, "DEV_NVLINK_COUNT_FEC_HISTORY_10", Ulonglong),
    f(246, "DEV_NVLINK_COUNT_FEC_HISTORY_11", Ulonglong),
    f(247, "DEV_NVLINK_COUNT_FEC_HISTORY_12", Ulonglong),
    f(248, "DEV_NVLINK_COUNT_FEC_HISTORY_13", Ulonglong),
    f(249, "DEV_NVLINK_COUNT_FEC_HISTORY_14", Ulonglong),
    f(250, "DEV_NVLINK_COUNT_FEC_HISTORY_15", Ulonglong),
    f(251, "DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN", Ulonglong),
    f(252, "DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN", Ulonglong),
    f(253, "DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN", Ulonglong),
    f(254, "DEV_POWER_SYNC_BALANCING_FREQ", Ulonglong),
    f(255, "DEV_POWER_SYNC_BALANCING_AF", Ulonglong),
    f(256, "PWR_SMOOTHING_ENABLED", Uint),
    f(257, "PWR_SMOOTHING_PRIV_LVL", Uint),
    f(258, "PWR_SMOOTHING_IMM_RAMP_DOWN_ENABLED", Uint),
    f(259, "PWR_SMOOTHING_APPLIED_TMP_CEIL", Uint),
    f(260, "PWR_SMOOTHING_APPLIED_TMP_FLOOR", Uint),
    f(261, "PWR_SMOOTHING_MAX_PERCENT_TMP_FLOOR_SETTING", Uint),
    f(262, "PWR_SMOOTHING_MIN_PERCENT_TMP_FLOOR_SETTING", Uint),
    f(263, "PWR_SMOOTHING_HW_CIRCUITRY_PERCENT_LIFETIME_REMAINING", Uint),
    f(264, "PWR_SMOOTHING_MAX_NUM_PRESET_PROFILES", Uint),
    f(265, "PWR_SMOOTHING_PROFILE_PERCENT_TMP_FLOOR", Uint),
    f(266, "PWR_SMOOTHING_PROFILE_RAMP_UP_RATE", Uint),
    f(267, "PWR_SMOOTHING_PROFILE_RAMP_DOWN_RATE", Uint),
    f(268, "PWR_SMOOTHING_PROFILE_RAMP_DOWN_HYST_VAL", Uint),
    f(269, "PWR_SMOOTHING_ACTIVE_PRESET_PROFILE", Uint),
    f(270, "PWR_SMOOTHING_ADMIN_OVERRIDE_PERCENT_TMP_FLOOR", Uint),
    f(271, "PWR_SMOOTHING_ADMIN_OVERRIDE_RAMP_UP_RATE", Uint),
    f(272, "PWR_SMOOTHING_ADMIN_OVERRIDE_RAMP_DOWN_RATE", Uint),
    f(273, "PWR_SMOOTHING_ADMIN_OVERRIDE_RAMP_DOWN_HYST_VAL", Uint),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_without_gaps_and_agrees_with_the_header() {
        for (i, field) in FIELDS.iter().enumerate() {
            assert_eq!(field.id as usize, i + 1, "{}", field.name);
        }
        use nvml_wrapper_sys::bindings::field_id as h;
        assert_eq!(by_name("MEMORY_TEMP").unwrap().id, h::NVML_FI_DEV_MEMORY_TEMP);
        assert_eq!(
            by_name("PWR_SMOOTHING_ENABLED").unwrap().id,
            h::NVML_FI_PWR_SMOOTHING_ENABLED
        );
        assert_eq!(FIELDS.len() + 1, h::NVML_FI_MAX as usize);
    }

    #[test]
    fn a_number_has_another_meaning_before_driver_575_and_from_580_82_on() {
        for (driver, throttled, smoothing) in [
            ("535.230.02", u32::MAX, 251),
            ("570.86.15", u32::MAX, 251),
            ("575.51.03", 251, 256),
            ("580.65.06", 251, 256),
            ("580.82.07", 269, 251),
            ("581.15", 269, 251),
        ] {
            let ids = Numbering::of(driver);
            let id = |name| ids.id(by_name(name).unwrap());
            assert_eq!(id("CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN"), throttled, "{driver}");
            assert_eq!(id("PWR_SMOOTHING_ENABLED"), smoothing, "{driver}");
            assert!(ids.field(274).is_none() && ids.field(0).is_none());
            for field in FIELDS.iter().filter(|f| ids.id(f) != u32::MAX) {
                assert_eq!(ids.field(ids.id(field)).unwrap().name, field.name, "{driver}");
            }
        }
        assert!(Numbering::Before575.field(269).is_none());
    }
}
