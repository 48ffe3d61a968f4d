//! What the driver's numbers become.

use super::*;

#[test]
fn clock_event_times_are_read_by_each_numbering_of_the_fields() {
    let text = fs::read_to_string(scenario("h100")).unwrap();
    let timed = text.replace(
        "sw_thermal = 0\nhw_thermal = 0\nhw_power_brake = 0\n",
        "sw_thermal = 1500000000\nhw_thermal = 2500000000\nhw_power_brake = 3500000000\n",
    );
    assert_ne!(text, timed);
    let times = [Some(1.5), Some(2.5), Some(3.5)];
    for (driver, expected) in [
        ("535.230.02", [None; 3]),
        ("570.86.15", [None; 3]),
        ("575.51.03", times),
        ("580.65.06", times),
        ("580.95.05", times),
    ] {
        let mut node = Node::with(&timed.replace("580.95.05", driver));
        let seen = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
        let seconds = |reason| get(&seen, &m::CLOCK_EVENT_SECONDS, &[&gpu(0), reason]);
        assert_eq!(
            [
                seconds("sw_thermal"),
                seconds("hw_thermal"),
                seconds("hw_power_brake")
            ],
            expected,
            "{driver}"
        );
    }
}

#[test]
fn without_ecc_there_are_no_counts_of_errors() {
    let text = fs::read_to_string(scenario("h100")).unwrap();
    let off = text.replace("[gpu.ecc]\nmode = 1", "[gpu.ecc]\nmode = 0");
    assert_ne!(text, off);
    let mut node = Node::with(&off);
    let seen = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    assert_eq!(get(&seen, &m::ECC_MODE, &[&gpu(0)]), Some(0.0));
    let counts: Vec<_> = seen
        .keys()
        .filter(|k| k.starts_with("gpu_ecc_errors_total"))
        .collect();
    assert!(counts.is_empty(), "{counts:?}");
}

/// Consumer boards answer with 0.
#[test]
fn a_board_without_a_sensor_of_the_memory_has_no_temperature_of_it() {
    let text = fs::read_to_string(scenario("h100")).unwrap();
    let without = text.replace("memory = { steps = [71, 72, 73, 73] }", "memory = 0");
    assert_ne!(text, without);
    let mut node = Node::with(&without);
    let seen = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    assert_eq!(get(&seen, &m::MEMORY_TEMPERATURE, &[&gpu(0)]), None);
    assert!(get(&seen, &m::TEMPERATURE, &[&gpu(0)]).is_some());
}

#[test]
fn a_window_that_is_not_valid_is_absent_and_not_zero() {
    let text = fs::read_to_string(scenario("h100")).unwrap();
    let text = text.replace("SM_UTIL = { steps = [91.4, 90.2, 92.7] }", "SM_UTIL = nan");
    let mut node = Node::with(&text);
    let seen = node.read_until("a window has ended", |seen| {
        get(seen, &metrics::SM_OCCUPANCY, &[&gpu(0), ""]).is_some()
    });
    assert_eq!(get(&seen, &metrics::SM_ACTIVE, &[&gpu(0), ""]), None);
    assert!(get(&seen, &metrics::PROFILING_WINDOW, &[&gpu(0), ""]).is_some_and(|s| s >= 1.0));
    assert!(get(&seen, &metrics::SM_CYCLES, &[&gpu(0), ""]).is_some_and(|c| c > 0.0));
}

