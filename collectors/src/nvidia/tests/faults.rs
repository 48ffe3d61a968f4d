//! One GPU that is lost, rejected, stuck or returns invalid values.

use super::*;

#[test]
fn a_lost_gpu_is_down_under_its_name_and_the_others_go_on() {
    let mut node = Node::of("h100");
    let before = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    node.driver.lose(2).unwrap();
    let seen = node.read_until("it is lost", |seen| up(seen) == up_but(&[2]));
    assert_eq!(get(&seen, &m::UNAVAILABLE_INFO, &[&gpu(2), "lost"]), Some(1.0));
    // Its identity stays known; its readings do not.
    for label in [2, 3, 4, 6] {
        let same = |seen| info(seen, &m::INFO, &gpu(2), label);
        assert_eq!(same(&seen), same(&before));
        assert!(same(&seen).is_some_and(|text| !text.is_empty()));
    }
    assert_eq!(get(&seen, &m::TEMPERATURE, &[&gpu(2)]), None);
    for other in [0, 1, 3, 4, 5, 6, 7] {
        assert!(get(&seen, &m::TEMPERATURE, &[&gpu(other)]).is_some(), "{other}");
        let index = |seen| info(seen, &m::INFO, &gpu(other), 4);
        assert_eq!(index(&seen), index(&before));
    }

    node.driver.lift().unwrap();
    let seen = node.read_until("it is back", |seen| up(seen) == up_but(&[]));
    assert_eq!(get(&seen, &m::UNAVAILABLE_INFO, &[&gpu(2), "lost"]), None);
    assert!(get(&seen, &m::TEMPERATURE, &[&gpu(2)]).is_some());
}

#[test]
fn a_gpu_that_is_lost_in_the_middle_of_a_reading_shows_nothing_of_it() {
    let mut node = Node::of("h100");
    node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    let lost = Fault::Code(code::GPU_IS_LOST);
    node.driver
        .break_call(5, "nvmlDeviceGetComputeRunningProcesses", lost)
        .unwrap();
    let seen = node.read_until("it is lost", |seen| up(seen) == up_but(&[5]));
    assert_eq!(get(&seen, &m::UTILIZATION, &[&gpu(5)]), None);
}

#[test]
fn a_lost_gpu_is_asked_one_question_in_a_reading() {
    let mut node = Node::of("h100");
    node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    node.driver.lose(2).unwrap();
    node.read_until("it is lost", |seen| up(seen) == up_but(&[2]));
    // Every 10 s a reading also looks for it, which needs more calls.
    let asked = (0..10).find_map(|_| {
        let before = node.driver.calls();
        node.read();
        let asked = node.driver.calls().since(&before);
        (asked.of("nvmlDeviceGetCount") == 0).then(|| asked.of_gpu(2))
    });
    assert_eq!(asked, Some(1));
}

#[test]
fn a_gpu_that_answers_nothing_but_an_unknown_code_is_down() {
    let mut node = Node::of("h100");
    node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    node.driver
        .inject(testkit::nvml::Rule {
            gpu: Some(1),
            call: None,
            field: None,
            fault: Fault::Code(code::UNHEARD_OF),
        })
        .unwrap();
    let seen = node.read_until("it is down", |seen| up(seen) == up_but(&[1]));
    assert_eq!(get(&seen, &m::UNAVAILABLE_INFO, &[&gpu(1), "unknown"]), Some(1.0));
}

#[test]
fn one_question_without_an_answer_costs_its_own_value() {
    let mut node = Node::of("h100");
    assert_eq!(get(&node.read(), &m::UNREAD_VALUES, &[&gpu(3), "unknown"]), None);
    node.driver
        .break_call(3, "nvmlDeviceGetUtilizationRates", Fault::Code(code::UNKNOWN))
        .unwrap();
    assert_eq!(
        get(&node.read(), &m::UNREAD_VALUES, &[&gpu(3), "unknown"]),
        Some(1.0)
    );
    node.driver
        .break_field(3, "MEMORY_TEMP", Fault::Code(code::UNKNOWN))
        .unwrap();
    let seen = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    assert_eq!(get(&seen, &m::UTILIZATION, &[&gpu(3)]), None);
    assert_eq!(get(&seen, &m::MEMORY_TEMPERATURE, &[&gpu(3)]), None);
    assert!(get(&seen, &m::TEMPERATURE, &[&gpu(3)]).is_some());
    // A query that was not rejected as unsupported is repeated.
    node.driver.lift().unwrap();
    node.read_until("it answers", |seen| {
        get(seen, &m::UTILIZATION, &[&gpu(3)]).is_some()
            && get(seen, &m::MEMORY_TEMPERATURE, &[&gpu(3)]).is_some()
    });
}

