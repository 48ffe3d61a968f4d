//! The daemon's own families: what was counted, what health makes of it, and how the daemon itself does.

mod access;
mod amd;
mod audit;
mod commands;
mod dcgm;
mod devices;
mod guard;
mod jobs;
mod joined;
pub mod live;
mod metrics;
mod node_exporter;
mod weights;

#[cfg(test)]
pub(crate) mod sample;

use std::sync::Arc;

use collectors::Value;
use exposition::encoder::METRICS as METRICS_PAGE;
use exposition::source::Left;
use exposition::{Defaults, Dropped, Family, Source, Writer};
use health::Mode;
use health::checks;
use health::settings::Rdma;
use health::verdict::Health;
use health::view::View;
use model::figures::Figures;
use model::filter::OWN;
use model::jobs::{Hidden, JobsView, MaxJobs};
use model::ledger::Ledger;
use model::snapshot::{CollectorState, Presence, Snapshot, WorkerState};

use self::live::Live;

pub use access::JobAccess;
pub use audit::{AuditCounts, NotificationCounts};
pub use commands::result;
pub use metrics::*;

/// Every metric that there is: those of the collectors and the daemon's own.
pub fn all_metrics() -> impl Iterator<Item = &'static collectors::Metric> {
    collectors::metrics().chain(METRICS.iter().copied())
}

/// Facts about the daemon that neither snapshot nor view hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnFacts {
    /// Whether the last reload was refused.
    pub config_error: bool,
    /// Whether `listen` has changed since the start: that needs a restart.
    pub restart_needed: bool,
    /// Whether the state directory could not be used at the start.
    pub state_unused: bool,
    /// Whether the file of `web_config_file` has changed and is not in force. `None`: there is no such file.
    pub web_config_error: Option<bool>,
    /// `health.mode` in force.
    pub mode: Mode,
    /// Records that did not reach the disk.
    pub store_errors: u64,
    /// Entries of the audit trail.
    pub audit: AuditCounts,
    /// Notifications.
    pub notifications: NotificationCounts,
    /// Whether the parent's system calls are filtered.
    pub parent_seccomp: Option<bool>,
    /// When the daemon started, in seconds since the epoch.
    pub started: f64,
    /// `[metrics]`: what is served by default.
    pub metrics: Arc<Defaults>,
    /// The jobs of this node.
    pub jobs: Arc<JobsView>,
    /// `slurm.jobs.max_jobs`: how many of them have series of their own.
    pub max_jobs: MaxJobs,
    /// Lines of jobs that have ended and could not be written.
    pub job_lines_dropped: u64,
    /// `health.operators`: who besides root may acknowledge and clear.
    pub operators: Arc<[String]>,
    /// `[health.rdma]`: which ports a profile is about.
    pub rdma: Arc<Rdma>,
    /// `access.jobs`: whose jobs a user sees on the control socket.
    pub access: JobAccess,
}

/// One page: what is shown of one moment.
#[derive(Clone, Debug)]
pub struct Page {
    /// The node.
    pub snapshot: Arc<Snapshot>,
    /// The engine.
    pub view: Arc<View>,
    /// The daemon.
    pub facts: OwnFacts,
}

impl Source for Page {
    fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    fn defaults(&self) -> Arc<Defaults> {
        Arc::clone(&self.facts.metrics)
    }

    fn hidden(&self) -> Hidden {
        Hidden::of(&self.snapshot, &self.facts.jobs.running, self.facts.max_jobs)
    }

    fn families(&self, page: &'static str, left: &Left<'_>, hidden: &Hidden, w: &mut Writer<'_>) {
        self.render(page, None, left, hidden, w);
    }
}

/// A page with what the thread that serves it counts.
#[derive(Clone, Copy, Debug)]
pub struct Served<'a>(pub &'a Page, pub &'a Live);

