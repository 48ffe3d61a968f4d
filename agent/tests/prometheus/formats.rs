//! OpenMetrics and compression from the running daemon, read by third-party programs.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use testkit::http::Response;
use testkit::prometheus::{Prometheus, PrometheusOptions, Target};

use crate::common::{LONG, Node};

const OPEN: (&str, &str) = (
    "Accept",
    "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5",
);

fn get(node: &Node, target: &str, headers: &[(&str, &str)]) -> Response {
    testkit::http::get(&node.address().unwrap(), target, headers, LONG).unwrap()
}

fn samples(text: &str) -> Vec<&str> {
    let lines = text.lines().filter(|l| !l.starts_with('#'));
    let mut starts: Vec<&str> = lines.map(|l| l.rsplit_once(' ').unwrap().0).collect();
    // Series that the requests themselves change.
    starts.retain(|l| !l.contains("scrape"));
    starts
}

#[test]
fn the_python_parser_accepts_every_tier_before_and_after_an_xid() {
    let mut node = Node::new();
    node.start();
    // Between two pages no series may come.
    node.until("the mounts are listed", |n| {
        let all = n.metrics();
        all.iter().filter(|s| s.name == "mount_info").count() == 4
    });
    for step in 0..2 {
        if step == 1 {
            node.xid(3, 79);
            node.until("an incident", |n| n.open_incidents().len() == 1);
        }
        for tier in ["core", "detail", "debug"] {
            let page = get(&node, &format!("/metrics?tier={tier}"), &[OPEN]);
            assert_eq!(page.status, 200);
            assert_eq!(
                page.header("content-type"),
                Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
            );
            let text = page.text().unwrap();
            let ours = testkit::openmetrics::check(text).unwrap_or_else(|e| panic!("{e:#}\n{text}"));
            let theirs = testkit::python::check_openmetrics(text).unwrap_or_else(|e| panic!("{e:#}\n{text}"));
            let count = ours.iter().map(|f| f.samples.len()).sum();
            assert_eq!(theirs, (ours.len(), count));
            let plain = get(&node, &format!("/metrics?tier={tier}"), &[]);
            assert_eq!(samples(plain.text().unwrap()), samples(text));
            assert_eq!(text.contains("xid=\"79\""), step == 1);
        }
    }
}

#[test]
fn a_compressed_page_is_the_page() {
    let mut node = Node::new();
    node.start();
    let plain = get(&node, "/metrics?collect[]=host", &[OPEN]);
    let packed = get(
        &node,
        "/metrics?collect[]=host",
        &[OPEN, ("Accept-Encoding", "gzip")],
    );
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert_eq!(packed.header("vary"), Some("Accept, Accept-Encoding"));
    assert!(packed.body.len() * 2 < plain.body.len());
    let mut gunzip = std::process::Command::new("gzip");
    gunzip.arg("-dc");
    let text = testkit::exec::run(gunzip, &packed.body, LONG)
        .unwrap()
        .ok()
        .unwrap();
    assert_eq!(samples(&text.stdout), samples(plain.text().unwrap()));
}

/// Forwards connections to `to`, and keeps the beginning of every answer.
fn listen_in(to: String) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect(&to) else {
                continue;
            };
            pass(client.try_clone().unwrap(), server.try_clone().unwrap(), None);
            pass(server, client, Some(Arc::clone(&seen)));
        }
    });
    (address, heads)
}

fn pass(mut from: TcpStream, mut to: TcpStream, keep: Option<Arc<Mutex<Vec<String>>>>) {
    std::thread::spawn(move || {
        let mut bytes = [0; 65536];
        while let Ok(n @ 1..) = from.read(&mut bytes) {
            if let Some(heads) = keep.as_ref().filter(|_| bytes.starts_with(b"HTTP/1.1 ")) {
                let head = String::from_utf8_lossy(&bytes[..n.min(1000)]).to_lowercase();
                heads.lock().unwrap().push(head);
            }
            if to.write_all(&bytes[..n]).is_err() {
                break;
            }
        }
        to.shutdown(std::net::Shutdown::Both).ok();
    });
}

#[test]
fn prometheus_scrapes_compressed_openmetrics_and_sees_the_types() {
    let mut node = Node::new();
    node.start();
    node.xid(3, 79);
    node.until("an incident", |n| n.open_incidents().len() == 1);
    let (address, heads) = listen_in(node.address().unwrap());
    let prometheus = Prometheus::start(&PrometheusOptions {
        targets: vec![Target::new("nodewarden", &address)],
        ..Default::default()
    })
    .unwrap();
    prometheus.wait_up(1, LONG).unwrap();
    for expr in [
        "gpu_xid_errors_total{xid=\"79\"} == 1",
        "nodewarden_build_info == 1",
        "nodewarden_scrape_duration_seconds_bucket{le=\"1.0\",page=\"metrics\"} > 0",
        "nodewarden_scrapes_total{code=\"200\"} > 1",
    ] {
        prometheus
            .wait_query(expr, |rows| !rows.is_empty(), LONG)
            .unwrap_or_else(|e| panic!("{expr}: {e:#}"));
    }
    let heads = heads.lock().unwrap();
    assert!(!heads.is_empty());
    for head in heads.iter() {
        assert!(
            head.contains("content-type: application/openmetrics-text; version=1.0.0"),
            "{head}"
        );
        assert!(head.contains("content-encoding: gzip"), "{head}");
    }
    // Only OpenMetrics has units, and names counters without their suffix.
    for (metric, kind, unit) in [
        ("gpu_xid_errors", "counter", ""),
        ("nodewarden_scrape_duration_seconds", "histogram", "seconds"),
        ("nodewarden_build", "info", ""),
    ] {
        let said = prometheus.metadata(metric).unwrap();
        assert_eq!((said.0.as_str(), said.1.as_str()), (kind, unit), "{metric}");
    }
}