/// Fields that the driver does not offer are left out of the batch after its first answer. A rejected batch starts again with
/// all of them: the order of the answers changes twice.
#[test]
fn a_batch_that_was_rejected_once_leaves_every_value_at_its_own_series() {
    let of_batch = |seen: Seen| -> Seen {
        let fields = crate::metrics().filter(|m| m.source.contains("NVML_FI_"));
        let names: Vec<&str> = fields.map(|m| m.name).collect();
        let is_it = |key: &str| names.contains(&key.split(' ').next().unwrap()) && key.contains(&gpu(3));
        seen.into_iter().filter(|(key, _)| is_it(key)).collect()
    };
    for refusal in [code::NOT_SUPPORTED, code::INVALID_ARGUMENT] {
        let mut node = Node::of("h100");
        node.read_until("all answer", |seen| up(seen) == up_but(&[]));
        let before = of_batch(node.read());
        assert!(before.len() > 30, "{before:?}");
        assert!(get(&before, &m::MEMORY_TEMPERATURE, &[&gpu(3)]).is_some());
        let refused = Fault::Code(refusal);
        node.driver
            .break_call(3, "nvmlDeviceGetFieldValues", refused)
            .unwrap();
        let seen = node.read();
        assert_eq!(get(&seen, &m::MEMORY_TEMPERATURE, &[&gpu(3)]), None);
        node.driver.lift().unwrap();
        for reading in ["all fields", "fields that are offered"] {
            assert_eq!(of_batch(node.read()), before, "{refusal}: {reading}");
        }
    }
}

/// From now on every call about this GPU fails for lack of a permission.
fn deny(node: &Node, gpu: u32) {
    node.driver
        .inject(testkit::nvml::Rule {
            gpu: Some(gpu),
            call: None,
            field: None,
            fault: Fault::Code(code::NO_PERMISSION),
        })
        .unwrap();
}

#[test]
fn a_gpu_that_refuses_every_question_is_down_until_it_answers() {
    let mut node = Node::of("h100");
    node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    deny(&node, 3);
    let seen = node.read_until("it is down", |seen| up(seen) == up_but(&[3]));
    assert_eq!(
        get(&seen, &m::UNAVAILABLE_INFO, &[&gpu(3), "no_permission"]),
        Some(1.0)
    );
    assert_eq!(
        get(&node.read(), &m::UP, &[&gpu(3)]),
        Some(0.0),
        "in each reading"
    );
    node.driver.lift().unwrap();
    let seen = node.read_until("it is back", |seen| up(seen) == up_but(&[]));
    assert!(get(&seen, &m::TEMPERATURE, &[&gpu(3)]).is_some());
    assert!(get(&seen, &m::UTILIZATION, &[&gpu(3)]).is_some());
}

/// A node whose GPUs a test can change, and where.
fn node_and_state() -> (Node, Arc<inventory::Inventory>) {
    let mut node = Node::of("h100");
    let env = Env::recorded(node.dir.path());
    let settings = settings::NvidiaSettings::new(&SPEC.settings(&node.settings).unwrap()).unwrap();
    let library = Library::load(node.driver.library().to_str().unwrap()).unwrap();
    library.init().unwrap();
    let inventory = Arc::new(inventory::Inventory::new(library, settings, &env));
    let (kernel, boot) = (kernel::DriverFiles::new(&env), boot::boot_id(&env).unwrap());
    let devices = scan::Nvidia::new(kernel, String::new(), boot, Arc::clone(&inventory));
    let mut source = Source {
        devices: Box::new(devices),
        watcher: None,
    };
    node.runner = Some(Runner::new(&SPEC, &mut source).unwrap());
    (node, inventory)
}

/// The series of GPU 3 that are in one reading and not in the other.
fn missing(before: &Seen, now: &Seen) -> Vec<String> {
    let is_lost = |key: &&String| key.contains(&gpu(3)) && !now.contains_key(*key);
    before.keys().filter(is_lost).cloned().collect()
}

