//! One node, and nodewarden itself.

use super::{Dashboard, Kind, Panel, Row, Variable};

pub(super) static NODE: Dashboard = Dashboard {
    uid: "nodewarden-node",
    title: "nodewarden / Node",
    description: "One node: verdict, GPUs, fabric, filesystems, memory.",
    variables: &[Variable::Instance],
    one: true,
    rows: &[
        Row {
            title: "State",
            panels: &[
                Panel {
                    title: "Verdict",
                    description: "The worst verdict of the selected nodes.",
                    unit: "short",
                    kind: Kind::Word(&[
                        (0, "healthy", "green"),
                        (1, "unknown", "orange"),
                        (2, "unhealthy", "red"),
                    ]),
                    width: 6,
                    queries: &[(
                        "max(2 * nodewarden_verdict{%n,verdict=\"unhealthy\"} or nodewarden_verdict{%n,verdict=\"unknown\"})",
                        "",
                    )],
                },
                Panel {
                    title: "Open incidents",
                    description: "Number of open incidents.",
                    unit: "short",
                    kind: Kind::Stat(Some(1.0)),
                    width: 6,
                    queries: &[("sum(nodewarden_incidents_open{%n})", "")],
                },
                Panel {
                    title: "GPUs that answer",
                    description: "GPUs for which the driver answers.",
                    unit: "short",
                    kind: Kind::Stat(None),
                    width: 6,
                    queries: &[("sum(gpu_up{%n})", "")],
                },
                Panel {
                    title: "Up since",
                    description: "Boot of the node.",
                    unit: "dateTimeFromNow",
                    kind: Kind::Stat(None),
                    width: 6,
                    queries: &[("1000 * min(host_boot_time_seconds{%n})", "")],
                },
                Panel {
                    title: "Open incidents",
                    description: "Check and subject of each.",
                    unit: "short",
                    kind: Kind::Table,
                    width: 24,
                    queries: &[("nodewarden_incident_info{%n}", "")],
                },
            ],
        },
        Row {
            title: "GPUs",
            panels: &[
                Panel {
                    title: "Utilization",
                    description: "Share of time in which a kernel ran on the GPU.",
                    unit: "percentunit",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[("gpu_utilization_ratio{%n}%i", "{{instance}} GPU {{index}}")],
                },
                Panel {
                    title: "Power",
                    description: "Power of each GPU.",
                    unit: "watt",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[("gpu_power_watts{%n}%i", "{{instance}} GPU {{index}}")],
                },
                Panel {
                    title: "Temperature",
                    description: "Temperature of each GPU.",
                    unit: "celsius",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[("gpu_temperature_celsius{%n}%i", "{{instance}} GPU {{index}}")],
                },
            ],
        },
        Row {
            title: "Fabric and filesystems",
            panels: &[
                Panel {
                    title: "RDMA transmitted",
                    description: "Data that each port sends.",
                    unit: "Bps",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "rate(rdma_port_xmit_data_bytes_total{%n}[$__rate_interval])",
                        "{{instance}} {{device}}/{{port}}",
                    )],
                },
                Panel {
                    title: "RDMA received",
                    description: "Data that each port receives.",
                    unit: "Bps",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "rate(rdma_port_rcv_data_bytes_total{%n}[$__rate_interval])",
                        "{{instance}} {{device}}/{{port}}",
                    )],
                },
                Panel {
                    title: "Used space",
                    description: "Used part of each filesystem.",
                    unit: "percentunit",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "1 - mount_available_bytes{%n} / mount_size_bytes{%n}",
                        "{{instance}} {{mountpoint}}",
                    )],
                },
            ],
        },
        Row {
            title: "Host",
            panels: &[
                Panel {
                    title: "Available memory",
                    description: "Memory that programs may still use.",
                    unit: "bytes",
                    kind: Kind::Lines,
                    width: 12,
                    queries: &[("host_memory_available_bytes{%n}", "{{instance}}")],
                },
                Panel {
                    title: "Memory errors",
                    description: "Errors that ECC of the host's memory corrected and did not correct.",
                    unit: "short",
                    kind: Kind::Lines,
                    width: 12,
                    queries: &[
                        (
                            "sum by (cluster, instance, controller) (increase(host_edac_corrected_errors_total{%n}[$__rate_interval]))",
                            "{{instance}} {{controller}} corrected",
                        ),
                        (
                            "sum by (cluster, instance, controller) (increase(host_edac_uncorrected_errors_total{%n}[$__rate_interval]))",
                            "{{instance}} {{controller}} uncorrected",
                        ),
                    ],
                },
            ],
        },
    ],
};

