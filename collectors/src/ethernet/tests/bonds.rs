//! Ports whose interface is a bond: each member is read.

use super::*;

const SLAVES: &str = "sys/devices/virtual/net/bond0/bonding/slaves";
const NDEV: &str = "sys/devices/pci0000:00/0000:01:00.0/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0";

/// RoCE LAG: one RDMA device for both functions of a card.
fn lag() -> Node {
    let node = Node::with_mlx5();
    node.write("sys/devices/virtual/net/bond0/mtu", "9000\n");
    node.link("sys/class/net/bond0", "../../devices/virtual/net/bond0");
    node.write(SLAVES, "eth0 eth1\n");
    node.write(NDEV, "bond0\n");
    node.interface("eth1", "0000:01:00.1");
    node.world.net("eth1", Net::mlx5(4));
    node.world.net("bond0", Net::mlx5(3));
    node
}

fn names(reading: &BTreeMap<String, Reading>) -> Vec<&str> {
    let with = reading
        .iter()
        .filter(|(_, r)| r.contains_key("ethernet_call_seconds statistics"));
    with.map(|(name, _)| name.as_str()).collect()
}

#[test]
fn each_member_has_its_own_series_and_the_bond_is_not_asked() {
    let node = lag();
    let reading = read_each(&mut *node.port());
    for (name, priority) in [("eth0", 3), ("eth1", 4)] {
        let frames = format!("pfc_rx_frames_total {priority}");
        assert_eq!(
            values(&reading[name], [&frames, "port_mtu_bytes", "ethernet_resting"]),
            [Some(7.0), Some(4200.0), None]
        );
    }
    let of_bond = BTreeMap::from([
        ("port_mtu_bytes".to_owned(), 9000.0),
        ("ethernet_resting".to_owned(), 0.0),
    ]);
    assert_eq!(reading["bond0"], of_bond);
    let calls = node.world.calls();
    assert!(calls.iter().all(|c| !c.ends_with("bond0")), "{calls:?}");
}

#[test]
fn a_member_that_leaves_or_joins_is_noticed_at_the_next_reading() {
    let node = lag();
    let mut port = node.port();
    assert_eq!(names(&read_each(&mut *port)), ["eth0", "eth1"]);
    node.write(SLAVES, "eth1\n");
    let reading = read_each(&mut *port);
    assert_eq!(names(&reading), ["eth1"]);
    assert!(!reading.contains_key("eth0"));
    node.write(SLAVES, "eth1 eth0\n");
    assert_eq!(names(&read_each(&mut *port)), ["eth0", "eth1"]);
    node.write(SLAVES, "\n");
    let reading = read_each(&mut *port);
    assert_eq!(
        values(&reading["bond0"], ["ethernet_unreadable dcb stacked"]),
        [Some(1.0)]
    );
    assert_eq!(reading.len(), 1);
}

#[test]
fn the_links_name_the_members_of_another_interface_above_others() {
    let node = lag();
    node.remove(SLAVES);
    for name in ["eth0", "eth1"] {
        node.link(
            &format!("sys/devices/virtual/net/bond0/lower_{name}"),
            &format!("../../../pci0000:00/0000:01:00.0/net/{name}"),
        );
    }
    assert_eq!(names(&read_each(&mut *node.port())), ["eth0", "eth1"]);
}

/// Two adapters in a bond without RoCE LAG: each RDMA device has its own interface.
#[test]
fn a_member_is_read_once_by_the_device_that_it_belongs_to() {
    let node = lag();
    node.add("mlx5_1", "0000:02:00.0", "mlx5_core", "eth2");
    node.add("mlx5_2", "0000:01:00.2", "mlx5_core", "eth3");
    for netdev in ["eth2", "eth3"] {
        node.world.net(netdev, Net::mlx5(3));
    }
    node.write(SLAVES, "eth0 eth2 eth3\n");
    for device in ["0000:02:00.0/infiniband/mlx5_1", "0000:01:00.2/infiniband/mlx5_2"] {
        let ndev = format!("sys/devices/pci0000:00/{device}/ports/1/gid_attrs/ndevs/0");
        node.write(&ndev, "bond0\n");
    }
    let mut read: Vec<Vec<String>> = Vec::new();
    for port in &mut node.ports("") {
        let reading = read_each(&mut **port);
        read.push(names(&reading).into_iter().map(str::to_owned).collect());
    }
    assert_eq!(read, [["eth0"], ["eth2"], ["eth3"]]);
}

#[test]
fn a_port_of_a_device_with_two_has_the_member_with_its_number() {
    let node = lag();
    let function = "sys/devices/pci0000:00/0000:01:00.0";
    node.write(
        &format!("{function}/infiniband/mlx5_0/ports/2/link_layer"),
        "Ethernet\n",
    );
    node.write(
        &format!("{function}/infiniband/mlx5_0/ports/2/gid_attrs/ndevs/0"),
        "bond0\n",
    );
    node.interface("eth5", "0000:01:00.0");
    node.world.net("eth5", Net::mlx5(3));
    node.write(&format!("{function}/net/eth0/dev_port"), "0\n");
    node.write(&format!("{function}/net/eth5/dev_port"), "1\n");
    node.write(SLAVES, "eth0 eth5\n");
    let mut ports = node.ports("");
    let found: Vec<_> = ports.iter_mut().map(|p| read_each(&mut **p)).collect();
    assert_eq!([names(&found[0]), names(&found[1])], [["eth0"], ["eth5"]]);
}

#[test]
fn a_slow_member_suspends_the_bond_since_both_share_their_card() {
    let node = lag();
    node.world
        .net("eth0", Net::mlx5(3).taking(Duration::from_millis(300)));
    let mut port = node.port();
    let reading = read_each(&mut *port);
    assert_eq!(values(&reading["bond0"], ["ethernet_resting"]), [Some(1.0)]);
    assert_eq!(
        values(&reading["eth1"], ["ethernet_unreadable dcb resting"]),
        [Some(1.0)]
    );
    assert!(!node.world.calls().contains(&"dcb eth1".to_owned()));
}

#[test]
fn a_bond_without_flow_control_is_read_every_minute() {
    let node = lag();
    for netdev in ["eth0", "eth1"] {
        node.world.net(netdev, Net::lossy());
    }
    let mut port = node.port();
    for due in [true, false, true, false] {
        assert_eq!(port.is_due(), due);
        if due {
            assert_eq!(names(&read_each(&mut *port)), ["eth0", "eth1"]);
        }
        node.world.pass(30 * SECOND);
    }
    // One member with flow control is enough.
    node.world.net("eth1", Net::mlx5(3));
    read_each(&mut *port);
    node.world.pass(30 * SECOND);
    assert!(port.is_due());
}
