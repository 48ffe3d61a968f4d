//! GPUs that leave the bus, lose their driver, come back or cannot be named.

#![allow(clippy::disallowed_methods, reason = "a test writes its own recording")]

use super::*;

/// The `gpu_id` of each GPU on the page of AMD's exporter.
fn gpu_ids(node: &mut Node) -> Vec<String> {
    node.block.clear();
    for device in &mut node.devices {
        device.read(&mut node.block).unwrap();
    }
    node.block.finish();
    let pages = node.block.iter().filter(|(s, _)| s.metric == &m::AMD_INFO);
    pages.map(|(s, _)| s.labels[2].to_string()).collect()
}

#[test]
fn a_gpu_that_leaves_the_bus_keeps_its_place_and_its_return_is_noticed() {
    let mut node = Node::new("mi300x");
    node.read();
    let (folder, link) = (
        node.of_gpu(""),
        node.path(&format!("/sys/bus/pci/drivers/amdgpu/{PCI}")),
    );
    let away = node.path("/away");
    fs::rename(&folder, &away).unwrap();
    node.read();
    assert_eq!(
        node.value(&m::UNAVAILABLE_INFO, &[GPU, "lost"]),
        Some(Value::U64(1))
    );
    fs::remove_file(&link).unwrap();
    assert!(node.source.devices.changed());
    node.scan();
    assert_eq!(node.devices.len(), 2);
    assert!(!node.source.devices.changed());
    node.read();
    assert_eq!(
        node.value(&m::UNAVAILABLE_INFO, &[GPU, "lost"]),
        Some(Value::U64(1))
    );
    let info = node.block.iter().find(|(s, _)| s.metric == &m::INFO).unwrap().0;
    assert_eq!(info.labels[4].as_str(), "", "the index is now the other one's");
    assert_eq!(gpu_ids(&mut node), ["", "0"], "it is now the other one's");
    fs::rename(&away, &folder).unwrap();
    assert!(node.source.devices.changed());
    node.scan();
    assert_eq!(node.devices.len(), 1, "there, and not given to the driver");
    std::os::unix::fs::symlink("../../../../devices", &link).unwrap();
    assert!(node.source.devices.changed());
    node.scan();
    node.read();
    assert_eq!(node.value(&m::UP, &[GPU]), Some(Value::U64(1)));
    assert_eq!(node.devices.len(), 2);
}

/// The kernel unbinds a function before it removes it. With the driver, all go.
#[test]
fn a_gpu_without_the_driver_is_given_away_until_it_leaves_the_bus() {
    let mut node = Node::new("mi300x");
    let drivers = node.path("/sys/bus/pci/drivers/amdgpu");
    fs::remove_file(drivers.join(PCI)).unwrap();
    fs::remove_file(node.of_gpu("driver")).unwrap();
    assert!(node.source.devices.changed());
    node.scan();
    assert_eq!(node.devices.len(), 1);
    let (folder, away) = (node.of_gpu(""), node.path("/away"));
    fs::rename(&folder, &away).unwrap();
    assert!(node.source.devices.changed());
    node.scan();
    node.read();
    assert_eq!(node.value(&m::UP, &[GPU]), Some(Value::U64(0)));

    fs::remove_dir_all(&drivers).unwrap();
    node.scan();
    assert_eq!(node.devices.len(), 0, "a driver that is unloaded misses no GPU");
    assert!(!node.source.devices.changed());
}

#[test]
fn a_gpu_that_has_another_driver_is_forgotten() {
    let mut node = Node::new("mi300x");
    fs::remove_file(node.path(&format!("/sys/bus/pci/drivers/amdgpu/{PCI}"))).unwrap();
    fs::remove_file(node.of_gpu("driver")).unwrap();
    node.scan();
    // The link to vfio-pci.
    fs::create_dir(node.of_gpu("driver")).unwrap();
    assert!(node.source.devices.changed());
    node.scan();
    assert!(!node.source.devices.changed());
    fs::rename(node.of_gpu(""), node.path("/away")).unwrap();
    assert!(!node.source.devices.changed());
    node.scan();
    assert_eq!(node.devices.len(), 1);
}

