#![allow(clippy::disallowed_methods, reason = "a test writes its own recording")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::files::Failure;
use super::metrics as n;
use super::*;
use crate::gpu::metrics as m;
use crate::{Block, Device, Metric, Value};

mod places;

const PCI: &str = "0000:05:00.0";
const GPU: &str = "GPU-5d0e0000aa000001";

/// The two GPUs of a fixture, in a folder that a test changes.
struct Node {
    dir: tempfile::TempDir,
    source: Source,
    devices: Vec<Box<dyn Device>>,
    block: Block,
}

impl Node {
    fn new(case: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../fixtures/amd")
            .join(case);
        testkit::tree::unpack(&fixture, dir.path()).unwrap();
        let source = open(&Env::recorded(dir.path()), &Settings::default())
            .unwrap()
            .unwrap();
        let mut node = Self {
            dir,
            source,
            devices: Vec::new(),
            block: Block::default(),
        };
        node.scan();
        node
    }

    fn scan(&mut self) {
        self.devices = self.source.devices.scan().unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        Env::recorded(self.dir.path()).path(name)
    }

    fn of_gpu(&self, name: &str) -> PathBuf {
        self.path(&format!("/sys/bus/pci/devices/{PCI}/{name}"))
    }

    fn read(&mut self) {
        self.block.clear();
        self.devices[0].read(&mut self.block).unwrap();
        self.block.finish();
    }

    fn value(&self, metric: &'static Metric, labels: &[&str]) -> Option<Value> {
        let is_it = |s: &crate::Series| s.metric == metric && *s.labels == *labels;
        self.block.iter().find(|(s, _)| is_it(s)).map(|(_, value)| value)
    }

    fn state(&self) -> Option<String> {
        let mut infos = self.block.iter().filter(|(s, _)| s.metric == &n::TABLE_INFO);
        infos
            .next()
            .and_then(|(series, _)| series.labels.last().map(ToString::to_string))
    }

    /// Changes bytes of the table.
    fn patch(&self, at: usize, value: &[u8]) {
        let path = self.of_gpu("gpu_metrics");
        let mut bytes = fs::read(&path).unwrap();
        bytes[at..at + value.len()].copy_from_slice(value);
        fs::write(path, bytes).unwrap();
    }
}

