//! hns3 (hns3pf/hclge_main.c). The unit of its times (`mac_rx_pfc_pri0_xoff_time`) is documented nowhere: left out.

use super::Row;
use crate::ethernet::metrics as m;

pub(super) static ROWS: &[Row] = &[
    Row::of_pfc("mac_rx_pfc_pri#_pkt_num", &m::PFC_RX_FRAMES),
    Row::of_pfc("mac_tx_pfc_pri#_pkt_num", &m::PFC_TX_FRAMES),
    Row::new("mac_rx_mac_pause_num", &m::PAUSE_RX_FRAMES),
    Row::new("mac_tx_mac_pause_num", &m::PAUSE_TX_FRAMES),
    Row::new("mac_rx_fcs_err_pkt_num", &m::PHY_CRC_ERRORS),
];
