//! Ports that are added, removed, and replaced.

use super::*;

/// Replaces a folder by another of the same name, which certainly has another inode.
fn replace(node: &Node, path: &str) {
    let (old, new) = (format!("{path}.old"), format!("{path}.new"));
    copy(&node.path(path), &node.path(&new));
    fs::rename(node.path(path), node.path(&old)).unwrap();
    fs::rename(node.path(&new), node.path(path)).unwrap();
    node.remove(&old);
}

/// Replaces a file by another of the same name, as `mv`, `sed -i` and rsync do.
fn replace_file(node: &Node, path: &str, text: &str) {
    node.write("new", text);
    fs::rename(node.path("new"), node.path(path)).unwrap();
}

const LINK_DOWNED: &str = "infiniband/mlx5_0/ports/1/counters/link_downed";

fn link_downed(port: &mut dyn Device) -> Option<u64> {
    value(&read(port), "rdma_link_downed_total mlx5_0 1")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn nothing_has_changed_until_something_does() {
    let node = Node::with(&["mlx5_0", "mlx5_1"]);
    let mut devices = node.devices("");
    assert!(devices.changed(), "no scan yet");
    devices.scan().unwrap();
    for _ in 0..3 {
        assert!(!devices.changed());
    }
    // A port's values are no change of the list.
    node.write("infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
    assert!(!devices.changed());

    let mut scan = |expected: &[&str]| {
        assert!(devices.changed(), "{expected:?}");
        assert_eq!(names(&devices.scan().unwrap()), expected);
        assert!(!devices.changed(), "{expected:?}");
    };
    node.add("mlx5_2", "1");
    scan(&["mlx5_0/1", "mlx5_1/1", "mlx5_2/1"]);
    node.add("mlx5_2", "2");
    scan(&["mlx5_0/1", "mlx5_1/1", "mlx5_2/1", "mlx5_2/2"]);
    node.remove("infiniband/mlx5_1");
    scan(&["mlx5_0/1", "mlx5_2/1", "mlx5_2/2"]);
    node.remove("infiniband/mlx5_2/ports/1");
    scan(&["mlx5_0/1", "mlx5_2/2"]);
    node.remove("infiniband");
    scan(&[]);
}

#[test]
fn between_two_looks_devices_are_seen_to_come_and_go_and_ports_wait() {
    let node = Node::with(&["mlx5_0"]);
    for (settings, seen) in [("", false), ("exclude_netdevs = [\"mgmt0\"]", true)] {
        let mut devices = node.devices_looked_at(settings, Duration::from_secs(3600));
        devices.scan().unwrap();
        node.add("mlx5_0", "2");
        assert_eq!(devices.changed(), seen, "a second port; {settings}");
        node.add("mlx5_1", "1");
        assert!(devices.changed(), "a second device");
        node.remove("infiniband/mlx5_1");
        node.remove("infiniband/mlx5_0/ports/2");
    }
    let mut devices = node.devices_looked_at("", Duration::from_millis(1));
    devices.scan().unwrap();
    node.add("mlx5_0", "2");
    std::thread::sleep(Duration::from_millis(2));
    assert!(devices.changed());
}

#[test]
fn a_device_that_comes_back_under_another_name_is_that_one() {
    let node = Node::with(&["mlx5_0"]);
    let mut devices = node.devices("");
    devices.scan().unwrap();
    fs::rename(node.path("infiniband/mlx5_0"), node.path("infiniband/rocep24s0")).unwrap();
    assert!(devices.changed());
    let mut ports = devices.scan().unwrap();
    assert_eq!(names(&ports), ["rocep24s0/1"]);
    assert_eq!(
        value(&read(&mut *ports[0]), "rdma_link_downed_total rocep24s0 1"),
        Some(1)
    );
}

#[test]
fn a_device_or_port_that_takes_an_old_name_is_another_one() {
    for path in ["infiniband/mlx5_0", "infiniband/mlx5_0/ports/1"] {
        let node = Node::with(&["mlx5_0"]);
        let mut devices = node.devices("");
        let mut ports = devices.scan().unwrap();
        read(&mut *ports[0]);
        replace(&node, path);
        assert!(devices.changed(), "{path}");
        node.write(LINK_DOWNED, "0\n");
        let mut ports = devices.scan().unwrap();
        assert_eq!(link_downed(&mut *ports[0]), Some(0));
    }
}

/// The port stays the same device, and keeps what it knows.
#[test]
fn a_file_that_another_one_replaces_is_read_by_its_name() {
    let node = Node::with(&["mlx5_0"]);
    let mut devices = node.devices_looked_at("", Duration::from_secs(3600));
    let mut ports = devices.scan().unwrap();
    for (count, state) in [(5, 4), (6, 1), (7, 4)] {
        for (file, text) in [
            ("state", format!("{state}: X\n")),
            ("counters/link_downed", format!("{count}\n")),
            ("hw_counters/out_of_buffer", format!("{count}\n")),
        ] {
            replace_file(&node, &format!("infiniband/mlx5_0/ports/1/{file}"), &text);
        }
        assert!(!devices.changed(), "the same devices");
        let read = read(&mut *ports[0]);
        let value = |series| value(&read, series);
        assert_eq!(value("rdma_port_state mlx5_0 1"), Some(state));
        assert_eq!(value("rdma_link_downed_total mlx5_0 1"), Some(count));
        assert_eq!(value("rdma_out_of_buffer_total mlx5_0 1"), Some(count));
    }
    node.remove(LINK_DOWNED);
    assert!(!devices.changed());
    let read = read(&mut *ports[0]);
    assert_eq!(value(&read, "rdma_link_downed_total mlx5_0 1"), None);
    assert_eq!(value(&read, "rdma_port_unreadable_files mlx5_0 1 gone"), Some(1));
}

/// After a scan that failed, the ports known before are read, and the list is scanned at each reading.
#[test]
fn a_replaced_file_is_noticed_while_the_list_cannot_be_read() {
    let node = Node::with(&["mlx5_0"]);
    let mut devices = node.devices_looked_at("", Duration::from_secs(3600));
    let mut ports = devices.scan().unwrap();
    assert_eq!(link_downed(&mut *ports[0]), Some(1));
    node.write("infiniband/mlx5_1/ports", "no folder");
    replace_file(&node, LINK_DOWNED, "2\n");
    assert!(devices.scan().is_err());
    assert_eq!(link_downed(&mut *ports[0]), Some(2));
}

/// As on a network filesystem, or without inotify.
#[test]
fn a_file_without_a_watch_shows_that_it_was_replaced() {
    let node = Node::with(&["mlx5_0"]);
    let files = attribute::AttributeFiles {
        budget: DescriptorBudget::of_process(),
        ..attribute::AttributeFiles::new(&node.env())
    };
    let mut file = files.attribute(node.path(LINK_DOWNED));
    let mut read = || file.read(std::time::Instant::now(), text::number);
    assert_eq!(read(), Ok(1));
    replace_file(&node, LINK_DOWNED, "2\n");
    assert_eq!(read(), Ok(2));
}

/// A container's view of its host: those files behave as on the node itself.
#[test]
fn a_sysfs_mounted_elsewhere_is_not_watched() {
    let files = attribute::AttributeFiles::new(&Env::with_sysroot("/proc/self/root"));
    assert!(!files.on_disk);
    let node = Node::with(&["mlx5_0"]);
    assert!(attribute::AttributeFiles::new(&node.env()).on_disk);
    // Nothing is known of a tree that is absent.
    assert!(attribute::AttributeFiles::new(&Env::with_sysroot(node.path("x"))).on_disk);
}

#[test]
fn two_names_for_one_device_are_one_device() {
    let node = Node::with(&["mlx5_0"]);
    node.link("infiniband/mlx5_9", "mlx5_0");
    assert_eq!(names(&node.ports("")), ["mlx5_0/1"]);
}

#[test]
fn two_devices_on_one_function_are_two() {
    let node = Node::with(&["mlx5_0", "mlx5_bond_0"]);
    node.write("0000:3b:00.0/vendor", "0x15b3\n");
    for device in ["mlx5_0", "mlx5_bond_0"] {
        node.link(&format!("infiniband/{device}/device"), "../../0000:3b:00.0");
    }
    let mut ports = node.ports("");
    assert_eq!(names(&ports), ["mlx5_0/1", "mlx5_bond_0/1"]);
    let mut seen = BTreeMap::new();
    for port in &mut ports {
        for (series, value) in read(&mut **port) {
            assert_eq!(seen.insert(series.clone(), value), None, "{series} occurs twice");
        }
    }
    assert!(seen.keys().filter(|s| s.contains("0000:3b:00.0")).count() == 2);
}

#[test]
fn ports_are_numbers_and_nothing_else() {
    let node = Node::with(&["mlx5_0"]);
    node.add("mlx5_0", "10");
    node.add("mlx5_0", "2");
    node.add("mlx5_0", "x");
    assert_eq!(names(&node.ports("")), ["mlx5_0/1", "mlx5_0/2", "mlx5_0/10"]);
}

#[test]
fn what_is_the_devices_is_reported_once_however_many_ports_it_has() {
    let node = Node::with(&["mlx4_0"]);
    node.add("mlx4_0", "2");
    node.write("infiniband/mlx4_0/node_guid", "0002:c903:0031:7d10\n");
    node.write("infiniband/mlx4_0/hw_counters/num_cqovf", "5\n");
    let ports = &mut node.ports("");
    let told: Vec<bool> = ports
        .iter_mut()
        .map(|port| {
            let readings = read(&mut **port);
            value(&readings, "rdma_device_hw_counter_total mlx4_0 num_cqovf") == Some(5)
                && readings.keys().any(|s| s.starts_with("rdma_device_info mlx4_0"))
        })
        .collect();
    assert_eq!(told, [true, false]);
}

#[test]
fn counters_that_come_after_their_port_are_read() {
    const PORT: &str = "infiniband/mlx5_0/ports/1";
    let node = Node::with(&["mlx5_0"]);
    for folder in ["counters", "hw_counters"] {
        node.remove(&format!("{PORT}/{folder}"));
    }
    let mut devices = node.devices("");
    let mut first = read(&mut *devices.scan().unwrap()[0]);
    first.retain(|series, _| series.contains("_total"));
    assert_eq!(first, BTreeMap::new());
    for (file, series) in [
        ("1/counters/link_downed", "rdma_link_downed_total mlx5_0 1"),
        ("1/hw_counters/out_of_buffer", "rdma_out_of_buffer_total mlx5_0 1"),
        (
            "../hw_counters/num_cqovf",
            "rdma_device_hw_counter_total mlx5_0 num_cqovf",
        ),
    ] {
        assert!(!devices.changed(), "{file}");
        node.write(&format!("infiniband/mlx5_0/ports/{file}"), "6\n");
        assert!(devices.changed(), "{file}");
        let mut ports = devices.scan().unwrap();
        assert_eq!(value(&read(&mut *ports[0]), series), Some(6));
    }
    assert!(!devices.changed());
}

#[test]
fn a_port_that_comes_after_its_device_is_found() {
    let node = Node::new();
    node.write("infiniband/mlx5_0/node_guid", "0002:c903:0031:7d10\n");
    let mut devices = node.devices("");
    assert!(devices.scan().unwrap().is_empty());
    assert!(!devices.changed());
    // A software device may have no counters.
    for port in ["1", "2"] {
        node.write(&format!("infiniband/mlx5_0/ports/{port}/state"), "4: ACTIVE\n");
        assert!(devices.changed());
        assert_eq!(devices.scan().unwrap().len(), port.parse::<usize>().unwrap());
        assert!(!devices.changed());
    }
    node.remove("infiniband/mlx5_0/ports/1");
    assert!(devices.changed());
}

#[test]
fn counters_that_cannot_be_listed_are_looked_for_until_they_can() {
    let node = Node::with(&["mlx5_0"]);
    let counters = "infiniband/mlx5_0/ports/1/counters";
    node.remove(counters);
    node.write(counters, "not a folder");
    let mut devices = node.devices("");
    for _ in 0..3 {
        let mut ports = devices.scan().unwrap();
        assert!(devices.changed());
        let read = read(&mut *ports[0]);
        assert_eq!(value(&read, "rdma_out_of_buffer_total mlx5_0 1"), Some(3));
        assert_eq!(value(&read, "rdma_port_unreadable_files mlx5_0 1 gone"), Some(1));
    }
    node.remove(counters);
    node.add("mlx5_0", "1");
    let mut ports = devices.scan().unwrap();
    assert!(!devices.changed());
    assert_eq!(
        value(&read(&mut *ports[0]), "rdma_link_downed_total mlx5_0 1"),
        Some(1)
    );
}

#[test]
fn messages_that_cannot_be_listed_are_looked_for_until_they_can() {
    let node = Node::with(&["mlx5_0"]);
    let folder = "infiniband/mlx5_0/ports/1/cm_tx_retries";
    node.write(folder, "not a folder");
    let mut devices = node.devices("");
    devices.scan().unwrap();
    assert!(devices.changed());
    node.remove(folder);
    node.write(&format!("{folder}/req"), "3\n");
    let mut ports = devices.scan().unwrap();
    assert!(!devices.changed());
    assert_eq!(
        value(
            &read(&mut *ports[0]),
            "rdma_cm_messages_total mlx5_0 1 tx_retries req"
        ),
        Some(3)
    );
}

#[test]
fn ports_that_cannot_be_listed_are_an_error_and_not_none() {
    let node = Node::with(&["mlx5_0", "mlx5_1"]);
    let mut devices = node.devices("");
    devices.scan().unwrap();
    node.remove("infiniband/mlx5_1/ports");
    node.link("infiniband/mlx5_1/ports", "ports");
    assert!(devices.changed());
    let error = devices.scan().map(|ports| ports.len()).unwrap_err();
    assert!(error.to_string().contains("mlx5_1/ports"), "{error}");
    node.remove("infiniband/mlx5_1/ports");
    node.add("mlx5_1", "1");
    assert!(devices.changed());
    assert_eq!(devices.scan().unwrap().len(), 2);
}
