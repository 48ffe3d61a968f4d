//! Alerts about one node: its faults, its drain and its clock.

use super::{Alert, Case, Expected, FurtherCase, Group, Runbook, Severity};

const FAULT: &[(&str, &str)] = &[
    (
        r#"nodewarden_incident_remedy{cluster="c",instance="n1",incident="i1",act="reboot",check="xid"}"#,
        "1x30",
    ),
    (
        r#"nodewarden_incident_info{cluster="c",instance="n1",incident="i1",check="xid",subject_kind="gpu",subject="GPU-1"}"#,
        "1x30",
    ),
    (
        r#"nodewarden_incident_mode{cluster="c",instance="n1",incident="i1",mode="drain"}"#,
        "1x30",
    ),
    (
        r#"nodewarden_incident_mode{cluster="c",instance="n1",incident="i1",mode="comment"}"#,
        "0x30",
    ),
];

const COMMENT: &[(&str, &str)] = &[
    (
        r#"nodewarden_incident_remedy{cluster="c",instance="n1",incident="i1",act="inspect",check="rdma-port-flapping"}"#,
        "1x60",
    ),
    (
        r#"nodewarden_incident_info{cluster="c",instance="n1",incident="i1",check="rdma-port-flapping",subject_kind="rdma_port",subject="mlx5_0/1"}"#,
        "1x60",
    ),
    (
        r#"nodewarden_incident_mode{cluster="c",instance="n1",incident="i1",mode="drain"}"#,
        "0x60",
    ),
    (
        r#"nodewarden_incident_mode{cluster="c",instance="n1",incident="i1",mode="comment"}"#,
        "1x60",
    ),
];

