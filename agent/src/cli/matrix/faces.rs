//! The sources, and what each of their faces does to the node.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use collectors::sys::boot;
use collectors::sys::task::Task;
use testkit::nvml::{FakeNvml, Fault, Rule, code};

use super::node::{Node, folder};
use crate::worker::monitor::WATCHER;

/// One source.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) cells: &'static [Cell],
}

/// One face of a source.
pub(super) struct Cell {
    pub(super) face: &'static str,
    pub(super) what: &'static str,
    pub(super) node: fn() -> Node,
    pub(super) strike: fn(&mut Node),
    pub(super) lift: fn(&mut Node),
    /// Its incident ends by a reboot or a person, not by the source being back.
    pub(super) stays: bool,
}

pub(super) static ROWS: &[Row] = &[
    Row {
        name: "GPU",
        cells: GPU,
    },
    Row {
        name: "RDMA port",
        cells: PORT,
    },
    Row {
        name: "kernel log",
        cells: LOG,
    },
    Row {
        name: "Slurm",
        cells: SLURM,
    },
];

/// The kernel shows no more of a thread than this.
fn thread(state: char, wchan: &str, call: &str) -> Option<Task> {
    Some(Task {
        tid: 7,
        name: "r:test".to_owned(),
        state,
        wchan: wchan.to_owned(),
        call: call.to_owned(),
    })
}

thread_local! {
    /// The driver of the node of this thread.
    static DRIVER: RefCell<Option<FakeNvml>> = const { RefCell::new(None) };
}

fn driver(change: impl FnOnce(&FakeNvml)) {
    DRIVER.with_borrow(|driver| change(driver.as_ref().unwrap()));
}

const GPU_3: &str = "root/sys/bus/pci/devices/0000:5d:00.0";

fn gpus() -> Node {
    let dir = folder(&["host/h100"]);
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/nvidia/h100/nvml.toml");
    let mut scenario = fs::read_to_string(scenario).unwrap();
    // The addresses of the GPUs on that node's bus.
    for (driver, bus) in [
        ("1B", "18"),
        ("43", "2A"),
        ("52", "3A"),
        ("61", "5D"),
        ("9D", "9A"),
        ("C3", "AB"),
        ("D1", "BA"),
        ("DF", "DB"),
    ] {
        scenario = scenario.replace(
            &format!("pci.bus_id = \"00000000:{driver}:00.0\""),
            &format!("pci.bus_id = \"00000000:{bus}:00.0\""),
        );
    }
    let fake = FakeNvml::install_text(dir.path(), &scenario).unwrap();
    let library = format!("nvidia.library={:?}", fake.library());
    DRIVER.set(Some(fake));
    Node::start(dir, &["kernel", "host", "nvidia"], &[library], false)
}

/// A call about one GPU does not return, and the thread sleeps like this.
fn gpu_blocks(node: &mut Node, task: Option<Task>) {
    node.late = Some(node.device("nvidia", 3));
    node.task = task;
    driver(|d| {
        d.break_call(3, "nvmlDeviceGetTemperatureV", Fault::Blocks)
            .unwrap()
    });
}

fn gpu_lifts(node: &mut Node) {
    driver(|d| d.lift().unwrap());
    (node.late, node.task) = (None, None);
    node.settle();
}

fn gpu_fails(call: &str) {
    driver(|d| d.break_call(3, call, Fault::Code(code::UNKNOWN)).unwrap());
}

