//! Strangers at the TCP port with a `web_config_file`: other protocols, other certificates, other passwords.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::pki::{Curled, LOCAL, Pki, curl, users};
use crate::common::{LONG, Node};

/// A node with this web configuration beside the certificate of a server.
fn serve(pki: &Pki, more: &str) -> Node {
    pki.sign("server", LOCAL);
    pki.web(more);
    let mut node = Node::new();
    node.set(&pki.setting());
    node.spawn();
    node.until("the port is open", |n| n.address().is_some());
    node
}

/// The longest that a scraper waits. Of curl's time-outs the last counts.
const SOON: &[&str] = &["--max-time", "10"];

/// A connection from another address of this machine.
fn connect_from(from: [u8; 4], to: &str) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let stream = runtime.unwrap().block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((IpAddr::from(from), 0).into()).unwrap();
        let stream = socket.connect(to.parse().unwrap()).await.unwrap();
        stream.into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

fn ask(node: &Node, pki: &Pki, args: &[&str]) -> Curled {
    let ca = pki.path("ca.pem");
    curl(
        node,
        "https",
        "/metrics",
        &[&["--cacert", ca.to_str().unwrap()], args].concat(),
    )
}

#[test]
fn tls_is_served_with_headers_and_plain_http_is_refused() {
    let pki = Pki::new();
    let node = serve(
        &pki,
        "http_server_config: { headers: { X-Frame-Options: deny } }\n",
    );
    let found = ask(&node, &pki, &[]);
    assert_eq!(found.status, 200, "{found:?}");
    assert!(
        found.text.contains("nodewarden_web_config_error 0"),
        "{}",
        found.text
    );
    assert!(
        found.text.to_lowercase().contains("\nx-frame-options: deny\r"),
        "{}",
        found.text
    );
    for version in ["1.2", "1.3"] {
        let exactly = [&format!("--tlsv{version}"), "--tls-max", version];
        assert_eq!(ask(&node, &pki, &exactly).status, 200, "{version}");
    }
    let old = ask(
        &node,
        &pki,
        &["--tlsv1.1", "--tls-max", "1.1", "--ciphers", "DEFAULT@SECLEVEL=0"],
    );
    assert_eq!((old.status, old.exit), (0, Some(35)), "{old:?}");

    let plain = curl(&node, "http", "/metrics", &[]);
    assert_eq!((plain.exit, plain.status), (Some(0), 400), "{plain:?}");
    assert!(
        plain.text.contains("expects HTTPS") && !plain.text.contains("nodewarden_"),
        "{plain:?}"
    );
    let stranger = Pki::new();
    assert_eq!(ask(&node, &stranger, &[]).exit, Some(60));
    // The control socket needs neither.
    node.until("status answers", |n| n.try_status().is_some());
}

#[test]
fn a_client_needs_a_certificate_of_the_ca_and_a_listed_name() {
    let (pki, stranger) = (Pki::new(), Pki::new());
    pki.sign("client", "DNS:prom.example,URI:spiffe://site/prom,IP:10.1.2.3");
    pki.sign("other", "DNS:other.example");
    stranger.sign("client", "DNS:prom.example");
    let with = |pki: &Pki, name: &str| {
        let part = |end: &str| pki.path(&format!("{name}.{end}")).to_str().unwrap().to_owned();
        ["--cert".to_owned(), part("pem"), "--key".to_owned(), part("key")]
    };
    let status = |node: &Node, args: &[String]| {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let found = ask(node, &pki, &args);
        assert_eq!(found.status == 0, found.exit != Some(0), "{found:?}");
        found.status
    };
    let verify = "RequireAndVerifyClientCert\n  client_ca_file: ca.pem";
    let named = |name: &str| format!("{verify}\n  client_allowed_sans: [{name}]");
    let any_named = "RequireAnyClientCert\n  client_allowed_sans: [prom.example]".to_owned();
    // The status without a certificate, and with each of three.
    for (auth, none, signed, other, foreign) in [
        (verify.to_owned(), 0, 200, 200, 0),
        (named("prom.example"), 0, 200, 0, 0),
        (named("\"spiffe://site/prom\""), 0, 200, 0, 0),
        (named("10.1.2.3"), 0, 200, 0, 0),
        (
            verify.replace("RequireAndVerifyClientCert", "VerifyClientCertIfGiven"),
            200,
            200,
            200,
            0,
        ),
        ("RequireAnyClientCert".to_owned(), 0, 200, 200, 200),
        (any_named, 0, 200, 0, 200),
        ("RequestClientCert".to_owned(), 200, 200, 200, 200),
    ] {
        let more = format!("  client_auth_type: {auth}\n");
        let node = serve(&pki, &more);
        assert_eq!(status(&node, &[]), none, "none: {more}");
        assert_eq!(status(&node, &with(&pki, "client")), signed, "signed: {more}");
        assert_eq!(status(&node, &with(&pki, "other")), other, "other: {more}");
        assert_eq!(
            status(&node, &with(&stranger, "client")),
            foreign,
            "foreign: {more}"
        );
    }
}

