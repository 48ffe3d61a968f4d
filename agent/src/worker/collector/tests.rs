//! Sources that cannot be opened at once.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{SyncSender, sync_channel};

use collectors::{Device, Devices, Events, NoDevices, Source};

use super::*;
use crate::worker::proto::Decoder;

const LONG: Duration = Duration::from_secs(60);

type Open = fn(&Env, &Settings) -> Result<Option<Source>, Error>;

const fn spec(open: Open) -> Spec {
    Spec {
        name: "test",
        domain: &collectors::domain::HOST,
        metrics: &[],
        events: &[],
        notes: false,
        cadence: Cadence::OnDemand {
            fresh: Duration::ZERO,
        },
        slice: Duration::from_secs(600),
        deadline: LONG,
        keys: &[],
        open,
    }
}

struct Rig {
    task: Arc<CollectorTask>,
    daemon: UnixStream,
    decoder: Decoder,
}

fn rig(spec: &'static Spec) -> Rig {
    let (daemon, worker) = UnixStream::pair().unwrap();
    daemon.set_nonblocking(true).unwrap();
    let task = Arc::new(
        CollectorTask::new(TaskParts {
            number: 0,
            spec,
            env: Env::default(),
            settings: Settings::default(),
            cursor: None,
            notes: None,
            out: Out::new(worker),
        })
        .unwrap(),
    );
    task.start_open().unwrap();
    Rig {
        task,
        daemon,
        decoder: Decoder::default(),
    }
}

impl Rig {
    /// The next frame. Runs the main loop's work meanwhile.
    fn hears(&mut self) -> FromWorker {
        let start = Instant::now();
        loop {
            if let Some(frame) = self.decoder.take().unwrap() {
                return frame;
            }
            let mut bytes = [0; 1024];
            match self.daemon.read(&mut bytes) {
                Ok(n) => self.decoder.push(&bytes[..n]),
                Err(_) => {
                    assert!(start.elapsed() < LONG, "nothing is heard");
                    self.task.timer();
                    thread::sleep(Duration::from_millis(1));
                }
            }
        }
    }

    fn hears_opened(&mut self) -> Result<Option<usize>, String> {
        match self.hears() {
            FromWorker::Opened(_, Ok(subjects)) => Ok(subjects.map(|s| s.len())),
            FromWorker::Opened(_, Err(why)) => Err(why.reason),
            other => panic!("{other:?}"),
        }
    }
}

struct List(usize);

impl Devices for List {
    fn scan(&mut self) -> Result<Vec<Box<dyn Device>>, Error> {
        match self.0 {
            0 => Err(Error::Settings("no list yet".to_owned())),
            _ => Ok(Vec::new()),
        }
    }
}

fn source(devices: impl Devices + 'static) -> Source {
    Source {
        devices: Box::new(devices),
        watcher: None,
    }
}

#[test]
fn a_source_that_fails_panics_or_cannot_be_listed_is_opened_again_until_it_can() {
    static TRIES: AtomicUsize = AtomicUsize::new(0);
    static SPEC: Spec = spec(|_, _| match TRIES.fetch_add(1, Ordering::Relaxed) {
        0 => Err(Error::NotRecorded("driver")),
        1 => panic!("a bug in a collector"),
        n => Ok(Some(source(List(n - 2)))),
    });
    let mut rig = rig(&SPEC);
    let told: Vec<_> = (0..4).map(|_| rig.hears_opened()).collect();
    let failed = |reason: &str| Err(reason.to_owned());
    assert_eq!(
        told,
        [
            failed("not_recorded"),
            failed("panic"),
            failed("settings"),
            Ok(Some(0))
        ]
    );
    assert_eq!(TRIES.load(Ordering::Relaxed), 4);
}

#[test]
fn the_same_failure_is_told_once_and_a_request_is_answered_meanwhile() {
    static TRIES: AtomicUsize = AtomicUsize::new(0);
    static SPEC: Spec = spec(|_, _| match TRIES.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => Err(Error::NotRecorded("driver")),
        _ => Ok(Some(source(NoDevices))),
    });
    let mut rig = rig(&SPEC);
    assert!(rig.hears_opened().is_err());
    rig.task.ask();
    assert_eq!(rig.hears(), FromWorker::Done(0));
    assert_eq!(rig.hears_opened(), Ok(Some(0)));
    assert_eq!(TRIES.load(Ordering::Relaxed), 3);
}

#[test]
fn the_same_failure_is_told_again_once_an_attempt_was_reported_as_blocked() {
    static GATE: Mutex<Option<SyncSender<()>>> = Mutex::new(None);
    static TRIES: AtomicUsize = AtomicUsize::new(0);
    static SPEC: Spec = spec(|_, _| {
        if TRIES.fetch_add(1, Ordering::Relaxed) == 1 {
            let (to, gate) = sync_channel(0);
            *GATE.lock().unwrap() = Some(to);
            gate.recv().unwrap_or_default();
        }
        Err(Error::NotRecorded("driver"))
    });
    let mut rig = rig(&SPEC);
    assert_eq!(rig.hears_opened(), Err("not_recorded".to_owned()));
    let start = Instant::now();
    while GATE.lock().unwrap().is_none() {
        assert!(start.elapsed() < LONG);
        rig.task.timer();
    }
    if let SourcePhase::Opening { since, .. } = &mut rig.task.lock().phase {
        *since -= PERIOD;
    }
    rig.task.look();
    assert!(matches!(rig.hears(), FromWorker::Late(0, late) if late[0].0 == SOURCE));
    *GATE.lock().unwrap() = None;
    assert_eq!(rig.hears_opened(), Err("not_recorded".to_owned()));
}

