//! The worker `nvidia`, ended by the driver's library and by `nodewarden release`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and starts the program under test"
)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use testkit::daemon::Daemon;
use testkit::exposition::{self, Sample};
use testkit::nvml::{FakeNvml, Fault, Rule};
use testkit::ports::Port;
use testkit::{http, tree, wait};

/// Time limit of every wait.
const LONG: Duration = Duration::from_secs(60);

fn page(address: &str) -> Option<Vec<Sample>> {
    let page = http::get(address, "/metrics", &[], LONG).ok()?;
    Some(exposition::check(page.ok().ok()?).unwrap())
}

fn value(page: &[Sample], name: &str, label: (&str, &str)) -> Option<f64> {
    let has = |s: &&Sample| s.name == name && s.label(label.0) == Some(label.1);
    page.iter().find(has).map(|s| s.value)
}

fn is_late(page: &[Sample]) -> bool {
    page.iter().any(|s| s.name == "nodewarden_device_late_seconds")
}

fn gpus_up(page: &[Sample]) -> usize {
    page.iter()
        .filter(|s| s.name == "gpu_up" && s.value == 1.0)
        .count()
}

/// A node of eight H100s whose daemon runs.
struct Node {
    driver: FakeNvml,
    address: String,
    daemon: Option<Daemon>,
    dir: tempfile::TempDir,
    /// No other test takes it while no daemon of this node listens.
    _port: Port,
}

impl Node {
    fn start() -> Self {
        Self::with(|scenario| scenario)
    }

    /// With another scenario.
    fn with(change: impl FnOnce(String) -> String) -> Self {
        let mut node = Self::on("host/h100", change);
        let config = format!("[nvidia]\nlibrary = {:?}\n", node.driver.library());
        fs::write(node.dir.path().join("site.toml"), config).unwrap();
        node.run();
        let seen = node.until("all GPUs are up", &|page| gpus_up(page) == 8);
        assert_eq!(starts(&seen, "nvidia"), Some(1.0));
        node
    }

    /// A node without NVIDIA's driver.
    fn without_driver() -> Self {
        let mut node = Self::on("host/bare", |scenario| scenario);
        fs::write(node.dir.path().join("site.toml"), "").unwrap();
        node.run();
        node.until("the worker is not on this node", &|page| {
            let state = "nodewarden_collector_state_info";
            let is_it = |s: &&Sample| s.name == state && s.label("collector") == Some("nvidia");
            page.iter().find(is_it).and_then(|s| s.label("state")) == Some("absent")
        });
        node
    }

    /// The files of a node, on which no daemon runs yet.
    fn on(host: &str, change: impl FnOnce(String) -> String) -> Self {
        let dir = tempfile::Builder::new().prefix("nw-nvidia-").tempdir().unwrap();
        // Under root, the workers run as other users.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
        tree::unpack(&fixtures.join(host), dir.path()).unwrap();
        let scenario = fs::read_to_string(fixtures.join("nvidia/h100/nvml.toml")).unwrap();
        let driver = FakeNvml::install_text(dir.path(), &change(scenario)).unwrap();
        let port = Port::reserve().unwrap();
        Self {
            driver,
            address: format!("127.0.0.1:{}", port.number()),
            daemon: None,
            dir,
            _port: port,
        }
    }

    /// Starts the daemon on the node, in place of one that runs.
    fn run(&mut self) {
        self.daemon = None;
        let dir = self.dir.path();
        let mut command = Command::new(env!("CARGO_BIN_EXE_nodewarden"));
        command.arg("run").arg("--recorded").arg(dir);
        command.args(["--listen", &self.address]);
        command.arg("--config").arg(dir.join("site.toml"));
        command.arg("--state-dir").arg(dir.join("state"));
        command.arg("--run-dir").arg(dir.join("run"));
        self.daemon = Some(Daemon::start(command).unwrap());
    }

    /// Ends the daemon, not its parent, which starts another one.
    fn kill_daemon(&mut self) {
        let daemon = self
            .daemon()
            .wait_for_child(&["nodewarden", "daemon"], LONG)
            .unwrap();
        let pid = nix::unistd::Pid::from_raw(i32::try_from(daemon).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
        let stat = || testkit::proc::Stat::read(daemon).is_none_or(|s| !s.alive());
        wait::until_true("the daemon has ended", LONG, stat).unwrap();
    }

    fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().unwrap()
    }

