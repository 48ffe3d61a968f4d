//! Filesystems.

use super::{Dashboard, Kind, Panel, Row, Variable};

pub(super) static STORAGE: Dashboard = Dashboard {
    uid: "nodewarden-storage",
    title: "nodewarden / Storage",
    description: "Lustre, GPFS, NFS, local filesystems and NVMe drives as the nodes see them.",
    variables: &[Variable::Instance],
    one: false,
    rows: &[
        Row {
            title: "All filesystems",
            panels: &[
                Panel {
                    title: "Used space",
                    description: "Used part, by mount point.",
                    unit: "percentunit",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "1 - min by (cluster, mountpoint) (mount_available_bytes{%n} / mount_size_bytes{%n})",
                        "{{cluster}} {{mountpoint}}",
                    )],
                },
                Panel {
                    title: "Duration of probes",
                    description: "99 of 100 probes (statfs) are faster.",
                    unit: "s",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "histogram_quantile(0.99, sum by (cluster, mountpoint, le) (rate(mount_probe_duration_seconds_bucket{%n}[10m]))) >= 0",
                        "{{cluster}} {{mountpoint}}",
                    )],
                },
                Panel {
                    title: "Without an answer",
                    description: "Nodes on which a probe has not returned for more than a minute.",
                    unit: "short",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "count by (cluster, subject) (nodewarden_device_late_seconds{%n,collector=\"mounts\"} > 60)",
                        "{{cluster}} {{subject}}",
                    )],
                },
            ],
        },
        Row {
            title: "Lustre",
            panels: &[
                Panel {
                    title: "Read",
                    description: "Bytes that programs read, from the servers or from the cache.",
                    unit: "Bps",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "sum by (cluster, fs) (rate(lustre_client_read_bytes_total{%n}[$__rate_interval]))",
                        "{{cluster}} {{fs}}",
                    )],
                },
                Panel {
                    title: "Written",
                    description: "Bytes that programs write.",
                    unit: "Bps",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "sum by (cluster, fs) (rate(lustre_client_write_bytes_total{%n}[$__rate_interval]))",
                        "{{cluster}} {{fs}}",
                    )],
                },
                Panel {
                    title: "Metadata operations",
                    description: "By operation.",
                    unit: "ops",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "sum by (cluster, fs, op) (rate(lustre_client_md_ops_total{%n}[$__rate_interval]))",
                        "{{cluster}} {{fs}} {{op}}",
                    )],
                },
                Panel {
                    title: "Time of a request",
                    description: "Average time of a request to the servers, by kind.",
                    unit: "s",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "sum by (cluster, fs, opcode) (rate(lustre_client_rpc_seconds_total{%n}[$__rate_interval])) / (sum by (cluster, fs, opcode) (rate(lustre_client_rpcs_total{%n}[$__rate_interval])) > 0)",
                        "{{cluster}} {{fs}} {{opcode}}",
                    )],
                },
                Panel {
                    title: "Targets not connected",
                    description: "Connections that are neither FULL nor IDLE, by server.",
                    unit: "short",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "count by (cluster, fs, server, state) (lustre_client_target_state{%n})",
                        "{{cluster}} {{fs}} {{server}} {{state}}",
                    )],
                },
                Panel {
                    title: "Evictions",
                    description: "Evictions of clients.",
                    unit: "short",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "sum by (cluster, fs) (increase(lustre_client_evictions_total{%n}[$__rate_interval]))",
                        "{{cluster}} {{fs}}",
                    )],
                },
            ],
        },
        Row {
            title: "GPFS",
            panels: &[
                Panel {
                    title: "Read",
                    description: "Bytes that programs read.",
                    unit: "Bps",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "sum by (cluster, gpfs_cluster, fs) (rate(gpfs_read_bytes_total{%n}[$__rate_interval]))",
                        "{{cluster}} {{gpfs_cluster}} {{fs}}",
                    )],
                },
                Panel {
                    title: "Written",
                    description: "Bytes that programs write.",
                    unit: "Bps",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "sum by (cluster, gpfs_cluster, fs) (rate(gpfs_write_bytes_total{%n}[$__rate_interval]))",
                        "{{cluster}} {{gpfs_cluster}} {{fs}}",
                    )],
                },
                Panel {
                    title: "Operations",
                    description: "By operation.",
                    unit: "ops",
                    kind: Kind::Lines,
                    width: 8,
                    queries: &[(
                        "sum by (cluster, gpfs_cluster, fs, operation) (rate(gpfs_operations_total{%n}[$__rate_interval]))",
                        "{{cluster}} {{gpfs_cluster}} {{fs}} {{operation}}",
                    )],
                },
            ],
        },
        Row {
            title: "NFS",
            panels: &[
                Panel {
                    title: "Time of a request",
                    description: "Average time from the request to its end, with the time in queues.",
                    unit: "s",
                    kind: Kind::Lines,
                    width: 12,
                    queries: &[(
                        "sum by (cluster, mountpoint) (rate(mount_nfs_request_seconds_total{%n}[5m])) / (sum by (cluster, mountpoint) (rate(mount_nfs_requests_total{%n}[5m])) > 0)",
                        "{{cluster}} {{mountpoint}}",
                    )],
                },
                Panel {
                    title: "Sent again",
                    description: "Requests that were sent again, and major time-outs, in 5 min.",
                    unit: "short",
                    kind: Kind::Lines,
                    width: 12,
                    queries: &[
                        (
                            "sum by (cluster, mountpoint) (increase(mount_nfs_retransmissions_total{%n}[5m]))",
                            "sent again {{cluster}} {{mountpoint}}",
                        ),
                        (
                            "sum by (cluster, mountpoint) (increase(mount_nfs_timeouts_total{%n}[5m]))",
                            "time-outs {{cluster}} {{mountpoint}}",
                        ),
                    ],
                },
            ],
        },
        Row {
            title: "NVMe drives",
            panels: &[
                Panel {
                    title: "Used endurance",
                    description: "The vendor's estimate of the used part of a drive's life.",
                    unit: "percentunit",
                    kind: Kind::Lines,
                    width: 6,
                    queries: &[(
                        "topk(10, nvme_percentage_used_ratio{%n, pci!=\"\"})",
                        "{{instance}} {{device}}",
                    )],
                },
                Panel {
                    title: "Spare",
                    description: "The 10 drives with the least remaining spare capacity.",
                    unit: "percentunit",
                    kind: Kind::Lines,
                    width: 6,
                    queries: &[(
                        "bottomk(10, nvme_available_spare_ratio{%n, pci!=\"\"})",
                        "{{instance}} {{device}}",
                    )],
                },
                Panel {
                    title: "Media errors",
                    description: "Errors that a drive could not recover.",
                    unit: "short",
                    kind: Kind::Lines,
                    width: 6,
                    queries: &[(
                        "topk(10, increase(nvme_media_errors_total{%n, pci!=\"\"}[1d]) > 0)",
                        "{{instance}} {{device}}",
                    )],
                },
                Panel {
                    title: "Temperature",
                    description: "The 10 hottest drives, read every 5 to 6 min.",
                    unit: "celsius",
                    kind: Kind::Lines,
                    width: 6,
                    queries: &[(
                        "topk(10, nvme_temperature_celsius{%n, pci!=\"\"})",
                        "{{instance}} {{device}}",
                    )],
                },
            ],
        },
    ],
};
