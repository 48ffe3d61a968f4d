//! Devices that appear and disappear during scrapes.

use std::fs;

use crate::common::Node;

const FOLDER: &str = "root/sys/devices/system/edac/mc";

fn errors(node: &Node, controller: &str) -> Option<f64> {
    node.metric("host_edac_corrected_errors_total", &[("controller", controller)])
}

#[test]
fn a_memory_controller_appears_and_disappears_during_scrapes_without_affecting_others() {
    let mut node = Node::new();
    node.start();
    let starts = |n: &Node| n.metric("nodewarden_worker_starts_total", &[("worker", "host")]);
    let before = starts(&node);
    assert_eq!(errors(&node, "mc2"), None);
    for _ in 0..3 {
        let made = node.path("mc2");
        fs::create_dir_all(&made).unwrap();
        fs::write(made.join("ce_count"), "42\n").unwrap();
        fs::write(made.join("ue_count"), "0\n").unwrap();
        fs::rename(&made, node.path(FOLDER).join("mc2")).unwrap();
        node.until("the new controller is read", |n| errors(n, "mc2") == Some(42.0));
        assert_eq!(errors(&node, "mc1"), Some(7.0));

        fs::rename(node.path(FOLDER).join("mc2"), &made).unwrap();
        node.until("it leaves the output", |n| errors(n, "mc2").is_none());
        assert_eq!(errors(&node, "mc1"), Some(7.0));
        fs::remove_dir_all(&made).unwrap();
    }
    assert_eq!(
        node.metric("nodewarden_collector_up", &[("collector", "host")]),
        Some(1.0)
    );
    assert_eq!(starts(&node), before, "no worker was restarted");
}
