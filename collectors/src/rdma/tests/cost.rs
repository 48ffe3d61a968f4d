//! What a reading costs the kernel: system calls are counted, time is not.

use std::sync::Arc;

use super::*;
use crate::sys::kept::count;

/// Reads every port once.
fn read_all(ports: &mut [Box<dyn Device>], blocks: &mut [Block]) {
    for (port, block) in ports.iter_mut().zip(blocks) {
        block.clear();
        port.read(block).unwrap();
        block.finish();
    }
}

/// Files whose numbers are read at every reading.
fn files(folder: &Path) -> usize {
    let mut found = 0;
    for device in fs::read_dir(folder).unwrap() {
        let port = device.unwrap().path().join("ports/1");
        found += 3;
        for counters in ["counters", "hw_counters"] {
            found += fs::read_dir(port.join(counters)).unwrap().count();
        }
        found -= usize::from(port.join("hw_counters/lifespan").exists());
        // The interface's operstate and carrier_down_count.
        found += 2 * usize::from(port.join("gid_attrs/ndevs/0").exists());
    }
    found
}

#[test]
fn the_second_reading_of_ten_adapters_is_one_read_for_each_file_and_no_open() {
    let node = Node::of("h100-ndr");
    let files = files(&node.path("infiniband"));
    assert!(files > 500);
    let mut ports = node.ports("");
    let mut blocks = vec![Block::default(); ports.len()];
    count::take();
    read_all(&mut ports, &mut blocks);
    assert_eq!(count::take(), (files, files));
    let layouts: Vec<_> = blocks.iter().map(|b| Arc::clone(b.layout())).collect();
    for _ in 0..3 {
        read_all(&mut ports, &mut blocks);
        assert_eq!(count::take(), (0, files));
    }
    for (block, layout) in blocks.iter().zip(&layouts) {
        assert!(Arc::ptr_eq(block.layout(), layout), "the series are named once");
    }
}

#[test]
fn every_reading_sees_every_number_anew() {
    let node = Node::with(&["mlx5_0"]);
    let mut ports = node.ports("");
    for n in 1..20_u64 {
        for (file, series) in [
            ("counters/symbol_error", "rdma_symbol_error_total mlx5_0 1"),
            ("hw_counters/out_of_buffer", "rdma_out_of_buffer_total mlx5_0 1"),
        ] {
            node.write(&format!("infiniband/mlx5_0/ports/1/{file}"), &format!("{n}\n"));
            assert_eq!(value(&read(&mut *ports[0]), series), Some(n));
        }
    }
}

#[test]
fn a_scan_reads_no_number() {
    let node = Node::of("h100-ndr");
    let mut devices = node.devices("");
    count::take();
    let ports = devices.scan().unwrap();
    devices.changed();
    assert_eq!((ports.len(), count::take()), (10, (0, 0)));
}
