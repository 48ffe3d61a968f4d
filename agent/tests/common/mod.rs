//! A node for tests: a tree of files in place of /sys, a stand-in for /dev/kmsg, and the daemon under test.

#![allow(dead_code, reason = "each test program uses its part")]

pub mod pki;

use std::fs;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;
use testkit::daemon::Daemon;
use testkit::exposition::Sample;
use testkit::kmsg::Kmsg;
use testkit::tree;

/// Time limit of every wait, long enough for a busy machine. A test that reaches it has failed.
pub const LONG: Duration = Duration::from_secs(60);

/// Whether `cargo xtask e2e --full` runs: tests may then take minutes, and limits of time count.
pub fn is_full() -> bool {
    std::env::var_os("NODEWARDEN_LIMITS").is_some()
}

/// Facility kernel, level error, as in messages of NVIDIA's driver.
pub const KERN_ERR: u32 = 3;

/// The GPUs of `fixtures/host/h100`, in bus order.
pub const GPUS: [&str; 8] = [
    "0000:18:00.0",
    "0000:2a:00.0",
    "0000:3a:00.0",
    "0000:5d:00.0",
    "0000:9a:00.0",
    "0000:ab:00.0",
    "0000:ba:00.0",
    "0000:db:00.0",
];

/// The program under test.
pub fn program() -> &'static str {
    env!("CARGO_BIN_EXE_nodewarden")
}

/// A node.
pub struct Node {
    pub dir: TempDir,
    pub kmsg: Kmsg,
    pub daemon: Option<Daemon>,
    /// Further arguments of `run`.
    pub args: Vec<String>,
    /// The boot id that the daemon reads, if not the running kernel's.
    pub boot_id: Option<String>,
    /// A recording in place of the tree and the kernel log.
    pub recorded: Option<PathBuf>,
    /// Further environment of `run`.
    pub env: Vec<(String, String)>,
    /// Commands of a shell that becomes the parent.
    pub shell: Option<String>,
    /// A socket that the daemon inherits, as with systemd's socket activation.
    pub socket: Option<TcpListener>,
    /// The user who starts the daemon, if not root. This user then owns the node's folder.
    pub user: Option<u32>,
    /// The folder of run and state directory, if they are not directly in the node's.
    pub below: String,
}

