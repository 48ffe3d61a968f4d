//! InfiniBand and RoCE.

use super::{Dashboard, Kind, Panel, Row, Variable};

pub(super) static FABRIC: Dashboard = Dashboard {
    uid: "nodewarden-fabric",
    title: "nodewarden / Fabric",
    description: "InfiniBand and RoCE: traffic, congestion, losses, links.",
    variables: &[Variable::Instance],
    one: false,
    rows: &[
        Row {
            title: "Ports",
            panels: &[
                Panel {
                    title: "Ports active",
                    description: "Ports in state active.",
                    unit: "short",
                    kind: Kind::Stat(None),
                    width: 8,
                    queries: &[("sum(rdma_port_state{%n} >= bool 4)", "")],
                },
                Panel {
                    title: "Ports down that were active",
                    description: "Ports that were active within the last hour and are down.",
                    unit: "short",
                    kind: Kind::Stat(Some(1.0)),
                    width: 8,
                    queries: &[(
                        "count((rdma_port_state{%n} == 1) and max_over_time(rdma_port_state{%n}[1h]) >= 4) or vector(0)",
                        "",
                    )],
                },
                Panel {
                    title: "Link drops in an hour",
                    description: "Links that went down, over all ports.",
                    unit: "short",
                    kind: Kind::Stat(None),
                    width: 8,
                    // The first that a port has: of the Ethernet PHY, of its interface, of InfiniBand.
                    queries: &[(
                        "round(sum(sum by (cluster, instance, device, port) (increase(rdma_phy_link_down_total{%n}[1h])) or sum by (cluster, instance, device, port) (increase(rdma_port_carrier_down_total{%n}[1h])) or sum by (cluster, instance, device, port) (increase(rdma_link_downed_total{%n}[1h]))))",
                        "",
                    )],
                },
            ],
        },
        Row {
            title: "Traffic",
            panels: &[
                Panel {
                    title: "Sent",
                    description: "Data sent, by device over all nodes: a rail.",
                    unit: "Bps",
                    kind: Kind::Lines,
                    width: 12,
                    queries: &[(
                        "sum by (cluster, device) (rate(rdma_port_xmit_data_bytes_total{%n}[$__rate_interval]))",
                        "{{cluster}} {{device}}",
                    )],
                },
                Panel {
                    title: "Received",
                    description: "Data received, by device over all nodes: a rail.",
                    unit: "Bps",
                    kind: Kind::Lines,
                    width: 12,
                    queries: &[(
                        "sum by (cluster, device) (rate(rdma_port_rcv_data_bytes_total{%n}[$__rate_interval]))",
                        "{{cluster}} {{device}}",
                    )],
                },
            ],
        },
        Row {
            title: "Congestion",
            panels: &[
                Panel {
                    title: "CNPs sent",
                    description: "Congestion notifications that receivers send (np_cnp_sent): the 10 nodes with the most.",
                    unit: "pps",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "topk(10, sum by (cluster, instance) (rate(rdma_np_cnp_sent_total{%n}[$__rate_interval])))",
                        "{{instance}}",
                    )],
                },
                Panel {
                    title: "CNPs handled",
                    description: "Congestion notifications to which senders react (rp_cnp_handled): the 10 nodes with the most.",
                    unit: "pps",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "topk(10, sum by (cluster, instance) (rate(rdma_rp_cnp_handled_total{%n}[$__rate_interval])))",
                        "{{instance}}",
                    )],
                },
                Panel {
                    title: "Packets with ECN mark",
                    description: "RoCE packets that a switch marked: the 10 nodes with the most.",
                    unit: "pps",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "topk(10, sum by (cluster, instance) (rate(rdma_np_ecn_marked_roce_packets_total{%n}[$__rate_interval])))",
                        "{{instance}}",
                    )],
                },
                Panel {
                    title: "Paused by the switch",
                    description: "Share of time in which PFC stops a priority of a port from sending.",
                    unit: "percentunit",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "topk(10, rate(rdma_pfc_rx_pause_seconds_total{%n}[5m]))",
                        "{{instance}} {{device}} {{priority}}",
                    )],
                },
                Panel {
                    title: "Pausing the switch",
                    description: "Share of time in which a node stops its switch: a slow receiver.",
                    unit: "percentunit",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "topk(10, rate(rdma_pfc_tx_pause_seconds_total{%n}[5m]))",
                        "{{instance}} {{device}} {{priority}}",
                    )],
                },
                Panel {
                    title: "Waiting to send",
                    description: "InfiniBand: ticks in which a port had data and no credits (port_xmit_wait).",
                    unit: "short",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "topk(10, rate(rdma_port_xmit_wait_total{%n}[$__rate_interval]))",
                        "{{instance}} {{device}}",
                    )],
                },
            ],
        },
        Row {
            title: "Losses",
            panels: &[
                Panel {
                    title: "Time-outs of requests",
                    description: "Requests that were not acknowledged in time (local_ack_timeout_err).",
                    unit: "short",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "topk(10, sum by (cluster, instance, device) (increase(rdma_local_ack_timeout_err_total{%n}[$__rate_interval])))",
                        "{{instance}} {{device}}",
                    )],
                },
                Panel {
                    title: "Out of sequence",
                    description: "Packets that arrived out of sequence, usually after a loss.",
                    unit: "short",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "topk(10, sum by (cluster, instance, device) (increase(rdma_out_of_sequence_total{%n}[$__rate_interval])))",
                        "{{instance}} {{device}}",
                    )],
                },
                Panel {
                    title: "Symbol errors",
                    description: "Errors on the wire in 5 min: a bad cable or transceiver.",
                    unit: "short",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "topk(10, sum by (cluster, instance, device) (increase(rdma_phy_symbol_errors_total{%n}[5m])) or sum by (cluster, instance, device) (increase(rdma_symbol_error_total{%n}[5m])))",
                        "{{instance}} {{device}}",
                    )],
                },
            ],
        },
    ],
};
