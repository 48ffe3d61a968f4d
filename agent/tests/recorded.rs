//! The demo's played node, as operators and scrapers see it, before and after it loses a GPU.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and starts the program under test"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use nix::sys::signal::Signal;
use tempfile::TempDir;
use testkit::daemon::Daemon;
use testkit::exposition::{self, Sample};
use testkit::http;
use testkit::play::Play;
use testkit::ports::Port;
use testkit::pty::Pty;
use testkit::wait;

/// The longest that a test waits for anything.
const LONG: Duration = Duration::from_secs(60);

const GPU: &str = "GPU-6f1c2f0e-7a4d-4c55-9b7e-3d1a8e52c0f4";

struct Demo {
    dir: TempDir,
    port: Port,
    play: Play,
    daemon: Option<Daemon>,
}

impl Demo {
    fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("nw-demo-").tempdir().unwrap();
        // Under root the workers are other users.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/demo");
        let play = Play::open(&case, &dir.path().join("node")).unwrap();
        let mut demo = Self {
            dir,
            port: Port::reserve().unwrap(),
            play,
            daemon: None,
        };
        demo.serve();
        demo
    }

    fn serve(&mut self) {
        let path = |name: &str| self.dir.path().join(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_nodewarden"));
        command.arg("run").arg("--recorded").arg(path("node"));
        command.arg("--listen").arg(self.address());
        command.arg("--config").arg(path("node/health.toml"));
        command.arg("--state-dir").arg(path("state"));
        command.arg("--run-dir").arg(self.run_dir());
        self.daemon = Some(Daemon::start(command).unwrap());
        self.until("collectors are up", |samples| {
            let up = |name: &str| value(samples, "nodewarden_collector_up", name) == Some(1.0);
            up("kernel_log") && up("host")
        });
    }

    fn stop(&mut self) {
        let daemon = self.daemon.take().unwrap();
        daemon.signal(Signal::SIGTERM).unwrap();
        daemon.wait(LONG).unwrap();
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port.number())
    }

    fn run_dir(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    fn at(&mut self, time: Duration) {
        self.play.advance(time).unwrap();
    }

    fn page(&self) -> Option<Vec<Sample>> {
        let page = http::get(&self.address(), "/metrics", &[], LONG).ok()?;
        Some(exposition::check(page.ok().unwrap()).unwrap())
    }

    /// The first page that a condition holds for.
    fn until(&self, what: &str, condition: impl Fn(&[Sample]) -> bool) -> Vec<Sample> {
        let found = wait::until(what, LONG, || Ok(self.page().filter(|page| condition(page))));
        found.unwrap_or_else(|e| {
            panic!(
                "{e:#}\n{}",
                self.daemon.as_ref().map(Daemon::stderr).unwrap_or_default()
            )
        })
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nodewarden"));
        command.args(args).arg("--run-dir").arg(self.run_dir());
        command
    }

    fn cli(&self, args: &[&str]) -> (Option<i32>, String) {
        let Output {
            status,
            stdout,
            stderr,
        } = self.command(args).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (status.code(), text(&stdout) + &text(&stderr))
    }
}

/// The sum of a metric's samples with this label value.
fn value(samples: &[Sample], name: &str, label: &str) -> Option<f64> {
    let mut found = samples
        .iter()
        .filter(|s| s.name == name && s.labels.values().any(|v| v == label))
        .peekable();
    found.peek()?;
    Some(found.map(|s| s.value).sum())
}

fn open_incidents(samples: &[Sample]) -> f64 {
    let open = samples.iter().find(|s| s.name == "nodewarden_incidents_open");
    open.map_or(0.0, |s| s.value)
}

