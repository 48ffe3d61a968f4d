//! Clients that are greedy, slow, or too many.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::super::connection::STALL;
use super::super::super::connection_table::{MAX_CONNECTIONS, PER_CLIENT};
use super::super::super::linger::MAX_LINGERING;
use super::super::super::waiting::WAITING_PER_CLIENT;
use super::*;

const SLOW: &[u8] =
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Prometheus-Scrape-Timeout-Seconds: 600\r\n\r\n";
const QUICK: &[u8] = b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

impl Running {
    /// A server whose scrapes are answered when [`Fake::release`] is called.
    fn slow() -> Self {
        let mut fake = Fake::new();
        fake.answers = false;
        Self::start(fake)
    }

    /// A connection from another address of this machine.
    fn connect_from(&self, from: [u8; 4]) -> TcpStream {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let stream = runtime.block_on(async {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind((IpAddr::from(from), 0).into()).unwrap();
            socket.connect(self.address).await.unwrap().into_std().unwrap()
        });
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    fn wait_for_scrapes(&self, number: usize) {
        let asked = || self.fake.deadlines.lock().unwrap().len() >= number;
        until_true(&format!("{number} scrapes"), LONG, asked).unwrap();
    }
}

fn quick(mut stream: TcpStream) -> String {
    stream.write_all(QUICK).unwrap();
    everything(stream)
}

#[test]
fn beyond_the_limit_connections_are_refused_with_an_answer_and_places_come_back() {
    let running = Running::slow();
    let held: Vec<TcpStream> = (0..PER_CLIENT)
        .map(|_| {
            let mut stream = running.connect();
            stream.write_all(SLOW).unwrap();
            stream
        })
        .collect();
    running.wait_for_scrapes(PER_CLIENT);
    let waiting: Vec<TcpStream> = (0..WAITING_PER_CLIENT).map(|_| running.connect()).collect();
    for _ in 0..MAX_LINGERING {
        let text = running.say(&[QUICK, &[b'x'; 20_000]].concat());
        assert!(text.starts_with("HTTP/1.1 503"), "{text:?}");
    }
    let other = quick(running.connect_from([127, 0, 0, 2]));
    assert!(
        other.starts_with("HTTP/1.1 200"),
        "another client gets in: {other}"
    );
    running.fake.release();
    for mut stream in held {
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        assert_eq!(&status, b"HTTP/1.1 200");
    }
    drop(waiting);
    let again = || quick(running.connect()).starts_with("HTTP/1.1 200");
    until_true("the queue is empty", LONG, again).unwrap();
}

#[test]
fn a_new_client_takes_the_place_of_who_was_idle_for_longest() {
    let running = Running::start(Fake::new());
    let held: Vec<TcpStream> = (0..4 * MAX_CONNECTIONS).map(|_| running.connect()).collect();
    assert!(quick(running.connect()).starts_with("HTTP/1.1 200"));
    assert!(quick(running.connect_from([127, 0, 0, 2])).starts_with("HTTP/1.1 200"));
    // The first of them has lost its place; its stream ends.
    let mut first = held.into_iter().next().unwrap();
    assert_eq!(first.read(&mut [0]).unwrap(), 0);
}

#[test]
fn slow_heads_from_one_client_keep_nobody_out() {
    let running = Running::start(Fake::new());
    let _held: Vec<TcpStream> = (0..MAX_CONNECTIONS)
        .map(|_| {
            let mut stream = running.connect();
            stream.write_all(b"GET /").unwrap();
            stream
        })
        .collect();
    assert!(quick(running.connect_from([127, 0, 0, 2])).starts_with("HTTP/1.1 200"));
    assert!(quick(running.connect()).starts_with("HTTP/1.1 200"));
}

#[test]
fn a_head_that_does_not_end_is_cut_off() {
    let running = Running::start(Fake::new());
    let text = running.say(b"GET / HTTP/1.1\r\n");
    assert!(text.starts_with("HTTP/1.1 408"), "{text:?}");
}

/// The answers do not fit into the kernel's buffers, and the client does not read them.
#[test]
fn a_client_that_does_not_read_is_cut_off() {
    let running = Running::start(Fake::new());
    let mut stream = running.connect();
    stream.set_write_timeout(Some(LONG)).unwrap();
    let many = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1000);
    // Written until the daemon stops reading, too, and then closes.
    let error = loop {
        if let Err(error) = stream.write_all(&many) {
            break error;
        }
    };
    assert_ne!(
        error.kind(),
        io::ErrorKind::WouldBlock,
        "closed, not only stalled"
    );
}

/// It is idle for longer than a client may stall: the limit ends with the answer.
#[test]
fn a_kept_connection_is_there_for_the_next_scrape() {
    let running = Running::start(Fake::new());
    let mut stream = running.connect();
    let mut ask = |request: &[u8]| {
        stream.write_all(request).unwrap();
        let mut text = Vec::new();
        while !text.ends_with(b"runs\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            text.extend(byte);
        }
    };
    ask(b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n");
    // No event shows that a connection stays open.
    thread::sleep(STALL + Duration::from_millis(500));
    ask(QUICK);
}

/// Ends the other threads also when an assertion of this one fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// 120 scrapers at one address ask without pause, and each scrape takes 20 ms.
#[test]
fn many_scrapers_at_one_address_starve_no_other_one() {
    const PAGE: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let running = Running::slow();
    let stop = AtomicBool::new(false);
    let goes_on = || !stop.load(Ordering::Relaxed);
    let one = |mut stream: TcpStream| {
        let mut text = Vec::new();
        drop(stream.write_all(PAGE));
        drop(stream.read_to_end(&mut text));
        text.starts_with(b"HTTP/1.1 200")
    };
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| {
            while goes_on() {
                thread::sleep(Duration::from_millis(20));
                running.fake.release();
            }
        });
        for _ in 0..120 {
            scope.spawn(|| {
                while goes_on() {
                    one(running.connect());
                }
            });
        }
        running.wait_for_scrapes(200);
        let served = |from| (0..50).filter(|_| one(running.connect_from(from))).count();
        let (same, other) = (served([127, 0, 0, 1]), served([127, 0, 0, 2]));
        assert_eq!((same, other), (50, 50), "pages of 50");
    });
}
