//! A node of stand-ins: real workers, each on a thread, the fleet, the engine and the code that runs scontrol, without
//! privileges. Time is virtual and moves only between two ticks: a slow machine changes nothing.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use collectors::sys::boot;
use collectors::sys::task::Task;
use collectors::{BootId, COLLECTORS, Cadence, DOMAINS, Env, Event};
use health::engine::Engine;
use health::policy::Policy;
use health::verdict::Verdict;
use health::{Effect, Input, Mode, Now};
use model::filter::Filter;
use model::snapshot::{Presence, Snapshot};
use tempfile::TempDir;
use testkit::tree;
use testkit::wait::{PATIENCE, until_true};

use crate::config::Config;
use crate::daemon::fleet::{Fleet, FleetEvent};
use crate::own::{OwnFacts, Page};
use crate::parent::slurm::Slurm;
use crate::worker::child;
use crate::worker::monitor::LateThread;
use crate::worker::proto::{FromWorker, encode};

const START: Duration = Duration::from_secs(1_000_000_000);
const WALL: i64 = 1_800_000_000;
/// When slurmctld knows that the node booted.
const BOOT: i64 = 1_795_225_274;

pub(super) struct Node {
    pub(super) dir: TempDir,
    fleet: Fleet,
    workers: Vec<(u16, UnixStream)>,
    pub(super) engine: Engine,
    slurm: Slurm,
    boot: BootId,
    verdict: Option<Verdict>,
    /// The real time at which each tick began, and its virtual time.
    ticks: Vec<(Duration, Duration)>,
    /// What the thread of a call that does not return does; the test machine's kernel would show something else.
    pub(super) task: Option<Task>,
    /// Which device, by a part of its name, does not answer.
    pub(super) late: Option<String>,
    /// What the worker of this collector reports at each look.
    pub(super) reports: Option<(&'static str, u32)>,
    /// Since when, in real time.
    since: Option<Duration>,
    events: Vec<(&'static str, Box<Event>)>,
    log_is_read: bool,
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures")
}

pub(super) fn folder(trees: &[&str]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for tree in trees {
        tree::unpack(&fixtures().join(tree), dir.path()).unwrap();
    }
    fs::write(dir.path().join("kmsg"), "").unwrap();
    slurm_files(&dir.path().join("slurm"));
    dir
}

/// A slurmd that is a folder, and the stand-in for scontrol.
fn slurm_files(dir: &Path) {
    for process in ["proc/8", "proc/self"] {
        fs::create_dir_all(dir.join(process)).unwrap();
        symlink("/", dir.join(process).join("root")).unwrap();
    }
    symlink(
        fixtures().join("scontrol/stand-in/scontrol"),
        dir.join("scontrol"),
    )
    .unwrap();
    let uid = nix::unistd::geteuid();
    for (file, text) in [
        ("proc/8/comm", "slurmd\n"),
        ("proc/8/cmdline", "slurmd\0-N\0n0\0"),
        ("proc/8/status", &format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n")),
        ("name", "n0"),
        ("host", "n0"),
        ("state", "IDLE"),
        ("boot", "2026-11-21T01:41:30"),
        ("calls", "0"),
    ] {
        fs::write(dir.join(file), text).unwrap();
    }
}

impl Node {
    /// `sets`: `KEY=VALUE` of the configuration. `live`: the kernel log is a live one.
    pub(super) fn start(dir: TempDir, domains: &[&str], sets: &[String], live: bool) -> Self {
        let boot_id = Some("11111111-2222-3333-4444-555555555555".to_owned());
        let env = match live {
            true => Env::with_sysroot(dir.path().join("root")),
            false => Env::recorded(dir.path()),
        };
        let env = Env { boot_id, ..env };
        let boot = boot::boot_id(&env).unwrap();
        let empty = dir.path().join("empty.toml");
        fs::write(&empty, "").unwrap();
        let more = ["health.mode=\"drain\"", "slurm.hold=\"0s\""].map(str::to_owned);
        let sets: Vec<String> = sets.iter().cloned().chain(more).collect();
        let config = Config::load(Some(&empty), &sets, &[]).unwrap().config;
        let policy = Policy::new(&config.health, None).unwrap();
        let now = Now {
            boottime: START,
            wall: WALL,
        };
        let slurm = slurm::Settings {
            scontrol: Some(dir.path().join("slurm/scontrol")),
            timeout: Duration::from_secs(20),
            ..slurm::Settings::default()
        };
        let mut node = Self {
            fleet: Fleet::new(env, config.collectors),
            workers: Vec::new(),
            engine: Engine::new(policy, boot.clone(), None, now).unwrap().replaying(),
            slurm: Slurm::new(slurm, "n0".to_owned(), Some(BOOT)).with_proc(dir.path().join("slurm/proc")),
            boot,
            verdict: None,
            ticks: vec![(Duration::ZERO, START)],
            task: None,
            late: None,
            reports: None,
            since: None,
            events: Vec::new(),
            log_is_read: false,
            dir,
        };
        for name in domains {
            let at = DOMAINS.iter().position(|d| d.name == *name).unwrap();
            let (ours, worker) = UnixStream::pair().unwrap();
            let tap = worker.try_clone().unwrap();
            thread::spawn(move || child::run(DOMAINS[at], &[], worker, |_, _| {}));
            let domain = u16::try_from(at).unwrap();
            let attached = (1, 1, 0);
            node.fleet
                .attach(
                    domain,
                    attached,
                    OwnedFd::from(ours),
                    &BTreeMap::new(),
                    &BTreeMap::new(),
                )
                .unwrap();
            node.workers.push((domain, tap));
        }
        node.step(Input::Tick);
        node
    }

    /// A short time limit of scontrol, for one that does not return.
    pub(super) fn scontrol_has(&mut self, limit: Duration) {
        let dir = self.dir.path().join("slurm");
        let slurm = slurm::Settings {
            scontrol: Some(dir.join("scontrol")),
            timeout: limit,
            ..slurm::Settings::default()
        };
        self.slurm = Slurm::new(slurm, "n0".to_owned(), Some(BOOT)).with_proc(dir.join("proc"));
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn now(&self) -> Duration {
        self.ticks.last().unwrap().1
    }

    fn virtual_of(&self, real: Duration) -> Duration {
        let past = self.ticks.partition_point(|(began, _)| *began <= real);
        self.ticks[past.saturating_sub(1)].1
    }

    /// Takes what the workers have sent.
    fn pump(&mut self) -> Vec<u16> {
        let mut done = Vec::new();
        for domain in self.workers.iter().map(|(domain, _)| *domain).collect::<Vec<_>>() {
            for told in self.fleet.readable(domain) {
                match told {
                    FleetEvent::Done(collector) => done.push(collector),
                    FleetEvent::Event(collector, event) => {
                        self.log_is_read |= collector == "kernel_log";
                        self.events.push((collector, event));
                    }
                    FleetEvent::Gone => panic!("the worker {} is gone", DOMAINS[usize::from(domain)].name),
                    _ => {}
                }
            }
        }
        done
    }

    /// Waits until the state of the workers is that.
    pub(super) fn until(&mut self, what: &str, holds: impl Fn(&Snapshot) -> bool) {
        until_true(what, PATIENCE, || {
            self.pump();
            let snapshot = self.fleet.snapshot(self.now());
            holds(&snapshot)
        })
        .unwrap();
    }

    /// What the worker of this collector would send about a call that does not return.
    fn report(&mut self, collector: &str, part: u32) {
        let real = self.ticks.last().unwrap().0;
        let since = *self.since.get_or_insert(real);
        let late = (part, u64::try_from(since.as_nanos()).unwrap(), self.task.clone());
        self.send(collector, vec![late]);
    }

    fn send(&mut self, collector: &str, late: Vec<LateThread>) {
        let number = COLLECTORS.iter().position(|c| c.name == collector).unwrap();
        let domain = COLLECTORS[number].domain.name;
        let frame = FromWorker::Late(u16::try_from(number).unwrap(), late);
        let is_its = |(d, _): &&mut (u16, UnixStream)| DOMAINS[usize::from(*d)].name == domain;
        let (_, tap) = self.workers.iter_mut().find(is_its).unwrap();
        tap.write_all(&encode(&frame)).unwrap();
    }

    /// What the worker of this collector sends when nothing of it is late any more.
    pub(super) fn moves_on(&mut self, collector: &str) {
        self.send(collector, Vec::new());
    }

    /// Time passes, every collector is read, and the engine judges.
    pub(super) fn tick(&mut self, seconds: u64) {
        let at = self.now() + Duration::from_secs(seconds);
        self.ticks.push((boot::boottime(), at));
        let (mut waiting, _) = self.fleet.ask(at, &Filter::All, Duration::ZERO);
        until_true("every collector has answered", PATIENCE, || {
            let done = self.pump();
            waiting.retain(|collector| !done.contains(collector));
            waiting.is_empty() && self.log_is_read
        })
        .unwrap();
        match self.reports {
            Some((collector, part)) => self.report(collector, part),
            None => self.since = None,
        }
        self.settle();
        self.judge();
    }

    /// Waits until the device that is to be late is, and no other one: a busy machine delays those.
    pub(super) fn settle(&mut self) {
        let late = self.late.clone();
        self.until("only the right device is late", |snapshot| {
            let devices = snapshot.collectors.iter().flat_map(|c| &c.devices);
            devices.into_iter().all(|d| {
                let expected = late.as_ref().is_some_and(|name| d.subject.name.contains(name));
                d.late.is_some() == expected
            })
        });
    }

    fn judge(&mut self) {
        for (collector, event) in std::mem::take(&mut self.events) {
            self.step(Input::Event(collector, &event));
        }
        let snapshot = self.snapshot();
        self.step(Input::Snapshot(&snapshot));
        for _ in 0..10 {
            if self.engine.next_deadline().is_some_and(|at| at <= self.now()) {
                self.step(Input::Tick);
            }
        }
    }

    /// The node in virtual time, without what differs between two runs.
    fn snapshot(&mut self) -> Snapshot {
        let now = self.now();
        let mut snapshot = Snapshot::clone(&self.fleet.snapshot(now));
        let started: Vec<&str> = self
            .workers
            .iter()
            .map(|(d, _)| DOMAINS[usize::from(*d)].name)
            .collect();
        for collector in snapshot.collectors_mut() {
            // One with a clock of its own runs in real time.
            let is_timed = matches!(collector.spec.cadence, Cadence::Every(_));
            if is_timed || !started.contains(&collector.spec.domain.name) {
                collector.presence = Presence::NotHere;
            }
            for device in &mut collector.devices {
                if device.at > Duration::ZERO {
                    device.at = self.virtual_of(device.at);
                }
                device.took = Duration::ZERO;
                if let Some(late) = &mut device.late {
                    late.since = self.virtual_of(late.since);
                    // Its worker reports it again and again, in real time.
                    late.heard = now;
                    late.task.clone_from(&self.task);
                    // The values of a device that does not answer are those of its last reading.
                    device.at = device.at.min(late.since);
                }
            }
            for late in &mut collector.late {
                late.since = self.virtual_of(late.since);
                late.heard = now;
                late.task.clone_from(&self.task);
            }
        }
        for worker in &mut snapshot.workers {
            (worker.figures, worker.pid) = (None, worker.pid.map(|_| 1));
        }
        snapshot
    }

    fn step(&mut self, input: Input<'_>) {
        let boottime = self.now();
        let passed = i64::try_from((boottime - START).as_secs()).unwrap();
        let now = Now {
            boottime,
            wall: WALL + passed,
        };
        let mut queue: VecDeque<Effect> = self.engine.step(now, input).into();
        while let Some(effect) = queue.pop_front() {
            queue.extend(match effect {
                Effect::Store(record) => self.engine.step(now, Input::Stored(record.number, true)),
                Effect::Look(_) => {
                    let seen = self.slurm.look();
                    self.engine.step(now, Input::Scheduler(seen.as_ref()))
                }
                Effect::Act(id, action) => {
                    let outcome = self.slurm.act(&action);
                    self.engine.step(now, Input::Done(id, &outcome))
                }
                Effect::Publish(verdict) => {
                    self.verdict = Some(verdict);
                    Vec::new()
                }
                Effect::Audit(_) | Effect::Answer(_) => Vec::new(),
            });
        }
    }

    /// The name of a device, by its place in the collector's list.
    pub(super) fn device(&mut self, collector: &str, at: usize) -> String {
        let snapshot = self.fleet.snapshot(self.now());
        snapshot.collector(collector).unwrap().devices[at]
            .subject
            .name
            .clone()
    }

    /// What the daemon shows 1 s after the tick, and its verdict.
    pub(super) fn page(&mut self) -> (Page, Verdict) {
        let mut snapshot = self.snapshot();
        snapshot.at += Duration::from_secs(1);
        let facts = OwnFacts {
            mode: Mode::Drain,
            ..OwnFacts::default()
        };
        let page = Page {
            snapshot: Arc::new(snapshot),
            view: Arc::new(self.engine.view()),
            facts,
        };
        (
            page,
            Verdict {
                boot: self.boot.0.clone(),
                ..self.verdict.clone().unwrap()
            },
        )
    }
}
