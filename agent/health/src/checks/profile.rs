//! Checks `rdma-ports-missing`, `memory-missing`, `cpu-missing`, `mount-missing` and `module-missing`: the node has less
//! than `health.expect` says.

use std::time::Duration;

use collectors::rdma::metrics::{NETDEV_UP, PORT_STATE};
use collectors::settings::size;
use collectors::{PciAddress, SubjectKind};

use super::expected::{Answer, conditions};
use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Reading};
use crate::judge::{Judge, evidence};
use crate::reads::host::Slot;
use crate::reads::node::Node;
use crate::reads::port::{Link, Port, number};
use crate::settings::Expect;
use model::snapshot::{Presence, Sample};

const LASTING: &str = "4 consecutive readings, at least 100 s";
const GRACE: &str = "The first 600 s after boot and 60 s after the start of nodewarden.";

/// The row of memory.
pub static MEMORY: Check = Check {
    id: "memory-missing",
    subject: SubjectKind::Node,
    fires_when: "The usable memory (MemTotal) is below 97 % of `health.expect.memory`.",
    lasting: LASTING,
    clears_when: "3 consecutive readings, at least 100 s, with at least 97 %, or without the key.",
    ignored_when: GRACE,
    scope: Scope::Node,
    // Jobs that fit still run, and a wrong profile affects all nodes.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Looks::start(|judge, (): &mut ()| total(judge, &MEMORY_TOTAL)),
};

/// The row of RDMA ports.
pub static PORTS: Check = Check {
    id: "rdma-ports-missing",
    fires_when: "Fewer RDMA ports are up than `health.expect.rdma_ports`.",
    clears_when: "3 consecutive readings, at least 100 s, with as many ports up, or without the key.",
    ignored_when: "The first 600 s after boot and 60 s after the start of nodewarden. A port that is unreadable, in another network namespace or assigned to a virtual machine counts as possibly up.",
    // A failed leaf switch takes one port of every node.
    scope: Scope::Shared,
    watch: || Looks::start(|judge, (): &mut ()| total(judge, &PORTS_UP)),
    ..MEMORY
};

/// The row of CPUs.
pub static CPUS: Check = Check {
    id: "cpu-missing",
    fires_when: "Fewer logical CPUs are online than `health.expect.cpus`.",
    clears_when: "3 consecutive readings, at least 100 s, with as many CPUs online, or without the key.",
    watch: || Looks::start(|judge, (): &mut ()| total(judge, &CPUS_ONLINE)),
    ..MEMORY
};

/// The row of mounts.
pub static MOUNTS: Check = Check {
    id: "mount-missing",
    fires_when: "A mount point of `health.expect.mounts` is not in the mount table.",
    clears_when: "3 consecutive readings, at least 100 s, with a filesystem mounted there, or without the entry.",
    ignored_when: "The first 600 s after boot and 60 s after the start of nodewarden. Mount points where an automounter waits for an access, and those next below its folder (indirect map).",
    // A storage server that was down at boot leaves every node without its mount.
    scope: Scope::Shared,
    watch: || Looks::start(|judge, (): &mut ()| conditions(judge, &MOUNTS, mounts(judge))),
    ..MEMORY
};

/// The row of modules.
pub static MODULES: Check = Check {
    id: "module-missing",
    fires_when: "A kernel module of `health.expect.modules` is not loaded.",
    clears_when: "3 consecutive readings, at least 100 s, with the module loaded, or without the entry.",
    watch: || Looks::start(|judge, (): &mut ()| conditions(judge, &MODULES, modules(judge))),
    ..MEMORY
};

