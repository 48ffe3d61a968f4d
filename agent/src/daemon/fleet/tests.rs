use collectors::{Settings, Subject, Value};

use super::receive::MAX_NOTES;
use super::*;
use crate::worker::monitor::{CLOSING, WATCHER};
use crate::worker::proto::{Failure, FromWorker, MAX_FRAME, WireValues, to_wire};
use std::io::Read;
use std::time::Instant;

/// A fleet with the test as one of its workers.
struct Rig {
    fleet: Fleet,
    worker: UnixStream,
    domain: u16,
    collector: u16,
}

fn rig() -> Rig {
    rig_of("host")
}

/// The worker of that collector.
fn rig_of(name: &str) -> Rig {
    let spec = COLLECTORS.iter().find(|c| c.name == name).unwrap();
    let is_its = |d: &&Domain| d.name == spec.domain.name;
    let domain = u16::try_from(DOMAINS.iter().position(is_its).unwrap()).unwrap();
    let collector = u16::try_from(COLLECTORS.iter().position(|c| c.name == name).unwrap()).unwrap();
    let (ours, worker) = UnixStream::pair().unwrap();
    let mut fleet = Fleet::new(Env::default(), Settings::default());
    let notes = BTreeMap::from([(name.to_owned(), "noted".to_owned())]);
    fleet
        .attach(domain, (7, 1, 0), OwnedFd::from(ours), &BTreeMap::new(), &notes)
        .unwrap();
    Rig {
        fleet,
        worker,
        domain,
        collector,
    }
}

impl Rig {
    fn says(&mut self, frames: &[FromWorker]) -> Vec<FleetEvent> {
        for frame in frames {
            self.worker.write_all(&encode(frame)).unwrap();
        }
        self.fleet.readable(self.domain)
    }

    fn hello(&mut self) {
        let told = self.says(&[FromWorker::Hello {
            build: crate::BUILD.to_owned(),
        }]);
        assert!(told.is_empty(), "{told:?}");
    }

    fn open(&mut self) {
        self.hello();
        let subjects = vec![Subject::node(), Subject::gpu("x")];
        self.says(&[FromWorker::Opened(self.collector, Ok(Some(subjects)))]);
    }

    fn presence(&mut self) -> Presence {
        self.fleet
            .snapshot(Duration::from_secs(100))
            .collector("host")
            .unwrap()
            .presence
            .clone()
    }
}

/// A collector of which nothing was reported is a fault of its worker.
#[test]
fn a_collector_whose_source_is_not_on_this_node_is_absent_and_no_fault() {
    let mut rig = rig();
    assert_eq!(rig.presence(), Presence::Unknown);
    rig.fleet.down(rig.domain, WorkerDown::Absent, 0);
    assert_eq!(rig.presence(), Presence::NotHere);
    rig.fleet.down(rig.domain, WorkerDown::Backoff, 0);
    assert_eq!(rig.presence(), Presence::Unknown);
}

fn gone(told: &[FleetEvent]) -> bool {
    matches!(told, [.., FleetEvent::Gone])
}

#[test]
fn a_worker_of_another_build_is_closed() {
    let mut rig = rig();
    assert!(gone(&rig.says(&[FromWorker::Hello {
        build: "0.0.0+other".to_owned()
    }])));
    let mut rest = Vec::new();
    rig.worker.read_to_end(&mut rest).unwrap();
}

#[test]
fn garbage_closes_the_worker_and_forgets_what_it_said() {
    for garbage in [
        &b"\xff\xff\xff\xff"[..],
        b"\x02\0\0\0\xff\xff",
        b"\0\0\0\0",
        b"\x01\0\0\0\x09",
    ] {
        let mut rig = rig();
        rig.open();
        assert_eq!(rig.presence(), Presence::Open);
        rig.worker.write_all(garbage).unwrap();
        assert!(gone(&rig.fleet.readable(rig.domain)), "{garbage:?}");
        assert_eq!(rig.presence(), Presence::Unknown);
    }
}