#[test]
fn a_node_without_the_driver_has_no_source() {
    let dir = tempfile::tempdir().unwrap();
    assert!(
        open(&Env::recorded(dir.path()), &Settings::default())
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_table_that_ends_early_is_said_so_and_the_single_files_are_read() {
    let mut node = Node::new("mi300x");
    let bytes = fs::read(node.of_gpu("gpu_metrics")).unwrap();
    fs::write(node.of_gpu("gpu_metrics"), &bytes[..3871]).unwrap();
    node.read();
    assert_eq!(node.state().as_deref(), Some("truncated"));
    assert_eq!(node.value(&m::UP, &[GPU]), Some(Value::U64(1)));
    assert_eq!(node.value(&m::POWER, &[GPU]), Some(Value::F64(141.0)), "hwmon");
    assert_eq!(node.value(&m::ENERGY, &[GPU]), None);
}

/// `vega20_hwmgr.c`: the firmware leaves the mean 0 that the driver puts into the table, and hwmon has the current power.
#[test]
fn a_table_of_vega_20_has_no_power_and_hwmon_has_it() {
    let mut node = Node::new("mi210");
    let gpu = node.path("/sys/bus/pci/devices/0000:83:00.0");
    fs::write(gpu.join("hwmon/hwmon3/power1_average"), "221000000\n").unwrap();
    for (power, expected) in [(0_u16, 221.0), (93, 93.0)] {
        let mut table = vec![u8::MAX; 80];
        table[..4].copy_from_slice(&[80, 0, 1, 0]);
        table[34..36].copy_from_slice(&power.to_le_bytes());
        fs::write(gpu.join("gpu_metrics"), table).unwrap();
        node.read();
        assert_eq!(node.state().as_deref(), Some("read"));
        let powers = node.block.iter().filter(|(s, _)| s.metric == &m::POWER);
        let powers: Vec<_> = powers.map(|(_, value)| value).collect();
        assert_eq!(powers, [Value::F64(expected)]);
    }
}

/// `gmc_v9_0_mc_init`: its memory is the host's.
#[test]
fn an_apu_without_memory_of_its_own_has_the_size_of_its_banks() {
    let mut node = Node::new("mi300x");
    for name in [
        "mem_info_vram_total",
        "mem_info_vram_used",
        "mem_info_vis_vram_total",
        "mem_info_vis_vram_used",
    ] {
        fs::write(node.of_gpu(name), "0\n").unwrap();
    }
    node.read();
    assert_eq!(
        node.value(&m::MEMORY_TOTAL, &[GPU, ""]),
        Some(Value::U64(206_141_652_992)),
        "size_in_bytes of the bank in KFD's topology"
    );
    for metric in [&m::MEMORY_USED, &m::MEMORY_FREE] {
        assert_eq!(
            node.value(metric, &[GPU, ""]),
            Some(Value::Absent),
            "{}",
            metric.name
        );
    }
    for metric in [&m::BAR1_TOTAL, &m::BAR1_USED, &m::BAR1_FREE] {
        assert_eq!(node.value(metric, &[GPU]), Some(Value::Absent), "{}", metric.name);
    }
    assert!(matches!(node.value(&n::GTT_TOTAL, &[GPU]), Some(Value::U64(1..))));
}

/// `kfd_devcgroup_check_permission` hides its node, and not the list of processes: an empty list would seem complete.
#[test]
fn a_gpu_that_kfd_hides_has_no_list_of_processes() {
    let mut node = Node::new("mi300x");
    node.read();
    let lists = [&m::PROCESSES, &m::PROCESSES_SEEN];
    assert!(lists.iter().all(|metric| node.value(metric, &[GPU]).is_some()));
    for hidden in ["gpu_id", "name", "properties"] {
        let file = node.path("/sys/class/kfd/kfd/topology/nodes/1").join(hidden);
        _ = fs::remove_file(&file);
        // read(2) of a folder fails with EISDIR.
        fs::create_dir(&file).unwrap();
    }
    node.scan();
    node.read();
    for metric in lists {
        assert_eq!(node.value(metric, &[GPU]), None, "{}", metric.name);
    }
}

/// The links of cards with a switch of AMD's on them are as fast as they can be; the slot is above the switch.
#[test]
fn the_link_of_a_card_with_a_switch_is_that_of_its_upstream_port() {
    let mut node = Node::new("mi300x");
    fs::remove_file(node.of_gpu("gpu_metrics")).unwrap();
    let upstream = node.path("/sys/devices/pci0000:00/0000:00:01.0/0000:03:00.0");
    let downstream = upstream.join("0000:04:00.0");
    let own = downstream.join(PCI);
    fs::create_dir_all(&downstream).unwrap();
    let listed = node.path(&format!("/sys/bus/pci/devices/{PCI}"));
    fs::rename(&listed, &own).unwrap();
    std::os::unix::fs::symlink(&own, &listed).unwrap();
    let link = |folder: &Path, which: &str, speed: &str, width: &str| {
        fs::write(folder.join(format!("{which}_link_speed")), speed).unwrap();
        fs::write(folder.join(format!("{which}_link_width")), width).unwrap();
    };
    for which in ["current", "max"] {
        link(&own, which, "32.0 GT/s PCIe\n", "16\n");
        link(&downstream, which, "32.0 GT/s PCIe\n", "16\n");
    }
    link(&upstream, "current", "8 GT/s\n", "4\n");
    link(&upstream, "max", "16 GT/s\n", "8\n");
    let seen = |node: &mut Node| {
        node.scan();
        node.read();
        let value = |metric| match node.value(metric, &[GPU]) {
            Some(Value::U64(value)) => value,
            other => panic!("{other:?}"),
        };
        [
            &m::PCIE_GENERATION,
            &m::PCIE_WIDTH,
            &m::PCIE_GENERATION_MAX,
            &m::PCIE_WIDTH_MAX,
        ]
        .map(value)
    };
    fs::write(downstream.join("vendor"), "0x1000\n").unwrap();
    fs::write(upstream.join("vendor"), "0x1000\n").unwrap();
    assert_eq!(seen(&mut node), [5, 16, 5, 16], "a switch of the node");
    fs::write(downstream.join("vendor"), "0x1002\n").unwrap();
    fs::write(upstream.join("vendor"), "0x1002\n").unwrap();
    assert_eq!(seen(&mut node)[..2], [3, 4], "on the card");
}

/// The driver returns 0 there: the sensors are those of the first die.
#[test]
fn a_second_die_has_no_power_with_its_table_and_without_it() {
    let mut node = Node::new("mi250x");
    let dies = ["GPU-9c1f0a7be35d2401", "GPU-9c1f0a7be35d2402"];
    for has_table in [true, false] {
        node.block.clear();
        for (die, pci) in ["0000:c1:00.0", "0000:c6:00.0"].iter().enumerate() {
            if !has_table {
                fs::remove_file(node.path(&format!("/sys/bus/pci/devices/{pci}/gpu_metrics"))).unwrap();
            }
            node.devices[die].read(&mut node.block).unwrap();
        }
        node.block.finish();
        let powers = dies.map(|die| node.value(&m::POWER, &[die]));
        assert_eq!(
            powers,
            [Some(Value::F64(412.0)), Some(Value::Absent)],
            "{has_table}"
        );
        assert_eq!(
            node.value(&n::SOCKET_POWER, &[dies[0], "average"]),
            Some(Value::F64(412.0))
        );
        let of_second = |s: &crate::Series| {
            s.metric == &n::SOCKET_POWER && s.labels.first().is_some_and(|gpu| gpu == dies[1])
        };
        let numbers = node
            .block
            .iter()
            .filter(|(s, value)| of_second(s) && *value != Value::Absent);
        assert_eq!(numbers.count(), 0, "{has_table}");
    }
}

#[test]
fn a_driver_that_does_not_answer_is_down_and_nothing_else_is_shown() {
    let mut node = Node::new("mi300x");
    fs::remove_file(node.of_gpu("gpu_metrics")).unwrap();
    // read(2) of a folder fails with EISDIR.
    fs::create_dir(node.of_gpu("gpu_metrics")).unwrap();
    node.read();
    assert_eq!(node.value(&m::UP, &[GPU]), Some(Value::U64(0)));
    assert_eq!(
        node.value(&m::UNAVAILABLE_INFO, &[GPU, "unknown"]),
        Some(Value::U64(1))
    );
    assert_eq!(node.block.fault().map(|fault| fault.reason), Some("unknown"));
    assert_eq!(node.value(&m::MEMORY_USED, &[GPU, ""]), None);
    let page = node
        .block
        .iter()
        .find(|(s, _)| s.metric == &m::AMD_INFO)
        .unwrap()
        .0;
    assert_eq!(page.labels[5].as_str(), "", "the partitions were not read");
}

#[test]
fn a_refusal_during_a_reset_is_not_missing_permission() {
    let of = |errno| {
        Failure::of(&Error::io(
            Path::new("gpu_metrics"),
            std::io::Error::from_raw_os_error(errno),
        ))
    };
    for errno in [libc::EPERM, libc::EBUSY, libc::EACCES] {
        assert_eq!(of(errno), Some(Failure::Busy));
    }
    assert_eq!(of(libc::ENODEV), Some(Failure::Gone));
    assert_eq!(of(libc::EIO), Some(Failure::Unknown));
    assert_eq!(of(libc::EOPNOTSUPP), None, "unsupported");
    let after = |minutes: u64| Failure::Busy.after(Some(Duration::from_secs(60 * minutes)));
    assert_eq!(
        [0, 9, 10].map(after),
        [Failure::Busy, Failure::Busy, Failure::Unknown]
    );
    assert_eq!(Failure::Gone.after(None), Failure::Gone);
}

/// The unit of the table's own differs by part.
#[test]
fn an_apu_has_the_utilization_of_its_file() {
    let mut node = Node::new("mi300x");
    let mut table = vec![0xFF; 264];
    table[..4].copy_from_slice(&[8, 1, 3, 0]);
    fs::write(node.of_gpu("gpu_metrics"), table).unwrap();
    fs::write(node.of_gpu("gpu_busy_percent"), "7\n").unwrap();
    node.read();
    assert_eq!(node.value(&m::UTILIZATION, &[GPU]), Some(Value::F64(0.07)));
}

#[test]
fn a_gpu_without_a_readable_name_has_that_of_its_device_and_no_partitions() {
    let mut node = Node::new("mi300x");
    fs::write(node.of_gpu("product_name"), "\n").unwrap();
    fs::write(node.of_gpu("device"), "0x74b5\n").unwrap();
    for mode in ["compute", "memory"] {
        fs::remove_file(node.of_gpu(&format!("current_{mode}_partition"))).unwrap();
    }
    node.scan();
    node.read();
    let labels = |metric: &'static Metric| {
        let mut series = node.block.iter().filter(|(s, _)| s.metric == metric);
        series.next().map(|(s, _)| s.labels.to_vec()).unwrap()
    };
    assert_eq!(labels(&m::INFO)[2].as_str(), "AMD Instinct MI300X VF");
    let page = labels(&m::AMD_INFO);
    assert_eq!(
        [5, 6, 7].map(|at| page[at].to_string()),
        ["none", "none", "AMD Instinct MI300X VF"]
    );
}

/// A driver without `ras/event_state` gives no sign of new counts, which else are read every 5 min.
#[test]
fn counts_of_errors_are_those_of_the_gpu_that_is_at_the_address_now() {
    let other = "GPU-5d0e0000aa0000ff";
    let mut node = Node::new("mi300x");
    fs::remove_file(node.of_gpu("ras/event_state")).unwrap();
    fs::write(node.of_gpu("ras/aca_umc"), "ue: 5\nce: 7\nde: 0\n").unwrap();
    node.read();
    let of = |node: &Node, gpu| node.value(&m::ECC_LOCATION_ERRORS, &[gpu, "uncorrected", "volatile", "umc"]);
    assert_eq!(of(&node, GPU), Some(Value::U64(5)));
    fs::write(node.of_gpu("ras/aca_umc"), "ue: 1\nce: 0\nde: 0\n").unwrap();
    node.scan();
    node.read();
    assert_eq!(of(&node, GPU), Some(Value::U64(5)), "the same GPU, read before");

    fs::write(node.of_gpu("unique_id"), "5d0e0000aa0000ff\n").unwrap();
    // Another link, with an inode of its own.
    let link = node.path(&format!("/sys/bus/pci/drivers/amdgpu/{PCI}"));
    let new = node.path("/new");
    std::os::unix::fs::symlink("../../../../devices", &new).unwrap();
    fs::rename(&new, &link).unwrap();
    assert!(node.source.devices.changed());
    node.scan();
    node.read();
    assert_eq!(of(&node, other), Some(Value::U64(1)));
    assert_eq!(of(&node, GPU), None);
}

#[test]
fn a_gpu_that_is_divided_while_it_is_read_has_its_new_partitions() {
    let mut node = Node::new("mi300x");
    node.read();
    assert_eq!(
        node.value(&n::XCC_UTILIZATION, &[GPU, "", "0"]),
        Some(Value::F64(0.97))
    );
    let nodes = node.path("/sys/class/kfd/kfd/topology/nodes");
    let old = fs::read_to_string(nodes.join("1/properties")).unwrap();
    for (number, minor) in [(3, 129), (4, 130)] {
        let folder = nodes.join(number.to_string());
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("gpu_id"), format!("{}", 5000 + number)).unwrap();
        let text = old.replace("drm_render_minor 128", &format!("drm_render_minor {minor}"));
        fs::write(folder.join("properties"), text).unwrap();
    }
    assert!(!node.source.devices.changed(), "the generation is the same");
    fs::write(node.path("/sys/class/kfd/kfd/topology/generation_id"), "4\n").unwrap();
    assert!(node.source.devices.changed());
    node.scan();
    node.read();
    let of_first = |node: &Node| node.value(&n::XCC_UTILIZATION, &[GPU, "0", "0"]);
    assert_eq!(of_first(&node), None, "the table still has one partition");
    let mut table = fs::read(node.of_gpu("gpu_metrics")).unwrap();
    // num_partition of v1.8.
    table[338..340].copy_from_slice(&3_u16.to_le_bytes());
    fs::write(node.of_gpu("gpu_metrics"), table).unwrap();
    node.read();
    assert_eq!(of_first(&node), Some(Value::F64(0.97)));
    let parts = node
        .block
        .iter()
        .filter(|(s, _)| s.metric == &m::INSTANCE_INFO)
        .count();
    assert_eq!(parts, 3);
}

