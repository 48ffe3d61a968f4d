//! Known behaviour of kernels and drivers, and the resulting readings: one named test each. The meaning of drivers'
//! counters is tested in `metrics/drivers/tests.rs`, slow drivers in `faults`.

use super::*;
use crate::netlink::nldev;

/// A recorded node, with its netlink answers.
pub(super) struct Recorded(pub(super) TempDir);

impl Recorded {
    pub(super) fn of(case: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/rdma");
        tree::unpack(&fixtures.join(case), dir.path()).unwrap();
        Self(dir)
    }

    pub(super) fn ports(&self) -> Vec<Box<dyn Device>> {
        let source = open(&Env::recorded(self.0.path()), &Settings::default()).unwrap();
        source.unwrap().devices.scan().unwrap()
    }

    /// All numbers of all ports.
    pub(super) fn read(&self) -> BTreeMap<String, u64> {
        self.ports()
            .iter_mut()
            .flat_map(|port| read(&mut **port))
            .collect()
    }

    /// The path of the files of port 1 of a device.
    pub(super) fn port(&self, device: &str) -> PathBuf {
        let class = self.0.path().join("root/sys/class/infiniband");
        class.join(device).join("ports/1")
    }

    /// Changes a number in the netlink answers.
    pub(super) fn tell(&self, word: &str, before: u64, after: u64) {
        let file = self.0.path().join("netlink");
        let text = fs::read_to_string(&file).unwrap();
        let entry = |n| format!("82:\"{word}\" 83:u64={n} ");
        assert!(text.contains(&entry(before)));
        fs::write(&file, text.replace(&entry(before), &entry(after))).unwrap();
    }
}

fn is_by(readings: &BTreeMap<String, u64>, device: &str, source: &str) -> bool {
    value(readings, &format!("rdma_hw_counters_info {device} 1 {source}")) == Some(1)
}

#[test]
fn a_pma_that_cannot_be_asked_says_einval_and_only_that_counter_is_absent() {
    let readings = Recorded::of("refused").read();
    assert_eq!(value(&readings, "rdma_vl15_dropped_total mlx5_0 1"), None);
    assert_eq!(value(&readings, "rdma_symbol_error_total mlx5_0 1"), Some(0));
    assert_eq!(
        value(&readings, "rdma_port_unreadable_files mlx5_0 1 rejected"),
        Some(1)
    );
}

#[test]
fn a_pma_that_cannot_be_asked_says_no_pma_on_older_kernels() {
    let node = Node::with(&["mlx5_0"]);
    node.write(
        "infiniband/mlx5_0/ports/1/counters/symbol_error",
        "N/A (no PMA)\n",
    );
    let readings = read(&mut *node.ports("")[0]);
    assert_eq!(value(&readings, "rdma_symbol_error_total mlx5_0 1"), None);
    assert_eq!(value(&readings, "rdma_link_downed_total mlx5_0 1"), Some(1));
    assert_eq!(unreadable(&readings, "unsupported"), 1);
}

#[test]
fn a_pma_is_asked_for_each_file_so_none_is_read_twice() {
    let node = Recorded::of("mlx5-roce");
    let mut ports = node.ports();
    let files = fs::read_dir(node.port("mlx5_0").join("counters"))
        .unwrap()
        .count();
    crate::sys::kept::count::take();
    read(&mut *ports[0]);
    let (_, reads) = crate::sys::kept::count::take();
    // And rate, operstate, carrier_down_count: netlink reports the states.
    assert_eq!(reads, files + 3);
}

#[test]
fn drivers_without_a_pma_have_no_folder_of_counters_and_nothing_is_wrong() {
    for case in [
        "bnxt_re", "irdma", "efa", "hns", "mana", "ionic", "erdma", "rxe", "siw",
    ] {
        let readings = Recorded::of(case).read();
        assert!(!readings.keys().any(|k| k.starts_with("rdma_symbol_error_total")));
        // The rate of mana.
        let rates = u64::from(case == "mana");
        for (reason, count) in [("rejected", rates), ("gone", 0), ("io", 0), ("malformed", 0)] {
            assert_eq!(unreadable(&readings, reason), count, "{case} {reason}");
        }
    }
}