#[test]
fn a_source_that_is_not_here_is_looked_for_again() {
    static TRIES: AtomicUsize = AtomicUsize::new(0);
    static SPEC: Spec = spec(|_, _| match TRIES.fetch_add(1, Ordering::Relaxed) {
        0 => Ok(None),
        _ => Ok(Some(source(NoDevices))),
    });
    let mut rig = rig(&SPEC);
    assert_eq!(rig.hears_opened(), Ok(None));
    {
        let mut state = rig.task.lock();
        let SourcePhase::NotOpen { again } = &mut state.phase else {
            panic!("it is not open");
        };
        assert!(*again > Instant::now(), "not at once");
        *again = Instant::now();
    }
    assert_eq!(rig.hears_opened(), Ok(Some(0)));
}

#[test]
fn a_source_that_is_stuck_is_not_opened_a_second_time() {
    static TRIES: AtomicUsize = AtomicUsize::new(0);
    static GATE: Mutex<Option<SyncSender<()>>> = Mutex::new(None);
    static SPEC: Spec = spec(|_, _| {
        TRIES.fetch_add(1, Ordering::Relaxed);
        let (to, gate) = sync_channel(0);
        *GATE.lock().unwrap() = Some(to);
        gate.recv().unwrap_or_default();
        Ok(None)
    });
    let mut rig = rig(&SPEC);
    let start = Instant::now();
    while GATE.lock().unwrap().is_none() {
        assert!(start.elapsed() < LONG);
    }
    for _ in 0..1000 {
        rig.task.timer();
        rig.task.ask();
    }
    assert!(rig.task.leave(), "it is not left alone");
    assert_eq!(TRIES.load(Ordering::Relaxed), 1);
    *GATE.lock().unwrap() = None;
    assert_eq!(rig.hears_opened(), Ok(None));
}

#[test]
fn a_watcher_is_asked_to_return_and_waited_for() {
    struct Waits;
    impl Watcher for Waits {
        fn run(&mut self, _: Option<Cursor>, out: &Events) -> Result<(), Error> {
            while !out.is_over() {
                thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        }
    }
    static SPEC: Spec = spec(|_, _| {
        Ok(Some(Source {
            devices: Box::new(NoDevices),
            watcher: Some(Box::new(Waits)),
        }))
    });
    let mut rig = rig(&SPEC);
    assert_eq!(rig.hears_opened(), Ok(Some(0)));
    let start = Instant::now();
    while !rig.task.watched().runs() {
        assert!(start.elapsed() < LONG);
    }
    while rig.task.leave() {
        assert!(start.elapsed() < LONG, "the watcher gets no signal to return");
    }
    assert!(!rig.task.watched().runs());
}

#[test]
fn a_watcher_that_failed_counts_as_running_once_it_listens_though_nothing_happens() {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    struct Fails;
    impl Watcher for Fails {
        fn run(&mut self, _: Option<Cursor>, out: &Events) -> Result<(), Error> {
            if RUNS.fetch_add(1, Ordering::SeqCst) == 0 {
                return Err(Error::Panic("no socket".to_owned()));
            }
            out.listens();
            while !out.is_over() {
                thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        }
    }
    static SPEC: Spec = spec(|_, _| {
        Ok(Some(Source {
            devices: Box::new(NoDevices),
            watcher: Some(Box::new(Fails)),
        }))
    });
    let mut rig = rig(&SPEC);
    assert_eq!(rig.hears_opened(), Ok(Some(0)));
    assert_eq!(rig.hears(), FromWorker::Watching(0, Ok(())));
    assert!(matches!(rig.hears(), FromWorker::Watching(0, Err(_))));
    assert_eq!(rig.hears(), FromWorker::Watching(0, Ok(())));
    rig.task.leave();
}

#[test]
fn a_watcher_with_nothing_to_watch_counts_as_none_until_there_is() {
    static READY: AtomicBool = AtomicBool::new(false);
    struct Waits;
    impl Watcher for Waits {
        fn ready(&mut self, _: Duration) -> bool {
            thread::sleep(Duration::from_millis(1));
            READY.load(Ordering::Acquire)
        }

        fn run(&mut self, _: Option<Cursor>, out: &Events) -> Result<(), Error> {
            while !out.is_over() {
                thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        }
    }
    static SPEC: Spec = spec(|_, _| {
        Ok(Some(Source {
            devices: Box::new(NoDevices),
            watcher: Some(Box::new(Waits)),
        }))
    });
    let mut rig = rig(&SPEC);
    assert_eq!(rig.hears_opened(), Ok(Some(0)));
    rig.task.ask();
    assert_eq!(rig.hears(), FromWorker::Done(0));
    READY.store(true, Ordering::Release);
    assert_eq!(rig.hears(), FromWorker::Watching(0, Ok(())));
    rig.task.leave();
}