#[test]
fn a_worker_may_speak_of_its_own_collectors_and_devices_only() {
    let foreign = u16::try_from(COLLECTORS.iter().position(|c| c.name == "kernel_log").unwrap()).unwrap();
    let why = || Failure {
        reason: "io".to_owned(),
        text: String::new(),
    };
    let own = rig().collector;
    for frame in [
        FromWorker::Opened(foreign, Ok(None)),
        FromWorker::Opened(999, Ok(None)),
        FromWorker::Failed {
            collector: own,
            device: 2,
            took: 0,
            why: why(),
        },
        FromWorker::Notes(foreign, "mine".to_owned()),
        FromWorker::Notes(own, "this one has none".to_owned()),
        FromWorker::Layout(own, 0, vec![(u16::MAX, Vec::new())]),
        FromWorker::Layout(own, 0, vec![(0, vec!["too".to_owned(); 9])]),
        FromWorker::Hello {
            build: crate::BUILD.to_owned(),
        },
    ] {
        let mut rig = rig();
        rig.open();
        assert!(gone(&rig.says(std::slice::from_ref(&frame))), "{frame:?}");
    }
}

#[test]
fn what_a_worker_notes_is_told_and_the_next_one_gets_it() {
    let mut rig = rig_of("nvidia");
    let first = crate::worker::proto::read_frame(&mut rig.worker, &mut Decoder::default());
    let Some(ToWorker::Start { collectors, .. }) = first.unwrap() else {
        panic!("no start");
    };
    let notes: Vec<_> = collectors
        .iter()
        .map(|c| (c.number, c.notes.as_deref()))
        .collect();
    assert_eq!(notes, [(rig.collector, Some("noted"))]);
    rig.open();
    let told = rig.says(&[FromWorker::Notes(rig.collector, "news".to_owned())]);
    assert!(
        matches!(told.as_slice(), [FleetEvent::Notes("nvidia", news)] if news == "news"),
        "{told:?}"
    );
    // Too long: discarded, and the worker continues with its GPUs.
    let told = rig.says(&[FromWorker::Notes(rig.collector, "x".repeat(MAX_NOTES + 1))]);
    assert!(told.is_empty(), "{told:?}");
    assert!(rig.fleet.fd(rig.domain).is_some());
}

#[test]
fn a_worker_that_ends_is_forgotten() {
    let mut rig = rig();
    rig.open();
    rig.worker.shutdown(std::net::Shutdown::Both).unwrap();
    assert!(gone(&rig.fleet.readable(rig.domain)));
    assert_eq!(rig.presence(), Presence::Unknown);
    assert!(rig.fleet.fd(rig.domain).is_none());
}

#[test]
fn a_collector_that_does_not_answer_is_waited_for_once() {
    let mut rig = rig();
    rig.open();
    let at = Duration::from_secs(100);
    let other = Filter::Only(vec!["rdma".to_owned()]);
    assert!(
        rig.fleet.ask(at, &other, Duration::ZERO).0.is_empty(),
        "no request for a hidden collector"
    );
    assert_eq!(rig.fleet.ask(at, &Filter::All, Duration::ZERO).0, [rig.collector]);
    assert_eq!(
        rig.fleet
            .ask(at + Duration::from_secs(1), &Filter::All, Duration::ZERO)
            .0,
        [rig.collector],
        "still in its time"
    );
    assert!(
        rig.fleet
            .ask(at + PATIENCE, &Filter::All, Duration::ZERO)
            .0
            .is_empty(),
        "skipped at once"
    );
    rig.says(&[FromWorker::Done(rig.collector)]);
    assert_eq!(
        rig.fleet.ask(at + PATIENCE, &Filter::All, Duration::ZERO).0,
        [rig.collector],
        "requested again after an answer"
    );
}

