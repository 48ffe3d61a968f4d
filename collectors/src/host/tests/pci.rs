//! The PCI bus: functions that leave, appear, change or do not answer.

use super::*;

#[test]
fn a_function_of_unknown_kind_makes_the_count_unknown_and_nothing_else() {
    let whole = Node::new().read();
    for (name, fault) in FAULTS {
        // A function without these files was just removed: nothing is unknown then.
        if ["gone", "a link to nowhere"].contains(name) {
            continue;
        }
        for file in ["class", "vendor"] {
            let node = Node::new();
            let path = node.path(&format!("{PCI}/{B}/{file}"));
            let text = fs::read(&path).unwrap();
            break_file(&path, *fault);
            let mut runner = node.runner();
            let (gone, new) = change(&whole, &read(&mut runner));
            assert_eq!(new, Vec::<String>::new(), "{file}: {name}");
            assert!(
                gone.iter()
                    .all(|k| k.starts_with("host_pci_gpus ") || k.contains(B)),
                "{file}: {name}: {gone:?}"
            );
            assert!(
                gone.contains(&"host_pci_gpus nvidia".to_owned()),
                "{file}: {name}"
            );

            if path.is_dir() {
                fs::remove_dir(&path).unwrap();
            } else {
                fs::remove_file(&path).unwrap();
            }
            fs::write(&path, text).unwrap();
            assert_eq!(read(&mut runner), whole, "{file}: {name}: restored");
        }
    }
}

/// A virtual function is not counted, and whether it is one is known by a link.
#[test]
fn a_gpu_that_may_be_a_virtual_function_makes_the_count_unknown() {
    let node = Node::new();
    node.write(&format!("{PCI}/{B}/physfn"), "no link\n");
    let found = node.read();
    assert_eq!(found.get("host_pci_gpus nvidia"), None);
    assert!(!found.keys().any(|k| k.contains(B)), "{found:?}");
}

#[test]
fn a_gpu_without_a_readable_model_or_place_is_still_counted() {
    let node = Node::new();
    for file in ["device", "numa_node"] {
        node.write(&format!("{PCI}/{B}/{file}"), "-1\n");
    }
    let found = node.read();
    assert_eq!(found["host_pci_gpus nvidia"], 2);
    let key = format!("host_pci_gpu_info {B} nvidia 0x10de  0x030200 physical nvidia ");
    assert!(found.contains_key(&key), "{found:?}");
}

#[test]
fn a_gpu_that_leaves_leaves_the_output() {
    let node = Node::new();
    let mut runner = node.runner();
    let whole = read(&mut runner);
    fs::remove_dir_all(node.path(&format!("{PCI}/{B}"))).unwrap();
    let found = read(&mut runner);
    assert_eq!(found["host_pci_gpus nvidia"], 1);
    assert!(!found.keys().any(|k| k.contains(B)), "{found:?}");
    node.gpu(B, "0x2330");
    assert_eq!(read(&mut runner), whole);
}

#[test]
fn a_gpu_that_leaves_between_list_and_read_is_not_counted() {
    for file in ["class", "vendor", "device"] {
        let node = Node::new();
        let path = node.path(&format!("{PCI}/{B}/{file}"));
        break_file(&path, |p| symlink("nowhere", p).unwrap());
        let found = node.read();
        assert_eq!(found["host_pci_gpus nvidia"], 1, "{file}");
        assert!(!found.keys().any(|k| k.contains(B)), "{file}: {found:?}");
    }
}

#[test]
fn a_function_is_looked_at_once_and_again_when_another_takes_its_address() {
    let node = Node::new();
    let mut runner = node.runner();
    let whole = read(&mut runner);
    node.write(&format!("{PCI}/{B}/device"), "0x20b0\n");
    assert_eq!(read(&mut runner), whole, "constant values are not read again");

    let aside = node.path("new");
    fs::rename(node.path(&format!("{PCI}/{A}")), &aside).unwrap();
    fs::rename(node.path(&format!("{PCI}/{B}")), node.path(&format!("{PCI}/{A}"))).unwrap();
    let found = read(&mut runner);
    assert!(
        found.keys().any(|k| k.contains(A) && k.contains("0x20b0")),
        "{found:?}"
    );
    assert_eq!(found["host_pci_gpus nvidia"], 1);
}

