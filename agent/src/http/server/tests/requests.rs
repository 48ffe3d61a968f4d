//! Requests that are unusual, wrong or too large.

use super::*;

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or(answer)
}

#[test]
fn methods() {
    let running = Running::start(Fake::new());
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"] {
        let (head, _) = running.ask(&format!("{method} /metrics HTTP/1.1\r\nContent-Length: 0\r\n"));
        assert!(head.starts_with("http/1.1 405"), "{method}: {head}");
        assert!(head.contains("allow: get, head"), "{method}: {head}");
    }
    assert_eq!(status(&running.ask("BREW /metrics HTTP/1.1\r\n").0), "501");
    assert_eq!(status(&running.ask("POST /other HTTP/1.1\r\n").0), "404");
    assert_eq!(status(&running.ask("OPTIONS * HTTP/1.1\r\n").0), "405");
    assert_eq!(status(&running.ask("CONNECT localhost:80 HTTP/1.1\r\n").0), "405");
    let (head, body) = running.ask("HEAD /metrics HTTP/1.1\r\n");
    assert_eq!(status(&head), "200");
    assert!(body.is_empty() && !head.contains("content-length: 0"), "{head}");
}

#[test]
fn targets() {
    let running = Running::start(Fake::new());
    let get = |target: &str| {
        let (head, _) = running.ask(&format!("GET {target} HTTP/1.1\r\n"));
        status(&head).to_owned()
    };
    assert_eq!(get("http://localhost:1/-/healthy"), "200");
    assert_eq!(get("http://localhost:1/-/healthy?a=b"), "200");
    assert_eq!(get("//metrics"), "404");
    assert_eq!(get("/metrics/../etc"), "404");
    assert_eq!(get("nonsense"), "400");
    assert_eq!(get("*"), "400");
    assert_eq!(get(&format!("/{}", "x".repeat(10_000))), "404");
}

#[test]
fn heads_that_are_too_large_or_no_http() {
    let running = Running::start(Fake::new());
    let large = format!("GET / HTTP/1.1\r\nX: {}\r\n", "x".repeat(4 * MAX_HEAD));
    assert_eq!(status(&running.ask(&large).0), "431");
    let many = format!("GET / HTTP/1.1\r\n{}", "X: y\r\n".repeat(MAX_HEADERS + 1));
    assert_eq!(status(&running.ask(&many).0), "431");
    // `Host` and `Connection` are two more.
    let just = format!("GET / HTTP/1.1\r\n{}", "X: y\r\n".repeat(MAX_HEADERS - 2));
    assert_eq!(status(&running.ask(&just).0), "200");
    let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n";
    assert_eq!(status(&running.say(hello)), "400", "TLS");
    let nameless = running.say(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_eq!(status(&nameless), "400", "no Host");
    assert_eq!(status(&running.ask("GET / HTTP/1.1\r\nX : y\r\n").0), "400");
}

#[test]
fn http_1_0_is_answered_and_closed() {
    let running = Running::start(Fake::new());
    let text = running.say(b"GET /-/healthy HTTP/1.0\r\n\r\n");
    assert!(
        text.starts_with("HTTP/1.0 200") && text.ends_with("runs\n"),
        "{text}"
    );
}

#[test]
fn bodies_are_not_waited_for() {
    let running = Running::start(Fake::new());
    let never = running.ask("GET /-/healthy HTTP/1.1\r\nContent-Length: 100000\r\n");
    assert_eq!(status(&never.0), "200", "a body that never comes");
    let head = "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n";
    let text = running.say(&[head.as_bytes(), &[b'x'; 100_000]].concat());
    assert_eq!(status(&text), "405", "one that comes in spite of it");
    let chunked = "GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n";
    assert_eq!(status(&running.say(chunked.as_bytes())), "200");
}

#[test]
fn requests_in_one_go_are_answered_in_turn() {
    let running = Running::start(Fake::new());
    let text = running.say(
        b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n\
          GET /-/ready HTTP/1.1\r\nHost: localhost\r\n\r\n\
          HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n\
          GET /other HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    );
    let all: Vec<&str> = text
        .split("HTTP/1.1 ")
        .skip(1)
        .map(|a| a.get(..3).unwrap())
        .collect();
    assert_eq!(all, ["200", "200", "200", "404"]);
}

/// A page of a browser whose name now resolves to 127.0.0.1 (DNS rebinding) must not read this node.
#[test]
fn a_foreign_host_on_loopback_is_refused() {
    let running = Running::start(Fake::new());
    let get = |host: &str| {
        let text = running
            .say(format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes());
        status(&text).to_owned()
    };
    for host in [
        "evil.example",
        "evil.example:19190",
        "127.0.0.1.evil.example",
        "[::1",
        "",
    ] {
        assert_eq!(get(host), "421", "{host}");
    }
    for host in ["localhost", "127.0.0.1:19190", "[::1]:1"] {
        assert_eq!(get(host), "200", "{host}");
    }
    // A scraper of HTTP/1.0 sends no name, and a name in the target counts as the header does.
    assert_eq!(status(&running.say(b"GET /-/healthy HTTP/1.0\r\n\r\n")), "200");
    let target = running.ask("GET http://evil.example/metrics HTTP/1.1\r\n");
    assert_eq!(status(&target.0), "421");
    assert!(target.1.contains("localhost"), "{}", target.1);
}