#[test]
fn a_reading_that_is_young_enough_is_not_asked_for_again() {
    let at = Duration::from_secs;
    let asked = |young: u64, now: u64| {
        let mut rig = rig();
        rig.open();
        let collector = rig.collector;
        for device in 0..2 {
            rig.says(&[FromWorker::Block {
                collector,
                device,
                at: crate::worker::monitor::nanos(at(100)),
                took: 1,
                values: WireValues::default(),
                fault: None,
            }]);
        }
        !rig.fleet.ask(at(now), &Filter::All, at(young)).0.is_empty()
    };
    assert!(asked(0, 104), "a scrape requests fresh readings");
    assert!(
        !asked(5, 104),
        "a health tick judges what the scrape before it brought"
    );
    assert!(asked(5, 105));
}

#[test]
fn a_late_device_keeps_its_last_reading_on_the_pages_and_is_unknown_to_the_checks() {
    let mut rig = rig();
    rig.open();
    let at = |s| Duration::from_secs(s);
    let (collector, device) = (rig.collector, 1);
    let metric = collectors::metrics()
        .position(|m| m.name == "host_boot_time_seconds")
        .unwrap();
    let layout = vec![(u16::try_from(metric).unwrap(), Vec::new())];
    let block = |at| FromWorker::Block {
        collector,
        device,
        at: crate::worker::monitor::nanos(at),
        took: 1,
        values: [Value::U64(5)].as_slice().into(),
        fault: None,
    };
    rig.says(&[FromWorker::Layout(collector, device, layout), block(at(100))]);
    let seen = |rig: &mut Rig, now| {
        let snapshot = rig.fleet.snapshot(at(now));
        (snapshot.all_shown().count(), snapshot.all_samples().count())
    };
    assert_eq!(seen(&mut rig, 101), (1, 1));
    rig.says(&[FromWorker::Late(collector, vec![(device, 102_000_000_000, None)])]);
    assert_eq!(seen(&mut rig, 103), (1, 0));
    assert_eq!(seen(&mut rig, 126), (0, 0), "older than its maximum age");
    rig.says(&[block(at(127))]);
    assert_eq!(seen(&mut rig, 128), (1, 1));
    assert_eq!(seen(&mut rig, 1000), (0, 0), "too old");
}

#[test]
fn a_health_tick_waits_for_a_device_whose_reading_began_just_now() {
    let mut rig = rig();
    rig.open();
    let (collector, at) = (rig.collector, Duration::from_secs);
    let is_slow = |rig: &Rig, now| rig.fleet.is_slow(at(now), at(3));
    assert!(!is_slow(&rig, 101));
    rig.says(&[FromWorker::Late(collector, vec![(0, 100_000_000_000, None)])]);
    assert!(is_slow(&rig, 101));
    assert!(!is_slow(&rig, 103), "it is not slow but late");
    rig.says(&block(collector, 0, 1));
    assert!(!is_slow(&rig, 101), "it has answered");
}

#[test]
fn a_worker_that_falls_silent_is_not_up() {
    let mut rig = rig();
    rig.open();
    let up = |rig: &mut Rig, now| {
        let snapshot = rig.fleet.snapshot(Duration::from_secs(now));
        snapshot.collector("host").unwrap().up(snapshot.at)
    };
    assert_eq!(up(&mut rig, 100), None, "nothing was heard yet");
    let (collector, at) = (
        rig.collector,
        crate::worker::monitor::nanos(Duration::from_secs(100)),
    );
    for device in 0..2 {
        rig.says(&[FromWorker::Block {
            collector,
            device,
            at,
            took: 1,
            values: WireValues::default(),
            fault: None,
        }]);
    }
    assert_eq!(up(&mut rig, 101), Some(true));
    assert_eq!(up(&mut rig, 200), Some(false));
}

#[test]
fn a_worker_may_not_speak_of_what_it_does_not_watch() {
    let mut rig = rig();
    rig.open();
    let event = Event {
        boot: collectors::BootId::default(),
        seq: u64::MAX,
        at_us: 0,
        history: false,
        count: 1,
        text: String::new(),
        body: collectors::EventBody::Progress,
    };
    let collector = rig.collector;
    assert!(gone(&rig.says(&[FromWorker::Event(collector, event)])));
}

