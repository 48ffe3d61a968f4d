//! Faults of one file of a port. Each costs its own value and is counted.

use nix::unistd::{Uid, setfsuid};

use super::*;
use crate::rdma::attribute::AttributeFiles;
use crate::rdma::function::DeviceFunction;
use crate::rdma::port::{PortLocation, RdmaPort};
use crate::rdma::text::Reason;
use crate::sys::kept::count;
use crate::sys::netlink::IdleSocket;

const FILE: &str = "infiniband/mlx5_0/ports/1/counters/symbol_error";
const SERIES: &str = "rdma_symbol_error_total mlx5_0 1";

/// Checks everything but the broken value, and the values of the port beside it.
fn others_are_read(node: &Node, ports: &mut [Box<dyn Device>]) {
    let [broken, good] = ports else {
        panic!("two ports")
    };
    let broken = read(&mut **broken);
    for (series, expected) in [
        ("rdma_port_state mlx5_0 1", 4),
        ("rdma_port_rate_bytes_per_second mlx5_0 1", 50_000_000_000),
        ("rdma_link_downed_total mlx5_0 1", 1),
        ("rdma_rx_write_requests_total mlx5_0 1", 4),
    ] {
        assert_eq!(value(&broken, series), Some(expected), "{series}: {:?}", node.dir);
    }
    let good = read(&mut **good);
    assert_eq!(value(&good, "rdma_symbol_error_total mlx5_1 1"), Some(2));
    assert!(Reason::ALL.iter().all(|r| unreadable(&good, r.word()) == 0));
}

/// One faulty file beside good ones: absent, counted under `reason`, and everything else as before.
fn costs_one_value(reason: &str, spoil: impl Fn(&Node)) {
    let node = Node::with(&["mlx5_0", "mlx5_1"]);
    // Both at the first reading and after one that was good.
    for good_before in [false, true] {
        node.remove(FILE);
        node.write(FILE, "2\n");
        let mut ports = node.ports("");
        if good_before {
            assert_eq!(value(&read(&mut *ports[0]), SERIES), Some(2));
        }
        spoil(&node);
        let ports = &mut if good_before && node.path(FILE).is_symlink() {
            // An open descriptor keeps its content when a link changes.
            node.ports("")
        } else {
            ports
        };
        let broken = read(&mut *ports[0]);
        assert_eq!(value(&broken, SERIES), None, "{reason}");
        assert_eq!(unreadable(&broken, reason), 1, "{reason}: {broken:?}");
        others_are_read(&node, ports);
    }
}

#[test]
fn what_is_no_number_is_absent_and_never_zero() {
    for (reason, text) in [
        ("empty", ""),
        ("empty", "\n"),
        ("malformed", "-1\n"),
        ("malformed", "0x10\n"),
        ("malformed", "12 34\n"),
        ("malformed", "99999999999999999999\n"),
        ("malformed", "\u{0}\u{1}\u{2}"),
        ("all_ones", "18446744073709551615\n"),
        ("unsupported", "N/A (no PMA)\n"),
    ] {
        costs_one_value(reason, |node| node.write(FILE, text));
    }
    costs_one_value("malformed", |node| node.write(FILE, &"1".repeat(100_000)));
}

