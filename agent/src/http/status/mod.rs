//! The public status, without authentication: the same for the page `/` and for `/api/v1/status`. Texts that may
//! contain a user name or a log line (evidence, history, acknowledgements, errors, foreign reasons) are left out
//! here, so that neither can show them.

mod drain;
mod html;

use std::time::Duration;

use serde::Serialize;

use crate::http::control::{GpuView, MountView, PortView, gpus, is_of_jobs, mounts, ports};
use crate::own;
use crate::own::Page;
use health::Mode;
use health::checks;
use health::verdict::{Health, Verdict};
use health::view::IncidentView;
use model::commands::CommandState;
use model::snapshot::{CollectorState, Presence, Snapshot, WorkerState};

pub(super) use html::{STILL, render};

/// The version of the JSON: fields may be added without a new version; none is removed or changes its meaning.
const VERSION: u32 = 1;
/// The most closed incidents in it.
const MOST_CLOSED: usize = 10;

/// The node's public status.
#[derive(Debug, Serialize)]
pub(super) struct StatusReport {
    /// Version of this format.
    version: u32,
    /// The daemon's version.
    nodewarden: &'static str,
    /// The kernel's host name; empty if it is not text.
    host: String,
    /// Time of this report, in seconds since the epoch.
    at: i64,
    /// When the daemon started, in seconds since the epoch.
    started: f64,
    verdict: VerdictReport,
    /// `health.mode`: `observe`, `comment`, `drain`.
    mode: &'static str,
    /// Whether the last reload of the configuration failed.
    config_error: bool,
    /// Whether `listen` has changed since the start: that needs a restart.
    restart_needed: bool,
    /// Whether the state directory could not be used at the start.
    state_unused: bool,
    drain: drain::DrainReport,
    /// Open incidents.
    incidents: Vec<IncidentReport>,
    /// The latest closed incidents, the last one first.
    closed: Vec<ClosedReport>,
    /// GPUs, by the index of their driver.
    gpus: Vec<GpuView>,
    /// RDMA ports, by name.
    ports: Vec<PortView>,
    /// Probed filesystems, by mount point.
    mounts: Vec<MountView>,
    collectors: Vec<CollectorReport>,
    workers: Vec<WorkerReport>,
    /// The site's commands that check the node.
    commands: Vec<CommandReport>,
}

#[derive(Debug, Serialize)]
struct CommandReport {
    /// The check's id: `site-NAME`.
    check: String,
    /// Last result: `healthy`, `unhealthy`, `unknown` (another exit code, or older than 3 intervals), `timed_out`, `failed` (not
    /// started, or ended by a signal), `none` (no result yet).
    result: &'static str,
    /// Age of the last result, in seconds.
    age: Option<u64>,
    /// Duration of the last run, in seconds.
    took: Option<f64>,
}

#[derive(Debug, Serialize)]
struct VerdictReport {
    /// `healthy`, `unhealthy`, `unknown`.
    health: Health,
    /// One line.
    text: String,
    /// Its age, in seconds.
    age: u64,
}

#[derive(Debug, Serialize)]
struct IncidentReport {
    id: String,
    check: String,
    subject: String,
    detail: String,
    /// What an Xid means, in words; empty for other findings.
    meaning: String,
    /// `reboot`, `reset-gpu`, ...
    remedy: String,
    /// `open`, or `overridden`: an operator lifted its drain.
    state: String,
    /// Whether it requires an act: a drain, or a comment where its check does not drain.
    acts: bool,
    /// Whether it drains the node in the mode in force.
    drains: bool,
    /// The mode in force for its check.
    mode: &'static str,
    /// The highest mode that it could have without the site's limits.
    could: Mode,
    /// Start, in seconds since the epoch.
    since: i64,
    /// Its age, in seconds.
    age: i64,
    /// Whether an operator has acknowledged it.
    acknowledged: bool,
    /// How it ends.
    ends: String,
    /// Its runbook; empty for a check of another release.
    runbook: String,
}

