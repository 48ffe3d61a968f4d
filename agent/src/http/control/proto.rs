//! Requests and replies of the control socket.

use std::time::Duration;

use collectors::{Cadence, Value};
use serde::{Deserialize, Serialize};

use super::gpus::GpuView;
use super::mounts::MountView;
use super::ports::PortView;
use crate::own;
use crate::own::Page;
use health::Mode;
use health::profile::Profile;
use health::view::{IncidentView, View};
use model::commands::CommandState;
use model::jobs::JobsView;
use model::snapshot::{CollectorState, Presence, Snapshot, WorkerState};

/// A request, one line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    /// The node's status.
    Status,
    /// One incident, or all open ones.
    Why {
        /// Its id.
        #[serde(default)]
        id: Option<String>,
    },
    /// Acknowledge an incident.
    Ack {
        /// The incident.
        id: String,
        /// The reason.
        reason: String,
    },
    /// Close a repaired incident.
    Clear {
        /// The incident.
        id: String,
        /// The reason.
        reason: String,
    },
    /// Pause this node: nothing but what a person orders is written to the scheduler.
    Pause {
        /// Its length, in seconds.
        seconds: u64,
        /// The reason.
        reason: String,
    },
    /// End the pause of this node.
    Unpause {
        /// The reason.
        reason: String,
    },
    /// Release a driver until [`Request::Resume`], the end of this connection or the time limit.
    Release {
        /// The worker, by the name of its domain.
        domain: String,
        /// Time limit, in seconds.
        seconds: u64,
    },
    /// End the release.
    Resume,
    /// The jobs of this node.
    Jobs,
    /// What the node has now, as a profile.
    Profile,
    /// The page of metrics of the tiers core and detail; for those who may give orders.
    Readings,
}

/// A reply, one line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    /// To `status`.
    Status(Box<NodeStatus>),
    /// To `why`.
    Incidents(Vec<IncidentView>),
    /// To `jobs`.
    Jobs(JobsView),
    /// To `profile`.
    Profile(Box<Profile>),
    /// To `readings`: the page in Prometheus' text format.
    Readings(String),
    /// An order was carried out: one line.
    Done(String),
    /// An order was carried out and could not be stored, with the reason: a restart of the daemon undoes it.
    Unstored(String),
    /// Refused, with the reason.
    Refused(String),
}

/// The daemon and its node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeStatus {
    /// The daemon's version.
    pub version: String,
    /// When it started, in seconds since the epoch.
    pub started: f64,
    /// Whether the last reload of the configuration failed.
    pub config_error: bool,
    /// Whether `listen` has changed since the start: that needs a restart.
    #[serde(default)]
    pub restart_needed: bool,
    /// Whether the state directory could not be used at the start.
    #[serde(default)]
    pub state_unused: bool,
    /// `health.mode` in force.
    pub mode: Mode,
    /// The engine.
    pub view: View,
    /// GPUs, by the index of their driver.
    pub gpus: Vec<GpuView>,
    /// RDMA ports, by name.
    #[serde(default)]
    pub ports: Vec<PortView>,
    /// Probed filesystems, by mount point.
    #[serde(default)]
    pub mounts: Vec<MountView>,
    /// Collectors.
    pub collectors: Vec<CollectorView>,
    /// Worker processes.
    pub workers: Vec<WorkerView>,
    /// The site's commands that check the node.
    #[serde(default)]
    pub commands: Vec<CommandView>,
}

/// A command of the site that checks the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandView {
    /// The check's id: `site-NAME`.
    pub check: String,
    /// Last result: `healthy`, `unhealthy`, `unknown` (another exit code, or older than 3 intervals), `timed_out`, `failed` (not
    /// started, or ended by a signal), `none` (no result yet).
    pub result: String,
    /// Its exit code or error; empty before the first result.
    pub why: String,
    /// Age of the last result, in milliseconds.
    pub age_ms: Option<u64>,
    /// Duration of the last run, in milliseconds.
    pub took_ms: Option<u64>,
}

/// One collector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectorView {
    /// Its name.
    pub name: String,
    /// `absent`, `unknown`, `ok`, `failed`, `late`.
    pub state: String,
    /// The reason as one word; empty if nothing is wrong.
    pub reason: String,
    /// The error of its source or watcher in full; empty without an error.
    pub text: String,
    /// Number of devices.
    pub devices: usize,
    /// Number of series now; unreadable ones do not count.
    pub series: usize,
    /// Age of the oldest reading, in milliseconds; `None` without readings.
    pub age_ms: Option<u64>,
    /// The devices that failed or are late.
    pub troubled: Vec<DeviceView>,
}

