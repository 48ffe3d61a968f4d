//! What lies in the kernel's ring at the very first start.

use crate::cluster::Cluster;
use crate::common::{KERN_ERR, xid_line};

#[test]
fn a_healed_xid_95_does_not_drain() {
    let mut c = Cluster::new();
    c.kmsg.push_at(1_000_000, KERN_ERR, &xid_line(2, 95));
    c.start();
    c.wait_xids(2, 95, 1.0);
    c.settle();
    assert!(!c.is_drained());
    assert_eq!(c.updates(), 0);
}

#[test]
fn an_xid_79_whose_gpu_is_there_does_not_drain() {
    let mut c = Cluster::new();
    c.kmsg.push_at(1_000_000, KERN_ERR, &xid_line(2, 79));
    c.start();
    c.wait_xids(2, 79, 1.0);
    // The judgement falls with a snapshot; the next tick brings one.
    c.until("a verdict", |n| n.cli(&["check"]).0 == Some(0));
    assert!(!c.is_drained());
    assert_eq!(c.updates(), 0);
}

#[test]
fn an_xid_79_whose_gpu_is_gone_drains() {
    let mut c = Cluster::new();
    c.kmsg.push_at(1_000_000, KERN_ERR, &xid_line(2, 79));
    c.unplug(2);
    c.start();
    let reason = c.wait_drained();
    assert!(reason.starts_with("nodewarden:xid gpu"), "{reason}");
}

#[test]
fn a_gpu_that_was_given_to_vfio_is_not_missing() {
    let mut c = Cluster::new();
    c.set(&format!(
        "health.gpu_addresses=[{:?},{:?}]",
        crate::common::GPUS[0],
        crate::common::GPUS[1]
    ));
    let drivers = c.path("root/sys/bus/pci/drivers/vfio-pci");
    std::fs::create_dir_all(&drivers).unwrap();
    let link = c.gpu_dir(1).join("driver");
    std::fs::remove_file(&link).ok();
    std::os::unix::fs::symlink("../../../../bus/pci/drivers/vfio-pci", link).unwrap();
    c.start();
    c.until("a verdict", |n| n.cli(&["check"]).0 == Some(0));
    c.settle();
    assert!(!c.is_drained());
}

#[test]
fn a_configured_gpu_that_is_gone_drains_and_its_return_clears() {
    let mut c = Cluster::new();
    c.set(&format!(
        "health.gpu_addresses=[{:?},{:?}]",
        crate::common::GPUS[0],
        crate::common::GPUS[1]
    ));
    c.unplug(1);
    c.start();
    let reason = c.wait_drained();
    assert!(reason.starts_with("nodewarden:gpu-missing gpu "), "{reason}");
    assert!(reason.contains(crate::common::GPUS[1]), "{reason}");
}