#[test]
fn only_a_read_of_all_ones_says_that_a_gpu_is_off_the_bus() {
    let cases: [(&[u8], Option<u64>); 6] = [
        (&[0xff, 0xff, 0xff, 0xff, 0xff], Some(0)),
        (&[0xde, 0x10, 0xff, 0xff], Some(1)),
        (&[0xff, 0xff, 0xff], None),
        (&[], None),
        (&[0x01, 0x00, 0xff, 0xff], None),
        (&[0x00, 0x00, 0x00, 0x00], Some(1)),
    ];
    for (bytes, want) in cases {
        let node = Node::new();
        node.write(&format!("{PCI}/{B}/config"), bytes);
        let found = node.read();
        let of = |address| {
            found
                .get(&format!("host_pci_function_responding {address}"))
                .copied()
        };
        assert_eq!(of(B), want, "{bytes:x?}");
        assert_eq!(of(A), Some(1), "{bytes:x?}");
    }
}

#[test]
fn a_gpu_that_must_not_be_asked_is_not() {
    for (file, content) in [
        ("power/runtime_status", "suspended\n"),
        ("power/runtime_status", "suspending\n"),
        ("power/runtime_status", "resuming\n"),
        // Not a link: which driver is bound, and so who owns the function, is unknown.
        ("driver", ""),
    ] {
        let node = Node::new();
        let path = node.path(&format!("{PCI}/{B}/{file}"));
        if path.symlink_metadata().is_ok() {
            fs::remove_file(&path).unwrap();
        }
        node.write(&format!("{PCI}/{B}/{file}"), content);
        node.write(&format!("{PCI}/{B}/config"), [0xff; 4]);
        let found = node.read();
        let key = format!("host_pci_function_responding {B}");
        assert_eq!(found.get(&key), None, "{file} {content}");
        assert_eq!(found["host_pci_gpus nvidia"], 2);
    }
}

const LINK: [(&str, &str); 4] = [
    ("current_link_speed", "2.5 GT/s PCIe"),
    ("current_link_width", "8"),
    ("max_link_speed", "32.0 GT/s PCIe"),
    ("max_link_width", "16"),
];

#[test]
fn a_broken_link_file_costs_its_own_series_only() {
    let node = Node::new();
    for (file, text) in LINK {
        node.write(&format!("{PCI}/{A}/{file}"), format!("{text}\n"));
    }
    let whole = node.read();
    assert_eq!(whole[&format!("host_pci_link_width {A}")], 8);
    for (name, fault) in FAULTS {
        for (file, text) in LINK {
            let path = node.path(&format!("{PCI}/{A}/{file}"));
            break_file(&path, *fault);
            let (gone, new) = change(&whole, &node.read());
            assert_eq!(new, Vec::<String>::new(), "{file}: {name}");
            assert_eq!(gone.len(), 1, "{file}: {name}: {gone:?}");
            if path.is_dir() {
                fs::remove_dir(&path).unwrap();
            } else if fs::symlink_metadata(&path).is_ok() {
                fs::remove_file(&path).unwrap();
            }
            fs::write(&path, text).unwrap();
        }
    }
}

#[test]
fn a_function_that_sleeps_is_not_asked_for_its_link() {
    let node = Node::new();
    for (file, text) in LINK {
        node.write(&format!("{PCI}/{A}/{file}"), format!("{text}\n"));
    }
    node.write(&format!("{PCI}/{A}/power/runtime_status"), "active\n");
    let mut runner = node.runner();
    let key = format!("host_pci_link_speed_transfers_per_second {A}");
    assert_eq!(read(&mut runner)[&key], 2_500_000_000);
    node.write(&format!("{PCI}/{A}/power/runtime_status"), "suspended\n");
    assert!(!read(&mut runner).keys().any(|k| k.starts_with("host_pci_link")));
    node.write(&format!("{PCI}/{A}/power/runtime_status"), "active\n");
    assert_eq!(read(&mut runner)[&key], 2_500_000_000);
}

