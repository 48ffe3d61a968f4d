//! Unusual kernel log content: forged, truncated and long lines, control characters, lost records. And the real
//! /dev/kmsg.

use std::io::Write;

use crate::common::{KERN_ERR, Node, xid_line};

/// Facility user, level error: what a program can write into /dev/kmsg.
const USER_ERR: u32 = 8 + 3;

#[test]
fn a_line_that_a_program_wrote_is_no_event() {
    let mut node = Node::new();
    node.start();
    node.kmsg.push(USER_ERR, &xid_line(0, 79));
    node.until("noticed", |n| {
        n.metric("nodewarden_kernel_log_ignored_total", &[("reason", "user_space")]) == Some(1.0)
    });
    node.xid(1, 31);
    node.wait_xids(1, 31, 1.0);
    assert!(node.metric("gpu_xid_errors_total", &[("xid", "79")]).is_none());
    assert!(node.open_incidents().is_empty());
}

#[test]
fn a_line_that_only_mentions_an_xid_is_no_event() {
    let mut node = Node::new();
    node.start();
    node.kmsg.push(
        KERN_ERR,
        &format!("systemd[1]: someone wrote: {}", xid_line(0, 79)),
    );
    node.xid(1, 31);
    node.wait_xids(1, 31, 1.0);
    assert!(node.metric("gpu_xid_errors_total", &[("xid", "79")]).is_none());
}

#[test]
fn long_lines_and_control_characters_are_accepted_and_shown_safely() {
    let mut node = Node::new();
    node.start();
    let long = format!(
        "NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=\x1b[2J\x07{}",
        "x".repeat(7800)
    );
    node.kmsg.push(KERN_ERR, &long);
    node.wait_xids(0, 79, 1.0);
    let (_, why, _) = node.cli(&["why"]);
    assert!(why.contains("NVRM: Xid (PCI:0000:18:00): 79"), "{why}");
    assert!(!why.contains('\x1b') && !why.contains('\x07'));
    assert!(why.lines().all(|l| l.len() < 2000));
}

#[test]
fn a_line_truncated_within_its_code_is_no_event_and_one_truncated_after_it_is() {
    let mut node = Node::new();
    node.start();
    for cut in [
        "NVRM: Xid (PCI:0000:18:00)",
        "NVRM: Xid (PCI:0000:18:00): ",
        "NVRM: Xid (PCI:0000:1",
    ] {
        node.kmsg.push(KERN_ERR, cut);
    }
    node.kmsg
        .push(KERN_ERR, "NVRM: Xid (PCI:0000:18:00): 79, pid='<unk");
    node.wait_xids(0, 79, 1.0);
    assert_eq!(
        node.metrics()
            .iter()
            .filter(|s| s.name == "gpu_xid_errors_total")
            .count(),
        1
    );
}

#[test]
fn records_that_were_overwritten_are_counted_as_lost() {
    let mut node = Node::new();
    node.start();
    node.xid(0, 31);
    node.wait_xids(0, 31, 1.0);
    // Events that cause no drain are stored in batches, not at once.
    node.until_stored("\"31\"");
    node.kill9();
    node.kmsg.set_ring(testkit::kmsg::Limit::Records(10));
    for _ in 0..50 {
        node.kmsg.push(KERN_ERR, "nothing of interest");
    }
    node.start();
    node.until("loss counted", |n| {
        n.metric("nodewarden_kernel_log_lost_records_total", &[])
            .is_some_and(|v| v > 0.0)
    });
}

/// The running kernel's own log. Lines that a test writes there have the user facility, so this needs the test option;
/// without it, nodewarden rejects the same line as forged.
#[test]
fn the_real_kernel_log() {
    let mark = std::process::id() % 8000;
    let write = |text: &str| {
        // Opened again for every line: the kernel limits lines per open file.
        let mut file = std::fs::OpenOptions::new().write(true).open("/dev/kmsg").unwrap();
        file.write_all(format!("<11>{text}\n").as_bytes()).unwrap();
    };
    let line = format!(
        "NVRM: Xid (PCI:{mark:04x}:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    );
    let gpu = format!("pci:{mark:04x}:3b:00.0");
    let labels = [("gpu", gpu.as_str()), ("xid", "79")];

    let mut node = Node::new();
    node.set("kernel_log.path=\"/dev/kmsg\"")
        .set("kernel_log.accept_user=true");
    node.start();
    write(&line);
    node.until("the line is an event", |n| {
        n.metric("gpu_xid_errors_total", &labels) == Some(1.0)
    });
    // The same ring may hold lines of earlier runs.
    let ours = |n: &Node| {
        n.open_incidents()
            .iter()
            .any(|i| i["subject_name"] == gpu.as_str())
    };
    node.until("an incident", ours);

    let mut strict = Node::new();
    strict.set("kernel_log.path=\"/dev/kmsg\"");
    strict.start();
    write(&line);
    node.until("a second event", |n| {
        n.metric("gpu_xid_errors_total", &labels) == Some(2.0)
    });
    strict.until("ignored", |n| {
        n.metric("nodewarden_kernel_log_ignored_total", &[("reason", "user_space")])
            .is_some_and(|v| v > 0.0)
    });
    assert!(strict.metric("gpu_xid_errors_total", &labels).is_none());
}
