//! A worker that was taken over, with its real socket: the daemon stays small, every scraper gets its page, nothing is drained.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use collectors::event::{BootId, EventBody, PciAddress, Xid, XidSource};
use collectors::{COLLECTORS, Event, Subject};
use nix::sys::signal::Signal;
use nodewarden::worker::proto::{Failure, FromWorker, encode};
use testkit::proc;

use crate::common::Node;

/// The most that the daemon may hold at any time, in KiB.
const MOST: u64 = 64 * 1024;

fn own() -> u16 {
    u16::try_from(COLLECTORS.iter().position(|c| c.name == "rdma").unwrap()).unwrap()
}

/// The worker `rdma`, stopped, and the end of the socket that it has.
fn take_over(node: &Node) -> (u32, UnixStream) {
    let mut taken = None;
    node.until("a worker to take over", |n| {
        let is_worker = |pid: &u32| proc::comm(*pid).is_ok_and(|c| c == "nw-rdma");
        taken = n
            .daemon()
            .children()
            .into_iter()
            .filter(is_worker)
            .find_map(|pid| {
                // Its other sockets are the kernel's.
                let sockets = (0..64).filter_map(|fd| proc::descriptor_of(pid, fd).ok());
                let socket = sockets.map(UnixStream::from).find(|s| s.peer_addr().is_ok())?;
                proc::send(pid, Signal::SIGSTOP).ok()?;
                Some((pid, socket))
            });
        taken.is_some()
    });
    taken.unwrap()
}

/// Sends a frame again and again, until the daemon closes the socket. Whether it did.
fn flood(node: &Node, frame: &FromWorker, times: usize) -> bool {
    let (pid, mut socket) = take_over(node);
    socket.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    let bytes = encode(frame);
    let sent = (0..times)
        .take_while(|_| socket.write_all(&bytes).is_ok())
        .count();
    let closed = sent < times || {
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut rest = [0; 4096];
        loop {
            match socket.read(&mut rest) {
                Ok(0) => break true,
                Ok(_) => {}
                // It closed before it had read everything.
                Err(error) => break error.kind() == ErrorKind::ConnectionReset,
            }
        }
    };
    proc::send(pid, Signal::SIGKILL).ok();
    node.until("another worker", |n| {
        let is_other = |child: &u32| *child != pid && proc::comm(*child).is_ok_and(|c| c == "nw-rdma");
        n.daemon().children().iter().any(is_other)
    });
    closed
}

fn peak(pid: u32) -> u64 {
    let status = proc::Status::read(pid).unwrap();
    let line = status.get("VmHWM").unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

fn xid() -> Event {
    Event {
        boot: BootId("5f0c3f6e-9a3f-4b7e-8a37-0d6f2f6d1c11".to_owned()),
        seq: 1,
        at_us: 1,
        history: false,
        count: 1,
        text: "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.".to_owned(),
        body: EventBody::Xid(Xid {
            source: XidSource::KernelLog,
            pci: PciAddress("0000:3b:00.0".to_owned()),
            code: 79,
            ..Xid::default()
        }),
    }
}

#[test]
fn a_worker_that_was_taken_over_harms_its_own_collectors_alone() {
    let mut node = Node::new();
    node.start();
    let daemon = node.core_pid();
    let address = node.address().unwrap();
    let done = AtomicBool::new(false);
    let why = || Failure {
        reason: "io".to_owned(),
        text: "x\n2026-01-01T00:00:00Z  WARN draining the node\n".repeat(2000),
    };
    let devices: Vec<(u32, Subject)> = (0..200_000).zip(std::iter::repeat_with(Subject::node)).collect();
    let allowed: Vec<(u32, Subject)> = (0..2000).map(|n| (n, Subject::gpu(format!("g{n}")))).collect();
    let (pages, closed) = std::thread::scope(|scope| {
        let scraper = scope.spawn(|| {
            let mut pages = 0;
            while !done.load(Ordering::Relaxed) {
                let page = testkit::http::get(&address, "/metrics", &[], Duration::from_secs(10)).unwrap();
                assert!(page.ok().unwrap().contains("nodewarden_build_info"));
                pages += 1;
            }
            pages
        });
        let frames = [
            (FromWorker::Devices(own(), Ok(devices)), 1),
            (FromWorker::Event(own(), xid()), 1),
            (FromWorker::Devices(own(), Ok(allowed)), 10_000),
            (FromWorker::Devices(own(), Err(why())), 8_000),
        ];
        // Caught, so that the scraper ends.
        let flooded =
            std::panic::AssertUnwindSafe(|| frames.map(|(frame, times)| flood(&node, &frame, times)));
        let closed = std::panic::catch_unwind(flooded);
        done.store(true, Ordering::Relaxed);
        (scraper.join().unwrap(), closed.unwrap())
    });
    assert_eq!(closed, [true; 4]);
    assert!(pages > 20, "{pages}");
    assert_eq!(node.core_pid(), daemon, "the daemon was not restarted");
    let peak = peak(daemon);
    assert!(peak < MOST, "the daemon took {peak} KiB");
    assert!(node.open_incidents().is_empty(), "{:?}", node.open_incidents());
    let log = node.daemon().stderr();
    assert!(!log.contains("\n2026-01-01"), "a line was forged");
    assert!(log.len() < 200_000, "{} bytes of log", log.len());
    println!("peak {peak} KiB, {pages} pages, {} bytes of log", log.len());
}
