//! `nodewarden bundle` on a node whose every name is a canary: none is in the bundle.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use testkit::fuse_hang::FuseHang;
use testkit::tmpfs::Tmpfs;
use testkit::tree;

use crate::cluster::Cluster;
use crate::common::{KERN_ERR, LONG, Node, program};

/// In every name of a user, job, path, host, filesystem, device or file, in lower case.
const CANARY: &str = "canary";
/// The job's number.
const JOB: &str = "770077001";
/// Addresses and serial numbers.
const OTHERS: [&str; 4] = ["10.77.66.55", "a088:c203:00cd:0000", "4711-secret", JOB];

/// A process with canaries as arguments. Ends with the test.
struct Arguments(std::process::Child);

impl Arguments {
    fn start() -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "read line", "canary-program", "--user=canary"]);
        Self(command.stdin(std::process::Stdio::piped()).spawn().unwrap())
    }
}

impl Drop for Arguments {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

/// Lays a recorded tree over the node's, with other names.
fn lay(node: &Node, fixture: &str, names: &[(&str, &str)]) {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let mut text = fs::read_to_string(fixtures.join(fixture).join("root.tree")).unwrap();
    for (name, canary) in names {
        assert!(text.contains(name), "{fixture}: {name}");
        text = text.replace(name, canary);
    }
    let file = node.path("canary.tree");
    fs::write(&file, text).unwrap();
    tree::lay(&file, &node.path("root")).unwrap();
}

fn bundle(node: &Node, output: &Path) -> Output {
    let mut command = Command::new(program());
    command.arg("bundle").arg("--output").arg(output);
    command.arg("--run-dir").arg(node.run_dir());
    command.arg("--sysroot").arg(node.path("root"));
    command.output().unwrap()
}

/// The entries of an archive: path and target of a link, and content.
fn entries(file: &Path) -> Vec<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let packed = fs::File::open(file).unwrap();
    flate2::read::GzDecoder::new(packed)
        .read_to_end(&mut bytes)
        .unwrap();
    // Also what a header has besides names.
    let mut all = vec![("the archive itself".to_owned(), bytes.clone())];
    for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
        let mut entry = entry.unwrap();
        let target = entry
            .link_name()
            .unwrap()
            .unwrap_or_default()
            .display()
            .to_string();
        let path = entry.path().unwrap().display().to_string() + " " + &target;
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        all.push((path.trim_end().to_owned(), content));
    }
    all
}

fn text<'a>(entries: &'a [(String, Vec<u8>)], name: &str) -> &'a str {
    let name = format!("nodewarden-bundle/{name}");
    let (_, content) = entries.iter().find(|(path, _)| *path == name).expect(&name);
    std::str::from_utf8(content).unwrap()
}

fn json(entries: &[(String, Vec<u8>)], name: &str) -> Value {
    serde_json::from_str(text(entries, name)).unwrap()
}

fn part<'a>(manifest: &'a Value, name: &str) -> &'a Value {
    let parts = manifest["parts"].as_array().unwrap();
    parts.iter().find(|part| part["part"] == name).expect(name)
}

/// The page, with the password.
fn page(node: &Node) -> String {
    let password = STANDARD.encode("canary:canary-4711-secret");
    let address = node.address().unwrap_or_default();
    let password = format!("Basic {password}");
    let answer = testkit::http::get(
        &address,
        "/metrics?tier=detail",
        &[("Authorization", &password)],
        LONG,
    );
    answer.map_or_else(
        |_| String::new(),
        |answer| answer.text().unwrap_or_default().to_owned(),
    )
}