#[test]
fn every_page_needs_a_user_with_the_right_password() {
    let pki = Pki::new();
    let node = serve(&pki, &users(&["prom"]));
    for path in [
        "/",
        "/metrics",
        "/metrics/dcgm",
        "/api/v1/status",
        "/-/healthy",
        "/-/ready",
        "/nothing",
    ] {
        let none = curl(&node, "https", path, &["--insecure"]);
        assert_eq!(none.status, 401, "{path}: {none:?}");
        assert!(
            none.text.to_lowercase().contains("\nwww-authenticate: basic\r"),
            "{none:?}"
        );
        let right = curl(&node, "https", path, &["--insecure", "--user", "prom:secret"]);
        assert_ne!(right.status, 401, "{path}");
        let body = |found: &Curled| found.text.split("\r\n\r\n").nth(1).map(str::to_owned);
        for user in ["prom:wrong", "unknown:secret", "prom:", ":"] {
            let wrong = curl(&node, "https", path, &["--insecure", "--user", user]);
            assert_eq!((wrong.status, body(&wrong)), (401, body(&none)), "{path} {user}");
        }
    }
    assert_eq!(ask(&node, &pki, &["--user", "prom:secret"]).status, 200);
    node.until("status answers", |n| n.try_status().is_some());
}

#[test]
fn unfinished_handshakes_end_and_keep_no_scraper_out() {
    let pki = Pki::new();
    let node = serve(&pki, "");
    let address = node.address().unwrap();
    let (opened, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let found: Vec<Curled> = thread::scope(|scope| {
        scope.spawn(|| {
            let mut slow = VecDeque::new();
            while !is_over.load(Ordering::Relaxed) {
                let number = opened.fetch_add(1, Ordering::Relaxed);
                let mut stream = connect_from([127, 0, 0, 2], &address);
                if number.is_multiple_of(2) {
                    // The start of a record of a handshake. The connection may be closed already.
                    drop(stream.write_all(&[22, 3, 1, 2, 0, 1]));
                }
                slow.push_back(stream);
                if slow.len() > 200 {
                    slow.pop_front();
                    thread::sleep(Duration::from_millis(5));
                }
            }
        });
        let is_full = || opened.load(Ordering::Relaxed) >= 200;
        let full = testkit::wait::until_true("200 connections", LONG, is_full);
        // Each at its first try.
        let found = (0..10).map(|_| ask(&node, &pki, SOON)).collect();
        is_over.store(true, Ordering::Relaxed);
        full.unwrap();
        found
    });
    assert!(found.iter().all(|found| found.status == 200), "{found:?}");
    // One byte now and then does not prolong it.
    let began = Instant::now();
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    stream.write_all(&[22, 3, 1, 2, 0]).unwrap();
    let is_open = |stream: &mut TcpStream| match stream.read(&mut [0; 64]) {
        Ok(0) => false,
        Ok(_) => true,
        Err(e) => matches!(
            e.kind(),
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
        ),
    };
    while is_open(&mut stream) && stream.write_all(&[0]).is_ok() {
        assert!(began.elapsed() < LONG, "still open");
    }
    assert!(began.elapsed() >= Duration::from_secs(4), "{:?}", began.elapsed());
}

#[test]
fn guesses_from_one_address_delay_no_scraper_at_another() {
    let pki = Pki::new();
    // 48 comparisons of this cost, and the rests after them, need longer than a scraper waits.
    let hash = bcrypt::hash("secret", 13).unwrap();
    pki.write("web.yml", &format!("basic_auth_users:\n  prom: {hash}\n"));
    let mut node = Node::new();
    node.set(&pki.setting());
    node.spawn();
    node.until("the port is open", |n| n.address().is_some());
    let address = node.address().unwrap();
    let (guesses, later, is_over) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let guess = || {
        while !is_over.load(Ordering::Relaxed) {
            let mut stream = connect_from([127, 0, 0, 2], &address);
            // `prom:wrong`.
            let head = "GET /metrics HTTP/1.0\r\nAuthorization: Basic cHJvbTp3cm9uZw==\r\n\r\n";
            drop(stream.write_all(head.as_bytes()));
            guesses.fetch_add(1, Ordering::Relaxed);
            let mut text = String::new();
            drop(stream.read_to_string(&mut text));
            assert!(!text.contains(" 200 "), "{text}");
            if text.contains(" 429 ") && text.to_lowercase().contains("\nretry-after: 1\r") {
                later.fetch_add(1, Ordering::Relaxed);
            }
            thread::sleep(Duration::from_millis(50));
        }
    };
    let found: Vec<Curled> = thread::scope(|scope| {
        for _ in 0..48 {
            scope.spawn(guess);
        }
        let is_full = || guesses.load(Ordering::Relaxed) >= 48;
        let full = testkit::wait::until_true("48 guesses", LONG, is_full);
        let right = [SOON, &["--user", "prom:secret"]].concat();
        let found = (0..5).map(|_| curl(&node, "http", "/metrics", &right)).collect();
        is_over.store(true, Ordering::Relaxed);
        full.unwrap();
        found
    });
    assert!(found.iter().all(|found| found.status == 200), "{found:?}");
    assert!(later.load(Ordering::Relaxed) > 0);
}

#[test]
fn a_refused_certificate_of_a_client_is_logged_once() {
    let pki = Pki::new();
    pki.sign("client", "DNS:prom.example\nbasicConstraints=CA:TRUE");
    let node = serve(
        &pki,
        "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n",
    );
    let [cert, key] = ["pem", "key"].map(|end| pki.path(&format!("client.{end}")));
    for _ in 0..3 {
        let found = ask(
            &node,
            &pki,
            &["--cert", cert.to_str().unwrap(), "--key", key.to_str().unwrap()],
        );
        assert_eq!(found.status, 0, "{found:?}");
    }
    let logged = |n: &Node| n.daemon().stderr().matches("TLS handshake failed").count();
    node.until("it is logged", |n| logged(n) > 0);
    assert_eq!(logged(&node), 1, "{}", node.daemon().stderr());
}