#[test]
fn another_gpu_at_the_address_of_a_lost_one_replaces_it() {
    let mut node = Node::new("mi300x");
    let link = node.path(&format!("/sys/bus/pci/drivers/amdgpu/{PCI}"));
    let (folder, away) = (node.of_gpu(""), node.path("/away"));
    fs::rename(&folder, &away).unwrap();
    fs::remove_file(&link).unwrap();
    node.scan();
    fs::rename(&away, &folder).unwrap();
    fs::write(node.of_gpu("unique_id"), "5d0e0000aa0000ff\n").unwrap();
    std::os::unix::fs::symlink("../../../../devices", &link).unwrap();
    node.scan();
    let names: Vec<_> = node.devices.iter().map(|d| d.subject().name.clone()).collect();
    assert_eq!(names, ["GPU-5d0e0000aa0000ff", "GPU-5d0e0000aa000002"]);
}

#[test]
fn a_gpu_whose_id_the_driver_refuses_during_a_reset_keeps_its_name_or_gets_it_afterwards() {
    let names = |node: &Node| -> Vec<_> { node.devices.iter().map(|d| d.subject().name.clone()).collect() };
    let uuid = |node: &mut Node| {
        node.read();
        let mut pages = node.block.iter().filter(|(s, _)| s.metric == &m::AMD_INFO);
        pages.next().map(|(s, _)| s.labels[3].to_string()).unwrap()
    };
    let mut node = Node::new("mi300x");
    let (before, id) = (uuid(&mut node), node.of_gpu("unique_id"));
    fs::rename(&id, node.path("/id")).unwrap();
    fs::create_dir(&id).unwrap();
    node.scan();
    assert_eq!(names(&node)[0], GPU);
    assert_eq!(uuid(&mut node), before);
    assert!(!node.source.devices.changed());

    let mut started = Node::new("mi300x");
    let id = started.of_gpu("unique_id");
    let away = started.path("/id");
    fs::rename(&id, &away).unwrap();
    fs::create_dir(&id).unwrap();
    // Another inode: nothing is known of it.
    let link = started.path(&format!("/sys/bus/pci/drivers/amdgpu/{PCI}"));
    let new = started.path("/new");
    std::os::unix::fs::symlink("../../../../devices", &new).unwrap();
    fs::rename(&new, &link).unwrap();
    started.scan();
    assert_eq!(names(&started)[0], format!("pci:{PCI}"));
    assert!(!started.source.devices.changed());
    fs::remove_dir(&id).unwrap();
    fs::rename(&away, &id).unwrap();
    assert!(started.source.devices.changed());
    started.scan();
    assert_eq!(names(&started)[0], GPU);
}

/// The driver has a link to the GPU and KFD a node before there are files of its identity.
#[test]
fn a_gpu_that_was_listed_while_its_driver_started_it_gets_its_name_afterwards() {
    let mut node = Node::new("mi300x");
    let link = node.path(&format!("/sys/bus/pci/drivers/amdgpu/{PCI}"));
    let new = node.path("/new");
    std::os::unix::fs::symlink("../../../../devices", &new).unwrap();
    let late = ["unique_id", "serial_number", "drm"];
    for file in late {
        fs::rename(node.of_gpu(file), node.path(&format!("/{file}"))).unwrap();
    }
    fs::rename(&new, &link).unwrap();
    node.scan();
    let names = |node: &Node| -> Vec<_> { node.devices.iter().map(|d| d.subject().name.clone()).collect() };
    assert_eq!(names(&node)[0], format!("pci:{PCI}"));
    assert!(!node.source.devices.changed());
    for file in late {
        fs::rename(node.path(&format!("/{file}")), node.of_gpu(file)).unwrap();
    }
    assert!(node.source.devices.changed());
    node.scan();
    assert_eq!(names(&node)[0], GPU);
    assert!(!node.source.devices.changed());
}
