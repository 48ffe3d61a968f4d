//! The ethernet collector's metrics: what the Ethernet below a RoCE port counts and how it is set up. A priority that has
//! no PFC has no series of PFC.

use crate::metric::{Kind, Metric, Tier, Unit};

const STATISTICS: &str = "SIOCETHTOOL: ETHTOOL_GSTRINGS, ETHTOOL_GSTATS";
const DCB: &str = "RTM_GETDCB, DCB_CMD_IEEE_GET";
const PAUSE: &str = "ETHTOOL_GSTATS, else ETHTOOL_MSG_PAUSE_GET with statistics";
const FEC: &str = "ETHTOOL_MSG_FEC_GET with statistics, else ETHTOOL_GSTATS";
const ECN: &str = "/sys/class/net/*/ecn/roce_{np,rp}/enable/*";
const MTU: &str = "/sys/class/net/*/mtu";
const OWN: &str = "nodewarden";

/// Makes a static for each, and `METRICS` of all. A line: name of the static, name of the metric, kind, unit, tier, labels,
/// source, help.
macro_rules! metrics {
    ($($name:ident $metric:literal $kind:ident $unit:ident $tier:ident [$($label:literal)*] $source:ident $help:literal;)*) => {
        $(
            #[doc = $help]
            pub static $name: Metric = Metric {
                name: $metric,
                kind: Kind::$kind,
                unit: Unit::$unit,
                labels: &["device", "port", $($label,)*],
                help: $help,
                tier: Tier::$tier,
                source: $source,
                aliases: &[],
            };
        )*
        /// All of them.
        pub static METRICS: &[&Metric] = &[$(&$name,)*];
    };
}

metrics! {
    PFC_RX_FRAMES "rdma_pfc_rx_frames_total" Counter None Core ["priority"] STATISTICS
        "Priority pause frames received for a priority: how often the switch told this port to stop sending.";
    PFC_TX_FRAMES "rdma_pfc_tx_frames_total" Counter None Core ["priority"] STATISTICS
        "Priority pause frames sent for a priority: how often this port told the switch to stop sending.";
    PFC_RX_PAUSE "rdma_pfc_rx_pause_seconds_total" Counter Seconds Core ["priority"] STATISTICS
        "Time for which the transmission of a priority was paused by received frames.";
    PFC_TX_PAUSE "rdma_pfc_tx_pause_seconds_total" Counter Seconds Core ["priority"] STATISTICS
        "Time for which this port asked the other end to pause a priority.";
    PFC_RX_TRANSITIONS "rdma_pfc_rx_transitions_total" Counter None Detail ["priority"] STATISTICS
        "Times that a priority went from running to paused because of received frames.";
    PFC_ENABLED "rdma_pfc_enabled" Gauge None Detail ["priority"] DCB
        "Whether priority flow control is on for a priority, 1 or 0.";
    PAUSE_RX_FRAMES "rdma_pause_rx_frames_total" Counter None Detail [] PAUSE
        "Pause frames received that stop the whole link, as opposed to one priority.";
    PAUSE_TX_FRAMES "rdma_pause_tx_frames_total" Counter None Detail [] PAUSE
        "Pause frames sent that stop the whole link, as opposed to one priority.";
    PAUSE_STORM_EVENTS "rdma_pause_storm_events_total" Counter None Core ["severity"] STATISTICS
        "Times that an adapter found its receiver stopped while it kept pausing the other end; error means that it ceased to pause and may drop, any that the driver has one level, roce that it counts RoCE queues apart.";
    PRIORITY_DISCARDS "rdma_priority_discards_total" Counter None Core ["priority" "reason"] STATISTICS
        "Packets of a priority with flow control that were received and dropped: for lack of room in the host (discard), in the port's buffer (buffer), or by congestion (congestion).";
    RX_DISCARDS "rdma_rx_discards_total" Counter None Core [] STATISTICS
        "Packets of any priority that a port received and dropped for lack of buffers.";
    PRIORITY_ECN_MARKED "rdma_priority_ecn_marked_total" Counter None Detail ["priority"] STATISTICS
        "Packets of a priority that the adapter itself marked with ECN because the host was congested.";
    PHY_LINK_DOWN "rdma_phy_link_down_total" Counter None Core [] STATISTICS
        "Times that the physical link of an Ethernet port went down.";
    PHY_SYMBOL_ERRORS "rdma_phy_symbol_errors_total" Counter None Core [] STATISTICS
        "Symbols that were received wrong and could not be corrected.";
    PHY_RX_BITS "rdma_phy_rx_bits_total" Counter None Detail [] STATISTICS
        "Bits that a port has received since its link came up, errors included.";
    PHY_CORRECTED_BITS "rdma_phy_corrected_bits_total" Counter None Detail [] STATISTICS
        "Bits that were received wrong and corrected, which is normal on links with forward error correction.";
    PHY_CRC_ERRORS "rdma_phy_crc_errors_total" Counter None Detail [] STATISTICS
        "Frames received with a wrong checksum.";
    PHY_LANE_ERRORS "rdma_phy_lane_errors_total" Counter None Detail ["lane"] STATISTICS
        "Bits of a lane that were received wrong, corrected ones included.";
    FEC_CORRECTED_BLOCKS "rdma_fec_corrected_blocks_total" Counter None Detail [] FEC
        "Blocks that forward error correction has mended.";
    FEC_UNCORRECTABLE_BLOCKS "rdma_fec_uncorrectable_blocks_total" Counter None Detail [] FEC
        "Blocks that forward error correction could not mend.";
    PCI_STALLED "rdma_pci_stalled_ratio" Gauge Ratio Detail ["direction"] STATISTICS
        "Share of the last second in which an adapter had reads or writes for PCI Express and no credits to send them.";
    MODULE_EVENTS "rdma_module_events_total" Counter None Detail ["event"] STATISTICS
        "What happened to the module in a port's cage: unplug, bus_stuck, high_temperature or bad_shorted.";
    QOS_TRUST "rdma_qos_trust_info" Info None Detail ["trust"] DCB
        "Which field of a packet decides about its priority: dscp (of IP) or pcp (of the VLAN tag).";
    QOS_DSCP_PRIORITY "rdma_qos_dscp_priority" Gauge None Detail ["dscp"] DCB
        "The priority that packets with a DSCP are given.";
    FEC_MODE "rdma_fec_info" Info None Detail ["mode"] FEC
        "The forward error correction that a link uses: off, rs, baser or llrs.";
    PORT_MTU "rdma_port_mtu_bytes" Gauge Bytes Detail [] MTU
        "Largest packet of a port's network interface, without its Ethernet header.";
    DCQCN_ENABLED "rdma_dcqcn_enabled" Gauge None Detail ["point" "priority"] ECN
        "Whether DCQCN is on for a priority at the notification point (np) or the reaction point (rp), 1 or 0.";
    RESTING "rdma_ethernet_resting" Gauge None Core [] OWN
        "Whether an Ethernet port is left alone for an hour because a call to its driver took over 200 ms, 1 or 0.";
    CALL_SECONDS "rdma_ethernet_call_seconds" Gauge Seconds Detail ["call"] OWN
        "How long the last call of a kind took, during which other network configuration of the node waits.";
    UNREADABLE "rdma_ethernet_unreadable" Gauge None Detail ["call" "reason"] OWN
        "Calls to a port's driver that gave no answer, 1 each, with the reason: resting, busy (another port's call is in flight), unsupported, denied, gone, rejected, io, malformed (counts and names did not match), all_ones, or stacked (an interface above others, such as a bond).";
}
