//! ionic (ionic_stats.c). Upstream counts frames for all priorities together, and time for each.

use super::{Row, Scale};
use crate::ethernet::metrics as m;

pub(super) static ROWS: &[Row] = &[
    Row::of_pfc("frames_rx_pripause", &m::PFC_RX_FRAMES).labelled("all"),
    Row::of_pfc("frames_tx_pripause", &m::PFC_TX_FRAMES).labelled("all"),
    Row::of_pfc("rx_pripause_#_1us_count", &m::PFC_RX_PAUSE).scaled(Scale::Microseconds),
    Row::of_pfc("tx_pripause_#_1us_count", &m::PFC_TX_PAUSE).scaled(Scale::Microseconds),
    Row::new("frames_rx_pause", &m::PAUSE_RX_FRAMES),
    Row::new("frames_tx_pause", &m::PAUSE_TX_FRAMES),
    // The time of sent ones is not counted.
    Row::new("rx_pause_1us_count", &m::PAUSE_RX_SECONDS).scaled(Scale::Microseconds),
    Row::new("frames_rx_dropped", &m::RX_DISCARDS),
    Row::new("frames_rx_bad_fcs", &m::PHY_CRC_ERRORS),
];
