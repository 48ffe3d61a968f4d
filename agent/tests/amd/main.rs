//! Nodes with AMD GPUs: the page `/metrics/amd`, and what pages and checks say while a GPU or its driver has a fault.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and reads and writes its own fixtures"
)]

mod faults;
mod jobs;
mod page;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use collectors::runner::{Reading, Runner};
use collectors::{Block, BootId, Env, Settings, Spec, amd, host};
use exposition::{Encoder, Format, Selection};
use health::engine::Engine;
use health::policy::Policy;
use health::{Input, Now};
use model::snapshot::{DeviceState, Presence, Snapshot};
use nodewarden::config::Config;
use nodewarden::own::{OwnFacts, Page};
use testkit::tree;
use testkit::wait::{PATIENCE, until_true};

/// A node whose collectors and engine keep their state over faults. The readings of the host name the driver of each GPU.
struct Node {
    dir: tempfile::TempDir,
    runners: Vec<Runner>,
    engine: Engine,
    tick: u64,
    last: Snapshot,
}

fn fixture(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fixtures/amd")
        .join(case)
}

fn now(tick: u64) -> Now {
    let after = Duration::from_secs(15 * tick);
    Now {
        boottime: Duration::from_secs(100_000) + after,
        wall: 1_800_000_000 + i64::try_from(after.as_secs()).unwrap(),
    }
}

impl Node {
    fn of(case: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        tree::unpack(case, dir.path()).unwrap();
        Self::open(dir)
    }

    fn open(dir: tempfile::TempDir) -> Self {
        Self::with(dir, &[&amd::SPEC, &host::SPEC])
    }

    fn with(dir: tempfile::TempDir, specs: &[&'static Spec]) -> Self {
        let env = Env::recorded(dir.path());
        let runner = |spec: &&'static Spec| {
            let mut source = (spec.open)(&env, &Settings::default()).unwrap().unwrap();
            Runner::new(spec, &mut source).unwrap()
        };
        let runners = specs.iter().map(runner).collect();
        let empty = tempfile::NamedTempFile::with_suffix(".toml").unwrap();
        let config = Config::load(Some(empty.path()), &[], &[]).unwrap().config;
        let policy = Policy::new(&config.health, None).unwrap();
        Self {
            dir,
            runners,
            engine: Engine::new(policy, BootId("boot".to_owned()), None, now(0)).unwrap(),
            tick: 0,
            last: Snapshot::empty(Duration::ZERO),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("root").join(name)
    }

    /// One reading, and a health tick with it.
    fn tick(&mut self) {
        self.tick += 1;
        let at = now(self.tick);
        let mut snapshot = Snapshot::empty(at.boottime);
        for collector in snapshot.collectors_mut() {
            collector.presence = Presence::NotHere;
            if collector.spec.name == "kernel_log" {
                collector.presence = Presence::Open;
                collector.watcher = Some(Ok(()));
            }
        }
        for runner in &mut self.runners {
            let name = runner.spec().name;
            let collector = snapshot.collector_mut(name);
            let collector = collector.unwrap();
            collector.presence = Presence::Open;
            let devices = &mut collector.devices;
            let mut take = |reading: Reading<'_>, block: &Block| {
                devices.push(DeviceState::of(reading, block, at.boottime));
            };
            runner.read(&mut take);
            until_true("no reading is late", PATIENCE, || {
                runner.take_late(&mut take);
                runner.busy().next().is_none()
            })
            .unwrap();
            collector.devices.sort_by(|a, b| a.subject.cmp(&b.subject));
        }
        self.engine.step(at, Input::Snapshot(&snapshot));
        self.last = snapshot;
    }

    /// Three minutes.
    fn ticks(&mut self) {
        (0..12).for_each(|_| self.tick());
    }

    /// A page of the last reading, in every tier. Without a name: `/metrics`.
    fn page(&self, name: Option<&'static str>) -> String {
        let page = Page {
            snapshot: Arc::new(self.last.clone()),
            view: Arc::new(self.engine.view()),
            facts: OwnFacts::default(),
        };
        let mut out = Vec::new();
        let all = Selection {
            tier: exposition::tier("debug"),
            ..Selection::default()
        };
        Encoder::default().page(name, &page, &all, Format::Text, &mut out);
        String::from_utf8(out).unwrap()
    }
}
