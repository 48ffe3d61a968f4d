//! The ethernet collector's metrics: counters and configuration of the Ethernet port below a RoCE port, or of each member
//! of its bond (label `netdev`). A priority without PFC has only those PFC series that are not 0.

use crate::metric::{Kind, Metric, Tier, Unit};

const STATISTICS: &str = "SIOCETHTOOL: ETHTOOL_GSTRINGS, ETHTOOL_GSTATS";
const DCB: &str = "RTM_GETDCB, DCB_CMD_IEEE_GET";
const PAUSE: &str = "ETHTOOL_GSTATS, else ETHTOOL_MSG_PAUSE_GET with statistics";
const FEC: &str = "ETHTOOL_MSG_FEC_GET with statistics, else ETHTOOL_GSTATS";
const ECN: &str = "/sys/class/net/*/ecn/roce_{np,rp}/enable/*";
const MTU: &str = "/sys/class/net/*/mtu";
const MEMBER: &str = "/sys/class/net/*/{operstate,carrier_up_count,bonding_slave/ad_aggregator_id}";
const OWN: &str = "nodewarden";

/// The labels that every series has: the port, and the interface, which is the port's own or a member of its bond.
#[derive(Clone, Copy)]
pub(super) struct Owner<'a> {
    pub(super) device: &'a str,
    pub(super) port: &'a str,
    pub(super) netdev: &'a str,
}

impl<'a> Owner<'a> {
    /// All labels of a series, with those of its metric.
    pub(super) fn labels<'b>(self, own: &[&'b str]) -> Vec<&'b str>
    where
        'a: 'b,
    {
        let mut labels = Vec::with_capacity(own.len() + 3);
        labels.extend([self.device, self.port]);
        labels.extend_from_slice(own);
        labels.push(self.netdev);
        labels
    }
}

/// Declares one static per metric, and `METRICS` with all of them. A row: static, metric name, kind, unit, tier, labels
/// between the port and the interface, source, help.
macro_rules! metrics {
    ($($name:ident $metric:literal $kind:ident $unit:ident $tier:ident [$($label:literal)*] $source:ident $help:literal;)*) => {
        $(
            #[doc = $help]
            pub static $name: Metric = Metric {
                name: $metric,
                kind: Kind::$kind,
                unit: Unit::$unit,
                labels: &["device", "port", $($label,)* "netdev"],
                help: $help,
                tier: Tier::$tier,
                source: $source,
                aliases: &[],
            };
        )*
        /// Every metric of this collector.
        pub static METRICS: &[&Metric] = &[$(&$name,)*];
    };
}

