//! All incidents: which finding belongs to which, how many are kept, and how they end.

use std::time::Duration;

use collectors::{BootId, PciAddress, Subject, SubjectKind};

use super::finding::{Clear, Finding, Joins, Need, Remedy};
use super::id;
use super::incident::{At, Incident, Seen, Status};
use super::reads::gpu::all;
use super::reads::host::{Host, Place, Slot};
use model::scheduler::IncidentId;

/// The most open and overridden incidents.
pub(super) const MAX_OPEN: usize = 256;
/// Further ones, only for findings that drain: the others must not keep a broken node in service.
pub(super) const MAX_DRAINING: usize = 64;
/// The most of one check, of findings that do not drain: an outage of a filesystem with hundreds of servers must not take all places.
pub(super) const MAX_OF_CHECK: usize = 64;
/// The most closed incidents.
const MAX_CLOSED: usize = 50;
/// The most findings that wait for an incident that explains them.
const MAX_LOOSE: usize = 64;

/// What an operator knew when they undrained the node or cleared an incident.
#[derive(Debug)]
pub(super) struct Known {
    pub subject: Subject,
    /// A finding reports that the subject is not on the bus.
    pub gone: bool,
    /// The checks with findings.
    pub checks: Vec<String>,
    /// The conditions, with the check of each.
    pub conditions: Vec<(String, String)>,
}

impl Known {
    /// The facts of an incident, of these findings.
    pub(super) fn of(incident: &Incident, which: impl Fn(&Seen) -> bool) -> Self {
        let seen = || incident.findings.iter().filter(|seen| which(seen));
        let key = |s: &Seen| Some((s.check.clone(), s.key.clone()?));
        Self {
            subject: incident.subject.clone(),
            gone: seen().any(|s| s.clears.contains(&Clear::GpuPresent)),
            checks: seen().map(|s| s.check.clone()).collect(),
            conditions: seen().filter_map(key).collect(),
        }
    }
}

/// The incidents that an operator's lift silenced.
#[derive(Debug, Default)]
pub(super) struct Silenced {
    /// What the operator knew.
    pub known: Vec<Known>,
    /// Their findings that the operator could not know.
    pub news: Vec<Finding>,
}

/// The effect of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// No stored change.
    Nothing,
    /// Dropped because of [`MAX_OPEN`] or [`MAX_OF_CHECK`], and counted.
    Dropped,
    /// Counts only.
    Counted,
    /// An incident changed or opened.
    Changed,
}

/// A finding that opens no incident, kept while an incident that explains it may still open.
#[derive(Debug)]
struct Loose {
    at_ms: u64,
    finding: Finding,
}

/// The time of a step, and the settle window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    pub at: At<'a>,
    pub settle: Duration,
}

/// All incidents, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub incidents: Vec<Incident>,
    /// The time at which the record was created.
    pub origin: i64,
    /// Serial number of the next incident.
    pub serial: u64,
    /// Findings dropped because of [`MAX_OPEN`] or [`MAX_OF_CHECK`].
    pub dropped: u64,
    loose: Vec<Loose>,
}

impl Book {
    pub(super) fn open(&self) -> impl Iterator<Item = &Incident> {
        self.incidents.iter().filter(|i| i.status == Status::Open)
    }

    /// Whether an open incident has the condition as a finding that requires no act.
    pub(super) fn is_open_without_drain(&self, key: &str) -> bool {
        let of = self.open().flat_map(|incident| &incident.findings);
        let mut of = of.filter(|seen| seen.resolved.is_none() && seen.key.as_deref() == Some(key));
        // One with another text may require it by now.
        let is_mild = |seen: &Seen| !seen.drains || seen.comments_only;
        of.next().is_some_and(is_mild) && of.all(is_mild)
    }

    /// Whether an open incident, whose drain no operator has lifted, has the finding.
    pub(super) fn stands(&self, finding: &Finding) -> bool {
        let has = |i: &Incident| i.lift.is_none() && i.subject == finding.subject && i.has_open(finding);
        self.open().any(has)
    }

    /// The incidents that are not closed, also those whose drain an operator lifted.
    pub(super) fn shown(&self) -> impl Iterator<Item = &Incident> {
        self.incidents.iter().filter(|i| i.status != Status::Cleared)
    }

    /// Whether an operator's lift still counts for any incident.
    pub(super) fn any_lifted(&self) -> bool {
        self.incidents
            .iter()
            .any(|i| i.status == Status::Overridden || (i.status == Status::Open && i.lift.is_some()))
    }

