//! bnxt_en (bnxt_ethtool.c). Drops are counted by queue of its classes of service, which is no priority: they are left out
//! but for their sum. `bnxt_dcbnl_ieee_getpfc` reports no priority where bnxtqos or niccli configured the firmware.

use super::{Row, Scale};
use crate::ethernet::metrics as m;

pub(super) static ROWS: &[Row] = &[
    Row::of_pfc("rx_pfc_ena_frames_pri#", &m::PFC_RX_FRAMES),
    Row::of_pfc("tx_pfc_ena_frames_pri#", &m::PFC_TX_FRAMES),
    Row::of_pfc("pfc_pri#_rx_duration_us", &m::PFC_RX_PAUSE).scaled(Scale::Microseconds),
    Row::of_pfc("pfc_pri#_tx_duration_us", &m::PFC_TX_PAUSE).scaled(Scale::Microseconds),
    Row::of_pfc("pfc_pri#_rx_transitions", &m::PFC_RX_TRANSITIONS),
    Row::new("rx_pause_frames", &m::PAUSE_RX_FRAMES),
    Row::new("tx_pause_frames", &m::PAUSE_TX_FRAMES),
    Row::new("continuous_pause_events", &m::PAUSE_STORM_EVENTS).labelled("any"),
    Row::new("continuous_roce_pause_events", &m::PAUSE_STORM_EVENTS).labelled("roce"),
    Row::new("rx_stat_discard", &m::RX_DISCARDS),
    Row::new("tx_stat_discard", &m::TX_DISCARDS),
    Row::new("rx_bytes_pri#", &m::PRIORITY_RX_BYTES),
    Row::new("tx_bytes_pri#", &m::PRIORITY_TX_BYTES),
    Row::new("link_down_events", &m::PHY_LINK_DOWN),
    Row::new("rx_pcs_symbol_err", &m::PHY_SYMBOL_ERRORS),
    Row::new("rx_bits", &m::PHY_RX_BITS),
    Row::new("rx_corrected_bits", &m::PHY_CORRECTED_BITS),
    Row::new("rx_fcs_err_frames", &m::PHY_CRC_ERRORS),
    Row::new("rx_fec_corrected_blocks", &m::FEC_CORRECTED_BLOCKS),
    Row::new("rx_fec_uncorrectable_blocks", &m::FEC_UNCORRECTABLE_BLOCKS),
];
