//! Ports without flow control by priority.

use nix::errno::Errno;

use super::*;

const STATISTICS: [&str; 8] = [
    "phy_symbol_errors_total",
    "pause_rx_frames_total",
    "pause_tx_frames_total",
    "pause_rx_seconds_total",
    "pause_tx_seconds_total",
    "pause_rx_transitions_total",
    "tx_discards_total",
    "priority_rx_bytes_total 5",
];

fn lossy() -> Node {
    let node = Node::with_mlx5();
    node.world.net("eth0", Net::lossy());
    node
}

#[test]
fn its_statistics_have_pause_of_the_link_bit_errors_fec_and_traffic_by_priority() {
    let node = lossy();
    let reading = read(&mut *node.port());
    assert_eq!(
        values(&reading, STATISTICS),
        [4.0, 9.0, 12.0, 1.5, 3.0, 2.0, 6.0, 7000.0].map(Some)
    );
    assert_eq!(
        values(
            &reading,
            [
                "fec_info rs",
                "fec_uncorrectable_blocks_total",
                "rx_discards_total",
                "priority_discards_total 0 discard"
            ]
        ),
        [1.0, 9.0, 5.0, 1.0].map(Some)
    );
    let of_pfc = reading.keys().filter(|name| name.starts_with("pfc_"));
    assert!(
        of_pfc.clone().all(|name| name.starts_with("pfc_enabled")),
        "{reading:?}"
    );
    assert_eq!(of_pfc.count(), 8);
}

/// `rx_pause_ctrl_phy` and `rx_global_pause` are names of the same frames.
#[test]
fn two_names_of_one_count_are_never_added() {
    let node = lossy();
    for (name, frames) in [("rx_global_pause", 9.0), ("rx_pause_ctrl_phy", 9.0), ("", 9.0)] {
        let mut net = Net::lossy();
        net.statistics.retain(|(n, _)| n != name);
        node.world.net("eth0", net);
        let reading = read(&mut *node.port());
        assert_eq!(
            values(&reading, ["pause_rx_frames_total"]),
            [Some(frames)],
            "{name}"
        );
    }
    // Firmware that fills in only one of them.
    let mut net = Net::lossy();
    let ctrl = net.statistics.iter_mut().find(|(n, _)| n == "rx_pause_ctrl_phy");
    ctrl.unwrap().1 = 0;
    node.world.net("eth0", net);
    let reading = read(&mut *node.port());
    assert_eq!(values(&reading, ["pause_rx_frames_total"]), [Some(9.0)]);
}

#[test]
fn a_driver_that_takes_30_ms_is_read_every_minute() {
    let node = lossy();
    node.world
        .net("eth0", Net::lossy().taking(Duration::from_millis(30)));
    let readings = batches(&node.world, &mut *node.port(), 3600 * SECOND);
    assert_eq!(readings.len(), 60);
    for reading in &readings {
        assert_eq!(
            values(
                reading,
                [
                    "ethernet_call_seconds statistics",
                    "ethernet_resting",
                    "phy_symbol_errors_total"
                ]
            ),
            [Some(0.03), Some(0.0), Some(4.0)]
        );
    }
}

#[test]
fn a_driver_that_takes_300_ms_is_asked_once_an_hour() {
    let node = lossy();
    node.world
        .net("eth0", Net::lossy().taking(Duration::from_millis(300)));
    let readings = batches(&node.world, &mut *node.port(), 7200 * SECOND);
    let calls = node.world.calls();
    let of = |call: &str| calls.iter().filter(|c| *c == call).count();
    assert_eq!((of("values eth0"), of("dcb eth0"), of("fec eth0")), (2, 2, 0));
    let counted = readings
        .iter()
        .filter(|r| r.contains_key("phy_symbol_errors_total"))
        .count();
    assert_eq!(counted, 2, "values of an hour ago are not shown");
    assert!(
        readings
            .iter()
            .all(|r| values(r, ["ethernet_resting"]) == [Some(1.0)])
    );
}

#[test]
fn a_driver_whose_statistics_fail_keeps_its_other_values_and_is_asked_ever_more_rarely() {
    let node = lossy();
    node.world.net("eth0", Net::lossy().failing(Errno::EIO));
    let readings = batches(&node.world, &mut *node.port(), 7200 * SECOND);
    assert_eq!(readings.len(), 120);
    for reading in &readings {
        assert_eq!(
            values(
                reading,
                [
                    "ethernet_unreadable statistics io",
                    "phy_symbol_errors_total",
                    "pause_rx_frames_total",
                    "fec_uncorrectable_blocks_total",
                    "phy_link_down_total",
                    "pfc_enabled 3"
                ]
            ),
            [Some(1.0), None, Some(5.0), Some(9.0), Some(6.0), Some(0.0)]
        );
    }
    let calls = node.world.calls();
    let tries = calls.iter().filter(|c| *c == "values eth0").count();
    assert!((10..30).contains(&tries), "{tries} times in two hours");
}

/// What DCB said is unknown: a priority's flow control must not be shown as if it were on.
#[test]
fn while_dcb_fails_the_link_and_counted_pauses_are_read_and_no_flow_control() {
    let node = Node::with_mlx5();
    node.world.on_call(|world, call| {
        world.refuse((call == "dcb eth0").then_some(Errno::EIO));
    });
    let reading = read(&mut *node.port());
    assert_eq!(
        values(
            &reading,
            [
                "ethernet_unreadable dcb io",
                "pfc_enabled 3",
                "pfc_rx_frames_total 3",
                "priority_discards_total 3 discard",
                "pause_rx_frames_total"
            ]
        ),
        [Some(1.0), None, Some(7.0), Some(1.0), Some(5.0)]
    );
}

/// soft-RoCE: the interface below is a virtual one, or another adapter's.
#[test]
fn the_interface_below_a_software_device_is_asked_for_dcb_only() {
    let node = Node::new();
    node.write(
        "sys/devices/virtual/infiniband/rxe0/ports/1/link_layer",
        "Ethernet\n",
    );
    node.write("sys/devices/virtual/infiniband/rxe0/parent", "eth0\n");
    node.link(
        "sys/class/infiniband/rxe0",
        "../../devices/virtual/infiniband/rxe0",
    );
    node.write("sys/class/net/eth0/mtu", "1500\n");
    node.world.net("eth0", Net::lossy());
    let readings = batches(&node.world, &mut *node.port(), 120 * SECOND);
    assert_eq!(readings.len(), 2);
    assert_eq!(node.world.calls(), ["dcb eth0"; 2]);
}
