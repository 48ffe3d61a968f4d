//! A worker that was taken over: it loses its connection, and the daemon keeps its memory and its log.

use collectors::event::{BootId, EventBody, PciAddress, Xid, XidSource};
use collectors::sys::task::Task;
use collectors::{Labels, MAX_DEVICES};

use crate::worker::monitor::SOURCE;

use super::*;

fn xid(source: XidSource) -> Event {
    Event {
        boot: BootId("5f0c3f6e".to_owned()),
        seq: 1,
        at_us: 1,
        history: false,
        count: 1,
        text: "Xid 79\n2026-01-01T00:00:00Z WARN draining the node".to_owned(),
        body: EventBody::Xid(Xid {
            source,
            pci: PciAddress("0000:3b:00.0".to_owned()),
            code: 79,
            ..Xid::default()
        }),
    }
}

#[test]
fn an_xid_counts_from_the_workers_that_can_see_xids_and_from_no_other() {
    for (collector, source, admitted) in [
        ("rdma", XidSource::KernelLog, false),
        ("rdma", XidSource::Nvml, false),
        ("slurm", XidSource::KernelLog, false),
        ("nvidia", XidSource::KernelLog, false),
        ("nvidia", XidSource::Nvml, true),
        ("kernel_log", XidSource::KernelLog, true),
        ("kernel_log", XidSource::Nvml, false),
    ] {
        let mut rig = rig_of(collector);
        rig.hello();
        let frame = FromWorker::Event(rig.collector, xid(source));
        let told = rig.says(&[frame]);
        assert_eq!(!gone(&told), admitted, "{collector} {source:?}");
        if admitted {
            let [FleetEvent::Event(_, event)] = told.as_slice() else {
                panic!("{told:?}")
            };
            assert!(!event.text.contains('\n'), "{}", event.text);
        }
    }
}

/// What the daemon shows of the collector after the frame.
fn after(frame: FromWorker) -> (bool, Presence) {
    let mut rig = rig();
    rig.open();
    let mut worker = rig.worker.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        // The daemon may close its end before all is written.
        worker.write_all(&encode(&frame)).ok();
        worker.shutdown(std::net::Shutdown::Write).ok();
    });
    let closed = loop {
        let told = rig.fleet.readable(rig.domain);
        if gone(&told) {
            break true;
        }
        if rig.fleet.fd(rig.domain).is_none() {
            break false;
        }
        std::thread::yield_now();
    };
    let presence = rig.presence();
    drop(rig);
    writer.join().unwrap();
    (closed, presence)
}

#[test]
fn too_many_devices_series_or_threads_close_the_worker_and_say_which_limit() {
    let own = rig().collector;
    let many = |n: usize| -> Vec<(u32, Subject)> { (0..).zip(vec![Subject::node(); n]).collect() };
    let metric = COLLECTORS
        .iter()
        .find(|c| c.name == "host")
        .unwrap()
        .metrics
        .iter()
        .find(|m| m.labels.len() == 1)
        .unwrap();
    let series = |n: usize, label: usize| {
        let label = "x".repeat(label);
        let all = (0..n).flat_map(|_| collectors::Series::all(metric, Labels::default().of(&[&label])));
        to_wire(&all.collect())
    };
    for (frame, limit) in [
        (
            FromWorker::Devices(own, Ok(many(MAX_DEVICES + 1))),
            "2048 devices",
        ),
        (FromWorker::Layout(own, 0, series(20_001, 1)), "20000 series"),
        (
            FromWorker::Late(own, vec![(0, 0, None); MAX_DEVICES + 4]),
            "late threads",
        ),
    ] {
        let (closed, presence) = after(frame);
        assert!(closed, "{limit}");
        let Presence::Failed(reason, text) = &presence else {
            panic!("{presence:?}")
        };
        assert!(reason == "limit" && text.contains(limit), "{limit}: {text}");
    }
}