    /// Takes a finding. `may_drain`: whether its check may drain the node for it.
    pub(super) fn take(&mut self, finding: Finding, frame: Frame<'_>, may_drain: bool) -> Taken {
        if let Some(at) = self.home(&finding, frame) {
            let incident = &mut self.incidents[at];
            let known = incident.is_repeated_by(&finding, frame.at.boot);
            incident.add(finding, frame.at);
            return if known { Taken::Counted } else { Taken::Changed };
        }
        if finding.joins == Joins::Follows {
            self.keep_loose(finding, frame);
            return Taken::Nothing;
        }
        let standing = self.incidents.iter().filter(|i| i.status != Status::Cleared);
        let is_of_check = |i: &&Incident| i.root().is_some_and(|root| root.check == finding.check);
        let is_full = if may_drain {
            standing.count() >= MAX_OPEN + MAX_DRAINING
        } else {
            standing.clone().count() >= MAX_OPEN || standing.filter(is_of_check).count() >= MAX_OF_CHECK
        };
        if is_full {
            self.dropped = self.dropped.saturating_add(1);
            return Taken::Dropped;
        }
        self.begin(finding, frame);
        Taken::Changed
    }

    /// A subject was renamed.
    pub(super) fn rename(&mut self, from: &Subject, to: &Subject) {
        for incident in self
            .incidents
            .iter_mut()
            .filter(|i| i.status != Status::Cleared && i.subject == *from)
        {
            incident.subject = to.clone();
        }
        for loose in self.loose.iter_mut().filter(|l| l.finding.subject == *from) {
            loose.finding.subject = to.clone();
        }
    }

    /// The incident that a finding belongs to.
    fn home(&self, finding: &Finding, frame: Frame<'_>) -> Option<usize> {
        let open = |i: &Incident| i.status == Status::Open;
        // Findings about the node join only those of the same check.
        let kin = |i: &Incident| {
            finding.subject.kind != SubjectKind::Node || i.root().is_some_and(|r| r.check == finding.check)
        };
        let same = |i: &Incident| i.subject == finding.subject && kin(i);
        let find = |wanted: &dyn Fn(&Incident) -> bool| self.incidents.iter().position(wanted);
        let stands = |i: &Incident| finding.key.as_ref().is_some_and(|key| i.has_key(key));
        find(&|i| open(i) && same(i) && i.has(finding))
            // The same condition, with another text by now.
            .or_else(|| find(&|i| open(i) && same(i) && stands(i)))
            .or_else(|| find(&|i| open(i) && same(i) && i.settling(frame.at.boot, frame.at.now_ms)))
            .or_else(|| {
                // A GPU that a reboot brings back. A hot one, for example, is not the one that is missing.
                let is_of_gpu =
                    |i: &Incident| i.subject.kind == SubjectKind::Gpu && i.remedy() >= Remedy::Reboot;
                match finding.joins {
                    Joins::Opens | Joins::Follows => None,
                    Joins::Attaches => find(&|i| open(i) && same(i)),
                    Joins::AttachesToGpu => find(&|i| open(i) && (same(i) || is_of_gpu(i))),
                }
            })
    }

    fn next_id(&mut self, finding: &Finding, at: At<'_>) -> IncidentId {
        let (time, serial) = ((self.origin, at.now_ms), self.serial);
        self.serial += 1;
        id::incident(at.boot, time, serial, &finding.subject, &finding.check)
    }

    fn begin(&mut self, finding: Finding, frame: Frame<'_>) {
        let now_ms = frame.at.now_ms;
        let id = self.next_id(&finding, frame.at);
        let settle = u64::try_from(frame.settle.as_millis()).unwrap_or(u64::MAX);
        let settles_ms = now_ms.saturating_add(settle);
        let mut incident = Incident::open(id, finding, frame.at, settles_ms);
        let (followed, rest) = std::mem::take(&mut self.loose)
            .into_iter()
            .filter(|l| l.at_ms.saturating_add(settle) >= now_ms)
            .partition(|l| l.finding.subject == incident.subject && !incident.has(&l.finding));
        self.loose = rest;
        for loose in Vec::into_iter(followed) {
            incident.add(loose.finding, frame.at);
        }
        self.incidents.push(incident);
    }

    /// Opens the incident of a record that was lost, behind the drain that stands. `id`: the one in the drain's reason;
    /// nothing is opened where an incident has it already.
    pub(super) fn restore(&mut self, finding: Finding, id: Option<&IncidentId>, at: At<'_>) {
        if id.is_some_and(|id| self.incidents.iter().any(|i| i.id == *id)) {
            return;
        }
        let id = id.cloned().unwrap_or_else(|| self.next_id(&finding, at));
        let mut incident = Incident::open(id, finding, at, at.now_ms);
        incident.behind = true;
        self.incidents.push(incident);
    }