/// Without the reason: an operator's may name users.
#[derive(Debug, Serialize)]
struct ClosedReport {
    id: String,
    check: String,
    subject: String,
    detail: String,
    /// Start, in seconds since the epoch.
    since: i64,
    /// End, in seconds since the epoch.
    closed: i64,
    /// Time since its end, in seconds.
    age: i64,
}

#[derive(Debug, Serialize)]
struct CollectorReport {
    name: &'static str,
    /// `absent`, `unknown`, `ok`, `failed`, `late`.
    state: &'static str,
    /// The reason as one word; empty if nothing is wrong.
    reason: String,
    /// Number of devices.
    devices: usize,
    /// Devices whose last reading failed.
    failed: Vec<FailedDevice>,
    /// Devices whose reading has not come back.
    late: Vec<LateDevice>,
}

#[derive(Debug, Serialize)]
struct FailedDevice {
    device: String,
    /// The reason as one word.
    reason: String,
}

#[derive(Debug, Serialize)]
struct LateDevice {
    device: String,
    /// Time without an answer, in seconds.
    age: u64,
    /// Whether it is past its deadline; until then the device is slow.
    overdue: bool,
    /// The state letter of its thread, if known: `D` is uninterruptible.
    task_state: Option<char>,
    /// Its wait channel; empty if the kernel does not report it.
    wait_channel: String,
    /// Its system call and file; empty if the kernel does not report them, or if the file may name a job's owner.
    call: String,
}

#[derive(Debug, Serialize)]
struct WorkerReport {
    name: &'static str,
    pid: Option<i32>,
    /// Number of starts.
    starts: u64,
    /// Why no process runs: `backoff`, `stuck`, `build`, `garbage`; empty if one does.
    down: &'static str,
    /// Earlier processes that are stuck.
    stuck_slots: u8,
}

impl StatusReport {
    /// The public part of a page. `now`: time since boot; `wall`: seconds since the epoch.
    pub(super) fn of(page: &Page, now: Duration, wall: i64, host: String) -> Self {
        let snapshot = page.snapshot.as_of(now);
        let open = page.view.incidents.iter().filter(|i| i.closed.is_none());
        Self {
            version: VERSION,
            nodewarden: env!("CARGO_PKG_VERSION"),
            host,
            at: wall,
            started: page.facts.started,
            verdict: verdict(page, &snapshot, now),
            mode: page.facts.mode.word(),
            config_error: page.facts.config_error,
            restart_needed: page.facts.restart_needed,
            state_unused: page.facts.state_unused,
            drain: drain::DrainReport::of(&page.view.drain, wall),
            incidents: open.map(|i| incident(i, wall)).collect(),
            closed: closed(&page.view.incidents, wall),
            gpus: gpus::of(&snapshot, &page.view),
            ports: ports::of(&snapshot),
            mounts: mounts::of(&snapshot),
            collectors: snapshot
                .collectors
                .iter()
                .map(|c| collector(c, &snapshot))
                .collect(),
            workers: snapshot.workers.iter().map(worker).collect(),
            commands: (snapshot.commands.iter().map(|c| command(c, snapshot.at))).collect(),
        }
    }

    /// As JSON.
    pub(super) fn json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }
}

fn verdict(page: &Page, snapshot: &Snapshot, now: Duration) -> VerdictReport {
    let given = &page.view.verdict;
    let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let (health, text) = if now_ms > given.valid_until_ms {
        let text = "the daemon's core has not evaluated the checks in time";
        (Health::Unknown, text.to_owned())
    } else if given.health == Health::Unknown {
        (Health::Unknown, unknown(given, snapshot))
    } else {
        (given.health, given.text.clone())
    };
    VerdictReport {
        health,
        text,
        age: now_ms.saturating_sub(given.at_ms) / 1000,
    }
}

