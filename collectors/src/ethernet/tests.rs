//! The collector on a node of files, with a simulated kernel.

mod bonds;
mod cost;
mod exclusion;
mod faults;
mod gentle;
mod lossy;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use world::{Net, World};

use super::*;
use crate::netlink::dcb::Pfc;
use crate::rdma::netlink_port::tests::Answering;
use crate::{Block, Device, Devices, Value};

/// A node with RoCE ports.
struct Node {
    dir: tempfile::TempDir,
    world: World,
    /// The answers of RDMA netlink; none until a test sets them.
    rdma: Answering,
}

impl Node {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            world: World::default(),
            rdma: Answering::default(),
        }
    }

    #[allow(clippy::disallowed_methods, reason = "tests make the files that they read")]
    fn write(&self, path: &str, text: &str) {
        let file = self.dir.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    #[allow(clippy::disallowed_methods, reason = "tests make the files that they read")]
    fn link(&self, path: &str, target: &str) {
        let file = self.dir.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, file).unwrap();
    }

    #[allow(clippy::disallowed_methods, reason = "tests make the files that they read")]
    fn remove(&self, path: &str) {
        std::fs::remove_file(self.dir.path().join(path)).unwrap();
    }

    /// A device of one port on a function, with its interface.
    fn add(&self, device: &str, pci: &str, driver: &str, netdev: &str) {
        let function = format!("sys/devices/pci0000:00/{pci}");
        let folder = format!("{function}/infiniband/{device}");
        self.write(&format!("{folder}/ports/1/link_layer"), "Ethernet\n");
        self.write(
            &format!("{folder}/ports/1/gid_attrs/ndevs/0"),
            &format!("{netdev}\n"),
        );
        self.link(&format!("{folder}/device"), &format!("../../../{pci}"));
        self.link(
            &format!("{function}/driver"),
            &format!("../../../bus/pci/drivers/{driver}"),
        );
        self.link(
            &format!("sys/class/infiniband/{device}"),
            &format!("../../devices/pci0000:00/{pci}/infiniband/{device}"),
        );
        self.interface(netdev, pci);
    }

    /// An interface on a function.
    fn interface(&self, netdev: &str, pci: &str) {
        let folder = format!("sys/devices/pci0000:00/{pci}/net/{netdev}");
        self.write(&format!("{folder}/mtu"), "4200\n");
        self.link(&format!("{folder}/device"), &format!("../../../{pci}"));
        self.link(
            &format!("sys/class/net/{netdev}"),
            &format!("../../devices/pci0000:00/{pci}/net/{netdev}"),
        );
    }

    /// An mlx5 adapter whose interface has flow control on priority 3.
    fn with_mlx5() -> Self {
        let node = Self::new();
        node.add("mlx5_0", "0000:01:00.0", "mlx5_core", "eth0");
        node.world.net("eth0", Net::mlx5(3));
        node
    }

    fn devices(&self, rules: &str) -> Box<dyn Devices> {
        let settings = crate::rdma::SPEC.settings(rules).unwrap();
        let env = Env::with_sysroot(self.dir.path());
        let gate = Gate::new(self.world.ways(), self.world.clock());
        let rdma = self.rdma.clone();
        let asker = move |_: &_| -> Box<dyn NetlinkTransport> { Box::new(rdma.clone()) };
        Box::new(devices(&env, &settings, gate, Box::new(asker)).unwrap())
    }

    fn ports(&self, rules: &str) -> Vec<Box<dyn Device>> {
        self.devices(rules).scan().unwrap()
    }

    /// The only port.
    fn port(&self) -> Box<dyn Device> {
        let mut ports = self.ports("");
        assert_eq!(ports.len(), 1);
        ports.remove(0)
    }
}

/// The series of an interface, without prefix, port and interface, absent values omitted: `pfc_enabled 3`.
type Reading = BTreeMap<String, f64>;

/// One reading by interface.
fn read_each(port: &mut dyn Device) -> BTreeMap<String, Reading> {
    let mut block = Block::default();
    port.read(&mut block).unwrap();
    block.finish();
    let mut found: BTreeMap<String, Reading> = BTreeMap::new();
    for (series, value) in block.iter() {
        let value = match value {
            Value::U64(n) => f64::from(u32::try_from(n).unwrap()),
            Value::F64(x) => x,
            Value::Absent => continue,
        };
        let name = series.metric.name.trim_start_matches("rdma_");
        let [_, _, own @ .., netdev] = &series.labels[..] else {
            panic!("{series:?}")
        };
        let name = format!("{name} {}", own.join(" "));
        let of_it = found.entry(netdev.to_string()).or_default();
        assert_eq!(
            of_it.insert(name.trim_end().to_owned(), value),
            None,
            "{name} twice"
        );
    }
    found
}

/// One reading of a port with one interface.
fn read(port: &mut dyn Device) -> Reading {
    let mut each = read_each(port).into_values();
    let only = each.next().unwrap_or_default();
    assert_eq!(each.next(), None, "another interface");
    only
}

/// Batches of 30 s for this time; the readings of those in which the port is due.
fn batches(world: &World, port: &mut dyn Device, time: Duration) -> Vec<Reading> {
    let mut readings = Vec::new();
    for _ in 0..time.as_secs() / 30 {
        if port.is_due() {
            readings.push(read(port));
        }
        world.pass(30 * SECOND);
    }
    readings
}

