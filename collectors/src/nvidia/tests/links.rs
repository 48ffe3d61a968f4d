//! NVLinks of every generation, with drivers that report odd versions.

use super::*;

/// The scenario with these texts replaced, each of which must occur.
fn changed(case: &str, changes: &[(&str, &str)]) -> Node {
    let mut text = fs::read_to_string(scenario(case)).unwrap();
    for (from, to) in changes {
        assert!(text.contains(from), "{case}: {from}");
        text = text.replace(from, to);
    }
    Node::with(&text)
}

/// A reading in which the links were read.
fn read(node: &mut Node) -> Seen {
    node.read_until("all answer", |seen| {
        seen.keys().any(|k| k.starts_with("gpu_nvlink_links "))
    })
}

/// The first GPU of the scenarios with another number.
fn first(number: u32) -> String {
    format!("GPU-00000000-0000-4000-8000-000000000{number}")
}

#[test]
fn an_odd_version_of_nvlink_costs_no_class_of_errors() {
    let cases: [(&str, &str, u32, &[&str]); 3] = [
        (
            "v100",
            "version = 2\n",
            300,
            &["crc_flit", "crc_data", "replay", "recovery"],
        ),
        ("h100", "version = 6\n", 100, &["crc", "replay", "recovery"]),
        (
            "gb200",
            "version = 7\n",
            500,
            &["receive", "symbol", "effective", "recovery_failed"],
        ),
    ];
    for (case, version, number, kinds) in cases {
        let gpu = first(number);
        for odd in ["version = 0\n", "version = 9\n", "version = 4294967295\n", ""] {
            let mut node = changed(case, &[(version, odd)]);
            let seen = read(&mut node);
            for kind in kinds {
                let errors = get(&seen, &metrics::NVLINK_LINK_ERRORS, &[&gpu, "0", kind]);
                assert!(errors.is_some(), "{case}, {odd:?}: {kind}");
                let total = get(&seen, &metrics::NVLINK_ERRORS, &[&gpu, kind]);
                assert!(total.is_some(), "{case}, {odd:?}: total of {kind}");
            }
        }
    }
}

#[test]
fn links_newer_than_the_library_have_every_counter_that_their_driver_offers() {
    let of_links = |seen: Seen| -> Vec<(String, f64)> {
        let is_counter = |k: &String| k.starts_with("gpu_nvlink") && !k.contains("_info ");
        seen.into_iter().filter(|(k, _)| is_counter(k)).collect()
    };
    let expected = of_links(read(&mut Node::of("gb200")));
    assert!(expected.len() > 1000, "{}", expected.len());
    for version in ["version = 8\n", "version = 0\n", ""] {
        let newer = [
            ("architecture = 10\n", "architecture = 12\n"),
            ("version = 7\n", version),
        ];
        assert_eq!(
            of_links(read(&mut changed("gb200", &newer))),
            expected,
            "{version:?}"
        );
    }
}

#[test]
fn bytes_of_nvlink_5_are_read_from_its_own_counters_where_the_driver_has_no_others() {
    let gone = [
        (
            "throughput_data_tx = { start = 2700000000, per_second = 19000000 }\n",
            "",
        ),
        (
            "throughput_data_rx = { start = 2710000000, per_second = 19100000 }\n",
            "",
        ),
        (
            "count_xmit_bytes = { start = 2764800000000,",
            "count_xmit_bytes = { start = 1000,",
        ),
        (
            "count_rcv_bytes = { start = 2775040000000,",
            "count_rcv_bytes = { start = 3000,",
        ),
    ];
    let mut node = changed("gb200", &gone);
    let gpu = first(500);
    for _ in 0..2 {
        // The second batch has no field that the driver rejected.
        let seen = read(&mut node);
        let link = |metric| get(&seen, metric, &[&gpu, "0"]);
        assert_eq!(link(&metrics::NVLINK_LINK_TRANSMITTED), Some(1000.0));
        assert_eq!(link(&metrics::NVLINK_LINK_RECEIVED), Some(3000.0));
        let all = |metric| get(&seen, metric, &[&gpu]);
        assert_eq!(all(&metrics::NVLINK_TRANSMITTED), Some(18_000.0));
        assert_eq!(all(&metrics::NVLINK_RECEIVED), Some(54_000.0));
    }
}

#[test]
fn a_counter_never_changes_its_source_because_of_one_failed_answer() {
    let mut node = changed(
        "gb200",
        &[(
            "count_xmit_bytes = { start = 2764800000000,",
            "count_xmit_bytes = { start = 1000,",
        )],
    );
    let gpu = first(500);
    let sent = |seen: &Seen| get(seen, &metrics::NVLINK_TRANSMITTED, &[&gpu]);
    let before = sent(&read(&mut node));
    assert_eq!(before, Some(18.0 * 2_700_000_000.0 * 1024.0));
    let fault = Fault::Code(code::UNKNOWN);
    node.driver
        .break_field(0, "NVLINK_THROUGHPUT_DATA_TX", fault)
        .unwrap();
    assert_eq!(sent(&read(&mut node)), None);
    node.driver.lift().unwrap();
    assert_eq!(sent(&read(&mut node)), before);
}

