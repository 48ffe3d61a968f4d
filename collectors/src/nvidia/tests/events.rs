//! Events of the driver.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use super::*;
use crate::event::{DriverEvent, XidSource};
use crate::{Event, EventBody, Events};

/// A running watcher, and its devices.
struct Watched {
    node: Node,
    runner: Runner,
    events: Receiver<Event>,
    stop: Arc<AtomicBool>,
    /// It reported that it listens.
    listens: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Watched {
    fn of(case: &str) -> Self {
        Self::on(Node::of(case))
    }

    fn on(node: Node) -> Self {
        let mut source = node.open().unwrap().unwrap();
        let runner = Runner::new(&SPEC, &mut source).unwrap();
        let mut watcher = source.watcher.take().unwrap();
        let (to, events) = sync_channel(1024);
        let stop = Arc::new(AtomicBool::new(false));
        let listens = Arc::new(AtomicBool::new(false));
        let heard = Arc::clone(&listens);
        let out = Events::until(to, Arc::clone(&stop)).heeding(move || heard.store(true, Ordering::Release));
        let thread = std::thread::spawn(move || watcher.run(None, &out));
        Self {
            node,
            runner,
            events,
            stop,
            listens,
            thread: Some(thread),
        }
    }

    /// Waits until the stand-in has counted this total of registered GPUs.
    fn registered(&self, times: u64) {
        until("the GPUs are registered", || {
            self.node.driver.calls().of("nvmlDeviceRegisterEvents") >= times
                && self.node.driver.calls().of("nvmlEventSetWait") > 0
        });
    }

    fn next(&self) -> Event {
        self.events.recv_timeout(LONG).unwrap()
    }

    /// The next event other than an identity.
    fn next_event(&self) -> Event {
        loop {
            let event = self.next();
            if !matches!(event.body, EventBody::Identity { .. }) {
                return event;
            }
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.node.driver.lift().unwrap();
        // An event ends the current wait.
        self.node.driver.event(0, 0x80, 0, None).unwrap();
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap().ok();
        }
    }
}

#[test]
fn each_gpu_is_named_with_its_address_first() {
    let watched = Watched::of("h100");
    let mut named = Vec::new();
    for _ in 0..8 {
        match watched.next().body {
            EventBody::Identity { pci, uuid } => named.push((pci.0, uuid)),
            other => panic!("{other:?}"),
        }
    }
    named.sort();
    named.dedup();
    assert_eq!(named.len(), 8);
    assert!(named.iter().all(|(_, uuid)| uuid.starts_with("GPU-")));
}

#[test]
fn it_says_that_it_listens_once_gpus_are_registered_though_nothing_happens() {
    let watched = Watched::of("h100");
    until("it listens", || watched.listens.load(Ordering::Acquire));
    watched.registered(8);
}

#[test]
fn an_xid_comes_with_address_source_and_instance_and_with_growing_numbers() {
    let watched = Watched::of("h100");
    watched.registered(8);
    watched.node.driver.xid(3, 48).unwrap();
    watched.node.driver.xid_in(2, 94, 5, 0).unwrap();
    let (first, second) = (watched.next_event(), watched.next_event());
    assert!(second.seq > first.seq && second.at_us >= first.at_us);
    assert_eq!((first.count, first.history), (1, false));
    let EventBody::Xid(xid) = first.body else {
        panic!("{:?}", first.body);
    };
    assert_eq!(
        (xid.source, xid.code, xid.instance()),
        (XidSource::Nvml, 48, None)
    );
    assert!(
        first.text.contains(&gpu(3)) && first.text.contains(&xid.pci.0),
        "{}",
        first.text
    );
    let EventBody::Xid(xid) = second.body else {
        panic!("{:?}", second.body);
    };
    assert_eq!(
        (xid.code, xid.gpu_instance, xid.compute_instance),
        (94, Some(5), Some(0))
    );
}

#[test]
fn an_idle_node_wakes_the_watcher_every_few_seconds_at_most() {
    let watched = Watched::of("h100");
    watched.registered(8);
    let before = watched.node.driver.calls().of("nvmlEventSetWait");
    let start = Instant::now();
    std::thread::sleep(Duration::from_secs(3));
    let waits = watched.node.driver.calls().of("nvmlEventSetWait") - before;
    let most = start.elapsed().as_secs() / 5 + 1;
    assert!(waits <= most, "{waits} waits in {:?}", start.elapsed());
}

#[test]
fn a_change_of_mig_is_reported_and_makes_the_list_doubtful() {
    let mut watched = Watched::of("h100");
    watched.registered(8);
    let before = watched.node.driver.calls().of("nvmlDeviceGetCount");
    watched.node.driver.event(1, 0x100, 0, None).unwrap();
    let event = watched.next_event();
    let EventBody::Driver { what, .. } = event.body else {
        panic!("{:?}", event.body);
    };
    assert_eq!(what, DriverEvent::MigConfig);
    until("it is scanned again", || {
        watched.runner.read(|_, _| {});
        watched.node.driver.calls().of("nvmlDeviceGetCount") > before
    });
}

#[test]
fn an_xid_0_and_one_that_the_library_does_not_know_are_none() {
    let watched = Watched::of("h100");
    watched.registered(8);
    watched.node.driver.xid(0, 0).unwrap();
    watched.node.driver.xid(0, 999).unwrap();
    watched.node.driver.xid(0, 31).unwrap();
    let event = watched.next_event();
    assert!(matches!(event.body, EventBody::Xid(xid) if xid.code == 31));
}

#[test]
fn a_wait_that_fails_is_repeated_with_the_gpus_registered_again() {
    let watched = Watched::of("h100");
    watched.registered(8);
    let fault = Fault::Code(code::UNKNOWN);
    watched
        .node
        .driver
        .break_everywhere("nvmlEventSetWait", fault)
        .unwrap();
    watched.registered(16);
    watched.node.driver.lift().unwrap();
    let start = Instant::now();
    let code = loop {
        watched.node.driver.xid(6, 95).unwrap();
        match watched.events.recv_timeout(Duration::from_millis(200)) {
            Ok(Event {
                body: EventBody::Xid(xid),
                ..
            }) => break xid.code,
            _ => assert!(start.elapsed() < LONG),
        }
    };
    assert_eq!(code, 95);
}

#[test]
fn a_wait_that_fails_for_ever_is_an_error_of_the_watcher_and_no_busy_loop() {
    let mut watched = Watched::of("h100");
    watched.registered(8);
    let fault = Fault::Code(code::UNKNOWN);
    watched
        .node
        .driver
        .break_everywhere("nvmlEventSetWait", fault)
        .unwrap();
    let thread = watched.thread.take().unwrap();
    until("it gives up", || thread.is_finished());
    assert!(thread.join().unwrap().is_err());
    assert!(watched.node.driver.calls().of("nvmlEventSetCreate") <= 6);
    watched.thread = Some(std::thread::spawn(|| Ok(())));
}

#[test]
fn gpus_that_offer_no_events_are_not_asked_again_and_are_no_error() {
    let node = Node::of("h100");
    node.driver
        .break_everywhere("nvmlDeviceRegisterEvents", Fault::Code(code::NOT_SUPPORTED))
        .unwrap();
    let mut watched = Watched::on(node);
    until("each was asked", || {
        watched.node.driver.calls().of("nvmlDeviceRegisterEvents") >= 8
    });
    watched.next();
    watched.stop.store(true, Ordering::Release);
    let thread = watched.thread.replace(std::thread::spawn(|| Ok(())));
    thread.unwrap().join().unwrap().unwrap();
    assert_eq!(watched.node.driver.calls().of("nvmlDeviceRegisterEvents"), 8);
}

#[test]
fn a_gpu_that_is_lost_leaves_the_events_of_the_others() {
    let mut watched = Watched::of("h100");
    watched.registered(8);
    let before = watched.node.driver.calls().of("nvmlDeviceGetCount");
    watched.node.driver.lose(2).unwrap();
    until("it is looked for", || {
        watched.runner.read(|_, _| {});
        std::thread::sleep(Duration::from_millis(20));
        watched.node.driver.calls().of("nvmlDeviceGetCount") > before
    });
    // 7 are registered again after the current wait.
    watched.registered(15);
    watched.node.driver.xid(4, 48).unwrap();
    let event = watched.next_event();
    assert!(matches!(event.body, EventBody::Xid(xid) if xid.code == 48));
}