#[test]
fn a_gpu_that_refused_every_question_has_all_its_series_with_the_first_answer() {
    for limits_are_due in [false, true] {
        let (mut node, inventory) = node_and_state();
        let before = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
        for metric in [&m::POWER_LIMIT_DEFAULT, &m::INFOROM_VALID] {
            assert!(get(&before, metric, &[&gpu(3)]).is_some(), "{before:?}");
        }
        assert!(
            before
                .keys()
                .any(|key| key.starts_with("gpu_nvlink") && key.contains(&gpu(3)))
        );
        deny(&node, 3);
        if limits_are_due {
            inventory.state(&gpu(3)).lock().unwrap().limits_are_due();
        }
        node.read_until("it is down", |seen| up(seen) == up_but(&[3]));
        let calls = node.driver.calls();
        assert_eq!(get(&node.read(), &m::UP, &[&gpu(3)]), Some(0.0));
        let calls = node.driver.calls().since(&calls).of_gpu(3);
        assert!(calls < 60, "{calls} calls of a GPU that refuses all");
        node.driver.lift().unwrap();
        let seen = node.read_until("it is back", |seen| up(seen) == up_but(&[]));
        for metric in [&m::POWER_LIMIT_DEFAULT, &m::INFOROM_VALID] {
            let value = |seen| get(seen, metric, &[&gpu(3)]);
            assert_eq!(value(&seen), value(&before), "limits due: {limits_are_due}");
        }
        assert_eq!(missing(&before, &seen), [""; 0]);
    }
}

/// The first questions of a reading are still refused, the others no more.
#[test]
fn a_permission_that_comes_back_during_a_reading_leaves_nothing_out_after_it() {
    let (mut node, _) = node_and_state();
    let before = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    deny(&node, 3);
    node.read_until("it is down", |seen| up(seen) == up_but(&[3]));
    assert_eq!(get(&node.read(), &m::UP, &[&gpu(3)]), Some(0.0));
    node.driver.lift().unwrap();
    for call in [
        "nvmlDeviceGetPowerManagementDefaultLimit",
        "nvmlGpmQueryDeviceSupport",
    ] {
        let refused = Fault::Code(code::NO_PERMISSION);
        node.driver.break_call(3, call, refused).unwrap();
    }
    let seen = node.read_until("it answers", |seen| up(seen) == up_but(&[]));
    assert_eq!(get(&seen, &m::POWER_LIMIT_DEFAULT, &[&gpu(3)]), None);
    node.driver.lift().unwrap();
    let seen = node.read_until("it answers", |seen| up(seen) == up_but(&[]));
    assert_eq!(missing(&before, &seen), [""; 0]);
}

#[test]
fn questions_that_are_refused_from_some_time_on_take_no_other_series_away() {
    let (mut node, inventory) = node_and_state();
    let has_profile = |seen: &Seen| {
        let of = |key: &String| key.starts_with(metrics::SM_ACTIVE.name) && key.contains(&gpu(3));
        seen.keys().any(of)
    };
    node.read_until("it is profiled", has_profile);
    for call in ["nvmlDeviceGetPersistenceMode", "nvmlGpmQueryDeviceSupport"] {
        let refused = Fault::Code(code::NO_PERMISSION);
        node.driver.break_call(3, call, refused).unwrap();
    }
    inventory.state(&gpu(3)).lock().unwrap().limits_are_due();
    for _ in 0..4 {
        let seen = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
        assert_eq!(get(&seen, &m::PERSISTENCE_MODE, &[&gpu(3)]), None);
        assert!(has_profile(&seen));
    }
}

/// As if the permission was missing from some question of a reading on, or until then.
#[test]
fn a_question_that_is_refused_for_a_moment_is_answered_in_the_next_reading() {
    for (call, metric) in [
        (
            "nvmlDeviceGetPowerManagementDefaultLimit",
            &m::POWER_LIMIT_DEFAULT,
        ),
        ("nvmlDeviceValidateInforom", &m::INFOROM_VALID),
    ] {
        let (mut node, inventory) = node_and_state();
        let before = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
        let refused = Fault::Code(code::NO_PERMISSION);
        node.driver.break_call(3, call, refused).unwrap();
        inventory.state(&gpu(3)).lock().unwrap().limits_are_due();
        let value = |seen: &Seen| get(seen, metric, &[&gpu(3)]);
        let is_up = |seen: &Seen| up(seen) == up_but(&[]);
        node.read_until("it is refused", |seen| is_up(seen) && value(seen).is_none());
        node.driver.lift().unwrap();
        let seen = node.read_until("all answer", is_up);
        assert_eq!(value(&seen), value(&before), "{call}");
    }
}