#[test]
fn a_driver_with_a_pma_that_never_answers_keeps_state_and_rate() {
    // qedr returns success without an answer.
    let readings = Recorded::of("refused").read();
    assert_eq!(value(&readings, "rdma_port_state qedr0 1"), Some(4));
    assert_eq!(
        value(&readings, "rdma_port_unreadable_files qedr0 1 rejected"),
        Some(21)
    );
    assert!(
        !readings
            .keys()
            .any(|k| k.starts_with("rdma_symbol_error_total qedr0"))
    );
}

#[test]
fn counters_of_a_device_are_in_a_folder_of_its_own() {
    let readings = Recorded::of("efa").read();
    let series = "rdma_device_hw_counter_total rdmap80s0 no_completion_cmds";
    assert_eq!(value(&readings, series), Some(1));
}

#[test]
fn counters_of_a_device_come_from_files_though_its_port_reports_by_netlink() {
    let readings = Recorded::of("mana").read();
    assert!(is_by(&readings, "mana_0", "netlink"));
    assert_eq!(value(&readings, "rdma_np_cnp_sent_total mana_0 1"), Some(31));
    assert_eq!(
        value(
            &readings,
            "rdma_device_hw_counter_total mana_0 qp_congested_events"
        ),
        Some(2)
    );
}

#[test]
fn all_counters_of_a_port_come_in_one_answer_and_their_files_are_left_alone() {
    let node = Recorded::of("rxe");
    fs::write(node.port("rxe0").join("hw_counters/sent_pkts"), "no number\n").unwrap();
    let readings = node.read();
    assert!(is_by(&readings, "rxe0", "netlink"));
    assert_eq!(
        value(&readings, "rdma_port_xmit_packets_total rxe0 1"),
        Some(12_800)
    );
    assert_eq!(unreadable(&readings, "malformed"), 0);
}

#[test]
fn netlink_is_asked_only_what_needs_no_right() {
    // RDMA_NLDEV_CMD_GET, PORT_GET, RES_GET and STAT_GET; commands that set values or show raw contents need a
    // capability.
    for request in [
        nldev::devices(),
        nldev::device(0),
        nldev::port(0, 1),
        nldev::resources(0),
        nldev::counters(0, 1),
    ] {
        let (kind, _) = request.kind_and_flags();
        assert_eq!(kind >> 10, 5, "RDMA_NL_NLDEV");
        assert!([1, 5, 9, 17].contains(&(kind & 0x3ff)), "{kind:#x}");
    }
}

#[test]
fn mlx5_fills_the_kernels_cache_only_when_its_first_counter_is_read() {
    let node = Node::of("h100-ndr");
    for port in &mut node.ports("") {
        let mut block = Block::default();
        port.read(&mut block).unwrap();
        let first = block
            .layout()
            .iter()
            .find(|s| s.metric.source.contains("/hw_counters/") && s.metric.name.ends_with("_total"));
        assert_eq!(first.unwrap().metric.name, "rdma_rx_write_requests_total");
    }
}

#[test]
fn an_answer_by_netlink_does_not_heed_lifespan_so_the_port_does() {
    let node = Recorded::of("mlx5-roce");
    fs::write(node.port("mlx5_0").join("hw_counters/lifespan"), "10000000\n").unwrap();
    let mut ports = node.ports();
    let series = "rdma_np_cnp_sent_total mlx5_0 1";
    assert_eq!(value(&read(&mut *ports[0]), series), Some(4411));
    node.tell("np_cnp_sent", 4411, 9999);
    assert_eq!(
        value(&read(&mut *ports[0]), series),
        Some(4411),
        "no second query"
    );
    assert_eq!(
        value(&node.read(), series),
        Some(9999),
        "a new port sends a query"
    );
}

