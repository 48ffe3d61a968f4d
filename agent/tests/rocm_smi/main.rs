//! Debian's ROCm SMI and the collector `amd` read one tree, and answer the same. The library has no option for another
//! root: the tree is mounted over /sys in a mount namespace of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and writes its own tree"
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use collectors::amd::metrics as n;
use collectors::gpu::metrics as m;
use collectors::runner::{Reading, Runner};
use collectors::{Block, Env, Metric, Settings, Value, amd};
use testkit::wait::{PATIENCE, until_true};
use testkit::{exec, tree};

const PCI: &str = "0000:83:00.0";
const GPU: &str = "GPU-1a2b3c4d5e6f7080";
/// Where the kernel has the device: the library requires its address in the link of a card.
const DEVICE: &str = "sys/devices/pci0000:00/0000:83:00.0";

/// Files of the device that the recording lacks, with values as in its table, and counts that differ from each other.
const FILES: [(&str, &str); 21] = [
    ("ras/umc_err_count", "ue: 2\nce: 3"),
    ("ras/sdma_err_count", "ue: 4\nce: 5"),
    ("ras/gfx_err_count", "ue: 6\nce: 7"),
    ("gpu_busy_percent", "55"),
    ("mem_busy_percent", "12"),
    ("pp_dpm_sclk", "0: 500Mhz\n1: 1700Mhz *"),
    ("pp_dpm_mclk", "0: 400Mhz\n1: 1600Mhz *"),
    (
        "ras/gpu_vram_bad_pages",
        "0x00123456 : 0x00001000 : R\n0x00123457 : 0x00001000 : P\n0x00123458 : 0x00001000 : R\n\
         0x00123459 : 0x00001000 : F\n0x0012345a : 0x00001000 : R\n0x0012345b : 0x00001000 : P",
    ),
    ("hwmon/hwmon3/temp1_label", "edge"),
    ("hwmon/hwmon3/temp2_label", "junction"),
    ("hwmon/hwmon3/temp3_label", "mem"),
    ("hwmon/hwmon3/temp1_input", "41000"),
    ("hwmon/hwmon3/temp2_input", "47000"),
    ("hwmon/hwmon3/temp3_input", "49000"),
    ("hwmon/hwmon3/in0_label", "vddgfx"),
    ("hwmon/hwmon3/in0_input", "800"),
    ("hwmon/hwmon3/power1_average", "93000000"),
    ("hwmon/hwmon3/freq1_input", "1700000000"),
    ("hwmon/hwmon3/freq2_input", "1600000000"),
    ("drm/card0/dev", "226:0"),
    ("drm/renderD128/dev", "226:128"),
];
/// Properties of KFD's node without which the library does not start.
const PROPERTIES: &str = "hive_id 0\narray_count 32\ncu_per_simd_array 10\nsimd_arrays_per_engine 1";
/// The link of the GPU to the processor, without which it aborts.
const LINK: &str = "type 2\nversion_major 0\nversion_minor 0\nnode_from 1\nnode_to 0\nweight 20\nmin_latency 0\n\
                    max_latency 0\nmin_bandwidth 0\nmax_bandwidth 0\nrecommended_transfer_size 0\nflags 1";

/// A value of the library, ours, and the number of its units in one of ours.
type Row = (&'static str, &'static Metric, &'static [&'static str], f64);

