//! A port whose kernel answers by netlink beside its files.

use super::*;
use crate::rdma::attribute::AttributeFiles;
use crate::rdma::function::DeviceFunction;
use crate::rdma::netlink_port::tests::Answering;
use crate::rdma::port::{PortLocation, RdmaPort};
use crate::rdma::stats::DeviceKey;
use nix::errno::Errno;
use std::time::Instant;

/// Port 1 of `mlx5_0`, and who answers for it.
fn port(node: &Node, kernel: &Answering) -> RdmaPort {
    RdmaPort::with_kernel(place(node), &files(), Box::new(kernel.clone()))
}

fn files() -> AttributeFiles {
    AttributeFiles {
        budget: DescriptorBudget::new(100),
        on_disk: false,
    }
}

fn place(node: &Node) -> PortLocation {
    PortLocation {
        recorded: None,
        device: "mlx5_0".to_owned(),
        port: "1".to_owned(),
        of: 1,
        folder: node.path("infiniband/mlx5_0"),
        net: node.path("net"),
        function: DeviceFunction::default(),
        numa_node: String::new(),
        speaks_for_device: true,
        netlink: Some(DeviceKey {
            device: "mlx5_0".to_owned(),
            guid: Some("5054:00ff:fe12:3456".to_owned()),
        }),
    }
}

fn netdev(readings: &BTreeMap<String, u64>) -> Option<String> {
    let info = readings.keys().find(|k| k.starts_with("rdma_port_info "))?;
    info.split(' ').nth(4).map(str::to_owned)
}