#[test]
fn a_lifespan_is_what_the_kernel_has_rounded_it_to() {
    let node = Recorded::of("rxe");
    let mut block = Block::default();
    node.ports()[0].read(&mut block).unwrap();
    let shown = block
        .iter()
        .find(|(s, _)| s.metric.name == "rdma_hw_counters_lifespan_seconds");
    // 10 ms with a clock of 250 Hz.
    assert_eq!(shown.unwrap().1, Value::F64(0.012));
}

#[test]
fn optional_counters_of_mlx5_come_by_netlink_alone() {
    let node = Recorded::of("mlx5-roce");
    assert!(!node.port("mlx5_0").join("hw_counters/cc_tx_cnp_pkts").exists());
    let optional = "rdma_cc_tx_cnp_pkts_total mlx5_0 1";
    assert_eq!(value(&node.read(), optional), Some(4412));
    fs::remove_file(node.0.path().join("netlink")).unwrap();
    let readings = node.read();
    assert_eq!(value(&readings, optional), None);
    assert_eq!(value(&readings, "rdma_np_cnp_sent_total mlx5_0 1"), Some(4411));
}

#[test]
fn a_driver_without_statistics_refuses_to_tell_them_and_nothing_is_wrong() {
    let readings = Recorded::of("siw").read();
    assert_eq!(value(&readings, "rdma_port_state siw0 1"), Some(4));
    assert!(!readings.keys().any(|k| k.contains("hw_counter")));
    assert_eq!(
        Reason::ALL.map(|r| unreadable(&readings, r.word())),
        [0; Reason::ALL.len()]
    );
}

#[test]
fn more_counters_than_fit_an_answer_are_refused_and_come_from_files() {
    let readings = Recorded::of("hfi1").read();
    assert!(is_by(&readings, "hfi1_0", "sysfs"));
    // Among them names with commas.
    assert_eq!(
        value(&readings, "rdma_hw_counter_total hfi1_0 1 SDMAInt0,0"),
        Some(77)
    );
}

#[test]
fn a_kernel_without_its_rdma_module_has_no_such_protocol_and_files_are_read() {
    let node = Recorded::of("rxe");
    fs::write(
        node.0.path().join("netlink"),
        "> rdma 0x1409 0x301\n! EPROTONOSUPPORT\n",
    )
    .unwrap();
    let readings = node.read();
    assert!(is_by(&readings, "rxe0", "sysfs"));
    assert_eq!(
        value(&readings, "rdma_port_xmit_packets_total rxe0 1"),
        Some(12_800)
    );
}

#[test]
fn a_question_for_counters_has_32_bytes() {
    assert_eq!(nldev::counters(0, 1).numbered(1).len(), 32);
}

#[test]
fn a_function_of_the_fabric_manager_refuses_everything_and_is_left_alone_after_three_times() {
    let node = Recorded::of("refused");
    let mut ports = node.ports();
    for _ in 0..3 {
        let readings = read(&mut *ports[1]);
        assert_eq!(value(&readings, "rdma_port_state mlx5_1 1"), Some(4));
        assert!(unreadable(&readings, "rejected") > 40);
    }
    crate::sys::kept::count::take();
    let readings = read(&mut *ports[1]);
    // The rate: netlink reports the states.
    assert_eq!(crate::sys::kept::count::take().1, 1);
    assert!(unreadable(&readings, "rejected") > 40, "still counted");
}

#[test]
fn a_narrow_counter_clamps_and_says_so() {
    for (file, series, bits) in [
        (
            "local_link_integrity_errors",
            "rdma_local_link_integrity_errors_total",
            4,
        ),
        (
            "excessive_buffer_overrun_errors",
            "rdma_excessive_buffer_overrun_errors_total",
            4,
        ),
        ("link_downed", "rdma_link_downed_total", 8),
        ("link_error_recovery", "rdma_link_error_recovery_total", 8),
        ("symbol_error", "rdma_symbol_error_total", 16),
        ("port_xmit_wait", "rdma_port_xmit_wait_total", 32),
    ] {
        let node = Node::with(&["mlx5_0"]);
        let maximum = (1_u64 << bits) - 1;
        // Past its width a counter does not count on either.
        for (count, flag) in [
            (maximum - 1, None),
            (maximum, Some(1)),
            (maximum + 1, Some(1)),
            (2 * maximum, Some(1)),
        ] {
            let path = format!("infiniband/mlx5_0/ports/1/counters/{file}");
            node.write(&path, &format!("{count}\n"));
            let readings = read(&mut *node.ports("")[0]);
            assert_eq!(value(&readings, &format!("{series} mlx5_0 1")), Some(count));
            assert_eq!(
                value(&readings, &format!("rdma_counter_saturated mlx5_0 1 {file}")),
                flag,
                "{file}"
            );
        }
    }
}

