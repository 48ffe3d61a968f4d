//! A made-up node with InfiniBand adapters whose counters move, and the question whether a page shows how they stand.
//!
//! Shape and size of ten ConnectX-7 ports; the values mean nothing. Every value is unique over all files and all
//! rounds, so that a page can be checked without knowing what any exporter calls a counter; but those of counters of 16
//! bits and less, which stay below their maximum and only change each time.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::tree::{Entry, put};

/// `ports/1/counters` of mlx5.
const COUNTERS: &[&str] = &[
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "multicast_rcv_packets",
    "multicast_xmit_packets",
    "port_rcv_constraint_errors",
    "port_rcv_data",
    "port_rcv_errors",
    "port_rcv_packets",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_data",
    "port_xmit_discards",
    "port_xmit_packets",
    "port_xmit_wait",
    "symbol_error",
    "unicast_rcv_packets",
    "unicast_xmit_packets",
];

/// The largest value of the narrow ones; the others have 32 bits or more (Linux, drivers/infiniband/core/sysfs.c).
fn maximum(name: &str) -> Option<u64> {
    match name {
        "excessive_buffer_overrun_errors" | "local_link_integrity_errors" => Some(0xf),
        "link_downed"
        | "link_error_recovery"
        | "port_rcv_constraint_errors"
        | "port_xmit_constraint_errors" => Some(0xff),
        "VL15_dropped"
        | "port_rcv_errors"
        | "port_rcv_remote_physical_errors"
        | "port_rcv_switch_relay_errors"
        | "port_xmit_discards"
        | "symbol_error" => Some(0xffff),
        _ => None,
    }
}

/// `ports/1/hw_counters` of mlx5, and then names that no driver has, as a later one may bring them.
const HW_COUNTERS: &[&str] = &[
    "duplicate_request",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "req_cqe_error",
    "req_cqe_flush_error",
    "req_remote_access_errors",
    "req_remote_invalid_request",
    "req_rnr_retries_exceeded",
    "req_transport_retries_exceeded",
    "resp_cqe_error",
    "resp_cqe_flush_error",
    "resp_local_length_error",
    "resp_remote_access_errors",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
    "roce_adp_retrans_to",
    "roce_slow_restart",
    "roce_slow_restart_cnps",
    "roce_slow_restart_trans",
    "rp_cnp_handled",
    "rp_cnp_ignored",
    "rx_atomic_requests",
    "rx_dct_connect",
    "rx_icrc_encapsulated",
    "rx_read_requests",
    "rx_write_requests",
    "cc_rx_ce_pkts",
    "cc_rx_cnp_pkts",
    "cc_tx_cnp_pkts",
    "rdma_rx_bytes",
    "rdma_rx_packets",
    "rdma_tx_bytes",
    "rdma_tx_packets",
    "later_driver_1",
    "later_driver_2",
    "later_driver_3",
    "later_driver_4",
    "later_driver_5",
    "later_driver_6",
    "later_driver_7",
    "later_driver_8",
    "later_driver_9",
];

/// Counter files of one port.
pub const PER_PORT: usize = COUNTERS.len() + HW_COUNTERS.len();

/// Values begin here. All have ten digits, so that a file never changes its length, and fit 32 bits.
const FIRST: u64 = 1_000_000_000;

/// How far the counters are apart, and the rounds of one: four times a value is never the value of another counter,
/// and the digits do not compress better than real ones.
const APART: u64 = 4_000_037;
const STEP: u64 = 137;

struct Counter {
    /// Below the root, for messages.
    name: String,
    file: File,
    /// Counted in words of four bytes; an exporter may show words or bytes.
    words: bool,
    maximum: Option<u64>,
    value: u64,
}

/// The adapters. The files stay where they are when this is dropped.
pub struct Hcas {
    counters: Vec<Counter>,
    rounds: u64,
}