/// Some questions are for root alone: they are sent twice, and then not before the other unsupported ones.
#[test]
fn a_question_that_is_always_refused_is_not_sent_at_every_reading() {
    let (mut node, _) = node_and_state();
    let call = "nvmlDeviceGetPersistenceMode";
    let refused = Fault::Code(code::NO_PERMISSION);
    node.driver.break_call(3, call, refused).unwrap();
    for _ in 0..2 {
        let seen = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
        assert_eq!(get(&seen, &m::PERSISTENCE_MODE, &[&gpu(3)]), None);
    }
    let before = node.driver.calls();
    for _ in 0..5 {
        node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    }
    assert_eq!(node.driver.calls().since(&before).of(call), 0);
}

#[test]
fn a_gpu_that_never_answered_is_named_by_what_the_kernel_knows() {
    let mut node = Node::of("h100");
    node.add_pci("0000:1b:00.0", "nvidia");
    node.add_pci("0000:43:00.0", "nvidia");
    node.add_pci("0000:f1:00.0", "vfio-pci");
    node.driver.refuse(1, code::INSUFFICIENT_POWER).unwrap();
    let address = "pci:0000:43:00.0";
    let seen = node.read_until("the others answer", |seen| {
        get(seen, &m::UP, &[&gpu(0)]) == Some(1.0) && get(seen, &m::UP, &[&gpu(7)]) == Some(1.0)
    });
    assert_eq!(get(&seen, &m::UP, &[address]), Some(0.0), "{seen:?}");
    assert_eq!(get(&seen, &m::UNAVAILABLE_INFO, &[address, "power"]), Some(1.0));
    assert_eq!(
        get(&seen, &m::UP, &["pci:0000:f1:00.0"]),
        None,
        "it belongs to another GPU"
    );

    // The driver's information file names it, also if its library does not.
    let information = format!("Model: \t\t NVIDIA H100\nGPU UUID: \t {}\n", gpu(1));
    node.write("proc/driver/nvidia/gpus/0000:43:00.0/information", &information);
    node.runner = None;
    let seen = node.read_until("the others answer", |seen| up(seen).len() == 8);
    assert_eq!(up(&seen), up_but(&[1]));
    assert_eq!(get(&seen, &m::UP, &[address]), None);
}

/// A container with a part of the node's GPUs sees all of them on the PCI bus.
#[test]
fn a_gpu_of_another_container_is_denied_and_not_refused() {
    let address = "0000:52:00.0";
    let reason = |of_driver: &str, files: &[&str], by_address: Option<Fault>| {
        let mut node = Node::of("h100");
        node.add_pci(address, "nvidia");
        let information = "Model: \t\t NVIDIA H100\nDevice Minor: \t 2\n";
        node.write(
            &format!("proc/driver/nvidia/gpus/{of_driver}/information"),
            information,
        );
        for file in files {
            node.write(&format!("dev/{file}"), "");
        }
        node.driver.remove(2).unwrap();
        if let Some(fault) = by_address {
            let rule = testkit::nvml::Rule {
                gpu: None,
                call: Some("nvmlDeviceGetHandleByPciBusId_v2".to_owned()),
                field: None,
                fault,
            };
            node.driver.inject(rule).unwrap();
        }
        let seen = node.read_until("the others answer", |seen| up(seen).len() == 7);
        let label = format!("pci:{address}");
        assert_eq!(get(&seen, &m::UP, &[&label]), Some(0.0), "{seen:?}");
        let words = ["no_permission", "refused", "unknown"];
        let found = |word: &&&str| get(&seen, &m::UNAVAILABLE_INFO, &[&label, **word]).is_some();
        words.iter().find(found).copied()
    };
    let denied = || Some(Fault::Code(code::NO_PERMISSION));
    let of_others = ["nvidiactl", "nvidia0", "nvidia1"];
    assert_eq!(reason(address, &of_others, None), Some("no_permission"));
    assert_eq!(reason(address, &[], denied()), Some("no_permission"));
    assert_eq!(
        reason("0000:1b:00.0", &[], None),
        Some("no_permission"),
        "no folder"
    );
    assert_eq!(
        reason(address, &["nvidiactl", "nvidia0", "nvidia2"], None),
        Some("refused")
    );
    assert_eq!(
        reason(address, &["nvidiactl", "nvidia-uvm"], None),
        Some("refused")
    );
}