#[test]
fn carrier_changes_counts_up_and_down_so_only_carrier_down_count_is_shown() {
    let node = Recorded::of("mlx5-roce");
    let interface = node.0.path().join("root/sys/class/net/ens1np0");
    fs::write(interface.join("carrier_changes"), "4\n").unwrap();
    fs::write(interface.join("carrier_down_count"), "1\n").unwrap();
    let readings = node.read();
    assert_eq!(value(&readings, "rdma_port_carrier_down_total mlx5_0 1"), Some(1));
}

#[test]
fn an_interface_of_infiniband_loses_its_carrier_for_reasons_of_its_own() {
    let readings = Recorded::of("h100-ndr").read();
    assert_eq!(value(&readings, "rdma_port_state mlx5_0 1"), Some(4));
    for metric in ["rdma_port_carrier_down_total", "rdma_port_netdev_up"] {
        assert_eq!(value(&readings, &format!("{metric} mlx5_0 1")), None);
        assert!(
            value(&readings, &format!("{metric} mlx5_3 1")).is_some(),
            "Ethernet"
        );
    }
}

#[test]
fn efa_makes_up_its_rate_so_none_is_shown() {
    let node = Recorded::of("efa");
    assert!(node.port("rdmap79s0").join("rate").exists());
    let readings = node.read();
    assert_eq!(
        value(&readings, "rdma_port_rate_bytes_per_second rdmap79s0 1"),
        None
    );
    assert_eq!(value(&readings, "rdma_port_lanes rdmap79s0 1"), None);
}

#[test]
fn ticks_of_port_xmit_wait_have_no_known_length_so_they_are_shown_as_they_are() {
    let readings = Recorded::of("hfi1").read();
    assert_eq!(
        value(&readings, "rdma_port_xmit_wait_total hfi1_0 1"),
        Some(68_398_763)
    );
}

#[test]
fn a_dead_queue_pair_is_one_counter_whatever_the_driver_calls_it() {
    for (case, series, count) in [
        (
            "bnxt_re",
            "rdma_req_transport_retries_exceeded_total bnxt_re0 1",
            1,
        ),
        ("ionic", "rdma_req_transport_retries_exceeded_total ionic_0 1", 1),
        ("mana", "rdma_req_rnr_retries_exceeded_total mana_0 1", 0),
        ("mlx4", "rdma_req_transport_retries_exceeded_total mlx4_0 1", 16),
        ("rxe", "rdma_req_transport_retries_exceeded_total rxe0 1", 0),
    ] {
        assert_eq!(value(&Recorded::of(case).read(), series), Some(count), "{case}");
    }
}

#[test]
fn rnr_nak_retry_err_is_no_dead_queue_pair_and_has_a_counter_of_its_own() {
    let readings = Recorded::of("bnxt_re").read();
    assert_eq!(
        value(&readings, "rdma_rnr_nak_retry_err_total bnxt_re0 1"),
        Some(23)
    );
    assert_eq!(
        value(&readings, "rdma_req_rnr_retries_exceeded_total bnxt_re0 1"),
        None
    );
}

#[test]
fn old_kernels_have_the_counters_of_64_bits_in_a_folder_of_their_own() {
    let node = Node::with(&["mlx5_0"]);
    for (file, count) in [
        ("port_xmit_data_64", "18034900000\n"),
        ("port_unicast_rcv_packets", "18005363\n"),
        ("unheard_of", "7\n"),
    ] {
        node.write(&format!("infiniband/mlx5_0/ports/1/counters_ext/{file}"), count);
    }
    let readings = read(&mut *node.ports("")[0]);
    let of = |name: &str| value(&readings, &format!("{name} mlx5_0 1"));
    assert_eq!(
        of("rdma_ext_port_xmit_data_bytes_total"),
        Some(4 * 18_034_900_000)
    );
    assert_eq!(of("rdma_ext_unicast_rcv_packets_total"), Some(18_005_363));
    assert_eq!(
        value(&readings, "rdma_port_counter_total mlx5_0 1 unheard_of"),
        None
    );
}