/// The newest tables have one array for the whole GPU, by the number of the die.
#[test]
fn activity_of_the_whole_gpu_is_not_shown_as_that_of_a_partition() {
    let mut node = Node::new("mi355x");
    let nodes = node.path("/sys/class/kfd/kfd/topology/nodes");
    let old = fs::read_to_string(nodes.join("1/properties")).unwrap();
    fs::create_dir(nodes.join("2")).unwrap();
    fs::write(nodes.join("2/gpu_id"), "778\n").unwrap();
    let text = old.replace("drm_render_minor 184", "drm_render_minor 185");
    fs::write(nodes.join("2/properties"), text).unwrap();
    node.scan();
    node.read();
    let xccs = node.block.iter().filter(|(s, _)| s.metric == &n::XCC_UTILIZATION);
    let parts: Vec<String> = xccs.map(|(s, _)| s.labels[1].to_string()).collect();
    assert_eq!(parts, [""; 8]);
    let instances = node
        .block
        .iter()
        .filter(|(s, _)| s.metric == &m::INSTANCE_INFO)
        .count();
    assert_eq!(instances, 2);
}

/// The driver has a table of each partition for these.
#[test]
fn a_partition_whose_table_cannot_be_read_has_no_engines_and_a_reason() {
    const DIVIDED: &str = "GPU-5d0e0000aa000011";
    let mut node = Node::new("mi355x-dpx");
    node.read();
    let busy = |node: &Node, part| node.value(&n::XCC_UTILIZATION, &[DIVIDED, part, "3"]);
    assert_eq!(busy(&node, "0"), Some(Value::F64(0.93)));
    assert_eq!(busy(&node, "1"), Some(Value::F64(0.13)));
    assert_eq!(busy(&node, ""), None, "the same dies twice");
    assert!(node.value(&m::JPEG_UTILIZATION, &[DIVIDED]).is_some());
    let file = node.path("/sys/devices/platform/amdgpu_xcp.1/xcp/xcp_metrics");
    let whole = fs::read(&file).unwrap();
    for state in ["truncated", "absent", "unreadable"] {
        match state {
            "truncated" => fs::write(&file, &whole[..whole.len() - 1]).unwrap(),
            "absent" => fs::remove_file(&file).unwrap(),
            // read(2) of a folder fails with EISDIR.
            _ => fs::create_dir(&file).unwrap(),
        }
        node.read();
        let info = [DIVIDED, "1", "", state];
        assert_eq!(
            node.value(&n::PARTITION_TABLE_INFO, &info),
            Some(Value::U64(1)),
            "{state}"
        );
        assert_eq!(busy(&node, "0"), Some(Value::F64(0.93)), "{state}");
        assert_eq!(busy(&node, "1"), None, "{state}");
        assert_eq!(
            node.value(&m::JPEG_UTILIZATION, &[DIVIDED]),
            None,
            "the mean of some partitions is not that of the GPU"
        );
    }
}