    fn keep_loose(&mut self, finding: Finding, frame: Frame<'_>) {
        let known = self
            .loose
            .iter_mut()
            .find(|l| l.finding.subject == finding.subject && l.finding.detail == finding.detail);
        if let Some(loose) = known {
            loose.at_ms = frame.at.now_ms;
            loose.finding.count = loose.finding.count.saturating_add(finding.count);
            return;
        }
        if self.loose.len() >= MAX_LOOSE {
            self.loose.remove(0);
        }
        self.loose.push(Loose {
            at_ms: frame.at.now_ms,
            finding,
        });
    }

    /// Ends the findings for which `over` returns a reason. Closes incidents with nothing left to repair. Returns
    /// whether anything changed.
    pub(super) fn resolve(&mut self, wall: i64, over: impl Fn(&Incident, &Seen) -> Option<String>) -> bool {
        let mut changed = false;
        for incident in self.incidents.iter_mut().filter(|i| i.status != Status::Cleared) {
            let reasons: Vec<Option<String>> = incident
                .findings
                .iter()
                .map(|seen| seen.resolved.is_none().then(|| over(incident, seen)).flatten())
                .collect();
            let mut last = None;
            for (seen, reason) in incident.findings.iter_mut().zip(reasons) {
                if let Some(reason) = reason {
                    seen.resolved = Some(reason.clone());
                    last = Some((seen.detail.clone(), reason));
                }
            }
            let Some((detail, reason)) = last else {
                continue;
            };
            changed = true;
            incident.note(wall, format!("{detail} ended: {reason}"));
            if incident.is_resolved() {
                incident.close(wall, reason);
            }
            incident.let_go();
        }
        changed
    }

    /// The driver reports that a GPU needs no action.
    pub(super) fn verdict_none(&mut self, gpu: &Subject, wall: i64) -> bool {
        self.loose.retain(|l| l.finding.subject != *gpu);
        self.resolve(wall, |incident, seen| {
            let by = Clear::VerdictNone;
            let ended = incident.subject == *gpu && seen.clears.contains(&by) && seen.needs.is_empty();
            ended.then(|| by.happened().to_owned())
        })
    }

    /// A remedy was seen. Ends findings that list it, were last seen up to `until` (in milliseconds of that boot, as
    /// the wall clock may jump) and need nothing beyond `met`.
    pub(super) fn remedied(
        &mut self,
        subject: &Subject,
        by: Clear,
        (boot, until_ms): (&BootId, u64),
        met: &[Need],
        wall: i64,
    ) -> bool {
        self.resolve(wall, |incident, seen| {
            let ended = incident.subject == *subject
                && seen.clears.contains(&by)
                && !seen.is_after(boot, until_ms)
                && seen.needs.iter().all(|need| met.contains(need));
            ended.then(|| by.happened().to_owned())
        })
    }

    /// A snapshot of a later boot: ends findings that a reboot clears, if their subject is healthy and their needs are
    /// met. Marks those that it leaves standing, unless a reading that may end one is still unknown (`None`), and those
    /// whose device this boot does not have.
    /// `seat`: the address of an incident's GPU in this boot.
    pub(super) fn rebooted(
        &mut self,
        boot: &BootId,
        host: &Host,
        (seat, is_met): (
            impl Fn(&Incident) -> Option<PciAddress>,
            impl Fn(&Incident, Need) -> Option<bool>,
        ),
        wall: i64,
    ) -> bool {
        let is_over = |incident: &Incident, seen: &Seen| {
            let needs = seen.needs.iter();
            let needs = needs.map(|need| is_met(incident, *need));
            let ends = seen.clears.contains(&Clear::Reboot);
            all(needs.chain([
                Some(ends),
                is_healthy(incident, seat(incident).as_ref(), seen, host),
            ]))
        };
        for incident in self.incidents.iter_mut().filter(|i| i.status != Status::Cleared) {
            let outlived = |seen: &Seen| seen.boot != *boot && is_over(incident, seen) == Some(false);
            let outlived: Vec<bool> = incident.findings.iter().map(outlived).collect();
            let seat = seat(incident);
            let is_gone = |seen: &Seen| is_gone(&incident.subject, seat.as_ref(), seen, host);
            let gone: Vec<Option<bool>> = incident.findings.iter().map(is_gone).collect();
            for ((seen, outlived), gone) in incident.findings.iter_mut().zip(outlived).zip(gone) {
                seen.outlived_boot |= outlived;
                seen.is_gone = gone.unwrap_or(seen.is_gone) && seen.boot != *boot;
            }
        }
        self.resolve(wall, |incident, seen| {
            let ended = seen.boot != *boot && is_over(incident, seen) == Some(true);
            ended.then(|| Clear::Reboot.happened().to_owned())
        })
    }

