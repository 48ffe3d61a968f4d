#![allow(clippy::disallowed_methods, reason = "tests look at the process from outside")]

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;
use crate::metric::{Kind, Tier, Unit};
use crate::sys::task;
use crate::{Cadence, Device, Devices, Metric, domain};

mod closing;
mod hotplug;
mod slow;

static VALUE: Metric = Metric {
    name: "value",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: &["device"],
    help: "Value.",
    tier: Tier::Core,
    source: "test",
    aliases: &[],
};

static METRICS: [&Metric; 1] = [&VALUE];

const fn spec(name: &'static str, slice: Duration) -> Spec {
    Spec {
        name,
        domain: &domain::HOST,
        metrics: &METRICS,
        events: &[],
        notes: false,
        cadence: Cadence::Every(Duration::from_secs(1)),
        slice,
        deadline: Duration::from_secs(5),
        keys: &[],
        open: |_, _| Ok(None),
    }
}

/// For devices that never answer. On a busy machine a good one may be late here too, so tests read until it answers.
static HASTY: Spec = spec("hasty", Duration::from_millis(20));
/// For devices that all answer.
static PATIENT: Spec = spec("patient", Duration::from_secs(600));

enum Behaviour {
    Answers,
    Panics,
    /// Answers, and its reading stands for the next batches.
    Stands(bool),
    /// Blocks in each reading until the test sends something.
    Blocks(Receiver<()>),
}

struct Fake {
    subject: Subject,
    behaviour: Behaviour,
}

impl Device for Fake {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn is_due(&self) -> bool {
        !matches!(self.behaviour, Behaviour::Stands(true))
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        match &mut self.behaviour {
            Behaviour::Answers => {}
            Behaviour::Stands(stands) => *stands = true,
            Behaviour::Panics => panic!("a bug in a collector"),
            Behaviour::Blocks(gate) => gate.recv().unwrap_or_default(),
        }
        out.u64(&VALUE, &[&self.subject.name], 1);
        Ok(())
    }
}

/// How long a test waits for what must come.
const LONG: Duration = Duration::from_secs(60);

/// Asks until it is so.
#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LONG, "waited {LONG:?} for this: {what}");
    }
}

/// Devices, and how many of their batches are over.
struct List(Vec<Box<dyn Device>>, Arc<AtomicUsize>);

impl Devices for List {
    fn scan(&mut self) -> Result<Vec<Box<dyn Device>>, Error> {
        Ok(std::mem::take(&mut self.0))
    }

    fn over(&mut self) {
        self.1.fetch_add(1, Ordering::AcqRel);
    }
}

/// Also where no reader ends it, since the last device is stuck.
#[test]
fn the_list_is_told_that_a_batch_is_over() {
    let (mut all_answer, over) = counted(&PATIENT, vec![Behaviour::Answers, Behaviour::Panics]);
    for times in 1..4 {
        read(&mut all_answer);
        assert_eq!(over.load(Ordering::Acquire), times);
    }
    let (_release, gate) = channel();
    let (mut one_is_stuck, over) = counted(&HASTY, vec![Behaviour::Answers, Behaviour::Blocks(gate)]);
    read(&mut one_is_stuck);
    assert_eq!(over.load(Ordering::Acquire), 1);
}

/// The daemon accepts no longer list.
#[test]
fn a_list_that_is_too_long_is_cut() {
    let behaviours = (0..=MAX_DEVICES).map(|_| Behaviour::Answers).collect();
    assert_eq!(runner(&PATIENT, behaviours).subjects().len(), MAX_DEVICES);
}

fn runner(spec: &'static Spec, behaviours: Vec<Behaviour>) -> Runner {
    counted(spec, behaviours).0
}

fn counted(spec: &'static Spec, behaviours: Vec<Behaviour>) -> (Runner, Arc<AtomicUsize>) {
    let over = Arc::default();
    let devices = behaviours
        .into_iter()
        .enumerate()
        .map(|(i, behaviour)| {
            Box::new(Fake {
                subject: Subject::gpu(i.to_string()),
                behaviour,
            }) as Box<dyn Device>
        })
        .collect();
    let mut source = Source {
        devices: Box::new(List(devices, Arc::clone(&over))),
        watcher: None,
    };
    (Runner::new(spec, &mut source).unwrap(), over)
}