#[test]
fn drivers_without_a_recovery_action_have_flags_of_a_reset() {
    let text = fs::read_to_string(scenario("h100")).unwrap();
    for (reset, drain, expected) in [("0", "0", 0.0), ("1", "1", 1.0), ("0", "1", 4.0)] {
        let text = text
            .replace("recovery_action = 0\n", "")
            .replace("\nRESET_STATUS = 0", &format!("\nRESET_STATUS = {reset}"))
            .replace(
                "DRAIN_AND_RESET_STATUS = 0",
                &format!("DRAIN_AND_RESET_STATUS = {drain}"),
            );
        let mut node = Node::with(&text);
        let seen = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
        let action = get(&seen, &m::RECOVERY_ACTION, &[&gpu(0)]);
        assert_eq!(action, Some(expected), "{reset} {drain}");
    }
    let neither = text
        .replace("recovery_action = 0\n", "")
        .replace("\nRESET_STATUS = 0", "")
        .replace("DRAIN_AND_RESET_STATUS = 0\n", "");
    let mut node = Node::with(&neither);
    let seen = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    assert_eq!(get(&seen, &m::RECOVERY_ACTION, &[&gpu(0)]), None);
}

#[test]
fn a_link_that_is_down_is_counted_and_named() {
    let text = fs::read_to_string(scenario("h100")).unwrap();
    // 3: trained, and without traffic.
    for (state, up_links, up_link) in [
        (0, Some(17.0), Some(0.0)),
        (3, Some(17.0), Some(0.0)),
        (4, None, None),
    ] {
        let link = format!("[gpu.nvlink.link.5]\nstate = {state}\n\n[gpu.nvlink.each]");
        let mut node = Node::with(&text.replace("[gpu.nvlink.each]", &link));
        let seen = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
        assert_eq!(get(&seen, &metrics::NVLINK_LINKS, &[&gpu(0)]), Some(18.0));
        assert_eq!(get(&seen, &metrics::NVLINK_LINKS_UP, &[&gpu(0)]), up_links);
        assert_eq!(get(&seen, &metrics::NVLINK_LINK_UP, &[&gpu(0), "5"]), up_link);
        assert_eq!(get(&seen, &metrics::NVLINK_LINK_UP, &[&gpu(0), "6"]), Some(1.0));
    }
}

/// As libraries that export each function and refuse those that the driver lacks.
#[test]
fn an_older_function_answers_where_the_newer_one_is_refused() {
    let newer = [
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetComputeRunningProcesses_v3",
    ];
    for refused in [Code::FUNCTION_NOT_FOUND, Code::ARGUMENT_VERSION_MISMATCH] {
        let mut node = Node::of("h100");
        for call in newer {
            node.driver.break_call(0, call, Fault::Code(refused.0)).unwrap();
        }
        let seen = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
        assert!(get(&seen, &m::MEMORY_USED, &[&gpu(0), ""]).is_some());
        assert_eq!(get(&seen, &m::MEMORY_RESERVED, &[&gpu(0), ""]), None);
        assert!(get(&seen, &m::CLOCK_EVENT, &[&gpu(0), "hw_thermal"]).is_some());
        assert!(get(&seen, &m::PROCESSES, &[&gpu(0)]).is_some());
    }
}

#[test]
fn a_process_is_told_with_its_program_and_the_job_or_the_pod_that_it_is_in() {
    let mut node = Node::of("h100");
    let pod = "pod1a2b3c4d-0000-4000-8000-00000000abcd";
    let cgroups = [
        (
            "41000",
            "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n",
            "job_7",
        ),
        (
            "41001",
            "0::/kubepods/burstable/pod1a2b3c4d-0000-4000-8000-00000000abcd/7f\n",
            pod,
        ),
        (
            "41002",
            "0::/user.slice/user-1000.slice/session-1.scope\n",
            "user.slice",
        ),
    ];
    for (pid, cgroup, _) in cgroups {
        node.write(&format!("proc/{pid}/cgroup"), cgroup);
        // A program may call itself anything.
        node.write(&format!("proc/{pid}/comm"), b"python\xff\n");
    }
    let seen = node.read_until("all answer", |seen| {
        get(seen, &m::PROCESSES, &[&gpu(0)]) == Some(1.0)
    });
    for (gpu, (pid, _, place)) in (0..).map(gpu).zip(cgroups) {
        assert_eq!(
            get(&seen, &m::PROCESS_PLACE, &[&gpu, "", pid, place]),
            Some(1.0),
            "{pid}"
        );
        assert_eq!(
            get(&seen, &m::PROCESS_PROGRAM, &[&gpu, "", pid, "python\u{fffd}"]),
            Some(1.0)
        );
    }
    // One of another pid namespace, or that has ended: nothing is known of it.
    let of_another = |text: &String| text.contains("41003") && !text.starts_with("gpu_process_owned_bytes");
    assert!(!seen.keys().any(of_another));
}

