//! How ports are set up: their GID tables, what stands in configfs, where they sit, and what the kernel has for GPUs.

use super::*;
use crate::rdma::hub::Hub;

const EMPTY: &str = "0000:0000:0000:0000:0000:0000:0000:0000";
const IPV4: &str = "0000:0000:0000:0000:0000:ffff:c000:0201";
const GLOBAL: &str = "2001:0db8:0000:0000:0000:0000:0000:0001";
const LOCAL: &str = "fe80:0000:0000:0000:0e42:a1ff:fe65:93a0";
const V1: &str = "IB/RoCE v1";
const V2: &str = "RoCE v2";

impl Node {
    /// An Ethernet port with this GID table.
    fn with_gids(gids: &[(&str, &str)]) -> Self {
        let node = Self::with(&["mlx5_0"]);
        node.write("infiniband/mlx5_0/ports/1/link_layer", "Ethernet\n");
        node.write("infiniband/mlx5_0/node_type", "1: CA\n");
        for (index, (gid, version)) in gids.iter().enumerate() {
            node.gid(index, gid, version);
        }
        node
    }

    fn gid(&self, index: usize, gid: &str, version: &str) {
        let port = "infiniband/mlx5_0/ports/1";
        self.write(&format!("{port}/gids/{index}"), &format!("{gid}\n"));
        if !version.is_empty() {
            self.write(
                &format!("{port}/gid_attrs/types/{index}"),
                &format!("{version}\n"),
            );
        }
    }

    fn put(&self, path: &str, text: &str) {
        let text = tree::Entry::File(text.as_bytes().to_vec());
        tree::put(&self.dir.path().join(path), &text).unwrap();
    }

    fn readings(&self, settings: &str) -> BTreeMap<String, u64> {
        read(&mut *self.ports(settings)[0])
    }
}

fn families(readings: &BTreeMap<String, u64>) -> Vec<&str> {
    let gids = readings
        .keys()
        .filter_map(|k| k.strip_prefix("rdma_roce_gid_info mlx5_0 1 "));
    gids.collect()
}

#[test]
fn a_port_tells_its_gids_with_version_and_family() {
    let node = Node::with_gids(&[(LOCAL, V1), (LOCAL, V2), (IPV4, V1), (IPV4, V2), (GLOBAL, V2)]);
    let readings = node.readings("");
    let expected = [
        "0 RoCE v1 link_local",
        "1 RoCE v2 link_local",
        "2 RoCE v1 ipv4",
        "3 RoCE v2 ipv4",
        "4 RoCE v2 ipv6",
    ];
    assert_eq!(families(&readings), expected);
    assert_eq!(value(&readings, "rdma_roce_v2_gids mlx5_0 1"), Some(2));
}

#[test]
fn a_port_of_version_1_alone_has_no_gid_to_route_by() {
    let node = Node::with_gids(&[(LOCAL, V1), (IPV4, V1)]);
    assert_eq!(value(&node.readings(""), "rdma_roce_v2_gids mlx5_0 1"), Some(0));
}

/// A place that was emptied keeps its number: its gid is zeros, and its type EINVAL.
#[test]
fn holes_in_the_table_are_no_entries_and_a_long_one_ends_it() {
    let node = Node::with_gids(&[(LOCAL, V1)]);
    for hole in 1..8 {
        node.gid(hole, EMPTY, "");
    }
    node.gid(8, IPV4, V2);
    for hole in 9..17 {
        node.gid(hole, EMPTY, "");
    }
    node.gid(17, GLOBAL, V2);
    let readings = node.readings("nccl_gid_index = 17");
    assert_eq!(families(&readings), ["0 RoCE v1 link_local", "8 RoCE v2 ipv4"]);
    // The one that is asked for by number is found behind it.
    assert_eq!(
        value(&readings, "rdma_roce_nccl_gid_info mlx5_0 1 17 RoCE v2"),
        Some(1)
    );
}

#[test]
fn a_table_is_read_to_its_64th_entry_and_how_many_are_behind_it_is_not_known() {
    for (entries, expected) in [(63, Some(63)), (64, None), (100, None)] {
        let node = Node::with_gids(&vec![(IPV4, V2); entries]);
        let readings = node.readings("");
        assert_eq!(value(&readings, "rdma_roce_v2_gids mlx5_0 1"), expected);
        assert_eq!(families(&readings).len(), entries.min(64));
    }
}

#[test]
fn a_table_that_begins_with_a_long_hole_may_have_entries_behind_it() {
    for (places, expected) in [(7, Some(0)), (8, None)] {
        let node = Node::with_gids(&vec![(EMPTY, ""); places]);
        assert_eq!(
            value(&node.readings(""), "rdma_roce_v2_gids mlx5_0 1"),
            expected,
            "{places}"
        );
    }
}

