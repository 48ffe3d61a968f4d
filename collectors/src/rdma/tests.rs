//! Ports as trees of real files: what is asked of them, what they may do wrong, and that only they pay for it.

#![allow(clippy::disallowed_methods, reason = "tests build the trees that they read")]

mod changes;
mod cost;
mod exclusion;
mod faults;
mod netlink_port;
mod quirks;
mod setup;
mod units;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use testkit::tree;

use super::text::Reason;
use super::*;
use crate::{Block, Device, Devices, Value};

/// A node's /sys.
struct Node {
    dir: TempDir,
}

impl Node {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Self { dir }
    }

    /// A recorded node.
    fn of(case: &str) -> Self {
        let node = Self::new();
        let tree = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../fixtures/rdma")
            .join(case);
        tree::lay(&tree.join("root.tree"), node.dir.path()).unwrap();
        node
    }

    /// A node with these devices of one port each.
    fn with(devices: &[&str]) -> Self {
        let node = Self::new();
        for device in devices {
            node.add(device, "1");
        }
        node
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join("sys/class").join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let text = tree::Entry::File(text.as_bytes().to_vec());
        tree::put(&self.path(path), &text).unwrap();
    }

    fn link(&self, path: &str, target: impl AsRef<Path>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if path.symlink_metadata().is_ok() {
            fs::remove_file(&path).unwrap();
        }
        symlink(target, path).unwrap();
    }

    fn remove(&self, path: &str) {
        tree::put(&self.path(path), &tree::Entry::Removed).unwrap();
    }

    /// A small port: three facts, two counters of each kind.
    fn add(&self, device: &str, port: &str) {
        for (file, text) in [
            ("state", "4: ACTIVE\n"),
            ("phys_state", "5: LinkUp\n"),
            ("rate", "400 Gb/sec (4X NDR)\n"),
            ("link_layer", "InfiniBand\n"),
            ("counters/link_downed", "1\n"),
            ("counters/symbol_error", "2\n"),
            ("hw_counters/out_of_buffer", "3\n"),
            ("hw_counters/rx_write_requests", "4\n"),
        ] {
            self.write(&format!("infiniband/{device}/ports/{port}/{file}"), text);
        }
    }

    fn env(&self) -> Env {
        Env::with_sysroot(self.dir.path())
    }

    fn devices(&self, settings: &str) -> Box<dyn Devices> {
        self.devices_looked_at(settings, Duration::ZERO)
    }

    fn devices_looked_at(&self, settings: &str, pace: Duration) -> Box<dyn Devices> {
        let files = attribute::AttributeFiles::new(&self.env());
        let table = settings::RdmaSettings::new(&SPEC.settings(settings).unwrap()).unwrap();
        Box::new(scan::RdmaDevices::new(
            &self.env(),
            table,
            files,
            pace,
            Hub::new(None),
        ))
    }

    fn ports(&self, settings: &str) -> Vec<Box<dyn Device>> {
        self.devices(settings).scan().unwrap()
    }
}

fn names(ports: &[Box<dyn Device>]) -> Vec<&str> {
    ports.iter().map(|p| p.subject().name.as_str()).collect()
}

/// One reading by series, absent values left out: `rdma_port_state mlx5_0 1`.
fn read(port: &mut dyn Device) -> BTreeMap<String, u64> {
    let mut block = Block::default();
    port.read(&mut block).unwrap();
    block.finish();
    let named = |(series, value): (&crate::Series, Value)| {
        let name = format!("{} {}", series.metric.name, series.labels.join(" "));
        match value {
            Value::U64(n) => Some((name, n)),
            Value::F64(_) | Value::Absent => None,
        }
    };
    block.iter().filter_map(named).collect()
}

/// The value of one series.
fn value(readings: &BTreeMap<String, u64>, series: &str) -> Option<u64> {
    readings.get(series).copied()
}

/// How many files gave no value for this reason.
fn unreadable(readings: &BTreeMap<String, u64>, reason: &str) -> u64 {
    let ending = format!(" {reason}");
    readings
        .iter()
        .filter(|(name, _)| name.starts_with("rdma_port_unreadable_files ") && name.ends_with(&ending))
        .map(|(_, count)| count)
        .sum()
}

#[test]
fn a_node_without_the_class_has_no_ports_until_it_comes() {
    let node = Node::new();
    let mut devices = node.devices("");
    assert!(devices.scan().unwrap().is_empty());
    assert!(!devices.changed());
    node.add("mlx5_0", "1");
    assert!(devices.changed());
    assert_eq!(names(&devices.scan().unwrap()), ["mlx5_0/1"]);
}

/// The kernel has unregistered the last device, and another may have come before the watcher knew.
#[test]
fn a_list_that_was_forgotten_is_scanned_whatever_it_is() {
    let node = Node::with(&["mlx5_0"]);
    let hub = Hub::new(None);
    let table = settings::RdmaSettings::new(&SPEC.settings("").unwrap()).unwrap();
    let files = attribute::AttributeFiles::new(&node.env());
    let mut devices = scan::RdmaDevices::new(&node.env(), table, files, LOOK, Arc::clone(&hub));
    devices.scan().unwrap();
    assert!(!devices.changed() && hub.wait(Duration::ZERO));
    hub.forget();
    assert!(devices.changed() && !hub.wait(Duration::ZERO));
    devices.scan().unwrap();
    assert!(!devices.changed() && hub.wait(Duration::ZERO));
}

#[test]
fn a_bad_table_is_an_error_before_anything_is_opened() {
    for text in ["exclude = [\"mlx5[0-9]\"]", "excluded = []", "include = 1"] {
        let error = SPEC.settings(text).unwrap_err();
        assert_eq!(error.reason(), "settings", "{error}");
    }
    SPEC.settings("exclude = [\"mlx5_bond_*\"]\nvirtual_functions = true")
        .unwrap();
}

#[test]
fn words_become_bytes_and_flits_do_not() {
    let node = Node::with(&["mlx5_0", "hfi1_0"]);
    for device in ["mlx5_0", "hfi1_0"] {
        node.write(
            &format!("infiniband/{device}/ports/1/counters/port_xmit_data"),
            "10\n",
        );
    }
    node.write("infiniband/hfi1_0/0000:17:00.0/vendor", "0x8086\n");
    node.link("infiniband/hfi1_0/device", "0000:17:00.0");
    node.link("infiniband/hfi1_0/device/driver", "../hfi1");
    let mut ports = node.ports("");
    let hfi1 = read(&mut *ports[0]);
    assert_eq!(value(&hfi1, "rdma_port_xmit_data_bytes_total hfi1_0 1"), None);
    assert_eq!(value(&hfi1, "rdma_port_xmit_flits_total hfi1_0 1"), Some(10));
    let mlx5 = read(&mut *ports[1]);
    assert_eq!(value(&mlx5, "rdma_port_xmit_data_bytes_total mlx5_0 1"), Some(40));
}