/// Why the verdict is unknown, without texts of errors.
fn unknown(verdict: &Verdict, snapshot: &Snapshot) -> String {
    let Some(name) = verdict.blind else {
        return verdict.text.clone();
    };
    match snapshot.collector(name) {
        Some(blind) => match own::state(blind, snapshot) {
            (state, reason) if reason.is_empty() => format!("collector {name} is {state}"),
            (state, reason) => format!("collector {name} is {state}: {reason}"),
        },
        None => "the node has not been read yet".to_owned(),
    }
}

fn incident(i: &IncidentView, wall: i64) -> IncidentReport {
    let check = checks::check(&i.check);
    IncidentReport {
        id: i.id.clone(),
        check: i.check.clone(),
        subject: i.subject.clone(),
        detail: detail(i),
        meaning: i.meaning.clone(),
        remedy: i.act.clone(),
        state: i.state.clone(),
        acts: i.acts,
        drains: i.drains,
        mode: i.mode.word(),
        could: i.could,
        since: i.since,
        age: wall.saturating_sub(i.since).max(0),
        acknowledged: i.ack.is_some(),
        ends: i.clears.clone(),
        runbook: check.map_or_else(String::new, |c| format!("docs/{}", c.runbook())),
    }
}

fn detail(i: &IncidentView) -> String {
    if checks::is_of_site(&i.check) {
        // What a script prints may name a user.
        "reported by a command of the site".to_owned()
    } else {
        i.detail.clone()
    }
}

fn closed(all: &[IncidentView], wall: i64) -> Vec<ClosedReport> {
    let mut closed: Vec<ClosedReport> = all
        .iter()
        .filter_map(|i| {
            let closed = i.closed?;
            Some(ClosedReport {
                id: i.id.clone(),
                check: i.check.clone(),
                subject: i.subject.clone(),
                detail: detail(i),
                since: i.since,
                closed,
                age: wall.saturating_sub(closed).max(0),
            })
        })
        .collect();
    closed.sort_by_key(|i| std::cmp::Reverse(i.closed));
    closed.truncate(MOST_CLOSED);
    closed
}

/// Without its output, which may name users.
fn command(state: &CommandState, at: Duration) -> CommandReport {
    CommandReport {
        check: state.check.clone(),
        result: own::result(state, at),
        age: state.last.as_ref().map(|run| at.saturating_sub(run.at).as_secs()),
        took: state.last.as_ref().map(|run| run.took.as_secs_f64()),
    }
}

fn collector(c: &CollectorState, snapshot: &Snapshot) -> CollectorReport {
    let (state, reason) = own::state(c, snapshot);
    let here = c.presence == Presence::Open;
    let devices = || c.devices.iter().filter(|_| here);
    CollectorReport {
        name: c.spec.name,
        state,
        reason,
        devices: devices().count(),
        failed: devices()
            .filter_map(|d| {
                let (reason, _) = d.error.as_ref().filter(|_| d.late.is_none())?;
                Some(FailedDevice {
                    device: d.subject.to_string(),
                    reason: reason.clone(),
                })
            })
            .collect(),
        late: devices()
            .filter_map(|d| {
                let late = d.late.as_ref()?;
                let call = late.task.as_ref().filter(|_| !is_of_jobs(c.spec.name));
                Some(LateDevice {
                    device: d.subject.to_string(),
                    age: snapshot.at.saturating_sub(late.since).as_secs(),
                    overdue: c.is_overdue(d, snapshot.at),
                    task_state: late.task.as_ref().map(|t| t.state),
                    wait_channel: late.task.as_ref().map_or_else(String::new, |t| t.wchan.clone()),
                    call: call.map_or_else(String::new, |t| t.call.clone()),
                })
            })
            .collect(),
    }
}

fn worker(w: &WorkerState) -> WorkerReport {
    WorkerReport {
        name: w.domain,
        pid: w.pid,
        starts: w.starts,
        down: w.down.unwrap_or_default(),
        stuck_slots: w.stuck_slots,
    }
}

#[cfg(test)]
mod tests;