#[test]
fn a_blocked_watcher_is_a_failure_until_it_moves_on() {
    let mut rig = rig();
    rig.open();
    let collector = rig.collector;
    rig.says(&[FromWorker::Watching(collector, Ok(()))]);
    // Both devices have been read.
    let at = crate::worker::monitor::nanos(Duration::from_secs(99));
    for device in 0..2 {
        rig.says(&[FromWorker::Block {
            collector,
            device,
            at,
            took: 1,
            values: WireValues::default(),
            fault: None,
        }]);
    }
    let up = |rig: &mut Rig| {
        let snapshot = rig.fleet.snapshot(Duration::from_secs(100));
        let state = snapshot.collector("host").unwrap();
        state.up(snapshot.at)
    };
    assert_eq!(up(&mut rig), Some(true));
    rig.says(&[FromWorker::Late(collector, vec![(WATCHER, 1, None)])]);
    assert_eq!(up(&mut rig), Some(false));
    rig.says(&[FromWorker::Late(collector, Vec::new())]);
    assert_eq!(up(&mut rig), Some(true));
}

#[test]
fn a_watcher_that_is_blocked_no_more_is_seen_beside_a_device_that_is_late() {
    let mut rig = rig();
    rig.open();
    let collector = rig.collector;
    let watcher = |rig: &mut Rig| {
        let snapshot = rig.fleet.snapshot(Duration::from_secs(100));
        let state = snapshot.collector("host").unwrap();
        (state.watcher.as_ref().map(Result::is_ok), state.late.len())
    };
    rig.says(&[FromWorker::Watching(collector, Ok(()))]);
    rig.says(&[FromWorker::Late(
        collector,
        vec![(0, 1, None), (WATCHER, 1, None)],
    )]);
    assert_eq!(watcher(&mut rig), (Some(false), 1));
    rig.says(&[FromWorker::Late(
        collector,
        vec![(0, 1, None), (CLOSING, 1, None)],
    )]);
    assert_eq!(watcher(&mut rig), (Some(true), 1));

    // A watcher that failed otherwise is not healthy because it is awake.
    let why = Failure {
        reason: "io".to_owned(),
        text: String::new(),
    };
    rig.says(&[FromWorker::Watching(collector, Err(why))]);
    rig.says(&[FromWorker::Late(collector, vec![(WATCHER, 1, None)])]);
    rig.says(&[FromWorker::Late(collector, Vec::new())]);
    assert_eq!(watcher(&mut rig), (Some(false), 0));
}

/// A block of one device with one value.
fn block(collector: u16, device: u32, value: u64) -> [FromWorker; 2] {
    let metric = collectors::metrics()
        .position(|m| m.name == "host_boot_time_seconds")
        .unwrap();
    [
        FromWorker::Layout(
            collector,
            device,
            vec![(u16::try_from(metric).unwrap(), Vec::new())],
        ),
        FromWorker::Block {
            collector,
            device,
            at: crate::worker::monitor::nanos(Duration::from_secs(100)),
            took: 1,
            values: [Value::U64(value)].as_slice().into(),
            fault: None,
        },
    ]
}

impl Rig {
    fn list(&mut self, list: &[(u32, &str)]) {
        let list = list.iter().map(|(n, name)| (*n, Subject::gpu(*name))).collect();
        let told = self.says(&[FromWorker::Devices(self.collector, Ok(list))]);
        assert!(told.is_empty(), "{told:?}");
    }

    fn shown(&mut self) -> Vec<(String, f64)> {
        let snapshot = self.fleet.snapshot(Duration::from_secs(101));
        snapshot
            .all_samples()
            .map(|(_, s)| (s.subject.name.clone(), s.as_f64()))
            .collect()
    }
}

fn shown(expected: &[(&str, f64)]) -> Vec<(String, f64)> {
    expected.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect()
}

#[test]
fn a_device_that_leaves_or_comes_costs_the_others_nothing() {
    let mut rig = rig();
    rig.open();
    let collector = rig.collector;
    rig.says(&block(collector, 0, 10));
    rig.says(&block(collector, 1, 11));
    rig.list(&[(1, "x"), (2, "y")]);
    assert_eq!(rig.shown(), shown(&[("x", 11.0)]), "the node left at once");
    rig.says(&block(collector, 2, 12));
    assert_eq!(rig.shown(), shown(&[("x", 11.0), ("y", 12.0)]));
    // The layout that was sent before stays valid.
    let [_, values] = block(collector, 1, 21);
    assert!(rig.says(&[values]).is_empty());
    assert_eq!(rig.shown(), shown(&[("x", 21.0), ("y", 12.0)]));
}