pub(super) static AGENT: Dashboard = Dashboard {
    uid: "nodewarden-agent",
    title: "nodewarden / Agent",
    description: "nodewarden itself: what it reads, what it costs.",
    variables: &[Variable::Instance],
    one: false,
    rows: &[
        Row {
            title: "Readings",
            panels: &[
                Panel {
                    title: "Collectors with an error",
                    description: "Collectors that could not read everything.",
                    unit: "short",
                    kind: Kind::Table,
                    width: 8,
                    queries: &[("nodewarden_collector_up{%n} == 0", "")],
                },
                Panel {
                    title: "Readings without an answer",
                    description: "Time since a reading of a device began that has not returned.",
                    unit: "s",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "nodewarden_device_late_seconds{%n}",
                        "{{instance}} {{collector}} {{subject}}",
                    )],
                },
                Panel {
                    title: "Duration of readings",
                    description: "Time that a reading of each collector takes, the slowest node.",
                    unit: "s",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "max by (collector) (nodewarden_collector_duration_seconds{%n})",
                        "{{collector}}",
                    )],
                },
                Panel {
                    title: "Devices that cannot be read",
                    description: "The reason of each.",
                    unit: "short",
                    kind: Kind::Table,
                    width: 24,
                    queries: &[("nodewarden_device_error_info{%n}", "")],
                },
            ],
        },
        Row {
            title: "Cost",
            panels: &[
                Panel {
                    title: "CPU",
                    description: "Processor time of each process, on average over the nodes.",
                    unit: "percentunit",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "avg by (process) (rate(nodewarden_process_cpu_seconds_total{%n}[15m]))",
                        "{{process}}",
                    )],
                },
                Panel {
                    title: "Memory",
                    description: "Memory of all processes of a node, shared pages counted once.",
                    unit: "bytes",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "max by (cluster) (sum by (cluster, instance) (nodewarden_process_proportional_memory_bytes{%n}))",
                        "greatest of {{cluster}}",
                    )],
                },
                Panel {
                    title: "Duration of scrapes",
                    description: "99 of 100 scrapes are faster.",
                    unit: "s",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "histogram_quantile(0.99, sum by (page, le) (rate(nodewarden_scrape_duration_seconds_bucket{%n}[$__rate_interval]))) >= 0",
                        "{{page}}",
                    )],
                },
            ],
        },
        Row {
            title: "Faults of nodewarden",
            panels: &[
                Panel {
                    title: "Starts of workers",
                    description: "Workers that were started again.",
                    unit: "short",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "sum by (worker) (increase(nodewarden_worker_starts_total{%n}[$__rate_interval]))",
                        "{{worker}}",
                    )],
                },
                Panel {
                    title: "Processes that do not end",
                    description: "Earlier processes of a worker that a driver does not let end.",
                    unit: "short",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "sum by (worker) (nodewarden_worker_stuck_slots{%n})",
                        "{{worker}}",
                    )],
                },
                Panel {
                    title: "Lost records of the kernel log",
                    description: "Records that were overwritten before they were read.",
                    unit: "short",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "sum by (cluster, instance) (increase(nodewarden_kernel_log_lost_records_total{%n}[$__rate_interval])) > 0",
                        "{{instance}}",
                    )],
                },
            ],
        },
    ],
};
