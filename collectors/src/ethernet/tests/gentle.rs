//! How rarely drivers are asked.

use std::sync::mpsc;
use std::thread;

use super::*;
use crate::ethernet::metrics::Owner;
use crate::ethernet::setup::EthernetSetup;

/// Longer than any test takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_port_without_flow_control_is_read_every_minute_and_one_with_it_every_half() {
    let node = Node::with_mlx5();
    for (net, readings) in [(Net::without(), 5), (Net::lossy(), 5), (Net::mlx5(3), 10)] {
        node.world.net("eth0", net);
        let found = batches(&node.world, &mut *node.port(), 300 * SECOND);
        assert_eq!(found.len(), readings);
    }
    // Flow control that is switched on is seen after a minute, and off as well.
    node.world.net("eth0", Net::without());
    let mut port = node.port();
    read(&mut *port);
    node.world.net("eth0", Net::mlx5(3));
    node.world.pass(60 * SECOND);
    for (net, due) in [
        (Net::mlx5(3), true),
        (Net::without(), true),
        (Net::without(), false),
    ] {
        assert_eq!(port.is_due(), due);
        if due {
            node.world.net("eth0", net);
            read(&mut *port);
            node.world.pass(30 * SECOND);
        }
    }
}

/// Every batch begins some milliseconds late, and the ports before this one take longer or shorter.
#[test]
fn a_batch_that_begins_early_or_late_skips_no_second_reading() {
    let node = Node::with_mlx5();
    node.world.net("eth0", Net::without());
    for ms in [29_000, 30_000, 33_000, 44_000] {
        let mut port = node.port();
        read(&mut *port);
        node.world.pass(Duration::from_millis(ms));
        assert!(!port.is_due(), "{ms}");
        node.world.pass(Duration::from_millis(ms));
        assert!(port.is_due(), "{ms}");
    }
}

/// A port that was busy or suspended has nothing that stands.
#[test]
fn a_reading_without_any_call_is_repeated_at_the_next_batch() {
    let node = Node::with_mlx5();
    node.world
        .net("eth0", Net::lossy().taking(Duration::from_millis(300)));
    let mut port = node.port();
    let found = batches(&node.world, &mut *port, 300 * SECOND);
    // The first reading stands for a minute; the others only say that the port is suspended.
    assert_eq!(found.len(), 9);
    let resting = found.iter().map(|r| values(r, ["ethernet_resting"]));
    assert!(resting.eq([[Some(1.0)]; 9]));
}

#[test]
fn a_driver_without_dcb_is_asked_for_it_ever_more_rarely_and_for_its_statistics_every_minute() {
    let node = Node::with_mlx5();
    let net = Net {
        pfc: None,
        ..Net::lossy()
    };
    node.world.net("eth0", net);
    let readings = batches(&node.world, &mut *node.port(), 7200 * SECOND);
    assert_eq!(readings.len(), 120);
    for reading in &readings {
        assert_eq!(
            values(
                reading,
                [
                    "ethernet_unreadable dcb unsupported",
                    "phy_symbol_errors_total",
                    "pfc_enabled 3"
                ]
            ),
            [Some(1.0), Some(4.0), None]
        );
    }
    let calls = node.world.calls();
    let of = |call: &str| calls.iter().filter(|c| *c == call).count();
    assert_eq!(of("values eth0"), 120);
    assert!(
        (10..30).contains(&of("dcb eth0")),
        "{} times in two hours",
        of("dcb eth0")
    );
}

#[test]
fn one_reading_of_a_port_with_flow_control_asks_each_thing_once() {
    let node = Node::with_mlx5();
    let mut port = node.port();
    read(&mut *port);
    let first = [
        "dcb eth0",
        "count eth0",
        "names eth0",
        "values eth0",
        "names eth0",
        "family",
        "pause eth0",
        "fec eth0",
        "link eth0",
    ];
    assert_eq!(node.world.calls(), first);
    read(&mut *port);
    assert_eq!(
        node.world.calls().len(),
        first.len() - 1,
        "the family has its number"
    );
}