/// Values that the library reads from single files, and we from the table where there is one.
const BOTH: &[Row] = &[
    ("power", &m::POWER, &[GPU], 1e6),
    ("edge", &n::SENSOR_TEMPERATURE, &[GPU, "edge"], 1e3),
    ("junction", &m::TEMPERATURE, &[GPU], 1e3),
    ("memory", &m::MEMORY_TEMPERATURE, &[GPU], 1e3),
    ("vram_total", &m::MEMORY_TOTAL, &[GPU, ""], 1.0),
    ("vram_used", &m::MEMORY_USED, &[GPU, ""], 1.0),
    ("visible_total", &m::BAR1_TOTAL, &[GPU], 1.0),
    ("visible_used", &m::BAR1_USED, &[GPU], 1.0),
    ("gtt_total", &n::GTT_TOTAL, &[GPU], 1.0),
    ("gtt_used", &n::GTT_USED, &[GPU], 1.0),
    ("busy", &m::UTILIZATION, &[GPU], 100.0),
    ("memory_busy", &m::MEMORY_UTILIZATION, &[GPU], 100.0),
    ("replays", &m::PCIE_REPLAYS, &[GPU], 1.0),
    (
        "umc_corrected",
        &m::ECC_LOCATION_ERRORS,
        &[GPU, "corrected", "volatile", "umc"],
        1.0,
    ),
    (
        "umc_uncorrected",
        &m::ECC_LOCATION_ERRORS,
        &[GPU, "uncorrected", "volatile", "umc"],
        1.0,
    ),
    (
        "sdma_corrected",
        &m::ECC_LOCATION_ERRORS,
        &[GPU, "corrected", "volatile", "sdma"],
        1.0,
    ),
    (
        "sdma_uncorrected",
        &m::ECC_LOCATION_ERRORS,
        &[GPU, "uncorrected", "volatile", "sdma"],
        1.0,
    ),
    (
        "gfx_corrected",
        &m::ECC_LOCATION_ERRORS,
        &[GPU, "corrected", "volatile", "gfx"],
        1.0,
    ),
    (
        "gfx_uncorrected",
        &m::ECC_LOCATION_ERRORS,
        &[GPU, "uncorrected", "volatile", "gfx"],
        1.0,
    ),
    ("retired", &n::BAD_PAGES, &[GPU, "retired"], 1.0),
    ("pending", &n::BAD_PAGES, &[GPU, "pending"], 1.0),
    ("failed", &n::BAD_PAGES, &[GPU, "failed"], 1.0),
];

/// Values of the table alone. The library returns units of 15.3 µJ, we count 2^-16 J.
const OF_TABLE: &[Row] = &[
    ("hbm0", &n::SENSOR_TEMPERATURE, &[GPU, "hbm0"], 1e3),
    ("hbm1", &n::SENSOR_TEMPERATURE, &[GPU, "hbm1"], 1e3),
    ("hbm2", &n::SENSOR_TEMPERATURE, &[GPU, "hbm2"], 1e3),
    ("hbm3", &n::SENSOR_TEMPERATURE, &[GPU, "hbm3"], 1e3),
    ("table_edge", &n::SENSOR_TEMPERATURE, &[GPU, "edge"], 1.0),
    ("table_hotspot", &n::SENSOR_TEMPERATURE, &[GPU, "junction"], 1.0),
    ("table_memory", &m::MEMORY_TEMPERATURE, &[GPU], 1.0),
    (
        "table_regulator",
        &n::SENSOR_TEMPERATURE,
        &[GPU, "regulator"],
        1.0,
    ),
    ("table_busy", &m::UTILIZATION, &[GPU], 100.0),
    ("table_memory_busy", &m::MEMORY_UTILIZATION, &[GPU], 100.0),
    ("table_power", &m::POWER, &[GPU], 1.0),
    ("table_sm", &m::CLOCK_SPEED, &[GPU, "sm"], 1e-6),
    ("table_memory_clock", &m::CLOCK_SPEED, &[GPU, "memory"], 1e-6),
    ("table_soc", &m::CLOCK_SPEED, &[GPU, "soc"], 1e-6),
    ("table_width", &m::PCIE_WIDTH, &[GPU], 1.0),
    ("table_speed", &n::PCIE_SPEED, &[GPU], 1e-8),
    ("energy", &m::ENERGY, &[GPU], 65_536.0),
];

/// Clocks, which the library reads from files of their own.
const OF_FILES: &[Row] = &[
    ("sm", &m::CLOCK_SPEED, &[GPU, "sm"], 1.0),
    ("memory_clock", &m::CLOCK_SPEED, &[GPU, "memory"], 1.0),
];

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/amd/mi210")
}