/// Its PMA cuts most counts to 8 or 16 bits and leaves others at 0 (`bnxt_re_assign_pma_port_counters`).
#[test]
fn bnxt_re_has_only_data_and_packets_in_its_pma() {
    let node = Recorded::of("bnxt_re");
    let write = |file: &str, count: u64| {
        let file = node.port("bnxt_re0").join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, format!("{count}\n")).unwrap();
    };
    for file in ["link_downed", "port_rcv_constraint_errors", "port_xmit_wait"] {
        write(&format!("counters/{file}"), 255);
    }
    write("counters/port_xmit_discards", 65535);
    write("counters/port_rcv_errors", 65535);
    write("counters/port_xmit_data", 1000);
    write("counters/unicast_xmit_packets", 7);
    fs::remove_file(node.0.path().join("netlink")).unwrap();
    for (file, count) in [
        ("tx_roce_discards", 131_071),
        ("rx_roce_discards", 6),
        ("rx_roce_errors", 8),
        ("tx_bytes", 5),
    ] {
        write(&format!("hw_counters/{file}"), count);
    }
    let readings = node.read();
    let of = |name: &str| value(&readings, &format!("rdma_{name} bnxt_re0 1"));
    let kept = [
        "port_xmit_discards_total",
        "port_rcv_discards_total",
        "port_rcv_errors_total",
    ];
    assert_eq!(kept.map(of), [131_071, 6, 8].map(Some));
    let of_pma = ["port_xmit_data_bytes_total", "unicast_xmit_packets_total"];
    assert_eq!(of_pma.map(of), [4000, 7].map(Some));
    let omitted = [
        "link_downed_total",
        "port_rcv_constraint_errors_total",
        "port_xmit_wait_total",
        "counter_saturated",
    ];
    assert_eq!(omitted.map(of), [None; 4]);
    let cut = readings
        .keys()
        .filter(|name| name.starts_with("rdma_counter_saturated"));
    assert_eq!(cut.count(), 0);
}

/// A PMA has only some of the counts that drivers have in `hw_counters/`.
#[test]
fn a_counter_that_the_pma_lacks_comes_from_the_hardware_counters() {
    let node = Node::with(&["mana_0"]);
    for (file, count) in [("rx_bytes", "12\n"), ("tx_packets", "5\n")] {
        node.write(&format!("infiniband/mana_0/ports/1/hw_counters/{file}"), count);
    }
    node.write("infiniband/mana_0/ports/1/counters/port_rcv_data", "10\n");
    let readings = read(&mut *node.ports("")[0]);
    let of = |name: &str| value(&readings, &format!("rdma_{name}"));
    assert_eq!(of("port_rcv_data_bytes_total mana_0 1"), Some(40));
    assert_eq!(of("hw_counter_total mana_0 1 rx_bytes"), Some(12));
    assert_eq!(of("port_xmit_packets_total mana_0 1"), Some(5));
}

