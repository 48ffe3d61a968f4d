//! Alerts about many nodes: what no node can see.

use super::{Alert, Case, Expected, FurtherCase, Group, Runbook, Severity};

/// Whether the clock of the GPU of each of these nodes is reduced for this reason.
macro_rules! heat {
    ($reason:literal: $($value:literal of $($node:literal)+);+) => {
        &[$($((
            concat!("gpu_clock_event_active{cluster=\"c\",instance=\"n", $node, "\",gpu=\"a\",reason=\"", $reason, "\"}"),
            $value,
        )),+),+]
    };
}

pub(super) static GROUP: Group = Group {
    name: "nodewarden-fleet",
    about: "What only all nodes together show.",
    records: &[],
    alerts: &[
        Alert {
            name: "NodewardenGuardHolds",
            expr: "count by (cluster, by) (
  max by (cluster, instance, by) (nodewarden_drain_held{by=~\"guard|standing|refused\"}) == 1
) > 0",
            lasts: "10m",
            severity: Severity::Page,
            summary: "{{ $value }} nodes of {{ $labels.cluster }} have a fault and stay in service",
            description: "{{ $value }} nodes of {{ $labels.cluster }} have a fault for which they should be drained, and the limit of drains holds them ({{ $labels.by }}). Jobs still start on them.",
            act: "Look for one cause of all these faults: a driver, a switch, the power, one job. If the nodes are broken, drain them by hand. See docs/operations/slurm.md for the limits.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[
                    (
                        r#"nodewarden_drain_held{cluster="c",instance="n1",by="guard"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_drain_held{cluster="c",instance="n2",by="guard"}"#,
                        "1x30",
                    ),
                ],
                at: "15m",
            },
            silent: Some(Case {
                input: &[
                    (
                        r#"nodewarden_drain_held{cluster="c",instance="n1",by="guard"}"#,
                        "1x5 0x25",
                    ),
                    (
                        r#"nodewarden_drain_held{cluster="c",instance="n2",by="pause"}"#,
                        "1x30",
                    ),
                ],
                at: "15m",
            }),
        },
        Alert {
            name: "NodewardenManyDrains",
            // After a boot a node without a disk has no drain until it finds its own in Slurm, which the counter does not count.
            expr: "count by (cluster) (
  max by (cluster, instance) (nodewarden_drain_state{state=\"drained\"}) == 1
  and on (cluster, instance)
    (nodewarden_drain_state{state=\"drained\"} offset 10m == 0)
  and on (cluster, instance)
    (sum by (cluster, instance) (increase(nodewarden_drains_total[15m])) > 0)
) >= 5",
            lasts: "",
            severity: Severity::Page,
            summary: "{{ $value }} nodes of {{ $labels.cluster }} drained within 10 min",
            description: "nodewarden drained {{ $value }} nodes of {{ $labels.cluster }} within 10 min. Nodes seldom break together: look for one cause.",
            act: "Compare the incidents: `nodewarden_incident_info` by check. One check on many nodes is a driver, a switch, the power or one job. `nodewarden pause --cluster --reason TEXT` stops further drains.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n1",state="drained"}"#,
                        "0x20 1x20",
                    ),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n2",state="drained"}"#,
                        "0x21 1x20",
                    ),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n3",state="drained"}"#,
                        "0x22 1x20",
                    ),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n4",state="drained"}"#,
                        "0x22 1x20",
                    ),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n5",state="drained"}"#,
                        "0x23 1x20",
                    ),
                    (
                        r#"nodewarden_drains_total{cluster="c",instance="n1",check="xid"}"#,
                        "0x20 1x20",
                    ),
                    (
                        r#"nodewarden_drains_total{cluster="c",instance="n2",check="xid"}"#,
                        "0x21 1x20",
                    ),
                    (
                        r#"nodewarden_drains_total{cluster="c",instance="n3",check="xid"}"#,
                        "0x22 1x20",
                    ),
                    (
                        r#"nodewarden_drains_total{cluster="c",instance="n4",check="xid"}"#,
                        "2x22 3x20",
                    ),
                    (
                        r#"nodewarden_drains_total{cluster="c",instance="n5",check="xid"}"#,
                        "0x23 1x20",
                    ),
                ],
                at: "28m",
            },
            silent: Some(Case {
                input: &[
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n1",state="drained"}"#,
                        "1x10 _x9 1x20",
                    ),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n2",state="drained"}"#,
                        "1x40",
                    ),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n3",state="drained"}"#,
                        "1x40",
                    ),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n4",state="drained"}"#,
                        "0x22 1x20",
                    ),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n5",state="drained"}"#,
                        "0x23 1x20",
                    ),
                    (
                        r#"nodewarden_drains_total{cluster="c",instance="n1",check="xid"}"#,
                        "1x10 _x9 1x20",
                    ),
                    (
                        r#"nodewarden_drains_total{cluster="c",instance="n2",check="xid"}"#,
                        "1x40",
                    ),
                    (
                        r#"nodewarden_drains_total{cluster="c",instance="n3",check="xid"}"#,
                        "1x40",
                    ),
                    (
                        r#"nodewarden_drains_total{cluster="c",instance="n4",check="xid"}"#,
                        "0x22 1x20",
                    ),
                    (
                        r#"nodewarden_drains_total{cluster="c",instance="n5",check="xid"}"#,
                        "0x23 1x20",
                    ),
                ],
                at: "28m",
            }),
        },
        Alert {
            name: "NodewardenDrainsNotWritten",
            expr: "count by (cluster) (
  (
    max by (cluster, instance) (nodewarden_drain_state{state=~\"wanted|writing|unproven\"}) == 1
    or
      max by (cluster, instance) (nodewarden_drain_state{state=\"none\"}) == 1
      and on (cluster, instance) (nodewarden_verdict{verdict=\"unhealthy\"} == 1)
      and on (cluster, instance) (nodewarden_incident_mode{mode=\"drain\"} == 1)
  )
  unless on (cluster, instance)
    (nodewarden_drain_held == 1)
) >= 3",
            lasts: "5m",
            severity: Severity::Page,
            summary: "{{ $value }} nodes of {{ $labels.cluster }} cannot be drained: is the controller reachable?",
            description: "{{ $value }} nodes of {{ $labels.cluster }} have wanted a drain for 5 min, and nothing holds it: slurmctld does not answer or refuses, no slurmd of these nodes was found, or Slurm's nodes are not proven to be these machines.",
            act: "`nodewarden status` and `scontrol ping` on one of them. Until the controller answers, jobs may start on broken nodes after its return.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n1",state="wanted"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n2",state="unproven"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n3",state="none"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_verdict{cluster="c",instance="n3",verdict="unhealthy"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_incident_mode{cluster="c",instance="n3",incident="i3",mode="drain"}"#,
                        "1x30",
                    ),
                ],
                at: "10m",
            },
            silent: Some(Case {
                input: &[
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n4",state="none"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n1",state="wanted"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n2",state="wanted"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_drain_state{cluster="d",instance="n3",state="wanted"}"#,
                        "1x30",
                    ),
                ],
                at: "10m",
            }),
        },
        Alert {
            name: "NodewardenManyVerdictsUnknown",
            expr: "(sum by (cluster) (max by (cluster, instance) (nodewarden_verdict{verdict=\"unknown\"})) >= 3)
and
  avg by (cluster) (max by (cluster, instance) (nodewarden_verdict{verdict=\"unknown\"})) > 0.05",
            lasts: "15m",
            severity: Severity::Page,
            summary: "{{ $value }} nodes of {{ $labels.cluster }} have an unknown verdict",
            description: "On {{ $value }} nodes of {{ $labels.cluster }}, more than 5 %, nodewarden cannot tell whether they are healthy.",
            act: "`nodewarden check` on one of them names the source that cannot be read. A kernel or driver update on many nodes is the usual cause.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[
                    (
                        r#"nodewarden_verdict{cluster="c",instance="n1",verdict="unknown"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_verdict{cluster="c",instance="n2",verdict="unknown"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_verdict{cluster="c",instance="n3",verdict="unknown"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_verdict{cluster="c",instance="n4",verdict="unknown"}"#,
                        "0x30",
                    ),
                ],
                at: "20m",
            },
            silent: Some(Case {
                input: &[
                    (
                        r#"nodewarden_verdict{cluster="c",instance="n1",verdict="unknown"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_verdict{cluster="c",instance="n2",verdict="unknown"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_verdict{cluster="c",instance="n3",verdict="unknown"}"#,
                        "0x30",
                    ),
                ],
                at: "20m",
            }),
        },
        Alert {
            name: "NodewardenManyMissing",
            expr: "(count by (cluster) (min by (cluster, instance) (up{job=~\"(.+/)?nodewarden[^/]*\"}) == 0) >= 3)
and
  count by (cluster) (min by (cluster, instance) (up{job=~\"(.+/)?nodewarden[^/]*\"}) == 0)
  / count by (cluster) (min by (cluster, instance) (up{job=~\"(.+/)?nodewarden[^/]*\"})) > 0.05",
            lasts: "10m",
            severity: Severity::Page,
            summary: "{{ $value }} nodes of {{ $labels.cluster }} cannot be scraped",
            description: "{{ $value }} nodes of {{ $labels.cluster }}, more than 5 %, do not answer Prometheus.",
            act: "Look for one cause: the network between Prometheus and the nodes, the power, an update of nodewarden. Nodes that Slurm also reports as down are down.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[
                    (r#"up{job="nodewarden",cluster="c",instance="n1"}"#, "0x30"),
                    (r#"up{job="nodewarden",cluster="c",instance="n2"}"#, "0x30"),
                    (r#"up{job="nodewarden",cluster="c",instance="n3"}"#, "0x30"),
                    (r#"up{job="nodewarden",cluster="c",instance="n4"}"#, "1x30"),
                ],
                at: "15m",
            },
            silent: Some(Case {
                input: &[
                    (r#"up{job="nodewarden",cluster="c",instance="n1"}"#, "0x30"),
                    (r#"up{job="nodewarden",cluster="c",instance="n2"}"#, "0x30"),
                    (r#"up{job="nodewarden/dcgm-exporter",cluster="c",instance="n3"}"#, "0x30"),
                    (r#"up{job="nodewarden",cluster="c",instance="n4"}"#, "1x30"),
                ],
                at: "15m",
            }),
        },
        Alert {
            name: "GpuSameXidOnManyNodes",
            // Class `app` of the table of Xids without 94, a memory error; and what follows other Xids.
            expr: "count by (cluster, xid) (
  max by (cluster, instance, xid) (gpu_xid_last_timestamp_seconds{xid!~\"8|11|13|25|31|32|39|40|41|43|45|60|68|69|70|71|72|75|76|77|80|82|83|84|85|86|88|89|96|97|98|99|100|101|102|103|104|105|126|127|128|129|130|131|132|133|134|135|137|139|154\"}) > time() - 3600
) >= 5",
            lasts: "",
            severity: Severity::Ticket,
            summary: "Xid {{ $labels.xid }} on {{ $value }} nodes of {{ $labels.cluster }} within an hour",
            description: "{{ $value }} nodes of {{ $labels.cluster }} reported Xid {{ $labels.xid }} within an hour. GPUs seldom break together: a driver, a firmware, the fabric or one job is more likely. Xids that applications cause are not counted, nor 45 and 154, which follow others.",
            act: "Compare driver, firmware and jobs of these nodes (`gpu_info`, `slurm_job_info`). docs/xids.md explains the Xid.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[
                    (
                        r#"gpu_xid_last_timestamp_seconds{cluster="c",instance="n1",gpu="a",xid="79"}"#,
                        "5000x100",
                    ),
                    (
                        r#"gpu_xid_last_timestamp_seconds{cluster="c",instance="n2",gpu="b",xid="79"}"#,
                        "5000x100",
                    ),
                    (
                        r#"gpu_xid_last_timestamp_seconds{cluster="c",instance="n3",gpu="c",xid="79"}"#,
                        "5000x100",
                    ),
                    (
                        r#"gpu_xid_last_timestamp_seconds{cluster="c",instance="n4",gpu="d",xid="79"}"#,
                        "5000x100",
                    ),
                    (
                        r#"gpu_xid_last_timestamp_seconds{cluster="c",instance="n5",gpu="e",xid="79"}"#,
                        "5000x100",
                    ),
                ],
                at: "90m",
            },
            silent: Some(Case {
                input: &[
                    (
                        r#"gpu_xid_last_timestamp_seconds{cluster="c",instance="n1",gpu="a",xid="79"}"#,
                        "100x100",
                    ),
                    (
                        r#"gpu_xid_last_timestamp_seconds{cluster="c",instance="n2",gpu="b",xid="79"}"#,
                        "5000x100",
                    ),
                    (
                        r#"gpu_xid_last_timestamp_seconds{cluster="c",instance="n3",gpu="c",xid="79"}"#,
                        "5000x100",
                    ),
                    (
                        r#"gpu_xid_last_timestamp_seconds{cluster="c",instance="n4",gpu="d",xid="79"}"#,
                        "5000x100",
                    ),
                    (
                        r#"gpu_xid_last_timestamp_seconds{cluster="c",instance="n5",gpu="e",xid="94"}"#,
                        "5000x100",
                    ),
                ],
                at: "90m",
            }),
        },
        Alert {
            name: "GpuHeatOnManyNodes",
            // Among many nodes, short slowdowns of changing GPUs add up to a count that lasts.
            expr: "(count by (cluster) (max by (cluster, instance) (min_over_time(gpu_clock_event_active{reason=\"hw_thermal\"}[5m])) == 1) >= 5)
or
(
  (count by (cluster) (max by (cluster, instance) (gpu_clock_event_active{reason=~\"hw_thermal|sw_thermal\"}) == 1) >= 5)
  and
    avg by (cluster) (max by (cluster, instance) (gpu_clock_event_active{reason=~\"hw_thermal|sw_thermal\"})) > 0.2
)",
            lasts: "10m",
            severity: Severity::Page,
            summary: "GPUs of {{ $value }} nodes of {{ $labels.cluster }} slow down by heat",
            description: "GPUs of {{ $value }} nodes of {{ $labels.cluster }} are throttled because of heat: each for 5 min by its hardware, or on more than 20 % of the nodes, also by the driver. This lasts 10 min: the cooling of the room or of a row fails.",
            act: "Ask those who run the building. Drain the nodes if the temperature keeps rising.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[
                    (
                        r#"gpu_clock_event_active{cluster="c",instance="n1",gpu="a",reason="hw_thermal"}"#,
                        "1x30",
                    ),
                    (
                        r#"gpu_clock_event_active{cluster="c",instance="n2",gpu="b",reason="hw_thermal"}"#,
                        "1x30",
                    ),
                    (
                        r#"gpu_clock_event_active{cluster="c",instance="n3",gpu="c",reason="hw_thermal"}"#,
                        "1x30",
                    ),
                    (
                        r#"gpu_clock_event_active{cluster="c",instance="n4",gpu="d",reason="hw_thermal"}"#,
                        "1x30",
                    ),
                    (
                        r#"gpu_clock_event_active{cluster="c",instance="n5",gpu="e",reason="hw_thermal"}"#,
                        "1x30",
                    ),
                ],
                at: "15m",
            },
            silent: Some(Case {
                input: &[
                    (
                        r#"gpu_clock_event_active{cluster="c",instance="n1",gpu="a",reason="hw_thermal"}"#,
                        "1x30",
                    ),
                    (
                        r#"gpu_clock_event_active{cluster="c",instance="n1",gpu="b",reason="hw_thermal"}"#,
                        "1x30",
                    ),
                    (
                        r#"gpu_clock_event_active{cluster="c",instance="n3",gpu="c",reason="hw_thermal"}"#,
                        "1x30",
                    ),
                    (
                        r#"gpu_clock_event_active{cluster="c",instance="n4",gpu="d",reason="hw_thermal"}"#,
                        "1x30",
                    ),
                    (
                        r#"gpu_clock_event_active{cluster="c",instance="n5",gpu="e",reason="sw_power_cap"}"#,
                        "1x30",
                    ),
                ],
                at: "15m",
            }),
        },
    ],
    further: &[
        FurtherCase {
            alert: "NodewardenManyDrains",
            about: "five drained nodes without a disk that boot together.",
            case: Case {
                input: &[
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n1",state="drained"}"#,
                        "1x30 _x5 0x2 1x40",
                    ),
                    (
                        r#"nodewarden_drains_total{cluster="c",instance="n1",check="xid"}"#,
                        "3x30 _x5 0x42",
                    ),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n2",state="drained"}"#,
                        "1x30 _x5 0x2 1x40",
                    ),
                    (
                        r#"nodewarden_drains_total{cluster="c",instance="n2",check="xid"}"#,
                        "3x30 _x5 0x42",
                    ),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n3",state="drained"}"#,
                        "1x30 _x5 0x2 1x40",
                    ),
                    (
                        r#"nodewarden_drains_total{cluster="c",instance="n3",check="xid"}"#,
                        "3x30 _x5 0x42",
                    ),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n4",state="drained"}"#,
                        "1x30 _x5 0x2 1x40",
                    ),
                    (
                        r#"nodewarden_drains_total{cluster="c",instance="n4",check="xid"}"#,
                        "3x30 _x5 0x42",
                    ),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n5",state="drained"}"#,
                        "1x30 _x5 0x2 1x40",
                    ),
                    (
                        r#"nodewarden_drains_total{cluster="c",instance="n5",check="xid"}"#,
                        "3x30 _x5 0x42",
                    ),
                ],
                at: "47m",
            },
            expected: Expected::Firing(0),
        },
        FurtherCase {
            alert: "GpuHeatOnManyNodes",
            about: "in each minute the hardware of other GPUs slows down.",
            case: Case {
                input: heat!(
                    "hw_thermal": "1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1" of 1 2 3 4 5;
                    "0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0" of 6 7 8 9 10;
                    "0x30" of 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30
                ),
                at: "25m",
            },
            expected: Expected::Firing(0),
        },
        FurtherCase {
            alert: "GpuHeatOnManyNodes",
            about: "the hardware slows down the GPUs of five of many nodes.",
            case: Case {
                input: heat!(
                    "hw_thermal": "1x30" of 1 2 3 4 5;
                    "0x30" of 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
                ),
                at: "25m",
            },
            expected: Expected::Firing(1),
        },
        FurtherCase {
            alert: "GpuHeatOnManyNodes",
            about: "the driver keeps all GPUs below their limit.",
            case: Case {
                input: heat!("sw_thermal": "1x30" of 1 2 3 4 5; "0x30" of 6 7 8 9),
                at: "15m",
            },
            expected: Expected::Firing(1),
        },
        FurtherCase {
            alert: "GpuHeatOnManyNodes",
            about: "the driver keeps the GPUs of less than a fifth of the nodes below their limit.",
            case: Case {
                input: heat!(
                    "sw_thermal": "1x30" of 1 2 3 4 5;
                    "0x30" of 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26
                ),
                at: "15m",
            },
            expected: Expected::Firing(0),
        },
        FurtherCase {
            alert: "NodewardenManyMissing",
            about: "two nodes that two jobs scrape.",
            case: Case {
                input: &[
                    (
                        r#"up{job="nodewarden",cluster="c",instance="n1"}"#,
                        "0x30",
                    ),
                    (
                        r#"up{job="nodewarden-rdma",cluster="c",instance="n1"}"#,
                        "0x30",
                    ),
                    (
                        r#"up{job="nodewarden",cluster="c",instance="n2"}"#,
                        "0x30",
                    ),
                    (
                        r#"up{job="nodewarden-rdma",cluster="c",instance="n2"}"#,
                        "0x30",
                    ),
                    (
                        r#"up{job="nodewarden",cluster="c",instance="n3"}"#,
                        "1x30",
                    ),
                    (
                        r#"up{job="nodewarden-rdma",cluster="c",instance="n3"}"#,
                        "1x30",
                    ),
                ],
                at: "15m",
            },
            expected: Expected::Firing(0),
        },
        FurtherCase {
            alert: "NodewardenManyMissing",
            about: "a job of the Prometheus operator has its namespace before its name.",
            case: Case {
                input: &[
                    (
                        r#"up{job="monitoring/nodewarden",cluster="c",instance="n1"}"#,
                        "0x30",
                    ),
                    (
                        r#"up{job="monitoring/nodewarden",cluster="c",instance="n2"}"#,
                        "0x30",
                    ),
                    (
                        r#"up{job="monitoring/nodewarden",cluster="c",instance="n3"}"#,
                        "0x30",
                    ),
                ],
                at: "15m",
            },
            expected: Expected::Firing(1),
        },
        FurtherCase {
            alert: "GpuSameXidOnManyNodes",
            about: "five faults, each followed by Xid 154.",
            case: Case {
                input: &[
                    (
                        r#"gpu_xid_last_timestamp_seconds{cluster="c",instance="n1",gpu="a",xid="48"}"#,
                        "5000x100",
                    ),
                    (
                        r#"gpu_xid_last_timestamp_seconds{cluster="c",instance="n2",gpu="a",xid="79"}"#,
                        "5000x100",
                    ),
                    (
                        r#"gpu_xid_last_timestamp_seconds{cluster="c",instance="n3",gpu="a",xid="95"}"#,
                        "5000x100",
                    ),
                    (
                        r#"gpu_xid_last_timestamp_seconds{cluster="c",instance="n4",gpu="a",xid="119"}"#,
                        "5000x100",
                    ),
                    (
                        r#"gpu_xid_last_timestamp_seconds{cluster="c",instance="n5",gpu="a",xid="64"}"#,
                        "5000x100",
                    ),
                    (
                        r#"gpu_xid_last_timestamp_seconds{cluster="c",instance="n1",gpu="a",xid="154"}"#,
                        "5000x100",
                    ),
                    (
                        r#"gpu_xid_last_timestamp_seconds{cluster="c",instance="n2",gpu="a",xid="154"}"#,
                        "5000x100",
                    ),
                    (
                        r#"gpu_xid_last_timestamp_seconds{cluster="c",instance="n3",gpu="a",xid="154"}"#,
                        "5000x100",
                    ),
                    (
                        r#"gpu_xid_last_timestamp_seconds{cluster="c",instance="n4",gpu="a",xid="154"}"#,
                        "5000x100",
                    ),
                    (
                        r#"gpu_xid_last_timestamp_seconds{cluster="c",instance="n5",gpu="a",xid="154"}"#,
                        "5000x100",
                    ),
                ],
                at: "90m",
            },
            expected: Expected::Firing(0),
        },
    ],
};
