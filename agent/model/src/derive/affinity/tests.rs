use super::*;
use crate::sample;

const GPU: &str = "0000:1b:00.0";

fn seat<'a>(path: &'a str, numa_node: &'a str) -> Seat<'a> {
    Seat { path, numa_node }
}

#[test]
fn distances_are_those_of_nvidia_smi() {
    for (gpu, port, distance) in [
        // Below one switch: its upstream port in common, a downstream port each.
        (
            "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0",
            "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0",
            Distance::Pix,
        ),
        // Two functions of one slot.
        (
            "pci0000:15/0000:15:01.0/0000:16:00.0",
            "pci0000:15/0000:15:01.0/0000:16:00.1",
            Distance::Pix,
        ),
        // A second switch between: in the port's card, or on the board.
        (
            "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0",
            "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0/0000:1a:00.0/0000:1b:00.0",
            Distance::Pxb,
        ),
        // A slot of the processor each.
        (
            "pci0000:15/0000:15:01.0/0000:16:00.0",
            "pci0000:15/0000:15:02.0/0000:17:00.0",
            Distance::Phb,
        ),
        (
            "pci0000:15/0000:15:01.0/0000:16:00.0",
            "pci0000:3a/0000:3a:01.0/0000:3b:00.0",
            Distance::Node,
        ),
        // One that the tree of files does not place.
        ("pci0000:15/0000:15:01.0/0000:16:00.0", "", Distance::Node),
        ("", "", Distance::Node),
    ] {
        let (gpu, port) = (seat(gpu, "0"), seat(port, "0"));
        assert_eq!(
            (gpu.to(port), port.to(gpu)),
            (distance, distance),
            "{gpu:?} {port:?}"
        );
    }
}

#[test]
fn another_root_complex_is_near_only_where_the_numa_nodes_are_known_to_be_one() {
    let to = |gpu_node, port_node| {
        let gpu = seat("pci0000:15/0000:15:01.0/0000:16:00.0", gpu_node);
        gpu.to(seat("pci0000:3a/0000:3a:01.0/0000:3b:00.0", port_node))
    };
    assert_eq!(to("1", "1"), Distance::Node);
    assert_eq!(to("0", "1"), Distance::Sys);
    // -1, as in a virtual machine.
    assert_eq!(
        (to("", ""), to("0", ""), to("", "0")),
        (Distance::Sys, Distance::Sys, Distance::Sys)
    );
    // The same segment under another number is another one.
    let far = seat("pci0001:15/0001:15:01.0/0001:16:00.0", "0");
    assert_eq!(
        seat("pci0000:15/0000:15:01.0/0000:16:00.0", "1").to(far),
        Distance::Sys
    );
}

/// A node of a GPU at [`GPU`] and these ports: device, port, path, NUMA node.
fn node(gpu: (&str, &str), ports: &[(&str, &str, &str, &str)]) -> Snapshot {
    let mut devices = vec![sample::device("bus", |b| {
        b.info(&PCI_GPU_PATH_INFO, &[GPU, gpu.0, gpu.1]);
    })];
    for (device, port, path, numa_node) in ports {
        devices.push(sample::device(device, |b| {
            b.info(&PORT_PATH_INFO, &[device, port, path, numa_node]);
        }));
    }
    sample::snapshot(devices)
}

fn words(near: &[Affinity]) -> Vec<String> {
    let word = |a: &Affinity| format!("{} {}/{} {}", a.gpu, a.device, a.port, a.distance.word());
    near.iter().map(word).collect()
}

#[test]
fn a_gpu_has_its_nearest_ports_alone_by_its_uuid() {
    let snapshot = node(
        (
            "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:1b:00.0",
            "0",
        ),
        &[
            (
                "mlx5_9",
                "1",
                "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0",
                "0",
            ),
            ("mlx5_1", "1", "pci0000:3a/0000:3a:01.0/0000:3b:00.0", "0"),
            // Both ports of one function.
            (
                "mlx5_2",
                "2",
                "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:1a:00.0",
                "0",
            ),
            (
                "mlx5_2",
                "1",
                "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:1a:00.0",
                "0",
            ),
        ],
    );
    let inventory = Inventory::from([(PciAddress(GPU.to_owned()), "GPU-1".to_owned())]);
    let expected = ["GPU-1 mlx5_2/1 PIX", "GPU-1 mlx5_2/2 PIX", "GPU-1 mlx5_9/1 PIX"];
    assert_eq!(words(&nearest(&snapshot, &inventory)), expected);
    let unnamed = nearest(&snapshot, &Inventory::default());
    assert_eq!(unnamed[0].gpu, format!("pci:{GPU}"));
}

#[test]
fn many_ports_that_are_equally_far_are_not_all_told() {
    let names: Vec<String> = (0..12).rev().map(|n| format!("mlx5_{n}")).collect();
    let ports: Vec<_> = names
        .iter()
        .map(|name| (name.as_str(), "1", "pci0000:3a/0000:3a:01.0/0000:3b:00.0", ""))
        .collect();
    let snapshot = node(("pci0000:15/0000:15:01.0/0000:1b:00.0", ""), &ports);
    let near = nearest(&snapshot, &Inventory::default());
    assert_eq!(near.len(), MAX_PORTS);
    let devices: Vec<&str> = near.iter().map(|a| a.device.as_str()).collect();
    assert_eq!(
        devices,
        ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"],
        "2 comes before 10"
    );
    assert!(near.iter().all(|a| a.distance == Distance::Sys));
}

#[test]
fn without_ports_or_without_gpus_there_is_no_pair() {
    let gpu = ("pci0000:15/0000:15:01.0/0000:1b:00.0", "0");
    assert_eq!(nearest(&node(gpu, &[]), &Inventory::default()), []);
    assert_eq!(nearest(&Snapshot::empty(sample::AT), &Inventory::default()), []);
}