/// In switchdev mode mlx5 has one device, with a port for each vport (ib_rep.c).
#[test]
fn of_a_device_in_switchdev_mode_only_the_uplink_is_a_port() {
    let readings = Recorded::of("switchdev").read();
    let of_port = |port: u32| {
        let label = format!(" mlx5_0 {port}");
        readings.keys().filter(|s| s.contains(&label)).count()
    };
    assert_eq!([1, 2, 5, 6].map(of_port), [0; 4], "{readings:?}");
    assert_eq!(value(&readings, "rdma_port_state mlx5_0 7"), Some(4));
    assert_eq!(value(&readings, "rdma_port_netdev_up mlx5_0 7"), Some(1));
    assert!(readings.keys().any(|s| s.starts_with("rdma_device_info mlx5_0 ")));
    // The kernel fills in none of the uplink's own counters: they are the device's.
    for (series, count) in [
        ("rdma_np_cnp_sent_total mlx5_0 7", Some(5)),
        ("rdma_out_of_buffer_total mlx5_0 7", Some(7)),
        ("rdma_req_transport_retries_exceeded_total mlx5_0 7", Some(1)),
        ("rdma_hw_counters_info mlx5_0 7 sysfs", Some(1)),
        ("rdma_device_hw_counter_total mlx5_0 np_cnp_sent", None),
    ] {
        assert_eq!(value(&readings, series), count, "{series}");
    }
}

#[test]
fn the_uplink_of_a_bond_has_the_counters_of_its_device_whichever_link_is_active() {
    let node = Node::of("switchdev");
    node.write("infiniband/mlx5_0/ports/7/gid_attrs/ndevs/0", "ens9\n");
    node.write("net/ens9/phys_switch_id", "00171203d23fb8\n");
    node.write("net/ens9/phys_port_name", "p1\n");
    node.write("net/bond0/bonding/mode", "active-backup 1\n");
    node.link("net/ens9/master", "../bond0");
    node.link("net/enp23s0f0np0/master", "../bond0");
    let all: Vec<_> = node.ports("").iter_mut().map(|port| read(&mut **port)).collect();
    let of_uplink = |series: &str| all.iter().find_map(|readings| value(readings, series));
    assert_eq!(of_uplink("rdma_np_cnp_sent_total mlx5_0 7"), Some(5));
    assert_eq!(of_uplink("rdma_out_of_buffer_total mlx5_0 7"), Some(7));
}

/// Two ports of one function, each with counters of its own.
#[test]
fn a_port_with_plain_counters_has_them_though_its_interface_is_of_a_switch() {
    let node = Node::of("switchdev");
    let port = "infiniband/mlx5_0/ports/7/hw_counters";
    fs::remove_file(node.path(&format!("{port}/vport_out_of_buffer"))).unwrap();
    fs::remove_file(node.path(&format!("{port}/vport_rx_write_requests"))).unwrap();
    node.write(&format!("{port}/out_of_buffer"), "3\n");
    let all: Vec<_> = node.ports("").iter_mut().map(|port| read(&mut **port)).collect();
    let of_uplink = |series: &str| all.iter().find_map(|readings| value(readings, series));
    assert_eq!(of_uplink("rdma_out_of_buffer_total mlx5_0 7"), Some(3));
}

#[test]
fn an_interface_with_the_name_of_a_vport_is_a_representor() {
    for (name, is_read) in [
        ("p0", true),
        ("", true),
        ("pf0", false),
        ("pf0vf1", false),
        ("pf0sf88", false),
        ("c1pf0vf3", false),
    ] {
        let node = Node::new();
        node.write("infiniband/mlx5_0/0000:17:00.0/vendor", "0x15b3\n");
        node.link("infiniband/mlx5_0/device", "0000:17:00.0");
        node.link("infiniband/mlx5_0/device/driver", "../mlx5_core");
        for port in ["1", "2"] {
            node.add("mlx5_0", port);
            node.write(
                &format!("infiniband/mlx5_0/ports/{port}/link_layer"),
                "Ethernet\n",
            );
        }
        node.write("infiniband/mlx5_0/ports/2/gid_attrs/ndevs/0", "ens1\n");
        node.write("net/ens1/phys_switch_id", "00171203d23fb8\n");
        node.write("net/ens1/phys_port_name", &format!("{name}\n"));
        let mut ports = node.ports("");
        let state = |port: &mut Box<dyn Device>, series| value(&read(&mut **port), series);
        assert_eq!(
            state(&mut ports[0], "rdma_port_state mlx5_0 1"),
            Some(4),
            "{name}"
        );
        let expected = is_read.then_some(4);
        assert_eq!(
            state(&mut ports[1], "rdma_port_state mlx5_0 2"),
            expected,
            "{name}"
        );
    }
}
