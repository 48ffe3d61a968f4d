//! Excluded devices are not touched: inotify shows which files were opened.

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use super::*;

/// Watches every folder below one.
struct Watch(Inotify);

impl Watch {
    fn on(folder: &Path) -> Self {
        let watch = Self(Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).unwrap());
        watch.add(folder);
        watch
    }

    fn add(&self, folder: &Path) {
        let mask = AddWatchFlags::IN_OPEN | AddWatchFlags::IN_ACCESS;
        self.0.add_watch(folder, mask).unwrap();
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                self.add(&entry.path());
            }
        }
        // The listing above.
        self.opened();
    }

    /// Files (true) and folders (false) that were opened or read since the last call.
    fn opened(&self) -> Vec<bool> {
        let events = self.0.read_events().unwrap_or_default();
        events
            .iter()
            .map(|e| !e.mask.contains(AddWatchFlags::IN_ISDIR))
            .collect()
    }
}

/// Scans and reads twice. Returns whether any file, and whether any folder of the device was opened.
fn touched(node: &Node, device: &str, settings: &str) -> (bool, bool) {
    let folder = fs::canonicalize(node.path("infiniband").join(device)).unwrap();
    let watch = Watch::on(&folder);
    let mut devices = node.devices(settings);
    for _ in 0..2 {
        devices.changed();
        let mut ports = devices.scan().unwrap();
        for port in &mut ports {
            read(&mut **port);
        }
    }
    let opened = watch.opened();
    (opened.contains(&true), opened.contains(&false))
}

#[test]
fn the_watch_sees_what_is_read() {
    let node = Node::of("h100-ndr");
    assert_eq!(touched(&node, "mlx5_8", ""), (true, true));
}

#[test]
fn a_device_left_out_by_name_is_not_even_listed() {
    for settings in [
        "exclude = [\"mlx5_8\"]",
        "exclude = [\"mlx5_?\"]",
        "include = [\"mlx5_3\"]",
    ] {
        let node = Node::of("h100-ndr");
        assert_eq!(touched(&node, "mlx5_8", settings), (false, false), "{settings}");
    }
}

#[test]
fn a_device_left_out_by_pci_address_or_interface_is_listed_and_not_read() {
    for settings in [
        "exclude_pci = [\"0000:cb:*\"]",
        "exclude_netdevs = [\"mgmt0\"]",
        "exclude_netdevs = [\"ib*\", \"mgmt?\"]",
        "exclude = [\"mlx5_8/1\"]",
    ] {
        let node = Node::of("h100-ndr");
        let (files, _) = touched(&node, "mlx5_8", settings);
        assert!(!files, "{settings}");
    }
}

#[test]
fn what_is_left_out_is_left_out_of_the_list_too() {
    let node = Node::of("ib-roce-mix");
    for (settings, expected) in [
        (
            "",
            ["mlx4_0/1", "mlx4_0/2", "mlx5_0/1", "mlx5_1/1", "mlx5_bond_0/1"].as_slice(),
        ),
        ("exclude = [\"mlx5_*\"]", &["mlx4_0/1", "mlx4_0/2"]),
        ("exclude = [\"mlx5_*\"]\ninclude = [\"mlx5_0\"]", &[]),
        ("include = [\"mlx4_0/2\"]", &["mlx4_0/2"]),
        // Only the port with that interface.
        (
            "exclude_netdevs = [\"ens9d1\"]\ninclude = [\"mlx4_0\"]",
            &["mlx4_0/1"],
        ),
        ("exclude_netdevs = [\"bond0\"]\ninclude = [\"mlx5_bond_0\"]", &[]),
        (
            "exclude_pci = [\"0000:b1:00.0\", \"*:98:00.?\"]",
            &["mlx5_0/1", "mlx5_1/1"],
        ),
    ] {
        assert_eq!(names(&node.ports(settings)), expected, "{settings}");
    }
}

#[test]
fn an_interface_that_is_renamed_changes_the_list_where_interfaces_decide() {
    let node = Node::of("h100-ndr");
    let mut devices = node.devices("exclude_netdevs = [\"mgmt0\", \"lost0\"]");
    assert_eq!(devices.scan().unwrap().len(), 9);
    let device = fs::canonicalize(node.path("infiniband/mlx5_0/device/net")).unwrap();
    fs::rename(device.join("ibp25s0"), device.join("lost0")).unwrap();
    assert!(devices.changed());
    assert_eq!(devices.scan().unwrap().len(), 8);
}

