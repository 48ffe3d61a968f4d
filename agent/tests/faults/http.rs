//! Clients that are too many, too slow or in a hurry, and addresses that come later.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use testkit::fuse_hang::FuseHang;

use crate::common::{LONG, Node, program, value};

/// Number of descriptors to use: `wanted`, or the machine's limit minus a reserve.
fn allowed(wanted: u64) -> u64 {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    wanted.min(most.saturating_sub(200))
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn connect(address: &str) -> TcpStream {
    let to: SocketAddr = address.parse().unwrap();
    let stream = TcpStream::connect_timeout(&to, LONG).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

/// Bytes that the kernel keeps for a client of this server that it has not taken (tcp_diag(7): tx_queue).
fn unsent(server: SocketAddr, client: SocketAddr) -> Option<u64> {
    let port = |address: SocketAddr| format!(":{:04X}", address.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let is_it = fields.next()?.ends_with(&port(server)) && fields.next()?.ends_with(&port(client));
        let (sent, _) = fields.nth(1)?.split_once(':')?;
        is_it.then(|| u64::from_str_radix(sent, 16).ok()).flatten()
    })
}

/// Their memory is the service's: without a limit it is MiB for each connection.
#[test]
fn answers_that_a_client_does_not_read_do_not_pile_up_in_the_kernel() {
    let mut node = Node::new();
    node.start();
    let mut stream = connect(&node.address().unwrap());
    let (client, server) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
    let many = b"GET /metrics?tier=debug HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(2000);
    stream.set_nonblocking(true).unwrap();
    drop(stream.write(&many));
    let mut queues = vec![];
    node.until("the queue is full", |_| {
        queues.push(unsent(server, client).unwrap());
        // The daemon writes as fast as it can until then.
        std::thread::sleep(Duration::from_millis(300));
        matches!(queues[..], [.., a, b] if a > 0 && a == b)
    });
    let most = queues.iter().max().unwrap();
    assert!(*most <= 1 << 20, "{queues:?}");
}

/// The places, those that linger, those that wait, and some that are just on their way from one to the other.
const AT_MOST: usize = 64 + 64 + 96 + 32;

#[test]
fn ten_thousand_connections_cost_few_descriptors_and_keep_no_scraper_out() {
    let number = allowed(10_000);
    let mut node = Node::new();
    node.start();
    node.metrics();
    let (pid, address) = (node.core_pid(), node.address().unwrap());
    let (descriptors_before, resident_before) = (descriptors(pid), resident_kib(pid));
    let mut held = Vec::new();
    for n in 0..number {
        let mut stream = connect(&address);
        if n % 3 == 0 {
            // It may have lost its place already.
            drop(stream.write(b"GET /metrics HTTP/1.1\r\nHo"));
        }
        held.push(stream);
        if n % 500 == 499 {
            node.until("a patient scraper is served", |n| {
                n.try_get("/metrics").is_some_and(|r| r.status == 200)
            });
            let now = descriptors(pid);
            assert!(
                now <= descriptors_before + AT_MOST,
                "{now}, {descriptors_before} before"
            );
        }
    }
    let resident = resident_kib(pid);
    assert!(
        resident <= resident_before + 16 * 1024,
        "{resident} KiB, {resident_before} before"
    );
    eprintln!(
        "{number} connections: {} descriptors ({descriptors_before} before), {resident} KiB ({resident_before} before)",
        descriptors(pid)
    );
    drop(held);
    node.until("all is given back", |_| descriptors(pid) <= descriptors_before);
    let resident = resident_kib(pid);
    assert!(
        resident <= resident_before + 8 * 1024,
        "{resident} KiB, {resident_before} before"
    );
}

/// Each second it fails again.
#[test]
fn a_daemon_without_free_descriptors_logs_once_a_minute_that_it_cannot_accept() {
    let mut node = Node::new();
    node.start();
    let (pid, address) = (node.core_pid(), node.address().unwrap());
    let limit = format!("--nofile={}", descriptors(pid));
    // As the daemon's user: root alone may lack CAP_SYS_RESOURCE.
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let id = |key: &str| -> u32 {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    let set = Command::new("prlimit")
        .args(["--pid", &pid.to_string(), &limit])
        .uid(id("Uid:"))
        .gid(id("Gid:"))
        .status();
    assert!(set.unwrap().success());
    let _held: Vec<TcpStream> = (0..8).map(|_| connect(&address)).collect();
    let lines = || {
        node.daemon()
            .stderr()
            .matches("cannot accept a connection")
            .count()
    };
    node.until("it cannot accept", |_| lines() > 0);
    std::thread::sleep(Duration::from_secs(10));
    assert_eq!(lines(), 1, "{}", node.daemon().stderr());
}

#[test]
fn clients_that_do_not_end_their_head_or_do_not_read_keep_no_scraper_out() {
    let mut node = Node::new();
    node.start();
    let address = node.address().unwrap();
    let many = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(2000);
    let slow: Vec<TcpStream> = (0..200)
        .map(|n| {
            let mut stream = connect(&address);
            if n % 2 == 0 {
                stream.write_all(b"GET /metrics HT").unwrap();
            } else {
                stream.set_nonblocking(true).unwrap();
                drop(stream.write(&many));
            }
            stream
        })
        .collect();
    for _ in 0..20 {
        node.until("served", |n| {
            n.try_get("/metrics").is_some_and(|r| r.status == 200)
        });
    }
    let pid = node.core_pid();
    assert!(descriptors(pid) < 200, "{}", descriptors(pid));
    drop(slow);
}

#[test]
fn half_closed_and_huge_requests_are_answered() {
    let mut node = Node::new();
    node.start();
    let address = node.address().unwrap();
    let say = |bytes: &[u8], half: bool| {
        let mut stream = connect(&address);
        stream.write_all(bytes).unwrap();
        if half {
            stream.shutdown(std::net::Shutdown::Write).unwrap();
        }
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.get(..12).unwrap_or_default().to_owned()
    };
    assert_eq!(
        say(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", true),
        "HTTP/1.1 200"
    );
    let huge = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    assert_eq!(say(huge.as_bytes(), false), "HTTP/1.1 431");
    let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(1000));
    assert_eq!(say(many.as_bytes(), false), "HTTP/1.1 431");
}

/// The files of one DIMM do not answer. Scrapes with a time-out of 10 ms get the available values, and the collector
/// stays up until its own deadline.
#[test]
fn a_short_scrape_timeout_changes_no_collector_while_a_device_is_slow() {
    let mut node = Node::new();
    let dimm = node.path("root/sys/devices/system/edac/mc/mc0/dimm0");
    let files = ["dimm_ce_count", "dimm_label", "dimm_ue_count", "size"];
    let texts = files.map(|f| std::fs::read(dimm.join(f)).unwrap());
    let fuse = FuseHang::mount(&dimm).unwrap();
    for (file, text) in files.iter().zip(texts) {
        fuse.add(file, text);
    }
    node.start();
    let address = node.address().unwrap();
    let deadline = Duration::from_secs(5);

    let frozen = Instant::now();
    fuse.freeze_file("dimm_ce_count").unwrap();
    let mut within = 0;
    while frozen.elapsed() < deadline {
        let headers = [("X-Prometheus-Scrape-Timeout-Seconds", "0.01")];
        let response = testkit::http::get(&address, "/metrics", &headers, LONG).unwrap();
        assert_eq!(response.status, 200);
        let samples = testkit::exposition::check(response.text().unwrap()).unwrap();
        let up = value(&samples, "nodewarden_collector_up", &[("collector", "host")]);
        // Only as long as the collector's own deadline cannot have passed.
        if frozen.elapsed() < deadline {
            assert_eq!(up, Some(1.0));
            within += 1;
        }
        assert!(
            value(&samples, "host_pci_gpus", &[("vendor", "nvidia")]).is_some(),
            "available values are missing"
        );
    }
    assert!(within > 0);
    node.until("late by its own deadline", |n| {
        n.metric("nodewarden_collector_up", &[("collector", "host")]) == Some(0.0)
    });
    let page = node.try_get("/").unwrap();
    assert!(
        page.text().unwrap().contains("no answer for"),
        "{}",
        page.text().unwrap()
    );
    fuse.thaw();
    node.until("up again", |n| {
        n.metric("nodewarden_collector_up", &[("collector", "host")]) == Some(1.0)
    });
}

#[test]
fn the_status_page_applies_its_own_style_and_names_nobody() {
    let mut node = Node::new();
    node.start();
    node.xid(3, 31);
    node.xid(3, 79);
    node.until("an incident", |n| n.open_incidents().len() == 1);
    let id = node.open_incidents()[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(node.cli(&["ack", &id, "--reason", "swordfish"]).0, Some(0));
    let page = node.try_get("/").unwrap();
    let html = page.text().unwrap();
    let json = node.try_get("/api/v1/status").unwrap();
    assert_eq!(json.header("content-type"), Some("application/json"));
    let report: serde_json::Value = serde_json::from_slice(&json.body).unwrap();
    assert_eq!(report["version"], 1);
    assert_eq!(report["incidents"][0]["id"], id);
    assert_eq!(report["incidents"][0]["acknowledged"], true);
    for text in [html, json.text().unwrap()] {
        assert!(text.contains(&id));
        for secret in ["NVRM", "python3", "swordfish", "4711"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
    let style = html
        .split("<style>")
        .nth(1)
        .unwrap()
        .split("</style>")
        .next()
        .unwrap();
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.contains(&format!("'sha256-{}'", digest(style))),
        "{policy}"
    );
}

/// SHA-256 in base64, by programs that are not ours.
fn digest(text: &str) -> String {
    let mut child = Command::new("sh")
        .args(["-c", "openssl dgst -sha256 -binary | base64"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Runs in a network of its own. Threads have theirs, and the processes that they start inherit it.
fn in_own_network(test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
            ip("link set lo up");
            test();
        });
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

fn ip(args: &str) {
    let status = Command::new("ip").args(args.split(' ')).status().unwrap();
    assert!(status.success(), "ip {args}");
}

fn serves(address: &str) -> bool {
    testkit::http::get(address, "/-/healthy", &[], LONG).is_ok_and(|r| r.status == 200)
}

#[test]
fn addresses_that_appear_later_are_listened_on() {
    in_own_network(|| {
        let mut node = Node::new();
        for place in [
            "127.0.0.1:19190",
            "10.20.3.4:19191",
            "ib0:19192",
            "10.30.0.0/16:19193",
            "[fd00::]/8:19194",
        ] {
            node.arg(&["--listen", place]);
        }
        node.spawn();
        let up = |address: &str| {
            let what = format!("serves on {address}");
            node.until(&what, |_| serves(address));
        };
        up("127.0.0.1:19190");
        assert!(!serves("10.20.3.4:19191"));
        ip("link add ib0 type bridge");
        ip("link set ib0 up");
        ip("addr add 10.20.3.4/32 dev ib0");
        up("10.20.3.4:19191");
        up("10.20.3.4:19192");
        assert!(!serves("10.20.3.4:19193"), "outside the network");
        ip("addr add 10.30.0.1/32 dev lo");
        ip("addr add fd00::1/128 dev lo nodad");
        up("10.30.0.1:19193");
        up("[fd00::1]:19194");
        ip("addr del 10.30.0.1/32 dev lo");
        ip("addr add 10.30.0.2/32 dev lo");
        up("10.30.0.2:19193");
        let said = node.daemon().stderr();
        let times = |text: &str| said.lines().filter(|l| l.contains(text)).count();
        assert_eq!(
            times("10.20.3.4:19191: Cannot assign"),
            times("ib0:19192: no interface ib0 with an address")
        );
        assert!(
            times("retrying") <= 6,
            "a line when it changes, not per try:\n{said}"
        );
    });
}

#[test]
fn a_port_in_use_on_an_interface_ends_the_first_start_as_well() {
    in_own_network(|| {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        for place in [format!("lo:{port}"), format!("127.0.0.0/8:{port}")] {
            let mut node = Node::new();
            node.arg(&["--listen", &place]);
            node.spawn();
            assert_eq!(node.daemon().wait(LONG).unwrap().code(), Some(1), "{place}");
            let stderr = node.daemon().stderr();
            assert!(
                stderr.contains(&format!("127.0.0.1:{port}")) && stderr.contains("in use"),
                "{stderr}"
            );
        }
    });
}

/// A stranger holds all connections to the control socket that he can get.
#[test]
fn strangers_do_not_lock_root_and_operators_out() {
    let mut node = Node::new();
    node.set("health.operators=[\"daemon\"]");
    node.start();
    let socket = node.run_dir().join("control.sock");
    let hold = "use IO::Socket::UNIX; my @s; for (1..300) { push @s, IO::Socket::UNIX->new(Peer => $ARGV[0]) } \
                $| = 1; print \"held\\n\"; while (1) { my @n; for (1..20) { push @n, IO::Socket::UNIX->new(Peer => $ARGV[0]) } \
                push @s, @n; splice(@s, 0, 20); select(undef, undef, undef, 0.05) }";
    let mut strangers = Strangers(
        [5, 6, 7, 8, 9]
            .map(|uid| {
                let mut command = Command::new("perl");
                command.args(["-e", hold]).arg(&socket).uid(uid).gid(uid);
                command.stdout(Stdio::piped()).spawn().unwrap()
            })
            .into(),
    );
    for stranger in &mut strangers.0 {
        let mut said = [0; 4];
        stranger.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    }
    let as_user = |uid: u32| {
        let output = Command::new(program())
            .args(["status", "--run-dir"])
            .arg(node.run_dir())
            .uid(uid)
            .gid(uid)
            .output()
            .unwrap();
        output.status.code()
    };
    for _ in 0..20 {
        assert_eq!((as_user(0), as_user(1)), (Some(0), Some(0)));
    }
    let pid = node.core_pid();
    assert!(descriptors(pid) < 150, "{}", descriptors(pid));
}

/// Programs that end with the test, however it ends.
struct Strangers(Vec<std::process::Child>);

impl Drop for Strangers {
    fn drop(&mut self) {
        for stranger in &mut self.0 {
            drop(stranger.kill());
            drop(stranger.wait());
        }
    }
}
