//! Against the stand-in for the driver's library: what may go wrong, and that only the GPU concerned pays for it.

#![allow(clippy::disallowed_methods, reason = "tests build the trees that they read")]

mod blocked;
mod changes;
mod cost;
mod events;
mod faults;
mod links;
mod opening;
mod values;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tempfile::TempDir;
use testkit::nvml::{FakeNvml, Fault, code};

use super::*;
use crate::gpu::metrics as m;
use crate::runner::{Number, Reading, Runner, Sink};
use crate::{Block, Metric, Subject, Value};

/// How long a test waits for what must come.
const LONG: Duration = Duration::from_secs(60);

/// Asks until it is so.
#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LONG, "waited {LONG:?} for this: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What one reading gave: every series with a value, by its text.
type Seen = BTreeMap<String, f64>;

/// A node with the stand-in.
struct Node {
    dir: TempDir,
    driver: FakeNvml,
    settings: String,
    runner: Option<Runner>,
    /// What the list has noted last, for the next worker.
    notes: Option<String>,
}

/// One reading, and what was noted.
struct Taker<'a> {
    seen: &'a mut Seen,
    notes: &'a mut Option<String>,
}

impl Sink for Taker<'_> {
    fn devices(&mut self, list: Result<Vec<(Number, Subject)>, Error>) {
        list.unwrap();
    }

    fn notes(&mut self, notes: String) {
        *self.notes = Some(notes);
    }

    fn reading(&mut self, reading: Reading<'_>, block: &Block) {
        take(self.seen, &reading, block);
    }
}

fn scenario(case: &str) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/nvidia");
    fixtures.join(case).join("nvml.toml")
}

impl Node {
    fn of(case: &str) -> Self {
        Self::with(&fs::read_to_string(scenario(case)).unwrap())
    }

    /// A node whose scenario is this text.
    fn with(scenario: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let driver = FakeNvml::install_text(dir.path(), scenario).unwrap();
        Self {
            settings: format!("library = {:?}\n", driver.library()),
            driver,
            dir,
            runner: None,
            notes: None,
        }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A GPU on the PCI bus.
    fn add_pci(&self, address: &str, driver: &str) {
        let folder = format!("sys/bus/pci/devices/{address}");
        self.write(&format!("{folder}/class"), "0x030200\n");
        self.write(&format!("{folder}/vendor"), "0x10de\n");
        let link = self.root().join(&folder).join("driver");
        fs::remove_file(&link).ok();
        symlink(format!("../../../bus/pci/drivers/{driver}"), link).unwrap();
    }

    fn open(&self) -> Result<Option<Source>, Error> {
        (SPEC.open)(
            &Env::recorded(self.dir.path()),
            &SPEC.settings(&self.settings).unwrap(),
        )
    }

    /// One reading. Opens the collector at first.
    fn read(&mut self) -> Seen {
        if self.runner.is_none() {
            let mut source = self.open().unwrap().unwrap();
            self.runner = Some(Runner::new(&SPEC, &mut source).unwrap());
        }
        let runner = self.runner.as_mut().unwrap();
        let mut seen = Seen::new();
        runner.read_to(&mut Taker {
            seen: &mut seen,
            notes: &mut self.notes,
        });
        seen
    }

    /// Another worker takes over.
    fn restart(&mut self) {
        self.runner = None;
        let mut source = self.open().unwrap().unwrap();
        source.devices.recall(self.notes.as_deref().unwrap());
        self.runner = Some(Runner::new(&SPEC, &mut source).unwrap());
    }

    /// Readings until it is so; what the last one gave.
    #[track_caller]
    fn read_until(&mut self, what: &str, is_so: impl Fn(&Seen) -> bool) -> Seen {
        let mut seen = Seen::new();
        until(what, || {
            seen = self.read();
            is_so(&seen)
        });
        seen
    }
}

fn take(seen: &mut Seen, reading: &Reading<'_>, block: &Block) {
    assert!(reading.result.is_ok(), "{:?}", reading.result);
    for (series, value) in block.iter() {
        let labels: Vec<&str> = series.labels.iter().map(|l| l.as_str()).collect();
        let key = key(series.metric, &labels);
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        match value {
            Value::U64(v) => seen.insert(key, v as f64),
            Value::F64(v) => seen.insert(key, v),
            Value::Absent => None,
        };
    }
}

fn key(metric: &Metric, labels: &[&str]) -> String {
    format!("{} {}", metric.name, labels.join("|"))
}

/// The GPU of that number in the scenarios.
fn gpu(number: u32) -> String {
    format!("GPU-00000000-0000-4000-8000-0000000001{number:02}")
}

fn get(seen: &Seen, metric: &Metric, labels: &[&str]) -> Option<f64> {
    seen.get(&key(metric, labels)).copied()
}

/// Which GPUs are up.
fn up(seen: &Seen) -> Vec<f64> {
    (0..8).filter_map(|n| get(seen, &m::UP, &[&gpu(n)])).collect()
}

/// All but these of eight GPUs are up.
fn up_but(down: &[usize]) -> Vec<f64> {
    (0..8).map(|n| f64::from(!down.contains(&n))).collect()
}

/// The label of the info series of a GPU.
fn info(seen: &Seen, metric: &Metric, gpu: &str, label: usize) -> Option<String> {
    let start = format!("{} {gpu}|", metric.name);
    let found = seen.keys().find(|k| k.starts_with(&start))?;
    found.split_once(' ')?.1.split('|').nth(label).map(str::to_owned)
}