impl Hcas {
    /// Writes `count` adapters with one port each below `root`, which then has a `sys` and a `proc`.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn build(root: &Path, count: usize) -> Result<Self> {
        ensure!(
            FIRST + (count * PER_PORT) as u64 * APART < 4 * FIRST,
            "{count} adapters are too many for unique values"
        );
        let mut counters = Vec::new();
        for hca in 0..count {
            let folder = adapter(root, hca)?;
            for (group, names) in [("counters", COUNTERS), ("hw_counters", HW_COUNTERS)] {
                for name in names {
                    let maximum = maximum(name);
                    let name = format!("{folder}/ports/1/{group}/{name}");
                    let path = root.join(&name);
                    put(&path, &text("0"))?;
                    let file = OpenOptions::new().write(true).open(&path);
                    counters.push(Counter {
                        words: name.ends_with("_data"),
                        file: file.with_context(|| path.display().to_string())?,
                        name,
                        maximum,
                        value: 0,
                    });
                }
            }
        }
        // Where a tree has no /proc of its own.
        if !root.join("proc/stat").exists() {
            put(
                &root.join("proc/stat"),
                &text("cpu  1 0 1 9 0 0 0 0 0 0\nbtime 1767225600"),
            )?;
        }
        let mut hcas = Self { counters, rounds: 0 };
        hcas.advance()?;
        Ok(hcas)
    }

    /// How many counter files there are.
    pub fn len(&self) -> usize {
        self.counters.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.counters.is_empty()
    }

    /// Gives every counter a larger value that none has had, in place: a descriptor that is kept open sees it.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn advance(&mut self) -> Result<()> {
        let moved = self.rounds * STEP;
        ensure!(moved < APART, "{} rounds: values would come again", self.rounds);
        for (counter, base) in self.counters.iter_mut().zip((FIRST..).step_by(APART as usize)) {
            let value = base + moved;
            let value = counter.maximum.map_or(value, |most| value % most);
            counter.value = value;
            let text = format!("{value}\n");
            counter.file.write_all_at(text.as_bytes(), 0)?;
            counter.file.set_len(text.len() as u64)?;
        }
        self.rounds += 1;
        Ok(())
    }

    /// For each counter, whether the page shows its current value.
    pub fn shown(&self, page: &str) -> Vec<bool> {
        let values: HashSet<u64> = page.lines().filter_map(value).collect();
        let shown = |c: &Counter| values.contains(&c.value) || c.words && values.contains(&(c.value * 4));
        self.counters.iter().map(shown).collect()
    }

    /// The file of a counter, below the root.
    pub fn name(&self, counter: usize) -> &str {
        self.counters.get(counter).map_or("", |c| &c.name)
    }
}

/// Writes one adapter without its counters, and gives its folder in `sys/class/infiniband`.
fn adapter(root: &Path, hca: usize) -> Result<String> {
    let pci = format!("0001:{:02x}:00.0", 0x10 + hca);
    let function = format!("sys/devices/pci0001:00/{pci}");
    let device = format!("{function}/infiniband/mlx5_{hca}");
    let port = format!("{device}/ports/1");
    let net = format!("{function}/net/ib{hca}");
    let link = |path: String, target: String| put(&root.join(path), &Entry::Link(target));
    let guid = format!("a088:c203:00ab:{hca:04x}");
    for (path, content) in [
        (format!("{function}/class"), "0x020700"),
        (format!("{function}/vendor"), "0x15b3"),
        (format!("{function}/device"), "0x1021"),
        (format!("{function}/numa_node"), "0"),
        (format!("{function}/current_link_speed"), "32.0 GT/s PCIe"),
        (format!("{function}/current_link_width"), "16"),
        (format!("{function}/max_link_speed"), "32.0 GT/s PCIe"),
        (format!("{function}/max_link_width"), "16"),
        (format!("{device}/board_id"), "MT_0000000838"),
        (format!("{device}/fw_ver"), "28.39.1002"),
        (format!("{device}/hca_type"), "MT4129"),
        (format!("{device}/hw_rev"), "0"),
        (format!("{device}/node_guid"), &guid),
        (format!("{device}/node_type"), "1: CA"),
        (format!("{device}/sys_image_guid"), &guid),
        (format!("{port}/cap_mask"), "0xa751e848"),
        (format!("{port}/gid_attrs/ndevs/0"), &format!("ib{hca}")),
        (format!("{port}/gid_attrs/types/0"), "IB/RoCE v1"),
        (format!("{port}/gids/0"), &format!("fe80:0000:0000:0000:{guid}")),
        (format!("{port}/hw_counters/lifespan"), "10"),
        (format!("{port}/lid"), &format!("{:#x}", hca + 1)),
        (format!("{port}/lid_mask_count"), "0"),
        (format!("{port}/link_layer"), "InfiniBand"),
        (format!("{port}/phys_state"), "5: LinkUp"),
        (format!("{port}/pkeys/0"), "0xffff"),
        (format!("{port}/rate"), "400 Gb/sec (4X NDR)"),
        (format!("{port}/sm_lid"), "0x1"),
        (format!("{port}/sm_sl"), "0"),
        (format!("{port}/state"), "4: ACTIVE"),
        (format!("{net}/carrier"), "1"),
        (format!("{net}/carrier_down_count"), "1"),
        (format!("{net}/operstate"), "up"),
    ] {
        put(&root.join(path), &text(content))?;
    }
    link(format!("{device}/device"), format!("../../../{pci}"))?;
    link(
        format!("{function}/driver"),
        "../../../bus/pci/drivers/mlx5_core".to_owned(),
    )?;
    link(format!("{net}/device"), format!("../../../{pci}"))?;
    link(
        format!("sys/bus/pci/devices/{pci}"),
        format!("../../../devices/pci0001:00/{pci}"),
    )?;
    link(
        format!("sys/class/net/ib{hca}"),
        format!("../../devices/pci0001:00/{pci}/net/ib{hca}"),
    )?;
    let class = format!("sys/class/infiniband/mlx5_{hca}");
    link(
        class.clone(),
        format!("../../devices/pci0001:00/{pci}/infiniband/mlx5_{hca}"),
    )?;
    Ok(class)
}

