//! The engine's state for output.

use super::Mode;
use super::book::Book;
use super::checks::{is_of_site, xid};
use super::drain::State as DrainState;
use super::finding;
use super::incident::{Incident, Seen, Status};
use super::pause::Pause;
use super::policy::Policy;
use super::record::State;
use super::verdict::Verdict;
use super::view::{DrainView, FindingView, IncidentView, View};
use model::derive::affinity::Affinity;

/// The state to show.
pub(super) struct Shown<'a> {
    pub policy: &'a Policy,
    pub state: &'a State,
    pub book: &'a Book,
    pub verdict: Verdict,
    pub affinity: &'a [Affinity],
    /// Slurm's name of the node, and the node's Comment.
    pub node: Option<&'a (String, Option<String>)>,
    pub pause: Option<Pause>,
    /// The finding for which an incident acts, else the one that names it.
    pub cause: &'a dyn Fn(&Incident) -> Option<&Seen>,
}

/// An incident in one line: `xid79 gpu GPU-... act=reboot id=...`. Pages show it: of a command of the site it has the check, not
/// what the command printed. `cause`: the finding for which the verdict is unhealthy.
pub(super) fn line(incident: &Incident, cause: Option<&Seen>) -> String {
    let detail = cause.map_or("", public);
    format!(
        "{detail} {} act={} id={}",
        incident.subject,
        incident.remedy().word(),
        incident.id
    )
}

/// The detail of a finding for every user: a command of the site may print names of users.
fn public(seen: &Seen) -> &str {
    if is_of_site(&seen.check) {
        &seen.check
    } else {
        &seen.detail
    }
}

/// The most incidents that the text of a verdict names.
const NAMED: usize = 3;

/// `2 open incidents: gpu-slowdown gpu GPU-1, ...`: incidents that the text of the verdict does not name yet. `more`: the
/// word behind their number. `None`: none.
pub(super) fn open<'a>(incidents: impl Iterator<Item = &'a Incident>, more: &str) -> Option<String> {
    let name = |i: &Incident| {
        let check = i.root().map_or("", |r| r.check.as_str());
        let name = format!("{check} {}", i.subject);
        match i.status {
            Status::Overridden => format!("{} (an operator lifted its drain)", name.trim_end()),
            Status::Open | Status::Cleared => name.trim_end().to_owned(),
        }
    };
    let mut names: Vec<String> = incidents.map(name).collect();
    let (count, s) = (names.len(), if names.len() == 1 { "" } else { "s" });
    if count > NAMED {
        names.truncate(NAMED);
        names.push("...".to_owned());
    }
    (count > 0).then(|| format!("{count}{more} open incident{s}: {}", names.join(", ")))
}

/// The view of the whole state.
pub(super) fn view(shown: &Shown<'_>) -> View {
    let order = |i: &&Incident| match i.status {
        Status::Open => 0,
        Status::Overridden => 1,
        Status::Cleared => 2,
    };
    let mut incidents: Vec<&Incident> = shown.book.incidents.iter().collect();
    // Closed incidents latest first, the others in order of their start.
    incidents.sort_by_key(|i| (order(i), std::cmp::Reverse(i.closed)));
    let pairs = |map: &std::collections::BTreeMap<String, u64>| {
        map.iter().map(|(check, count)| (check.clone(), *count)).collect()
    };
    View {
        verdict: shown.verdict.clone(),
        incidents: incidents.into_iter().map(|i| incident(shown, i)).collect(),
        drain: drain(shown.state),
        comment: comment(shown),
        node: shown.node.map(|(name, _)| name.clone()),
        pause: shown.pause.clone(),
        pauses: shown.state.pauses,
        would_drain: pairs(&shown.state.would_drain),
        drains: pairs(&shown.state.drains),
        undrains: shown.state.undrains,
        overrides: shown.state.overrides,
        dropped: shown.book.dropped,
        ledger: shown.state.ledger.clone(),
        affinity: shown.affinity.to_vec(),
    }
}

/// The incident in the node's Comment. A person may have replaced the text.
fn comment(shown: &Shown<'_>) -> Option<String> {
    let id = &shown.state.comment.stands_for()?.0;
    let stands = |text: &Option<String>| text.as_ref().is_some_and(|text| text.contains(id.as_str()));
    shown
        .node
        .is_none_or(|(_, text)| stands(text))
        .then(|| id.clone())
}

fn incident(shown: &Shown<'_>, incident: &Incident) -> IncidentView {
    let policy = shown.policy;
    let root = incident.root();
    let check = root.map(|r| r.check.clone()).unwrap_or_default();
    IncidentView {
        id: incident.id.0.clone(),
        state: incident.status.word().to_owned(),
        subject: incident.subject.to_string(),
        subject_kind: incident.subject.kind.word().to_owned(),
        subject_name: incident.subject.name.clone(),
        pci: incident.pci.as_ref().map_or(String::new(), |pci| pci.0.clone()),
        mode: policy
            .mode_of(incident)
            .unwrap_or_else(|| policy.effective(&check)),
        could: policy.could_of(incident).unwrap_or_else(|| policy.could(&check)),
        check,
        cause: (shown.cause)(incident).map_or_else(String::new, |seen| seen.check.clone()),
        detail: root.map(|r| r.detail.clone()).unwrap_or_default(),
        meaning: root.map_or_else(String::new, |r| meaning(policy, r)),
        act: incident.remedy().word().to_owned(),
        acts: incident.acts(),
        drains: policy.mode_of(incident) == Some(Mode::Drain) && incident.status != Status::Overridden,
        since: incident.opened,
        closed: incident.closed,
        clears: incident
            .closed_why
            .clone()
            .unwrap_or_else(|| will_clear(incident)),
        findings: incident.findings.iter().map(finding).collect(),
        history: incident.history.clone(),
        ack: incident
            .ack
            .as_ref()
            .map(|a| (a.by.clone(), a.at, a.reason.clone())),
    }
}

/// Of the detail `xid79`: the words of its row.
fn meaning(policy: &Policy, seen: &Seen) -> String {
    let code = seen
        .detail
        .strip_prefix("xid")
        .filter(|_| seen.check == xid::CHECK.id);
    let row = code.and_then(|code| policy.site.xids.row(code.parse().ok()?));
    row.map_or_else(String::new, |row| row.meaning.clone())
}

fn finding(seen: &Seen) -> FindingView {
    FindingView {
        check: seen.check.clone(),
        detail: seen.detail.clone(),
        count: seen.count,
        first: seen.first,
        last: seen.last,
        evidence: seen.evidence.clone(),
        jobs: seen.jobs.clone(),
        others: seen.others,
    }
}

/// How an open incident clears, in one line, which pages show.
fn will_clear(incident: &Incident) -> String {
    let mut parts: Vec<String> = incident
        .findings
        .iter()
        .filter(|s| s.stands() || ((!incident.drains() || s.key.is_some()) && s.resolved.is_none()))
        .map(|s| format!("{}: {}", public(s), finding::ends(&s.clears, &s.needs)))
        .collect();
    parts.dedup();
    parts.join("; ")
}

fn drain(state: &State) -> DrainView {
    let drain = &state.drain;
    DrainView {
        state: drain.state.word().to_owned(),
        why: drain.why.clone(),
        incident: drain.incident.as_ref().map(|i| i.0.clone()),
        reason: drain.reason.clone(),
        since: drain.since,
        recorded: drain.state != DrainState::None && drain.is_recorded(),
        held: drain.held,
        guard: drain.guard.clone(),
    }
}