#[test]
fn a_table_that_cannot_be_read_is_left_alone_after_three_times() {
    let node = Node::with_gids(&[(IPV4, V2), ("fe80", V2)]);
    let mut port = node.ports("").remove(0);
    let mut gids = || value(&read(&mut *port), "rdma_roce_v2_gids mlx5_0 1");
    assert_eq!([gids(), gids(), gids()], [None; 3]);
    node.gid(1, GLOBAL, V2);
    assert_eq!(gids(), None, "it has a rest");
}

#[test]
fn the_gid_that_nccl_is_told_to_take_may_be_missing_or_of_version_1() {
    let node = Node::with_gids(&[(LOCAL, V1), (LOCAL, V2), (IPV4, V1), (IPV4, V2), (EMPTY, "")]);
    for (index, version) in [(2, "RoCE v1"), (3, V2), (4, "none"), (5, "none"), (255, "none")] {
        let readings = node.readings(&format!("nccl_gid_index = {index}"));
        let series = format!("rdma_roce_nccl_gid_info mlx5_0 1 {index} {version}");
        assert_eq!(value(&readings, &series), Some(1), "{readings:?}");
    }
    assert!(!node.readings("").keys().any(|k| k.contains("nccl")));
    for bad in ["-1", "\"3\"", "1.5"] {
        assert!(SPEC.settings(&format!("nccl_gid_index = {bad}")).is_err());
    }
}

#[test]
fn where_there_is_no_table_nothing_is_said_of_it() {
    // InfiniBand has GIDs and no RoCE; iWARP has Ethernet and no RoCE.
    for (file, text) in [
        ("infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n"),
        ("infiniband/mlx5_0/node_type", "4: RNIC\n"),
    ] {
        let node = Node::with_gids(&[(LOCAL, V1)]);
        node.write(file, text);
        assert!(
            !node
                .readings("nccl_gid_index = 0")
                .keys()
                .any(|k| k.contains("roce_"))
        );
    }
    let node = Node::with_gids(&[]);
    assert_eq!(value(&node.readings(""), "rdma_roce_v2_gids mlx5_0 1"), None);
    // A garbled entry: how many there are is not known.
    let node = Node::with_gids(&[(IPV4, V2), ("fe80", V2)]);
    assert_eq!(value(&node.readings(""), "rdma_roce_v2_gids mlx5_0 1"), None);
}

#[test]
fn a_table_is_read_again_when_something_was_told_and_not_before() {
    let node = Node::with_gids(&[(IPV4, V2)]);
    let files = attribute::AttributeFiles {
        budget: DescriptorBudget::of_process(),
        on_disk: false,
    };
    let hub = Hub::new(None);
    let table = settings::RdmaSettings::default();
    let mut devices = scan::RdmaDevices::new(&node.env(), table, files, LOOK, Arc::clone(&hub));
    let mut ports = devices.scan().unwrap();
    let gids = |port: &mut dyn Device| value(&read(port), "rdma_roce_v2_gids mlx5_0 1");
    assert_eq!(gids(&mut *ports[0]), Some(1));
    node.gid(1, GLOBAL, V2);
    assert_eq!(gids(&mut *ports[0]), Some(1));
    hub.suspect();
    assert_eq!(gids(&mut *ports[0]), Some(2));
}

#[test]
fn what_is_told_to_have_changed_is_looked_at_before_its_time() {
    let node = Node::with(&["mlx5_0"]);
    let files = attribute::AttributeFiles {
        budget: DescriptorBudget::of_process(),
        on_disk: false,
    };
    let hub = Hub::new(None);
    let table = settings::RdmaSettings::default();
    let mut devices = scan::RdmaDevices::new(
        &node.env(),
        table,
        files,
        Duration::from_secs(3600),
        Arc::clone(&hub),
    );
    devices.scan().unwrap();
    node.add("mlx5_0", "2");
    assert!(!devices.changed(), "a port may wait");
    hub.suspect();
    assert!(devices.changed());
    let found = devices.scan().unwrap();
    assert_eq!(names(&found), ["mlx5_0/1", "mlx5_0/2"]);
    let (_, listed) = hub.listed().unwrap();
    assert_eq!(listed["mlx5_0"].len(), 2);
}

