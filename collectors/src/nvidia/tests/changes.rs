//! The driver is loaded anew; GPUs are divided and joined.

use super::*;

#[test]
fn a_driver_that_was_loaded_anew_is_opened_anew() {
    let mut node = Node::of("h100");
    node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    node.driver.reload().unwrap();
    let seen = node.read();
    assert_eq!(up(&seen), vec![0.0; 8]);
    assert_eq!(
        get(&seen, &m::UNAVAILABLE_INFO, &[&gpu(0), "no_driver"]),
        Some(1.0)
    );
    let seen = node.read_until("all answer again", |seen| up(seen) == up_but(&[]));
    assert!(get(&seen, &m::TEMPERATURE, &[&gpu(7)]).is_some());
}

#[test]
fn the_list_is_read_again_where_the_kernel_shows_a_change() {
    let mut node = Node::of("h100");
    node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    let before = node.driver.calls();
    node.write("proc/driver/nvidia/version", "NVRM version: 580.95.05\n");
    node.read();
    assert_eq!(node.driver.calls().since(&before).of("nvmlDeviceGetCount"), 1);
    let before = node.driver.calls();
    node.read();
    assert_eq!(node.driver.calls().since(&before).of("nvmlDeviceGetCount"), 0);
}