#[test]
fn who_draws_is_asked_for_where_nobody_computes() {
    let text = fs::read_to_string(scenario("h100")).unwrap();
    let draws = text.replace("pid = 41000,", "pid = 41000, kind = \"graphics\",");
    assert_ne!(text, draws);
    let mut node = Node::with(&draws);
    let seen = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    let counts = |n| {
        (
            get(&seen, &m::PROCESSES, &[&gpu(n)]),
            get(&seen, &m::GRAPHICS_PROCESSES, &[&gpu(n)]),
        )
    };
    assert_eq!(counts(0), (Some(0.0), Some(1.0)));
    assert_eq!(counts(1), (Some(1.0), None));
}

#[test]
fn in_a_namespace_of_its_own_no_process_of_the_host_is_seen() {
    for (namespace, all) in [("pid:[4026531836]", 1.0), ("pid:[4026532999]", 0.0)] {
        let mut node = Node::of("h100");
        let folder = node.root().join("proc/self/ns");
        fs::create_dir_all(&folder).unwrap();
        symlink(namespace, folder.join("pid")).unwrap();
        let seen = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
        assert_eq!(
            get(&seen, &m::PROCESSES_SEEN, &[&gpu(0)]),
            Some(all),
            "{namespace}"
        );
    }
}

#[test]
fn each_number_of_a_structure_may_be_one_that_the_driver_did_not_read() {
    let text = fs::read_to_string(scenario("h100")).unwrap();
    let odd = text
        .replace("volatile_secded = 0\n", "volatile_secded = -1\n")
        .replacen("\nl2 = 0\n", "\nl2 = -1\n", 1);
    assert_eq!(odd.matches("= -1\n").count(), 2);
    let mut node = Node::with(&odd);
    let seen = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    let gpu = gpu(0);
    let location = |kind, scope| get(&seen, &m::ECC_LOCATION_ERRORS, &[&gpu, kind, scope, "sram"]);
    assert_eq!(location("uncorrected", "volatile"), None);
    assert_eq!(location("corrected", "volatile"), Some(0.0));
    assert_eq!(location("uncorrected", "aggregate"), Some(0.0));
    let code = |code| get(&seen, &m::ECC_SRAM_UNCORRECTED, &[&gpu, "volatile", code]);
    assert_eq!((code("secded"), code("parity")), (None, Some(0.0)));
    let bucket = |bucket| get(&seen, &m::ECC_SRAM_BUCKET, &[&gpu, bucket]);
    assert_eq!((bucket("l2"), bucket("sm")), (None, Some(0.0)));
}

#[test]
fn aspects_of_the_fabric_that_are_named_by_their_good_state_are_1_when_it_is_not() {
    let text = fs::read_to_string(scenario("h100")).unwrap();
    // Unassigned and disconnected; then the good states; then a driver that knows neither.
    for (bits, want) in [(0xa1aa, Some(1.0)), (0x51aa, Some(0.0)), (0x01aa, None)] {
        let mask = text.replace("health_mask = 426", &format!("health_mask = {bits}"));
        let mut node = Node::with(&mask);
        let seen = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
        for aspect in ["partition_unassigned", "manager_disconnected"] {
            let found = get(&seen, &metrics::FABRIC_UNHEALTHY, &[&gpu(0), aspect]);
            assert_eq!(found, want, "{aspect}");
        }
    }
}

