//! What broken, odd and vanishing files do: each costs its own series, and never a neighbour's.

#![allow(
    clippy::disallowed_methods,
    reason = "these tests build the files that they break"
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::sys::stat::Mode;
use tempfile::TempDir;

use super::{SPEC, open};
use crate::runner::Runner;
use crate::sys::kept::count;
use crate::{Block, Env, Settings, Value};

mod pci;

const MC: &str = "sys/devices/system/edac/mc";
const PCI: &str = "sys/bus/pci/devices";
const A: &str = "0000:18:00.0";
const B: &str = "0000:2a:00.0";

/// A node of files: one memory controller with two DIMMs, two GPUs.
struct Node {
    root: TempDir,
}

impl Node {
    fn new() -> Self {
        let node = Self {
            root: tempfile::tempdir().unwrap(),
        };
        node.write("proc/stat", STAT);
        node.write(
            "proc/sys/kernel/random/boot_id",
            "4a1f3c2e-7d55-4b0e-9a43-2f6f0c9d1b77\n",
        );
        for (file, text) in [("ue_count", "1"), ("ce_count", "2"), ("mc_name", "F19h ")] {
            node.write(&format!("{MC}/mc0/{file}"), format!("{text}\n"));
        }
        for dimm in ["dimm0", "dimm1"] {
            node.write(&format!("{MC}/mc0/{dimm}/dimm_ue_count"), "3\n");
            node.write(&format!("{MC}/mc0/{dimm}/dimm_ce_count"), "4\n");
            node.write(&format!("{MC}/mc0/{dimm}/dimm_label"), " P0_DIMM \n");
        }
        node.gpu(A, "0x2330");
        node.gpu(B, "0x2330");
        node
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn gpu(&self, address: &str, device: &str) {
        for (file, text) in [("class", "0x030200"), ("vendor", "0x10de"), ("device", device)] {
            self.write(&format!("{PCI}/{address}/{file}"), format!("{text}\n"));
        }
        self.write(&format!("{PCI}/{address}/config"), [0xde, 0x10, 0x30, 0x23]);
        symlink("../drivers/nvidia", self.path(&format!("{PCI}/{address}/driver"))).unwrap();
    }

    fn runner(&self) -> Runner {
        let env = Env::with_sysroot(self.root.path());
        let mut source = open(&env, &Settings::default()).unwrap().unwrap();
        Runner::new(&SPEC, &mut source).unwrap()
    }

    fn read(&self) -> Found {
        read(&mut self.runner())
    }
}

const STAT: &str = "cpu  1 2 3 4\ncpu0 1 2 3 4\nintr 5\nctxt 6\nbtime 1767225600\nprocesses 7\n";

/// The series of one reading, without the absent ones.
type Found = BTreeMap<String, u64>;

fn read(runner: &mut Runner) -> Found {
    let mut found = Found::new();
    let mut answered = 0;
    runner.read(|reading, block| {
        answered += 1;
        if let Err(error) = reading.result {
            found.insert(format!("error {} {}", reading.subject, error.reason()), 1);
        }
        for (series, value) in block.iter() {
            let Value::U64(value) = value else { continue };
            let key = format!("{} {}", series.metric.name, series.labels.join(" "));
            assert_eq!(found.insert(key.clone(), value), None, "{key} stands there twice");
        }
    });
    assert_eq!(
        answered,
        runner.subjects().len(),
        "a device did not answer in its slice"
    );
    found
}

/// What differs between two readings: the keys of `before` that are gone, and those that are new or have another value.
fn change(before: &Found, after: &Found) -> (Vec<String>, Vec<String>) {
    let gone = before.keys().filter(|k| !after.contains_key(*k)).cloned();
    let new = after.iter().filter(|(k, v)| before.get(*k) != Some(v));
    (gone.collect(), new.map(|(k, v)| format!("{k} = {v}")).collect())
}

/// Makes something else where a file was.
type Fault = fn(&Path);

/// Everything that a file with a number in it can be instead.
const FAULTS: &[(&str, Fault)] = &[
    ("gone", |_| ()),
    ("a folder: read(2) fails", |p| fs::create_dir(p).unwrap()),
    ("empty", |p| fs::write(p, "").unwrap()),
    ("only a line end", |p| fs::write(p, "\n").unwrap()),
    ("binary", |p| fs::write(p, [0xff, 0, 0xfe]).unwrap()),
    ("a zero byte", |p| fs::write(p, "1\0\n").unwrap()),
    ("negative", |p| fs::write(p, "-1\n").unwrap()),
    ("words", |p| fs::write(p, "not supported\n").unwrap()),
    ("two numbers", |p| fs::write(p, "1 2\n").unwrap()),
    ("too large for 64 bits", |p| {
        fs::write(p, "18446744073709551616\n").unwrap()
    }),
    ("1 MiB of digits", |p| fs::write(p, "0".repeat(1 << 20)).unwrap()),
    ("a link to nowhere", |p| symlink("nowhere", p).unwrap()),
    ("a FIFO without a writer", |p| {
        nix::unistd::mkfifo(p, Mode::S_IRWXU).unwrap()
    }),
];

fn break_file(path: &Path, fault: Fault) {
    fs::remove_file(path).unwrap();
    fault(path);
}

#[test]
fn a_broken_counter_costs_its_own_series_only() {
    let whole = Node::new().read();
    for (name, fault) in FAULTS {
        for (file, key) in [
            ("mc0/ue_count", "host_edac_uncorrected_errors_total mc0"),
            (
                "mc0/dimm0/dimm_ue_count",
                "host_edac_dimm_uncorrected_errors_total mc0 dimm0",
            ),
            (
                "mc0/dimm1/dimm_ce_count",
                "host_edac_dimm_corrected_errors_total mc0 dimm1",
            ),
        ] {
            let node = Node::new();
            break_file(&node.path(&format!("{MC}/{file}")), *fault);
            let (gone, new) = change(&whole, &node.read());
            assert_eq!((gone, new), (vec![key.to_owned()], vec![]), "{file}: {name}");
        }
    }
}

#[test]
fn a_fifo_whose_writer_says_nothing_does_not_block() {
    let node = Node::new();
    let path = node.path(&format!("{MC}/mc0/ue_count"));
    break_file(&path, |p| nix::unistd::mkfifo(p, Mode::S_IRWXU).unwrap());
    let _writer = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let found = node.read();
    assert!(!found.contains_key("host_edac_uncorrected_errors_total mc0"));
    assert_eq!(found["host_edac_corrected_errors_total mc0"], 2);
}

#[test]
fn labels_are_trimmed_and_a_broken_one_takes_no_counter_with_it() {
    let node = Node::new();
    let whole = node.read();
    assert!(whole.contains_key("host_edac_controller_info mc0 F19h"));
    assert!(whole.contains_key("host_edac_dimm_info mc0 dimm0 P0_DIMM"));
    for label in [&b"\xff\xfe"[..], b"a\x07b", b"", "x".repeat(5000).as_bytes()] {
        node.write(&format!("{MC}/mc0/dimm0/dimm_label"), label);
        let (gone, new) = change(&whole, &node.read());
        assert_eq!((gone.len(), new), (1, vec![]), "{label:?}");
        assert_eq!(gone[0], "host_edac_dimm_info mc0 dimm0 P0_DIMM");
    }
}

#[test]
fn a_controller_that_leaves_takes_its_series_with_it() {
    let node = Node::new();
    let mut runner = node.runner();
    read(&mut runner);
    fs::remove_dir_all(node.path(&format!("{MC}/mc0"))).unwrap();
    let found = read(&mut runner);
    assert!(!found.keys().any(|k| k.contains("errors_total")), "{found:?}");
    assert_eq!(found["host_pci_gpus nvidia"], 2);
}

#[test]
fn names_that_differ_only_in_spelling_are_no_duplicates() {
    let node = Node::new();
    node.write(&format!("{MC}/mc00/ue_count"), "8\n");
    node.write(&format!("{MC}/mc0/rank0/dimm_ue_count"), "9\n");
    for odd in ["mc", "mcx", "mc-1", "mc0x"] {
        node.write(&format!("{MC}/{odd}/ue_count"), "7\n");
    }
    for odd in [
        "0000:2A:00.0",
        "2a:00.0",
        "00000:2a:00.0",
        "power",
        "0000:2a:00.8",
    ] {
        node.gpu(odd, "0x2330");
    }
    let found = node.read();
    assert_eq!(found["host_edac_uncorrected_errors_total mc0"], 1);
    assert_eq!(found["host_edac_uncorrected_errors_total mc00"], 8);
    assert_eq!(found["host_edac_dimm_uncorrected_errors_total mc0 rank0"], 9);
    assert_eq!(
        found
            .keys()
            .filter(|k| k.starts_with("host_edac_uncorrected"))
            .count(),
        2
    );
    assert_eq!(found["host_pci_gpus nvidia"], 2);
}

#[test]
fn a_list_that_cannot_be_read_costs_its_own_part() {
    let node = Node::new();
    fs::remove_dir_all(node.path(MC)).unwrap();
    node.write(MC, "a file");
    let found = node.read();
    assert_eq!(found["host_pci_gpus nvidia"], 2);

    let node = Node::new();
    fs::remove_dir_all(node.path(PCI)).unwrap();
    let found = node.read();
    assert!(
        !found.keys().any(|k| k.starts_with("host_pci")),
        "no bus is not zero GPUs"
    );
    node.write(PCI, "a file");
    let found = node.read();
    assert_eq!(found["error pci bus io"], 1);
    assert_eq!(found["host_edac_uncorrected_errors_total mc0"], 1);
}

#[test]
fn the_boot_time_is_found_behind_a_long_interrupt_line_and_is_never_guessed() {
    let key = "host_boot_time_seconds ";
    let node = Node::new();
    node.write(
        "proc/stat",
        STAT.replace("intr 5", &format!("intr 5{}", " 0".repeat(100_000))),
    );
    assert_eq!(node.read()[key], 1_767_225_600);
    for text in [
        "",
        "btime x\n",
        "cpu\n",
        "\u{0}",
        &STAT.replace("btime 1", "btime -1"),
    ] {
        node.write("proc/stat", text);
        let found = node.read();
        assert_eq!(found.get(key), None, "{text:?}");
        assert!(found.keys().any(|k| k.starts_with("host_boot_info ")), "{text:?}");
    }
    node.write("proc/stat", STAT);
    node.write("proc/sys/kernel/random/boot_id", "not a uuid\n");
    let found = node.read();
    assert!(!found.keys().any(|k| k.starts_with("host_boot_info")));
    assert_eq!(found[key], 1_767_225_600);
}

/// Opening a file of sysfs costs several times as much as reading it.
#[test]
fn what_every_reading_reads_stays_open() {
    let node = Node::new();
    for file in ["ue_noinfo_count", "ce_noinfo_count", "seconds_since_reset"] {
        node.write(&format!("{MC}/mc0/{file}"), "0\n");
    }
    for gpu in [A, B] {
        node.write(&format!("{PCI}/{gpu}/power/runtime_status"), "active\n");
    }
    for file in ["online", "present"] {
        node.write(&format!("sys/devices/system/cpu/{file}"), "0-63\n");
    }
    node.write("proc/meminfo", "MemTotal:  8 kB\n");
    let env = Env::with_sysroot(node.root.path());
    let mut source = open(&env, &Settings::default()).unwrap().unwrap();
    let mut devices = source.devices.scan().unwrap();
    let mut reading = || {
        for device in &mut devices {
            device.read(&mut Block::default()).unwrap();
        }
        count::take()
    };
    let first = reading();
    // The controller, its two DIMMs, processors, memory, and two GPUs: asleep or not is asked before each of two reads.
    let reads = 5 + 2 * 2 + 2 + 1 + 2 * 3;
    assert_eq!(first, (reads - 2, reads));
    for _ in 0..3 {
        assert_eq!(reading(), (0, reads));
    }
    // Of a tree, a file may be replaced.
    node.write("proc/meminfo.new", "MemTotal:  9 kB\n");
    let proc = node.root.path().join("proc");
    fs::rename(proc.join("meminfo.new"), proc.join("meminfo")).unwrap();
    assert_eq!(reading(), (1, reads));
}

#[test]
fn an_unknown_setting_is_an_error() {
    let error = SPEC.settings("gpu_adresses = []").unwrap_err();
    assert!(error.to_string().contains("gpu_adresses"), "{error}");
    assert!(SPEC.settings("").is_ok());
}

#[test]
fn dimms_that_come_after_their_controller_are_read() {
    let node = Node::new();
    let whole = node.read();
    let folder = node.path(&format!("{MC}/mc0"));
    fs::rename(folder.join("dimm1"), node.path("later")).unwrap();
    let mut runner = node.runner();
    let before = read(&mut runner);
    assert!(!before.contains_key("host_edac_dimm_uncorrected_errors_total mc0 dimm1"));
    fs::rename(node.path("later"), folder.join("dimm1")).unwrap();
    assert_eq!(read(&mut runner), whole);
}

#[test]
fn controllers_that_cannot_be_listed_are_kept_and_told() {
    let node = Node::new();
    let env = Env::with_sysroot(node.root.path());
    let mut devices = open(&env, &Settings::default()).unwrap().unwrap().devices;
    let whole = devices.scan().unwrap().len();
    fs::rename(node.path(MC), node.path("kept")).unwrap();
    node.write(MC, "a file");
    assert!(!devices.changed(), "no reason to forget them");
    assert!(devices.scan().is_err());
    fs::remove_file(node.path(MC)).unwrap();
    fs::rename(node.path("kept"), node.path(MC)).unwrap();
    assert_eq!(devices.scan().unwrap().len(), whole);
}

#[test]
fn controllers_that_could_not_be_listed_at_first_are_found_when_they_can() {
    let node = Node::new();
    let whole = node.read();
    fs::rename(node.path(MC), node.path("kept")).unwrap();
    node.write(MC, "a file");
    let mut runner = node.runner();
    assert!(!read(&mut runner).contains_key("host_edac_uncorrected_errors_total mc0"));
    fs::remove_file(node.path(MC)).unwrap();
    fs::rename(node.path("kept"), node.path(MC)).unwrap();
    assert_eq!(read(&mut runner), whole);
}