static GPU: &[Cell] = &[
    Cell {
        face: "slow",
        what: "A call about GPU 3 runs longer than the slice of a reading (0.5 s)",
        node: gpus,
        strike: |node| gpu_blocks(node, thread('R', "", "")),
        lift: gpu_lifts,
        stays: false,
    },
    Cell {
        face: "half-dead",
        what: "The calls for temperature and power of GPU 3 fail",
        node: gpus,
        strike: |_| {
            for call in [
                "nvmlDeviceGetTemperatureV",
                "nvmlDeviceGetTemperature",
                "nvmlDeviceGetPowerUsage",
                "nvmlDeviceGetFieldValues",
            ] {
                gpu_fails(call);
            }
        },
        lift: gpu_lifts,
        stays: false,
    },
    Cell {
        face: "dead",
        what: "Every call about GPU 3 fails: GPU is lost",
        node: gpus,
        strike: |_| driver(|d| d.lose(3).unwrap()),
        lift: gpu_lifts,
        stays: true,
    },
    Cell {
        face: "gone",
        what: "GPU 3 is no longer on the PCI bus, and the driver does not list it",
        node: gpus,
        strike: |node| {
            driver(|d| d.lose(3).unwrap());
            driver(|d| d.remove(3).unwrap());
            fs::rename(node.path(GPU_3), node.path("gpu3")).unwrap();
        },
        lift: |node| {
            fs::rename(node.path("gpu3"), node.path(GPU_3)).unwrap();
            gpu_lifts(node);
        },
        stays: true,
    },
    Cell {
        face: "blocked in D",
        what: "A call about GPU 3 does not return, its thread in uninterruptible sleep",
        node: gpus,
        strike: |node| {
            gpu_blocks(
                node,
                thread('D', "os_acquire_rwlock_write", "ioctl /dev/nvidiactl"),
            )
        },
        lift: gpu_lifts,
        stays: true,
    },
    Cell {
        face: "blocked in S",
        what: "A call about GPU 3 does not return, its thread in interruptible sleep",
        node: gpus,
        strike: |node| gpu_blocks(node, thread('S', "futex_wait_queue", "futex")),
        lift: gpu_lifts,
        stays: false,
    },
    Cell {
        face: "refused",
        what: "Every call about GPU 3 fails: no permission",
        node: gpus,
        strike: |_| {
            driver(|d| {
                let fault = Fault::Code(code::NO_PERMISSION);
                d.inject(Rule {
                    gpu: Some(3),
                    call: None,
                    field: None,
                    fault,
                })
                .unwrap();
            });
        },
        lift: gpu_lifts,
        stays: false,
    },
];

const PORTS: &str = "root/sys/devices/pci0000:19/0000:19:00.0/infiniband/mlx5_0/ports/1";

fn ports() -> Node {
    let dir = folder(&["host/bare", "rdma/missing"]);
    // A node without GPUs, of which slurmctld would expect 8.
    fs::remove_dir_all(dir.path().join("slurm/proc/8")).unwrap();
    Node::start(dir, &["kernel", "host", "rdma"], &[], false)
}

/// Every file of the port below this folder.
fn files(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, all)
        } else {
            all.push(path)
        }
    }
}