#[test]
fn of_two_gpus_with_one_uuid_the_second_has_its_address_as_its_name() {
    let text = fs::read_to_string(scenario("h100")).unwrap();
    let mut node = Node::with(&text.replace(&gpu(1), &gpu(0)));
    node.add_pci("0000:1b:00.0", "nvidia");
    node.add_pci("0000:43:00.0", "nvidia");
    let seen = node.read_until("all answer", |seen| up(seen) == [1.0; 7]);
    assert_eq!(get(&seen, &m::UP, &[&gpu(0)]), Some(1.0));
    assert_eq!(get(&seen, &m::UP, &["pci:0000:43:00.0"]), Some(1.0), "{seen:?}");
}

#[test]
fn a_time_out_that_comes_at_once_costs_its_own_value() {
    let (mut node, inventory) = node_and_state();
    node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    for call in [
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetRowRemapperHistogram",
    ] {
        let late = Fault::Code(code::TIMEOUT);
        node.driver.break_call(3, call, late).unwrap();
    }
    inventory.state(&gpu(3)).lock().unwrap().limits_are_due();
    let seen = node.read();
    assert_eq!(up(&seen), up_but(&[]));
    assert_eq!(get(&seen, &m::UTILIZATION, &[&gpu(3)]), None);
    assert!(get(&seen, &m::TEMPERATURE, &[&gpu(3)]).is_some());
    assert_eq!(get(&seen, &m::UNREAD_VALUES, &[&gpu(3), "timeout"]), Some(2.0));
}

/// The fields of the batch are still answered.
#[test]
fn a_call_that_fails_only_after_seconds_is_the_last_of_its_reading() {
    let (mut node, _) = node_and_state();
    node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    for fault in [Fault::Slow(5_500), Fault::Code(code::UNKNOWN)] {
        node.driver
            .break_call(3, "nvmlDeviceGetUtilizationRates", fault)
            .unwrap();
    }
    let seen = node.read_until("it is down", |seen| up(seen) == up_but(&[3]));
    assert_eq!(get(&seen, &m::UNAVAILABLE_INFO, &[&gpu(3), "unknown"]), Some(1.0));
}

/// On a vGPU host they are bound to the driver, and its library does not know them.
#[test]
fn a_virtual_function_of_a_gpu_is_no_gpu() {
    let mut node = Node::of("h100");
    let (physical, share) = ("0000:1b:00.0", "0000:1b:00.4");
    for address in [physical, share] {
        node.add_pci(address, "nvidia");
    }
    let link = format!("sys/bus/pci/devices/{share}/physfn");
    symlink(format!("../{physical}"), node.root().join(link)).unwrap();
    let seen = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    assert_eq!(get(&seen, &m::UP, &[&format!("pci:{share}")]), None);
}

#[test]
fn a_gpu_that_the_driver_no_longer_counts_keeps_its_name_and_is_down() {
    let mut node = Node::of("h100");
    node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    node.driver.remove(2).unwrap();
    node.driver.lose(2).unwrap();
    // The driver's files change with it.
    node.write("proc/driver/nvidia/gpus/0000:1b:00.0/information", "");
    let seen = node.read_until("it is gone", |seen| up(seen) == up_but(&[2]));
    assert_eq!(get(&seen, &m::UNAVAILABLE_INFO, &[&gpu(2), "lost"]), Some(1.0));
}

#[test]
fn a_gpu_that_is_lost_before_its_worker_is_back_keeps_its_name() {
    type Lose = fn(&Node);
    let lost: [(Lose, Option<&str>); 3] = [
        (|node| node.driver.lose(2).unwrap(), Some("2")),
        // Another GPU has its index now.
        (|node| node.driver.remove(2).unwrap(), Some("")),
        (
            |node| node.driver.refuse(2, code::INSUFFICIENT_POWER).unwrap(),
            Some("2"),
        ),
    ];
    for (case, (lose, index)) in lost.into_iter().enumerate() {
        let mut node = Node::of("h100");
        node.add_pci("0000:52:00.0", "nvidia");
        let before = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
        lose(&node);
        // The notes survive 2 restarts: the first new worker, which never saw the GPU work, passes them on.
        for _ in 0..2 {
            node.restart();
            let seen = node.read_until("the others answer", |seen| up(seen) == up_but(&[2]));
            for label in 0..m::INFO.labels.len() {
                let of = |seen| info(seen, &m::INFO, &gpu(2), label);
                let expected = match m::INFO.labels[label] {
                    "index" => index.map(str::to_owned),
                    _ => of(&before),
                };
                assert_eq!(of(&seen), expected, "case {case}, {}", m::INFO.labels[label]);
            }
        }
    }
}