fn node_of_canaries() -> Cluster {
    let mut c = Cluster::new();
    let jobs = [
        ("job_101", "job_770077001"),
        ("job = 101", "job = 770077001"),
        ("101.toml", "770077001.toml"),
    ];
    let people = [
        ("\"ada\"", "\"canary-ada\""),
        ("\"proja\"", "\"canary-proja\""),
        ("\"gpu\"", "\"canary-part\""),
    ];
    lay(&c.node, "slurm/cgroup-v2", &[jobs.as_slice(), &people].concat());
    lay(
        &c.node,
        "lustre/healthy",
        &[
            ("scratch", "canaryfs"),
            ("10.2.0.", "10.77.66.55."),
            ("/projects", "/canary-projects"),
        ],
    );
    lay(&c.node, "rdma/mlx5-roce", &[("ens1np0", "canaryif0")]);
    let device = c
        .node
        .path("root/sys/devices/pci0000:97/0000:97:01.0/0000:9a:00.0/infiniband/mlx5_0");
    fs::write(device.join("node_desc"), "canary-host HCA-1\n").unwrap();
    fs::write(device.join("ports/1/hw_counters/unlisted_counter"), "1\n").unwrap();
    fs::write(device.join("ports/1/hw_counters/out_of_buffer"), "canary\n").unwrap();

    let folder = c.node.path("canary-etc");
    fs::create_dir(&folder).unwrap();
    let web = folder.join("canary-web.yml");
    let hash = bcrypt::hash("canary-4711-secret", 4).unwrap();
    fs::write(&web, format!("basic_auth_users:\n  canary: {hash}\n")).unwrap();
    for setting in [
        format!("web_config_file={web:?}"),
        "slurm.jobs.labels=[\"user\", \"account\", \"partition\"]".to_owned(),
        "slurm.jobs.user=\"name\"".to_owned(),
        "slurm.jobs.node=\"n0\"".to_owned(),
        "slurm.jobs.hooks=\"/run/nodewarden/jobs\"".to_owned(),
        "slurm.jobs.salt=\"canary-4711-secret\"".to_owned(),
        "health.operators=[\"canary-operator\"]".to_owned(),
        "health.expect.mounts=[\"/canary/expected\"]".to_owned(),
        "health.rdma.ports=[\"canary*\", \"mlx5_*\"]".to_owned(),
        "commands={canary={command=[\"/usr/bin/canary\", \"--token=4711-secret\"], timeout=\"5s\"}}"
            .to_owned(),
        "health.command=[{name=\"canary\", command=\"canary\"}]".to_owned(),
    ] {
        c.node.set(&setting);
    }
    c
}

#[test]
fn no_name_of_a_user_job_path_host_or_secret_is_in_a_bundle() {
    let mut c = node_of_canaries();
    let _process = Arguments::start();
    c.slurm.drain(&c.name, "canary fan of 10.77.66.55").unwrap();
    c.node.spawn();
    let is_up = |status: &Value, name: &str| {
        let collectors = status["collectors"].as_array().unwrap();
        collectors.iter().any(|c| c["name"] == name && c["state"] == "ok")
    };
    // Older lines of the kernel's log are history.
    c.until("the kernel log is read", |n| {
        let status = n.try_status();
        status.is_some_and(|s| is_up(&s, "kernel_log") && is_up(&s, "host"))
    });
    for line in [
        "NVRM: Xid (PCI:0000:5d:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:18:00): 31, pid=4711, name=canary.py, Ch 00000008, canary",
        "EXT4-fs error (device canary-dm): ext4_lookup:1855: inode #2: comm canary: deleted inode referenced: 12",
        "LustreError: 11-0: canaryfs-OST0000-osc-ffff880812345600: operation ost_read to node 10.77.66.55@o2ib failed: rc = -107",
        "canary: a line of another program, user canary",
    ] {
        c.kmsg.push(KERN_ERR, line);
    }
    c.wait_drain_state("foreign");
    let open = |n: &Node, check: &str| n.open_incidents().iter().any(|i| i["check"] == check);
    c.until("incidents with canaries", |n| {
        open(n, "xid") && open(n, "filesystem-error")
    });
    let id = c.open_incidents()[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(
        c.cli(&["ack", &id, "--reason", "canary ordered, 4711-secret"]).0,
        Some(0)
    );
    assert_eq!(
        c.cli(&["pause", "--for", "1h", "--reason", "canary pause"]).0,
        Some(0)
    );
    // Each source has its canary and was read: otherwise the test would prove nothing.
    for part in [
        "mountpoint=\"/lustre/canaryfs\"",
        "lustre_client_info{fs=\"canaryfs\"",
        "rdma_port_state{device=\"mlx5_0\"",
        "user=\"canary-ada\"",
        "account=\"canary-proja\"",
        JOB,
        "netdev=\"canaryif0\"",
    ] {
        let shown = testkit::wait::until_true(part, LONG / 3, || page(&c).contains(part));
        let page = page(&c);
        let jobs: Vec<&str> = page.lines().filter(|line| line.contains("slurm")).collect();
        assert!(shown.is_ok(), "{part}: {jobs:#?}");
    }
    let status = c.try_status().unwrap().to_string();
    for part in [
        "canary ordered",
        "canary pause",
        "canary fan",
        "canary-dm",
        "site-canary",
    ] {
        assert!(status.contains(part), "{part}: {status}");
    }

    let file = c.node.path("b.tar.gz");
    let out = bundle(&c.node, &file);
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(0), "{said}");
    assert!(!said.contains("absent"), "{said}");
    let entries = entries(&file);
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let mut words: Vec<&str> = OTHERS.to_vec();
    words.extend(
        [CANARY, c.name.as_str(), host.as_str()]
            .iter()
            .filter(|word| word.len() > 4),
    );
    let folder = c.node.dir.path().display().to_string();
    words.push(&folder);
    for (path, content) in &entries {
        let content = String::from_utf8_lossy(content).to_lowercase();
        for word in &words {
            let found = content.find(&word.to_lowercase());
            let around = found.map(|at| {
                content
                    .chars()
                    .skip(at.saturating_sub(200))
                    .take(400)
                    .collect::<String>()
            });
            assert!(
                around.is_none() && !path.to_lowercase().contains(word),
                "{word} in {path}: {around:?}"
            );
        }
    }
    check_content(&entries);
    replays(&c, &file);
}