fn text(content: &str) -> Entry {
    Entry::File(format!("{content}\n").into_bytes())
}

/// The value of a line of an exposition, where it is a whole number.
fn value(line: &str) -> Option<u64> {
    if line.starts_with('#') {
        return None;
    }
    // A label's value may contain spaces; the text after the labels does not.
    let rest = line.rsplit_once("} ").or_else(|| line.split_once(' '))?.1;
    let number: f64 = rest.split(' ').next()?.parse().ok()?;
    let whole = number.fract() == 0.0 && (0.0..9e15).contains(&number);
    whole.then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;

    #[test]
    fn a_port_has_68_counters_and_they_move_in_place() {
        let dir = tempfile::tempdir().unwrap();
        let mut hcas = Hcas::build(dir.path(), 2).unwrap();
        assert_eq!((PER_PORT, hcas.len()), (68, 136));
        let class = dir.path().join("sys/class/infiniband");
        let mut kept = File::open(class.join("mlx5_1/ports/1/counters/port_rcv_data")).unwrap();
        let mut read = || {
            let mut text = String::new();
            kept.rewind().unwrap();
            kept.read_to_string(&mut text).unwrap();
            text.trim().parse::<u64>().unwrap()
        };
        let first = read();
        hcas.advance().unwrap();
        assert_eq!(read(), first + STEP);
        for path in [
            "mlx5_1/device/vendor",
            "../net/ib1/carrier_down_count",
            "../../bus/pci/devices/0001:11:00.0/class",
        ] {
            assert!(class.join(path).is_file(), "{path}");
        }
    }

    #[test]
    fn a_page_is_judged_by_values_alone() {
        let dir = tempfile::tempdir().unwrap();
        let mut hcas = Hcas::build(dir.path(), 1).unwrap();
        let page = |hcas: &Hcas| -> String {
            let line = |c: &Counter| match (c.words, c.name.contains("hw_counters")) {
                (true, _) => format!("bytes_total{{a=\"}} 5\"}} {}\n", c.value * 4),
                (false, true) => format!("x{{a=\"b\"}} {:e}\n", c.value as f64),
                (false, false) => format!("x {} 1700000000\n", c.value),
            };
            hcas.counters.iter().map(line).collect()
        };
        let (old, all) = (page(&hcas), [true; PER_PORT]);
        assert_eq!(hcas.shown(&old), all);
        let cut = old.lines().skip(1).collect::<Vec<_>>().join("\n");
        assert_eq!(hcas.shown(&cut).iter().filter(|s| **s).count(), PER_PORT - 1);
        hcas.advance().unwrap();
        assert!(!hcas.shown(&old).contains(&true));
        assert_eq!(hcas.shown(&page(&hcas)), all);
    }
}
