//! The commands of GPFS in the whole program: stand-ins that work, fail and flood, and the series of the first.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use crate::common::Node;

fn script(path: &Path, text: &str) {
    testkit::executable::write(path, &format!("#!/bin/sh\n{text}")).unwrap();
}

/// A node with GPFS by its folders. The worker reads below the sysroot, so the run directory is there too.
fn node() -> Node {
    let mut node = Node::new();
    let folder = node.path("etc");
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).unwrap();
    fs::create_dir_all(node.path("root/var/mmfs/mmpmon")).unwrap();
    let run = node.path("root").join(node.run_dir().strip_prefix("/").unwrap());
    fs::create_dir_all(run.parent().unwrap()).unwrap();
    symlink(node.run_dir(), &run).unwrap();
    script(
        &bin.join("mmgetstate"),
        "[ \"$*\" = -Y ] || exit 2\n\
         echo 'mmgetstate::HEADER:version:reserved:reserved:nodeName:state:'\n\
         echo 'mmgetstate::0:1:::gpu07:active:'\n",
    );
    script(&bin.join("mmdiag"), "echo 'mmfsd is not running' >&2; exit 1\n");
    script(&bin.join("mmhealth"), "exec head -c 4000000 /dev/zero\n");
    let file = folder.join("nodewarden.toml");
    fs::write(&file, format!("[gpfs]\ncommands = true\nbin = {bin:?}\n")).unwrap();
    node.arg(&["--config", file.to_str().unwrap()]);
    node.start();
    node
}

#[test]
fn the_output_of_a_command_becomes_series_and_each_failure_has_its_reason() {
    let node = node();
    let unreadable = |n: &Node, command, reason| {
        n.metric(
            "gpfs_command_unreadable",
            &[("command", command), ("reason", reason)],
        )
    };
    node.until("the state", |n| {
        n.metric("gpfs_node_state", &[("state", "active")]) == Some(1.0)
    });
    node.until("the failures", |n| {
        unreadable(n, "mmdiag-waiters", "failed") == Some(1.0)
            && unreadable(n, "mmhealth", "failed") == Some(1.0)
    });
    assert_eq!(unreadable(&node, "mmgetstate", "absent"), None);
    assert_eq!(node.metric("gpfs_waiters", &[]), None);
    let folder = node.run_dir().join("gpfs");
    let found = fs::metadata(&folder).unwrap();
    assert_eq!((found.uid(), found.mode() & 0o777), (0, 0o750));
    let note = fs::read_to_string(folder.join("mmdiag-waiters.failed")).unwrap();
    assert_eq!(note, "failed exit code 1: mmfsd is not running\n");
    assert!(!folder.join("mmhealth.y").exists());
}