#[test]
fn after_a_slow_call_a_device_is_left_alone_for_an_hour_and_says_so() {
    let node = Node::with_mlx5();
    node.add("mlx5_1", "0000:02:00.0", "mlx5_core", "eth1");
    node.world.net("eth1", Net::mlx5(3));
    node.world.on_call(|world, call| {
        if call == "values eth0" {
            world.pass(Duration::from_millis(201));
        }
    });
    let mut ports = node.ports("");
    let [slow, other] = &mut ports[..] else { panic!() };
    let reading = read(&mut **slow);
    // What it said is there; what was not begun yet is not asked any more.
    assert_eq!(
        values(&reading, ["pfc_rx_frames_total 3", "ethernet_resting"]),
        [Some(7.0), Some(1.0)]
    );
    assert_eq!(values(&reading, ["ethernet_unreadable fec resting"]), [Some(1.0)]);
    assert_eq!(
        values(&reading, ["ethernet_call_seconds statistics"]),
        [Some(0.201)]
    );
    assert_eq!(node.world.calls().last().unwrap(), "names eth0");

    for _ in 0..119 {
        node.world.pass(30 * SECOND);
        let reading = read(&mut **slow);
        let resting = values(
            &reading,
            [
                "ethernet_resting",
                "ethernet_unreadable dcb resting",
                "pfc_enabled 3",
            ],
        );
        assert_eq!(resting, [Some(1.0), Some(1.0), None]);
        assert_eq!(node.world.calls(), Vec::<String>::new());
    }
    assert_eq!(
        values(&read(&mut **other), ["ethernet_resting", "pfc_rx_frames_total 3"]),
        [Some(0.0), Some(7.0)]
    );

    node.world.on_call(|_, _| ());
    node.world.pass(31 * SECOND);
    let reading = read(&mut **slow);
    assert_eq!(
        values(&reading, ["ethernet_resting", "pfc_rx_frames_total 3"]),
        [Some(0.0), Some(7.0)]
    );
}

#[test]
fn a_call_of_200_ms_is_not_slow_yet() {
    let node = Node::with_mlx5();
    node.world.on_call(|world, call| {
        if call == "values eth0" {
            world.pass(Duration::from_millis(200));
        }
    });
    assert_eq!(
        values(&read(&mut *node.port()), ["ethernet_resting"]),
        [Some(0.0)]
    );
}

/// The files of DCQCN are as many commands of the same firmware.
#[test]
fn dcqcn_stops_where_its_firmware_is_slow_or_says_no_and_waits_while_it_rests() {
    let node = Node::with_mlx5();
    let net = node.dir.path().join("sys/class/net");
    for point in ["roce_np", "roce_rp"] {
        for priority in 0..8 {
            node.write(
                &format!("sys/class/net/eth0/ecn/{point}/enable/{priority}"),
                "1\n",
            );
        }
    }
    let shown = |gate: &Gate, setup: &mut EthernetSetup| {
        setup.refresh((gate, "mlx5_0"), &net, "eth0", false);
        let mut block = Block::default();
        let owner = Owner {
            device: "mlx5_0",
            port: "1",
            netdev: "eth0",
        };
        setup.push(owner, &mut block);
        block.finish();
        let all = block.iter().map(|(series, _)| series.metric.name);
        all.filter(|name| *name == "rdma_dcqcn_enabled").count()
    };
    let gate = Gate::new(node.world.ways(), node.world.clock());
    assert_eq!(shown(&gate, &mut EthernetSetup::default()), 16);

    // Each look at this clock takes 15 ms: one point is read whole.
    let world = node.world.clone();
    let clock = node.world.clock();
    let slow = Gate::new(
        node.world.ways(),
        Arc::new(move || {
            world.pass(Duration::from_millis(15));
            clock()
        }),
    );
    let mut setup = EthernetSetup::default();
    assert_eq!(
        shown(&slow, &mut setup),
        8,
        "no file is begun after 200 ms, and half a point is none"
    );
    assert!(slow.rests("mlx5_0"));
    node.world.pass(1800 * SECOND);
    assert_eq!(shown(&slow, &mut setup), 0, "what is older than ten minutes");
    node.world.pass(3600 * SECOND);
    assert_eq!(shown(&slow, &mut setup), 8, "its rest is over");

    // An error: the rest of them is not asked for, and nothing for ten minutes.
    node.write("sys/class/net/eth0/ecn/roce_rp/enable/5", "garbled\n");
    let mut setup = EthernetSetup::default();
    assert_eq!(shown(&gate, &mut setup), 8);
    node.write("sys/class/net/eth0/ecn/roce_rp/enable/5", "1\n");
    node.world.pass(599 * SECOND);
    assert_eq!(shown(&gate, &mut setup), 8);
    node.world.pass(SECOND);
    assert_eq!(shown(&gate, &mut setup), 16);
}