#[test]
fn what_the_driver_refuses_is_absent() {
    // The loopback interface has no speed: its driver answers EINVAL, as mana does for a rate.
    let speed = "/sys/class/net/lo/speed";
    assert_eq!(fs::read(speed).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    costs_one_value("rejected", |node| node.link(FILE, speed));
}

#[test]
fn a_rate_that_the_driver_refuses_costs_the_rate_alone() {
    let node = Node::with(&["mana_0"]);
    node.link("infiniband/mana_0/ports/1/rate", "/sys/class/net/lo/speed");
    let readings = read(&mut *node.ports("")[0]);
    assert_eq!(value(&readings, "rdma_port_state mana_0 1"), Some(4));
    assert_eq!(value(&readings, "rdma_port_rate_bytes_per_second mana_0 1"), None);
    assert_eq!(value(&readings, "rdma_port_lanes mana_0 1"), None);
    assert_eq!(unreadable(&readings, "rejected"), 1);
}

/// `ib_get_eth_speed` invents a rate, with a warning in the kernel log.
#[test]
fn the_rate_of_an_ethernet_port_that_is_down_is_not_asked_for() {
    for (layer, driver, is_asked) in [
        ("Ethernet", "irdma", false),
        ("Ethernet", "mlx5_core", true),
        ("InfiniBand", "mlx5_core", true),
    ] {
        let node = Node::with(&["mlx5_0"]);
        let function = "../devices/pci0000:3a/0000:3b:00.0";
        node.link(
            &format!("{function}/driver"),
            format!("/sys/bus/pci/drivers/{driver}"),
        );
        node.link("infiniband/mlx5_0/device", node.path(function));
        node.write("infiniband/mlx5_0/ports/1/link_layer", &format!("{layer}\n"));
        let rate = |port: &mut dyn Device| value(&read(port), "rdma_port_rate_bytes_per_second mlx5_0 1");
        let mut port = node.ports("").remove(0);
        let up = rate(&mut *port);
        assert_eq!(up, Some(50_000_000_000));
        for (state, expected) in [
            ("1: DOWN", up.filter(|_| is_asked)),
            ("2: INIT", up),
            ("garbled", up),
            ("4: ACTIVE", up),
        ] {
            node.write("infiniband/mlx5_0/ports/1/state", &format!("{state}\n"));
            assert_eq!(rate(&mut *port), expected, "{layer} {driver} {state}");
        }
        node.write("infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
        node.link("infiniband/mlx5_0/ports/1/rate", "/sys/class/net/lo/speed");
        let readings = read(&mut *node.ports("").remove(0));
        assert_eq!(
            unreadable(&readings, "rejected"),
            u64::from(is_asked),
            "{layer} {driver}"
        );
    }
}

#[test]
fn what_may_not_be_read_is_absent() {
    let node = Node::with(&["mlx5_0", "mlx5_1"]);
    fs::set_permissions(node.path(FILE), fs::Permissions::from_mode(0o000)).unwrap();
    let env = node.env();
    // Root could read the file otherwise. The change applies to this thread only.
    let reader = std::thread::spawn(move || {
        setfsuid(Uid::from_raw(65534));
        let opened = open(&env, &Settings::default()).unwrap();
        let mut ports = opened.unwrap().devices.scan().unwrap();
        ports.iter_mut().map(|p| read(&mut **p)).collect::<Vec<_>>()
    });
    let readings = reader.join().unwrap();
    assert_eq!(value(&readings[0], SERIES), None);
    assert_eq!(unreadable(&readings[0], "denied"), 1);
    assert_eq!(value(&readings[0], "rdma_port_state mlx5_0 1"), Some(4));
    assert_eq!(value(&readings[1], "rdma_symbol_error_total mlx5_1 1"), Some(2));
}

#[test]
fn a_file_that_vanishes_is_absent_and_read_again_when_it_is_back() {
    let node = Node::with(&["mlx5_0"]);
    // A removed file of sysfs returns ENODEV on an open descriptor; the folder of a recording reports it.
    let env = Env {
        recorded: Some(node.dir.path().to_owned()),
        ..node.env()
    };
    let mut devices = open(&env, &Settings::default()).unwrap().unwrap().devices;
    let mut ports = devices.scan().unwrap();
    assert_eq!(value(&read(&mut *ports[0]), SERIES), Some(2));
    node.remove(FILE);
    assert!(!devices.changed());
    let readings = read(&mut *ports[0]);
    assert_eq!(value(&readings, SERIES), None);
    assert_eq!(unreadable(&readings, "gone"), 1);
    node.write(FILE, "7\n");
    assert!(!devices.changed());
    assert_eq!(value(&read(&mut *ports[0]), SERIES), Some(7));
}

#[test]
fn a_port_that_has_gone_is_an_error_with_its_reason() {
    let node = Node::with(&["mlx5_0"]);
    let env = Env {
        recorded: Some(node.dir.path().to_owned()),
        ..node.env()
    };
    let mut devices = open(&env, &Settings::default()).unwrap().unwrap().devices;
    let mut ports = devices.scan().unwrap();
    read(&mut *ports[0]);
    node.remove("infiniband/mlx5_0");
    assert!(devices.changed());
    let error = ports[0].read(&mut Block::default()).unwrap_err();
    assert_eq!(error.reason(), "gone");
    assert!(error.to_string().contains("infiniband/mlx5_0/ports/1"), "{error}");
    // It is back before any scan.
    node.add("mlx5_0", "1");
    assert_eq!(value(&read(&mut *ports[0]), SERIES), Some(2));
}

#[test]
fn a_counter_at_its_maximum_is_flagged_and_its_neighbours_are_not() {
    let node = Node::with(&["mlx5_0"]);
    let mut ports = node.ports("");
    for (text, saturated) in [("254\n", None), ("255\n", Some(1)), ("0\n", None)] {
        node.write("infiniband/mlx5_0/ports/1/counters/link_downed", text);
        let readings = read(&mut *ports[0]);
        assert_eq!(
            value(&readings, "rdma_counter_saturated mlx5_0 1 link_downed"),
            saturated
        );
        assert_eq!(
            value(&readings, "rdma_counter_saturated mlx5_0 1 symbol_error"),
            None
        );
        assert_eq!(
            value(&readings, "rdma_port_saturated_counters mlx5_0 1"),
            Some(saturated.unwrap_or(0))
        );
    }
    // If none is readable, none is known to count.
    for file in [
        "counters/link_downed",
        "counters/symbol_error",
        "hw_counters/out_of_buffer",
        "hw_counters/rx_write_requests",
    ] {
        node.write(&format!("infiniband/mlx5_0/ports/1/{file}"), "");
    }
    let readings = read(&mut *ports[0]);
    assert_eq!(value(&readings, "rdma_port_saturated_counters mlx5_0 1"), None);
}

#[test]
fn behind_a_file_that_took_too_long_nothing_is_read_and_nothing_shown() {
    let node = Node::with(&["mlx5_0"]);
    let place = PortLocation {
        device: "mlx5_0".to_owned(),
        port: "1".to_owned(),
        of: 1,
        folder: node.path("infiniband/mlx5_0"),
        net: node.path("net"),
        function: DeviceFunction::default(),
        numa_node: String::new(),
        speaks_for_device: true,
        netlink: None,
        recorded: None,
    };
    let files = AttributeFiles {
        budget: DescriptorBudget::new(100),
        on_disk: true,
    };
    let mut port = RdmaPort::new(place, &files, &IdleSocket::new());
    count::take();
    let error = port
        .read_within(Duration::ZERO, &mut Block::default())
        .unwrap_err();
    assert_eq!(count::take().1, 1, "the first file");
    assert_eq!(error.reason(), "slow");
    assert!(error.to_string().contains("infiniband/mlx5_0/ports/1"), "{error}");
    let mut block = Block::default();
    port.read_within(Duration::from_secs(3600), &mut block).unwrap();
}
