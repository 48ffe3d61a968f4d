//! The PCI bus: functions that leave, come, change or do not answer.

use super::*;

#[test]
fn a_function_of_unknown_kind_makes_the_count_unknown_and_nothing_else() {
    let whole = Node::new().read();
    for (name, fault) in FAULTS {
        // A function without these files has just left: nothing is unknown then.
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
            assert_eq!(read(&mut runner), whole, "{file}: {name}: mended");
        }
    }
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
    assert_eq!(read(&mut runner), whole, "what cannot change is not read again");

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
        // Not a link: which driver is bound, and so whose the function is, is not known.
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
