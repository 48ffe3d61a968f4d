//! What the commands of GPFS report: state of the node, waiters, health of components.

use super::metrics::PAGE;
use crate::metric::{Alias, Kind, Metric, Tier, Unit};

const STATE: &str = "mmgetstate -Y: state";
const WAITING: &str = "mmdiag --waiters -Y: threadName, waitTime";
const HEALTH: &str = "mmhealth node show -Y: State";

/// A component of GPFS, and the part of it, such as a network interface or a filesystem.
const STATUS: &[&str] = &["component", "entity", "entity_type", "status"];
/// The names of gpfs_exporter for them.
const STATUS_LABELS: &[(&str, &str)] = &[
    ("component", "component"),
    ("entityname", "entity"),
    ("entitytype", "entity_type"),
    ("status", "status"),
];

const fn gauge(name: &'static str, labels: &'static [&'static str], source: &'static str) -> Metric {
    Metric {
        name,
        kind: Kind::Gauge,
        unit: Unit::None,
        labels,
        help: "",
        tier: Tier::Core,
        source,
        aliases: &[],
    }
}

/// The state of the node in its cluster.
pub static NODE_STATE: Metric = Metric {
    help: "State of this node in its GPFS cluster: 1 for the current state of active, arbitrating, down, unknown and unresponsive, 0 for the others.",
    aliases: &[Alias::new(PAGE, "gpfs_state", Kind::Gauge, &[("state", "state")])],
    ..gauge("gpfs_node_state", &["state"], STATE)
};

/// Waiting threads.
pub static WAITERS: Metric = Metric {
    help: "Threads of mmfsd that wait, without those that always do (EventsExporterSenderThread, Fsck*).",
    ..gauge("gpfs_waiters", &[], WAITING)
};

/// The longest wait.
pub static LONGEST_WAIT: Metric = Metric {
    unit: Unit::Seconds,
    help: "Longest wait of a thread of mmfsd in seconds, 0 if none waits.",
    ..gauge("gpfs_waiter_longest_seconds", &[], WAITING)
};

/// The thread of the longest wait.
pub static LONGEST_WAITER: Metric = Metric {
    kind: Kind::Info,
    tier: Tier::Private,
    help: "Thread of mmfsd with the longest wait, and its reason.",
    ..gauge(
        "gpfs_longest_waiter_info",
        &["waiter", "reason"],
        "mmdiag --waiters -Y: threadName, auxReason, condVarReason, delayReason",
    )
};

/// Waiting threads by name.
pub static WAITERS_BY_THREAD: Metric = Metric {
    tier: Tier::Detail,
    help: "Threads of mmfsd that wait, by the name of the thread, at most 32 names.",
    aliases: &[Alias::new(
        PAGE,
        "gpfs_waiter_info_count",
        Kind::Gauge,
        &[("waiter", "waiter")],
    )],
    ..gauge("gpfs_waiters_by_thread", &["waiter"], WAITING)
};

/// The current status of each component.
pub static COMPONENT_STATUS: Metric = Metric {
    help: "Status of a component of GPFS on this node, such as HEALTHY, TIPS, DEGRADED, FAILED or DEPEND, always 1.",
    ..gauge("gpfs_component_status", STATUS, HEALTH)
};

/// Every status of each component.
pub static COMPONENT_HAS_STATUS: Metric = Metric {
    tier: Tier::Detail,
    help: "Whether a component of GPFS has a status: 1 for the current one, 0 for each of the others.",
    aliases: &[Alias::new(PAGE, "gpfs_health_status", Kind::Gauge, STATUS_LABELS)],
    ..gauge("gpfs_component_has_status", STATUS, HEALTH)
};

/// Active events of components.
pub static COMPONENT_EVENT: Metric = Metric {
    help: "Active event of a component of GPFS on this node, without those hidden by an administrator, always 1; the severity is empty where mmhealth gives none.",
    aliases: &[Alias::new(
        PAGE,
        "gpfs_health_event",
        Kind::Gauge,
        &[
            ("component", "component"),
            ("entityname", "entity"),
            ("entitytype", "entity_type"),
            ("event", "event"),
        ],
    )],
    ..gauge(
        "gpfs_component_event",
        &["component", "entity", "entity_type", "event", "severity"],
        "mmhealth node show -Y: Event",
    )
};

/// Why a command has no output, or not its whole one.
pub static UNREADABLE: Metric = Metric {
    help: "Whether the output of a GPFS command is incomplete, always 1, by reason: absent, stale (older than 14 min), denied, untrusted (others may write it), io, malformed, limit (too many rows), failed, timeout or refused (not started).",
    ..gauge("gpfs_command_unreadable", &["command", "reason"], "nodewarden")
};

/// When the output was written.
pub static TIMESTAMP: Metric = Metric {
    unit: Unit::Seconds,
    // A recording has none, so that no fixture can show it.
    tier: Tier::Private,
    help: "Unix time at which the output of a GPFS command was written in seconds.",
    ..gauge("gpfs_command_timestamp_seconds", &["command"], "nodewarden")
};