#[test]
fn netlink_tells_states_interface_and_what_is_open() {
    let node = Node::with(&["mlx5_0"]);
    node.write("infiniband/mlx5_0/ports/1/link_layer", "Ethernet\n");
    node.write("infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "before\n");
    node.write("net/ens1/carrier_down_count", "6\n");
    let kernel = Answering::with_port((1, 3), Some((7, "ens1")));
    let mut port = port(&node, &kernel);
    let readings = read(&mut port);
    assert_eq!(value(&readings, "rdma_port_state mlx5_0 1"), Some(1));
    assert_eq!(value(&readings, "rdma_port_physical_state mlx5_0 1"), Some(3));
    assert_eq!(netdev(&readings).as_deref(), Some("ens1"));
    assert_eq!(value(&readings, "rdma_port_carrier_down_total mlx5_0 1"), Some(6));
    assert_eq!(value(&readings, "rdma_resources mlx5_0 qp"), Some(70));
    // A renamed interface shows at once, and counts under its new name.
    node.write("net/net0/carrier_down_count", "8\n");
    kernel.will_tell((4, 5), Some((7, "net0")));
    let readings = read(&mut port);
    assert_eq!(value(&readings, "rdma_port_state mlx5_0 1"), Some(4));
    assert_eq!(netdev(&readings).as_deref(), Some("net0"));
    assert_eq!(value(&readings, "rdma_port_carrier_down_total mlx5_0 1"), Some(8));
}

#[test]
fn where_netlink_refuses_the_files_tell_and_nothing_is_missing() {
    for errno in [
        Errno::EINVAL,
        Errno::EMSGSIZE,
        Errno::EPROTONOSUPPORT,
        Errno::EOPNOTSUPP,
    ] {
        let node = Node::with(&["mlx5_0"]);
        let kernel = Answering::with_port((1, 3), None);
        kernel.will_refuse(errno);
        let readings = read(&mut port(&node, &kernel));
        assert_eq!(value(&readings, "rdma_port_state mlx5_0 1"), Some(4), "{errno}");
        assert_eq!(value(&readings, "rdma_port_physical_state mlx5_0 1"), Some(5));
        assert_eq!(value(&readings, "rdma_resources mlx5_0 qp"), None);
        assert!(Reason::ALL.iter().all(|r| unreadable(&readings, r.word()) == 0));
    }
}

/// Before Linux 6.6 each of them writes a line into the kernel log about a speed that is unknown.
#[test]
fn a_driver_is_not_asked_again_about_a_link_that_is_down() {
    for (driver, by_netlink, again) in [
        ("bnxt_en", true, 0),
        ("bnxt_en", false, 0),
        ("mlx5_core", true, 1),
    ] {
        let node = Node::with(&["mlx5_0"]);
        let port_file = |name: &str| format!("infiniband/mlx5_0/ports/1/{name}");
        node.write(&port_file("link_layer"), "Ethernet\n");
        node.write(&port_file("gid_attrs/ndevs/0"), "ens1\n");
        node.write("net/ens1/operstate", "down\n");
        let states = |state: &str, physical: &str| {
            node.write(&port_file("state"), &format!("{state}\n"));
            node.write(&port_file("phys_state"), &format!("{physical}\n"));
        };
        states("1: DOWN", "3: Disabled");
        let kernel = Answering::with_port((1, 3), Some((7, "ens1")));
        let function = DeviceFunction {
            driver: driver.to_owned(),
            ..DeviceFunction::default()
        };
        let mut place = place(&node);
        place.function = function;
        place.netlink = place.netlink.filter(|_| by_netlink);
        let mut port = RdmaPort::with_kernel(place, &files(), Box::new(kernel.clone()));
        let states_of = |readings: &BTreeMap<String, u64>| {
            ["rdma_port_state mlx5_0 1", "rdma_port_physical_state mlx5_0 1"]
                .map(|name| value(readings, name))
        };
        assert_eq!(states_of(&read(&mut port)), [Some(1), Some(3)]);
        kernel.asked_in_all();
        // Only an answer that was not asked for is the old one.
        states("4: ACTIVE", "5: LinkUp");
        assert_eq!(
            states_of(&read(&mut port)),
            [Some(1), Some(3)],
            "{driver} {by_netlink}"
        );
        assert_eq!(kernel.asked_in_all(), again, "{driver}");
        kernel.will_tell((4, 5), Some((7, "ens1")));
        node.write("net/ens1/operstate", "up\n");
        assert_eq!(states_of(&read(&mut port)), [Some(4), Some(5)]);
    }
}

/// Kernels before 5.4 answer one request at a time.
#[test]
fn while_another_ports_request_is_stuck_the_files_tell() {
    let node = Node::with(&["mlx5_0"]);
    let kernel = Answering::with_port((1, 3), None);
    let mut port = port(&node, &kernel);
    assert_eq!(value(&read(&mut port), "rdma_port_state mlx5_0 1"), Some(1));
    kernel.will_be_busy();
    for _ in 0..5 {
        let readings = read(&mut port);
        assert_eq!(value(&readings, "rdma_port_state mlx5_0 1"), Some(4));
        assert_eq!(value(&readings, "rdma_hw_counters_info mlx5_0 1 sysfs"), Some(1));
        assert!(Reason::ALL.iter().all(|r| unreadable(&readings, r.word()) == 0));
    }
    kernel.will_tell((1, 3), None);
    assert_eq!(value(&read(&mut port), "rdma_port_state mlx5_0 1"), Some(1));
}

/// RDMA's network namespaces in mode `shared`: the device is everywhere, its interface in one of them.
#[test]
fn an_interface_in_another_network_namespace_is_none_here_though_the_files_name_one() {
    let node = Node::with(&["mlx5_0"]);
    node.write("infiniband/mlx5_0/ports/1/link_layer", "Ethernet\n");
    node.write("infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "eth0\n");
    let kernel = Answering::with_port((4, 5), None);
    assert_eq!(netdev(&read(&mut port(&node, &kernel))).as_deref(), Some(""));
}

/// Some drivers tell RDMA of no interface, and kernels before 5.0 of few.
#[test]
fn an_interface_that_netlink_does_not_name_is_the_one_on_the_function_here() {
    let node = Node::with(&["mana_0"]);
    let (own, other) = ("0000:3b:00.0", "0000:3c:00.0");
    node.write("infiniband/mana_0/ports/1/link_layer", "Ethernet\n");
    node.write("infiniband/mana_0/ports/1/gid_attrs/ndevs/0", "eth1\n");
    for (function, expected) in [(own, "eth1"), (other, "")] {
        let device = node.path(&format!("../devices/pci0000:3a/{function}"));
        fs::create_dir_all(&device).unwrap();
        node.link("net/eth1/device", &device);
        let kernel = Answering::with_port((4, 5), None);
        let place = PortLocation {
            device: "mlx5_0".to_owned(),
            folder: node.path("infiniband/mana_0"),
            function: DeviceFunction {
                pci: own.to_owned(),
                ..DeviceFunction::default()
            },
            ..place(&node)
        };
        let mut port = RdmaPort::with_kernel(place, &files(), Box::new(kernel));
        assert_eq!(netdev(&read(&mut port)).as_deref(), Some(expected), "{function}");
    }
}

/// What netlink names is the interface of the bond that carries a flow just now, and moves.
#[test]
fn a_bonded_port_has_the_bond_for_its_interface_and_no_carrier_of_its_own() {
    let node = Node::with(&["mlx5_0"]);
    node.write("infiniband/mlx5_0/ports/1/link_layer", "Ethernet\n");
    node.write("net/bond0/bonding/mode", "802.3ad 4\n");
    for (slave, count) in [("ens1", 6), ("ens2", 9)] {
        node.write(&format!("net/{slave}/carrier_down_count"), &format!("{count}\n"));
        node.write(&format!("net/{slave}/operstate"), "down\n");
        node.link(&format!("net/{slave}/master"), "../bond0");
    }
    let kernel = Answering::with_port((4, 5), Some((7, "ens1")));
    let hub = Hub::new(None);
    hub.list(Instant::now(), &[("mlx5_0".to_owned(), 1)]);
    let mut port = port(&node, &kernel).with_hub(&hub);
    for (index, slave) in [(7, "ens1"), (8, "ens2"), (7, "ens1")] {
        kernel.will_tell((4, 5), Some((index, slave)));
        let readings = read(&mut port);
        assert_eq!(netdev(&readings).as_deref(), Some("bond0"));
        assert_eq!(value(&readings, "rdma_port_carrier_down_total mlx5_0 1"), None);
        assert_eq!(value(&readings, "rdma_port_netdev_up mlx5_0 1"), None);
        assert_eq!(
            hub.listed().unwrap().1["mlx5_0"][&1],
            "",
            "the link of no port is watched"
        );
    }
    // A bridge takes interfaces too, and leaves their carrier theirs.
    node.link("net/ens2/master", "../bridge0");
    node.write("net/bridge0/bridge/stp_state", "0\n");
    kernel.will_tell((4, 5), Some((8, "ens2")));
    let readings = read(&mut port);
    assert_eq!(netdev(&readings).as_deref(), Some("ens2"));
    assert_eq!(value(&readings, "rdma_port_carrier_down_total mlx5_0 1"), Some(9));
}

#[test]
fn the_interface_of_an_infiniband_port_comes_from_its_function() {
    let node = Node::with(&["mlx5_0"]);
    node.write("infiniband/mlx5_0/device/net/ibs1/mtu", "2044\n");
    let kernel = Answering::with_port((4, 5), None);
    assert_eq!(netdev(&read(&mut port(&node, &kernel))).as_deref(), Some("ibs1"));
}
