//! mlx4_en (mlx4/en_ethtool.c). The unit of its times (`rx_pause_duration`, `rx_pause_duration_prio_0`) is documented nowhere: left out.

use super::Row;
use crate::ethernet::metrics as m;

pub(super) static ROWS: &[Row] = &[
    Row::of_pfc("rx_pause_prio_#", &m::PFC_RX_FRAMES),
    Row::of_pfc("tx_pause_prio_#", &m::PFC_TX_FRAMES),
    Row::of_pfc("rx_pause_transition_prio_#", &m::PFC_RX_TRANSITIONS),
    Row::new("rx_pause_transition", &m::PAUSE_RX_TRANSITIONS),
    Row::new("rx_prio_#_bytes", &m::PRIORITY_RX_BYTES),
    Row::new("tx_prio_#_bytes", &m::PRIORITY_TX_BYTES),
    Row::new("rx_pause", &m::PAUSE_RX_FRAMES),
    Row::new("tx_pause", &m::PAUSE_TX_FRAMES),
];