    /// Adds a GPU at that PCI address, bound to NVIDIA's driver.
    fn add_pci(&self, address: &str) {
        let folder = self.dir.path().join("root/sys/bus/pci/devices").join(address);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("class"), "0x030200\n").unwrap();
        fs::write(folder.join("vendor"), "0x10de\n").unwrap();
        symlink("../../../bus/pci/drivers/nvidia", folder.join("driver")).unwrap();
    }

    /// Loses a GPU between two daemons. Returns the pages before and after.
    fn lose_between_daemons(&mut self, lose: impl Fn(&FakeNvml)) -> [Vec<Sample>; 2] {
        let before = self.until("all GPUs are up", &|page| gpus_up(page) == 8);
        // Wait until the labels are on the disk.
        let record = self.dir.path().join("state/state.json");
        wait::until_true("the names are in the record", LONG, || {
            fs::read_to_string(&record).is_ok_and(|text| text.contains("0000:c3:00.0"))
        })
        .unwrap();
        self.daemon = None;
        lose(&self.driver);
        self.run();
        let after = self.until("the others are up", &|page| gpus_up(page) == 7);
        [before, after]
    }

    /// Makes each call about a GPU take 30 ms longer, and waits until a reading exceeds its slice. Returns its label.
    fn slow_down(&self, index: u32) -> String {
        let slow = Rule {
            gpu: Some(index),
            call: None,
            field: None,
            fault: Fault::Slow(30),
        };
        self.driver.inject(slow).unwrap();
        let page = self.until("a reading exceeds its slice", &is_late);
        let text = index.to_string();
        let is_it = |s: &&Sample| s.name == "gpu_info" && s.label("index") == Some(&text);
        let info = page.iter().find(is_it).unwrap();
        info.label("gpu").unwrap().to_owned()
    }

    fn status(&self) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nodewarden"));
        command
            .args(["status", "--run-dir"])
            .arg(self.dir.path().join("run"));
        text(&command.output().unwrap()).0
    }

    fn until(&self, what: &str, holds: &dyn Fn(&[Sample]) -> bool) -> Vec<Sample> {
        let found = wait::until(what, LONG, || Ok(page(&self.address).filter(|p| holds(p))));
        found
            .map_err(|e| format!("{e:#}\n{}", self.daemon().stderr()))
            .unwrap()
    }

    fn release(&self, script: &str) -> Command {
        self.release_within("1h", script)
    }

    /// `nodewarden release nvidia -- sh -c SCRIPT LIBRARY`.
    fn release_within(&self, limit: &str, script: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nodewarden"));
        command.args(["release", "nvidia", "--limit", limit, "--run-dir"]);
        command.arg(self.dir.path().join("run"));
        command
            .args(["--", "sh", "-c", script])
            .arg(self.driver.library());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// Label, PCI address and name of the GPUs. The driver may renumber them.
fn called(page: &[Sample]) -> Vec<[Option<&str>; 3]> {
    let gpus = page.iter().filter(|s| s.name == "gpu_info");
    gpus.map(|s| ["gpu", "pci", "name"].map(|label| s.label(label)))
        .collect()
}

fn starts(page: &[Sample], worker: &str) -> Option<f64> {
    value(page, "nodewarden_worker_starts_total", ("worker", worker))
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_library_that_kills_its_process_affects_only_its_own_worker() {
    let node = Node::start();
    node.driver
        .break_call(3, "nvmlDeviceGetTemperatureV", Fault::Segv)
        .unwrap();
    node.until("the worker was started again", &|page| {
        starts(page, "nvidia").is_some_and(|n| n >= 2.0)
    });
    node.driver.lift().unwrap();
    let seen = node.until("all GPUs are up again", &|page| gpus_up(page) == 8);
    assert_eq!(starts(&seen, "host"), Some(1.0));
    assert_eq!(
        value(&seen, "nodewarden_collector_up", ("collector", "host")),
        Some(1.0)
    );
}

#[test]
fn a_command_runs_while_no_process_of_ours_has_the_driver_open_and_then_gpus_are_read_again() {
    let node = Node::start();
    node.add_pci("0000:c3:00.0");
    let seen = node.until("a page", &|page| gpus_up(page) == 8);
    let listed = seen.iter().filter(|s| s.name == "gpu_up").count();
    let before = seen;
    let begun = node.dir.path().join("begun");
    let over = node.dir.path().join("over");
    let script = format!(
        "grep -ls \"$0\" /proc/[0-9]*/maps; : > {begun:?}; while ! [ -e {over:?} ]; do sleep 0.05; done; exit 7"
    );
    let first = node.release(&script).spawn().unwrap();
    wait::until_true("the command runs", LONG, || begun.exists()).unwrap();

    // During the release no worker is started, no old value is shown, and the page names the reason.
    let seen = node.until("a page", &|_| true);
    assert_eq!((gpus_up(&seen), starts(&seen, "nvidia")), (0, Some(1.0)));
    assert_eq!(
        value(&seen, "nodewarden_worker_up", ("worker", "nvidia")),
        Some(0.0)
    );
    assert_eq!(starts(&seen, "host"), Some(1.0));
    assert!(seen.iter().any(|s| s.name == "nodewarden_collector_state_info"
        && s.label("collector") == Some("nvidia")
        && s.label("reason") == Some("released")));
    let status = node.status();
    let left = ["released to ", "(pid ", "), for another 59 min"];
    assert!(left.iter().all(|part| status.contains(part)), "{status}");

    // A change during the release is detected. The lost GPU keeps its label.
    node.driver.lose(5).unwrap();
    fs::write(&over, "").unwrap();
    let first = first.wait_with_output().unwrap();
    let (out, err) = text(&first);
    // This process controls the stand-in.
    let own = format!("/proc/{}/maps", std::process::id());
    let others: Vec<&str> = out.lines().filter(|l| *l != own).collect();
    assert_eq!((first.status.code(), others), (Some(7), Vec::new()), "{err}");
    let now = format!("release ended: nvidia: {listed} devices, 7 respond");
    assert!(err.contains(&now), "{err}");
    let seen = node.until("the GPUs are up again", &|page| gpus_up(page) == 7);
    assert_eq!(starts(&seen, "nvidia"), Some(2.0));
    assert_eq!(called(&seen), called(&before));
    let status = node.status();
    assert!(!status.contains("released"), "{status}");
}

/// Waits until `nodewarden release` reports that another release has not ended.
fn until_it_waits(release: &mut Child) {
    let mut line = String::new();
    BufReader::new(release.stderr.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(
        line.contains("nvidia is released to ") && line.contains(": waiting"),
        "{line}"
    );
}

#[test]
fn releases_follow_each_other_and_the_driver_is_opened_after_the_last() {
    let node = Node::start();
    let (begun, over) = (node.dir.path().join("begun"), node.dir.path().join("over"));
    let script = format!(": > {begun:?}; while ! [ -e {over:?} ]; do sleep 0.05; done; exit 7");
    let first = node.release(&script).spawn().unwrap();
    wait::until_true("the command runs", LONG, || begun.exists()).unwrap();
    let last = node.dir.path().join("last");
    let script = format!("while ! [ -e {last:?} ]; do sleep 0.05; done; [ -e {over:?} ] && exit 8");
    let mut second = node.release(&script).spawn().unwrap();
    until_it_waits(&mut second);
    fs::write(&over, "").unwrap();

    let first = first.wait_with_output().unwrap();
    let (_, err) = text(&first);
    assert_eq!(first.status.code(), Some(7), "{err}");
    assert!(err.contains("release ended: nvidia is now released to "), "{err}");
    fs::write(&last, "").unwrap();
    let second = second.wait_with_output().unwrap();
    let (_, err) = text(&second);
    assert_eq!(second.status.code(), Some(8), "{err}");
    assert!(
        err.contains("release ended: nvidia: ") && err.contains(", 8 respond"),
        "{err}"
    );
    let seen = node.until("the GPUs are up again", &|page| gpus_up(page) == 8);
    assert_eq!(starts(&seen, "nvidia"), Some(2.0));
}

#[test]
fn a_release_that_waits_outlives_a_restart_of_the_daemon() {
    let mut node = Node::start();
    let (begun, over) = (node.dir.path().join("begun"), node.dir.path().join("over"));
    let script = format!(": > {begun:?}; while ! [ -e {over:?} ]; do sleep 0.05; done; exit 7");
    let first = node.release(&script).spawn().unwrap();
    wait::until_true("the command runs", LONG, || begun.exists()).unwrap();
    let mut second = node.release("exit 8").spawn().unwrap();
    until_it_waits(&mut second);
    node.kill_daemon();
    let second = second.wait_with_output().unwrap();
    assert_eq!(second.status.code(), Some(8), "{}", text(&second).1);
    fs::write(&over, "").unwrap();
    assert_eq!(first.wait_with_output().unwrap().status.code(), Some(7));
}

/// It would wait for itself.
#[test]
fn a_release_in_the_command_of_a_release_runs_its_command_at_once() {
    let node = Node::start();
    let inner = format!(
        "{:?} release nvidia --run-dir {:?} -- sh -c 'exit 9'",
        env!("CARGO_BIN_EXE_nodewarden"),
        node.dir.path().join("run")
    );
    let outer = node.release(&inner).output().unwrap();
    let (_, err) = text(&outer);
    assert_eq!(outer.status.code(), Some(9), "{err}");
    assert_eq!(err.matches("nvidia is released").count(), 1, "{err}");
}

#[test]
fn a_command_runs_without_a_daemon_whose_driver_it_could_have_open() {
    let mut node = Node::start();
    let run = node.dir.path().join("run");
    // As after a crash: no process listens on the socket.
    let socket = run.join("control.sock");
    let daemon = node.daemon.take();
    drop(daemon);
    drop(UnixListener::bind(&socket));
    let alone = node.release("echo it ran; exit 7").output().unwrap();
    let (out, err) = text(&alone);
    assert_eq!(
        (alone.status.code(), out.as_str()),
        (Some(7), "it ran\n"),
        "{err}"
    );
    assert!(
        err.contains("the daemon is not running") && err.contains("running the command"),
        "{err}"
    );

    // Another folder that was named may be that of a daemon that runs.
    fs::remove_file(&socket).unwrap();
    let elsewhere = node.release("echo it ran").output().unwrap();
    let (out, err) = text(&elsewhere);
    assert_eq!((elsewhere.status.code(), out.as_str()), (Some(125), ""), "{err}");
    assert!(err.contains("no such socket"), "{err}");
}

#[test]
fn a_driver_is_taken_back_when_its_command_ends_or_the_time_is_over() {
    let node = Node::start();
    // `release` killed: its command continues undisturbed until it ends.
    let (begun, seen) = (node.dir.path().join("begun"), node.dir.path().join("seen"));
    let script = format!(": > {begun:?}; while ! [ -e {seen:?} ]; do sleep 0.05; done");
    let mut killed = node.release(&script).spawn().unwrap();
    wait::until_true("the command runs", LONG, || begun.exists()).unwrap();
    killed.kill().unwrap();
    killed.wait().unwrap();
    let mut second = node.release("echo it ran").spawn().unwrap();
    until_it_waits(&mut second);
    second.kill().unwrap();
    assert!(text(&second.wait_with_output().unwrap()).0.is_empty());
    fs::write(&seen, "").unwrap();
    node.until("all GPUs are up again", &|page| gpus_up(page) == 8);
    fs::remove_file(&seen).unwrap();

    let late = node.release_within("1s", &script).spawn().unwrap();
    node.until("its time is over, and the GPUs are read", &|page| {
        gpus_up(page) == 8 && starts(page, "nvidia").is_some_and(|n| n >= 3.0)
    });
    fs::write(&seen, "").unwrap();
    let late = late.wait_with_output().unwrap();
    let (_, err) = text(&late);
    assert_eq!(late.status.code(), Some(0), "{err}");
    assert!(err.contains("while the command still runs"), "{err}");
    assert!(err.contains("ended before"), "{err}");
}

#[test]
fn a_gpu_that_is_lost_before_a_restart_of_the_daemon_keeps_its_name() {
    let mut node = Node::start();
    node.add_pci("0000:c3:00.0");
    let [before, after] = node.lose_between_daemons(|driver| driver.lose(5).unwrap());
    assert_eq!(called(&after), called(&before));
}

#[test]
fn a_gpu_that_left_the_bus_is_forgotten_at_the_next_start() {
    let mut node = Node::start();
    let [before, after] = node.lose_between_daemons(|driver| driver.remove(5).unwrap());
    assert_eq!(called(&after).len() + 1, called(&before).len());
}

#[test]
fn a_worker_that_never_ends_fails_the_release_and_not_the_other_gpus() {
    let node = Node::start();
    node.driver
        .break_call(3, "nvmlDeviceGetTemperatureV", Fault::Blocks)
        .unwrap();
    node.until("one GPU is late", &|page| gpus_up(page) == 7);
    // The daemon would wait for two minutes; here the requester gives up first.
    let mut asked = node.release("echo it ran").spawn().unwrap();
    node.until("no worker runs", &|page| gpus_up(page) == 0);
    asked.kill().unwrap();
    asked.wait().unwrap();
    let seen = node.until("another worker reads the rest", &|page| gpus_up(page) == 7);
    assert_eq!(starts(&seen, "nvidia"), Some(2.0));
    let stuck = |page: &[Sample]| value(page, "nodewarden_worker_stuck_slots", ("worker", "nvidia"));
    assert_eq!(stuck(&seen), Some(0.0), "it may still end");
    let warning = "earlier processes have not ended";
    assert!(!node.daemon().stderr().contains(warning));
    node.until("it counts as stuck", &|page| stuck(page) == Some(1.0));
    assert!(node.daemon().stderr().contains(warning));
    assert!(
        node.status()
            .contains("earlier processes that do not end: 1 of 2")
    );
    // The slot is free as soon as the process has ended, and the second worker runs on.
    node.driver.lift().unwrap();
    let seen = node.until("no slot is held", &|page| stuck(page) == Some(0.0));
    assert_eq!(starts(&seen, "nvidia"), Some(2.0));
}

/// A worker that waits for events of the driver ends within 5 s.
#[test]
fn a_worker_that_ends_in_time_after_a_kill_of_the_daemon_is_not_reported_as_stuck() {
    let mut node = Node::start();
    node.kill_daemon();
    let seen = node.until("the GPUs are up again", &|page| gpus_up(page) == 8);
    let stuck = |page: &[Sample]| value(page, "nodewarden_worker_stuck_slots", ("worker", "nvidia"));
    assert_eq!(stuck(&seen), Some(0.0));
    std::thread::sleep(Duration::from_secs(15));
    let seen = node.until("a page", &|_| true);
    assert_eq!((stuck(&seen), gpus_up(&seen)), (Some(0.0), 8));
    let log = node.daemon().stderr();
    assert!(!log.contains("have not ended"), "{log}");
}

/// The handle of a GPU, and all later calls, are blocked as in a driver that waits for one GPU.
#[test]
fn a_blocked_gpu_costs_only_itself_after_a_kill_of_the_daemon() {
    for fault in [Fault::Blocks, Fault::Spins] {
        let mut node = Node::start();
        let all = Rule {
            gpu: Some(3),
            call: None,
            field: None,
            fault: fault.clone(),
        };
        node.driver.inject(all).unwrap();
        node.until("one GPU is late", &|page| gpus_up(page) == 7 && is_late(page));
        node.kill_daemon();
        let seen = node.until("the others are up again", &|page| {
            gpus_up(page) == 7 && is_late(page)
        });
        let up = value(&seen, "nodewarden_collector_up", ("collector", "nvidia"));
        assert_ne!(up, Some(1.0), "{fault:?}");
        let evidence = node.status();
        assert!(evidence.contains("late"), "{evidence}");
        node.driver.lift().unwrap();
        node.until("it answers again", &|page| gpus_up(page) == 8);
    }
}

#[test]
fn a_call_that_never_returns_affects_only_its_gpu_over_a_thousand_scrapes() {
    let node = Node::start();
    node.driver
        .break_call(3, "nvmlDeviceGetTemperatureV", Fault::Blocks)
        .unwrap();
    let late = "nodewarden_device_late_seconds";
    node.until("one GPU is late", &|page| {
        gpus_up(page) == 7 && page.iter().any(|s| s.name == late)
    });
    let worker = node
        .daemon()
        .wait_for_child(&["nodewarden", "nvidia"], LONG)
        .unwrap();
    let threads = || fs::read_dir(format!("/proc/{worker}/task")).unwrap().count();
    let before = threads();
    for _ in 0..1000 {
        let page = http::get(&node.address, "/metrics?collect[]=nvidia", &[], LONG).unwrap();
        let up = page
            .text()
            .unwrap()
            .lines()
            .filter(|l| l.starts_with("gpu_up{") && l.ends_with(" 1"))
            .count();
        assert_eq!(up, 7);
    }
    // Of a thread left over by each scrape there would be hundreds.
    assert!(threads() <= before + 20, "{} threads, {before} before", threads());
    let settled = wait::until_true("no thread is left over", LONG, || threads() <= before);
    assert!(settled.is_ok(), "{} threads, {before} before", threads());
    node.driver.lift().unwrap();
    let seen = node.until("it answers again", &|page| gpus_up(page) == 8);
    assert_eq!(starts(&seen, "nvidia"), Some(1.0));
}

#[test]
fn a_gpu_whose_calls_all_fail_is_not_up_and_the_collector_has_not_read_everything() {
    let node = Node::start();
    let fails = Rule {
        gpu: Some(3),
        call: None,
        field: None,
        fault: Fault::Code(999),
    };
    node.driver.inject(fails).unwrap();
    let collector = ("collector", "nvidia");
    let seen = node.until("the collector is not up", &|page| {
        value(page, "nodewarden_collector_up", collector) == Some(0.0)
    });
    let down = |s: &&Sample| s.name == "nodewarden_device_up" && s.value == 0.0;
    assert_eq!((gpus_up(&seen), seen.iter().filter(down).count()), (7, 1));
    node.driver.lift().unwrap();
    node.until("the collector is up", &|page| {
        value(page, "nodewarden_collector_up", collector) == Some(1.0)
    });
    // A lost GPU was read: its driver reports the loss.
    node.driver.lose(3).unwrap();
    let seen = node.until("it is lost", &|page| gpus_up(page) == 7);
    assert_eq!(value(&seen, "nodewarden_collector_up", collector), Some(1.0));
}

/// As after an unattended upgrade: the packages are new, the loaded module is not.
#[test]
fn a_driver_whose_library_cannot_be_initialised_is_found_and_a_release_is_no_fault() {
    let node = Node::start();
    node.driver.refuse_init(18).unwrap();
    // The second release begins while the driver cannot be initialised.
    for _ in 0..2 {
        let begun = Instant::now();
        let released = node.release("echo it ran; exit 3").output().unwrap();
        let (out, err) = text(&released);
        assert_eq!(
            (released.status.code(), out.as_str()),
            (Some(3), "it ran\n"),
            "{err}"
        );
        assert!(err.contains("release ended: nvidia failed: "), "{err}");
        // Its time-out for a driver that does not answer is 60 s.
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    }
    node.until("the collector has failed", &|page| {
        value(page, "nodewarden_collector_up", ("collector", "nvidia")) == Some(0.0)
    });
    let seen = node.until("a page", &|_| true);
    let failed = |s: &&Sample| {
        s.name == "nodewarden_collector_state_info" && s.label("reason") == Some("version_mismatch")
    };
    assert!(seen.iter().find(failed).is_some());
    node.driver.lift().unwrap();
    node.until("the GPUs are up again", &|page| gpus_up(page) == 8);
}

#[test]
fn a_release_ends_at_once_where_the_driver_is_not_on_this_node() {
    let node = Node::without_driver();
    let run = |script: &str| {
        let begun = Instant::now();
        let (code, err) = {
            let output = node.release(script).output().unwrap();
            (output.status.code(), text(&output).1)
        };
        assert_eq!(code, Some(7), "{err}");
        assert!(err.contains("release ended: nvidia: not on this node"), "{err}");
        // The time-out for a worker that does not start is 60 s.
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    };
    run("exit 7");
    // A command that unloads the driver.
    let module = node.dir.path().join("root/sys/module/nvidia");
    fs::create_dir_all(&module).unwrap();
    node.until("the worker has started", &|page| {
        starts(page, "nvidia") == Some(1.0)
    });
    run(&format!("rmdir {module:?}; exit 7"));
}

/// `nodewarden metrics` with the stand-in, while it is as that says.
fn metrics(node: &Node) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nodewarden"));
    command.args(["metrics", "--only", "nvidia", "--set"]);
    command.arg(format!("nvidia.library={:?}", node.driver.library()));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn the_one_shot_command_ends_without_the_gpu_that_does_not_answer() {
    let node = Node::start();
    let output = metrics(&node).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output).1);
    assert_eq!(gpus_up(&exposition::check(&text(&output).0).unwrap()), 8);
    for fault in [Fault::Blocks, Fault::Spins] {
        node.driver
            .break_call(3, "nvmlDeviceGetTemperatureV", fault)
            .unwrap();
        let output = metrics(&node).output().unwrap();
        let (out, err) = text(&output);
        assert_eq!(output.status.code(), Some(3), "{err}");
        assert_eq!(gpus_up(&exposition::check(&out).unwrap()), 7);
        assert!(
            err.contains("no answer from nvidia: gpu GPU-") && err.contains(", state "),
            "{err}"
        );
        node.driver.lift().unwrap();
    }
}

#[test]
fn a_signal_ends_the_one_shot_command_while_the_driver_does_not_answer() {
    use nix::sys::signal::{Signal, kill};
    let node = Node::start();
    node.driver.break_everywhere("nvmlInit", Fault::Blocks).unwrap();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let before = node.driver.calls();
        let command = metrics(&node).spawn().unwrap();
        wait::until_true("it is inside the driver", LONG, || {
            node.driver.calls().since(&before).of("nvmlInit_v2") > 0
        })
        .unwrap();
        kill(
            nix::unistd::Pid::from_raw(i32::try_from(command.id()).unwrap()),
            signal,
        )
        .unwrap();
        // The pipes end with the command, not with the process that it leaves behind.
        let output = command.wait_with_output().unwrap();
        let (out, err) = text(&output);
        assert_eq!((output.status.code(), out.as_str()), (Some(130), ""), "{err}");
        assert!(err.contains("no answer from nvidia"), "{err}");
    }
    node.driver.lift().unwrap();
}