/// The values of these series.
fn values<const N: usize>(reading: &Reading, series: [&str; N]) -> [Option<f64>; N] {
    series.map(|name| reading.get(name).copied())
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_port_is_read_every_half_minute_and_by_no_scrape() {
    assert_eq!(SPEC.cadence, Cadence::Every(30 * SECOND));
}

#[test]
fn priorities_with_flow_control_have_frames_and_seconds_and_no_others() {
    let node = Node::with_mlx5();
    let reading = read(&mut *node.port());
    let [rx, seconds, without, mtu] = values(
        &reading,
        [
            "pfc_rx_frames_total 3",
            "pfc_rx_pause_seconds_total 3",
            "pfc_rx_frames_total 2",
            "port_mtu_bytes",
        ],
    );
    assert_eq!(
        (rx, seconds, without, mtu),
        (Some(7.0), Some(2.5), None, Some(4200.0))
    );
    assert_eq!(
        values(&reading, ["pfc_enabled 3", "pfc_enabled 2"]),
        [Some(1.0), Some(0.0)]
    );
    // Drops of every priority are shown; only those of a priority with flow control are a fault.
    assert_eq!(
        values(
            &reading,
            [
                "priority_discards_total 3 discard",
                "priority_discards_total 0 discard"
            ]
        ),
        [Some(1.0); 2]
    );
    assert_eq!(
        values(&reading, ["ethernet_resting", "pci_stalled_ratio read"]),
        [Some(0.0), Some(0.25)]
    );
}

#[test]
fn names_move_with_flow_control_and_counts_go_with_them() {
    let node = Node::with_mlx5();
    let mut port = node.port();
    read(&mut *port);
    let names = Net::mlx5(4).statistics.len();
    assert_eq!(names, Net::mlx5(3).statistics.len(), "same count, same positions");
    node.world.net("eth0", Net::mlx5(4));
    let reading = read(&mut *port);
    assert_eq!(
        values(
            &reading,
            [
                "pfc_rx_frames_total 3",
                "pfc_rx_frames_total 4",
                "pfc_enabled 3",
                "pfc_enabled 4"
            ]
        ),
        [None, Some(7.0), Some(0.0), Some(1.0)]
    );
}

#[test]
fn the_counts_of_dcb_are_taken_only_where_the_statistics_of_a_driver_are_not_known() {
    let node = Node::new();
    for (at, driver, netdev) in [(1, "mlx5_core", "eth0"), (2, "i40e", "eth1"), (3, "qede", "eth2")] {
        node.add(&format!("rdma{at}"), &format!("0000:0{at}:00.0"), driver, netdev);
        let mut net = Net::mlx5(3);
        // Old counts, as mlx5 has them.
        net.pfc = Some(Pfc {
            enabled: 0b1000,
            requests: [90; 8],
            indications: [u64::MAX, 91, 91, 91, 91, 91, 91, 91],
        });
        node.world.net(netdev, net);
    }
    let [mlx5, other, silent] = &mut node.ports("")[..] else {
        panic!()
    };
    assert_eq!(values(&read(&mut **mlx5), ["pfc_rx_frames_total 3"]), [Some(7.0)]);
    let reading = read(&mut **other);
    assert_eq!(
        values(
            &reading,
            [
                "pfc_rx_frames_total 3",
                "pfc_tx_frames_total 3",
                "pfc_rx_frames_total 1"
            ]
        ),
        [Some(91.0), Some(90.0), None]
    );
    assert!(
        !node.world.calls().contains(&"values eth1".to_owned()),
        "no table for this driver"
    );
    assert_eq!(
        values(&reading, ["pause_rx_frames_total", "phy_link_down_total"]),
        [Some(5.0), Some(6.0)]
    );
    // A driver that fills in none has zeros there, or stale values of another driver.
    let reading = read(&mut **silent);
    assert_eq!(
        values(
            &reading,
            ["pfc_rx_frames_total 3", "pfc_tx_frames_total 3", "pfc_enabled 3"]
        ),
        [None, None, Some(1.0)]
    );
}

const OF_BNXT: [&str; 5] = [
    "pfc_tx_frames_total 3",
    "pfc_tx_pause_seconds_total 3",
    "pfc_tx_frames_total 4",
    "pfc_enabled 4",
    "qos_trust_info dscp",
];

fn bnxt(enabled: u8) -> Reading {
    let node = Node::new();
    node.add("bnxt_re0", "0000:01:00.0", "bnxt_en", "eth0");
    node.world.net("eth0", Net::bnxt(enabled));
    read(&mut *node.port())
}

/// The switch pauses another priority than the one with flow control.
#[test]
fn pauses_of_a_priority_without_flow_control_are_shown() {
    let reading = bnxt(1 << 4);
    assert_eq!(values(&reading, OF_BNXT), [80.0, 2.5, 0.0, 1.0, 1.0].map(Some));
    assert_eq!(
        values(&reading, ["pfc_tx_frames_total 5", "pfc_enabled 3"]),
        [None, Some(0.0)]
    );
}

/// The adapter has priorities that Broadcom's tools set, which DCB does not know.
#[test]
fn a_bnxt_without_any_priority_by_dcb_has_unknown_flow_control() {
    let reading = bnxt(0);
    let expected = [Some(80.0), Some(2.5), Some(0.0), None, None];
    assert_eq!(values(&reading, OF_BNXT), expected);
    let node = Node::with_mlx5();
    node.world.net("eth0", Net::without());
    assert_eq!(
        values(&read(&mut *node.port()), ["pfc_enabled 4", "qos_trust_info dscp"]),
        [Some(0.0), Some(1.0)]
    );
}

#[test]
fn a_bad_table_is_an_error_and_the_switch_is_off_at_once() {
    for text in ["enabeld = true", "enabled = 1"] {
        SPEC.settings(text).unwrap_err();
    }
    let off = SPEC.settings("enabled = false").unwrap();
    assert!(open(&Env::default(), &off).unwrap().is_none());
    let bad = Settings::try_from("\"rdma.exclude\" = 1".to_owned()).unwrap();
    assert!(open(&Env::default(), &bad).is_err());
}