metrics! {
    PFC_RX_FRAMES "rdma_pfc_rx_frames_total" Counter None Core ["priority"] STATISTICS
        "PFC frames received per priority: the link peer asks this port to stop transmitting.";
    PFC_TX_FRAMES "rdma_pfc_tx_frames_total" Counter None Core ["priority"] STATISTICS
        "PFC frames sent per priority: this port asks the link peer to stop transmitting.";
    PFC_RX_PAUSE "rdma_pfc_rx_pause_seconds_total" Counter Seconds Core ["priority"] STATISTICS
        "Time for which received PFC frames paused transmission of a priority, in seconds.";
    PFC_TX_PAUSE "rdma_pfc_tx_pause_seconds_total" Counter Seconds Core ["priority"] STATISTICS
        "Time for which this port asked the link peer to pause a priority, in seconds.";
    PFC_RX_TRANSITIONS "rdma_pfc_rx_transitions_total" Counter None Detail ["priority"] STATISTICS
        "XOFF/XON transitions of a priority caused by received PFC frames.";
    PFC_ENABLED "rdma_pfc_enabled" Gauge None Detail ["priority"] DCB
        "PFC state of a priority: 1 enabled, 0 disabled, absent while unknown (bnxt_en without a priority that was set by DCB).";
    PAUSE_RX_FRAMES "rdma_pause_rx_frames_total" Counter None Core [] PAUSE
        "Global pause frames (802.3x) received, which pause the whole link and not a single priority; mlx5 (pause_ctrl_phy) may include PFC frames.";
    PAUSE_TX_FRAMES "rdma_pause_tx_frames_total" Counter None Core [] PAUSE
        "Global pause frames (802.3x) sent, which pause the whole link and not a single priority; mlx5 (pause_ctrl_phy) may include PFC frames.";
    PAUSE_RX_SECONDS "rdma_pause_rx_seconds_total" Counter Seconds Core [] STATISTICS
        "Time for which received global pause frames (802.3x) paused transmission on the link, in seconds.";
    PAUSE_TX_SECONDS "rdma_pause_tx_seconds_total" Counter Seconds Core [] STATISTICS
        "Time for which this port asked the link peer to pause the link with global pause frames (802.3x), in seconds.";
    PAUSE_RX_TRANSITIONS "rdma_pause_rx_transitions_total" Counter None Detail [] STATISTICS
        "XOFF/XON transitions of the link caused by received global pause frames (802.3x).";
    PAUSE_STORM_EVENTS "rdma_pause_storm_events_total" Counter None Core ["severity"] STATISTICS
        "Pause storms sent by the adapter, by severity: warning, error (pause frames disabled, drops possible), any (driver with one level), roce (RoCE queues).";
    PRIORITY_DISCARDS "rdma_priority_discards_total" Counter None Core ["priority" "reason"] STATISTICS
        "Received packets of a priority discarded by the adapter, by reason: discard (no receive buffer), buffer (no per-host receive buffer), congestion (per-host congestion).";
    RX_DISCARDS "rdma_rx_discards_total" Counter None Core [] STATISTICS
        "Received packets of all priorities discarded by the port for lack of buffers.";
    TX_DISCARDS "rdma_tx_discards_total" Counter None Core [] STATISTICS
        "Packets discarded by the port instead of being sent, without an error of the packet.";
    PRIORITY_RX_BYTES "rdma_priority_rx_bytes_total" Counter Bytes Detail ["priority"] STATISTICS
        "Bytes received per priority.";
    PRIORITY_TX_BYTES "rdma_priority_tx_bytes_total" Counter Bytes Detail ["priority"] STATISTICS
        "Bytes sent per priority.";
    PRIORITY_ECN_MARKED "rdma_priority_ecn_marked_total" Counter None Detail ["priority"] STATISTICS
        "Packets of a priority marked with ECN by the adapter because of host congestion.";
    PHY_LINK_DOWN "rdma_phy_link_down_total" Counter None Core [] STATISTICS
        "Link-down events of the physical port.";
    PHY_SYMBOL_ERRORS "rdma_phy_symbol_errors_total" Counter None Core [] STATISTICS
        "PCS symbol errors not corrected by FEC.";
    PHY_RX_BITS "rdma_phy_rx_bits_total" Counter None Detail [] STATISTICS
        "Bits received since the link came up, including bit errors.";
    PHY_CORRECTED_BITS "rdma_phy_corrected_bits_total" Counter None Detail [] STATISTICS
        "Bits corrected by FEC, which is normal on links with FEC.";
    PHY_CRC_ERRORS "rdma_phy_crc_errors_total" Counter None Detail [] STATISTICS
        "Frames received with a CRC (FCS) error.";
    PHY_LANE_ERRORS "rdma_phy_lane_errors_total" Counter None Detail ["lane"] STATISTICS
        "Raw bit errors per lane, before FEC correction.";
    FEC_CORRECTED_BLOCKS "rdma_fec_corrected_blocks_total" Counter None Detail [] FEC
        "Corrected FEC blocks.";
    FEC_UNCORRECTABLE_BLOCKS "rdma_fec_uncorrectable_blocks_total" Counter None Detail [] FEC
        "Uncorrectable FEC blocks.";
    PCI_STALLED "rdma_pci_stalled_ratio" Gauge Ratio Detail ["direction"] STATISTICS
        "Share of the last second in which PCIe reads or writes of the adapter stalled for lack of credits (0-1).";
    MODULE_EVENTS "rdma_module_events_total" Counter None Detail ["event"] STATISTICS
        "Events of the port's transceiver module: unplug, bus_stuck, high_temperature or bad_shorted.";
    QOS_TRUST "rdma_qos_trust_info" Info None Detail ["trust"] DCB
        "QoS trust mode of a port: dscp (IP header) or pcp (VLAN tag).";
    QOS_DSCP_PRIORITY "rdma_qos_dscp_priority" Gauge None Detail ["dscp"] DCB
        "Priority to which a DSCP is mapped.";
    FEC_MODE "rdma_fec_info" Info None Detail ["mode"] FEC
        "Active FEC mode of a link: off, rs, baser or llrs.";
    PORT_MTU "rdma_port_mtu_bytes" Gauge Bytes Detail [] MTU
        "MTU of the port's network interface in bytes, without the Ethernet header.";
    LAG_MEMBER_UP "rdma_lag_member_up" Gauge None Core [] MEMBER
        "Link state of a member of the port's bond: 1 up, 0 down or left out by LACP; absent if it never had a link.";
    LAG_MEMBER_HAD_LINK "rdma_lag_member_had_link" Gauge None Detail [] MEMBER
        "Link history of a member of the port's bond since its network interface was created, at boot or at a reload of the driver: 1 had a link, 0 never had one.";
    DCQCN_ENABLED "rdma_dcqcn_enabled" Gauge None Detail ["point" "priority"] ECN
        "DCQCN state of a priority at the notification point (np) or reaction point (rp): 1 enabled, 0 disabled.";
    RESTING "rdma_ethernet_resting" Gauge None Core [] OWN
        "Polling state of a port: 1 while suspended, for an hour after a driver call slower than 200 ms, else 0.";
    CALL_SECONDS "rdma_ethernet_call_seconds" Gauge Seconds Detail ["call"] OWN
        "Duration of the last driver call of each kind in seconds, for which other network configuration of the node waits.";
    UNREADABLE "rdma_ethernet_unreadable" Gauge None Detail ["call" "reason"] OWN
        "Driver calls of a port without a result, 1 each, by reason: resting, busy (call for another port in flight), unsupported, denied, gone, rejected, io, malformed (counts and names differ), all_ones, stacked (bond or other interface above others, none of them on the card of the port).";
}