    /// The condition `key` is healthy again. `finding` identifies findings without a key, in records of the first
    /// release.
    pub(super) fn well(&mut self, key: &str, finding: &Finding, wall: i64) -> bool {
        self.resolve(wall, |incident, seen| {
            let is_it = match &seen.key {
                Some(of) => of == key,
                None => {
                    (incident.subject == finding.subject || finding.subject.kind == SubjectKind::Node)
                        && seen.detail == finding.detail
                }
            };
            (is_it && seen.check == finding.check).then(|| Clear::Condition.happened().to_owned())
        })
    }

    /// An operator lifted the drain. `shown_ms`: when it was last seen in place, since boot. Incidents that began later
    /// are news to the operator, and so are later findings of the others.
    pub(super) fn lifted_by_operator(
        &mut self,
        frame: Frame<'_>,
        shown_ms: u64,
        wants: impl Fn(&Incident) -> bool,
    ) -> Silenced {
        let boot = frame.at.boot;
        let mut silenced = Silenced::default();
        for incident in &mut self.incidents {
            if incident.began_after(boot, shown_ms) {
                incident.behind = false;
            } else if incident.status == Status::Open
                && (incident.behind || wants(incident))
                && incident.lifted(frame.at)
            {
                let is_news = |seen: &Seen| seen.stands() && seen.is_after(boot, shown_ms);
                let news = incident.findings.iter().filter(|seen| is_news(seen));
                silenced
                    .news
                    .extend(news.filter_map(|seen| seen.finding_of(incident)));
                silenced.known.push(Known::of(incident, |seen| !is_news(seen)));
            }
        }
        silenced
    }

    /// Keeps the latest closed incidents, and the one that a drain in Slurm names.
    pub(super) fn forget_old(&mut self, named: Option<&IncidentId>) {
        let closed = |i: &Incident| i.status == Status::Cleared && Some(&i.id) != named;
        let mut surplus = self
            .incidents
            .iter()
            .filter(|i| closed(i))
            .count()
            .saturating_sub(MAX_CLOSED);
        while surplus > 0 {
            let oldest = self
                .incidents
                .iter()
                .enumerate()
                .filter(|(_, i)| closed(i))
                .min_by_key(|(_, i)| i.closed);
            let Some((at, _)) = oldest else { break };
            self.incidents.remove(at);
            surplus -= 1;
        }
    }
}

/// Whether this boot does not have the device of a condition, or the controller of errors. `None`: not read.
fn is_gone(subject: &Subject, seat: Option<&PciAddress>, seen: &Seen, host: &Host) -> Option<bool> {
    match subject.kind {
        SubjectKind::Gpu if seen.condition().is_some() => match host.place(seat?) {
            Place::Unknown => None,
            place => Some(place == Place::Gone),
        },
        SubjectKind::MemoryController if seen.clears.contains(&Clear::Reboot) => {
            Some(host.lacks_controller(&subject.name))
        }
        // A network function that this boot has not had and no configuration names.
        SubjectKind::Pci if seen.condition().is_some() => {
            let slot = PciAddress::parse(&subject.name).map(|pci| host.slot(&pci));
            (slot != Some(Slot::Unknown)).then_some(slot == Some(Slot::Gone))
        }
        _ => Some(false),
    }
}

/// Whether the subject is healthy in this boot, as far as visible without the driver's library. `None`: not read. What no
/// reading shows is not healthy.
fn is_healthy(incident: &Incident, seat: Option<&PciAddress>, seen: &Seen, host: &Host) -> Option<bool> {
    match incident.subject.kind {
        SubjectKind::Gpu => match host.place(seat?) {
            Place::Present(false) if seen.clears.contains(&Clear::GpuPresent) => None,
            // Neither the driver nor a library can show that it works.
            Place::Present(_) if host.has_other_driver(seat?) => None,
            Place::Present(_) => Some(true),
            Place::Silent | Place::Gone => Some(false),
            Place::Reassigned | Place::Unknown => None,
        },
        SubjectKind::MemoryController => {
            let errors = host.uncorrected.get(&incident.subject.name)?;
            Some(*errors == 0)
        }
        _ => Some(false),
    }
}