impl Source for Served<'_> {
    fn snapshot(&self) -> &Snapshot {
        self.0.snapshot()
    }

    fn defaults(&self) -> Arc<Defaults> {
        self.0.defaults()
    }

    fn hidden(&self) -> Hidden {
        self.0.hidden()
    }

    fn families(&self, page: &'static str, left: &Left<'_>, hidden: &Hidden, w: &mut Writer<'_>) {
        self.0.render(page, Some(self.1), left, hidden, w);
    }
}

/// A reading without a daemon, and what is served of it: of what is not the collectors' it has the families about them alone.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotPage<'a>(pub &'a Snapshot, pub &'a Arc<Defaults>);

impl Source for SnapshotPage<'_> {
    fn snapshot(&self) -> &Snapshot {
        self.0
    }

    fn defaults(&self) -> Arc<Defaults> {
        Arc::clone(self.1)
    }

    fn hidden(&self) -> Hidden {
        Hidden::of(self.0, &[], MaxJobs::default())
    }

    fn families(&self, page: &'static str, left: &Left<'_>, _: &Hidden, w: &mut Writer<'_>) {
        match page {
            METRICS_PAGE => collectors(self.0, left, w),
            amd::PAGE => amd::nodes(self.0, w),
            node_exporter::PAGE => node_exporter::scrapes(self.0, w),
            _ => {}
        }
    }
}

impl Page {
    fn render(
        &self,
        page: &'static str,
        live: Option<&Live>,
        left: &Left<'_>,
        hidden: &Hidden,
        w: &mut Writer<'_>,
    ) {
        match page {
            METRICS_PAGE => self.metrics(live, left, hidden, w),
            amd::PAGE => {
                amd::nodes(&self.snapshot, w);
                amd::health(self, w);
            }
            dcgm::PAGE => dcgm::render(self, w),
            node_exporter::PAGE => node_exporter::scrapes(&self.snapshot, w),
            _ => {}
        }
    }

    fn metrics(&self, live: Option<&Live>, left: &Left<'_>, hidden: &Hidden, w: &mut Writer<'_>) {
        let own = w.shown().filter.takes(OWN);
        if own {
            events(&self.view.ledger, w);
            w.family(&GPU_RDMA_AFFINITY, |f| {
                for near in &self.view.affinity {
                    f.u64(&[&near.gpu, &near.device, &near.port, near.distance.word()], 1);
                }
            });
            w.family(&JOB_GPU_SHARE, |f| {
                let owners = self.snapshot.ownership().owners.iter();
                for owner in owners.filter(|o| !hidden.job(&o.job)) {
                    let labels = [&owner.gpu, &owner.gpu_instance, &owner.job].map(String::as_str);
                    let [gpu, instance, job] = labels;
                    f.put(
                        &[gpu, instance, job, owner.evidence.word()],
                        Value::F64(owner.share),
                    );
                }
            });
            jobs::render(&self.facts, hidden, w);
            health(&self.view, &self.snapshot, w);
        }
        collectors(&self.snapshot, left, w);
        if own {
            workers(&self.snapshot, w);
            commands::render(&self.snapshot, w);
            processes(self, live, w);
            let facts = &self.facts;
            w.family(&BUILD_INFO, |f| f.u64(&[env!("CARGO_PKG_VERSION")], 1));
            w.family(&START, |f| f.put(&[], Value::F64(facts.started)));
            w.family(&MODE, |f| f.u64(&[facts.mode.word()], 1));
            w.family(&CONFIG_ERROR, |f| f.u64(&[], facts.config_error.into()));
            w.family(&WEB_CONFIG_ERROR, |f| {
                if let Some(error) = facts.web_config_error {
                    f.u64(&[], error.into());
                }
            });
            w.family(&STORE_ERRORS, |f| f.u64(&[], facts.store_errors));
            audit::render(facts.audit, facts.notifications, w);
            if let Some(live) = live {
                live.render(w);
            }
        }
    }
}