fn read(runner: &mut Runner) -> Vec<(String, bool, usize)> {
    let mut got = Vec::new();
    runner.read(|r, b| got.push((r.subject.name.clone(), r.result.is_ok(), b.values().len())));
    got.sort();
    got
}

/// Reads until each of `names` has answered at least once.
fn read_until(runner: &mut Runner, names: &[&str]) {
    let mut missing: BTreeSet<String> = names.iter().map(|n| (*n).to_owned()).collect();
    until("each device answers", || {
        for (name, ok, _) in read(runner) {
            assert!(ok);
            missing.remove(&name);
        }
        missing.is_empty()
    });
}

fn busy(runner: &Runner) -> Vec<String> {
    runner
        .busy()
        .map(|b| match b.what {
            Operation::List => "list".to_owned(),
            Operation::Device(_, subject) => subject.name,
            Operation::Closing => "closing".to_owned(),
        })
        .collect()
}

/// Reads until only these have not come back.
fn until_busy(runner: &mut Runner, names: &[&str]) {
    until("only the stuck ones are busy", || {
        read(runner);
        busy(runner) == names
    });
}

fn gate() -> (Sender<()>, Behaviour) {
    let (open, gate) = channel();
    (open, Behaviour::Blocks(gate))
}

fn threads_named(name: &str) -> usize {
    std::fs::read_dir("/proc/self/task")
        .unwrap()
        .filter(|t| {
            let path = t.as_ref().unwrap().path().join("comm");
            std::fs::read_to_string(path).is_ok_and(|comm| comm.trim() == name)
        })
        .count()
}

/// Waits until that many threads have this name. A few that have done their work may need a while to end on a busy machine;
/// of a thousand readings far more would be left.
#[track_caller]
fn until_threads(name: &str, count: RangeInclusive<usize>) {
    let now = threads_named(name);
    assert!(
        now <= count.end() + 50,
        "{now} threads {name}, expected {count:?}"
    );
    until("threads end", || count.contains(&threads_named(name)));
}

#[test]
fn a_stuck_device_costs_itself_only_and_comes_back() {
    let (open, blocks) = gate();
    let mut runner = runner(
        &HASTY,
        vec![Behaviour::Answers, blocks, Behaviour::Answers, Behaviour::Answers],
    );
    read_until(&mut runner, &["0", "2", "3"]);
    until_busy(&mut runner, &["1"]);
    let tid = runner.busy().next().unwrap().tid;
    assert_eq!(task::read(tid).unwrap().name, "r:hasty");

    drop(open);
    read_until(&mut runner, &["0", "1", "2", "3"]);
}

#[test]
fn a_thousand_readings_beside_a_stuck_device_pile_up_no_threads() {
    static LONG: Spec = spec("long", Duration::from_millis(20));
    let (open, blocks) = gate();
    let mut runner = runner(&LONG, vec![blocks, Behaviour::Answers]);
    for _ in 0..1000 {
        read(&mut runner);
    }
    read_until(&mut runner, &["1"]);
    // The stuck one and the reader.
    until_threads("r:long", 1..=2);
    drop(open);
}

#[test]
fn a_device_that_is_not_due_is_skipped_and_stays_in_the_list() {
    let mut runner = runner(&PATIENT, vec![Behaviour::Stands(false), Behaviour::Answers]);
    assert_eq!(read(&mut runner).len(), 2);
    for _ in 0..3 {
        assert_eq!(read(&mut runner), [("1".to_owned(), true, 1)]);
        assert_eq!(runner.subjects().len(), 2);
    }
}

#[test]
fn a_panic_is_an_error_of_its_own_device() {
    let mut runner = runner(&PATIENT, vec![Behaviour::Panics, Behaviour::Answers]);
    for _ in 0..3 {
        assert_eq!(
            read(&mut runner),
            [("0".to_owned(), false, 0), ("1".to_owned(), true, 1)]
        );
    }
}

#[test]
fn each_of_two_stuck_devices_keeps_one_thread() {
    let ((open_a, a), (open_b, b)) = (gate(), gate());
    let mut runner = runner(&HASTY, vec![a, b, Behaviour::Answers]);
    read_until(&mut runner, &["2"]);
    until_busy(&mut runner, &["0", "1"]);
    drop((open_a, open_b));
}