impl Node {
    /// A node with 8 GPUs and EDAC, its kernel log empty, nothing running.
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("nw-").tempdir().unwrap();
        open_to_all(dir.path());
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/host/h100");
        tree::unpack(&fixture, dir.path()).unwrap();
        // Without its own boot id, the tree has the running kernel's.
        fs::remove_dir_all(dir.path().join("root/proc/sys")).unwrap();
        let mount = dir.path().join("dev");
        fs::create_dir(&mount).unwrap();
        let kmsg = Kmsg::mount(&mount).unwrap();
        Self {
            dir,
            kmsg,
            daemon: None,
            args: Vec::new(),
            boot_id: None,
            recorded: None,
            env: Vec::new(),
            shell: None,
            socket: None,
            user: None,
            below: String::new(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The folders that show the parent that a worker's source is there, so that all workers and helpers run.
    pub fn add_every_source(&self) {
        let only_with = collectors::DOMAINS.iter().filter_map(|d| d.only_with.first());
        let dir = self.recorded.as_deref().unwrap_or(self.dir.path());
        for folder in only_with {
            let below = folder.trim_start_matches('/');
            fs::create_dir_all(dir.join("root").join(below)).unwrap();
        }
        // A local drive, for the helper `nvme`.
        let drive = dir.join("root/sys/class/nvme/nvme0");
        fs::create_dir_all(&drive).unwrap();
        fs::write(drive.join("transport"), "pcie\n").unwrap();
        fs::write(drive.join("address"), "0000:01:00.0\n").unwrap();
    }

    pub fn run_dir(&self) -> PathBuf {
        self.path(&self.below).join("run")
    }

    pub fn state_dir(&self) -> PathBuf {
        self.path(&self.below).join("state")
    }

    pub fn set(&mut self, setting: &str) -> &mut Self {
        self.args.extend(["--set".to_owned(), setting.to_owned()]);
        self
    }

    pub fn arg(&mut self, args: &[&str]) -> &mut Self {
        self.args.extend(args.iter().map(|a| (*a).to_owned()));
        self
    }

    fn command(&self) -> Command {
        let mut command = Command::new(program());
        command.arg("run");
        match &self.recorded {
            Some(recording) => command.arg("--recorded").arg(recording),
            None => command.arg("--sysroot").arg(self.path("root")),
        };
        if !self.args.iter().any(|a| a == "--run-dir") {
            command.arg("--run-dir").arg(self.run_dir());
        }
        command.arg("--state-dir").arg(self.state_dir());
        command
            .arg("--set")
            .arg(format!("kernel_log.path={:?}", self.kmsg.path()));
        // The machine that runs the tests may have its own configuration.
        if !self.args.iter().any(|a| a == "--config") {
            let empty = self.path("empty.toml");
            fs::write(&empty, "").unwrap();
            command.arg("--config").arg(empty);
        }
        if !self.args.iter().any(|a| a == "--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        if let Some(boot_id) = &self.boot_id {
            command.arg("--test-boot-id").arg(boot_id);
        }
        command.args(&self.args);
        command
    }

    /// Starts the daemon without waiting for anything.
    pub fn spawn(&mut self) -> &mut Self {
        let mut command = self.command();
        if let Some(socket) = &self.socket {
            command = with_socket(&command, socket);
        }
        if let Some(script) = &self.shell {
            let mut shell = Command::new("bash");
            shell.arg("-c").arg(format!("{script}\nexec \"$0\" \"$@\""));
            shell.arg(command.get_program()).args(command.get_args());
            command = shell;
        }
        command.envs(self.env.iter().map(|(k, v)| (k, v)));
        if let Some(uid) = self.user {
            std::os::unix::fs::chown(self.dir.path(), Some(uid), Some(uid)).unwrap();
            command.uid(uid).gid(uid);
        }
        self.daemon = Some(Daemon::start(command).unwrap());
        if let Some(socket) = &self.socket {
            fcntl(socket, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
        }
        self
    }

    /// Starts the daemon and waits until it serves and its kernel log watcher runs.
    pub fn start(&mut self) -> &mut Self {
        self.spawn();
        self.wait_ready();
        self
    }

    pub fn wait_ready(&self) {
        self.until("collectors are up", |node| {
            let samples = node.try_metrics().unwrap_or_default();
            ["kernel_log", "host"]
                .iter()
                .all(|c| value(&samples, "nodewarden_collector_up", &[("collector", c)]) == Some(1.0))
        });
    }

    pub fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().expect("the daemon was started")
    }

    /// The pid of the unprivileged daemon (the parent's child).
    pub fn core_pid(&self) -> u32 {
        self.child(&["nodewarden", "daemon"])
    }

    /// The pid of a worker.
    pub fn worker_pid(&self, domain: &str) -> u32 {
        self.child(&["nodewarden", "worker", domain])
    }

    /// The pid of a helper.
    pub fn helper_pid(&self, name: &str) -> u32 {
        self.child(&["nodewarden", "helper", name])
    }

    fn child(&self, args: &[&str]) -> u32 {
        self.daemon().wait_for_child(args, LONG).unwrap()
    }

    /// Ends the daemon as systemd does.
    pub fn stop(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.signal(Signal::SIGTERM).unwrap();
            daemon.wait(LONG).unwrap();
        }
    }

    /// Kills the parent with SIGKILL; the other processes then end too.
    pub fn kill9(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.kill9().unwrap();
            testkit::wait::until_true("all processes have ended", LONG, || daemon.children().is_empty())
                .unwrap();
        }
    }

    /// A reboot as the daemon sees it: all processes end, the kernel log is empty, and the boot id is new.
    pub fn reboot(&mut self, boot_id: &str) {
        self.kill9();
        let mount = self.path(&format!("dev-{boot_id}"));
        fs::create_dir(&mount).unwrap();
        self.kmsg = Kmsg::mount(&mount).unwrap();
        self.boot_id = Some(boot_id.to_owned());
    }

