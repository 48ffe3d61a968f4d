//! The cluster as a whole.

use super::{Dashboard, Kind, Panel, Row, Variable};

pub(super) static CLUSTER: Dashboard = Dashboard {
    uid: "nodewarden-cluster",
    title: "nodewarden / Cluster health",
    description: "Verdicts, incidents and drains of all nodes of a cluster.",
    variables: &[],
    one: false,
    rows: &[
        Row {
            title: "Nodes",
            panels: &[
                Panel {
                    title: "Nodes",
                    description: "Nodes on which nodewarden answers.",
                    unit: "short",
                    kind: Kind::Stat(None),
                    width: 3,
                    queries: &[("count(nodewarden_build_info{%c})", "")],
                },
                Panel {
                    title: "Healthy",
                    description: "Nodes whose verdict is healthy.",
                    unit: "short",
                    kind: Kind::Stat(None),
                    width: 3,
                    queries: &[("sum(nodewarden_verdict{%c,verdict=\"healthy\"})", "")],
                },
                Panel {
                    title: "Unhealthy",
                    description: "Nodes whose verdict is unhealthy.",
                    unit: "short",
                    kind: Kind::Stat(Some(1.0)),
                    width: 3,
                    queries: &[("sum(nodewarden_verdict{%c,verdict=\"unhealthy\"})", "")],
                },
                Panel {
                    title: "Unknown",
                    description: "Nodes on which nodewarden cannot tell.",
                    unit: "short",
                    kind: Kind::Stat(Some(1.0)),
                    width: 3,
                    queries: &[("sum(nodewarden_verdict{%c,verdict=\"unknown\"})", "")],
                },
                Panel {
                    title: "Not scraped",
                    description: "Nodes that do not answer Prometheus.",
                    unit: "short",
                    kind: Kind::Stat(Some(1.0)),
                    width: 3,
                    queries: &[(
                        "count(up{job=~\"(.+/)?nodewarden[^/]*\",%c} == 0) or vector(0)",
                        "",
                    )],
                },
                Panel {
                    title: "Drained",
                    description: "Nodes with a drain of nodewarden in place.",
                    unit: "short",
                    kind: Kind::Stat(Some(1.0)),
                    width: 3,
                    queries: &[("sum(nodewarden_drain_state{%c,state=~\"drained|lifting\"})", "")],
                },
                Panel {
                    title: "Drain held",
                    description: "Nodes with a fault that stay in service: the limit of drains or a pause holds the drain.",
                    unit: "short",
                    kind: Kind::Stat(Some(1.0)),
                    width: 3,
                    queries: &[("sum(nodewarden_drain_held{%c})", "")],
                },
                Panel {
                    title: "Paused",
                    description: "Nodes on which a person paused nodewarden: it does not drain them.",
                    unit: "short",
                    kind: Kind::Stat(Some(1.0)),
                    width: 3,
                    queries: &[("sum(nodewarden_paused{%c})", "")],
                },
            ],
        },
        Row {
            title: "Over time",
            panels: &[
                Panel {
                    title: "Verdicts",
                    description: "Nodes by verdict.",
                    unit: "short",
                    kind: Kind::Lines,
                    width: 12,
                    queries: &[("sum by (verdict) (nodewarden_verdict{%c})", "{{verdict}}")],
                },
                Panel {
                    title: "Open incidents",
                    description: "Open incidents by check.",
                    unit: "short",
                    kind: Kind::Lines,
                    width: 12,
                    queries: &[("count by (check) (nodewarden_incident_info{%c})", "{{check}}")],
                },
            ],
        },
        Row {
            title: "Now",
            panels: &[
                Panel {
                    title: "Open incidents",
                    description: "Each open incident, with the node and its subject.",
                    unit: "short",
                    kind: Kind::Table,
                    width: 24,
                    queries: &[("nodewarden_incident_info{%c}", "")],
                },
                Panel {
                    title: "GPUs by model and driver",
                    description: "Number of GPUs.",
                    unit: "short",
                    kind: Kind::Table,
                    width: 12,
                    queries: &[("count by (cluster, vendor, name, driver) (gpu_info{%c})", "GPUs")],
                },
                Panel {
                    title: "Nodes by version of nodewarden",
                    description: "Number of nodes.",
                    unit: "short",
                    kind: Kind::Table,
                    width: 12,
                    queries: &[("count by (cluster, version) (nodewarden_build_info{%c})", "nodes")],
                },
            ],
        },
    ],
};

