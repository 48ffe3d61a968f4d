#![allow(clippy::disallowed_methods, reason = "a test writes its own tree")]

use std::fs;

use super::metrics::{CRITICAL_WARNING, INFO, OMITTED, STATE, TEMPERATURE};
use super::*;
use crate::{Block, Subject, Value};

/// A tree in place of /sys.
struct Node {
    dir: tempfile::TempDir,
    env: Env,
}

impl Node {
    fn new(env: fn(&std::path::Path) -> Env) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let env = env(dir.path());
        Self { dir, env }
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.env.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn controller(&self, name: &str, transport: &str, address: &str) {
        let file = |file: &str, text: &str| self.write(&format!("/sys/class/nvme/{name}/{file}"), text);
        file("transport", transport);
        file("address", address);
        file("state", "live\n");
        file("model", "MODEL   \n");
    }

    fn open(&self, text: &str) -> Option<Source> {
        open(&self.env, &SPEC.settings(text).unwrap()).unwrap()
    }
}

fn read(device: &mut Box<dyn Device>) -> Result<Block, Error> {
    let mut block = Block::default();
    device.read(&mut block)?;
    block.finish();
    Ok(block)
}

fn value(block: &Block, metric: &'static crate::Metric) -> Vec<(Vec<String>, Value)> {
    let of = block.iter().filter(|(series, _)| series.metric == metric);
    of.map(|(series, value)| (series.labels.iter().map(ToString::to_string).collect(), value))
        .collect()
}

/// A log with this critical warning and composite temperature, in kelvins.
fn log(warning: u8, kelvins: u8) -> Vec<u8> {
    let mut page = vec![0; 512];
    page[..2].copy_from_slice(&[warning, kelvins]);
    page[2] = 1;
    page
}

#[test]
fn a_node_without_controllers_has_no_source() {
    let node = Node::new(Env::recorded);
    assert!(node.open("").is_none());
    fs::create_dir_all(node.env.path("/sys/class/nvme")).unwrap();
    assert!(node.open("").is_none());
}

#[test]
fn a_controller_behind_a_network_has_a_state_and_no_log() {
    let node = Node::new(Env::recorded);
    node.controller("nvme0", "pcie", "0000:01:00.0");
    node.controller("nvme7", "tcp", "traddr=192.0.2.1,trsvcid=4420");
    node.write("/sys/class/nvme/nvme0n1/transport", "pcie");
    node.write("/smart-log/nvme0", log(0, 44));
    let mut devices = node.open("").unwrap().devices.scan().unwrap();
    let subjects: Vec<&Subject> = devices.iter().map(|d| d.subject()).collect();
    let drive = Subject::new(crate::SubjectKind::Disk, "nvme0");
    assert_eq!(subjects, [&Subject::node(), &drive]);
    let list = read(&mut devices[0]).unwrap();
    let of = |labels: &[&str]| (labels.iter().map(|l| (*l).to_owned()).collect(), Value::U64(1));
    let states = [of(&["nvme0", "0000:01:00.0", "live"]), of(&["nvme7", "", "live"])];
    assert_eq!(value(&list, &STATE), states);
    assert_eq!(value(&list, &INFO)[1].0, ["nvme7", "", "MODEL", "", "", "tcp"]);
}

#[test]
fn a_log_that_is_none_is_a_failed_reading_with_its_reason() {
    let node = Node::new(Env::recorded);
    node.controller("nvme0", "pcie", "0000:01:00.0");
    let mut devices = node.open("").unwrap().devices.scan().unwrap();
    let reason = |devices: &mut Vec<Box<dyn Device>>| read(&mut devices[1]).map_err(|e| e.reason());
    assert_eq!(reason(&mut devices).unwrap_err(), "not_recorded");
    node.write("/smart-log/nvme0", vec![0xff; 512]);
    assert_eq!(reason(&mut devices).unwrap_err(), "parse");
    // A virtual drive without the log.
    node.write("/smart-log/nvme0", vec![0; 512]);
    assert_eq!(value(&reason(&mut devices).unwrap(), &TEMPERATURE), []);
    node.write("/smart-log/nvme0", log(8, 44));
    let block = reason(&mut devices).unwrap();
    assert_eq!(value(&block, &CRITICAL_WARNING)[0].1, Value::U64(8));
    assert_eq!(value(&block, &TEMPERATURE)[0].1, Value::F64(27.0));
}

/// Each read of hwmon is a command to the drive.
#[test]
fn a_drive_is_asked_once_in_5_min_also_after_a_new_list() {
    let node = Node::new(|dir| Env::with_sysroot(dir));
    node.controller("nvme0", "pcie", "0000:01:00.0");
    let sensor = "/sys/class/nvme/nvme0/hwmon3/temp1_input";
    node.write(sensor, "38850");
    let mut source = node.open("").unwrap();
    let mut devices = source.devices.scan().unwrap();
    let first = read(&mut devices[1]).unwrap();
    assert_eq!(value(&first, &TEMPERATURE)[0].1, Value::F64(39.0));
    assert_eq!(
        first.fault().map(|f| f.reason),
        Some("not_recorded"),
        "{:?}",
        node.dir
    );
    node.write(sensor, "60850");
    node.controller("nvme1", "pcie", "0000:02:00.0");
    assert!(source.devices.changed());
    let mut devices = source.devices.scan().unwrap();
    let again = read(&mut devices[1]).unwrap();
    assert_eq!(value(&again, &TEMPERATURE)[0].1, Value::F64(39.0));
}

#[test]
fn of_more_drives_than_the_limit_the_rest_is_counted() {
    for (drives, omitted) in [(128, 0), (130, 2)] {
        let node = Node::new(Env::recorded);
        for n in 0..drives {
            node.controller(&format!("nvme{n}"), "pcie", &format!("0000:{n:02x}:00.0"));
        }
        let mut devices = node.open("").unwrap().devices.scan().unwrap();
        assert_eq!(devices.len(), 1 + 128);
        let list = read(&mut devices[0]).unwrap();
        assert_eq!(value(&list, &OMITTED), [(Vec::new(), Value::U64(omitted))]);
    }
}

#[test]
fn a_site_that_wants_no_logs_has_temperatures_and_no_fault() {
    let node = Node::new(|dir| Env::with_sysroot(dir));
    node.controller("nvme0", "pcie", "0000:01:00.0");
    let mut devices = node.open("smart = false").unwrap().devices.scan().unwrap();
    let block = read(&mut devices[1]).unwrap();
    assert_eq!(value(&block, &TEMPERATURE)[0].1, Value::Absent);
    assert_eq!(block.fault(), None);
}

#[test]
fn the_helper_is_for_nodes_with_local_drives_whose_logs_the_site_wants() {
    let node = Node::new(|dir| Env::with_sysroot(dir));
    let needs = |helper, text: &str| crate::needs(helper, &node.env, &SPEC.settings(text).unwrap());
    let wants = |text: &str| needs(&domain::NVME, text);
    assert!(!wants(""), "no controller");
    node.controller("nvme0", "rdma", "traddr=192.0.2.1");
    assert!(!wants(""), "no local drive");
    node.controller("nvme1", "pcie", "0000:01:00.0");
    assert!(wants("") && wants("smart = true"));
    assert!(!wants("smart = false"));
    assert!(needs(&domain::BPF, "smart = false"), "others are always started");
}