#[test]
fn a_gpu_that_sleeps_is_not_woken() {
    let mut node = Node::new("mi300x");
    fs::write(node.of_gpu("power/runtime_status"), "suspended\n").unwrap();
    node.read();
    assert_eq!(node.value(&m::UP, &[GPU]), None, "neither up nor down");
    assert_eq!(
        node.value(&m::UNAVAILABLE_INFO, &[GPU, "suspended"]),
        Some(Value::U64(1))
    );
}

#[test]
fn time_at_a_limit_is_counted_between_readings() {
    let mut node = Node::new("mi300x");
    node.read();
    assert_eq!(
        node.value(&m::CLOCK_EVENT_SECONDS, &[GPU, "sw_power_cap"]),
        Some(Value::F64(0.0))
    );
    // 4 s and 4000 ticks later, 1000 of which were at the power limit.
    node.patch(32, &14_000_000_000_u64.to_le_bytes());
    node.patch(40, &14_000_u32.to_le_bytes());
    node.patch(48, &3500_u32.to_le_bytes());
    node.read();
    assert_eq!(
        node.value(&m::CLOCK_EVENT_SECONDS, &[GPU, "sw_power_cap"]),
        Some(Value::F64(1.0))
    );
    assert_eq!(
        node.value(&m::CLOCK_EVENT_SECONDS, &[GPU, "hw_power_brake"]),
        Some(Value::F64(0.0))
    );
}