pub(super) static DRAINS: Dashboard = Dashboard {
    uid: "nodewarden-drains",
    title: "nodewarden / Drains and incidents",
    description: "What nodewarden found, drained, held and lifted.",
    variables: &[Variable::Instance],
    one: false,
    rows: &[
        Row {
            title: "Drains",
            panels: &[
                Panel {
                    title: "Drain states",
                    description: "Nodes by the state of nodewarden's drain, without those that have none.",
                    unit: "short",
                    kind: Kind::Lines,
                    width: 12,
                    queries: &[(
                        "sum by (state) (nodewarden_drain_state{%n,state!=\"none\"})",
                        "{{state}}",
                    )],
                },
                Panel {
                    title: "Drains held",
                    description: "Nodes whose drain is held, by what holds it.",
                    unit: "short",
                    kind: Kind::Lines,
                    width: 12,
                    queries: &[("sum by (by) (nodewarden_drain_held{%n})", "{{by}}")],
                },
                Panel {
                    title: "Drains by check",
                    description: "Drains in the selected time, by the check of their incident.",
                    unit: "short",
                    kind: Kind::Table,
                    width: 12,
                    queries: &[(
                        "round(sum by (check) (increase(nodewarden_drains_total{%n}[$__range]))) > 0",
                        "drains",
                    )],
                },
                Panel {
                    title: "Would have drained, by check",
                    description: "Drains that modes observe and comment only counted, in the selected time.",
                    unit: "short",
                    kind: Kind::Table,
                    width: 12,
                    queries: &[(
                        "round(sum by (check) (increase(nodewarden_would_drain_total{%n}[$__range]))) > 0",
                        "drains",
                    )],
                },
            ],
        },
        Row {
            title: "Limits",
            panels: &[
                Panel {
                    title: "Standing drains of a partition",
                    description: "Drains of nodewarden that stand, and the limit, as read for the last drain.",
                    unit: "short",
                    kind: Kind::Lines,
                    width: 12,
                    queries: &[
                        (
                            "max by (cluster, partition) (nodewarden_guard_standing_drains{%n})",
                            "{{cluster}} {{partition}}",
                        ),
                        (
                            "max by (cluster, partition) (nodewarden_guard_standing_drains_limit{%n})",
                            "{{cluster}} {{partition}} limit",
                        ),
                    ],
                },
                Panel {
                    title: "Slots taken",
                    description: "Slots for drains that were taken, as read for the last drain.",
                    unit: "short",
                    kind: Kind::Lines,
                    width: 12,
                    queries: &[(
                        "max by (cluster, partition, pool) (nodewarden_guard_slots_taken{%n})",
                        "{{cluster}} {{partition}} {{pool}}",
                    )],
                },
            ],
        },
        Row {
            title: "Incidents",
            panels: &[
                Panel {
                    title: "Open incidents without acknowledgement",
                    description: "Start of each open incident that no operator has acknowledged.",
                    unit: "dateTimeFromNow",
                    kind: Kind::Table,
                    width: 24,
                    queries: &[(
                        "1000 * max by (cluster, instance, incident) (nodewarden_incident_start_timestamp_seconds{%n}) * on (cluster, instance, incident) group_left (check, subject_kind, subject) max by (cluster, instance, incident, check, subject_kind, subject) (nodewarden_incident_info{%n}) and on (cluster, instance, incident) nodewarden_incident_acknowledged{%n} == 0",
                        "start",
                    )],
                },
                Panel {
                    title: "Kernel events",
                    description: "Faults in the kernel log since the state directory was created.",
                    unit: "short",
                    kind: Kind::Table,
                    width: 24,
                    queries: &[("host_kernel_events_total{%n} > 0", "events")],
                },
            ],
        },
    ],
};
