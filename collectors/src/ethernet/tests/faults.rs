//! Inconsistent answers, and calls that fail.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

const MALFORMED: &str = "ethernet_unreadable statistics malformed";

#[test]
fn statistics_that_grow_between_two_calls_are_asked_for_once_more() {
    let node = Node::with_mlx5();
    let mut port = node.port();
    let grown = std::sync::atomic::AtomicBool::new(false);
    node.world.on_call(move |world, call| {
        if call == "names eth0" && !grown.swap(true, std::sync::atomic::Ordering::SeqCst) {
            let mut net = Net::mlx5(3);
            net.statistics.insert(0, ("ch0_events".to_owned(), 1000));
            world.net("eth0", net);
        }
    });
    let reading = read(&mut *port);
    assert_eq!(
        values(&reading, ["pfc_rx_frames_total 3", MALFORMED]),
        [Some(7.0), None]
    );
    let counts = node.world.calls().iter().filter(|c| *c == "count eth0").count();
    assert_eq!(counts, 2);
}

#[test]
fn a_kernel_that_gives_no_values_is_asked_twice_and_no_more() {
    let node = Node::with_mlx5();
    let mut port = node.port();
    // Another program adds a queue each time.
    node.world.on_call(|world, call| {
        if call == "values eth0" {
            let mut net = Net::mlx5(3);
            let queues = world.calls_so_far();
            net.statistics
                .extend((0..queues).map(|q| (format!("ch{q}_events"), 1)));
            world.net("eth0", net);
        }
    });
    let reading = read(&mut *port);
    assert_eq!(
        values(&reading, ["pfc_rx_frames_total 3", MALFORMED]),
        [None, Some(1.0)]
    );
    // Values that do not depend on the statistics are present.
    assert_eq!(
        values(&reading, ["pfc_enabled 3", "fec_corrected_blocks_total"]),
        [Some(1.0), Some(8.0)]
    );
    let values = node.world.calls().iter().filter(|c| *c == "values eth0").count();
    assert_eq!(values, 2);
}

/// The count and the positions stay: only the names show which values these are.
#[test]
fn counts_of_a_priority_are_never_shown_as_those_of_another() {
    let node = Node::with_mlx5();
    let mut port = node.port();
    let moved = std::sync::atomic::AtomicBool::new(false);
    node.world.on_call(move |world, call| {
        if call == "values eth0" && !moved.swap(true, std::sync::atomic::Ordering::SeqCst) {
            let mut net = Net::mlx5(4);
            net.statistics.last_mut().unwrap().1 = 9_000_000;
            world.net("eth0", net);
        }
    });
    let reading = read(&mut *port);
    // DCB reported priority 3 before, and no statistic has that name any more.
    let both = ["pfc_rx_pause_seconds_total 3", "pfc_rx_pause_seconds_total 4"];
    assert_eq!(values(&reading, both), [None, Some(9.0)]);
    assert_eq!(
        values(&reading, ["pfc_enabled 3", "pfc_enabled 4"]),
        [Some(1.0), Some(0.0)]
    );
    assert_eq!(values(&read(&mut *port), both), [None, Some(9.0)]);
}

#[test]
fn an_interface_that_leaves_costs_its_own_values() {
    let node = Node::with_mlx5();
    let mut port = node.port();
    read(&mut *port);
    node.world.on_call(|world, call| {
        if call == "names eth0" {
            world.remove("eth0");
        }
    });
    let reading = read(&mut *port);
    let why = [
        "ethernet_unreadable statistics gone",
        "ethernet_unreadable fec gone",
        "pfc_enabled 3",
    ];
    assert_eq!(values(&reading, why), [Some(1.0), Some(1.0), Some(1.0)]);
}

#[test]
fn a_call_that_panics_leaves_the_door_open() {
    let node = Node::with_mlx5();
    let mut port = node.port();
    node.world.on_call(|_, _| panic!("on purpose"));
    catch_unwind(AssertUnwindSafe(|| read(&mut *port))).unwrap_err();
    node.world.on_call(|_, _| ());
    assert_eq!(values(&read(&mut *port), ["pfc_rx_frames_total 3"]), [Some(7.0)]);
}

#[test]
fn a_value_of_all_ones_or_over_a_hundred_percent_is_none() {
    let node = Node::with_mlx5();
    let mut net = Net::mlx5(3);
    for (name, value) in &mut net.statistics {
        match name.as_str() {
            "rx_prio3_pause" => *value = u64::MAX,
            "outbound_pci_stalled_rd" => *value = 101,
            _ => {}
        }
    }
    node.world.net("eth0", net);
    let reading = read(&mut *node.port());
    assert_eq!(
        values(
            &reading,
            [
                "pfc_rx_frames_total 3",
                "pci_stalled_ratio read",
                "pfc_rx_pause_seconds_total 3"
            ]
        ),
        [None, None, Some(2.5)]
    );
    assert_eq!(
        values(&reading, ["ethernet_unreadable statistics all_ones"]),
        [Some(1.0)]
    );
}

/// `ETHTOOL_FLAG_STATS` returns EINVAL if the kernel does not support statistics for the query.
#[test]
fn a_kernel_without_statistics_of_a_question_is_asked_without_and_not_for_them_again() {
    let node = Node::with_mlx5();
    node.world.is_old();
    let mut port = node.port();
    for round in 0..3 {
        let reading = read(&mut *port);
        assert_eq!(
            values(&reading, ["fec_info rs", "fec_corrected_blocks_total"]),
            [Some(1.0), None]
        );
        let missing = ["link_state unsupported", "link_state rejected", "fec rejected"]
            .map(|why| values(&reading, [&format!("ethernet_unreadable {why}")])[0]);
        assert_eq!(missing, [Some(1.0), None, None]);
        let calls = node.world.calls();
        let asked = ["fec eth0", "bare fec eth0", "link eth0", "bare link eth0"]
            .map(|call| calls.iter().filter(|c| *c == call).count());
        assert_eq!(asked, if round < 2 { [1; 4] } else { [0, 1, 0, 0] });
        node.world.pass(30 * SECOND);
    }
}

/// A query that a driver rejects with and without the flag is rejected by the driver.
#[test]
fn a_driver_that_refuses_is_no_kernel_without_statistics() {
    let node = Node::with_mlx5();
    node.world.is_old();
    node.world.on_call(|world, call| {
        if call == "bare fec eth0" {
            world.remove("eth0");
        }
    });
    let mut port = node.port();
    assert_eq!(
        values(&read(&mut *port), ["ethernet_unreadable fec rejected"]),
        [Some(1.0)]
    );
    node.world.calls();
    node.world.net("eth0", Net::mlx5(3));
    read(&mut *port);
    assert!(node.world.calls().contains(&"fec eth0".to_owned()));
}