#[test]
fn the_rest_outlives_the_scan_that_finds_the_device_anew() {
    let node = Node::with_mlx5();
    let mut devices = node.devices("");
    node.world.on_call(|world, _| world.pass(SECOND));
    read(&mut *devices.scan().unwrap().remove(0));
    assert_eq!(node.world.calls(), ["dcb eth0"]);
    let reading = read(&mut *devices.scan().unwrap().remove(0));
    assert_eq!(values(&reading, ["ethernet_resting"]), [Some(1.0)]);
    assert_eq!(node.world.calls(), Vec::<String>::new());
}

#[test]
fn while_a_call_is_stuck_no_other_is_begun() {
    let node = Node::with_mlx5();
    node.add("mlx5_1", "0000:02:00.0", "mlx5_core", "eth1");
    node.world.net("eth1", Net::mlx5(3));
    let (entered, in_it) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = std::sync::Mutex::new(released);
    node.world.on_call(move |_, call| {
        if call == "dcb eth0" {
            entered.send(()).unwrap();
            released.lock().unwrap().recv_timeout(LONG).unwrap();
        }
    });
    let mut ports = node.ports("");
    let mut other = ports.pop().unwrap();
    let mut stuck = ports.pop().unwrap();
    let reader = thread::spawn(move || read(&mut *stuck));
    in_it.recv_timeout(LONG).unwrap();

    for _ in 0..3 {
        let reading = read(&mut *other);
        // It has what costs nothing, and the reason why it has no more.
        let expected = [Some(1.0), Some(4200.0), None];
        let found = values(
            &reading,
            ["ethernet_unreadable dcb busy", "port_mtu_bytes", "pfc_enabled 3"],
        );
        assert_eq!(found, expected);
    }
    assert_eq!(node.world.calls(), ["dcb eth0"], "one call, of the stuck one");
    release.send(()).unwrap();
    assert_eq!(
        values(&reader.join().unwrap(), ["pfc_rx_frames_total 3"]),
        [Some(7.0)]
    );
    assert_eq!(values(&read(&mut *other), ["pfc_rx_frames_total 3"]), [Some(7.0)]);
}

#[test]
fn two_ports_of_one_function_share_its_rest() {
    let node = Node::with_mlx5();
    let second = "sys/devices/pci0000:00/0000:01:00.0/infiniband/mlx5_0/ports/2";
    node.write(&format!("{second}/link_layer"), "Ethernet\n");
    node.write(&format!("{second}/gid_attrs/ndevs/0"), "eth0\n");
    node.world.on_call(|world, _| world.pass(SECOND));
    let mut ports = node.ports("");
    let resting: Vec<_> = ports
        .iter_mut()
        .map(|p| values(&read(&mut **p), ["ethernet_resting"]))
        .collect();
    assert_eq!(resting, [[Some(1.0)]; 2]);
    assert_eq!(node.world.calls(), ["dcb eth0"]);
}