/// MI100 and Navi 2x count 65,536 J: 2 min at 550 W. The count begins at 0, so that a restart of the worker is a counter reset.
#[test]
fn an_energy_of_32_bits_begins_at_0_and_goes_on_when_it_wraps() {
    let mut node = Node::new("mi300x");
    let joules = |node: &mut Node, revision: u8, size: u16, at: usize, units: &[u8]| {
        let mut bytes = vec![0; usize::from(size)];
        bytes[..2].copy_from_slice(&size.to_le_bytes());
        bytes[2..4].copy_from_slice(&[1, revision]);
        bytes[at..at + units.len()].copy_from_slice(units);
        fs::write(node.of_gpu("gpu_metrics"), bytes).unwrap();
        node.read();
        node.value(&m::ENERGY, &[GPU])
    };
    let (before, after) = (0xFFFF_0000_u32, 0x0001_0000_u32);
    let long = |units: u32| u64::from(units).to_le_bytes();
    assert_eq!(
        joules(&mut node, 0, 80, 36, &before.to_le_bytes()),
        Some(Value::F64(0.0))
    );
    assert_eq!(
        joules(&mut node, 0, 80, 36, &after.to_le_bytes()),
        Some(Value::F64(2.0))
    );
    // The field has 64 bits, and the firmware's counter 32.
    let mut node = Node::new("mi300x");
    assert_eq!(
        joules(&mut node, 3, 120, 24, &long(before)),
        Some(Value::F64(0.0))
    );
    assert_eq!(joules(&mut node, 3, 120, 24, &long(after)), Some(Value::F64(2.0)));
    // A counter of 64 bits that goes back was reset.
    let mut node = Node::new("mi300x");
    node.patch(24, &long(before));
    node.read();
    node.patch(24, &long(after));
    node.read();
    assert_eq!(node.value(&m::ENERGY, &[GPU]), Some(Value::F64(1.0)));
}

