//! Devices that are added and removed, and lists that cannot be read.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// A bus to which a test adds devices and from which it removes them.
#[derive(Clone, Default)]
pub(super) struct Bus(Arc<Mutex<State>>);

#[derive(Default)]
pub(super) struct State {
    plugged: Vec<(&'static str, Arc<AtomicUsize>)>,
    pub changed: bool,
    /// The identity of the devices that the next scans find.
    pub identity: &'static str,
    pub scans: usize,
    /// The result of the next scans.
    fault: Option<Fault>,
    /// Devices of these names wait for the sender.
    pub gates: Vec<(&'static str, Receiver<()>)>,
    /// The next objects of these names wait for the sender when they are closed.
    pub ends: Vec<(&'static str, End)>,
    /// The number of closed objects.
    pub closed: usize,
}

/// How the closing of a device fails or blocks.
pub(super) enum End {
    Blocks(Receiver<()>),
    Panics,
}

enum Fault {
    Fails,
    Panics,
    Blocks(Receiver<()>),
}

impl Bus {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a device. Returns the number of readings of the object that the next scan makes for it.
    pub(super) fn plug(&self, name: &'static str) -> Arc<AtomicUsize> {
        let readings = Arc::new(AtomicUsize::new(0));
        let mut state = self.state();
        state.plugged.push((name, Arc::clone(&readings)));
        state.changed = true;
        readings
    }

    pub(super) fn unplug(&self, name: &'static str) {
        let mut state = self.state();
        state.plugged.retain(|(n, _)| *n != name);
        state.changed = true;
    }

    fn fault(&self, fault: Option<Fault>) {
        let mut state = self.state();
        state.fault = fault;
        state.changed = true;
    }

    pub(super) fn runner(&self, spec: &'static Spec) -> Runner {
        let mut source = Source {
            devices: Box::new(self.clone()),
            watcher: None,
        };
        Runner::new(spec, &mut source).unwrap()
    }
}

impl Devices for Bus {
    fn scan(&mut self) -> Result<Vec<Box<dyn Device>>, Error> {
        let mut state = self.state();
        state.scans += 1;
        match state.fault.take() {
            None => {}
            Some(Fault::Fails) => {
                state.fault = Some(Fault::Fails);
                return Err(Error::Panic("no list".to_owned()));
            }
            Some(Fault::Panics) => {
                drop(state);
                panic!("a bug in a scan");
            }
            Some(Fault::Blocks(gate)) => {
                drop(state);
                gate.recv().unwrap_or_default();
                state = self.state();
            }
        }
        let mut devices: Vec<Box<dyn Device>> = Vec::new();
        for (name, readings) in state.plugged.clone() {
            let gate = state.gates.iter().position(|(n, _)| *n == name);
            let end = state.ends.iter().position(|(n, _)| *n == name);
            devices.push(Box::new(Plugged {
                bus: self.clone(),
                end: end.map(|at| state.ends.remove(at).1),
                subject: Subject::gpu(name),
                name,
                identity: state.identity,
                readings,
                gate: gate.map(|at| state.gates.remove(at).1),
            }));
        }
        state.changed = false;
        Ok(devices)
    }

    fn changed(&mut self) -> bool {
        std::mem::take(&mut self.state().changed)
    }
}

struct Plugged {
    bus: Bus,
    end: Option<End>,
    subject: Subject,
    name: &'static str,
    identity: &'static str,
    readings: Arc<AtomicUsize>,
    gate: Option<Receiver<()>>,
}

impl Device for Plugged {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn identity(&self) -> &str {
        self.identity
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        self.readings.fetch_add(1, Ordering::Relaxed);
        if let Some(gate) = self.gate.take() {
            gate.recv().unwrap_or_default();
        }
        out.u64(&VALUE, &[self.name], 1);
        Ok(())
    }
}

impl Drop for Plugged {
    fn drop(&mut self) {
        match self.end.take() {
            None => {}
            Some(End::Blocks(gate)) => gate.recv().unwrap_or_default(),
            Some(End::Panics) => {
                self.bus.state().closed += 1;
                panic!("a bug in the end of a device");
            }
        }
        self.bus.state().closed += 1;
    }
}

/// The results of a reading: the lists, and the devices that answered.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Observed {
    pub lists: Vec<Result<Vec<(Number, String)>, String>>,
    pub read: Vec<(Number, String)>,
}

impl Sink for Observed {
    fn devices(&mut self, list: Result<Vec<(Number, Subject)>, Error>) {
        self.lists.push(match list {
            Ok(list) => Ok(list.into_iter().map(|(n, s)| (n, s.name)).collect()),
            Err(e) => Err(e.reason().to_owned()),
        });
    }

    fn reading(&mut self, reading: Reading<'_>, _: &Block) {
        self.read.push((reading.device, reading.subject.name.clone()));
    }
}

/// One complete reading, supervised as in a worker.
pub(super) fn observe(runner: &mut Runner) -> Observed {
    let mut observed = Observed::default();
    runner.drain(&mut observed);
    runner.begin();
    let start = Instant::now();
    while let Some(wait) = runner.check() {
        assert!(start.elapsed() < LONG, "a reading does not end");
        runner.shared.wait(wait.min(LONG));
    }
    runner.drain(&mut observed);
    observed.read.sort();
    observed
}

pub(super) fn names(list: &[(Number, &str)]) -> Vec<(Number, String)> {
    list.iter().map(|(n, s)| (*n, (*s).to_owned())).collect()
}

#[test]
fn a_device_that_is_plugged_in_gets_a_new_number_and_is_read_at_once() {
    let bus = Bus::default();
    bus.plug("a");
    let mut runner = bus.runner(&PATIENT);
    observe(&mut runner);
    bus.plug("b");
    let observed = observe(&mut runner);
    assert_eq!(observed.lists, [Ok(names(&[(0, "a"), (1, "b")]))]);
    assert_eq!(observed.read, names(&[(0, "a"), (1, "b")]));
}

#[test]
fn nothing_is_scanned_and_nothing_reported_while_nothing_changes() {
    let bus = Bus::default();
    bus.plug("a");
    let mut runner = bus.runner(&PATIENT);
    observe(&mut runner);
    let scans = bus.state().scans;
    for _ in 0..10 {
        assert_eq!(observe(&mut runner).lists, []);
    }
    assert_eq!(bus.state().scans, scans);
}

#[test]
fn a_device_that_stays_keeps_its_number_and_is_read_through_what_the_last_scan_found() {
    let bus = Bus::default();
    let before = bus.plug("a");
    let mut runner = bus.runner(&PATIENT);
    observe(&mut runner);
    bus.unplug("a");
    let after = bus.plug("a");
    let observed = observe(&mut runner);
    assert_eq!((observed.lists, observed.read), (Vec::new(), names(&[(0, "a")])));
    assert_eq!(
        (before.load(Ordering::Relaxed), after.load(Ordering::Relaxed)),
        (1, 1)
    );
}

#[test]
fn a_number_is_never_given_twice() {
    let bus = Bus::default();
    bus.plug("a");
    let mut runner = bus.runner(&PATIENT);
    for number in 1..50 {
        bus.plug("b");
        assert!(observe(&mut runner).read.contains(&(number, "b".to_owned())));
        bus.unplug("b");
        let observed = observe(&mut runner);
        assert_eq!(observed.lists, [Ok(names(&[(0, "a")]))]);
        assert_eq!(observed.read, names(&[(0, "a")]));
    }
}

#[test]
fn of_two_devices_with_one_name_the_first_is_read() {
    let bus = Bus::default();
    let first = bus.plug("a");
    let second = bus.plug("a");
    let mut runner = bus.runner(&PATIENT);
    bus.state().changed = true;
    assert_eq!(observe(&mut runner).read, names(&[(0, "a")]));
    assert_eq!(
        (first.load(Ordering::Relaxed), second.load(Ordering::Relaxed)),
        (1, 0)
    );
}

#[test]
fn a_stuck_device_that_is_gone_is_kept_until_it_comes_back_and_then_dropped() {
    let bus = Bus::default();
    let (open, gate) = channel();
    bus.state().gates.push(("a", gate));
    bus.plug("a");
    bus.plug("b");
    let mut runner = bus.runner(&HASTY);
    until_busy(&mut runner, &["a"]);
    bus.unplug("a");
    let scans = bus.state().scans;
    until("a scan finds it gone", || {
        observe(&mut runner);
        bus.state().scans > scans && !busy(&runner).contains(&"list".to_owned())
    });
    assert!(busy(&runner).contains(&"a".to_owned()));
    assert!(runner.subjects().iter().any(|(_, s)| s.name == "a"), "it is kept");

    drop(open);
    until("it is removed", || {
        let observed = observe(&mut runner);
        assert!(
            !observed.read.contains(&(0, "a".to_owned())),
            "it is no longer listed"
        );
        observed.lists.last() == Some(&Ok(names(&[(1, "b")])))
    });
    assert!(!busy(&runner).contains(&"a".to_owned()));
}

#[test]
fn a_stuck_device_that_is_found_again_keeps_its_number() {
    let bus = Bus::default();
    let (open, gate) = channel();
    bus.state().gates.push(("a", gate));
    bus.plug("a");
    let mut runner = bus.runner(&HASTY);
    until_busy(&mut runner, &["a"]);
    bus.unplug("a");
    observe(&mut runner);
    bus.plug("a");
    observe(&mut runner);
    drop(open);
    until("it answers", || observe(&mut runner).read == names(&[(0, "a")]));
    assert_eq!(runner.subjects().len(), 1);
}

#[test]
fn a_stuck_device_that_is_found_again_is_read_through_the_new_object_once_it_comes_back() {
    let bus = Bus::default();
    let (open, gate) = channel();
    bus.state().gates.push(("a", gate));
    let old = bus.plug("a");
    let mut runner = bus.runner(&HASTY);
    until_busy(&mut runner, &["a"]);
    bus.unplug("a");
    let new = bus.plug("a");
    until("a scan finds it again", || {
        observe(&mut runner);
        !bus.state().changed && !busy(&runner).contains(&"list".to_owned())
    });
    assert!(busy(&runner).contains(&"a".to_owned()), "it keeps its place");
    assert_eq!(
        new.load(Ordering::Relaxed),
        0,
        "it is not read while the old one is stuck"
    );

    drop(open);
    until("the new one is read", || {
        observe(&mut runner);
        new.load(Ordering::Relaxed) > 0
    });
    assert_eq!(old.load(Ordering::Relaxed), 1);
    assert_eq!(runner.subjects(), [(0, Subject::gpu("a"))]);
    until("the old one is closed", || bus.state().closed == 1);
}

/// A runner of the device `a`, whose reading does not return before the sender is dropped.
fn stuck_with_identity(bus: &Bus) -> (Sender<()>, Runner) {
    let (open, gate) = channel();
    bus.state().gates.push(("a", gate));
    bus.state().identity = "1";
    bus.plug("a");
    let mut runner = bus.runner(&HASTY);
    until_busy(&mut runner, &["a"]);
    (open, runner)
}

#[test]
fn a_device_with_another_identity_does_not_wait_for_the_stuck_one_of_its_name() {
    let bus = Bus::default();
    let (open, mut runner) = stuck_with_identity(&bus);
    bus.state().identity = "2";
    bus.state().changed = true;
    let mut lists = Vec::new();
    until("the new one is read", || {
        let observed = observe(&mut runner);
        lists.extend(observed.lists);
        observed.read == names(&[(1, "a")])
    });
    assert_eq!(lists, [Ok(names(&[(1, "a")]))]);
    assert_eq!(busy(&runner), ["closing"], "the thread is still there");

    drop(open);
    until("the old one is closed", || {
        assert!(!observe(&mut runner).read.contains(&(0, "a".to_owned())));
        bus.state().closed == 1
    });
    assert_eq!(runner.subjects(), [(1, Subject::gpu("a"))]);
    assert_eq!(busy(&runner), [""; 0]);
}

#[test]
fn a_stuck_device_with_an_identity_leaves_the_list_and_is_the_same_when_it_is_found_again() {
    let bus = Bus::default();
    let (open, mut runner) = stuck_with_identity(&bus);
    bus.unplug("a");
    until("it has left the list", || {
        observe(&mut runner).lists.last() == Some(&Ok(Vec::new()))
    });
    assert_eq!(busy(&runner), ["closing"]);
    bus.plug("a");
    until("it is listed", || {
        observe(&mut runner).lists.last() == Some(&Ok(names(&[(0, "a")])))
    });
    assert_eq!(busy(&runner), ["a"], "it has one thread");
    drop(open);
    until("it answers", || observe(&mut runner).read == names(&[(0, "a")]));
}

#[test]
fn a_quiet_device_with_another_identity_is_another_one() {
    let bus = Bus::default();
    bus.state().identity = "1";
    bus.plug("a");
    let mut runner = bus.runner(&PATIENT);
    observe(&mut runner);
    bus.state().identity = "2";
    bus.state().changed = true;
    let observed = observe(&mut runner);
    assert_eq!(observed.lists, [Ok(names(&[(1, "a")]))]);
    assert_eq!(observed.read, names(&[(1, "a")]));
}

#[test]
fn of_all_that_was_found_beside_a_stuck_device_only_the_last_is_kept() {
    static AGAIN: Spec = spec("again", Duration::from_millis(20));
    let bus = Bus::default();
    let (open, gate) = channel();
    bus.state().gates.push(("a", gate));
    bus.plug("a");
    let mut runner = bus.runner(&AGAIN);
    until_busy(&mut runner, &["a"]);
    for _ in 0..1000 {
        bus.state().changed = true;
        observe(&mut runner);
    }
    // The stuck one and the reader.
    until_threads("r:again", 1..=2);
    until_threads("d:again", 0..=0);
    let scans = bus.state().scans;
    assert!(scans > 2, "{scans}");
    // The first scan made the stuck object, the last one the waiting object.
    until("the others are closed", || {
        let state = bus.state();
        state.closed + 2 == state.scans
    });
    drop(open);
}

#[test]
fn a_scan_that_fails_leaves_the_old_devices_and_is_tried_again_at_each_reading() {
    let bus = Bus::default();
    bus.plug("a");
    let mut runner = bus.runner(&PATIENT);
    bus.fault(Some(Fault::Fails));
    let scans = bus.state().scans;
    for _ in 0..3 {
        let observed = observe(&mut runner);
        assert_eq!(observed.lists, [Err("panic".to_owned())]);
        assert_eq!(observed.read, names(&[(0, "a")]));
    }
    assert_eq!(bus.state().scans, scans + 3);
    bus.state().fault = None;
    assert_eq!(
        observe(&mut runner).lists,
        [Ok(names(&[(0, "a")]))],
        "the end is reported too"
    );
    assert_eq!(observe(&mut runner).lists, []);
}

#[test]
fn a_panic_in_a_scan_costs_the_scan_only() {
    let bus = Bus::default();
    bus.plug("a");
    let mut runner = bus.runner(&PATIENT);
    bus.fault(Some(Fault::Panics));
    let observed = observe(&mut runner);
    assert_eq!(observed.lists, [Err("panic".to_owned())]);
    assert_eq!(observed.read, names(&[(0, "a")]));
}

#[test]
fn a_scan_that_blocks_keeps_one_thread_and_the_old_devices_are_read() {
    static SCANS: Spec = spec("scans", Duration::from_millis(20));
    let bus = Bus::default();
    bus.plug("a");
    let mut runner = bus.runner(&SCANS);
    let (open, gate) = channel();
    bus.fault(Some(Fault::Blocks(gate)));
    bus.plug("b");
    until("the list is busy", || {
        observe(&mut runner);
        busy(&runner).contains(&"list".to_owned())
    });
    read_until(&mut runner, &["a"]);
    for _ in 0..100 {
        assert_eq!(observe(&mut runner).lists, []);
    }
    // The stuck one and the reader.
    until_threads("r:scans", 1..=2);

    drop(open);
    let both = Ok(names(&[(0, "a"), (1, "b")]));
    until("both are reported", || {
        observe(&mut runner).lists.last() == Some(&both)
    });
    assert!(!busy(&runner).contains(&"list".to_owned()));
    read_until(&mut runner, &["b"]);
}

#[test]
fn a_reading_of_many_devices_wakes_its_supervisor_once() {
    static MANY: Spec = spec("many", Duration::from_secs(600));
    static TOLD: AtomicUsize = AtomicUsize::new(0);
    let bus = Bus::default();
    for name in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"] {
        bus.plug(name);
    }
    let mut source = Source {
        devices: Box::new(bus),
        watcher: None,
    };
    let (to, over) = channel();
    let mut runner = Runner::with_notice(&MANY, &mut source, move || {
        TOLD.fetch_add(1, Ordering::Relaxed);
        to.send(()).unwrap_or_default();
    })
    .unwrap();
    for reading in 1..=20 {
        assert!(runner.begin());
        over.recv_timeout(LONG).unwrap();
        let mut observed = Observed::default();
        assert!(!runner.drain(&mut observed));
        assert_eq!(observed.read.len(), 10);
        assert_eq!(TOLD.load(Ordering::Relaxed), reading);
    }
}