#[test]
fn a_node_lives_loses_a_gpu_and_lives_on() {
    let mut demo = Demo::start();
    let first = demo.until("a healthy node", |page| {
        value(page, "nodewarden_verdict", "healthy") == Some(1.0)
    });
    exposition::core_series(&first).unwrap();
    assert!(open_incidents(&first) < 1.0);
    assert_eq!(value(&first, "host_pci_gpus", "nvidia"), Some(8.0));
    let ecc = |page: &[Sample]| value(page, "host_edac_corrected_errors_total", "mc1").unwrap_or(-1.0);

    // Between two steps.
    demo.at(Duration::from_secs(4));
    let moved = demo.until("a counter has moved", |page| ecc(page) > ecc(&first));
    for (name, fs) in [
        ("lustre_client_read_bytes_total", "scratch"),
        ("gpfs_read_bytes_total", "home"),
    ] {
        let before = value(&first, name, fs).unwrap_or(0.0);
        demo.until("a filesystem is read", |page| {
            value(page, name, fs) > Some(before)
        });
    }
    assert!(open_incidents(&moved) < 1.0);
    wait::until_true("the verdict is healthy", LONG, || {
        demo.cli(&["check"]).0 == Some(0)
    })
    .unwrap();

    demo.at(demo.play.length());
    let broken = demo.until("an incident", |page| {
        open_incidents(page) > 0.0 && value(page, "gpu_xid_errors_total", "154").is_some()
    });
    let xids = |code: &str| {
        let ours = |s: &&Sample| {
            s.name == "gpu_xid_errors_total"
                && s.labels.get("gpu").is_some_and(|g| g == GPU)
                && s.labels.get("xid").is_some_and(|x| x == code)
        };
        broken.iter().find(ours).map(|s| s.value)
    };
    assert_eq!((xids("79"), xids("154")), (Some(1.0), Some(1.0)));
    exposition::core_series(&broken).unwrap();

    // Long after the last step.
    demo.at(demo.play.length() + Duration::from_secs(60));
    demo.until("counters go on", |page| ecc(page) > ecc(&broken) + 20.0);

    let (code, text) = demo.cli(&["check"]);
    assert_eq!(code, Some(1), "{text}");
    let (code, text) = demo.cli(&["status"]);
    assert_eq!(code, Some(0));
    assert!(text.contains("would drain") && text.contains(GPU), "{text}");
    assert!(!text.contains('\x1b'), "colour into a pipe: {text:?}");
    assert!(demo.cli(&["status", "--color=always"]).1.contains("\x1b[1;31m"));
    let (code, text) = demo.cli(&["why", GPU]);
    assert_eq!(code, Some(0), "{text}");
    for part in [
        "79, pid='<unknown>'",
        "mode observe",
        "scontrol reboot",
        "--run-dir",
        "history",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let (code, text) = demo.cli(&["why", "GPU-of-no-node"]);
    assert_eq!(code, Some(1), "{text}");
}

#[test]
fn a_watched_status_is_drawn_in_place_outlives_the_daemon_and_ends_with_ctrl_c() {
    let mut demo = Demo::start();
    let mut command = demo.command(&["status", "--watch=1"]);
    command.env("TERM", "xterm").env_remove("NO_COLOR");
    let mut pty = Pty::run(command, 80, 60).unwrap();
    let begun = pty.wait_for("\x1b[32mhealthy", 0, LONG).unwrap();
    assert!(
        pty.seen().starts_with("\x1b[?1049h\x1b[?25l\x1b[H"),
        "{:?}",
        pty.seen()
    );
    let again = pty.wait_for("\x1b[H", begun, LONG).unwrap();

    demo.stop();
    let gone = pty.wait_for("waiting for the daemon", again, LONG).unwrap();
    demo.serve();
    pty.wait_for("kernel_log", gone, LONG).unwrap();

    pty.types("\x03").unwrap();
    assert_eq!(pty.wait(LONG).unwrap().code(), Some(0), "{}", pty.seen());
    let seen = pty.seen();
    assert!(
        seen.ends_with("\x1b[?25h\x1b[?1049l"),
        "the terminal is put back: {seen:?}"
    );
    assert!(!seen.contains("\x1b[2J"), "clearing the whole screen flickers");
    // Lines of 80 columns, without escape sequences.
    for line in seen.split("\x1b[H").flat_map(|page| page.split("\r\n")) {
        let mut plain = line.to_owned();
        while let Some((before, rest)) = plain.split_once('\x1b') {
            let end = rest
                .find(|c: char| c.is_ascii_alphabetic())
                .map_or("", |at| &rest[at + 1..]);
            plain = format!("{before}{end}");
        }
        // The terminal's own line discipline adds a carriage return.
        assert!(plain.trim_end_matches('\r').chars().count() <= 80, "{plain:?}");
    }
}

#[test]
fn a_watched_status_in_a_pipe_is_plain_blocks_and_a_dumb_terminal_gets_the_same() {
    let demo = Demo::start();
    let mut dumb = demo.command(&["status", "--watch=1"]);
    dumb.env("TERM", "dumb");
    let mut pty = Pty::run(dumb, 80, 24).unwrap();
    let first = pty.wait_for("--- ", 0, LONG).unwrap();
    pty.wait_for("--- ", first, LONG).unwrap();
    pty.types("\x03").unwrap();
    assert_eq!(pty.wait(LONG).unwrap().code(), Some(0));
    assert!(!pty.seen().contains('\x1b'), "{:?}", pty.seen());

    let daemon = Daemon::start(demo.command(&["status", "--watch=1"])).unwrap();
    wait::until_true("two blocks", LONG, || {
        daemon.stdout().matches("--- ").count() >= 2
    })
    .unwrap();
    assert!(!daemon.stdout().contains('\x1b'));
    daemon.signal(Signal::SIGINT).unwrap();
    assert_eq!(daemon.wait(LONG).unwrap().code(), Some(0));
}

/// What a site excludes is excluded for a person too.
#[test]
fn a_reading_without_the_daemon_heeds_the_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/rdma/h100-ndr/root.tree");
    testkit::tree::lay(&case, dir.path()).unwrap();
    let config = dir.path().join("nodewarden.toml");
    fs::write(&config, "[rdma]\nexclude = [\"mlx5_0\"]\n").unwrap();
    let metrics = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nodewarden"));
        command
            .args(["metrics", "--only", "rdma", "--sysroot"])
            .arg(dir.path());
        let output = command.args(more).output().unwrap();
        (
            output.status.success(),
            String::from_utf8(output.stdout).unwrap(),
            output.stderr,
        )
    };
    let shows = |page: &str, device: &str| page.contains(&format!("device=\"{device}\""));
    let (_, all, _) = metrics(&[]);
    assert!(shows(&all, "mlx5_0"), "{all}");
    let (_, page, _) = metrics(&["--config", config.to_str().unwrap()]);
    assert!(
        !shows(&page, "mlx5_0") && page.contains("rdma_port_state"),
        "{page}"
    );
    let (_, page, _) = metrics(&["--set", "rdma.exclude=[\"mlx5_0\"]"]);
    assert!(!shows(&page, "mlx5_0"), "{page}");
    let (good, _, error) = metrics(&["--set", "rdma.exlude=[]"]);
    assert!(
        !good && String::from_utf8_lossy(&error).contains("rdma.exlude"),
        "{error:?}"
    );
}
