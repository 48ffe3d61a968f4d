//! ice (ice_ethtool.c). A frame says stop (xoff) or go (xon), and both are frames. Of packets
//! dropped instead of sent it counts those of a link that is down, which is another meaning: left out.

use super::Row;
use crate::ethernet::metrics as m;

pub(super) static ROWS: &[Row] = &[
    Row::of_pfc("rx_priority_#_xoff.nic", &m::PFC_RX_FRAMES),
    Row::of_pfc("rx_priority_#_xon.nic", &m::PFC_RX_FRAMES),
    Row::of_pfc("tx_priority_#_xoff.nic", &m::PFC_TX_FRAMES),
    Row::of_pfc("tx_priority_#_xon.nic", &m::PFC_TX_FRAMES),
    Row::new("link_xoff_rx.nic", &m::PAUSE_RX_FRAMES),
    Row::new("link_xon_rx.nic", &m::PAUSE_RX_FRAMES),
    Row::new("link_xoff_tx.nic", &m::PAUSE_TX_FRAMES),
    Row::new("link_xon_tx.nic", &m::PAUSE_TX_FRAMES),
    Row::new("rx_dropped.nic", &m::RX_DISCARDS),
    Row::new("rx_crc_errors.nic", &m::PHY_CRC_ERRORS),
];