pub(super) static GROUP: Group = Group {
    name: "nodewarden-nodes",
    about: "Faults, drains and the clock of one node.",
    records: &[],
    alerts: &[
        Alert {
            name: "NodewardenFaultDrains",
            expr: "max by (cluster, instance, incident, subject_kind, subject) (nodewarden_incident_info)
* on (cluster, instance, incident) group_left (act, check)
  topk by (cluster, instance, incident) (1, nodewarden_incident_remedy == 1)
and on (cluster, instance, incident)
  (nodewarden_incident_mode{mode=\"drain\"} == 1)",
            lasts: "2m",
            severity: Severity::Ticket,
            summary: "{{ $labels.instance }}: {{ $labels.check }} on {{ $labels.subject_kind }} {{ $labels.subject }}",
            description: "Check {{ $labels.check }} found a fault of {{ $labels.subject_kind }} {{ $labels.subject }} on {{ $labels.instance }}, for which nodewarden drains the node unless something holds the drain. Remedy: {{ $labels.act }}.",
            act: "`nodewarden status` on the node says whether it is drained, `nodewarden why` shows evidence and remedy; the runbook of the check says what to do. `nodewarden ack ID --reason TEXT` records that an operator works on it.",
            runbook: Runbook::OfCheck,
            fires: Case {
                input: FAULT,
                at: "10m",
            },
            silent: Some(Case {
                input: COMMENT,
                at: "10m",
            }),
        },
        Alert {
            name: "NodewardenUnhealthy",
            expr: "(nodewarden_verdict{verdict=\"unhealthy\"} == 1)
unless on (cluster, instance)
  (nodewarden_incident_mode{mode=\"drain\"} == 1)",
            lasts: "5m",
            severity: Severity::Ticket,
            summary: "{{ $labels.instance }} is unhealthy and nodewarden may not drain it",
            description: "The verdict on {{ $labels.instance }} is unhealthy, and the configured mode lets nodewarden only observe or comment.",
            act: "`nodewarden why` shows evidence and remedy. Drain the node by hand. See docs/operations/slurm.md for mode drain.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[
                    (
                        r#"nodewarden_verdict{cluster="c",instance="n1",verdict="unhealthy"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_incident_mode{cluster="c",instance="n1",incident="i1",mode="drain"}"#,
                        "0x30",
                    ),
                ],
                at: "10m",
            },
            silent: Some(Case {
                input: &[
                    (
                        r#"nodewarden_verdict{cluster="c",instance="n1",verdict="unhealthy"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_incident_mode{cluster="c",instance="n1",incident="i1",mode="drain"}"#,
                        "1x30",
                    ),
                ],
                at: "10m",
            }),
        },
        Alert {
            name: "NodewardenFaultComments",
            expr: "max by (cluster, instance, incident, subject_kind, subject) (nodewarden_incident_info)
* on (cluster, instance, incident) group_left (act, check)
  topk by (cluster, instance, incident) (1, nodewarden_incident_remedy == 1)
and on (cluster, instance, incident)
  (nodewarden_incident_mode{mode=\"comment\"} == 1)",
            lasts: "15m",
            severity: Severity::Ticket,
            summary: "{{ $labels.instance }}: {{ $labels.check }} on {{ $labels.subject_kind }} {{ $labels.subject }}",
            description: "Check {{ $labels.check }} found a fault of {{ $labels.subject_kind }} {{ $labels.subject }} on {{ $labels.instance }}. nodewarden writes one such fault at a time into the node's Comment and does not drain. Remedy: {{ $labels.act }}.",
            act: "`nodewarden why` shows evidence and remedy. If jobs fail because of it, drain the node, or let nodewarden do so: `health.checks` in the configuration.",
            runbook: Runbook::OfCheck,
            fires: Case {
                input: COMMENT,
                at: "30m",
            },
            silent: Some(Case {
                input: FAULT,
                at: "30m",
            }),
        },
        Alert {
            name: "NodewardenFaultObserved",
            expr: "max by (cluster, instance, incident, subject_kind, subject) (nodewarden_incident_info)
* on (cluster, instance, incident) group_left (act, check)
  topk by (cluster, instance, incident) (1, nodewarden_incident_remedy == 1)
unless on (cluster, instance, incident)
  (nodewarden_incident_mode{mode=~\"comment|drain\"} == 1)
unless on (cluster, instance)
  (nodewarden_verdict{verdict=\"unhealthy\"} == 1)",
            lasts: "30m",
            severity: Severity::Ticket,
            summary: "{{ $labels.instance }}: {{ $labels.check }} on {{ $labels.subject_kind }} {{ $labels.subject }}",
            description: "Check {{ $labels.check }} has found a fault of {{ $labels.subject_kind }} {{ $labels.subject }} on {{ $labels.instance }} for 30 min. The configured mode, or the check, only observes, or an operator lifted its drain: Slurm does not show it. Remedy: {{ $labels.act }}.",
            act: "`nodewarden why` shows evidence and remedy. If jobs fail because of it, drain the node, or let nodewarden do so: `health.checks` in the configuration. Silence the checks that you do not act on by the label `check`.",
            runbook: Runbook::OfCheck,
            fires: Case {
                input: &[
                    (
                        r#"nodewarden_incident_remedy{cluster="c",instance="n1",incident="i1",act="inspect",check="filesystem-error"}"#,
                        "1x60",
                    ),
                    (
                        r#"nodewarden_incident_info{cluster="c",instance="n1",incident="i1",check="filesystem-error",subject_kind="filesystem",subject="sda1"}"#,
                        "1x60",
                    ),
                    (
                        r#"nodewarden_incident_mode{cluster="c",instance="n1",incident="i1",mode="drain"}"#,
                        "0x60",
                    ),
                    (
                        r#"nodewarden_verdict{cluster="c",instance="n1",verdict="unhealthy"}"#,
                        "0x60",
                    ),
                ],
                at: "40m",
            },
            silent: Some(Case {
                input: COMMENT,
                at: "40m",
            }),
        },
        Alert {
            name: "NodewardenDrainWaits",
            expr: "(max by (cluster, instance) (last_over_time(nodewarden_drain_state{state=~\"drained|lifting\"}[1h])) == 1)
unless on (cluster, instance)
  (nodewarden_incident_acknowledged == 1)",
            lasts: "1d",
            severity: Severity::Ticket,
            summary: "{{ $labels.instance }} is drained for a day and it is not acknowledged",
            description: "nodewarden drained {{ $labels.instance }} more than a day ago, and none of its incidents is acknowledged.",
            act: "`nodewarden status` shows what holds the drain, or why a lift does not succeed. Repair the node, then lift the drain. `nodewarden ack` ends this alert while the repair takes long.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[
                    // A reboot that takes 21 min does not begin the day again.
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n1",state="drained"}"#,
                        "1x1200 stale _x20 1x400",
                    ),
                    (
                        r#"nodewarden_incident_acknowledged{cluster="c",instance="n1",incident="i1"}"#,
                        "0x1200 stale _x20 0x400",
                    ),
                ],
                at: "25h",
            },
            silent: Some(Case {
                input: &[
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n1",state="drained"}"#,
                        "1x1600",
                    ),
                    (
                        r#"nodewarden_incident_acknowledged{cluster="c",instance="n1",incident="i1"}"#,
                        "0x200 1x1400",
                    ),
                ],
                at: "25h",
            }),
        },
        Alert {
            name: "NodewardenDrainNotWritten",
            expr:
                // Without a slurmd that may be this node's, nothing is wanted.
                "(
  max by (cluster, instance) (nodewarden_drain_state{state=~\"wanted|writing|unproven\"}) == 1
  or
    max by (cluster, instance) (nodewarden_drain_state{state=\"none\"}) == 1
    and on (cluster, instance) (nodewarden_verdict{verdict=\"unhealthy\"} == 1)
    and on (cluster, instance) (nodewarden_incident_mode{mode=\"drain\"} == 1)
)
unless on (cluster, instance)
  (nodewarden_drain_held == 1)",
            lasts: "5m",
            severity: Severity::Ticket,
            summary: "{{ $labels.instance }} has a fault and is not drained",
            description: "nodewarden has wanted to drain {{ $labels.instance }} for 5 min. Neither the guard nor a person holds it: the controller does not answer or refuses, no slurmd of this node was found, or Slurm's node is not proven to be this machine.",
            act: "`nodewarden status` shows what scontrol said, or what is not proven. Drain the node by hand until it works.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n1",state="wanted"}"#,
                        "1 0 1x30",
                    ),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n1",state="writing"}"#,
                        "0 1 0x30",
                    ),
                    (
                        r#"nodewarden_drain_held{cluster="c",instance="n1",by="guard"}"#,
                        "0x30",
                    ),
                ],
                at: "10m",
            },
            silent: Some(Case {
                input: &[
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n1",state="wanted"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_drain_held{cluster="c",instance="n1",by="guard"}"#,
                        "1x30",
                    ),
                ],
                at: "10m",
            }),
        },
        Alert {
            name: "NodewardenPausedLong",
            expr: "max by (cluster, instance) (
  last_over_time(nodewarden_paused[1h])
  or last_over_time(nodewarden_drain_held{by=\"pause\"}[1h])
) == 1",
            lasts: "1d",
            severity: Severity::Ticket,
            summary: "nodewarden is paused on {{ $labels.instance }} for a day",
            description: "A pause of {{ $labels.instance }}, or a stop file or a pause of the cluster that holds a drain of it, has lasted for more than a day: nodewarden does not drain this node.",
            act: "`nodewarden status` shows who paused it and why, or the file. End the pause if it is no longer needed: docs/operations/slurm.md.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[(
                    r#"nodewarden_paused{cluster="c",instance="n1"}"#,
                    "1x1200 stale _x20 1x400",
                )],
                at: "25h",
            },
            silent: Some(Case {
                input: &[(r#"nodewarden_paused{cluster="c",instance="n1"}"#, "1x60 0x1540")],
                at: "25h",
            }),
        },
        Alert {
            name: "NodeMemoryErrors",
            // A range of a day would read all its samples. Counters begin at 0 with each boot. The memory of a GPU has checks of its own.
            expr: "max by (cluster, instance, controller) (
  (host_edac_corrected_errors_total unless on (cluster, instance, controller) host_edac_controller_info{name=\"MI200\"})
  - (
    (host_edac_corrected_errors_total offset 1d) <= host_edac_corrected_errors_total
    or host_edac_corrected_errors_total * 0
      and on (cluster, instance) (time() - host_boot_time_seconds < 86400)
  )
) > 100",
            lasts: "15m",
            severity: Severity::Ticket,
            summary: "{{ $labels.instance }}: {{ $value }} corrected memory errors of controller {{ $labels.controller }}",
            description: "The memory controller {{ $labels.controller }} of {{ $labels.instance }} has corrected {{ $value }} errors within a day, or since it booted: a DIMM wears out. No data was lost.",
            act: "`grep . /sys/devices/system/edac/mc/mc*/*/dimm_ce_count` on the node counts by DIMM or rank, and `dimm_label` beside it names the slot. Replace the DIMM at the next maintenance. With thousands an hour, drain the node: handling them slows its jobs down.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[(
                    r#"host_edac_corrected_errors_total{cluster="c",instance="n1",controller="mc0"}"#,
                    "7000+1x1600",
                )],
                at: "25h",
            },
            silent: Some(Case {
                input: &[
                    (
                        r#"host_edac_corrected_errors_total{cluster="c",instance="n1",controller="mc0"}"#,
                        "7000x1500 7050x100",
                    ),
                    (
                        r#"host_edac_corrected_errors_total{cluster="c",instance="n1",controller="mc1"}"#,
                        "7000x1500 0x20 90x80",
                    ),
                ],
                at: "26h",
            }),
        },
        Alert {
            name: "NodeClockNotSynchronized",
            expr: "max by (cluster, instance) (host_clock_synchronized) == 0
and max by (cluster, instance) (host_clock_max_error_seconds) >= 16",
            lasts: "10m",
            severity: Severity::Ticket,
            summary: "{{ $labels.instance }}: the clock is not synchronized",
            description: "The clock of {{ $labels.instance }} was not corrected for about 9 h, or not since it booted. Munge credentials expire, Kerberos fails, and nodewarden cannot prove that Slurm's node is this machine.",
            act: "`timedatectl` and `chronyc tracking` on the node show the service and its sources. On many nodes: look at the time servers. Silence it where another program sets the clock without reporting to the kernel, or a virtual machine has the clock of its host.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[
                    (r#"host_clock_synchronized{cluster="c",instance="n1"}"#, "1 0x30"),
                    (
                        r#"host_clock_max_error_seconds{cluster="c",instance="n1"}"#,
                        "0.01 16x30",
                    ),
                ],
                at: "15m",
            },
            // chrony without rtcsync: the error is kept small, and the kernel's state stays as it is after a boot.
            silent: Some(Case {
                input: &[
                    (r#"host_clock_synchronized{cluster="c",instance="n1"}"#, "0x30"),
                    (
                        r#"host_clock_max_error_seconds{cluster="c",instance="n1"}"#,
                        "0.01x30",
                    ),
                ],
                at: "15m",
            }),
        },
    ],
    further: &[
        FurtherCase {
            alert: "NodewardenDrainWaits",
            about: "a lift that does not succeed, and one that is tried again and again.",
            case: Case {
                input: &[
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n1",state="drained"}"#,
                        "1x20 0x1600",
                    ),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n1",state="lifting"}"#,
                        "0x20 1x1600",
                    ),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n2",state="drained"}"#,
                        "1x700 0x700 1x300",
                    ),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n2",state="lifting"}"#,
                        "0x700 1x700 0x300",
                    ),
                ],
                at: "26h",
            },
            expected: Expected::Firing(2),
        },
        FurtherCase {
            alert: "NodeMemoryErrors",
            about: "the memory of a GPU, and another controller.",
            case: Case {
                input: &[
                    (
                        r#"host_edac_corrected_errors_total{cluster="c",instance="n1",controller="mc3"}"#,
                        "0+1x1600",
                    ),
                    (
                        r#"host_edac_controller_info{cluster="c",instance="n1",controller="mc3",name="MI200"}"#,
                        "1x1600",
                    ),
                    (
                        r#"host_edac_corrected_errors_total{cluster="c",instance="n2",controller="mc3"}"#,
                        "0+1x1600",
                    ),
                    (
                        r#"host_edac_controller_info{cluster="c",instance="n2",controller="mc3",name="F19h_M90h"}"#,
                        "1x1600",
                    ),
                ],
                at: "26h",
            },
            expected: Expected::Firing(1),
        },
        FurtherCase {
            alert: "NodeMemoryErrors",
            about: "a node that has booted within the day.",
            case: Case {
                input: &[
                    (
                        r#"host_edac_corrected_errors_total{cluster="c",instance="n1",controller="mc0"}"#,
                        "7000x1500 0+10x100",
                    ),
                    (
                        r#"host_boot_time_seconds{cluster="c",instance="n1"}"#,
                        "0x1500 90000x100",
                    ),
                ],
                at: "26h",
            },
            expected: Expected::Firing(1),
        },
        FurtherCase {
            alert: "NodeMemoryErrors",
            about: "an old count that was not scraped a day ago.",
            case: Case {
                input: &[
                    (
                        r#"host_edac_corrected_errors_total{cluster="c",instance="n1",controller="mc0"}"#,
                        "_x200 7000x1400",
                    ),
                    (
                        r#"host_boot_time_seconds{cluster="c",instance="n1"}"#,
                        "-900000x1600",
                    ),
                ],
                at: "26h",
            },
            expected: Expected::Firing(0),
        },
        FurtherCase {
            alert: "NodewardenFaultDrains",
            about: "the runbook of a check.",
            case: Case {
                input: FAULT,
                at: "10m",
            },
            expected: Expected::Shown {
                labels: &[
                    ("cluster", "c"),
                    ("instance", "n1"),
                    ("incident", "i1"),
                    ("act", "reboot"),
                    ("check", "xid"),
                    ("subject_kind", "gpu"),
                    ("subject", "GPU-1"),
                ],
                summary: "n1: xid on gpu GPU-1",
                description: "Check xid found a fault of gpu GPU-1 on n1, for which nodewarden drains the node unless something holds the drain. Remedy: reboot.",
                runbook: "runbooks/xid.md",
            },
        },
        FurtherCase {
            alert: "NodewardenFaultDrains",
            about: "an incident that another check opened.",
            case: Case {
                input: &[
                    (
                        r#"nodewarden_incident_remedy{cluster="c",instance="n1",incident="i1",act="inspect",check="gpu-persistence-off"}"#,
                        "1x5 stale",
                    ),
                    (
                        r#"nodewarden_incident_remedy{cluster="c",instance="n1",incident="i1",act="inspect",check="gpu-row-remap"}"#,
                        "_x6 1x30",
                    ),
                    (
                        r#"nodewarden_incident_info{cluster="c",instance="n1",incident="i1",check="gpu-persistence-off",subject_kind="gpu",subject="GPU-1"}"#,
                        "1x36",
                    ),
                    (
                        r#"nodewarden_incident_mode{cluster="c",instance="n1",incident="i1",mode="drain"}"#,
                        "0x5 1x30",
                    ),
                ],
                at: "20m",
            },
            expected: Expected::Shown {
                labels: &[
                    ("cluster", "c"),
                    ("instance", "n1"),
                    ("incident", "i1"),
                    ("act", "inspect"),
                    ("check", "gpu-row-remap"),
                    ("subject_kind", "gpu"),
                    ("subject", "GPU-1"),
                ],
                summary: "n1: gpu-row-remap on gpu GPU-1",
                description: "Check gpu-row-remap found a fault of gpu GPU-1 on n1, for which nodewarden drains the node unless something holds the drain. Remedy: inspect.",
                runbook: "runbooks/gpu-row-remap.md",
            },
        },
        FurtherCase {
            alert: "NodewardenFaultDrains",
            about: "a node that two jobs scrape is shown once, and hides no other.",
            case: Case {
                input: &[
                    (
                        r#"nodewarden_incident_remedy{cluster="c",instance="n1",job="nodewarden",incident="i1",act="reboot",check="xid"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_incident_remedy{cluster="c",instance="n1",job="nodewarden-detail",incident="i1",act="reboot",check="xid"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_incident_info{cluster="c",instance="n1",job="nodewarden",incident="i1",check="xid",subject_kind="gpu",subject="GPU-1"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_incident_info{cluster="c",instance="n1",job="nodewarden-detail",incident="i1",check="xid",subject_kind="gpu",subject="GPU-1"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_incident_mode{cluster="c",instance="n1",job="nodewarden",incident="i1",mode="drain"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_incident_remedy{cluster="c",instance="n2",job="nodewarden",incident="i2",act="reboot",check="xid"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_incident_info{cluster="c",instance="n2",job="nodewarden",incident="i2",check="xid",subject_kind="gpu",subject="GPU-2"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_incident_mode{cluster="c",instance="n2",job="nodewarden",incident="i2",mode="drain"}"#,
                        "1x30",
                    ),
                ],
                at: "10m",
            },
            expected: Expected::Firing(2),
        },
        FurtherCase {
            alert: "NodewardenFaultObserved",
            about: "NodewardenUnhealthy names the node.",
            case: Case {
                input: &[
                    (
                        r#"nodewarden_incident_remedy{cluster="c",instance="n1",incident="i1",act="reboot",check="xid"}"#,
                        "1x60",
                    ),
                    (
                        r#"nodewarden_incident_info{cluster="c",instance="n1",incident="i1",check="xid",subject_kind="gpu",subject="GPU-1"}"#,
                        "1x60",
                    ),
                    (
                        r#"nodewarden_verdict{cluster="c",instance="n1",verdict="unhealthy"}"#,
                        "1x60",
                    ),
                ],
                at: "40m",
            },
            expected: Expected::Firing(0),
        },
        FurtherCase {
            alert: "NodewardenFaultDrains",
            about: "a remedy that has changed between the scrapes of two jobs.",
            case: Case {
                input: &[
                    (
                        r#"nodewarden_incident_remedy{cluster="c",instance="n1",job="nodewarden",incident="i1",act="reboot",check="xid"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_incident_remedy{cluster="c",instance="n1",job="nodewarden-detail",incident="i1",act="reset-gpu",check="xid"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_incident_info{cluster="c",instance="n1",incident="i1",check="xid",subject_kind="gpu",subject="GPU-1"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_incident_mode{cluster="c",instance="n1",incident="i1",mode="drain"}"#,
                        "1x30",
                    ),
                ],
                at: "10m",
            },
            expected: Expected::Firing(1),
        },
        FurtherCase {
            alert: "NodewardenDrainNotWritten",
            about: "Slurm's node is not proven to be this machine.",
            case: Case {
                input: &[
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n1",state="wanted"}"#,
                        "1 0x30",
                    ),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n1",state="unproven"}"#,
                        "0 1x30",
                    ),
                ],
                at: "10m",
            },
            expected: Expected::Firing(1),
        },
        FurtherCase {
            alert: "NodewardenDrainNotWritten",
            about: "no slurmd of the node is found. One that is drained, one that may not be and one without a fault are silent.",
            case: Case {
                input: &[
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n1",state="none"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_verdict{cluster="c",instance="n1",verdict="unhealthy"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_incident_mode{cluster="c",instance="n1",incident="i1",mode="drain"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n2",state="none"}"#,
                        "0x30",
                    ),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n2",state="drained"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_verdict{cluster="c",instance="n2",verdict="unhealthy"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_incident_mode{cluster="c",instance="n2",incident="i2",mode="drain"}"#,
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
                        "0x30",
                    ),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n4",state="none"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_verdict{cluster="c",instance="n4",verdict="unhealthy"}"#,
                        "0x30",
                    ),
                    (
                        r#"nodewarden_incident_mode{cluster="c",instance="n4",incident="i4",mode="drain"}"#,
                        "1x30",
                    ),
                ],
                at: "10m",
            },
            expected: Expected::Firing(1),
        },
        FurtherCase {
            alert: "NodewardenPausedLong",
            about: "a stop file, or a pause of the cluster, holds a drain.",
            case: Case {
                input: &[
                    (r#"nodewarden_paused{cluster="c",instance="n1"}"#, "0x1600"),
                    (
                        r#"nodewarden_drain_held{cluster="c",instance="n1",by="pause"}"#,
                        "1x1200 stale _x20 1x400",
                    ),
                    (
                        r#"nodewarden_drain_held{cluster="c",instance="n2",by="guard"}"#,
                        "1x1600",
                    ),
                ],
                at: "25h",
            },
            expected: Expected::Firing(1),
        },
        FurtherCase {
            alert: "NodewardenPausedLong",
            about: "the own pause of a node that has a fault: one alert.",
            case: Case {
                input: &[
                    (r#"nodewarden_paused{cluster="c",instance="n1"}"#, "1x1600"),
                    (
                        r#"nodewarden_drain_held{cluster="c",instance="n1",by="pause"}"#,
                        "1x1600",
                    ),
                ],
                at: "25h",
            },
            expected: Expected::Firing(1),
        },
        FurtherCase {
            alert: "NodewardenDrainNotWritten",
            about: "a node that two jobs scrape.",
            case: Case {
                input: &[
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n1",job="nodewarden",state="wanted"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n1",job="nodewarden-detail",state="wanted"}"#,
                        "1x30",
                    ),
                ],
                at: "10m",
            },
            expected: Expected::Firing(1),
        },
        FurtherCase {
            alert: "NodewardenFaultDrains",
            about: "the runbook of a command of the site.",
            case: Case {
                input: &[
                    (
                        r#"nodewarden_incident_remedy{cluster="c",instance="n1",incident="i1",act="inspect",check="site-nhc"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_incident_info{cluster="c",instance="n1",incident="i1",check="site-nhc",subject_kind="node",subject="n1"}"#,
                        "1x30",
                    ),
                    (
                        r#"nodewarden_incident_mode{cluster="c",instance="n1",incident="i1",mode="drain"}"#,
                        "1x30",
                    ),
                ],
                at: "10m",
            },
            expected: Expected::Shown {
                labels: &[
                    ("cluster", "c"),
                    ("instance", "n1"),
                    ("incident", "i1"),
                    ("act", "inspect"),
                    ("check", "site-nhc"),
                    ("subject_kind", "node"),
                    ("subject", "n1"),
                ],
                summary: "n1: site-nhc on node n1",
                description: "Check site-nhc found a fault of node n1 on n1, for which nodewarden drains the node unless something holds the drain. Remedy: inspect.",
                runbook: "runbooks/custom-check.md",
            },
        },
    ],
};