fn events(ledger: &Ledger, w: &mut Writer<'_>) {
    let xids = || {
        ledger
            .xids
            .iter()
            .flat_map(|(gpu, codes)| codes.iter().map(move |(code, n)| (gpu, code, n)))
    };
    w.family(&XIDS, |f| {
        for (gpu, code, n) in xids() {
            f.u64(&[gpu, &code.to_string()], n.count);
        }
    });
    w.family(&XID_LAST, |f| {
        for (gpu, code, n) in xids() {
            f.put(&[gpu, &code.to_string()], Value::F64(seconds(n.last)));
        }
    });
    w.family(&XID_REPORTS, |f| {
        for (gpu, codes) in &ledger.xid_reports {
            for (code, sources) in codes {
                for (source, n) in sources {
                    f.u64(&[gpu, &code.to_string(), source], *n);
                }
            }
        }
    });
    w.family(&DRIVER_EVENTS, |f| {
        for (gpu, events) in &ledger.driver_events {
            for (event, n) in events {
                f.u64(&[gpu, event], n.count);
            }
        }
    });
    w.family(&FIRMWARE_FAULTS, |f| {
        for (pci, events) in &ledger.firmware {
            for (event, n) in events {
                f.u64(&[pci, event], n.count);
            }
        }
    });
    w.family(&KERNEL_EVENTS, |f| {
        for (event, kinds) in &ledger.kernel_lines {
            for (kind, names) in kinds {
                for (name, n) in names {
                    f.u64(&[event, kind, name], n.count);
                }
            }
        }
    });
    w.family(&SXIDS, |f| {
        for (switch, codes) in &ledger.sxids {
            for (code, n) in codes {
                f.u64(&[switch, &code.to_string()], n.count);
            }
        }
    });
    w.family(&FALLEN_OFF, |f| {
        for (gpu, n) in &ledger.fallen_off_bus {
            f.u64(&[gpu], n.count);
        }
    });
    w.family(&RDMA_EVENTS, |f| {
        for (device, ports) in &ledger.rdma_events {
            for (port, events) in ports {
                for (event, n) in events {
                    f.u64(&[device, port, event], n.count);
                }
            }
        }
    });
    w.family(&UNCOUNTED, |f| f.u64(&[], ledger.uncounted));
    w.family(&OVERRUNS, |f| f.u64(&[], ledger.overruns));
}

fn health(view: &View, snapshot: &Snapshot, w: &mut Writer<'_>) {
    let of_site = || snapshot.commands.iter().map(|state| state.check.as_str());
    w.family(&VERDICT, |f| {
        for (word, health) in [
            ("healthy", Health::Healthy),
            ("unhealthy", Health::Unhealthy),
            ("unknown", Health::Unknown),
        ] {
            f.u64(&[word], u64::from(view.verdict.health == health));
        }
    });
    let open = || view.incidents.iter().filter(|i| i.closed.is_none());
    w.family(&INCIDENTS_OPEN, |f| f.u64(&[], open().count() as u64));
    w.family(&INCIDENT_INFO, |f| {
        for i in open() {
            // Nothing of it changes while the incident is open. The check for which it acts is a label of its remedy.
            let check = i.findings.first().map_or(i.check.as_str(), |first| &first.check);
            f.once(&[&i.id, check, &i.subject_kind, &i.subject_name], Value::U64(1));
        }
    });
    w.family(&INCIDENT_REMEDY, |f| {
        for i in open() {
            f.once(&[&i.id, &i.act, &i.cause], Value::U64(1));
        }
    });
    w.family(&INCIDENT_MODE, |f| {
        for i in open() {
            let mode = i.acts.then_some(i.mode);
            for word in [Mode::Observe, Mode::Comment, Mode::Drain] {
                f.once(&[&i.id, word.word()], Value::U64(u64::from(mode == Some(word))));
            }
        }
    });
    w.family(&INCIDENT_ACK, |f| {
        for i in open() {
            f.once(&[&i.id], Value::U64(u64::from(i.ack.is_some())));
        }
    });
    w.family(&INCIDENT_START, |f| {
        for i in open() {
            f.once(&[&i.id], Value::F64(seconds(i.since)));
        }
    });
    w.family(&DRAIN_STATE, |f| {
        for state in DRAIN_STATES {
            f.u64(&[state], u64::from(view.drain.state == *state));
        }
        // A state that the table does not know is still shown.
        if !DRAIN_STATES.contains(&view.drain.state.as_str()) {
            f.u64(&[&view.drain.state], 1);
        }
    });
    guard::families(view, w);
    w.family(&WOULD_DRAIN, |f| per_check(&view.would_drain, of_site(), f));
    w.family(&DRAINS, |f| per_check(&view.drains, of_site(), f));
    w.family(&UNDRAINS, |f| f.u64(&[], view.undrains));
    w.family(&OVERRIDES, |f| f.u64(&[], view.overrides));
    w.family(&FINDINGS_DROPPED, |f| f.u64(&[], view.dropped));
}