#[test]
fn a_driver_without_a_summary_of_the_fabric_is_asked_for_the_rest() {
    let text = fs::read_to_string(scenario("h100")).unwrap();
    let of = |text: &str| {
        let mut node = Node::with(text);
        let seen = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
        let value = |metric| get(&seen, metric, &[&gpu(0)]);
        (
            value(&metrics::FABRIC_STATE),
            value(&metrics::FABRIC_HEALTH_MASK),
            value(&metrics::FABRIC_HEALTH_SUMMARY),
        )
    };
    let older = text.replace("health_summary = 1\n", "");
    assert_eq!(of(&text), (Some(3.0), Some(426.0), Some(1.0)));
    assert_eq!(of(&older), (Some(3.0), Some(426.0), None));
}

/// Drivers up to R535 have only the first version of the function.
#[test]
fn a_driver_without_health_of_the_fabric_is_asked_for_its_state() {
    let mut node = Node::with(&lacking("h100", &["nvmlDeviceGetGpuFabricInfoV"]));
    let seen = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    let value = |metric| get(&seen, metric, &[&gpu(0)]);
    assert_eq!(value(&metrics::FABRIC_STATE), Some(3.0));
    assert_eq!(value(&metrics::FABRIC_STATUS), Some(0.0));
    assert!(info(&seen, &metrics::FABRIC_INFO, &gpu(0), 1).is_some_and(|cluster| cluster.len() == 32));
    assert_eq!(value(&metrics::FABRIC_HEALTH_MASK), None);
    assert!(
        !seen
            .keys()
            .any(|key| key.starts_with(metrics::FABRIC_UNHEALTHY.name))
    );
}

/// The scenario of a driver that lacks these functions.
fn lacking(case: &str, functions: &[&str]) -> String {
    let text = fs::read_to_string(scenario(case)).unwrap();
    assert!(!text.contains("missing = "), "{case}");
    format!("missing = {functions:?}\n{text}")
}

/// R470 and R525 lack the function. A call that fails is not the same.
#[test]
fn a_driver_without_the_status_of_sram_is_told_from_one_that_does_not_answer() {
    let call = "nvmlDeviceGetSramEccErrorStatus";
    for (functions, fault, found) in [
        (&[call][..], None, (None, Some(1.0))),
        (&[], None, (Some(0.0), None)),
        (&[], Some(code::NOT_SUPPORTED), (None, None)),
        (&[], Some(code::UNKNOWN), (None, None)),
    ] {
        let text = fs::read_to_string(scenario("h100")).unwrap();
        let mut node = match functions {
            [] => Node::with(&text),
            _ => Node::with(&lacking("h100", functions)),
        };
        if let Some(fault) = fault {
            node.driver.break_call(0, call, Fault::Code(fault)).unwrap();
        }
        let seen = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
        let of = |metric| get(&seen, metric, &[&gpu(0)]);
        let is_so = (of(&m::ECC_SRAM_THRESHOLD), of(&m::ECC_SRAM_LACKING));
        assert_eq!(is_so, found, "{functions:?} {fault:?}");
    }
}

