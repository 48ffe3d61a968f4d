//! Check `rdma-port-down`: a port that was in use is down.

use std::collections::BTreeMap;
use std::time::Duration;

use collectors::rdma::metrics::NETDEV_UP;
use collectors::{Subject, SubjectKind};

use super::{Check, Looks, May, Scope, Version};
use crate::condition::{Judged, Pace, Reading, Run};
use crate::finding::{Finding, Joins, Rank, Remedy};
use crate::judge::{Judge, evidence};
use crate::reads::group::{Fabric, Fault, Group};
use crate::reads::port::{Link, Port, number};

/// The row.
pub static CHECK: Check = Check {
    id: "rdma-port-down",
    subject: SubjectKind::RdmaPort,
    fires_when: "A port that was in use is not active, or its network interface or a member of its bond is down. In a group of fewer than 4 ports, with most of them down, or for a disabled InfiniBand port, the finding never drains.",
    lasting: "8 consecutive readings, at least 240 s",
    clears_when: "3 consecutive readings, at least 600 s, with the port active.",
    ignored_when: "The first 600 s after boot and 60 s after the start of nodewarden. Ports never in use, and members of a bond that never had a link.",
    scope: Scope::Node,
    // A failed rail or leaf switch takes down one port of every node: each node would drain.
    may: May::CommentOrDrain,
    since: Version(0, 1, 0),
    watch: || Looks::start(conditions),
};

/// Until then not every worker has reported, and peers may be missing.
const START_GRACE: Duration = Duration::from_secs(60);

/// Longer than a driver reload, the restart of a switch's line card or the reseating of a cable.
static PACE: Pace = Pace {
    bad: 8,
    bad_span: Duration::from_secs(240),
    good: 3,
    hold: Duration::from_secs(600),
};

fn conditions<'a>(judge: &Judge<'a>, _: &mut ()) -> Vec<Judged<'a>> {
    let settled = judge.is_booted() && judge.since_start >= START_GRACE;
    let mut judged = Vec::new();
    let mut fabrics: BTreeMap<&Fabric, Vec<&Group<'_>>> = BTreeMap::new();
    for group in judge.groups {
        judged.extend(
            group
                .ports
                .iter()
                .map(|port| alone(group, port, group.fault(), settled)),
        );
        let disabled = group.disabled.iter();
        judged.extend(disabled.map(|port| alone(group, port, group.fault_of_disabled(), settled)));
        fabrics.entry(&group.fabric).or_default().push(group);
    }
    for (fabric, groups) in fabrics {
        judged.extend(together(fabric, groups, settled));
    }
    judged
}

/// One port.
fn alone<'a>(group: &'a Group<'a>, port: &'a Port<'a>, fault: Fault, settled: bool) -> Judged<'a> {
    let reading = match (port.full_link(), fault) {
        _ if !settled => Reading::Unknown,
        (Link::Up, _) => Reading::Good,
        (Link::Down | Link::Disabled, Fault::Node | Fault::Untold) => Reading::Bad,
        (Link::Down | Link::Disabled, Fault::Shared | Fault::Unknown) | (Link::Unknown, _) => {
            Reading::Unknown
        }
    };
    let key = format!("{} {}", CHECK.id, port.id);
    judge_of(key, port.subject(), reading, port.at, move || {
        finding(group, port, fault)
    })
}

