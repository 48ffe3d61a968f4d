//! Alerts about parallel and network filesystems. What one client sees is seldom the client's fault.

use super::{Alert, Case, Expected, FurtherCase, Group, Record, Runbook, Severity};

pub(super) static GROUP: Group = Group {
    name: "nodewarden-storage",
    about: "Filesystems that many nodes share.",
    records: &[Record {
        name: "cluster_mountpoint:mount_probe_duration_seconds:p99_10m",
        expr: "histogram_quantile(0.99,
  sum by (cluster, mountpoint, le) (rate(mount_probe_duration_seconds_bucket[10m]))
)",
    }],
    alerts: &[
        Alert {
            name: "StorageServerUnreachable",
            expr: "count by (cluster, fs, server) (
  count by (cluster, instance, fs, server) (lustre_client_target_state)
) >= 3",
            lasts: "5m",
            severity: Severity::Page,
            summary: "{{ $value }} nodes of {{ $labels.cluster }} do not reach {{ $labels.server }} of {{ $labels.fs }}",
            description: "{{ $value }} nodes of {{ $labels.cluster }} are not connected to targets of Lustre {{ $labels.fs }} on server {{ $labels.server }}.",
            act: "Look at the server and its LNet. Jobs wait in state D or I until it is back or has failed over.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[
                    (
                        r#"lustre_client_target_state{cluster="c",instance="n1",fs="scratch",target="OST0001",state="DISCONN",server="10.0.0.5@o2ib"}"#,
                        "1x20",
                    ),
                    (
                        r#"lustre_client_target_state{cluster="c",instance="n2",fs="scratch",target="OST0001",state="DISCONN",server="10.0.0.5@o2ib"}"#,
                        "1x20",
                    ),
                    (
                        r#"lustre_client_target_state{cluster="c",instance="n3",fs="scratch",target="OST0002",state="CONNECTING",server="10.0.0.5@o2ib"}"#,
                        "1x20",
                    ),
                ],
                at: "10m",
            },
            silent: Some(Case {
                input: &[
                    (
                        r#"lustre_client_target_state{cluster="c",instance="n1",fs="scratch",target="OST0001",state="DISCONN",server="10.0.0.5@o2ib"}"#,
                        "1x20",
                    ),
                    (
                        r#"lustre_client_target_state{cluster="c",instance="n1",fs="scratch",target="OST0002",state="DISCONN",server="10.0.0.5@o2ib"}"#,
                        "1x20",
                    ),
                    (
                        r#"lustre_client_target_state{cluster="c",instance="n1",fs="scratch",target="OST0003",state="DISCONN",server="10.0.0.5@o2ib"}"#,
                        "1x20",
                    ),
                ],
                at: "10m",
            }),
        },
        Alert {
            name: "StorageMountStuck",
            // A list of mounts that cannot be read must not hide a filesystem that hangs everywhere.
            expr: "count by (cluster, subject) (
  max by (cluster, instance, subject) (nodewarden_device_late_seconds{collector=\"mounts\"}) > 60
  unless on (cluster, instance, subject)
    label_replace(mount_info{class=\"local\"}, \"subject\", \"$1\", \"mountpoint\", \"(.+)\")
) >= 3",
            lasts: "2m",
            severity: Severity::Page,
            summary: "{{ $labels.subject }} does not answer on {{ $value }} nodes of {{ $labels.cluster }}",
            description: "A probe of {{ $labels.subject }}, which is no local filesystem, has not returned for more than a minute on {{ $value }} nodes of {{ $labels.cluster }}.",
            act: "Look at the servers of the filesystem. The nodes are not the cause; do not reboot them.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[
                    (
                        r#"nodewarden_device_late_seconds{cluster="c",instance="n1",collector="mounts",subject_kind="mount",subject="/home",state="D"}"#,
                        "0+60x20",
                    ),
                    (
                        r#"nodewarden_device_late_seconds{cluster="c",instance="n2",collector="mounts",subject_kind="mount",subject="/home",state="D"}"#,
                        "0+60x20",
                    ),
                    (
                        r#"nodewarden_device_late_seconds{cluster="c",instance="n3",collector="mounts",subject_kind="mount",subject="/home",state="D"}"#,
                        "0+60x20",
                    ),
                    (
                        r#"mount_info{cluster="c",instance="n1",mountpoint="/home",class="network"}"#,
                        "1x20",
                    ),
                    (
                        r#"mount_info{cluster="c",instance="n2",mountpoint="/home",class="network"}"#,
                        "1x20",
                    ),
                    (
                        r#"mount_info{cluster="c",instance="n3",mountpoint="/home",class="network"}"#,
                        "1x20",
                    ),
                ],
                at: "10m",
            },
            silent: Some(Case {
                input: &[
                    (
                        r#"nodewarden_device_late_seconds{cluster="c",instance="n1",collector="mounts",subject_kind="mount",subject="/home",state="D"}"#,
                        "0+60x20",
                    ),
                    (
                        r#"nodewarden_device_late_seconds{cluster="c",instance="n2",collector="mounts",subject_kind="mount",subject="/home",state="D"}"#,
                        "0+60x20",
                    ),
                    (
                        r#"nodewarden_device_late_seconds{cluster="c",instance="n3",collector="nvidia",subject_kind="gpu",subject="GPU-1",state="D"}"#,
                        "0+60x20",
                    ),
                ],
                at: "10m",
            }),
        },
        Alert {
            name: "StorageSlow",
            expr: "cluster_mountpoint:mount_probe_duration_seconds:p99_10m > 1",
            lasts: "15m",
            severity: Severity::Ticket,
            summary: "{{ $labels.mountpoint }} of {{ $labels.cluster }} answers slowly",
            description: "One in a hundred probes of {{ $labels.mountpoint }} on the nodes of {{ $labels.cluster }} takes longer than {{ $value | humanizeDuration }}.",
            act: "Look at the load of the servers, and at jobs with many metadata operations (`lustre_client_md_ops_total`, `gpfs_operations_total`).",
            runbook: Runbook::Own,
            fires: Case {
                input: &[
                    (
                        r#"mount_probe_duration_seconds_bucket{cluster="c",instance="n1",mountpoint="/scratch",le="1.0"}"#,
                        "0x60",
                    ),
                    (
                        r#"mount_probe_duration_seconds_bucket{cluster="c",instance="n1",mountpoint="/scratch",le="10.0"}"#,
                        "0+1x60",
                    ),
                    (
                        r#"mount_probe_duration_seconds_bucket{cluster="c",instance="n1",mountpoint="/scratch",le="+Inf"}"#,
                        "0+1x60",
                    ),
                ],
                at: "40m",
            },
            silent: Some(Case {
                input: &[
                    (
                        r#"mount_probe_duration_seconds_bucket{cluster="c",instance="n1",mountpoint="/scratch",le="1.0"}"#,
                        "0+1x60",
                    ),
                    (
                        r#"mount_probe_duration_seconds_bucket{cluster="c",instance="n1",mountpoint="/scratch",le="10.0"}"#,
                        "0+1x60",
                    ),
                    (
                        r#"mount_probe_duration_seconds_bucket{cluster="c",instance="n1",mountpoint="/scratch",le="+Inf"}"#,
                        "0+1x60",
                    ),
                ],
                at: "40m",
            }),
        },
        Alert {
            name: "StorageFull",
            expr: "min by (cluster, mountpoint) (
  (mount_available_bytes / mount_size_bytes < 0.05 or mount_inodes_free / mount_inodes < 0.05)
  and on (cluster, instance, mountpoint)
    mount_info{class=~\"parallel|network\"}
  unless on (cluster, instance, mountpoint)
    (mount_read_only == 1)
)",
            lasts: "30m",
            severity: Severity::Ticket,
            summary: "{{ $labels.mountpoint }} of {{ $labels.cluster }} has {{ $value | humanizePercentage }} of its space or inodes left",
            description: "{{ $labels.mountpoint }} of {{ $labels.cluster }} is writable and has {{ $value | humanizePercentage }} of its space or of its inodes left. Jobs end when it is full.",
            act: "Purge, or ask the users with the most data. Local filesystems have a check of their own: mount-full.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[
                    (
                        r#"mount_available_bytes{cluster="c",instance="n1",mountpoint="/scratch"}"#,
                        "4x60",
                    ),
                    (
                        r#"mount_size_bytes{cluster="c",instance="n1",mountpoint="/scratch"}"#,
                        "100x60",
                    ),
                    (
                        r#"mount_info{cluster="c",instance="n1",mountpoint="/scratch",class="parallel"}"#,
                        "1x60",
                    ),
                ],
                at: "40m",
            },
            silent: Some(Case {
                input: &[
                    (
                        r#"mount_available_bytes{cluster="c",instance="n1",mountpoint="/local"}"#,
                        "4x60",
                    ),
                    (
                        r#"mount_size_bytes{cluster="c",instance="n1",mountpoint="/local"}"#,
                        "100x60",
                    ),
                    (
                        r#"mount_info{cluster="c",instance="n1",mountpoint="/local",class="local"}"#,
                        "1x60",
                    ),
                ],
                at: "40m",
            }),
        },
        Alert {
            name: "StorageDaemonDown",
            // `gpfs_daemon_up` is also 0 where GPFS is installed and was never started, and absent where mmfsd hangs.
            expr: "count by (cluster) (
  count by (cluster, instance) (nodewarden_incident_info{check=\"gpfs-daemon-down\"})
) >= 3",
            lasts: "2m",
            severity: Severity::Page,
            summary: "GPFS is down on {{ $value }} nodes of {{ $labels.cluster }}",
            description: "The GPFS daemon answered earlier in this boot, and no longer does on {{ $value }} nodes of {{ $labels.cluster }}: the check gpfs-daemon-down.",
            act: "`mmgetstate -a` on a node of the GPFS cluster. Many nodes at once lost the quorum, were expelled, or were updated.",
            runbook: Runbook::Own,
            fires: Case {
                // `gpfs_daemon_up` is absent: mmfsd hangs.
                input: &[
                    (
                        r#"nodewarden_incident_info{cluster="c",instance="n1",incident="i1",check="gpfs-daemon-down",subject_kind="node"}"#,
                        "1x20",
                    ),
                    (
                        r#"nodewarden_incident_info{cluster="c",instance="n2",incident="i2",check="gpfs-daemon-down",subject_kind="node"}"#,
                        "1x20",
                    ),
                    (
                        r#"nodewarden_incident_info{cluster="c",instance="n3",incident="i3",check="gpfs-daemon-down",subject_kind="node"}"#,
                        "1x20",
                    ),
                ],
                at: "10m",
            },
            silent: Some(Case {
                input: &[
                    (
                        r#"nodewarden_incident_info{cluster="c",instance="n1",incident="i1",check="gpfs-daemon-down",subject_kind="node"}"#,
                        "1x20",
                    ),
                    (
                        r#"nodewarden_incident_info{cluster="c",instance="n2",incident="i2",check="gpfs-daemon-down",subject_kind="node"}"#,
                        "1x20",
                    ),
                    (
                        r#"nodewarden_incident_info{cluster="c",instance="n3",incident="i3",check="gpfs-waiters-long",subject_kind="node"}"#,
                        "1x20",
                    ),
                ],
                at: "10m",
            }),
        },
        Alert {
            name: "StorageEvictions",
            expr: "sum by (cluster, fs) (increase(lustre_client_evictions_total[30m])) >= 5",
            lasts: "",
            severity: Severity::Ticket,
            summary: "Lustre {{ $labels.fs }} evicted clients of {{ $labels.cluster }}",
            description: "Servers of Lustre {{ $labels.fs }} evicted clients of {{ $labels.cluster }} {{ $value | humanize }} times within 30 min. Data that these clients had not written is lost.",
            act: "See the runbook lustre-evicted. Evictions on many nodes come from the network or a server, on one node from the node.",
            runbook: Runbook::Own,
            fires: Case {
                input: &[
                    (
                        r#"lustre_client_evictions_total{cluster="c",instance="n1",fs="scratch"}"#,
                        "0x10 3x30",
                    ),
                    (
                        r#"lustre_client_evictions_total{cluster="c",instance="n2",fs="scratch"}"#,
                        "0x10 3x30",
                    ),
                ],
                at: "30m",
            },
            silent: Some(Case {
                input: &[
                    (
                        r#"lustre_client_evictions_total{cluster="c",instance="n1",fs="scratch"}"#,
                        "0x10 2x30",
                    ),
                    (
                        r#"lustre_client_evictions_total{cluster="c",instance="n2",fs="scratch"}"#,
                        "7x40",
                    ),
                ],
                at: "30m",
            }),
        },
    ],
    further: &[
        FurtherCase {
            alert: "StorageMountStuck",
            about: "local drives of three nodes.",
            case: Case {
                input: &[
                    (
                        r#"nodewarden_device_late_seconds{cluster="c",instance="n1",collector="mounts",subject_kind="mount",subject="/local",state="D"}"#,
                        "0+60x20",
                    ),
                    (
                        r#"mount_info{cluster="c",instance="n1",mountpoint="/local",class="local"}"#,
                        "1x20",
                    ),
                    (
                        r#"nodewarden_device_late_seconds{cluster="c",instance="n2",collector="mounts",subject_kind="mount",subject="/local",state="D"}"#,
                        "0+60x20",
                    ),
                    (
                        r#"mount_info{cluster="c",instance="n2",mountpoint="/local",class="local"}"#,
                        "1x20",
                    ),
                    (
                        r#"nodewarden_device_late_seconds{cluster="c",instance="n3",collector="mounts",subject_kind="mount",subject="/local",state="D"}"#,
                        "0+60x20",
                    ),
                    (
                        r#"mount_info{cluster="c",instance="n3",mountpoint="/local",class="local"}"#,
                        "1x20",
                    ),
                ],
                at: "10m",
            },
            expected: Expected::Firing(0),
        },
        FurtherCase {
            alert: "StorageDaemonDown",
            about: "GPFS is installed and was never started.",
            case: Case {
                input: &[
                    (r#"gpfs_daemon_up{cluster="c",instance="n1"}"#, "0x60"),
                    (r#"gpfs_daemon_up{cluster="c",instance="n2"}"#, "0x60"),
                    (r#"gpfs_daemon_up{cluster="c",instance="n3"}"#, "0x60"),
                ],
                at: "40m",
            },
            expected: Expected::Firing(0),
        },
        FurtherCase {
            alert: "StorageFull",
            about: "a read-only filesystem, and a writable one.",
            case: Case {
                input: &[
                    (
                        r#"mount_available_bytes{cluster="c",instance="n1",mountpoint="/apps"}"#,
                        "3x60",
                    ),
                    (
                        r#"mount_size_bytes{cluster="c",instance="n1",mountpoint="/apps"}"#,
                        "100x60",
                    ),
                    (
                        r#"mount_info{cluster="c",instance="n1",mountpoint="/apps",class="network"}"#,
                        "1x60",
                    ),
                    (
                        r#"mount_read_only{cluster="c",instance="n1",mountpoint="/apps"}"#,
                        "1x60",
                    ),
                    (
                        r#"mount_available_bytes{cluster="c",instance="n1",mountpoint="/home"}"#,
                        "3x60",
                    ),
                    (
                        r#"mount_size_bytes{cluster="c",instance="n1",mountpoint="/home"}"#,
                        "100x60",
                    ),
                    (
                        r#"mount_info{cluster="c",instance="n1",mountpoint="/home",class="network"}"#,
                        "1x60",
                    ),
                    (
                        r#"mount_read_only{cluster="c",instance="n1",mountpoint="/home"}"#,
                        "0x60",
                    ),
                ],
                at: "40m",
            },
            expected: Expected::Firing(1),
        },
        FurtherCase {
            alert: "StorageFull",
            about: "space is free, inodes are not.",
            case: Case {
                input: &[
                    (
                        r#"mount_available_bytes{cluster="c",instance="n1",mountpoint="/scratch"}"#,
                        "60x60",
                    ),
                    (
                        r#"mount_size_bytes{cluster="c",instance="n1",mountpoint="/scratch"}"#,
                        "100x60",
                    ),
                    (
                        r#"mount_inodes_free{cluster="c",instance="n1",mountpoint="/scratch"}"#,
                        "1x60",
                    ),
                    (
                        r#"mount_inodes{cluster="c",instance="n1",mountpoint="/scratch"}"#,
                        "100x60",
                    ),
                    (
                        r#"mount_info{cluster="c",instance="n1",mountpoint="/scratch",class="parallel"}"#,
                        "1x60",
                    ),
                ],
                at: "40m",
            },
            expected: Expected::Firing(1),
        },
    ],
};
