use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use testkit::wait::until_true;

use super::*;
use crate::http::bind::bind_one;
use crate::http::fake::Fake;
use crate::own::Page;
use crate::own::sample;
use crate::web::WebConfig;
use model::snapshot::Snapshot;
use testkit::exposition::read_page;

/// The longest that a test waits for one byte.
const LONG: Duration = Duration::from_secs(60);

struct Running {
    server: Server,
    gate: Gate,
    address: SocketAddr,
    fake: Fake,
}

impl Running {
    fn start(fake: Fake) -> Self {
        let tcp = vec![bind_one(&"127.0.0.1:0".parse().unwrap()).unwrap()];
        let address = tcp[0].local_addr().unwrap();
        let gate = Gate::new(Access::default());
        let server = spawn(fake.clone(), tcp, None, &gate).unwrap();
        Self {
            server,
            gate,
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
        let text = self.say(format!("{request}Host: localhost\r\nConnection: close\r\n\r\n").as_bytes());
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

#[test]
fn metrics_are_served_fresh() {
    let running = Running::start(Fake::new());
    let (head, body) = running.ask("GET /metrics HTTP/1.1\r\nX-Prometheus-Scrape-Timeout-Seconds: 20\r\n");
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"));
    let page = read_page(&body).unwrap();
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

/// One answer with its body as bytes.
fn raw(running: &Running, target: &str, headers: &str) -> (String, Vec<u8>) {
    let mut stream = running.connect();
    let request = format!("GET {target} HTTP/1.1\r\n{headers}Host: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    let body = bytes.split_off(end + 4);
    (String::from_utf8(bytes).unwrap().to_lowercase(), body)
}

fn unpack(body: &[u8]) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(body)
        .read_to_string(&mut text)
        .unwrap();
    text
}

#[test]
fn format_and_compression_are_what_the_scraper_prefers() {
    const OPEN: &str = "Accept: application/openmetrics-text;version=1.0.0\r\n";
    const GZIP: &str = "Accept-Encoding: gzip\r\n";
    const NEVER: &str = "Accept-Encoding: gzip;q=0\r\n";
    let running = Running::start(Fake::new());
    for (headers, open, packed) in [
        (String::new(), false, false),
        (OPEN.to_owned(), true, false),
        (format!("{OPEN}{GZIP}"), true, true),
        (format!("{OPEN}{NEVER}"), true, false),
        (GZIP.to_owned(), false, true),
    ] {
        let (head, body) = raw(&running, "/metrics", &headers);
        assert!(head.starts_with("http/1.1 200"), "{head}");
        assert!(head.contains("\r\nvary: accept, accept-encoding\r\n"), "{head}");
        assert_eq!(head.contains("\r\ncontent-encoding: gzip\r\n"), packed, "{head}");
        let text = if packed {
            unpack(&body)
        } else {
            String::from_utf8(body).unwrap()
        };
        let kind = if open {
            testkit::openmetrics::check(&text).unwrap();
            "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"
        } else {
            read_page(&text).unwrap();
            "content-type: text/plain; version=0.0.4; charset=utf-8\r\n"
        };
        assert!(head.contains(kind), "{head}");
    }
    let (head, body) = raw(&running, "/metrics/other", GZIP);
    assert!(head.starts_with("http/1.1 200") && body.is_empty(), "{head}");
    assert!(
        !head.contains("content-encoding"),
        "a small answer stays plain: {head}"
    );
    let left = running.fake.deadlines.lock().unwrap().len();
    assert_eq!(left, 6, "a page of other names is read as fresh as ours");
    // The programs that it stands for have the text format only.
    let (head, _) = raw(&running, "/metrics/other", OPEN);
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
}

#[test]
fn what_is_not_understood_is_answered_with_what_was_found_and_expected() {
    let running = Running::start(Fake::new());
    for (target, status, words) in [
        (
            "/metrics?tier=all",
            400,
            "\"all\", expected core, detail or debug",
        ),
        (
            "/metrics?collect[]=x",
            400,
            "unknown collector \"x\", expected one of ",
        ),
        (
            "/metrics?debug=1",
            400,
            "unknown parameter \"debug\", expected tier, collect[] or exclude[]",
        ),
        (
            "/metrics/qqq",
            404,
            "expected one of /metrics, /metrics/amd, /metrics/dcgm, /metrics/gpfs_exporter, /metrics/node_exporter, /metrics/other",
        ),
        ("/metrics/", 404, "no such page"),
        ("/metrics/other?tier=x", 400, "expected core"),
        ("/metricsx", 404, "not found"),
    ] {
        let (head, body) = raw(&running, target, "");
        assert!(
            head.starts_with(&format!("http/1.1 {status}")),
            "{target}: {head}"
        );
        let body = String::from_utf8(body).unwrap();
        assert!(
            body.contains(words) && body.lines().count() == 1,
            "{target}: {body}"
        );
    }
    assert!(
        running.fake.deadlines.lock().unwrap().is_empty(),
        "nothing was read for them"
    );
    let (_, body) = raw(&running, "/metrics", "");
    let text = String::from_utf8(body).unwrap();
    let page = read_page(&text).unwrap();
    let count =
        |page_name, code| page.value("nodewarden_scrapes_total", &[("page", page_name), ("code", code)]);
    assert_eq!(count("metrics", "400"), Some("3"), "{text}");
    assert_eq!(count("unknown", "404"), Some("2"));
    assert_eq!(count("other", "400"), Some("1"));
    assert!(
        text.contains("nodewarden_scrape_duration_seconds_count{page=\"metrics\"} 3\n"),
        "{text}"
    );
    assert!(!text.contains("qqq"), "a client's word is no label");
}

#[test]
fn a_client_that_closes_its_side_still_gets_the_answer() {
    let running = Running::start(Fake::new());
    let mut stream = running.connect();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
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
    let page = read_page(&body).unwrap();
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
            .write_all(b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n")
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
    let doors = running.server.doors();
    let listener = bind_one(&"127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    doors.open(listener);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(b"GET /-/healthy HTTP/1.0\r\n\r\n").unwrap();
    assert!(everything(stream).starts_with("HTTP/1.0 200"));
    doors.close(address);
    until_true("it listens no longer", LONG, || {
        TcpStream::connect(address).is_err()
    })
    .unwrap();
    let (head, _) = running.ask("GET /-/healthy HTTP/1.1\r\n");
    assert!(head.starts_with("http/1.1 200"), "the others stay");
}

mod limits;
mod requests;

/// A page, on a connection that may stay open.
fn status_on(stream: &mut TcpStream, head: &str) -> u16 {
    let request = format!("GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n{head}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = [0; 512];
    let length = stream.read(&mut text).unwrap();
    let text = String::from_utf8_lossy(&text[..length]).into_owned();
    text.split(' ').nth(1).unwrap_or_default().parse().unwrap()
}

#[test]
fn another_access_holds_at_once_and_ends_open_connections() {
    let running = Running::start(Fake::new());
    let mut kept = running.connect();
    assert_eq!(status_on(&mut kept, ""), 200);
    let hash = crate::web::Secret(bcrypt::hash("secret", 4).unwrap());
    let web = WebConfig {
        users: [("prom".to_owned(), hash)].into(),
        headers: [("X-Frame-Options".to_owned(), "deny".to_owned())].into(),
        ..WebConfig::default()
    };
    running.gate.set(Access::new(&web).unwrap());
    assert_eq!(everything(kept), "", "closed without a request");
    // `prom:secret` and `prom:secret2`.
    let basic = |coded: &str| format!("Authorization: Basic {coded}\r\n");
    let mut stream = running.connect();
    assert_eq!(status_on(&mut stream, &basic("cHJvbTpzZWNyZXQ=")), 200);
    assert_eq!(status_on(&mut stream, &basic("cHJvbTpzZWNyZXQy")), 401);
    assert_eq!(status_on(&mut stream, ""), 401);
    let (head, body) = running.ask("GET / HTTP/1.1\r\n");
    assert!(
        head.starts_with("http/1.1 401 ") && body == "unauthorized\n",
        "{head}"
    );
    assert!(
        head.contains("\r\nwww-authenticate: basic\r") && head.contains("\r\nx-frame-options: deny\r"),
        "{head}"
    );
    running.gate.set(Access::default());
    assert_eq!(status_on(&mut running.connect(), ""), 200);
}

/// The next daemon could not bind the address while a thread of this one hung in the kernel.
#[test]
fn a_finished_server_listens_no_more() {
    let running = Running::start(Fake::new());
    let _open = running.connect();
    running.server.finish();
    TcpStream::connect(running.address).unwrap_err();
    bind_one(&running.address).unwrap();
}
