//! What drivers count in, how far they can count, and what they say where they have nothing to say: a test for each.

use super::quirks::Recorded;
use super::*;
use crate::netlink::Protocol;
use crate::netlink::nldev;
use crate::netlink::recording::Recording;

#[test]
fn octets_come_in_fours_however_many_lanes_a_link_has() {
    let node = Node::with(&["mlx5_0"]);
    let folder = "infiniband/mlx5_0/ports/1";
    node.write(&format!("{folder}/counters/port_rcv_data"), "250\n");
    for rate in [
        "100 Gb/sec (1X NDR)",
        "200 Gb/sec (2X NDR)",
        "400 Gb/sec (4X NDR)",
        "1200 Gb/sec (12X NDR)",
    ] {
        node.write(&format!("{folder}/rate"), &format!("{rate}\n"));
        let readings = read(&mut *node.ports("")[0]);
        let bytes = value(&readings, "rdma_port_rcv_data_bytes_total mlx5_0 1");
        assert_eq!(bytes, Some(1000), "{rate}");
    }
}

#[test]
fn real_bytes_of_drivers_without_a_pma_are_not_multiplied() {
    let node = Recorded::of("bnxt_re");
    let file = node.port("bnxt_re0").join("hw_counters/rx_bytes");
    let told: u64 = fs::read_to_string(file).unwrap().trim().parse().unwrap();
    assert!(told > 0);
    let series = "rdma_port_rcv_data_bytes_total bnxt_re0 1";
    assert_eq!(value(&node.read(), series), Some(told));
}

#[test]
fn octets_have_32_bits_where_the_hardware_has_no_extended_counters() {
    let node = Node::with(&["mlx5_0"]);
    for (words, full) in [
        (u64::from(u32::MAX) - 1, 0),
        (u64::from(u32::MAX), 1),
        (1 << 40, 0),
    ] {
        node.write(
            "infiniband/mlx5_0/ports/1/counters/port_xmit_data",
            &format!("{words}\n"),
        );
        let readings = read(&mut *node.ports("")[0]);
        assert_eq!(
            value(&readings, "rdma_port_xmit_data_bytes_total mlx5_0 1"),
            Some(words * 4)
        );
        let flag = value(&readings, "rdma_counter_saturated mlx5_0 1 port_xmit_data");
        assert_eq!(flag.unwrap_or(0), full, "{words}");
    }
}

#[test]
fn what_the_firmware_of_ionic_names_and_its_driver_cannot_decode_is_all_ones_and_absent() {
    let node = Recorded::of("ionic");
    let series = "rdma_hw_counter_total ionic_0 1 resp_rx_s0_table_err";
    let readings = node.read();
    assert_eq!(value(&readings, series), None);
    assert_eq!(unreadable(&readings, "all_ones"), 1);
    // The same from files.
    fs::remove_file(node.0.path().join("netlink")).unwrap();
    let readings = node.read();
    assert_eq!(value(&readings, series), None);
    assert_eq!(unreadable(&readings, "all_ones"), 1);
}

#[test]
fn a_name_that_the_firmware_of_ionic_has_made_up_since_is_shown_as_it_is() {
    let node = Recorded::of("ionic");
    let file = node.0.path().join("netlink");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(
        &file,
        text.replace("\"resp_rx_s0_table_err\"", "\"resp_rx_s9_new\""),
    )
    .unwrap();
    node.tell("req_tx_retry_excd_err", 1, 5);
    let readings = node.read();
    assert_eq!(
        value(&readings, "rdma_req_transport_retries_exceeded_total ionic_0 1"),
        Some(5)
    );
    assert_eq!(unreadable(&readings, "all_ones"), 1, "the new one");
}

#[test]
fn a_port_of_roce_has_lid_0_and_is_read_like_any_other() {
    let node = Node::with(&["mlx5_0"]);
    let folder = "infiniband/mlx5_0/ports/1";
    node.write(&format!("{folder}/link_layer"), "Ethernet\n");
    let without = read(&mut *node.ports("")[0]);
    assert_eq!(value(&without, "rdma_port_state mlx5_0 1"), Some(4));
    for file in ["lid", "sm_lid"] {
        node.write(&format!("{folder}/{file}"), "0x0\n");
    }
    assert_eq!(read(&mut *node.ports("")[0]), without);
}

#[test]
fn the_link_layer_of_efa_is_unknown_which_is_neither_infiniband_nor_ethernet() {
    let mut block = Block::default();
    Recorded::of("efa").ports()[0].read(&mut block).unwrap();
    let info = block.layout().iter().find(|s| s.metric.name == "rdma_port_info");
    let info = info.unwrap();
    let at = info
        .metric
        .labels
        .iter()
        .position(|l| *l == "link_layer")
        .unwrap();
    assert_eq!(info.labels[at], "Unknown");
}

#[test]
fn an_answer_with_all_counters_is_as_long_as_the_kernels_and_fits_its_buffer() {
    // What a buffer of one page holds, without the head of a message.
    const BUFFER: usize = 3760;
    for (case, length) in [("rxe", 588), ("irdma", 1656), ("bnxt_re", 3416)] {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/rdma");
        let text = fs::read_to_string(fixture.join(case).join("netlink")).unwrap();
        let recording = Recording::parse(case, &text).unwrap();
        let mut request = nldev::counters(0, 1);
        let (kind, flags) = request.kind_and_flags();
        assert_eq!(kind, 0x1411, "{case}");
        let head = 16;
        let answer = recording.answer(Protocol::Rdma, kind, flags, &request.numbered(1)[head..]);
        let [message] = &answer.unwrap().messages[..] else {
            panic!("{case}: one message")
        };
        assert_eq!(message.len() + head, length, "{case}");
        assert!(message.len() <= BUFFER, "{case}");
    }
}
