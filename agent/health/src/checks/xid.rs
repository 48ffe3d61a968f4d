//! Check `xid`: Xids of the NVIDIA driver, judged by the driver's verdict first, then by the Xid table.

mod declared;
mod pending;
mod repeats;
mod resets;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use collectors::event::{Recovery, Xid, XidSource};
use collectors::gpu::metrics as m;
use collectors::{Event, EventBody, Subject, SubjectKind};
use model::derive::xid::gpu_label;
use serde::{Deserialize, Serialize};

use super::{Check, Forget, Heard, Kept, May, Said, Scope, Version, Watch};
use crate::Now;
use crate::finding::{Clear, Finding, Joins, Need, Rank, Remedy};
use crate::judge::Judge;
use crate::reads::gpu::{Gpu, whole};
use crate::xids::{Response, Row};
use declared::Declared;
use pending::Pending;
use repeats::Repeats;
use resets::{Counters, Resets};

/// The row.
pub static CHECK: Check = Check {
    id: "xid",
    subject: SubjectKind::Gpu,
    fires_when: "The NVIDIA driver logs an Xid whose row in the Xid table, or whose recovery verdict, requires a drain. Xid 173 and errors of NVLink 5 that the line calls fatal: shown, never drain.",
    lasting: "immediately; register bits that count only when repeated: 3 times in 24 h, ECC and parity bits on the same NVLink",
    clears_when: "The driver's verdict None, a GPU reset, or a reboot after which the GPU responds, as the Xid's row lists. Otherwise only `nodewarden clear`.",
    ignored_when: "Codes without a row. Lines older than 15 min or logged before the first start, unless the row allows confirmation and the GPU is off the bus.",
    scope: Scope::Node,
    may: May::Drain,
    since: Version(0, 1, 0),
    watch: || Box::<State>::default(),
};

/// The code that the driver logs when a GPU no longer responds.
const FALLEN_OFF_BUS: u32 = 79;

/// The Xid of an event. The line about a lost GPU has no code and means 79.
pub(super) fn of(event: &Event) -> Option<Cow<'_, Xid>> {
    match &event.body {
        EventBody::Xid(xid) => Some(Cow::Borrowed(xid)),
        EventBody::FallenOffBus { pci } => Some(Cow::Owned(Xid {
            pci: pci.clone(),
            code: FALLEN_OFF_BUS,
            ..Xid::default()
        })),
        _ => None,
    }
}

/// The response to the driver's verdict. `None`: no action needed.
const fn response_to(verdict: Recovery) -> Option<Response> {
    match verdict {
        Recovery::None => None,
        Recovery::DrainP2p | Recovery::DrainAndReset => Some(Response::DrainAtJobEnd),
        Recovery::GpuReset => Some(Response::ResetGpu),
        Recovery::NodeReboot => Some(Response::Reboot),
    }
}

/// The response of a row to a line. `again`: repeated register bits have reached their limit.
fn response(row: &Row, xid: &Xid, again: bool) -> Response {
    if row.by_verdict {
        // An unknown verdict is an event, like an unknown code.
        return xid.recovery.and_then(response_to).unwrap_or(Response::Observe);
    }
    // The library reports the code only. The registers in the kernel's line decide, once it arrives.
    if xid.source == XidSource::Nvml && !row.registers.is_empty() {
        return Response::Observe;
    }
    let is_read = !row.registers.is_empty() && !xid.words.is_empty();
    if is_read && !again && !row.is_serious(&xid.words) {
        return Response::Observe;
    }
    match xid.recovery.and_then(response_to) {
        Some(verdict) if !row.action.drains() => verdict,
        // An error of NVLink 5. Whether it needs a reset, the driver says in a line of its own, but not each time.
        None if xid.fatal == Some(true) && row.action == Response::Observe => Response::Comment,
        _ => row.action,
    }
}

/// The stored state.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Stored {
    /// Unconfirmed lines from before the first start.
    pending: Pending,
    /// Errors that count only when repeated. `repeats` of earlier versions named no link and no time since boot.
    repeated: Repeats,
    /// What shows a reset, also one while nodewarden does not run.
    resets: Resets,
}