/// A count for every check that may drain, so that the first one is seen as an increase.
fn per_check<'a>(counts: &[(String, u64)], of_site: impl Iterator<Item = &'a str>, f: &mut Family<'_, '_>) {
    let may_drain = checks::configurable().filter(|check| check.may.at_most() == Mode::Drain);
    let known: Vec<&str> = may_drain.map(|check| check.id).chain(of_site).collect();
    for check in &known {
        let count = counts.iter().find(|(id, _)| check == id);
        f.u64(&[check], count.map_or(0, |(_, n)| *n));
    }
    for (id, n) in counts {
        if !known.contains(&id.as_str()) {
            f.once(&[id], Value::U64(*n));
        }
    }
}

/// The reason of a collector that is open and has not been read yet.
pub const FIRST_READING: &str = "first_reading";

/// State and reason of a collector, as labels.
pub fn state(collector: &CollectorState, snapshot: &Snapshot) -> (&'static str, String) {
    match (&collector.presence, collector.up(snapshot.at)) {
        (Presence::NotHere, _) => ("absent", String::new()),
        (Presence::Open, None) if collector.devices.is_empty() => ("absent", String::new()),
        // It begins half a minute after its source was opened, where that is its pace.
        (Presence::Open, None) => ("unknown", FIRST_READING.to_owned()),
        (Presence::Unknown, _) | (_, None) => {
            let down = worker(collector, snapshot).and_then(|w| w.down);
            ("unknown", down.unwrap_or_default().to_owned())
        }
        (Presence::Failed(reason, _), _) => ("failed", reason.clone()),
        (Presence::Open, Some(true)) => ("ok", String::new()),
        (Presence::Open, Some(false)) => {
            let watcher = match &collector.watcher {
                Some(Err((reason, _))) => Some(reason),
                _ => None,
            };
            let device = collector.devices.iter().find_map(|d| d.error.as_ref());
            match watcher.or(device.map(|(reason, _)| reason)) {
                Some(reason) => ("failed", reason.clone()),
                None => ("late", "deadline".to_owned()),
            }
        }
    }
}

fn worker<'s>(collector: &CollectorState, snapshot: &'s Snapshot) -> Option<&'s WorkerState> {
    let domain = collector.spec.domain.name;
    snapshot.workers.iter().find(|w| w.domain == domain)
}

/// Whether everything that the collector found was read. Without a worker nothing is found: a fault, unless a person
/// released the driver.
fn up(collector: &CollectorState, snapshot: &Snapshot) -> Option<bool> {
    if let (Presence::Unknown, Some(worker)) = (&collector.presence, worker(collector, snapshot)) {
        return (worker.down.is_some() && worker.lease.is_none()).then_some(false);
    }
    collector.up(snapshot.at)
}

