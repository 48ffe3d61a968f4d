//! Who may give orders.

use std::os::unix::process::CommandExt;

use crate::common::{Node, program};

#[test]
fn everybody_may_look_and_only_root_and_operators_may_order() {
    let mut node = Node::new();
    node.set("health.operators=[\"daemon\"]");
    node.start();
    node.xid(3, 79);
    node.until("an incident", |n| n.open_incidents().len() == 1);
    let id = node.open_incidents()[0]["id"].as_str().unwrap().to_owned();
    let as_user = |uid: u32, args: &[&str]| {
        let output = std::process::Command::new(program())
            .args(args)
            .arg("--run-dir")
            .arg(node.run_dir())
            .uid(uid)
            .gid(uid)
            .output()
            .unwrap();
        output.status.code()
    };
    // games and daemon of Debian's passwd.
    assert_eq!(as_user(5, &["status"]), Some(0));
    // The verdict follows the record, whose write the disk may delay.
    node.until("unhealthy", |_| as_user(5, &["check"]) == Some(1));
    assert_eq!(as_user(5, &["ack", &id, "--reason", "mine"]), Some(1));
    assert!(node.open_incidents()[0]["ack"].is_null());
    assert_eq!(as_user(1, &["ack", &id, "--reason", "on it"]), Some(0));
    assert!(node.open_incidents()[0]["ack"].to_string().contains("daemon"));
    assert_eq!(as_user(5, &["clear", &id, "--reason", "mine"]), Some(1));
    assert_eq!(as_user(0, &["clear", &id, "--reason", "done"]), Some(0));
    assert!(node.open_incidents().is_empty());
}
