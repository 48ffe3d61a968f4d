//! mlx5_core (Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst, en_stats.c).

use super::{Row, Scale};
use crate::ethernet::metrics as m;

pub(super) static ROWS: &[Row] = &[
    Row::of_pfc("rx_prio#_pause", &m::PFC_RX_FRAMES),
    Row::of_pfc("tx_prio#_pause", &m::PFC_TX_FRAMES),
    Row::of_pfc("rx_prio#_pause_duration", &m::PFC_RX_PAUSE).scaled(Scale::Microseconds),
    Row::of_pfc("tx_prio#_pause_duration", &m::PFC_TX_PAUSE).scaled(Scale::Microseconds),
    Row::of_pfc("rx_prio#_pause_transition", &m::PFC_RX_TRANSITIONS),
    Row::new("rx_prio#_discards", &m::PRIORITY_DISCARDS).labelled("discard"),
    Row::new("rx_prio#_buf_discard", &m::PRIORITY_DISCARDS).labelled("buffer"),
    Row::new("rx_prio#_cong_discard", &m::PRIORITY_DISCARDS).labelled("congestion"),
    Row::new("rx_prio#_bytes", &m::PRIORITY_RX_BYTES),
    Row::new("tx_prio#_bytes", &m::PRIORITY_TX_BYTES),
    Row::new("rx_prio#_marked", &m::PRIORITY_ECN_MARKED),
    // The `global` names exist only while 802.3x pause is on, and their frames are those of `pause_ctrl_phy`.
    Row::new("rx_pause_ctrl_phy", &m::PAUSE_RX_FRAMES).one_of_names(),
    Row::new("tx_pause_ctrl_phy", &m::PAUSE_TX_FRAMES).one_of_names(),
    Row::new("rx_global_pause", &m::PAUSE_RX_FRAMES).one_of_names(),
    Row::new("tx_global_pause", &m::PAUSE_TX_FRAMES).one_of_names(),
    Row::new("rx_global_pause_duration", &m::PAUSE_RX_SECONDS).scaled(Scale::Microseconds),
    Row::new("tx_global_pause_duration", &m::PAUSE_TX_SECONDS).scaled(Scale::Microseconds),
    Row::new("rx_global_pause_transition", &m::PAUSE_RX_TRANSITIONS),
    Row::new("tx_pause_storm_warning_events", &m::PAUSE_STORM_EVENTS).labelled("warning"),
    Row::new("tx_pause_storm_error_events", &m::PAUSE_STORM_EVENTS).labelled("error"),
    Row::new("rx_discards_phy", &m::RX_DISCARDS),
    Row::new("tx_discards_phy", &m::TX_DISCARDS),
    Row::new("link_down_events_phy", &m::PHY_LINK_DOWN),
    Row::new("rx_pcs_symbol_err_phy", &m::PHY_SYMBOL_ERRORS),
    Row::new("rx_bits_phy", &m::PHY_RX_BITS),
    Row::new("rx_corrected_bits_phy", &m::PHY_CORRECTED_BITS),
    Row::new("rx_crc_errors_phy", &m::PHY_CRC_ERRORS),
    Row::new("rx_err_lane_#_phy", &m::PHY_LANE_ERRORS),
    Row::new("outbound_pci_stalled_rd", &m::PCI_STALLED)
        .labelled("read")
        .scaled(Scale::Percent),
    Row::new("outbound_pci_stalled_wr", &m::PCI_STALLED)
        .labelled("write")
        .scaled(Scale::Percent),
    Row::new("module_unplug", &m::MODULE_EVENTS).labelled("unplug"),
    Row::new("module_bus_stuck", &m::MODULE_EVENTS).labelled("bus_stuck"),
    Row::new("module_high_temp", &m::MODULE_EVENTS).labelled("high_temperature"),
    Row::new("module_bad_shorted", &m::MODULE_EVENTS).labelled("bad_shorted"),
];