fn finding(group: &Group<'_>, port: &Port<'_>, fault: Fault) -> Finding {
    let interface = port.one(&NETDEV_UP).filter(|s| number(Some(s)) == Some(0));
    let member = port.lost_member();
    // An InfiniBand port without a cable or a module says so too, so it cannot be an administrator's act for sure.
    let is_disabled = port.link() == Link::Disabled;
    let what = match (port.has_link(), interface) {
        _ if is_disabled => "disabled or not connected",
        _ if port.is_reduced() => "LAG member down",
        (false, _) => "link down",
        (true, Some(_)) => "interface down",
        (true, None) => "not active",
    };
    let whose = if is_disabled {
        "an administrator may have disabled it"
    } else if fault == Fault::Node {
        "fault of this node: cable, transceiver or adapter"
    } else {
        "too few ports to attribute the fault, so it never drains"
    };
    let lines: Vec<String> = [
        port.state.as_ref().map(|s| evidence(s, "4")),
        port.physical.as_ref().map(|s| evidence(s, "5")),
        interface.map(|s| evidence(s, "1")),
        member.map(|s| evidence(s, "1")),
        Some(format!("{}: {whose}", group.words())),
    ]
    .into_iter()
    .flatten()
    .collect();
    Finding {
        pci: port.pci.clone(),
        detail: format!("{what}{}", port.place()),
        remedy: Remedy::Inspect,
        drains: true,
        comments_only: fault != Fault::Node || is_disabled,
        joins: Joins::Opens,
        evidence: lines.join("; "),
        ..Finding::of_condition(CHECK.id, port.subject())
    }
}

/// The groups of one fabric together. Its key has no rates, names or members: they change.
fn together<'a>(fabric: &'a Fabric, groups: Vec<&'a Group<'a>>, settled: bool) -> Option<Judged<'a>> {
    // An unreadable port must not delay the others.
    let seen = |p: &&&Port<'_>| matches!(p.full_link(), Link::Up | Link::Down);
    let ports = groups.iter().flat_map(|g| &g.ports);
    let at = ports.filter(seen).map(|p| p.at).min()?;
    let of_fault = |fault: Fault| groups.iter().filter(move |g| g.fault() == fault);
    let reading = match () {
        () if !settled => Reading::Unknown,
        () if of_fault(Fault::Shared).next().is_some() => Reading::Bad,
        () if groups.iter().all(|g| g.fault() == Fault::Node || g.is_up()) => Reading::Good,
        () => Reading::Unknown,
    };
    let key = format!("{} together {}", CHECK.id, fabric.key());
    Some(judge_of(key, Subject::node(), reading, at, move || {
        finding_of_most(fabric, &groups)
    }))
}

fn finding_of_most(fabric: &Fabric, groups: &[&Group<'_>]) -> Finding {
    let of_fault = |fault: Fault| groups.iter().filter(move |g| g.fault() == fault);
    let shared: Vec<String> = of_fault(Fault::Shared).map(|g| g.words()).collect();
    let ports = of_fault(Fault::Shared).flat_map(|g| &g.ports);
    let down: Vec<&&Port<'_>> = ports.filter(|p| p.full_link() == Link::Down).collect();
    // Ports that have lost one link of several are up.
    let (whose, metrics) = if down.iter().any(|p| p.is_reduced()) {
        ("a link of most", "rdma_port_state, rdma_lag_member_up")
    } else {
        ("most", "rdma_port_state")
    };
    let name = |port: &&&Port<'_>| match port.lost_member().and_then(|s| s.label("netdev")) {
        Some(member) if port.is_reduced() => format!("{member} of {}", port.name),
        _ => port.name.clone(),
    };
    let between = if metrics.contains(',') { ", " } else { " " };
    let down: Vec<String> = down.iter().map(name).collect();
    Finding {
        detail: format!("{whose} {fabric} down together"),
        rank: Rank::Shared(""),
        remedy: Remedy::Inspect,
        drains: false,
        joins: Joins::Opens,
        evidence: format!(
            "{metrics}: {}: shared (switch, subnet manager, power), so it never drains; down: {}",
            shared.join(", "),
            down.join(between)
        ),
        ..Finding::of_condition(CHECK.id, Subject::node())
    }
}

/// `finding`: made if the condition changes, most never do.
fn judge_of<'a>(
    key: String,
    subject: Subject,
    reading: Reading,
    at: Duration,
    finding: impl FnOnce() -> Finding + 'a,
) -> Judged<'a> {
    Judged {
        key,
        subject,
        reading,
        at,
        pace: &PACE,
        finding: Box::new(move |run: Run| {
            let mut finding = finding();
            finding.evidence = format!("{run}: {}", finding.evidence);
            finding
        }),
    }
}