/// Enough is left to understand the node.
fn check_content(entries: &[(String, Vec<u8>)]) {
    let readings = text(entries, "readings.prom");
    for part in [
        "lustre_client_info{fs=\"filesystem-",
        "mountpoint=\"mount-",
        "user=\"user-",
        "jobid=\"job-",
        "rdma_port_state{device=\"mlx5_0\",port=\"1\"} 4",
    ] {
        assert!(readings.contains(part), "{part}: {readings}");
    }
    let manifest = json(entries, "manifest.json");
    for name in [
        "status",
        "incidents",
        "events",
        "readings",
        "versions",
        "configuration",
        "recording",
    ] {
        assert!(
            part(&manifest, name)["bytes"].as_u64() > Some(0),
            "{name}: {manifest:#}"
        );
    }
    let status = json(entries, "status.json");
    assert_eq!(
        (&status["drain"]["state"], &status["verdict"]["health"]),
        (&"foreign".into(), &"unhealthy".into())
    );
    let incidents = json(entries, "incidents.json");
    let xid = incidents
        .as_array()
        .unwrap()
        .iter()
        .find(|i| i["xid"] == "xid79")
        .unwrap();
    assert_eq!(
        (&xid["pci"], &xid["check"]),
        (&"0000:5d:00.0".into(), &"xid".into())
    );
    assert_eq!(
        incidents
            .as_array()
            .unwrap()
            .iter()
            .filter(|i| i["acknowledged"].is_i64())
            .count(),
        1
    );
    let configuration = json(entries, "configuration.json");
    assert_eq!(
        configuration["health.mode"],
        serde_json::json!({ "value": "drain", "set": true })
    );
    assert_eq!(configuration["slurm.jobs.salt"]["value"], "<set>");
    let events = json(entries, "events.json");
    assert!(
        events["kernel_lines"].to_string().contains("\"ext4-error\""),
        "{events:#}"
    );
    // A name that no driver's table has, and a content that is no number.
    for file in [
        "unlisted_counter",
        "mlx5_0/ports/1/hw_counters/out_of_buffer",
        "node_desc",
        "node_guid",
    ] {
        assert!(!entries.iter().any(|(path, _)| path.ends_with(file)), "{file}");
    }
    assert!(
        entries
            .iter()
            .any(|(path, _)| path.ends_with("hw_counters/out_of_sequence"))
    );
}

/// The recording is read back by the collector, with the values of the node.
fn replays(c: &Cluster, file: &Path) {
    let to = c.node.path("unpacked");
    let packed = flate2::read::GzDecoder::new(fs::File::open(file).unwrap());
    tar::Archive::new(packed).unpack(&to).unwrap();
    let read = |root: PathBuf| {
        let mut command = Command::new(program());
        command.args([
            "metrics",
            "--only",
            "rdma",
            "--tier",
            "detail",
            "--config",
            "/dev/null",
            "--sysroot",
        ]);
        let out = command.arg(root).output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{out:?}");
        let page = String::from_utf8(out.stdout).unwrap();
        let counters = page
            .lines()
            .filter(|line| line.starts_with("rdma_") && line.contains("_total{"));
        // They are not in the recording: one has no known name, one no number.
        let known = |line: &&str| !line.contains("unlisted") && !line.contains("out_of_buffer");
        counters.filter(known).map(str::to_owned).collect::<Vec<String>>()
    };
    let replayed = read(to.join("nodewarden-bundle/recording/root"));
    assert!(replayed.len() > 30, "{replayed:#?}");
    let of_node = read(c.node.path("root"));
    for line in &replayed {
        assert!(of_node.contains(line), "{line}\n{of_node:#?}");
    }
}

#[test]
fn without_a_daemon_only_its_parts_are_absent() {
    let node = Node::new();
    lay(&node, "rdma/mlx5-roce", &[("ens1np0", "canaryif0")]);
    let file = node.path("b.tar.gz");
    let out = bundle(&node, &file);
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(0), "{said}");
    assert!(
        said.contains("status ... absent: no daemon runs with this run directory\n"),
        "{said}"
    );
    let entries = entries(&file);
    let manifest = json(&entries, "manifest.json");
    for name in ["status", "incidents", "events", "readings"] {
        assert_eq!(
            part(&manifest, name)["absent"],
            "no daemon runs with this run directory"
        );
    }
    for name in ["versions", "configuration", "recording"] {
        assert!(
            part(&manifest, name)["bytes"].as_u64() > Some(0),
            "{name}: {manifest:#}"
        );
    }
    assert!(!entries.iter().any(|(path, _)| path.contains("status.json")));
}