    /// Kills the parent only; a stuck worker stays.
    pub fn kill9_parent(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.kill9().unwrap();
        }
    }

    /// The address that the daemon printed.
    pub fn address(&self) -> Option<String> {
        let stdout = self.daemon.as_ref()?.stdout();
        let mut lines = stdout.lines().rev();
        let (_, address) = lines.find_map(|l| l.strip_prefix("listening on http")?.split_once("://"))?;
        Some(address.to_owned())
    }

    pub fn try_get(&self, path: &str) -> Option<testkit::http::Response> {
        let address = self.address()?;
        testkit::http::get(&address, path, &[], LONG).ok()
    }

    pub fn metrics_text(&self) -> String {
        let response = self.try_get("/metrics").expect("the daemon serves");
        assert_eq!(response.status, 200);
        response.text().unwrap().to_owned()
    }

    pub fn try_metrics(&self) -> Option<Vec<Sample>> {
        let response = self.try_get("/metrics")?;
        Some(testkit::exposition::check(response.text().unwrap()).unwrap())
    }

    pub fn metrics(&self) -> Vec<Sample> {
        testkit::exposition::check(&self.metrics_text()).unwrap()
    }

    pub fn metric(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        value(&self.try_metrics()?, name, labels)
    }

    /// Waits for a condition; the error shows the daemon's output.
    pub fn until(&self, what: &str, mut condition: impl FnMut(&Self) -> bool) {
        if let Err(error) = testkit::wait::until_true(what, LONG, || condition(self)) {
            let daemon = self.daemon.as_ref();
            panic!(
                "{error}\nstderr:\n{}\nstatus:\n{:#}",
                daemon.map(Daemon::stderr).unwrap_or_default(),
                self.try_status().unwrap_or(Value::Null)
            );
        }
    }

    /// Runs a subcommand against this node's run directory.
    pub fn cli(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(program());
        command.args(args).arg("--run-dir").arg(self.run_dir());
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    pub fn try_status(&self) -> Option<Value> {
        let (code, out, _) = self.cli(&["status", "--json"]);
        if code == Some(2) && out.trim().is_empty() {
            None
        } else {
            serde_json::from_str(&out).ok()
        }
    }

    /// The engine's view.
    pub fn view(&self) -> Value {
        let status = self.try_status().expect("status answers");
        status.get("view").cloned().unwrap_or(status)
    }

    pub fn try_view(&self) -> Value {
        self.try_status()
            .map_or(Value::Null, |s| s.get("view").cloned().unwrap_or(s))
    }

    pub fn incidents(&self) -> Vec<Value> {
        self.try_view()["incidents"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    }

    pub fn open_incidents(&self) -> Vec<Value> {
        self.incidents()
            .into_iter()
            .filter(|i| i["state"] == "open")
            .collect()
    }

    pub fn drain_state(&self) -> String {
        self.try_view()["drain"]["state"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    pub fn wait_drain_state(&self, state: &str) {
        self.until(&format!("drain state {state}"), |n| n.drain_state() == state);
    }

    /// Logs an Xid of GPU number `gpu`.
    pub fn xid(&self, gpu: usize, code: u32) -> u64 {
        self.kmsg.push(KERN_ERR, &xid_line(gpu, code))
    }

    pub fn gpu_dir(&self, gpu: usize) -> PathBuf {
        self.path("root/sys/bus/pci/devices").join(GPUS[gpu])
    }

    /// Removes GPU number `gpu` from the bus.
    pub fn unplug(&self, gpu: usize) {
        fs::rename(self.gpu_dir(gpu), self.path(GPUS[gpu])).unwrap();
    }

    /// Puts the GPU back.
    pub fn plug(&self, gpu: usize) {
        fs::rename(self.path(GPUS[gpu]), self.gpu_dir(gpu)).unwrap();
    }

    /// Waits until the daemon's record contains a text.
    pub fn until_stored(&self, part: &str) {
        let record = self.state_dir().join("state.json");
        self.until("stored", |_| {
            fs::read_to_string(&record).is_ok_and(|text| text.contains(part))
        });
    }

    /// Waits until the daemon has counted an Xid.
    pub fn wait_xids(&self, gpu: usize, code: u32, count: f64) {
        let gpu = format!("pci:{}", GPUS[gpu]);
        let labels = [("gpu", gpu.as_str()), ("xid", &code.to_string())].map(|(a, b)| (a, b.to_owned()));
        let labels: Vec<(&str, &str)> = labels.iter().map(|(a, b)| (*a, b.as_str())).collect();
        self.until("Xid counted", |n| {
            n.metric("gpu_xid_errors_total", &labels) == Some(count)
        });
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(daemon) = &self.daemon
        {
            eprintln!("--- stderr of the daemon\n{}", daemon.stderr());
        }
        // Before the mount that the daemon reads.
        self.daemon = None;
    }
}

/// The command in a shell that passes the socket as systemd does: descriptor 3, with its own pid in LISTEN_PID.
fn with_socket(command: &Command, socket: &TcpListener) -> Command {
    let fd = socket.as_raw_fd();
    fcntl(socket, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    let mut shell = Command::new("bash");
    let close = if fd == 3 {
        String::new()
    } else {
        format!("exec 3<&{fd} {fd}<&-;")
    };
    shell.arg("-c").arg(format!(
        "{close} LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=metrics exec \"$0\" \"$@\""
    ));
    shell.arg(command.get_program()).args(command.get_args());
    shell
}

/// An Xid line as the driver prints it.
pub fn xid_line(gpu: usize, code: u32) -> String {
    let place = GPUS[gpu].trim_end_matches(".0");
    match code {
        79 => format!(
            "NVRM: Xid (PCI:{place}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
        ),
        _ => format!("NVRM: Xid (PCI:{place}): {code}, pid=4711, name=python3, something went wrong"),
    }
}

/// The value of the only sample with this name and these labels; it may have other labels too.
pub fn value(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    samples
        .iter()
        .find(|s| {
            s.name == name
                && labels
                    .iter()
                    .all(|(k, v)| s.labels.get(*k).is_some_and(|have| have == v))
        })
        .map(|s| s.value)
}

pub fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
