//! How often the driver is asked.

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent};

use super::*;

/// What one reading asks of all GPUs.
fn asked(node: &mut Node) -> testkit::nvml::Calls {
    let before = node.driver.calls();
    node.read();
    node.driver.calls().since(&before)
}

#[test]
fn no_question_is_asked_twice_in_a_reading() {
    let mut node = Node::of("h100");
    node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    let calls = asked(&mut node);
    assert!(calls.above(1).is_empty(), "{:?}", calls.above(1));
    assert_eq!(calls.of("nvmlDeviceGetFieldValues"), 8);
    assert_eq!(calls.of("nvmlDeviceGetPcieThroughput"), 0, "it takes 20 ms");
    assert_eq!(calls.of("nvmlDeviceGetProcessUtilization"), 0);
    // What does not change from one reading to the next is not asked at all.
    for seldom in [
        "nvmlInit",
        "nvmlDeviceGetCount",
        "nvmlDeviceGetHandleByIndex",
        "nvmlDeviceGetName",
        "nvmlDeviceGetMaxClockInfo",
    ] {
        assert_eq!(calls.of(seldom), 0, "{seldom}");
    }
    assert!(calls.of_gpu(0) <= 28, "{:#?}", calls.rows());
}

#[test]
fn what_a_gpu_does_not_offer_is_asked_once() {
    let text = fs::read_to_string(scenario("h100")).unwrap();
    let without = text.replace("jpeg = 0\nofa = 0\n", "");
    assert_ne!(text, without);
    let mut node = Node::with(&without);
    let seen = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    assert_eq!(get(&seen, &m::JPEG_UTILIZATION, &[&gpu(0)]), None);
    assert!(node.driver.calls().of("nvmlDeviceGetJpgUtilization") >= 8);
    assert_eq!(asked(&mut node).of("nvmlDeviceGetJpgUtilization"), 0);
}

#[test]
fn a_window_of_a_second_costs_two_calls_and_a_switch_saves_them() {
    let mut node = Node::of("h100");
    node.read_until("a window has ended", |seen| {
        (0..8).all(|n| get(seen, &metrics::SM_ACTIVE, &[&gpu(n), ""]).is_some())
    });
    std::thread::sleep(Duration::from_millis(1100));
    let calls = asked(&mut node);
    assert_eq!(
        (calls.of("nvmlGpmSampleGet"), calls.of("nvmlGpmMetricsGet")),
        (8, 8)
    );

    let mut node = Node::of("h100");
    node.settings += "gpm = false\n";
    let seen = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    assert!(!seen.keys().any(|k| k.starts_with("gpu_sm_active")));
    assert_eq!(node.driver.calls().of("nvmlGpmSampleGet"), 0);
}

/// The bus of a node has hundreds of functions.
#[test]
fn a_scan_lists_the_bus_once() {
    let mut node = Node::of("h100");
    node.add_pci("0000:01:00.0", "vfio-pci");
    node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    let bus = Inotify::init(InitFlags::IN_NONBLOCK).unwrap();
    let opened = AddWatchFlags::IN_OPEN | AddWatchFlags::IN_CLOSE_NOWRITE;
    bus.add_watch(&node.root().join("sys/bus/pci/devices"), opened)
        .unwrap();
    let before = node.driver.calls();
    node.write("proc/driver/nvidia/gpus/0000:1b:00.0/information", "");
    node.read();
    assert_eq!(node.driver.calls().since(&before).of("nvmlDeviceGetCount"), 1);
    let events = bus.read_events().unwrap();
    let is_list = |e: &&InotifyEvent| e.name.is_none() && e.mask.contains(AddWatchFlags::IN_OPEN);
    assert_eq!(events.iter().filter(is_list).count(), 1, "{events:?}");
}
