//! Excluded ports are never queried.

use super::*;

/// The number of queries to `eth0` in 2 readings of all ports under these rules of `rdma`.
fn asked(node: &Node, rules: &str) -> usize {
    let mut ports = node.ports(rules);
    for _ in 0..2 {
        for port in &mut ports {
            read(&mut **port);
        }
        node.world.pass(60 * SECOND);
    }
    let calls = node.world.calls();
    calls.iter().filter(|c| c.ends_with("eth0")).count()
}

#[test]
fn a_port_that_the_rules_of_rdma_leave_out_is_asked_nothing() {
    let node = Node::with_mlx5();
    node.add("mlx5_1", "0000:02:00.0", "mlx5_core", "eth1");
    node.world.net("eth1", Net::mlx5(3));
    assert!(asked(&node, "") > 4);
    for rules in [
        "exclude = [\"mlx5_0\"]",
        "exclude = [\"mlx5_0/1\"]",
        "include = [\"mlx5_1\"]",
        "exclude_netdevs = [\"eth0\"]",
        "exclude_pci = [\"0000:01:*\"]",
    ] {
        assert_eq!(asked(&node, rules), 0, "{rules}");
    }
}

#[test]
fn a_virtual_function_is_asked_only_where_the_rules_of_rdma_take_it() {
    let node = Node::with_mlx5();
    node.link("sys/devices/pci0000:00/0000:01:00.0/physfn", "../0000:01:00.1");
    assert_eq!(asked(&node, ""), 0);
    assert!(asked(&node, "virtual_functions = true") > 0);
}

#[test]
fn a_port_of_infiniband_is_no_device_here() {
    let node = Node::with_mlx5();
    let layer = "sys/devices/pci0000:00/0000:01:00.0/infiniband/mlx5_0/ports/1/link_layer";
    node.write(layer, "InfiniBand\n");
    assert!(node.ports("").is_empty());
}

/// An interface in another network namespace leaves its name free for others.
#[test]
fn an_interface_of_that_name_on_another_card_is_asked_nothing() {
    let node = Node::with_mlx5();
    node.write("sys/devices/pci0000:80/0000:81:00.0/net/eth7/mtu", "1500\n");
    node.link(
        "sys/devices/pci0000:80/0000:81:00.0/net/eth7/device",
        "../../../0000:81:00.0",
    );
    node.link(
        "sys/class/net/eth7",
        "../../devices/pci0000:80/0000:81:00.0/net/eth7",
    );
    let ndev = "sys/devices/pci0000:00/0000:01:00.0/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0";
    node.world.net("eth7", Net::mlx5(3));
    // One bus, as in a virtual machine.
    node.add("mlx5_9", "0000:02:00.0", "mlx5_core", "eth9");
    node.world.net("eth9", Net::mlx5(3));
    for (netdev, reason) in [("eth7", "gone"), ("eth8", "gone"), ("eth9", "gone")] {
        node.write(ndev, &format!("{netdev}\n"));
        let reading = read(&mut *node.ports("exclude = [\"mlx5_9\"]").remove(0));
        let why = format!("ethernet_unreadable dcb {reason}");
        assert_eq!(values(&reading, [&why]), [Some(1.0)], "{netdev}");
        assert_eq!(node.world.calls(), Vec::<String>::new(), "{netdev}");
    }
}

#[test]
fn an_interface_on_the_cards_other_function_is_asked() {
    let node = Node::with_mlx5();
    node.add("mlx5_9", "0000:01:00.1", "mlx5_core", "eth9");
    node.world.net("eth9", Net::mlx5(3));
    let ndev = "sys/devices/pci0000:00/0000:01:00.0/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0";
    node.write(ndev, "eth9\n");
    let reading = read(&mut *node.ports("exclude = [\"mlx5_9\"]").remove(0));
    assert_eq!(values(&reading, ["pfc_rx_frames_total 3"]), [Some(7.0)]);
}

const GUID: &str = "5054:00ff:fe12:3456\n";

/// The files name an interface of the card's other function, whose name was the port's own in another network
/// namespace.
#[test]
fn netlink_says_which_interface_is_the_ports_own_where_the_files_name_another() {
    let node = Node {
        rdma: Answering::with_port((4, 5), Some((7, "eth0"))),
        ..Node::with_mlx5()
    };
    node.add("mlx5_9", "0000:01:00.1", "mlx5_core", "eth9");
    node.world.net("eth9", Net::mlx5(3));
    let folder = "sys/devices/pci0000:00/0000:01:00.0/infiniband/mlx5_0";
    node.write(&format!("{folder}/node_guid"), GUID);
    node.write(&format!("{folder}/ports/1/gid_attrs/ndevs/0"), "eth9\n");
    let mut port = node.ports("exclude = [\"mlx5_9\"]").remove(0);
    assert_eq!(values(&read(&mut *port), ["pfc_rx_frames_total 3"]), [Some(7.0)]);
    let calls = node.world.calls();
    assert!(
        calls.len() > 4 && calls.iter().all(|c| !c.ends_with("eth9")),
        "{calls:?}"
    );
    // The interface moved to another network namespace, and the one that the files name is still not the port's.
    node.rdma.will_tell((4, 5), None);
    node.write(&format!("{folder}/ports/1/gid_attrs/ndevs/0"), "eth0\n");
    node.remove("sys/class/net/eth0");
    let reading = read(&mut *port);
    assert_eq!(values(&reading, ["ethernet_unreadable dcb gone"]), [Some(1.0)]);
    assert_eq!(node.world.calls(), Vec::<String>::new());
}

/// Some drivers take RTNL to answer, which a stuck call holds.
#[test]
fn while_a_call_is_in_flight_no_port_queries_its_interface() {
    let node = Node {
        rdma: Answering::with_port((4, 5), Some((7, "eth0"))),
        ..Node::with_mlx5()
    };
    let folder = "sys/devices/pci0000:00/0000:01:00.0/infiniband/mlx5_0";
    node.write(&format!("{folder}/node_guid"), GUID);
    let second = format!("{folder}/ports/2");
    node.write(&format!("{second}/link_layer"), "Ethernet\n");
    node.write(&format!("{second}/gid_attrs/ndevs/0"), "eth0\n");
    let mut ports = node.ports("");
    let other = std::sync::Mutex::new(ports.pop().unwrap());
    let rdma = node.rdma.clone();
    let asked = Arc::new(std::sync::Mutex::new(None));
    let seen = Arc::clone(&asked);
    node.world.on_call(move |_, call| {
        if call == "dcb eth0" {
            rdma.asked_in_all();
            let reading = read(&mut **other.lock().unwrap());
            assert_eq!(values(&reading, ["ethernet_unreadable dcb busy"]), [Some(1.0)]);
            *seen.lock().unwrap() = Some(rdma.asked_in_all());
        }
    });
    read(&mut *ports[0]);
    assert_eq!(*asked.lock().unwrap(), Some(0));
}