#[test]
fn a_port_says_which_interface_carries_its_link() {
    let node = Node::with_gids(&[]);
    node.write("infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "bond0\n");
    node.add("mlx5_1", "1");
    node.write("infiniband/mlx5_1/ports/1/gid_attrs/ndevs/0", "ib0\n");
    let files = attribute::AttributeFiles {
        budget: DescriptorBudget::of_process(),
        on_disk: false,
    };
    let hub = Hub::new(None);
    let table = settings::RdmaSettings::default();
    let mut devices = scan::RdmaDevices::new(&node.env(), table, files, LOOK, Arc::clone(&hub));
    for port in &mut devices.scan().unwrap() {
        read(&mut **port);
    }
    let (_, listed) = hub.listed().unwrap();
    assert_eq!(listed["mlx5_0"][&1], "bond0");
    // IP over InfiniBand loses its carrier for reasons of its own.
    assert_eq!(listed["mlx5_1"][&1], "");
}

#[test]
fn what_rdma_cm_takes_is_told_where_somebody_has_asked_and_never_made() {
    let node = Node::with_gids(&[(IPV4, V2)]);
    let config = node.dir.path().join("sys/kernel/config/rdma_cm");
    fs::create_dir_all(&config).unwrap();
    assert!(!node.readings("").keys().any(|k| k.contains("cm_default")));
    assert_eq!(fs::read_dir(&config).unwrap().count(), 0);
    node.put(
        "sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode",
        "IB/RoCE v1\n",
    );
    let readings = node.readings("");
    let series = "rdma_cm_default_roce_mode_info mlx5_0 1 IB/RoCE v1";
    assert_eq!(value(&readings, series), Some(1));
}

#[test]
fn ways_to_give_gpu_memory_are_told_once_for_the_node() {
    let node = Node::with(&["mlx5_0", "mlx5_1"]);
    let methods = |node: &Node| {
        let mut all = Vec::new();
        for port in &mut node.ports("") {
            let readings = read(&mut **port);
            let found = readings
                .keys()
                .filter_map(|k| k.strip_prefix("rdma_gpudirect_info "));
            all.extend(found.map(str::to_owned));
        }
        all
    };
    node.put("proc/sys/kernel/osrelease", "6.12.0-55.el10.x86_64\n");
    assert_eq!(methods(&node), [""; 0], "RDMA is not for programs here");
    node.put("sys/module/ib_uverbs/refcnt", "0\n");
    assert_eq!(methods(&node), ["dma_buf"]);
    node.put("sys/module/nvidia_peermem/refcnt", "0\n");
    assert_eq!(methods(&node), ["dma_buf", "nvidia_peermem"]);
    node.put("proc/sys/kernel/osrelease", "5.11.0-27-generic\n");
    assert_eq!(methods(&node), ["nvidia_peermem"]);
}

/// Where each port of a node sits.
fn paths(node: &Node, settings: &str) -> Vec<String> {
    let mut all = Vec::new();
    for port in &mut node.ports(settings) {
        let readings = read(&mut **port);
        let found = readings
            .keys()
            .filter_map(|k| k.strip_prefix("rdma_port_path_info "));
        all.extend(found.map(str::to_owned));
    }
    all
}

impl Node {
    /// A device below a function, by its path from the root complex.
    fn below(&self, device: &str, path: &str, numa_node: &str) {
        let function = self.dir.path().join("sys/devices").join(path);
        fs::create_dir_all(&function).unwrap();
        fs::write(function.join("numa_node"), format!("{numa_node}\n")).unwrap();
        self.link(&format!("infiniband/{device}/device"), &function);
    }
}

#[test]
fn ports_of_one_function_sit_in_one_place_and_virtual_ones_beside_it() {
    let node = Node::with(&["mlx4_0", "mlx5_2"]);
    node.add("mlx4_0", "2");
    node.below("mlx4_0", "pci0000:3a/0000:3a:00.0/0000:3b:00.0", "1");
    node.below("mlx5_2", "pci0000:3a/0000:3a:00.0/0000:3b:00.2", "-1");
    node.link("infiniband/mlx5_2/device/physfn", "../0000:3b:00.0");
    let expected = [
        "mlx4_0 1 pci0000:3a/0000:3a:00.0/0000:3b:00.0 1",
        "mlx4_0 2 pci0000:3a/0000:3a:00.0/0000:3b:00.0 1",
    ];
    assert_eq!(paths(&node, ""), expected);
    let with_virtual = paths(&node, "virtual_functions = true");
    assert_eq!(
        with_virtual[2..],
        ["mlx5_2 1 pci0000:3a/0000:3a:00.0/0000:3b:00.2 "]
    );
    assert_eq!(paths(&node, "exclude = [\"mlx4_0\"]"), [""; 0]);
}

#[test]
fn a_software_device_sits_nowhere() {
    let node = Node::with(&["rxe0"]);
    node.write("infiniband/rxe0/parent", "ens1\n");
    assert_eq!(paths(&node, ""), [""; 0]);
}