/// A device that failed or is late.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceView {
    /// The device.
    pub subject: String,
    /// Its fault.
    pub text: String,
}

/// One worker process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerView {
    /// Its domain.
    pub name: String,
    /// Its process id.
    pub pid: Option<i32>,
    /// Number of starts.
    pub starts: u64,
    /// Why no process runs; empty if one does.
    pub down: String,
    /// Earlier processes that are stuck.
    pub stuck_slots: u8,
    /// The release of its driver.
    pub lease: Option<LeaseView>,
}

/// A released driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseView {
    /// The user and process that requested it.
    pub by: String,
    /// Time left, in seconds; `None`: the worker has not left yet.
    pub left: Option<u64>,
}

impl NodeStatus {
    /// The status from a page. `now`: time since boot, for ages.
    pub fn of(page: &Page, now: Duration) -> Self {
        let snapshot = &page.snapshot.as_of(now);
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: page.facts.started,
            config_error: page.facts.config_error,
            restart_needed: page.facts.restart_needed,
            state_unused: page.facts.state_unused,
            mode: page.facts.mode,
            view: View::clone(&page.view),
            gpus: super::gpus::of(snapshot, &page.view),
            ports: super::ports::of(snapshot),
            mounts: super::mounts::of(snapshot),
            collectors: snapshot
                .collectors
                .iter()
                .map(|c| collector(c, snapshot))
                .collect(),
            workers: snapshot.workers.iter().map(|w| worker(w, snapshot.at)).collect(),
            commands: (snapshot.commands.iter().map(|c| command(c, snapshot.at))).collect(),
        }
    }
}

fn command(state: &CommandState, at: Duration) -> CommandView {
    let last = state.last.as_ref();
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    CommandView {
        check: state.check.clone(),
        result: own::result(state, at).to_owned(),
        why: last.map(|run| run.why.clone()).unwrap_or_default(),
        age_ms: last.map(|run| millis(at.saturating_sub(run.at))),
        took_ms: last.map(|run| millis(run.took)),
    }
}

fn collector(c: &CollectorState, snapshot: &Snapshot) -> CollectorView {
    let (state, reason) = own::state(c, snapshot);
    let troubled = c.devices.iter().filter_map(|d| {
        let text = match (&d.late, &d.error) {
            (Some(late), _) => {
                let since = seconds(snapshot.at.saturating_sub(late.since));
                let slow = if c.is_overdue(d, snapshot.at) {
                    ""
                } else {
                    "slow: "
                };
                format!("{slow}no answer for {since}{}", late.waits())
            }
            (None, Some((_, text))) => text.clone(),
            (None, None) => return None,
        };
        Some(DeviceView {
            subject: d.subject.to_string(),
            text,
        })
    });
    let text = match (&c.presence, &c.watcher) {
        (Presence::Failed(_, text), _) | (_, Some(Err((_, text)))) => text.clone(),
        (Presence::Open, _) if reason == own::FIRST_READING => match c.spec.cadence {
            Cadence::Every(period) => format!(
                "waiting for its first reading, within {} s of its start",
                period.as_secs()
            ),
            Cadence::OnDemand { .. } => "waiting for its first reading".to_owned(),
        },
        _ => String::new(),
    };
    let shown = c.devices.iter().filter(|d| d.shown(snapshot.at, c.max_age()));
    let (mut series, mut oldest) = (0, None);
    for d in shown {
        series += d.values.iter().filter(|v| **v != Value::Absent).count();
        oldest = oldest.max(Some(snapshot.at.saturating_sub(d.at)));
    }
    CollectorView {
        name: c.spec.name.to_owned(),
        state: state.to_owned(),
        reason,
        text,
        devices: c.devices.len(),
        series,
        age_ms: oldest.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        troubled: troubled.collect(),
    }
}

fn worker(w: &WorkerState, now: Duration) -> WorkerView {
    let left = |until: Duration| until.saturating_sub(now).as_secs();
    let lease = w.lease.as_ref().map(|lease| LeaseView {
        by: lease.by.clone(),
        left: lease.until.map(left),
    });
    WorkerView {
        name: w.domain.to_owned(),
        pid: w.pid,
        starts: w.starts,
        down: w.down.unwrap_or_default().to_owned(),
        stuck_slots: w.stuck_slots,
        lease,
    }
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs())
}