/// The recording of an MI210, in the form that the kernel gives it.
fn node() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    tree::unpack(&fixture(), dir.path()).unwrap();
    let root = dir.path().join("root");
    let (function, device) = (root.join("sys/bus/pci/devices").join(PCI), root.join(DEVICE));
    fs::create_dir_all(device.parent().unwrap()).unwrap();
    fs::rename(&function, &device).unwrap();
    symlink(format!("../../../devices/pci0000:00/{PCI}"), function).unwrap();
    fs::remove_dir_all(device.join("drm")).unwrap();
    let put = |path: PathBuf, text: &str| {
        tree::put(&path, &tree::Entry::File(format!("{text}\n").into_bytes())).unwrap();
    };
    for (name, text) in FILES {
        put(device.join(name), text);
    }
    symlink("../..", device.join("drm/card0/device")).unwrap();
    let cards = root.join("sys/class/drm");
    fs::create_dir_all(&cards).unwrap();
    symlink(
        format!("../../devices/pci0000:00/{PCI}/drm/card0"),
        cards.join("card0"),
    )
    .unwrap();
    let nodes = root.join("sys/class/kfd/kfd/topology/nodes");
    for node in ["0", "1"] {
        put(nodes.join(node).join("name"), "node");
        fs::create_dir_all(nodes.join(node).join("io_links")).unwrap();
    }
    let properties = nodes.join("1/properties");
    let known = fs::read_to_string(&properties).unwrap();
    put(properties, &format!("{known}{PROPERTIES}"));
    put(nodes.join("1/io_links/0/properties"), LINK);
    dir
}

/// What the library answers for a tree.
fn answers(root: &Path) -> BTreeMap<String, f64> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rocm_smi/answers.py");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-ec"]);
    // The library creates its locks in /dev/shm.
    command.arg("mount --bind \"$1\" /sys; mount -t tmpfs none /dev/shm; exec python3 -I \"$2\"");
    command.arg("sh").arg(root.join("sys")).arg(script);
    let said = exec::run(command, b"", PATIENCE).unwrap().ok().unwrap().stdout;
    let answer = |line: &str| {
        let (name, value) = line.split_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    };
    said.lines().map(answer).collect()
}

/// What the collector reads in it.
fn read(dir: &Path) -> Block {
    let mut source = (amd::SPEC.open)(&Env::recorded(dir), &Settings::default())
        .unwrap()
        .unwrap();
    let mut runner = Runner::new(&amd::SPEC, &mut source).unwrap();
    let mut found = Vec::new();
    let mut take = |reading: Reading<'_>, block: &Block| {
        assert!(reading.result.is_ok());
        found.push(block.clone());
    };
    runner.read(&mut take);
    until_true("no reading is late", PATIENCE, || {
        runner.take_late(&mut take);
        runner.busy().next().is_none()
    })
    .unwrap();
    assert_eq!(found.len(), 1);
    found.remove(0)
}

#[expect(clippy::cast_precision_loss, reason = "numbers below 2^53")]
fn value(block: &Block, metric: &Metric, labels: &[&str]) -> f64 {
    let mut all = block
        .iter()
        .filter(|(s, _)| s.metric == metric && *s.labels == *labels);
    match all.next() {
        Some((_, Value::U64(value))) => value as f64,
        Some((_, Value::F64(value))) => value,
        other => panic!("{} {labels:?}: {other:?}", metric.name),
    }
}

fn compare(dir: &Path, rows: &[&[Row]]) {
    let (answers, block) = (answers(&dir.join("root")), read(dir));
    for (name, metric, labels, units) in rows.iter().copied().flatten() {
        let theirs = answers
            .get(*name)
            .unwrap_or_else(|| panic!("{name}: no answer in {answers:?}"));
        let ours = value(&block, metric, labels) * units;
        assert!(
            (ours - theirs).abs() < 1e-6 * theirs.abs().max(1.0),
            "{name}: {theirs}, ours {ours}"
        );
    }
    let answer = |name: &str| answers.get(name).copied();
    assert_eq!(answer("gpus"), Some(1.0));
    assert_eq!(answer("pci"), Some(f64::from(0x8300)));
    #[expect(clippy::cast_precision_loss, reason = "both are rounded")]
    let id = u64::from_str_radix(GPU.trim_start_matches("GPU-"), 16).unwrap() as f64;
    assert_eq!(answer("unique_id"), Some(id));
}

#[test]
fn a_table_of_v1_3_is_read_as_by_rocm_smi() {
    compare(node().path(), &[BOTH, OF_TABLE]);
}

#[test]
fn without_a_table_the_single_files_are_read_as_by_rocm_smi() {
    let dir = node();
    fs::remove_file(dir.path().join("root").join(DEVICE).join("gpu_metrics")).unwrap();
    compare(dir.path(), &[BOTH, OF_FILES]);
}