#[test]
fn a_daemon_that_hangs_costs_a_bounded_wait() {
    let node = Node::new();
    fs::create_dir_all(node.run_dir()).unwrap();
    // It accepts, and never answers.
    let _socket = std::os::unix::net::UnixListener::bind(node.run_dir().join("control.sock")).unwrap();
    let start = std::time::Instant::now();
    let out = bundle(&node, &node.path("b.tar.gz"));
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(0), "{said}");
    assert!(
        said.contains("readings ... absent: the daemon did not answer within 5 s\n"),
        "{said}"
    );
    assert!(start.elapsed() < LONG, "{:?}", start.elapsed());
}

/// The process inside the driver is left behind in state D. It must not keep the pipe, whose reader waits for the end.
#[test]
fn a_device_that_never_answers_holds_neither_the_pipe_nor_the_other_devices() {
    let node = Node::new();
    lay(&node, "rdma/h100-ndr", &[]);
    let class = node.path("root/sys/class/infiniband");
    let hang = FuseHang::mount(node.path("root/firmware")).unwrap();
    let state = class.join("mlx5_4/ports/1/state");
    fs::remove_file(&state).unwrap();
    std::os::unix::fs::symlink(hang.add("state", "4: ACTIVE\n"), &state).unwrap();
    hang.freeze_file("state").unwrap();
    let (to, from) = std::sync::mpsc::channel();
    let (run_dir, root) = (node.run_dir(), node.path("root"));
    std::thread::spawn(move || {
        let mut command = Command::new(program());
        command.args(["bundle", "--output", "-", "--run-dir"]);
        command.arg(run_dir).arg("--sysroot").arg(root);
        drop(to.send(command.output().unwrap()));
    });
    let out = from.recv_timeout(LONG);
    let waiting = hang.waiting();
    hang.thaw();
    let out = out.expect("the end of the pipe");
    assert!(waiting > 0, "the process that reads the devices has ended");
    let said = String::from_utf8(out.stderr).unwrap();
    let line = "recording of mlx5_4 ... absent: the device did not answer within 5 s\n";
    assert!(
        said.contains(line) && !said.contains("recording ... absent"),
        "{said}"
    );
    let file = node.path("b.tar.gz");
    fs::write(&file, out.stdout).unwrap();
    let entries = entries(&file);
    let absent = json(&entries, "recording/absent.json");
    assert_eq!(absent[0]["device"], "mlx5_4", "{absent:#}");
    for n in 0..10 {
        let state = format!("nodewarden-bundle/recording/root/sys/class/infiniband/mlx5_{n}/ports/1/state");
        assert_eq!(entries.iter().any(|(path, _)| *path == state), n != 4, "{state}");
    }
}

#[test]
fn an_output_that_cannot_be_written_is_an_error_that_names_it_and_leaves_nothing() {
    let node = Node::new();
    let refused = |output: &Path, why: &str| {
        let out = bundle(&node, output);
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(1), "{said}");
        let name = output.file_name().unwrap().to_str().unwrap();
        assert!(said.contains(name) && said.contains(why), "{said}");
    };
    let there = node.path("there.tar.gz");
    fs::write(&there, "before").unwrap();
    refused(&there, "exists already");
    assert_eq!(fs::read_to_string(&there).unwrap(), "before");
    refused(&node.path("missing/b.tar.gz"), "no such folder");
    let link = node.path("link.tar.gz");
    std::os::unix::fs::symlink(node.path("target"), &link).unwrap();
    refused(&link, "exists already");
    assert!(!node.path("target").exists());

    let folder = node.path("disk");
    fs::create_dir(&folder).unwrap();
    let disk = Tmpfs::mount(&folder, 64 * 1024).unwrap();
    disk.fill().unwrap();
    let file = folder.join("b.tar.gz");
    refused(&file, "No space left on device");
    assert!(!file.exists(), "half a file is left");
    disk.empty().unwrap();
    disk.read_only(true).unwrap();
    refused(&file, "Read-only file system");
}

#[test]
fn standard_output_has_the_archive_and_nothing_else() {
    let node = Node::new();
    let out = bundle(&node, Path::new("-"));
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(out.stdout.as_slice())
        .read_to_end(&mut bytes)
        .unwrap();
    assert!(tar::Archive::new(bytes.as_slice()).entries().unwrap().count() >= 3);
}