/// What there is to say of the collectors that are shown.
fn collectors(snapshot: &Snapshot, dropped: &Left<'_>, w: &mut Writer<'_>) {
    let shown = w.shown();
    let takes = |c: &&CollectorState| shown.filter.takes(c.spec.name);
    let all = snapshot.collectors.iter().map(Arc::as_ref);
    let all: Vec<&CollectorState> = all.filter(takes).collect();
    w.family(&COLLECTOR_UP, |f| {
        for c in &all {
            if let Some(up) = up(c, snapshot) {
                f.u64(&[c.spec.name], up.into());
            }
        }
    });
    w.family(&COLLECTOR_STATE, |f| {
        for c in &all {
            let (state, reason) = state(c, snapshot);
            f.u64(&[c.spec.name, state, &reason], 1);
        }
    });
    w.family(&COLLECTOR_DURATION, |f| {
        for c in all.iter().filter(|c| !c.devices.is_empty()) {
            let sum: f64 = c.devices.iter().map(|d| d.took.as_secs_f64()).sum();
            f.put(&[c.spec.name], Value::F64(sum));
        }
    });
    devices::render(snapshot.at, &all, w);
    w.family(&SERIES_DROPPED, |f| {
        for (page, dropped) in dropped {
            let takes = |(c, _): &(&Arc<CollectorState>, &Dropped)| shown.filter.takes(c.spec.name);
            for (c, d) in snapshot.collectors.iter().zip(*dropped).filter(takes) {
                let counts = [("limit", d.over_limit), ("duplicate", d.duplicates)];
                for (reason, n) in counts.into_iter().filter(|(_, n)| *n > 0) {
                    f.u64(&[page, c.spec.name, reason], n);
                }
            }
        }
    });
}

/// The workers weigh themselves: their figures are in the snapshot.
fn processes(page: &Page, live: Option<&Live>, w: &mut Writer<'_>) {
    let own = live.map(Live::weighed).unwrap_or_default();
    let own = own.into_iter().map(|(n, f)| (n.to_owned(), f));
    let workers = page.snapshot.workers.iter();
    let workers = workers.flat_map(|w| {
        let own = w.figures.map(|figures| (format!("worker-{}", w.domain), figures));
        let helpers = w.helpers.iter().map(|(n, f)| (format!("helper-{n}"), *f));
        own.into_iter().chain(helpers)
    });
    let all: Vec<(String, Figures)> = own.chain(workers).collect();
    w.family(&PROCESS_CPU, |f| {
        for (name, figures) in &all {
            f.put(&[name], Value::F64(figures.cpu));
        }
    });
    let mut gauge = |metric, value: fn(&Figures) -> Option<u64>| {
        w.family(metric, |f| {
            for (name, figures) in &all {
                if let Some(value) = value(figures) {
                    f.u64(&[name], value);
                }
            }
        });
    };
    gauge(&PROCESS_RESIDENT, |f| Some(f.resident));
    gauge(&PROCESS_PROPORTIONAL, |f| f.proportional);
    gauge(&PROCESS_DESCRIPTORS, |f| f.descriptors);
    gauge(&PROCESS_THREADS, |f| Some(f.threads));
    w.family(&PROCESS_SANDBOX, |f| {
        for (name, figures) in &all {
            // The parent's own record comes with the daemon's first packet.
            let seccomp = figures
                .seccomp
                .or(page.facts.parent_seccomp.filter(|_| name == "parent"));
            for (feature, value) in [("seccomp", seccomp), ("landlock", figures.landlock)] {
                if let Some(value) = value {
                    f.u64(&[name, feature], value.into());
                }
            }
        }
    });
}

fn workers(snapshot: &Snapshot, w: &mut Writer<'_>) {
    let all = &snapshot.workers;
    w.family(&WORKER_UP, |f| {
        for worker in all {
            f.u64(&[worker.domain], worker.pid.is_some().into());
        }
    });
    w.family(&WORKER_STARTS, |f| {
        for worker in all {
            f.u64(&[worker.domain], worker.starts);
        }
    });
    w.family(&WORKER_STUCK, |f| {
        for worker in all {
            f.u64(&[worker.domain], worker.stuck_slots.into());
        }
    });
}

#[expect(
    clippy::cast_precision_loss,
    reason = "seconds since the epoch are far below 2^53"
)]
fn seconds(at: i64) -> f64 {
    at as f64
}

#[cfg(test)]
mod tests;