/// At the limit of series, the first ones have theirs.
#[test]
fn physical_ports_come_before_virtual_ones() {
    let all = ["mlx5_0", "mlx5_1", "mlx5_10", "mlx5_2", "mlx5_3"];
    let node = Node::with(&all);
    for device in ["mlx5_1", "mlx5_10"] {
        node.link(
            &format!("infiniband/{device}/device"),
            format!("../../../devices/pci0000:3a/{device}"),
        );
        node.write(&format!("../devices/pci0000:3a/{device}/vendor"), "0x15b3\n");
        node.link(
            &format!("../devices/pci0000:3a/{device}/physfn"),
            "../../pci0000:3a/0000:3b:00.0",
        );
    }
    let ports = node.ports("virtual_functions = true");
    assert_eq!(
        names(&ports),
        ["mlx5_0/1", "mlx5_2/1", "mlx5_3/1", "mlx5_1/1", "mlx5_10/1"]
    );
}

#[test]
fn virtual_functions_are_left_out_unless_asked_for() {
    let node = Node::of("sriov");
    assert_eq!(names(&node.ports("")), ["mlx5_0/1"]);
    assert!(!touched(&node, "mlx5_1", "").0);
    let mut ports = node.ports("virtual_functions = true");
    assert_eq!(names(&ports), ["mlx5_0/1", "mlx5_1/1", "mlx5_2/1", "mlx5_3/1"]);
    let functions: Vec<String> = ports
        .iter_mut()
        .map(|port| {
            let readings = read(&mut **port);
            let info = readings
                .keys()
                .find(|s| s.starts_with("rdma_port_info "))
                .unwrap();
            format!(
                "{} {}",
                info.split(' ').nth(5).unwrap(),
                info.rsplit(' ').next().unwrap()
            )
        })
        .collect();
    assert_eq!(
        functions,
        [
            "0000:3b:00.0 physical",
            "0000:3b:00.1 virtual",
            "0000:3b:00.2 virtual",
            // A subfunction has no PCI address.
            "0000:3b:00.0 virtual",
        ]
    );
}

#[test]
fn what_cannot_be_found_out_fails_the_scan_and_leaves_nothing_in() {
    // A file instead of a link, so that it exists and cannot be followed.
    for (settings, file) in [
        ("exclude_pci = [\"0000:3b:*\"]", "infiniband/mlx5_0/device"),
        ("", "0000:3b:00.0/physfn"),
        ("exclude_netdevs = [\"bond0\"]", "0000:3b:00.0/net/ens3/master"),
        ("exclude_netdevs = [\"bond0\"]", "0000:3b:00.0/net"),
    ] {
        let node = Node::with(&["mlx5_0"]);
        node.write("0000:3b:00.0/net/ens3/dev_port", "0\n");
        node.link("infiniband/mlx5_0/device", "../../0000:3b:00.0");
        node.remove(file);
        node.write(file, "not a link");
        let error = node.devices(settings).scan().map(|ports| ports.len());
        assert_eq!(error.unwrap_err().reason(), "io", "{file}");
    }
}

#[test]
fn an_interface_that_a_bond_takes_changes_the_list_where_interfaces_decide() {
    let node = Node::with(&["mlx5_0"]);
    node.write("0000:3b:00.0/net/ens3/dev_port", "0\n");
    node.link("infiniband/mlx5_0/device", "../../0000:3b:00.0");
    let mut devices = node.devices("exclude_netdevs = [\"bond0\"]");
    assert_eq!(devices.scan().unwrap().len(), 1);
    assert!(!devices.changed());
    node.link("0000:3b:00.0/net/ens3/master", "../../../net/bond0");
    assert!(devices.changed());
    assert!(devices.scan().unwrap().is_empty());
    assert!(!devices.changed());
}

#[test]
fn only_an_auxiliary_device_below_a_function_is_a_subfunction() {
    for (parent, bus, taken) in [
        ("platform/HISI00D1:00", "platform", true),
        ("0000:00:04.0/virtio1", "virtio", true),
        ("0000:00:04.0/mlx5_core.sf.2", "auxiliary", false),
        ("virtual/some.roce.0", "auxiliary", true),
    ] {
        let node = Node::with(&["rdma0"]);
        node.link(&format!("{parent}/subsystem"), Path::new("/sys/bus").join(bus));
        node.link("infiniband/rdma0/device", Path::new("../..").join(parent));
        assert_eq!(node.ports("").len(), usize::from(taken), "{parent}");
        assert_eq!(node.ports("virtual_functions = true").len(), 1, "{parent}");
    }
}