/// Replaces the files of port mlx5_0/1 that `takes` selects. The originals are kept beside the tree.
fn port_files(node: &Node, takes: fn(&Path) -> bool, replace: impl Fn(&Path)) {
    let (port, kept) = (node.path(PORTS), node.path("kept"));
    let mut all = Vec::new();
    files(&port, &mut all);
    for path in all.into_iter().filter(|path| takes(path)) {
        let copy = kept.join(path.strip_prefix(&port).unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        // A descriptor of the reader would outlive a rename.
        fs::copy(&path, &copy).unwrap();
        fs::remove_file(&path).unwrap();
        replace(&path);
    }
}

/// Takes the device of the port out of sysfs, or puts it back.
fn port_moves(node: &Node, is_back: bool) {
    let device = node.path(PORTS).ancestors().nth(3).unwrap().to_owned();
    for (listed, kept) in [
        (node.path("root/sys/class/infiniband/mlx5_0"), "class"),
        (device, "device"),
    ] {
        let kept = node.path(kept);
        let (from, to) = if is_back { (kept, listed) } else { (listed, kept) };
        fs::rename(from, to).unwrap();
    }
    // The collector `host` keeps what it knows of a function for 10 s of real time.
    std::thread::sleep(Duration::from_secs(11));
}

fn port_lifts(node: &mut Node) {
    let (port, kept) = (node.path(PORTS), node.path("kept"));
    let mut all = Vec::new();
    if kept.exists() {
        files(&kept, &mut all);
    }
    for copy in all {
        let path = port.join(copy.strip_prefix(&kept).unwrap());
        fs::rename(&copy, &path).unwrap();
    }
    // A file that failed is not read again for 15 s of real time.
    std::thread::sleep(Duration::from_secs(16));
    (node.late, node.task, node.reports) = (None, None, None);
}

/// Opening it fails with EACCES, for root too.
fn refuse(path: &Path) {
    symlink("/proc/sys/vm/drop_caches", path).unwrap();
}

/// A link to itself: opening it fails with ELOOP, which stands for EIO.
fn fail(path: &Path) {
    symlink(path, path).unwrap();
}

fn port_blocks(node: &mut Node, task: Option<Task>) {
    let first = node.device("rdma", 0);
    assert_eq!(first, "mlx5_0/1");
    (node.late, node.task, node.reports) = (Some(first), task, Some(("rdma", 0)));
}

const READS: &str = "read /sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error";

static PORT: &[Cell] = &[
    Cell {
        face: "slow",
        what: "A file of port mlx5_0/1 takes longer than the slice of a reading (0.5 s)",
        node: ports,
        strike: |node| port_blocks(node, thread('R', "", "")),
        lift: port_lifts,
        stays: false,
    },
    Cell {
        face: "half-dead",
        what: "Reading the counters of port mlx5_0/1 fails, its state can be read",
        node: ports,
        strike: |node| {
            port_files(
                node,
                |path| path.components().any(|c| c.as_os_str() == "counters"),
                fail,
            )
        },
        lift: port_lifts,
        stays: false,
    },
    Cell {
        face: "dead",
        what: "Reading any file of port mlx5_0/1 fails",
        node: ports,
        strike: |node| port_files(node, |_| true, fail),
        lift: port_lifts,
        stays: false,
    },
    Cell {
        face: "gone",
        what: "Its driver has no device mlx5_0 any more; the adapter is on the PCI bus",
        node: ports,
        strike: |node| port_moves(node, false),
        lift: |node| port_moves(node, true),
        stays: true,
    },
    Cell {
        face: "blocked in D",
        what: "A read of port mlx5_0/1 does not return, its thread in uninterruptible sleep",
        node: ports,
        strike: |node| port_blocks(node, thread('D', "cmd_exec", READS)),
        lift: port_lifts,
        stays: true,
    },
    Cell {
        face: "blocked in S",
        what: "A read of port mlx5_0/1 does not return, its thread in interruptible sleep",
        node: ports,
        strike: |node| port_blocks(node, thread('S', "cmd_exec", READS)),
        lift: port_lifts,
        stays: true,
    },
    Cell {
        face: "refused",
        what: "Opening any file of port mlx5_0/1 fails: permission denied",
        node: ports,
        strike: |node| port_files(node, |_| true, refuse),
        lift: port_lifts,
        stays: false,
    },
];

thread_local! {
    /// The writer of the log of this thread's node.
    static LOG_WRITER: RefCell<Option<fs::File>> = const { RefCell::new(None) };
}

fn log_opens(path: &Path) {
    nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    // Read and write: opening does not wait for the reader.
    let writer = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    LOG_WRITER.set(Some(writer));
    log_says(1, "6", "Linux version");
}

/// A record; `prefix` is its priority.
fn log_says(seq: u64, prefix: &str, text: &str) {
    let at = boot::monotonic().as_micros();
    LOG_WRITER.with_borrow_mut(|file| {
        use std::io::Write as _;
        writeln!(file.as_mut().unwrap(), "{prefix},{seq},{at},-;{text}").unwrap();
    });
}

fn log() -> Node {
    let dir = folder(&["host/h100"]);
    let path = dir.path().join("log");
    log_opens(&path);
    let set = format!("kernel_log.path={path:?}");
    Node::start(dir, &["kernel", "host"], &[set], true)
}

/// The log ends, and this stands in its place when it is opened again.
fn log_breaks(node: &mut Node, replace: impl FnOnce(&Path)) {
    let path = node.path("log");
    fs::remove_file(&path).unwrap();
    replace(&path);
    LOG_WRITER.set(None);
    node.until("the watcher has failed to open it again", |snapshot| {
        let log = snapshot.collector("kernel_log").unwrap();
        matches!(&log.watcher, Some(Err((reason, _))) if reason != "ended")
    });
}

fn log_lifts(node: &mut Node) {
    let path = node.path("log");
    if fs::symlink_metadata(&path).is_ok() {
        fs::remove_file(&path).unwrap();
    }
    log_opens(&path);
    node.until("the watcher reads it", |snapshot| {
        matches!(&snapshot.collector("kernel_log").unwrap().watcher, Some(Ok(())))
    });
}

static LOG: &[Cell] = &[
    Cell {
        face: "half-dead",
        what: "Records come with an unreadable prefix",
        node: log,
        strike: |_| (0..5).for_each(|n| log_says(10 + n, "?", "garbage")),
        lift: |_| log_says(20, "6", "a line"),
        stays: false,
    },
    Cell {
        face: "dead",
        what: "Reading it fails: input/output error",
        node: log,
        strike: |node| log_breaks(node, |path| symlink("/proc/self/mem", path).unwrap()),
        lift: log_lifts,
        stays: false,
    },
    Cell {
        face: "gone",
        what: "It does not exist any more",
        node: log,
        strike: |node| log_breaks(node, |_| {}),
        lift: log_lifts,
        stays: false,
    },
    Cell {
        face: "blocked in D",
        what: "A read of it does not return, its thread in uninterruptible sleep. In interruptible sleep it only waits for a record",
        node: log,
        strike: |node| {
            node.task = thread('D', "devkmsg_read", "read /dev/kmsg");
            node.reports = Some(("kernel_log", WATCHER));
        },
        lift: |node| {
            (node.task, node.reports) = (None, None);
            node.moves_on("kernel_log");
        },
        stays: false,
    },
    Cell {
        face: "refused",
        what: "Opening it fails: permission denied",
        node: log,
        strike: |node| log_breaks(node, refuse),
        lift: log_lifts,
        stays: false,
    },
];

/// Every later call of scontrol begins with this shell, and a GPU is lost.
fn slurm_has(node: &mut Node, shell: &str) {
    for call in 0..300 {
        fs::write(node.path(&format!("slurm/hook.{call}")), shell).unwrap();
    }
    log_says(
        100,
        "3",
        "NVRM: Xid (PCI:0000:5d:00): 79, pid=7, name=python3, GPU has fallen off the bus.",
    );
    node.until("the line was read", |snapshot| {
        snapshot.collector("kernel_log").is_some()
    });
}

fn slurm_lifts(node: &mut Node) {
    for call in 0..300 {
        fs::remove_file(node.path(&format!("slurm/hook.{call}"))).unwrap();
    }
    node.scontrol_has(Duration::from_secs(20));
}

static SLURM: &[Cell] = &[
    Cell {
        face: "slow",
        what: "A GPU is lost, and scontrol takes 0.2 s for each call",
        node: log,
        strike: |node| slurm_has(node, "sleep 0.2"),
        lift: slurm_lifts,
        stays: true,
    },
    Cell {
        face: "half-dead",
        what: "A GPU is lost, and slurmctld answers reads and fails writes",
        node: log,
        strike: |node| {
            slurm_has(
                node,
                "[ \"$1\" = update ] && { echo 'slurm_update error: Socket timed out on send/recv operation' >&2; exit 1; }",
            );
        },
        lift: slurm_lifts,
        stays: true,
    },
    Cell {
        face: "dead",
        what: "A GPU is lost, and slurmctld does not run",
        node: log,
        strike: |node| {
            slurm_has(
                node,
                "echo 'slurm_load_node error: Unable to contact slurm controller (connect failure)' >&2; exit 1",
            );
        },
        lift: slurm_lifts,
        stays: true,
    },
    Cell {
        face: "gone",
        what: "A GPU is lost, and slurmctld does not know the node",
        node: log,
        strike: |node| slurm_has(node, "echo 'Node n0 not found' >&2; exit 1"),
        lift: slurm_lifts,
        stays: true,
    },
    Cell {
        face: "blocked in D or S",
        what: "A GPU is lost, and scontrol does not return",
        node: log,
        strike: |node| {
            node.scontrol_has(Duration::from_millis(100));
            slurm_has(node, "sleep 300");
        },
        lift: slurm_lifts,
        stays: true,
    },
    Cell {
        face: "refused",
        what: "A GPU is lost, and slurmctld rejects the drain: access denied",
        node: log,
        strike: |node| {
            slurm_has(
                node,
                "[ \"$1\" = update ] && { echo 'slurm_update error: Access/permission denied' >&2; exit 1; }",
            );
        },
        lift: slurm_lifts,
        stays: true,
    },
];
