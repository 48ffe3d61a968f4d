//! AMD GPUs beside NVIDIA's, and one whose driver does not answer.

use std::path::{Path, PathBuf};

use testkit::fuse_hang::FuseHang;
use testkit::{proc, tree};

use crate::common::{GPUS, KERN_ERR, LONG, Node};
use crate::sources;

const STUCK: &str = "GPU-5d0e0000aa000001";
const OTHER: &str = "GPU-5d0e0000aa000002";

/// Puts two MI300X beside the node's other devices.
fn lay(node: &Node) {
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/amd/mi300x/root.tree");
    tree::lay(&recording, &node.path("root")).unwrap();
    // Without its own boot id, the tree has the running kernel's.
    std::fs::remove_dir_all(node.path("root/proc/sys")).unwrap();
}

/// The same, with the table of the first in this filesystem.
fn gpus(node: &Node) -> (FuseHang, PathBuf) {
    lay(node);
    let devices = node.path("root/sys/bus/pci/devices");
    let hang = FuseHang::mount(node.path("root/firmware")).unwrap();
    let table = devices.join("0000:05:00.0/gpu_metrics");
    let bytes = std::fs::read(&table).unwrap();
    std::fs::remove_file(&table).unwrap();
    std::os::unix::fs::symlink(hang.add("gpu_metrics", bytes), &table).unwrap();
    (hang, devices.join("0000:26:00.0/mem_info_vram_used"))
}

fn late(node: &Node) -> Option<f64> {
    let labels = [("collector", "amd"), ("subject", STUCK)];
    node.metric("nodewarden_device_late_seconds", &labels)
}

fn used(node: &Node, gpu: &str) -> Option<f64> {
    node.metric("gpu_memory_used_bytes", &[("gpu", gpu)])
}

/// As of a firmware that does not answer: the driver holds its lock, and the read waits in state D.
#[test]
fn a_gpu_whose_table_cannot_be_read_delays_no_other_and_loses_its_values() {
    let mut node = Node::new();
    let (hang, memory) = gpus(&node);
    node.start();
    node.until("both GPUs are read", |n| {
        [STUCK, OTHER].iter().all(|gpu| used(n, gpu).is_some())
    });
    let threads = |n: &Node| proc::tasks(n.worker_pid("amd")).unwrap().len();
    let before = threads(&node);

    hang.freeze_file("gpu_metrics").unwrap();
    node.until("the GPU is late", |n| late(n).is_some());
    proc::wait_for_state(node.worker_pid("amd"), 'D', LONG).unwrap();
    for bytes in 1..10 {
        std::fs::write(&memory, format!("{bytes}\n")).unwrap();
        node.until("the other is read", |n| used(n, OTHER) == Some(f64::from(bytes)));
    }
    // One more for the stuck GPU.
    node.until("no other thread is left over", |n| threads(n) <= before + 1);
    // Its last values are stale after 25 s, and neither up nor down.
    node.until("its values are gone", |n| used(n, STUCK).is_none());
    assert!(late(&node).is_some(), "it is late all the while");
    assert_eq!(node.metric("gpu_up", &[("gpu", STUCK)]), None);
    assert_eq!(node.metric("gpu_up", &[("gpu", OTHER)]), Some(1.0));
    let (code, line, _) = node.cli(&["check"]);
    assert_eq!(code, Some(0), "a late GPU is unknown and drains nothing: {line}");

    hang.thaw();
    node.until("the GPU answers again", |n| {
        late(n).is_none() && n.metric("gpu_up", &[("gpu", STUCK)]) == Some(1.0)
    });
}

#[test]
fn a_node_with_gpus_of_both_vendors_shows_and_checks_both() {
    let mut node = Node::new();
    lay(&node);
    let _driver = sources::install(&mut node);
    node.start();
    sources::wait_up(&node, 10);
    let page = node.metrics();
    let of = |vendor: &str| {
        let info = page.iter().filter(|s| s.name == "gpu_info");
        info.filter(|s| s.label("vendor") == Some(vendor)).count()
    };
    assert_eq!((of("nvidia"), of("amd")), (8, 2));
    for name in [
        "gpu_temperature_celsius",
        "gpu_power_watts",
        "gpu_memory_used_bytes",
    ] {
        let gpus = page.iter().filter(|s| s.name == name);
        assert_eq!(gpus.count(), 10, "{name}");
    }
    node.until("the node is healthy", |n| n.cli(&["check"]).0 == Some(0));
    node.xid(0, 79);
    node.kmsg.push(
        KERN_ERR,
        "amdgpu 0000:05:00.0: amdgpu: ring sdma0 timeout, signaled seq=1, emitted seq=3",
    );
    // The PCI addresses of the GPUs that a check has found.
    let found = |n: &Node, check: &str| {
        let open = n.open_incidents();
        let of = open.iter().filter(|incident| incident["check"] == check);
        of.map(|incident| {
            let gpu = incident["subject_name"].as_str();
            let info = page
                .iter()
                .find(|s| s.name == "gpu_info" && s.label("gpu") == gpu);
            info.unwrap().label("pci").unwrap().to_owned()
        })
        .collect::<Vec<_>>()
    };
    node.until("each vendor's fault is a finding", |n| {
        !found(n, "xid").is_empty() && !found(n, "gpu-driver-error").is_empty()
    });
    assert_eq!(found(&node, "xid"), [GPUS[0]]);
    assert_eq!(found(&node, "gpu-driver-error"), ["0000:05:00.0"]);
}