#[test]
fn a_value_with_all_bits_set_was_not_read() {
    let mut node = changed(
        "gb200",
        &[
            (
                "C2C_LINK_ERROR_REPLAY = 0\n",
                "C2C_LINK_ERROR_REPLAY = 4294967295\n",
            ),
            (
                "C2C_LINK_GET_MAX_BW = 44712\n",
                "C2C_LINK_GET_MAX_BW = 4294967295\n",
            ),
            ("speed_mbps = 53125\n", "speed_mbps = 4294967295\n"),
            ("count_rcv_errors = 12,", "count_rcv_errors = -1,"),
        ],
    );
    let (gpu, other) = (first(500), first(502));
    let seen = read(&mut node);
    assert_eq!(get(&seen, &metrics::C2C_LINKS_UP, &[&gpu]), Some(10.0));
    for (metric, labels) in [
        (&metrics::C2C_LINK_ERRORS, &[&gpu, "0", "replay"][..]),
        (&metrics::C2C_LINK_SPEED, &[&gpu, "0"]),
        (&metrics::NVLINK_LINK_SPEED, &[&gpu, "0"]),
        (&metrics::NVLINK_LINK_ERRORS, &[&other, "7", "receive"]),
        (&metrics::NVLINK_ERRORS, &[&other, "receive"]),
    ] {
        assert_eq!(get(&seen, metric, labels), None, "{} {labels:?}", metric.name);
    }
}

#[test]
fn no_link_is_0_where_the_driver_says_so_and_absent_where_it_does_not_answer() {
    let links = [&metrics::NVLINK_LINKS, &metrics::NVLINK_LINKS_UP];
    for (answer, expected) in [("nvlink.links = 0\n", Some(0.0)), ("", None)] {
        let events = format!("{answer}events = 31\n");
        let mut node = changed("l40s", &[("events = 31\n", &events)]);
        let seen = node.read_until("the GPUs answer", |seen| {
            seen.keys().any(|k| k.starts_with("gpu_utilization"))
        });
        for metric in links {
            assert_eq!(get(&seen, metric, &[&first(400)]), expected, "{answer}");
        }
    }
}

/// As on GB200: a call with ECC errors and counts of NVLink 5 fails as a whole. NVIDIA/DCGM#265
#[test]
fn a_driver_that_rejects_a_mix_of_fields_costs_no_value() {
    let expected = read(&mut Node::of("gb200"));
    for code in [code::UNKNOWN, code::INVALID_ARGUMENT, code::NOT_SUPPORTED] {
        let mixed = format!("mixed_fields = {code}\n\n[system]\n");
        let mut node = changed("gb200", &[("[system]\n", &mixed)]);
        for reading in ["the first", "the next"] {
            let before = node.driver.calls();
            let seen = read(&mut node);
            let absent = expected.keys().filter(|key| !seen.contains_key(*key));
            assert_eq!(absent.collect::<Vec<_>>(), [""; 0], "{code}, {reading}");
            let asked = node.driver.calls().since(&before);
            if reading == "the next" {
                assert_eq!(asked.of("nvmlDeviceGetFieldValues"), 3 * 4, "{code}");
            }
        }
    }
}

#[test]
fn a_group_of_fields_whose_call_fails_costs_the_others_nothing() {
    let whole = read(&mut Node::of("gb200"));
    for code in [code::UNKNOWN, code::NOT_SUPPORTED] {
        for (field, lost, stay) in [
            (
                "TOTAL_ENERGY_CONSUMPTION",
                "gpu_ecc_errors",
                ["gpu_nvlink_link_up ", "gpu_nvlink_bit_error_ratio"],
            ),
            (
                "NVLINK_GET_SPEED",
                "gpu_nvlink_link_speed",
                ["gpu_ecc_errors", "gpu_nvlink_bit_error_ratio"],
            ),
            (
                "NVLINK_COUNT_RCV_ERRORS",
                "gpu_nvlink_bit_error_ratio",
                ["gpu_ecc_errors", "gpu_nvlink_link_up "],
            ),
        ] {
            let mut node = Node::of("gb200");
            let rule = testkit::nvml::Rule {
                gpu: None,
                call: Some("nvmlDeviceGetFieldValues".to_owned()),
                field: Some(field.to_owned()),
                fault: Fault::Code(code),
            };
            node.driver.inject(rule).unwrap();
            for _ in 0..3 {
                let seen = node.read_until("all answer", |seen| up_of_tray(seen) == 4);
                let count = |seen: &Seen, start| seen.keys().filter(|key| key.starts_with(start)).count();
                assert!(count(&whole, lost) > 0, "{lost}");
                assert_eq!(count(&seen, lost), 0, "{code}, {field}: {lost}");
                for other in stay {
                    assert_eq!(
                        count(&seen, other),
                        count(&whole, other),
                        "{code}, {field}: {other}"
                    );
                    assert!(count(&seen, other) > 0, "{other}");
                }
            }
        }
    }
}

/// How many GPUs of a compute tray are up.
fn up_of_tray(seen: &Seen) -> usize {
    let gpus = (500..504).map(first);
    gpus.filter(|gpu| get(seen, &m::UP, &[gpu]) == Some(1.0)).count()
}

#[test]
fn a_call_of_fields_that_always_fails_costs_no_value_of_another_function() {
    for (code, call) in [(code::UNKNOWN, "failing"), (code::NOT_SUPPORTED, "missing")] {
        let broken = format!("{call} = [\"nvmlDeviceGetFieldValues\"]\n\n[system]\n");
        let mut node = changed("gb200", &[("[system]\n", &broken)]);
        for _ in 0..3 {
            let seen = node.read_until("the GPUs answer", |seen| {
                get(seen, &m::UP, &[&first(500)]) == Some(1.0)
            });
            for metric in [
                &m::POWER,
                &m::POWER_LIMIT,
                &m::POWER_LIMIT_REQUESTED,
                &m::PCIE_REPLAYS,
            ] {
                assert!(
                    get(&seen, metric, &[&first(500)]).is_some(),
                    "{code}: {}",
                    metric.name
                );
            }
            assert_eq!(get(&seen, &m::ENERGY, &[&first(500)]), None);
        }
    }
}