#[derive(Default)]
struct State {
    stored: Stored,
    declared: Declared,
    /// GPUs that the driver declared healthy in old lines, without a fault after them so far.
    well: BTreeSet<String>,
}

impl Watch for State {
    fn hear(&mut self, heard: &Heard<'_>) -> Vec<Said> {
        if matches!(heard.event.body, EventBody::Overrun { .. }) {
            // A lost line may name a fault after a reset that nodewarden did not see.
            self.stored.resets.drop_restored(None);
        }
        let Some(xid) = of(heard.event) else {
            return Vec::new();
        };
        // The kernel log's line of the same fault has more detail, and is judged whether it comes first or last.
        if heard.new == 0 && xid.source == XidSource::Nvml {
            return Vec::new();
        }
        let row = match heard.site.xids.row(xid.code) {
            Some(row) => row,
            None => &Row::unlisted(xid.code),
        };
        let gpu = gpu_label(heard.inventory, &xid.pci);
        let well = row.is_well(&xid);
        // A fault that an old line ended may have occurred again after it: decide when the whole log was read.
        if well && heard.stale {
            self.well.insert(gpu.clone());
        } else if !well {
            self.well.remove(&gpu);
        }
        if well {
            self.stored.pending.drop_of(Some(&xid.pci));
            let now = (!heard.stale).then(|| self.declare(&gpu, heard.now));
            return now.into_iter().collect();
        }
        if heard.is_old() {
            // It opens nothing, and a reset before it must end nothing either.
            self.stored.resets.drop_restored(Some(&gpu));
            if row.confirm.is_some() {
                let (text, now) = (&heard.event.text, heard.now.boottime);
                self.stored.pending.keep(&xid, heard.count(), text, now);
            }
            return Vec::new();
        }
        let mut again = false;
        let rebooted = matches!(row.action.remedy(), Remedy::ResetGpu | Remedy::Reboot);
        for kind in row.kinds(&xid.words, xid.link) {
            let repeated = &mut self.stored.repeated;
            again |= repeated.add(&gpu, &kind, heard.count(), heard.now, rebooted);
        }
        let asked = response(row, &xid, again);
        if asked != Response::Observe {
            // A verdict does not cover later faults.
            self.declared.forget(&gpu);
        }
        let finding = from_row(row, asked, &xid, &gpu, heard.new, &heard.event.text);
        if finding.clears.contains(&Clear::GpuReset) {
            self.stored.resets.fault(&gpu, heard.now.boottime);
        }
        vec![Said::Found(finding)]
    }

    fn log_read(&mut self, now: Now) -> Vec<Said> {
        self.stored.resets.log_read();
        let well = std::mem::take(&mut self.well);
        well.iter().map(|gpu| self.declare(gpu, now)).collect()
    }

    fn before(&mut self, judge: &Judge<'_>) -> Vec<Said> {
        let pending = &mut self.stored.pending;
        if !judge.bus_is_new || pending.is_empty() || !judge.log_is_read {
            return Vec::new();
        }
        let confirmed = pending.judge(judge.host);
        judge.changed(pending.is_empty());
        let found = confirmed.into_iter().filter_map(|line| {
            let row = judge.site.xids.row(line.xid.code)?;
            let gpu = gpu_label(judge.inventory, &line.xid.pci);
            let text = format!("{} (old line; the GPU is off the bus now)", line.text);
            let asked = response(row, &line.xid, false);
            Some(Said::FoundOld(from_row(
                row, asked, &line.xid, &gpu, line.count, &text,
            )))
        });
        found.collect()
    }