#[test]
fn counts_of_errors_are_read_again_when_the_list_of_events_moves() {
    let mut node = Node::new("mi300x");
    node.read();
    let uncorrected = [GPU, "uncorrected", "volatile"];
    assert_eq!(node.value(&m::ECC_ERRORS, &uncorrected), Some(Value::U64(0)));
    fs::write(node.of_gpu("ras/aca_umc"), "ue: 2\nce: 5\nde: 0\n").unwrap();
    node.read();
    assert_eq!(
        node.value(&m::ECC_ERRORS, &uncorrected),
        Some(Value::U64(0)),
        "a read asks the firmware"
    );
    fs::write(
        node.of_gpu("ras/event_state"),
        "current seqno: 1\nFatal Error: count:1, last_seqno:1\n",
    )
    .unwrap();
    node.read();
    assert_eq!(node.value(&m::ECC_ERRORS, &uncorrected), Some(Value::U64(2)));
    assert_eq!(
        node.value(&n::RAS_EVENTS, &[GPU, "fatal_error"]),
        Some(Value::U64(1))
    );
    fs::write(node.of_gpu("ras/aca_umc"), "Query currently inaccessible\n").unwrap();
    fs::write(
        node.of_gpu("ras/event_state"),
        "current seqno: 2\nFatal Error: count:2, last_seqno:2\n",
    )
    .unwrap();
    node.read();
    assert_eq!(
        node.value(&m::ECC_ERRORS, &uncorrected),
        Some(Value::U64(2)),
        "the last known count"
    );
}

