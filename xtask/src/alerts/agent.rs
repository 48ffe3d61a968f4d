//! Alerts about nodewarden itself.

use super::{Alert, Case, Expected, FurtherCase, Group, Record, Runbook, Severity};

pub(super) static GROUP: Group = Group {
    name: "nodewarden-agent",
    about: "nodewarden itself.",
    // A node that is switched off reports nothing. The rule keeps its last value until it is scraped again, also where
    // Prometheus was away for some minutes; a range
    // that covers a long repair would read every sample of every node at each evaluation.
    records: &[Record {
        name: "instance:nodewarden_drain_state:foreign_last",
        expr: "max by (cluster, instance) (nodewarden_drain_state{state=\"foreign\"})
or on (cluster, instance)
  (last_over_time(instance:nodewarden_drain_state:foreign_last[20m]) and on (cluster, instance) (up{job=~\"(.+/)?nodewarden[^/]*\"} == 0))",
    }],
    alerts: &[
        Alert {
            name: "NodewardenMissing",
            expr: "(min by (cluster, instance) (up{job=~\"(.+/)?nodewarden[^/]*\"}) == 0)
unless on (cluster, instance)
  (instance:nodewarden_drain_state:foreign_last == 1)",
            lasts: "15m",
            severity: Severity::Ticket,
            summary: "{{ $labels.instance }} cannot be scraped",
            description: "{{ $labels.instance }} has not answered Prometheus for 15 min. A node is omitted if nodewarden wanted to drain it and found a person's drain in place. nodewarden does not know of drains of healthy nodes.",
            act: "If the node is up: `systemctl status nodewarden`. Otherwise Slurm reports it as down. Silence the alert in Alertmanager for healthy nodes that you switch off.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[(r#"up{job="nodewarden",cluster="c",instance="n1"}"#, "0x30")],
                at: "25m",
            },
            silent: Some(Case {
                input: &[
                    (r#"up{job="nodewarden",cluster="c",instance="n1"}"#, "1x10 0x30"),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n1",state="foreign"}"#,
                        "1x10",
                    ),
                ],
                at: "25m",
            }),
        },
        Alert {
            name: "NodewardenVerdictUnknown",
            expr: "nodewarden_verdict{verdict=\"unknown\"} == 1",
            lasts: "30m",
            severity: Severity::Ticket,
            summary: "{{ $labels.instance }}: nodewarden cannot tell whether the node is healthy",
            description: "The verdict on {{ $labels.instance }} has been unknown for 30 min: a source cannot be read, a fault is not confirmed, or a device is missing although its incident was cleared.",
            act: "`nodewarden status` gives the reason; docs/operations/troubleshooting.md says what to do for each.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[(
                    r#"nodewarden_verdict{cluster="c",instance="n1",verdict="unknown"}"#,
                    "1x60",
                )],
                at: "40m",
            },
            silent: Some(Case {
                input: &[(
                    r#"nodewarden_verdict{cluster="c",instance="n1",verdict="unknown"}"#,
                    "1x20 0x40",
                )],
                at: "40m",
            }),
        },
        Alert {
            name: "NodewardenCollectorDown",
            expr: "nodewarden_collector_up == 0",
            lasts: "30m",
            severity: Severity::Ticket,
            summary: "{{ $labels.instance }}: collector {{ $labels.collector }} cannot read everything",
            description: "Collector {{ $labels.collector }} on {{ $labels.instance }} has failed, in part or as a whole, for 30 min.",
            act: "`nodewarden status` names the devices and the reason.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[(
                    r#"nodewarden_collector_up{cluster="c",instance="n1",collector="rdma"}"#,
                    "0x60",
                )],
                at: "40m",
            },
            silent: Some(Case {
                input: &[(
                    r#"nodewarden_collector_up{cluster="c",instance="n1",collector="rdma"}"#,
                    "0x20 1x40",
                )],
                at: "40m",
            }),
        },
        Alert {
            name: "NodewardenDeviceDown",
            expr: "(nodewarden_device_up == 0)
unless on (cluster, instance, subject_kind, subject)
  nodewarden_incident_info",
            lasts: "15m",
            severity: Severity::Ticket,
            summary: "{{ $labels.instance }}: {{ $labels.subject_kind }} {{ $labels.subject }} cannot be read completely",
            description: "Collector {{ $labels.collector }} on {{ $labels.instance }} has not read {{ $labels.subject_kind }} {{ $labels.subject }} completely for 15 min, and no incident names it. Faults in what is not read are not found.",
            act: "`nodewarden status` names the reason, as does `nodewarden_device_error_info`. docs/operations/troubleshooting.md says what to do for each. A reading that does not return is an incident after 5 min: runbook reading-blocked.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[(
                    r#"nodewarden_device_up{cluster="c",instance="n1",collector="rdma",subject_kind="rdma_port",subject="mlx5_0/1"}"#,
                    "0x30",
                )],
                at: "20m",
            },
            silent: Some(Case {
                input: &[(
                    r#"nodewarden_device_up{cluster="c",instance="n1",collector="rdma",subject_kind="rdma_port",subject="mlx5_0/1"}"#,
                    "0x10 1x20",
                )],
                at: "20m",
            }),
        },
        Alert {
            name: "NodewardenWorkerStuck",
            expr: "nodewarden_worker_stuck_slots > 0",
            lasts: "30m",
            severity: Severity::Ticket,
            summary: "{{ $labels.instance }}: processes of worker {{ $labels.worker }} do not end",
            description: "{{ $value }} earlier processes of worker {{ $labels.worker }} on {{ $labels.instance }} have not ended for 30 min: a driver does not let them. With two, no further one is started.",
            act: "They end when the driver returns, or at a reboot. See the runbook reading-blocked.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[(
                    r#"nodewarden_worker_stuck_slots{cluster="c",instance="n1",worker="nvidia"}"#,
                    "1x60",
                )],
                at: "40m",
            },
            silent: Some(Case {
                input: &[(
                    r#"nodewarden_worker_stuck_slots{cluster="c",instance="n1",worker="nvidia"}"#,
                    "1x20 0x40",
                )],
                at: "40m",
            }),
        },
        Alert {
            name: "NodewardenConfigurationRejected",
            expr: "nodewarden_config_error == 1 or nodewarden_web_config_error == 1",
            lasts: "5m",
            severity: Severity::Ticket,
            summary: "{{ $labels.instance }} rejected its configuration",
            description: "{{ $labels.instance }} rejected its configuration and goes on with the last good one, which a restart may lose.",
            act: "`nodewarden config check` names file, line and what was expected.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[(r#"nodewarden_config_error{cluster="c",instance="n1"}"#, "1x20")],
                at: "10m",
            },
            silent: Some(Case {
                input: &[(
                    r#"nodewarden_config_error{cluster="c",instance="n1"}"#,
                    "1x3 0x17",
                )],
                at: "10m",
            }),
        },
        Alert {
            name: "NodewardenStateNotStored",
            expr: "increase(nodewarden_store_errors_total[15m]) > 0",
            lasts: "",
            severity: Severity::Ticket,
            summary: "{{ $labels.instance }} cannot store its state",
            description: "nodewarden on {{ $labels.instance }} could not write its record. A drain that is not recorded is never lifted automatically.",
            act: "Look at the filesystem of the state directory: full, or read-only.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[(
                    r#"nodewarden_store_errors_total{cluster="c",instance="n1"}"#,
                    "0x10 1x20",
                )],
                at: "20m",
            },
            silent: Some(Case {
                input: &[(
                    r#"nodewarden_store_errors_total{cluster="c",instance="n1"}"#,
                    "5x30",
                )],
                at: "20m",
            }),
        },
        Alert {
            name: "NodewardenGuardLimitsDiffer",
            expr: "last_over_time(nodewarden_guard_limits_differ[1d]) == 1",
            lasts: "15m",
            severity: Severity::Ticket,
            summary: "{{ $labels.instance }} has other limits of drains than the cluster",
            description: "The guard's limits in the configuration of {{ $labels.instance }} differed from those of other nodes at its last drain.",
            act: "Give all nodes the same `[health.guard]`.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[(
                    r#"nodewarden_guard_limits_differ{cluster="c",instance="n1"}"#,
                    "1x30",
                )],
                at: "20m",
            },
            silent: Some(Case {
                input: &[(
                    r#"nodewarden_guard_limits_differ{cluster="c",instance="n1"}"#,
                    "0x30",
                )],
                at: "20m",
            }),
        },
        Alert {
            name: "NodewardenSeriesDropped",
            expr: "max by (cluster, instance, collector, reason) (nodewarden_series_dropped{page=\"metrics\"} or nodewarden_series_dropped{reason=\"limit\"}) > 0",
            lasts: "15m",
            severity: Severity::Ticket,
            summary: "{{ $labels.instance }} omits {{ $value }} series of collector {{ $labels.collector }}",
            description: "{{ $labels.instance }} omits {{ $value }} series of collector {{ $labels.collector }}: {{ $labels.reason }}.",
            act: "Reason limit: the node has more devices or jobs than a page may show. Reason duplicate: report it. The pages of other exporters omit duplicates by design, which this alert does not count.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[(
                    r#"nodewarden_series_dropped{cluster="c",instance="n1",page="metrics",collector="slurm",reason="limit"}"#,
                    "3x30",
                )],
                at: "20m",
            },
            silent: Some(Case {
                input: &[(
                    r#"nodewarden_series_dropped{cluster="c",instance="n1",page="gpfs_exporter",collector="gpfs",reason="duplicate"}"#,
                    "9x30",
                )],
                at: "20m",
            }),
        },
        Alert {
            name: "NodewardenNotificationsFail",
            expr: "increase(nodewarden_notifications_total{result=\"failed\"}[15m]) > 0",
            lasts: "",
            severity: Severity::Ticket,
            summary: "{{ $labels.instance }} cannot send notifications",
            description: "The site's command for notifications failed on {{ $labels.instance }}.",
            act: "`journalctl -u nodewarden` has its exit code.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[(
                    r#"nodewarden_notifications_total{cluster="c",instance="n1",result="failed"}"#,
                    "0x10 1x20",
                )],
                at: "20m",
            },
            silent: Some(Case {
                input: &[(
                    r#"nodewarden_notifications_total{cluster="c",instance="n1",result="ok"}"#,
                    "0x10 1x20",
                )],
                at: "20m",
            }),
        },
        Alert {
            name: "NodewardenWatchdog",
            expr: "vector(1)",
            lasts: "",
            severity: Severity::None,
            summary: "Alerts work",
            description: "This alert always fires. A receiver that no longer gets it knows that Prometheus or Alertmanager has failed.",
            act: "Send it to a service that reports its absence.",
            runbook: Runbook::Own,
            fires: Case { input: &[], at: "5m" },
            silent: None,
        },
    ],
    further: &[
        FurtherCase {
            alert: "NodewardenGuardLimitsDiffer",
            about: "the reading of the last drain has ended.",
            case: Case {
                input: &[(
                    r#"nodewarden_guard_limits_differ{cluster="c",instance="n1"}"#,
                    "1x10 stale",
                )],
                at: "3h",
            },
            expected: Expected::Firing(1),
        },
        FurtherCase {
            alert: "NodewardenGuardLimitsDiffer",
            about: "the limits are the same at the next drain.",
            case: Case {
                input: &[(
                    r#"nodewarden_guard_limits_differ{cluster="c",instance="n1"}"#,
                    "1x10 stale _x30 0x10 stale",
                )],
                at: "3h",
            },
            expected: Expected::Firing(0),
        },
        FurtherCase {
            alert: "NodewardenDeviceDown",
            about: "an incident names the device: it has an alert of its own.",
            case: Case {
                input: &[
                    (
                        r#"nodewarden_device_up{cluster="c",instance="n1",collector="nvidia",subject_kind="gpu",subject="GPU-a"}"#,
                        "0x30",
                    ),
                    (
                        r#"nodewarden_incident_info{cluster="c",instance="n1",incident="i1",check="gpu-missing",subject_kind="gpu",subject="GPU-a"}"#,
                        "1x30",
                    ),
                ],
                at: "20m",
            },
            expected: Expected::Firing(0),
        },
        FurtherCase {
            alert: "NodewardenMissing",
            about: "a faulty node that a person drained, switched off for hours.",
            case: Case {
                input: &[
                    (r#"up{job="nodewarden",cluster="c",instance="n1"}"#, "1x10 0x200"),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n1",state="foreign"}"#,
                        "1x10",
                    ),
                ],
                at: "3h",
            },
            expected: Expected::Firing(0),
        },
        FurtherCase {
            alert: "NodewardenMissing",
            about: "a person undrained the node before it was lost.",
            case: Case {
                input: &[
                    (r#"up{job="nodewarden",cluster="c",instance="n1"}"#, "1x20 0x40"),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n1",state="foreign"}"#,
                        "1x10 0x10",
                    ),
                ],
                at: "45m",
            },
            expected: Expected::Firing(1),
        },
        FurtherCase {
            alert: "NodewardenMissing",
            about: "a healthy node that a person drained: nodewarden does not know of the drain.",
            case: Case {
                input: &[
                    (r#"up{job="nodewarden",cluster="c",instance="n1"}"#, "1x10 0x30"),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n1",state="none"}"#,
                        "1x10",
                    ),
                    (
                        r#"nodewarden_drain_state{cluster="c",instance="n1",state="foreign"}"#,
                        "0x10",
                    ),
                ],
                at: "30m",
            },
            expected: Expected::Firing(1),
        },
    ],
};