    /// Ends findings after a GPU reset or a verdict None.
    fn after(&mut self, judge: &Judge<'_>) -> Vec<Said> {
        let mut said = Vec::new();
        let resets = &mut self.stored.resets;
        if judge.log_is_read {
            resets.log_timed_out();
        }
        for gpu in judge.gpus {
            let read = Now {
                boottime: gpu.at,
                ..judge.now
            };
            if gpu.is_lost() {
                resets.lost(&gpu.label, read);
            }
            if gpu.is_up() != Some(true) {
                continue;
            }
            // Without persistence mode the driver releases an unused GPU and drops its counters.
            let is_kept = gpu.value(&m::PERSISTENCE_MODE) != Some(0.0);
            if !is_kept {
                resets.drop_restored(Some(&gpu.label));
            }
            let reset = is_kept.then(|| resets.take(&gpu.label, counters(gpu), read));
            // A driver that still requests an action was not given it.
            if gpu.value(&m::RECOVERY_ACTION).is_some_and(|a| a > 0.0) {
                continue;
            }
            let mut remedied = |by, before| {
                said.push(Said::Remedied {
                    subject: gpu.subject(),
                    by,
                    before,
                    met: Need::ALL.into_iter().filter(|need| gpu.shows(*need)).collect(),
                });
            };
            if let Some(before) = self.declared.before(&gpu.label, gpu.at) {
                remedied(Clear::VerdictNone, before);
            }
            if let Some(before) = reset.flatten() {
                remedied(Clear::GpuReset, before);
            }
        }
        if resets.take_due() {
            judge.counted();
        }
        said
    }

    fn renamed(&mut self, from: &str, to: &str) {
        self.stored.repeated.rename(from, to);
    }

    fn remedied(&mut self, subject: &Subject, until_ms: u64) -> bool {
        self.stored.repeated.forget(&subject.name, until_ms)
    }

    fn rebooted(&mut self) {
        self.stored.pending.drop_of(None);
        self.stored.repeated.rebooted();
        // The counters start again with the driver.
        self.stored.resets = Resets::default();
    }

    fn forget(&mut self, of: &Forget<'_>) -> bool {
        of.repaired && self.stored.repeated.forget(&of.subject.name, u64::MAX)
    }

    fn expire(&mut self, now: Duration) -> bool {
        self.stored.pending.expire(now)
    }

    fn deadline(&self) -> Option<Duration> {
        self.stored.pending.deadline()
    }

    fn kept(&mut self) -> Option<&mut dyn Kept> {
        Some(&mut self.stored)
    }
}

impl State {
    /// The driver reports that a GPU needs no action.
    fn declare(&mut self, gpu: &str, now: Now) -> Said {
        self.declared.note(gpu, now);
        Said::Declared(Subject::gpu(gpu))
    }
}

fn counters(gpu: &Gpu<'_>) -> Counters {
    let volatile = |kind| whole(gpu.with(&m::ECC_ERRORS, &[("kind", kind), ("scope", "volatile")]));
    Counters {
        energy: gpu.value(&m::ENERGY).map(f64::floor),
        errors: volatile("corrected")
            .zip(volatile("uncorrected"))
            .map(|(c, u)| c.saturating_add(u)),
    }
}

/// The finding behind an Xid line.
fn from_row(row: &Row, response: Response, xid: &Xid, gpu: &str, count: u64, text: &str) -> Finding {
    let drains = response.drains();
    let acts = response != Response::Observe;
    Finding {
        check: CHECK.id.into(),
        subject: Subject::gpu(gpu),
        pci: Some(xid.pci.clone()),
        detail: format!("xid{}", row.code),
        // A finding that only follows from another must not name the incident.
        rank: Rank::At(if acts { row.rank } else { row.rank.max(80) }),
        remedy: response.remedy(),
        drains: acts,
        joins: match response {
            Response::Observe => Joins::Follows,
            Response::Comment => Joins::Attaches,
            _ => Joins::Opens,
        },
        // A reset is not what a verdict asks for that wants a reboot.
        clears: match response {
            Response::Reboot if row.by_verdict => {
                let clears = row.clears.iter().copied();
                clears.filter(|clear| *clear != Clear::GpuReset).collect()
            }
            _ => row.clears.clone(),
        },
        needs: row.needs.clone(),
        count,
        key: None,
        evidence: text.to_owned(),
        jobs: Vec::new(),
        others: false,
        // An occurrence that only follows lets no other of its code drain.
        comments_only: !drains,
        // What drains by the line's own verdict only is an error of memory, too.
        verify: row.verify || (drains && !row.by_verdict && !row.action.drains()),
        device: row.device,
    }
}