/// A total without one block would grow by that block's old errors when it is read: `gpu-ecc-uncorrected` would drain.
#[test]
fn a_total_is_absent_until_every_block_was_read_and_grows_by_new_errors_only() {
    let mut node = Node::new("mi300x");
    let event = |number: u32| format!("current seqno: {number}\nFatal Error: count:0, last_seqno:0\n");
    let write = |node: &Node, name: &str, text: &str| fs::write(node.of_gpu(name), text).unwrap();
    let uncorrected = [GPU, "uncorrected", "volatile"];
    let of_block =
        |node: &Node, block| node.value(&m::ECC_LOCATION_ERRORS, &[GPU, "uncorrected", "volatile", block]);
    write(&node, "ras/aca_umc", "ue: 0\nce: 4\nde: 0\n");
    write(&node, "ras/aca_gfx", "Query currently inaccessible\n");
    write(&node, "ras/event_state", &event(1));
    node.read();
    assert_eq!(node.value(&m::ECC_ERRORS, &uncorrected), Some(Value::Absent));
    assert_eq!(of_block(&node, "umc"), Some(Value::U64(0)));
    assert_eq!(of_block(&node, "gfx"), None);
    write(&node, "ras/aca_gfx", "ue: 2\nce: 0\n");
    write(&node, "ras/event_state", &event(2));
    node.read();
    assert_eq!(node.value(&m::ECC_ERRORS, &uncorrected), Some(Value::U64(2)));
    assert_eq!(of_block(&node, "gfx"), Some(Value::U64(2)));
    // A kind that a file does not have is not missing.
    assert_eq!(
        node.value(&m::ECC_ERRORS, &[GPU, "deferred", "volatile"]),
        Some(Value::U64(0))
    );
}

/// Without a total `gpu-ecc-uncorrected` would never see this GPU's errors.
#[test]
fn a_block_that_is_never_readable_is_left_out_of_the_total() {
    let mut node = Node::new("mi300x");
    let write = |node: &Node, name: &str, text: &str| fs::write(node.of_gpu(name), text).unwrap();
    let uncorrected = [GPU, "uncorrected", "volatile"];
    let mut read = |umc: u64, gfx: &str, event: u32| {
        write(&node, "ras/aca_umc", &format!("ue: {umc}\nce: 0\nde: 0\n"));
        write(&node, "ras/aca_gfx", gfx);
        let events = format!("current seqno: {event}\nFatal Error: count:0, last_seqno:0\n");
        write(&node, "ras/event_state", &events);
        node.read();
        node.value(&m::ECC_ERRORS, &uncorrected)
    };
    let refused = "Query currently inaccessible\n";
    for event in 1..10 {
        assert_eq!(read(3, refused, event), Some(Value::Absent), "{event}");
    }
    assert_eq!(read(3, refused, 10), Some(Value::U64(3)));
    assert_eq!(read(4, refused, 11), Some(Value::U64(4)));
    assert_eq!(
        read(4, "ue: 2\nce: 0\n", 12),
        Some(Value::U64(4)),
        "old errors are not new ones"
    );
}

#[test]
fn a_tree_of_cards_without_the_bus_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::recorded(dir.path());
    let card = env.path("/sys/class/drm/card0/device");
    for (folder, name) in [
        (env.path("/sys/module/amdgpu"), ""),
        (card.clone(), ""),
        (env.path("/sys/class/drm/card0-DP-1"), ""),
    ] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    fs::create_dir_all(env.path("/proc/sys/kernel")).unwrap();
    fs::write(
        card.join("uevent"),
        "DRIVER=amdgpu\nPCI_CLASS=30000\nPCI_SLOT_NAME=0000:09:00.0\n",
    )
    .unwrap();
    fs::write(card.join("mem_info_vram_total"), "8573157376\n").unwrap();
    let mut source = open(&env, &Settings::default()).unwrap().unwrap();
    let mut devices = source.devices.scan().unwrap();
    let mut block = Block::default();
    devices[0].read(&mut block).unwrap();
    block.finish();
    let total = block.iter().find(|(s, _)| s.metric == &m::MEMORY_TOTAL).unwrap();
    assert_eq!(
        (total.0.labels[0].as_str(), total.1),
        ("pci:0000:09:00.0", Value::U64(8_573_157_376))
    );
}