/// Fifteen scrapes, one after the other, and on how many of them that holds.
fn of_fifteen(node: &Node, holds: impl Fn(&[Sample]) -> bool) -> usize {
    let scrapes = (0..15).map(|_| node.until("a page", &|_| true));
    scrapes.filter(|page| holds(page)).count()
}

#[test]
fn a_gpu_whose_calls_take_30_ms_is_on_every_page_with_its_age_and_is_up() {
    let node = Node::start();
    let gpu = node.slow_down(3);
    let gpu = gpu.as_str();
    let shown = of_fifteen(&node, |page| {
        gpus_up(page) == 8
            && value(page, "nodewarden_device_up", ("subject", gpu)) == Some(1.0)
            && value(page, "nodewarden_device_age_seconds", ("subject", gpu)).is_some()
    });
    assert_eq!(shown, 15);
    node.driver.lift().unwrap();
    node.until("it is quick again", &|page| !is_late(page));
}

#[test]
fn a_fault_of_a_gpu_whose_calls_take_30_ms_is_found() {
    let (healthy, faulty) = ("uncorrected = 0\npending = 0", "uncorrected = 0\npending = 1");
    let node = Node::with(|scenario| {
        assert!(scenario.contains(healthy));
        scenario.replace(healthy, faulty)
    });
    let gpu = node.slow_down(3);
    node.until("its finding", &|page| {
        page.iter().any(|s| {
            s.name == "nodewarden_incident_info"
                && s.label("check") == Some("gpu-row-remap")
                && s.label("subject") == Some(&gpu)
        })
    });
}
