//! Alerts about the fabric: InfiniBand and RoCE.

use super::{Alert, Case, Expected, FurtherCase, Group, Record, Runbook, Severity};

pub(super) static GROUP: Group = Group {
    name: "nodewarden-fabric",
    about: "InfiniBand and RoCE.",
    records: &[
        // A range of a day would read every sample of every port at each evaluation.
        Record {
            name: "device_port:rdma_port_state:active_last",
            expr: "max by (cluster, instance, device, port) (timestamp(rdma_port_state >= 4))
or (last_over_time(device_port:rdma_port_state:active_last[20m]) > time() - 86400)",
        },
        Record {
            name: "instance:rdma_np_cnp_sent:rate5m",
            expr: "sum by (cluster, instance) (rate(rdma_np_cnp_sent_total[5m]))",
        },
        Record {
            name: "cluster:rdma_np_cnp_sent:rate5m",
            expr: "sum by (cluster) (instance:rdma_np_cnp_sent:rate5m)",
        },
        Record {
            name: "instance:rdma_pfc_rx_pause:ratio_rate5m",
            expr: "max by (cluster, instance) (rate(rdma_pfc_rx_pause_seconds_total[5m]))",
        },
    ],
    alerts: &[
        Alert {
            name: "FabricRailDown",
            // What the check rdma-port-down ignores: switches boot for minutes, nodes one after the other.
            expr: "count by (cluster, device) (
  count by (cluster, instance, device) (
    (rdma_port_state == 1)
    and on (cluster, instance, device, port)
      device_port:rdma_port_state:active_last
    unless on (cluster, instance)
      (time() - host_boot_time_seconds < 600)
    unless on (cluster, instance, device, port)
      (rdma_port_physical_state == 3 and on (cluster, instance, device, port) rdma_port_info{link_layer=\"InfiniBand\"})
  )
) >= 4",
            lasts: "2m",
            severity: Severity::Page,
            summary: "{{ $labels.device }} is down on {{ $value }} nodes of {{ $labels.cluster }}",
            description: "The ports of {{ $labels.device }}, active within the last day, are down on {{ $value }} nodes of {{ $labels.cluster }}: a rail, usually its switch. Nodes that booted within 10 min and disabled InfiniBand ports are not counted.",
            act: "Look at the leaf switch of this rail first. nodewarden drains none of these nodes for it unless `health.checks` says so.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[
                    (
                        r#"rdma_port_state{cluster="c",instance="n1",device="mlx5_3",port="1"}"#,
                        "4x10 1x200",
                    ),
                    (
                        r#"rdma_port_state{cluster="c",instance="n2",device="mlx5_3",port="1"}"#,
                        "4x10 1x200",
                    ),
                    (
                        r#"rdma_port_state{cluster="c",instance="n3",device="mlx5_3",port="1"}"#,
                        "4x10 1x200",
                    ),
                    (
                        r#"rdma_port_state{cluster="c",instance="n4",device="mlx5_3",port="1"}"#,
                        "4x10 1x200",
                    ),
                    (
                        r#"host_boot_time_seconds{cluster="c",instance="n1"}"#,
                        "-86400x210",
                    ),
                    (
                        r#"host_boot_time_seconds{cluster="c",instance="n2"}"#,
                        "-86400x210",
                    ),
                    (
                        r#"host_boot_time_seconds{cluster="c",instance="n3"}"#,
                        "-86400x210",
                    ),
                    (
                        r#"host_boot_time_seconds{cluster="c",instance="n4"}"#,
                        "-86400x210",
                    ),
                ],
                at: "3h",
            },
            silent: Some(Case {
                // Three nodes; an unused port is down everywhere.
                input: &[
                    (
                        r#"rdma_port_state{cluster="c",instance="n1",device="mlx5_3",port="1"}"#,
                        "4x10 1x30",
                    ),
                    (
                        r#"rdma_port_state{cluster="c",instance="n2",device="mlx5_3",port="1"}"#,
                        "4x10 1x30",
                    ),
                    (
                        r#"rdma_port_state{cluster="c",instance="n3",device="mlx5_3",port="1"}"#,
                        "4x10 1x30",
                    ),
                    (
                        r#"rdma_port_state{cluster="c",instance="n4",device="mlx5_3",port="1"}"#,
                        "1x40",
                    ),
                    (
                        r#"rdma_port_state{cluster="c",instance="n5",device="mlx5_3",port="1"}"#,
                        "1x40",
                    ),
                ],
                at: "20m",
            }),
        },
        Alert {
            name: "FabricSameCheckOnManyNodes",
            expr: "count by (cluster, check) (
  count by (cluster, instance, check) (
    nodewarden_incident_remedy{check=~\"rdma-(cnp-ignored|lossless-loss|packet-loss|pause-without-cnp|pfc-storm|port-degraded|port-down|port-flapping|retries-exceeded)\"}
    and on (cluster, instance, incident)
      (nodewarden_incident_start_timestamp_seconds > time() - 3600)
  )
) >= 4
or
(
  count by (cluster, check) (count by (cluster, instance, check) (nodewarden_incident_remedy)) >= 4
  and on (cluster, check)
    ALERTS{alertname=\"FabricSameCheckOnManyNodes\",alertstate=\"firing\"}
)",
            lasts: "5m",
            severity: Severity::Page,
            summary: "{{ $labels.check }} on {{ $value }} nodes of {{ $labels.cluster }}",
            description: "Check {{ $labels.check }} has incidents on {{ $value }} nodes of {{ $labels.cluster }}, of which at least 4 began within an hour: loss, pauses or retries on many nodes come from the fabric, not from the nodes.",
            act: "Look for what these nodes share: a leaf switch, a spine, a configuration that was rolled out. The runbook of the check says which counters of the switch to compare.",
            runbook: Runbook::OfCheck,
            fires: Case {
                // It lasts as long as the incidents do.
                input: &[
                    (
                        r#"nodewarden_incident_remedy{cluster="c",instance="n1",incident="i1",act="inspect",check="rdma-lossless-loss"}"#,
                        "1x200",
                    ),
                    (
                        r#"nodewarden_incident_start_timestamp_seconds{cluster="c",instance="n1",incident="i1"}"#,
                        "60x200",
                    ),
                    (
                        r#"nodewarden_incident_remedy{cluster="c",instance="n2",incident="i2",act="inspect",check="rdma-lossless-loss"}"#,
                        "1x200",
                    ),
                    (
                        r#"nodewarden_incident_start_timestamp_seconds{cluster="c",instance="n2",incident="i2"}"#,
                        "120x200",
                    ),
                    (
                        r#"nodewarden_incident_remedy{cluster="c",instance="n3",incident="i3",act="inspect",check="rdma-lossless-loss"}"#,
                        "1x200",
                    ),
                    (
                        r#"nodewarden_incident_start_timestamp_seconds{cluster="c",instance="n3",incident="i3"}"#,
                        "180x200",
                    ),
                    (
                        r#"nodewarden_incident_remedy{cluster="c",instance="n4",incident="i4",act="inspect",check="rdma-lossless-loss"}"#,
                        "1x200",
                    ),
                    (
                        r#"nodewarden_incident_start_timestamp_seconds{cluster="c",instance="n4",incident="i4"}"#,
                        "240x200",
                    ),
                ],
                at: "3h",
            },
            silent: Some(Case {
                input: &[
                    (
                        r#"nodewarden_incident_remedy{cluster="c",instance="n1",incident="i1",act="inspect",check="rdma-pfc-storm"}"#,
                        "1x20",
                    ),
                    (
                        r#"nodewarden_incident_remedy{cluster="c",instance="n1",incident="i2",act="inspect",check="rdma-pfc-storm"}"#,
                        "1x20",
                    ),
                    (
                        r#"nodewarden_incident_remedy{cluster="c",instance="n1",incident="i3",act="inspect",check="rdma-pfc-storm"}"#,
                        "1x20",
                    ),
                    (
                        r#"nodewarden_incident_remedy{cluster="c",instance="n1",incident="i4",act="inspect",check="rdma-pfc-storm"}"#,
                        "1x20",
                    ),
                    (
                        r#"nodewarden_incident_start_timestamp_seconds{cluster="c",instance="n1",incident="i1"}"#,
                        "60x20",
                    ),
                    (
                        r#"nodewarden_incident_start_timestamp_seconds{cluster="c",instance="n1",incident="i2"}"#,
                        "60x20",
                    ),
                    (
                        r#"nodewarden_incident_start_timestamp_seconds{cluster="c",instance="n1",incident="i3"}"#,
                        "60x20",
                    ),
                    (
                        r#"nodewarden_incident_start_timestamp_seconds{cluster="c",instance="n1",incident="i4"}"#,
                        "60x20",
                    ),
                ],
                at: "10m",
            }),
        },
        Alert {
            name: "FabricCongestion",
            expr: "(cluster:rdma_np_cnp_sent:rate5m > 10000)
and
  cluster:rdma_np_cnp_sent:rate5m > 10 * avg_over_time(cluster:rdma_np_cnp_sent:rate5m[6h] offset 30m)",
            lasts: "15m",
            severity: Severity::Ticket,
            summary: "Congestion in the fabric of {{ $labels.cluster }}: {{ $value | humanize }} CNPs a second",
            description: "Receivers of {{ $labels.cluster }} send {{ $value | humanize }} congestion notifications (CNP) a second, more than 10 times the average of the hours before.",
            act: "`topk(10, instance:rdma_np_cnp_sent:rate5m)` names the receivers. A job that started then, an incast, or a link at lower rate are the usual causes.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[(
                    r#"rdma_np_cnp_sent_total{cluster="c",instance="n1",device="mlx5_0",port="1"}"#,
                    "0+60x120 7200+1200000x40",
                )],
                at: "155m",
            },
            silent: Some(Case {
                input: &[(
                    r#"rdma_np_cnp_sent_total{cluster="c",instance="n1",device="mlx5_0",port="1"}"#,
                    "0+1200000x160",
                )],
                at: "155m",
            }),
        },
        Alert {
            name: "FabricNodePaused",
            expr: "instance:rdma_pfc_rx_pause:ratio_rate5m > 0.2",
            lasts: "15m",
            severity: Severity::Ticket,
            summary: "{{ $labels.instance }} is paused {{ $value | humanizePercentage }} of the time",
            description: "The switch pauses a port of {{ $labels.instance }} {{ $value | humanizePercentage }} of the time (PFC): a receiver behind it does not keep up, and the congestion spreads.",
            act: "Find the receiver: a node that sends pauses (`rdma_pfc_tx_pause_seconds_total`), or a link at lower rate.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[(
                    r#"rdma_pfc_rx_pause_seconds_total{cluster="c",instance="n1",device="mlx5_0",port="1",priority="3"}"#,
                    "0+30x60",
                )],
                at: "40m",
            },
            silent: Some(Case {
                input: &[(
                    r#"rdma_pfc_rx_pause_seconds_total{cluster="c",instance="n1",device="mlx5_0",port="1",priority="3"}"#,
                    "0+6x60",
                )],
                at: "40m",
            }),
        },
    ],
    further: &[
        FurtherCase {
            alert: "FabricSameCheckOnManyNodes",
            about: "four nodes whose incidents began hours apart.",
            case: Case {
                input: &[
                    (
                        r#"nodewarden_incident_remedy{cluster="c",instance="n1",incident="i1",act="inspect",check="rdma-port-down"}"#,
                        "1x2000",
                    ),
                    (
                        r#"nodewarden_incident_start_timestamp_seconds{cluster="c",instance="n1",incident="i1"}"#,
                        "0x2000",
                    ),
                    (
                        r#"nodewarden_incident_remedy{cluster="c",instance="n2",incident="i2",act="inspect",check="rdma-port-down"}"#,
                        "_x600 1x1400",
                    ),
                    (
                        r#"nodewarden_incident_start_timestamp_seconds{cluster="c",instance="n2",incident="i2"}"#,
                        "_x600 36000x1400",
                    ),
                    (
                        r#"nodewarden_incident_remedy{cluster="c",instance="n3",incident="i3",act="inspect",check="rdma-port-down"}"#,
                        "_x1200 1x800",
                    ),
                    (
                        r#"nodewarden_incident_start_timestamp_seconds{cluster="c",instance="n3",incident="i3"}"#,
                        "_x1200 72000x800",
                    ),
                    (
                        r#"nodewarden_incident_remedy{cluster="c",instance="n4",incident="i4",act="inspect",check="rdma-port-down"}"#,
                        "_x1800 1x200",
                    ),
                    (
                        r#"nodewarden_incident_start_timestamp_seconds{cluster="c",instance="n4",incident="i4"}"#,
                        "_x1800 108000x200",
                    ),
                ],
                at: "1810m",
            },
            expected: Expected::Firing(0),
        },
        FurtherCase {
            alert: "FabricRailDown",
            about: "ports that were deferred, which is active, before they went down.",
            case: Case {
                input: &[
                    (
                        r#"rdma_port_state{cluster="c",instance="n1",device="mlx5_3",port="1"}"#,
                        "4x8 5x2 1x200",
                    ),
                    (
                        r#"rdma_port_state{cluster="c",instance="n2",device="mlx5_3",port="1"}"#,
                        "4x8 5x2 1x200",
                    ),
                    (
                        r#"rdma_port_state{cluster="c",instance="n3",device="mlx5_3",port="1"}"#,
                        "4x8 5x2 1x200",
                    ),
                    (
                        r#"rdma_port_state{cluster="c",instance="n4",device="mlx5_3",port="1"}"#,
                        "4x8 5x2 1x200",
                    ),
                ],
                at: "3h",
            },
            expected: Expected::Firing(1),
        },
        FurtherCase {
            alert: "FabricRailDown",
            about: "ports that were active more than a day ago.",
            case: Case {
                input: &[
                    (
                        r#"rdma_port_state{cluster="c",instance="n1",device="mlx5_3",port="1"}"#,
                        "4x10 1x1600",
                    ),
                    (
                        r#"rdma_port_state{cluster="c",instance="n2",device="mlx5_3",port="1"}"#,
                        "4x10 1x1600",
                    ),
                    (
                        r#"rdma_port_state{cluster="c",instance="n3",device="mlx5_3",port="1"}"#,
                        "4x10 1x1600",
                    ),
                    (
                        r#"rdma_port_state{cluster="c",instance="n4",device="mlx5_3",port="1"}"#,
                        "4x10 1x1600",
                    ),
                ],
                at: "25h",
            },
            expected: Expected::Firing(0),
        },
        FurtherCase {
        alert: "FabricRailDown",
        about: "two nodes whose adapters have two ports.",
        case: Case {
            input: &[
                (
                    r#"rdma_port_state{cluster="c",instance="n1",device="mlx4_0",port="1"}"#,
                    "4x10 1x200",
                ),
                (
                    r#"rdma_port_state{cluster="c",instance="n1",device="mlx4_0",port="2"}"#,
                    "4x10 1x200",
                ),
                (
                    r#"rdma_port_state{cluster="c",instance="n2",device="mlx4_0",port="1"}"#,
                    "4x10 1x200",
                ),
                (
                    r#"rdma_port_state{cluster="c",instance="n2",device="mlx4_0",port="2"}"#,
                    "4x10 1x200",
                ),
            ],
            at: "3h",
        },
        expected: Expected::Firing(0),
    },
        FurtherCase {
            alert: "FabricRailDown",
            about: "nodes that boot together with their switch.",
            case: Case {
                input: &[
                    (
                        r#"rdma_port_state{cluster="c",instance="n1",device="mlx5_3",port="1"}"#,
                        "4x10 _x10 1x8 4x30",
                    ),
                    (
                        r#"host_boot_time_seconds{cluster="c",instance="n1"}"#,
                        "-86400x10 _x10 1200x40",
                    ),
                    (
                        r#"rdma_port_state{cluster="c",instance="n2",device="mlx5_3",port="1"}"#,
                        "4x10 _x10 1x8 4x30",
                    ),
                    (
                        r#"host_boot_time_seconds{cluster="c",instance="n2"}"#,
                        "-86400x10 _x10 1200x40",
                    ),
                    (
                        r#"rdma_port_state{cluster="c",instance="n3",device="mlx5_3",port="1"}"#,
                        "4x10 _x10 1x8 4x30",
                    ),
                    (
                        r#"host_boot_time_seconds{cluster="c",instance="n3"}"#,
                        "-86400x10 _x10 1200x40",
                    ),
                    (
                        r#"rdma_port_state{cluster="c",instance="n4",device="mlx5_3",port="1"}"#,
                        "4x10 _x10 1x8 4x30",
                    ),
                    (
                        r#"host_boot_time_seconds{cluster="c",instance="n4"}"#,
                        "-86400x10 _x10 1200x40",
                    ),
                ],
                at: "28m",
            },
            expected: Expected::Firing(0),
        },
        FurtherCase {
            alert: "FabricRailDown",
            about: "nodes whose ports are still down 10 min after their boot.",
            case: Case {
                input: &[
                    (
                        r#"rdma_port_state{cluster="c",instance="n1",device="mlx5_3",port="1"}"#,
                        "4x10 _x10 1x40",
                    ),
                    (
                        r#"host_boot_time_seconds{cluster="c",instance="n1"}"#,
                        "-86400x10 _x10 1200x40",
                    ),
                    (
                        r#"rdma_port_state{cluster="c",instance="n2",device="mlx5_3",port="1"}"#,
                        "4x10 _x10 1x40",
                    ),
                    (
                        r#"host_boot_time_seconds{cluster="c",instance="n2"}"#,
                        "-86400x10 _x10 1200x40",
                    ),
                    (
                        r#"rdma_port_state{cluster="c",instance="n3",device="mlx5_3",port="1"}"#,
                        "4x10 _x10 1x40",
                    ),
                    (
                        r#"host_boot_time_seconds{cluster="c",instance="n3"}"#,
                        "-86400x10 _x10 1200x40",
                    ),
                    (
                        r#"rdma_port_state{cluster="c",instance="n4",device="mlx5_3",port="1"}"#,
                        "4x10 _x10 1x40",
                    ),
                    (
                        r#"host_boot_time_seconds{cluster="c",instance="n4"}"#,
                        "-86400x10 _x10 1200x40",
                    ),
                ],
                at: "35m",
            },
            expected: Expected::Firing(1),
        },
        FurtherCase {
            alert: "FabricRailDown",
            about: "InfiniBand ports that an administrator disabled.",
            case: Case {
                input: &[
                    (
                        r#"rdma_port_state{cluster="c",instance="n1",device="mlx5_3",port="1"}"#,
                        "4x10 1x200",
                    ),
                    (
                        r#"rdma_port_physical_state{cluster="c",instance="n1",device="mlx5_3",port="1"}"#,
                        "5x10 3x200",
                    ),
                    (
                        r#"rdma_port_info{cluster="c",instance="n1",device="mlx5_3",port="1",link_layer="InfiniBand",driver="mlx5_core"}"#,
                        "1x210",
                    ),
                    (
                        r#"rdma_port_state{cluster="c",instance="n2",device="mlx5_3",port="1"}"#,
                        "4x10 1x200",
                    ),
                    (
                        r#"rdma_port_physical_state{cluster="c",instance="n2",device="mlx5_3",port="1"}"#,
                        "5x10 3x200",
                    ),
                    (
                        r#"rdma_port_info{cluster="c",instance="n2",device="mlx5_3",port="1",link_layer="InfiniBand",driver="mlx5_core"}"#,
                        "1x210",
                    ),
                    (
                        r#"rdma_port_state{cluster="c",instance="n3",device="mlx5_3",port="1"}"#,
                        "4x10 1x200",
                    ),
                    (
                        r#"rdma_port_physical_state{cluster="c",instance="n3",device="mlx5_3",port="1"}"#,
                        "5x10 3x200",
                    ),
                    (
                        r#"rdma_port_info{cluster="c",instance="n3",device="mlx5_3",port="1",link_layer="InfiniBand",driver="mlx5_core"}"#,
                        "1x210",
                    ),
                    (
                        r#"rdma_port_state{cluster="c",instance="n4",device="mlx5_3",port="1"}"#,
                        "4x10 1x200",
                    ),
                    (
                        r#"rdma_port_physical_state{cluster="c",instance="n4",device="mlx5_3",port="1"}"#,
                        "5x10 3x200",
                    ),
                    (
                        r#"rdma_port_info{cluster="c",instance="n4",device="mlx5_3",port="1",link_layer="InfiniBand",driver="mlx5_core"}"#,
                        "1x210",
                    ),
                ],
                at: "3h",
            },
            expected: Expected::Firing(0),
        },
        FurtherCase {
            alert: "FabricRailDown",
            about: "RoCE ports without a link, which have the same physical state.",
            case: Case {
                input: &[
                    (
                        r#"rdma_port_state{cluster="c",instance="n1",device="mlx5_3",port="1"}"#,
                        "4x10 1x200",
                    ),
                    (
                        r#"rdma_port_physical_state{cluster="c",instance="n1",device="mlx5_3",port="1"}"#,
                        "5x10 3x200",
                    ),
                    (
                        r#"rdma_port_info{cluster="c",instance="n1",device="mlx5_3",port="1",link_layer="Ethernet",driver="mlx5_core"}"#,
                        "1x210",
                    ),
                    (
                        r#"rdma_port_state{cluster="c",instance="n2",device="mlx5_3",port="1"}"#,
                        "4x10 1x200",
                    ),
                    (
                        r#"rdma_port_physical_state{cluster="c",instance="n2",device="mlx5_3",port="1"}"#,
                        "5x10 3x200",
                    ),
                    (
                        r#"rdma_port_info{cluster="c",instance="n2",device="mlx5_3",port="1",link_layer="Ethernet",driver="mlx5_core"}"#,
                        "1x210",
                    ),
                    (
                        r#"rdma_port_state{cluster="c",instance="n3",device="mlx5_3",port="1"}"#,
                        "4x10 1x200",
                    ),
                    (
                        r#"rdma_port_physical_state{cluster="c",instance="n3",device="mlx5_3",port="1"}"#,
                        "5x10 3x200",
                    ),
                    (
                        r#"rdma_port_info{cluster="c",instance="n3",device="mlx5_3",port="1",link_layer="Ethernet",driver="mlx5_core"}"#,
                        "1x210",
                    ),
                    (
                        r#"rdma_port_state{cluster="c",instance="n4",device="mlx5_3",port="1"}"#,
                        "4x10 1x200",
                    ),
                    (
                        r#"rdma_port_physical_state{cluster="c",instance="n4",device="mlx5_3",port="1"}"#,
                        "5x10 3x200",
                    ),
                    (
                        r#"rdma_port_info{cluster="c",instance="n4",device="mlx5_3",port="1",link_layer="Ethernet",driver="mlx5_core"}"#,
                        "1x210",
                    ),
                ],
                at: "3h",
            },
            expected: Expected::Firing(1),
        },
    ],
};
