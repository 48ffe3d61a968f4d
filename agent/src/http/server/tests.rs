use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use super::*;
use crate::core::snapshot::Snapshot;
use crate::exposition::{Page, parse, sample};
use crate::http::bind;
use crate::http::fake::Fake;

/// The longest that a test waits for one byte.
const LONG: Duration = Duration::from_secs(60);

struct Running {
    server: Option<Server>,
    address: SocketAddr,
    fake: Fake,
}

impl Running {
    fn start(fake: Fake) -> Self {
        let tcp = bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let address = tcp[0].local_addr().unwrap();
        let server = Some(spawn(fake.clone(), tcp, None).unwrap());
        Self {
            server,
            address,
            fake,
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    /// Everything that is answered to these bytes.
    fn say(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        everything(stream)
    }

    /// Head and body of the answer to one request.
    fn ask(&self, request: &str) -> (String, String) {
        let text = self.say(format!("{request}Host: x\r\nConnection: close\r\n\r\n").as_bytes());
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.to_lowercase(), body.to_owned())
    }
}

/// What a connection still says before it ends; a reset is an error.
fn everything(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

impl Drop for Running {
    fn drop(&mut self) {
        self.server.take().unwrap().stop();
    }
}

#[test]
fn metrics_are_served_fresh() {
    let running = Running::start(Fake::new());
    let (head, body) = running.ask("GET /metrics HTTP/1.1\r\nX-Prometheus-Scrape-Timeout-Seconds: 20\r\n");
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"));
    let page = parse::parse(&body).unwrap();
    assert_eq!(page.value("test_level", &[("device", "a")]), Some("7"));
    assert_eq!(page.value("nodewarden_late_scrapes_total", &[]), Some("0"));
    let left = running.fake.deadlines.lock().unwrap()[0];
    assert!(
        left > Duration::from_secs(9) && left <= Duration::from_secs(18),
        "{left:?}"
    );
    let (head, body) = running.ask("HEAD /metrics HTTP/1.1\r\n");
    assert!(head.starts_with("http/1.1 200") && body.is_empty());
}

#[test]
fn a_client_that_closes_its_side_still_gets_the_answer() {
    let running = Running::start(Fake::new());
    let mut stream = running.connect();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let text = everything(stream);
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
}

#[test]
fn without_an_answer_by_the_deadline_the_last_page_is_served_less_what_is_too_old() {
    let mut fake = Fake::new();
    fake.answers = false;
    let running = Running::start(fake);
    let (head, body) = running.ask("GET /metrics HTTP/1.1\r\nX-Prometheus-Scrape-Timeout-Seconds: 0.2\r\n");
    assert!(head.starts_with("http/1.1 200"), "{head}");
    let left = running.fake.deadlines.lock().unwrap()[0];
    assert!(left <= Duration::from_millis(180), "{left:?}");
    let page = parse::parse(&body).unwrap();
    assert_eq!(page.value("nodewarden_late_scrapes_total", &[]), Some("1"));
    assert_eq!(page.value("test_level", &[("device", "a")]), None);
    assert!(page.families.contains_key("nodewarden_verdict"));
}

#[test]
fn routes() {
    let running = Running::start(Fake::new());
    let status = |request: &str| running.ask(request).0.split(' ').nth(1).unwrap().to_owned();
    assert_eq!(status("GET / HTTP/1.1\r\n"), "200");
    assert_eq!(status("GET /-/healthy HTTP/1.1\r\n"), "200");
    assert_eq!(status("GET /-/ready HTTP/1.1\r\n"), "200");
    assert_eq!(status("GET /metrics?tier=detail HTTP/1.1\r\n"), "200");
    assert_eq!(status("GET /metrics?tier=all HTTP/1.1\r\n"), "400");
    assert_eq!(status("GET /other HTTP/1.1\r\n"), "404");
    *running.fake.page.lock().unwrap() = Arc::new(Page {
        snapshot: Arc::new(Snapshot::empty(sample::AT)),
        ..sample::page()
    });
    assert_eq!(status("GET /-/ready HTTP/1.1\r\n"), "503");
}

#[test]
fn one_connection_serves_many_requests() {
    let running = Running::start(Fake::new());
    let mut stream = running.connect();
    for _ in 0..3 {
        stream
            .write_all(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
            .unwrap();
        let mut text = Vec::new();
        while !text.ends_with(b"runs\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            text.extend(byte);
        }
    }
}

#[test]
fn listeners_come_and_go_while_it_runs() {
    let running = Running::start(Fake::new());
    let doors = running.server.as_ref().unwrap().doors();
    let listener = bind(&["127.0.0.1:0".parse().unwrap()]).unwrap().remove(0);
    let address = listener.local_addr().unwrap();
    doors.open(listener);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(b"GET /-/healthy HTTP/1.0\r\n\r\n").unwrap();
    assert!(everything(stream).starts_with("HTTP/1.0 200"));
    doors.close(address);
    let end = std::time::Instant::now() + LONG;
    while TcpStream::connect(address).is_ok() {
        assert!(std::time::Instant::now() < end, "still listening");
        thread::sleep(Duration::from_millis(5));
    }
    let (head, _) = running.ask("GET /-/healthy HTTP/1.1\r\n");
    assert!(head.starts_with("http/1.1 200"), "the others stay");
}

mod limits;
mod requests;