/// An amount of which the node must have enough.
struct Total {
    check: &'static Check,
    what: &'static str,
    want: fn(&Expect) -> Option<u64>,
    /// The least amount that is enough.
    enough: fn(u64) -> u64,
    /// The amount, and its evidence beside what is expected.
    found: fn(&Judge<'_>, &str) -> Option<Amount>,
    show: fn(u64) -> String,
}

/// An amount that was read.
struct Amount {
    least: u64,
    /// With everything whose state is unknown.
    most: u64,
    at: Duration,
    evidence: String,
}

static PORTS_UP: Total = Total {
    check: &PORTS,
    what: "RDMA ports up",
    want: |expect| expect.rdma_ports,
    enough: |want| want,
    found: ports,
    show: |n| n.to_string(),
};

static MEMORY_TOTAL: Total = Total {
    check: &MEMORY,
    what: "memory",
    want: |expect| expect.memory,
    // Kernel and firmware keep up to 2 % of what is installed, differently after an update, and the kernel takes broken
    // pages out of use. One of 32 equal DIMMs is 3.1 %.
    enough: |want| want / 100 * 97,
    found: |judge, want| one(judge, Node::of(judge.snapshot).memory, want),
    show: size::show,
};

static CPUS_ONLINE: Total = Total {
    check: &CPUS,
    what: "CPUs online",
    want: |expect| expect.cpus,
    found: |judge, want| one(judge, Node::of(judge.snapshot).cpus, want),
    ..PORTS_UP
};

/// The amount in one series.
fn one(judge: &Judge<'_>, sample: Option<Sample<'_>>, want: &str) -> Option<Amount> {
    let sample = sample?;
    let amount = number(Some(&sample))?;
    Some(Amount {
        least: amount,
        most: amount,
        at: judge.read_at(&sample),
        evidence: evidence(&sample, want),
    })
}

/// The RDMA ports that are up. `None`: the ports were not read.
fn ports(judge: &Judge<'_>, want: &str) -> Option<Amount> {
    let collector = judge.snapshot.collector("rdma")?;
    if !matches!(collector.presence, Presence::Open | Presence::NotHere) {
        return None;
    }
    let rdma = &judge.site.settings.rdma;
    let about: Vec<&Port<'_>> = judge.ports.iter().filter(|p| rdma.is_about(&p.name)).collect();
    let is_up = |port: &&&Port<'_>| port.link() == Link::Up;
    let is_open = |port: &&&Port<'_>| port.link() == Link::Unknown;
    let up = about.iter().filter(is_up).count();
    // Late and failed ports have no series.
    let silent = collector.devices.iter().filter(|device| {
        device.subject.kind == SubjectKind::RdmaPort
            && !device.is_current(judge.snapshot.at, collector.max_age())
    });
    let seen: Vec<&PciAddress> = judge.ports.iter().filter_map(|p| p.pci.as_ref()).collect();
    let known = judge.known.adapters.iter().map(|(pci, _)| pci);
    let elsewhere = known
        .filter(|pci| !seen.contains(pci) && judge.host.slot(pci) == Slot::Registered)
        .count();
    let open =
        about.iter().filter(is_open).count() + silent.count() + elsewhere + judge.host.released().count();
    Some(Amount {
        least: u64::try_from(up).ok()?,
        most: u64::try_from(up + open).ok()?,
        at: judge
            .ports
            .iter()
            .map(|p| p.at)
            .max()
            .unwrap_or(judge.snapshot.at),
        evidence: format!(
            "{up} of {} ports up by {} and {}, expected {want}; {open} possibly up",
            about.len(),
            PORT_STATE.name,
            NETDEV_UP.name
        ),
    })
}

fn total<'a>(judge: &Judge<'a>, row: &Total) -> Vec<Judged<'a>> {
    let mut answers = Vec::new();
    if let Some(want) = (row.want)(&judge.site.settings.expect) {
        let (enough, show) = ((row.enough)(want), row.show);
        let found = (row.found)(judge, &show(want));
        let reading = match &found {
            Some(found) if found.least >= enough => Reading::Good,
            Some(found) if found.most < enough => Reading::Bad,
            _ => Reading::Unknown,
        };
        let (amount, at) = found.as_ref().map_or((0, judge.snapshot.at), |f| (f.least, f.at));
        answers.push(Answer {
            of: "total".to_owned(),
            reading,
            at,
            detail: format!("{}: {} found, {} expected", row.what, show(amount), show(want)),
            evidence: found.map(|f| f.evidence).unwrap_or_default(),
        });
    }
    conditions(judge, row.check, answers)
}

fn mounts(judge: &Judge<'_>) -> Vec<Answer> {
    let wanted = &judge.site.settings.expect.mounts;
    if wanted.is_empty() {
        return Vec::new();
    }
    let node = Node::of(judge.snapshot);
    let answer = |point: &String| {
        let mounted = node.mount(point);
        let reading = match (mounted.and_then(|m| m.label("fs_type")), &node.mounts) {
            // The filesystem is mounted at the next access, and unmounted when idle.
            (Some("autofs"), _) | (None, None) => Reading::Unknown,
            (Some(_), _) => Reading::Good,
            // An indirect map mounts it below its own folder.
            (None, Some(_)) if node.type_above(point) == Some("autofs") => Reading::Unknown,
            (None, Some(_)) => Reading::Bad,
        };
        Answer {
            of: point.clone(),
            reading,
            at: mounted
                .or(node.mounts.as_ref())
                .map_or(judge.snapshot.at, |s| judge.read_at(s)),
            detail: format!("{point} not mounted"),
            evidence: format!("host_mount_info{{mount_point={point:?}}} not in a complete mount table"),
        }
    };
    wanted.iter().map(answer).collect()
}

fn modules(judge: &Judge<'_>) -> Vec<Answer> {
    let wanted = &judge.site.settings.expect.modules;
    if wanted.is_empty() {
        return Vec::new();
    }
    let node = Node::of(judge.snapshot);
    let loaded = node.modules();
    let answer = |name: &String| Answer {
        of: name.clone(),
        reading: match &loaded {
            None => Reading::Unknown,
            Some((names, _)) if names.contains(&name.as_str()) => Reading::Good,
            Some(_) => Reading::Bad,
        },
        at: loaded
            .as_ref()
            .map_or(judge.snapshot.at, |(_, s)| judge.read_at(s)),
        detail: format!("module {name} not loaded"),
        evidence: format!("/proc/modules has no line {name} in state Live"),
    };
    wanted.iter().map(answer).collect()
}