#[test]
fn a_device_keeps_its_error_over_a_new_list() {
    let mut rig = rig();
    rig.open();
    rig.says(&[FromWorker::Failed {
        collector: rig.collector,
        device: 1,
        took: 1,
        why: Failure {
            reason: "io".to_owned(),
            text: "broken".to_owned(),
        },
    }]);
    rig.list(&[(1, "x"), (7, "y")]);
    let snapshot = rig.fleet.snapshot(Duration::from_secs(100));
    let devices = &snapshot.collector("host").unwrap().devices;
    assert_eq!(devices[0].error.as_ref().unwrap().0, "io");
    assert_eq!(devices[1].error, None);
}

#[test]
fn a_number_that_left_the_list_is_nobodys() {
    let mut rig = rig();
    rig.open();
    rig.list(&[(1, "x")]);
    let [layout, _] = block(rig.collector, 0, 1);
    assert!(gone(&rig.says(&[layout])));
}

#[test]
fn a_list_that_cannot_be_read_is_a_failure_that_keeps_the_devices() {
    let mut rig = rig();
    rig.open();
    let collector = rig.collector;
    rig.says(&block(collector, 1, 11));
    let why = Failure {
        reason: "io".to_owned(),
        text: "no list".to_owned(),
    };
    rig.says(&[FromWorker::Devices(collector, Err(why))]);
    assert_eq!(
        rig.presence(),
        Presence::Failed("io".to_owned(), "no list".to_owned())
    );
    assert_eq!(rig.shown(), shown(&[("x", 11.0)]));
    rig.list(&[(0, ""), (1, "x")]);
    assert_eq!(rig.presence(), Presence::Open);
    assert_eq!(rig.shown(), shown(&[("x", 11.0)]));
}

#[test]
fn of_a_million_series_what_the_worker_lets_through_fits_one_frame_and_the_rest_is_counted() {
    let metric = COLLECTORS
        .iter()
        .filter(|c| c.name == "host")
        .flat_map(|c| c.metrics)
        .find(|m| m.labels.len() == 1)
        .unwrap();
    let mut block = collectors::Block::default();
    for n in 0..1_000_000 {
        block.u64(metric, &[&format!("{n:030}")], n);
    }
    block.finish();
    let shown = block.values().len();
    assert!(shown >= collectors::block::MAX_SERIES, "{shown}");
    let frame = encode(&FromWorker::Layout(0, 0, to_wire(block.layout())));
    assert!(frame.len() < MAX_FRAME, "{}", frame.len());
    let mut rig = rig();
    rig.open();
    let (collector, device) = (rig.collector, 0);
    // More than the socket holds: the worker writes while the daemon reads.
    let mut worker = rig.worker.try_clone().unwrap();
    let frames = [
        FromWorker::Layout(collector, device, to_wire(block.layout())),
        FromWorker::Refused(collector, device, block.refused()),
        FromWorker::Block {
            collector,
            device,
            at: 90_000_000_000,
            took: 1,
            values: block.values().into(),
            fault: None,
        },
    ];
    let writer = std::thread::spawn(move || {
        for frame in frames {
            worker.write_all(&encode(&frame)).unwrap();
        }
    });
    let began = Instant::now();
    let state = loop {
        assert!(!gone(&rig.fleet.readable(rig.domain)));
        let shot = rig.fleet.snapshot(Duration::from_secs(100));
        let state = shot.collector("host").unwrap().devices[0].clone();
        if !state.values.is_empty() {
            break state;
        }
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::yield_now();
    };
    writer.join().unwrap();
    assert_eq!(state.layout.series.len(), shown);
    assert_eq!(state.refused, 1_000_000 - shown as u64);
}

mod hostile;