#[test]
fn a_gpu_that_was_replaced_before_its_worker_is_back_is_not_looked_for() {
    let other = "GPU-6f1c2f0e-7a4d-4c55-9b7e-3d1a8e52c0f4";
    let mut node = Node::of("h100");
    node.add_pci("0000:1b:00.0", "nvidia");
    node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    node.notes = node.notes.map(|notes| notes.replace(&gpu(0), other));
    node.restart();
    let seen = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    assert_eq!(get(&seen, &m::UP, &[other]), None);

    // The new one does not open: the driver's information file shows that it is not the old one.
    node.driver.refuse(0, code::INSUFFICIENT_POWER).unwrap();
    let information = format!("GPU UUID: \t {}\n", gpu(0));
    node.write("proc/driver/nvidia/gpus/0000:1b:00.0/information", &information);
    node.notes = node.notes.map(|notes| notes.replace(&gpu(0), other));
    node.restart();
    let seen = node.read_until("the others answer", |seen| up(seen) == up_but(&[0]));
    assert_eq!(get(&seen, &m::UP, &[other]), None);
    assert_eq!(info(&seen, &m::INFO, &gpu(0), 7), Some(String::new()), "serial");
}

#[test]
fn a_gpu_that_was_taken_out_before_its_worker_is_back_is_not_looked_for() {
    let away: [fn(&Node); 2] = [
        |node| fs::remove_dir_all(node.root().join("sys/bus/pci/devices/0000:52:00.0")).unwrap(),
        |node| node.add_pci("0000:52:00.0", "vfio-pci"),
    ];
    for take in away {
        let mut node = Node::of("h100");
        node.add_pci("0000:1b:00.0", "nvidia");
        node.add_pci("0000:52:00.0", "nvidia");
        node.read_until("all answer", |seen| up(seen) == up_but(&[]));
        node.driver.remove(2).unwrap();
        take(&node);
        node.restart();
        let seen = node.read_until("the others answer", |seen| up(seen).len() == 7);
        assert_eq!(get(&seen, &m::UP, &[&gpu(2)]), None);
    }
}

#[test]
fn what_a_gpu_does_not_report_while_it_leaves_is_what_it_reported_before() {
    let mut node = Node::of("h100");
    let before = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    for call in ["nvmlDeviceGetName", "nvmlDeviceGetSerial", "nvmlDeviceGetPciInfo"] {
        let lost = Fault::Code(code::GPU_IS_LOST);
        node.driver.break_call(2, call, lost).unwrap();
    }
    node.restart();
    let seen = node.read_until("all are listed", |seen| up(seen).len() == 8);
    for label in 0..m::INFO.labels.len() {
        let of = |seen| info(seen, &m::INFO, &gpu(2), label);
        assert_eq!(of(&seen), of(&before), "{}", m::INFO.labels[label]);
    }
}

#[test]
fn all_bits_set_are_no_value() {
    let mut node = Node::of("h100");
    node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    for call in [
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetTemperatureV",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetBAR1MemoryInfo",
        "nvmlDeviceGetClockInfo",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetPerformanceState",
        "nvmlDeviceGetCurrPcieLinkGeneration",
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetSramEccErrorStatus",
        "nvmlDeviceGetEncoderUtilization",
    ] {
        node.driver.break_call(4, call, Fault::Garbage).unwrap();
    }
    let seen = node.read();
    let big: Vec<_> = seen
        .iter()
        .filter(|(k, v)| k.contains(&gpu(4)) && (**v < 0.0 || **v >= 4_294_967_295.0))
        .filter(|(k, _)| !k.contains("clock_max") && !k.contains("process"))
        .collect();
    assert!(big.is_empty(), "{big:?}");
    for metric in [
        &m::UTILIZATION,
        &m::TEMPERATURE,
        &m::POWER,
        &m::ENERGY,
        &m::PERFORMANCE_STATE,
    ] {
        assert_eq!(get(&seen, metric, &[&gpu(4)]), None, "{}", metric.name);
    }
    assert_eq!(get(&seen, &m::MEMORY_TOTAL, &[&gpu(4), ""]), None);
}
