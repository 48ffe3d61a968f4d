//! A profile that is learned on a recorded node: the configuration accepts it, the node meets it, and what is taken away
//! is a finding.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and changes its own copy of a fixture"
)]

use std::fs;
use std::path::Path;
use std::time::Duration;

use collectors::sys::boot;
use collectors::{Env, EventBody, Settings};
use health::engine::Engine;
use health::policy::Policy;
use health::profile::Profile;
use health::{Input, settings};
use nodewarden::config::{Config, drop_in};
use testkit::play::Driver;
use testkit::tree;

#[path = "common/reading.rs"]
mod reading;

use reading::{now, snapshot};

/// Takes something away from a node.
type Take<'a> = &'a dyn Fn(&Node);

/// A copy of the demo's node before anything breaks: 8 GPUs, 10 adapters.
struct Node {
    copy: tempfile::TempDir,
    env: Env,
    driver: Option<Driver>,
}

impl Node {
    fn new() -> Self {
        let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/demo");
        let copy = tempfile::tempdir().unwrap();
        tree::unpack(&case, copy.path()).unwrap();
        Self {
            driver: Driver::open(&case, copy.path()).unwrap(),
            env: Env {
                boot_id: Some("11111111-2222-3333-4444-555555555555".to_owned()),
                ..Env::recorded(copy.path())
            },
            copy,
        }
    }

    fn learn(&self) -> String {
        let at = now(Duration::ZERO).boottime;
        let snapshot = snapshot(&self.env, &Settings::default(), self.driver.as_ref(), at);
        drop_in(&Profile::of(&snapshot, &settings::Rdma::default()))
    }

    /// Replaces a text in a file.
    fn edit(&self, path: &str, from: &str, to: &str) {
        let path = self.copy.path().join("root").join(path);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{path:?}: {text}");
        fs::write(&path, text.replace(from, to)).unwrap();
    }

    /// The open incidents after 3 min with this configuration: check and detail.
    fn incidents(&self, text: &str) -> Vec<String> {
        let file = self.copy.path().join("profile.toml");
        fs::write(&file, text).unwrap();
        let sets = ["health.mode=\"comment\"".to_owned()];
        let config = Config::load(Some(&file), &sets, &[]).unwrap().config;
        let policy = Policy::new(&config.health, None).unwrap();
        let boot = boot::boot_id(&self.env).unwrap();
        let mut engine = Engine::new(policy, boot.clone(), None, now(Duration::ZERO)).unwrap();
        engine.step(now(Duration::ZERO), Input::Tick);
        let end = collectors::Event {
            boot,
            seq: 0,
            at_us: 0,
            history: false,
            count: 0,
            text: String::new(),
            body: EventBody::Progress,
        };
        engine.step(now(Duration::ZERO), Input::Event("kernel_log", &end));
        for tick in 1..=12 {
            let time = now(Duration::from_secs(15 * tick));
            let snapshot = snapshot(
                &self.env,
                &Settings::default(),
                self.driver.as_ref(),
                time.boottime,
            );
            engine.step(time, Input::Snapshot(&snapshot));
        }
        let view = engine.view();
        let open = view.incidents.iter().filter(|i| i.closed.is_none());
        open.map(|i| format!("{}: {}", i.check, i.detail)).collect()
    }
}

const LEARNED: &str = r#"
[health]
# From host_pci_gpu_info. Nodes of one kind usually share PCI addresses; delete this key if yours do not.
gpu_addresses = ["0000:1b:00.0", "0000:43:00.0", "0000:52:00.0", "0000:61:00.0", "0000:9d:00.0", "0000:c3:00.0", "0000:d1:00.0", "0000:df:00.0"]
"#;

const EXPECTED: &str = r#"
[health.expect]
# From host_pci_gpus.
gpus = 8
# From gpu_info.
gpu_models = ["NVIDIA H100 80GB HBM3"]
"#;

const REST: &str = r#"
# From host_memory_total_bytes. Rounded down.
memory = "2015 GiB"
# From host_cpus_online.
cpus = 224
# From /proc/self/mountinfo. Shared and local filesystems. Delete what a user or a job may unmount.
mounts = ["/gpfs/home", "/local", "/scratch", "/shared data"]
# From /proc/modules. Drivers of GPUs, RDMA and filesystems. Delete what jobs do not need.
modules = ["ib_core", "ib_uverbs", "lnet", "lustre", "mlx5_core", "mlx5_ib", "mmfs26", "nvidia", "nvidia_peermem", "nvidia_uvm"]
"#;

#[test]
fn a_learned_profile_is_accepted_and_met_and_what_is_taken_away_is_found() {
    let node = Node::new();
    let text = node.learn();
    for part in [LEARNED, EXPECTED, REST] {
        assert!(text.contains(part), "{text}");
    }
    for line in ["rdma_ports = 10\n", "nvlinks = 18\n", "rate = [200, 400]\n"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert_eq!(node.learn(), text, "the same node, the same text");
    assert_eq!(Node::new().learn(), text);
    assert!(node.incidents(&text).is_empty(), "{:?}", node.incidents(&text));

    let gpu = |node: &Node| {
        fs::remove_file(node.copy.path().join("root/sys/bus/pci/devices/0000:1b:00.0")).unwrap()
    };
    let port = |node: &Node| {
        let folder = "sys/class/infiniband/mlx5_0/ports/1";
        node.edit(&format!("{folder}/state"), "4: ACTIVE", "1: DOWN");
        node.edit(&format!("{folder}/phys_state"), "5: LinkUp", "2: Polling");
    };
    let cases: [(&str, Take<'_>); 6] = [
        ("gpu-missing: 0000:1b:00.0 not on the PCI bus", &gpu),
        ("rdma-ports-missing: RDMA ports up: 9 found, 10 expected", &port),
        ("module-missing: module nvidia_peermem not loaded", &|node| {
            node.edit(
                "proc/modules",
                "nvidia_peermem 20480 0 - Live",
                "nvidia_peermem 20480 0 - Unloading",
            );
        }),
        (
            "memory-missing: memory: 1.90 TiB found, 1.96 TiB expected",
            &|node| {
                node.edit("proc/meminfo", "2113409028 kB", "2047365000 kB");
            },
        ),
        ("cpu-missing: CPUs online: 112 found, 224 expected", &|node| {
            node.edit("sys/devices/system/cpu/online", "0-223", "0-111");
        }),
        ("mount-missing: /shared data not mounted", &|node| {
            node.edit("proc/self/mountinfo", "shared\\040data", "other");
        }),
    ];
    let node = Node::new();
    for (_, take) in &cases {
        take(&node);
    }
    let incidents = node.incidents(&text);
    for (found, _) in cases {
        assert!(incidents.iter().any(|one| one == found), "{found}: {incidents:?}");
    }
}