#[test]
fn a_function_of_a_virtual_machine_is_not_asked_for_its_link() {
    for (driver, is_asked) in [
        ("vfio-pci", false),
        ("nvgrace_gpu_vfio_pci", false),
        ("mlx5_vfio_pci", false),
        ("nvidia", true),
    ] {
        let node = Node::new();
        for (file, text) in LINK {
            node.write(&format!("{PCI}/{A}/{file}"), format!("{text}\n"));
        }
        let link = node.path(&format!("{PCI}/{A}/driver"));
        fs::remove_file(&link).ok();
        symlink(format!("../drivers/{driver}"), link).unwrap();
        let found = node.read();
        let has_link = found.keys().any(|k| k.starts_with("host_pci_link"));
        assert_eq!(has_link, is_asked, "{driver}");
    }
}

#[test]
fn a_memory_controller_that_is_loaded_again_has_the_dimms_of_the_new_one() {
    let node = Node::new();
    let mut runner = node.runner();
    let whole = read(&mut runner);
    // Kept, so that its inode is not reused for the next one.
    fs::rename(node.path(&format!("{MC}/mc0")), node.path("old")).unwrap();
    node.write(&format!("{MC}/mc0/ue_count"), "1\n");
    node.write(&format!("{MC}/mc0/dimm7/dimm_ue_count"), "9\n");
    let found = read(&mut runner);
    assert_eq!(found["host_edac_dimm_uncorrected_errors_total mc0 dimm7"], 9);
    assert!(!found.keys().any(|k| k.contains("dimm0")), "{found:?}");
    assert!(whole.keys().any(|k| k.contains("dimm0")));
}

#[test]
fn a_memory_controller_that_comes_or_goes_is_noticed_at_the_next_reading() {
    let node = Node::new();
    let mut runner = node.runner();
    let whole = read(&mut runner);
    node.write(&format!("{MC}/mc1/ue_count"), "4\n");
    let (gone, new) = change(&whole, &read(&mut runner));
    assert_eq!(gone, Vec::<String>::new());
    assert_eq!(new, ["host_edac_uncorrected_errors_total mc1 = 4"]);
    fs::remove_dir_all(node.path(&format!("{MC}/mc1"))).unwrap();
    assert_eq!(read(&mut runner), whole);
}

const NIC: &str = "0000:19:00.0";

fn network(node: &Node, driver: Option<&str>, registered: bool) {
    node.write(&format!("{PCI}/{NIC}/class"), "0x020000\n");
    if let Some(driver) = driver {
        symlink(
            format!("../drivers/{driver}"),
            node.path(&format!("{PCI}/{NIC}/driver")),
        )
        .unwrap();
    }
    if registered {
        fs::create_dir_all(node.path(&format!("{PCI}/{NIC}/infiniband"))).unwrap();
    }
}

#[test]
fn an_rdma_device_in_another_namespace_is_registered_all_the_same() {
    for (driver, registered) in [
        (Some("mlx5_core"), true),
        (Some("mlx5_core"), false),
        (None, false),
        (Some("vfio-pci"), false),
    ] {
        let node = Node::new();
        // The folder exists and shows no device.
        network(&node, driver, registered);
        let found = node.read();
        let driver = driver.unwrap_or_default();
        assert!(
            found.contains_key(&format!("host_pci_network_info {NIC} {driver}")),
            "{found:?}"
        );
        let value = found[&format!("host_pci_rdma_registered {NIC}")];
        assert_eq!(value, u64::from(registered), "{driver}");
    }
}

#[test]
fn a_network_function_that_leaves_leaves_the_output_and_a_virtual_one_is_not_in_it() {
    let node = Node::new();
    network(&node, Some("mlx5_core"), true);
    let mut runner = node.runner();
    assert!(
        read(&mut runner)
            .keys()
            .any(|k| k.starts_with("host_pci_network_info"))
    );
    fs::remove_dir_all(node.path(&format!("{PCI}/{NIC}"))).unwrap();
    assert!(!read(&mut runner).keys().any(|k| k.contains(NIC)));
    network(&node, Some("mlx5_core"), true);
    symlink("../0000:18:00.0", node.path(&format!("{PCI}/{NIC}/physfn"))).unwrap();
    assert!(!read(&mut runner).keys().any(|k| k.contains(NIC)));
}