#[test]
fn a_flood_of_frames_closes_the_worker() {
    let mut rig = rig();
    rig.open();
    let frame = encode(&FromWorker::Done(rig.collector));
    let flood: Vec<u8> = frame.iter().copied().cycle().take(frame.len() * 10_000).collect();
    let closed = (0..60).any(|_| {
        rig.worker.write_all(&flood).unwrap();
        gone(&rig.fleet.readable(rig.domain))
    });
    assert!(closed);
    assert!(matches!(rig.presence(), Presence::Failed(reason, _) if reason == "limit"));
}

#[test]
fn a_worker_that_does_not_stop_sending_leaves_time_for_the_others() {
    let mut rig = rig();
    rig.open();
    let frame = encode(&FromWorker::Done(rig.collector));
    let mut worker = rig.worker.try_clone().unwrap();
    worker.set_nonblocking(true).unwrap();
    // As much as the socket holds, more than one turn takes.
    let flood: Vec<u8> = frame
        .iter()
        .copied()
        .cycle()
        .take(frame.len() * 100_000)
        .collect();
    let written = worker.write(&flood).unwrap();
    let events = rig.fleet.readable(rig.domain).len();
    assert!(
        events * frame.len() < written.max(300_000),
        "{events} of {written}"
    );
    assert!(events * frame.len() <= 16 * 16 * 1024, "{events}");
}

#[test]
fn texts_of_a_worker_are_one_short_line_and_reasons_are_words() {
    let mut rig = rig();
    rig.open();
    let why = |reason: &str, text: String| Failure {
        reason: reason.to_owned(),
        text,
    };
    let (collector, device, took) = (rig.collector, 0, 1);
    let long = "x\nWARN draining the node\u{1b}[2J".repeat(1000);
    rig.says(&[FromWorker::Failed {
        collector,
        device,
        took,
        why: why("io", long),
    }]);
    let shot = rig.fleet.snapshot(Duration::from_secs(100));
    let (_, text) = shot.collector("host").unwrap().devices[0].error.clone().unwrap();
    assert!(text.len() <= 500 && !text.contains(['\n', '\u{1b}']), "{text}");
    for reason in ["", "a b", "x\"} 1\n", &"x".repeat(33)] {
        let (closed, presence) = after(FromWorker::Devices(collector, Err(why(reason, String::new()))));
        assert!(closed && presence == Presence::Unknown, "{reason:?}");
    }
    let task = |state| Task {
        tid: 1,
        name: "a\nb".to_owned(),
        state,
        wchan: "w".repeat(10_000),
        call: String::new(),
    };
    rig.says(&[FromWorker::Late(collector, vec![(SOURCE, 1, Some(task('D')))])]);
    let Presence::Failed(_, text) = rig.presence() else {
        panic!("not blocked")
    };
    assert!(text.len() < 400, "{text}");
    assert!(after(FromWorker::Late(collector, vec![(SOURCE, 1, Some(task('\n')))])).0);
}

#[test]
fn names_of_devices_cannot_break_a_line_and_metrics_are_the_collectors_own() {
    let own = rig().collector;
    let named = |name: String| FromWorker::Devices(own, Ok(vec![(0, Subject::gpu(name))]));
    for name in ["a\nb".to_owned(), "\u{202e}".to_owned(), "x".repeat(257)] {
        assert!(after(named(name)).0);
    }
    let foreign = COLLECTORS
        .iter()
        .find(|c| c.name == "nvidia")
        .unwrap()
        .metrics
        .iter()
        .find(|m| m.labels.is_empty() || m.labels.len() == 1)
        .unwrap();
    let labels = vec!["x".to_owned(); foreign.labels.len()];
    let layout = collectors::Series::all(foreign, Labels::default().of(&labels)).collect();
    assert!(after(FromWorker::Layout(own, 0, to_wire(&layout))).0);
}

#[test]
fn the_log_takes_twenty_lines_of_a_worker_and_then_few() {
    let mut rig = rig();
    rig.open();
    let start = Instant::now();
    let limits = &mut rig.fleet.limits[usize::from(rig.domain)];
    let logged = (0..8000).filter(|_| limits.line(start).is_some()).count();
    assert_eq!(logged, 20);
    assert_eq!(limits.line(start + Duration::from_secs(10)), Some(7980));
}