/// Versions 535.43 to 535.86 of the driver write longer entries; 535.98 and those before R510 have an older function only.
#[test]
fn the_processes_of_a_gpu_are_the_same_with_every_driver() {
    let details = "nvmlDeviceGetRunningProcessDetailList";
    let newest = [
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetGraphicsRunningProcesses_v3",
    ];
    let processes = |missing: &[&str]| {
        let text = lacking("h100", missing);
        let one = "processes = [{ pid = 41000, memory = 72089600000,";
        assert!(text.contains(one));
        let more = "processes = [
            { pid = 7, memory = 5000, gi = 1, ci = 2 }, { pid = 8, memory = 6000 }, { pid = 9 },
            { kind = 'graphics', pid = 10, memory = 7000 }, { kind = 'graphics', pid = 11 },
            { pid = 41000, memory = 72089600000,";
        let node = Node::with(&text.replace(one, more));
        let library = Library::load(node.driver.library().to_str().unwrap()).unwrap();
        library.init().unwrap();
        let gpu = library.handle(0).unwrap();
        (
            library.processes(gpu).unwrap(),
            library.graphics_processes(gpu).unwrap(),
        )
    };
    let expected = processes(&[]);
    assert_eq!((expected.0.len(), expected.1.len()), (4, 2), "{expected:?}");
    assert_eq!(processes(&[details]), expected, "driver 535.54");
    assert_eq!(processes(&newest), expected, "driver 470");
    assert_eq!(
        processes(&[newest[0], newest[1], details]),
        expected,
        "driver 535.98"
    );
}

#[test]
fn a_driver_before_r510_has_memory_without_the_reserved_part() {
    let text = lacking("h100", &["nvmlDeviceGetMemoryInfo_v2"]);
    let read = |mut node: Node| node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    let (now, old) = (read(Node::of("h100")), read(Node::with(&text)));
    let of = |seen, metric| get(seen, metric, &[&gpu(0), ""]);
    let reserved = of(&now, &m::MEMORY_RESERVED).unwrap();
    assert!(reserved > 0.0);
    assert_eq!(of(&old, &m::MEMORY_RESERVED), None);
    let total = of(&now, &m::MEMORY_TOTAL).map(|total| total - reserved);
    assert_eq!(of(&old, &m::MEMORY_TOTAL), total);
    for metric in [&m::MEMORY_USED, &m::MEMORY_FREE] {
        assert_eq!(of(&old, metric), of(&now, metric), "{}", metric.name);
    }
}

#[test]
fn the_newest_architecture_and_version_of_nvlink_have_names() {
    let text = fs::read_to_string(scenario("h100")).unwrap();
    let newest = text
        .replace("architecture = 9\n", "architecture = 13\n")
        .replace("\nversion = 6\n", "\nversion = 8\n");
    let mut node = Node::with(&newest);
    let seen = node.read_until("all answer", |seen| up(seen) == up_but(&[]));
    let architecture = m::INFO.labels.iter().position(|l| *l == "architecture").unwrap();
    assert_eq!(
        info(&seen, &m::INFO, &gpu(0), architecture).as_deref(),
        Some("rubin")
    );
    assert_eq!(
        info(&seen, &metrics::NVLINK_LINK_INFO, &gpu(0), 2).as_deref(),
        Some("6.0")
    );
}

/// dcgm-exporter: `fmt.Sprintf("nvidia%d", mi.DeviceInfo.GPU)`.
#[test]
fn the_device_of_dcgms_page_is_the_index_and_its_profile_that_of_the_gpu_instance() {
    let text = fs::read_to_string(scenario("a100-mig")).unwrap();
    let other = text
        .replace("minor = 0\n", "minor = 3\n")
        .replace("40GB MIG 3g.20gb", "40GB MIG 1c.3g.20gb");
    assert_ne!(text, other);
    let mut node = Node::with(&other);
    let start = format!("{} ", m::DCGM_INFO.name);
    let seen = node.read_until("an instance", |seen| {
        seen.keys()
            .any(|k| k.starts_with(&start) && k.contains("|3g.20gb|"))
    });
    let labels = |k: &String| {
        k.strip_prefix(&start)
            .map(|l| l.split('|').map(str::to_owned).collect())
    };
    for labels in seen.keys().filter_map(labels) {
        let labels: Vec<String> = labels;
        assert_eq!(labels[4], format!("nvidia{}", labels[2]));
        assert!(!labels[6].contains("c."), "{labels:?}");
    }
    assert!(
        seen.keys()
            .any(|k| k.starts_with(m::INSTANCE_INFO.name) && k.contains("|1c.3g.20gb|"))
    );
}