/// The graphics of AMD's processors share their PCI device with the processor's USB and security functions. A card does not.
#[test]
fn graphics_of_a_processor_are_no_gpu() {
    let node = Node::new();
    let function = |address: &str, class: &str, vendor: &str| {
        for (file, text) in [("class", class), ("vendor", vendor), ("device", "0x164e")] {
            node.write(&format!("{PCI}/{address}/{file}"), format!("{text}\n"));
        }
    };
    // The processor's: graphics, sound, security, USB.
    function("0000:0f:00.0", "0x030000", "0x1002");
    function("0000:0f:00.1", "0x040300", "0x1002");
    function("0000:0f:00.2", "0x108000", "0x1022");
    function("0000:0f:00.3", "0x0c0330", "0x1022");
    // A card: graphics, sound, USB. Not the first card of its bus, and beside a bridge of the processor on another device.
    function("0000:03:00.0", "0x030000", "0x1002");
    function("0000:03:00.1", "0x040300", "0x1002");
    function("0000:03:00.2", "0x0c0330", "0x1002");
    function("0000:03:01.1", "0x060400", "0x1022");
    // An accelerator that is a processor, too.
    function("0000:04:00.0", "0x120000", "0x1002");
    function("0000:04:00.1", "0x108000", "0x1022");
    let found = node.read();
    assert_eq!(found["host_pci_gpus amd"], 2);
    let is_listed = |at: &str| {
        found
            .keys()
            .any(|k| k.starts_with(&format!("host_pci_gpu_info {at} ")))
    };
    assert!(!is_listed("0000:0f:00.0") && is_listed("0000:03:00.0") && is_listed("0000:04:00.0"));
}

/// A GPU below two switches: root port 00, first switch 10 and 11, second switch 20 and 21.
#[test]
fn the_uplinks_of_all_switches_above_a_gpu_are_watched() {
    let node = Node::new();
    let [root, first, below_first, second, below_second] =
        ["00", "10", "11", "20", "21"].map(|bus| format!("0000:{bus}:00.0"));
    let mut folder = "sys/devices/pci0000:00".to_owned();
    for (address, width) in [
        // Both ends of a link have the same lanes.
        (&root, 8),
        (&first, 8),
        (&below_first, 16),
        (&second, 16),
        (&below_second, 16),
    ] {
        folder = format!("{folder}/{address}");
        for (file, text) in [
            ("class", "0x060400".to_owned()),
            ("vendor", "0x1000".to_owned()),
            ("current_link_width", width.to_string()),
            ("max_link_width", "16".to_owned()),
            ("current_link_speed", "2.5 GT/s PCIe".to_owned()),
            ("max_link_speed", "32.0 GT/s PCIe".to_owned()),
        ] {
            node.write(&format!("{folder}/{file}"), text + "\n");
        }
        fs::create_dir_all(node.path(PCI)).unwrap();
        symlink(
            format!("../../../{}", folder.trim_start_matches("sys/")),
            node.path(&format!("{PCI}/{address}")),
        )
        .unwrap();
    }
    // The GPU moves below the second switch.
    let own = format!("{folder}/{A}");
    fs::rename(node.path(&format!("{PCI}/{A}")), node.path(&own)).unwrap();
    symlink(
        format!("../../../{}", own.trim_start_matches("sys/")),
        node.path(&format!("{PCI}/{A}")),
    )
    .unwrap();
    let found = node.read();
    let widths = |name: &str| {
        let key = format!("host_pci_link_{name} ");
        let of = found
            .iter()
            .filter_map(|(k, v)| Some((k.strip_prefix(&key)?.to_owned(), *v)));
        of.filter(|(pci, _)| pci != A).collect::<Vec<_>>()
    };
    assert_eq!(widths("width"), [(first.clone(), 8), (second.clone(), 16)]);
    assert_eq!(widths("width_max"), [(first.clone(), 16), (second.clone(), 16)]);
    for (uplink, parent) in [(&first, &root), (&second, &below_first)] {
        let info = format!("host_pci_device_info {uplink} switch  {parent}");
        assert!(found.contains_key(&info), "{info}: {found:?}");
    }

    // Where all below sleeps, so does the uplink, and it is not woken.
    node.write(&format!("{PCI}/{first}/power/runtime_status"), "suspended\n");
    let found = node.read();
    assert!(!found.contains_key(&format!("host_pci_link_width {first}")));
    assert!(found.contains_key(&format!("host_pci_link_width {second}")));

    // A GPU that leaves takes them along.
    fs::remove_file(node.path(&format!("{PCI}/{A}"))).unwrap();
    assert!(!node.read().keys().any(|k| k.contains("switch")));
}
