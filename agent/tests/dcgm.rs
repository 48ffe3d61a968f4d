//! The page `/metrics/dcgm` of eight H100s, compared with dcgm-exporter's default metrics.
//!
//! `UPDATE_GOLDEN=1` writes `fixtures/nvidia/h100/expected.dcgm` again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and reads and writes its own fixtures"
)]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use collectors::runner::{Reading, Runner};
use collectors::{Block, BootId, Env, nvidia};
use exposition::{Encoder, Format, Selection};
use health::Now;
use health::engine::Engine;
use health::policy::Policy;
use health::view::View;
use model::ledger::Count;
use model::snapshot::{DeviceState, Presence, Snapshot};
use nodewarden::config::Config;
use nodewarden::own::OwnFacts;
use nodewarden::own::Page;
use testkit::nvml::FakeNvml;
use testkit::wait::{PATIENCE, until_true};

/// The default metrics of dcgm-exporter, except the licence of a virtual GPU: the driver's library does not report it.
const DEFAULT: &[(&str, &str)] = &[
    ("DCGM_FI_DEV_SM_CLOCK", "gauge"),
    ("DCGM_FI_DEV_MEM_CLOCK", "gauge"),
    ("DCGM_FI_DEV_MEMORY_TEMP", "gauge"),
    ("DCGM_FI_DEV_GPU_TEMP", "gauge"),
    ("DCGM_FI_DEV_POWER_USAGE", "gauge"),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter"),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter"),
    ("DCGM_FI_DEV_GPU_UTIL", "gauge"),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", "gauge"),
    ("DCGM_FI_DEV_ENC_UTIL", "gauge"),
    ("DCGM_FI_DEV_DEC_UTIL", "gauge"),
    ("DCGM_FI_DEV_XID_ERRORS", "gauge"),
    ("DCGM_FI_DEV_FB_FREE", "gauge"),
    ("DCGM_FI_DEV_FB_USED", "gauge"),
    ("DCGM_FI_DEV_FB_RESERVED", "gauge"),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter"),
    ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "counter"),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge"),
    ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "counter"),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge"),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge"),
    ("DCGM_FI_PROF_DRAM_ACTIVE", "gauge"),
    ("DCGM_FI_PROF_PCIE_TX_BYTES", "gauge"),
    ("DCGM_FI_PROF_PCIE_RX_BYTES", "gauge"),
];

/// Reads the GPUs twice, with a sampling period in between. With a recording, beside its PCI bus.
fn devices(scenario: &str, case: Option<&Path>, at: Duration) -> Vec<DeviceState> {
    let dir = tempfile::tempdir().unwrap();
    if let Some(case) = case {
        testkit::tree::unpack(case, dir.path()).unwrap();
    }
    let driver = FakeNvml::install_text(dir.path(), scenario).unwrap();
    let settings = nvidia::SPEC
        .settings(&format!("library = {:?}", driver.library()))
        .unwrap();
    let opened = (nvidia::SPEC.open)(&Env::recorded(dir.path()), &settings).unwrap();
    let mut runner = Runner::new(&nvidia::SPEC, &mut opened.unwrap()).unwrap();
    let mut read = || {
        let mut devices = Vec::new();
        let mut take = |reading: Reading<'_>, block: &Block| {
            devices.push(DeviceState::of(reading, block, at));
        };
        runner.read(&mut take);
        until_true("no reading is late", PATIENCE, || {
            runner.take_late(&mut take);
            runner.busy().next().is_none()
        })
        .unwrap();
        devices.sort_by(|a, b| a.subject.cmp(&b.subject));
        devices
    };
    read();
    driver.step(1).unwrap();
    // Profiling needs two samples that are at least 1 s apart.
    std::thread::sleep(Duration::from_millis(1100));
    read()
}

/// The view of an engine without any input.
fn view() -> View {
    let empty = tempfile::NamedTempFile::with_suffix(".toml").unwrap();
    let config = Config::load(Some(empty.path()), &[], &[]).unwrap().config;
    let policy = Policy::new(&config.health, None).unwrap();
    let now = Now {
        boottime: Duration::from_secs(1000),
        wall: 1_800_000_000,
    };
    Engine::new(policy, BootId("boot".to_owned()), None, now)
        .unwrap()
        .view()
}

fn page(case: &Path) -> String {
    page_of(&scenario(case))
}

fn scenario(case: &Path) -> String {
    fs::read_to_string(case.join("nvml.toml")).unwrap()
}

fn page_of(scenario: &str) -> String {
    page_beside(scenario, None)
}

fn page_beside(scenario: &str, case: Option<&Path>) -> String {
    let at = Duration::from_secs(1000);
    let mut snapshot = Snapshot::empty(at);
    let collector = snapshot.collector_mut("nvidia").unwrap();
    collector.presence = Presence::Open;
    collector.devices = devices(scenario, case, at);
    let mut view = view();
    let gpu = "GPU-00000000-0000-4000-8000-000000000102".to_owned();
    let codes = view.ledger.xids.entry(gpu).or_default();
    // The first is of an earlier boot.
    for (code, last) in [(119, 1_700_000_000), (79, 1_799_999_900), (45, 1_799_999_905)] {
        codes.insert(code, Count { count: 1, last });
    }
    let page = Page {
        snapshot: Arc::new(snapshot),
        view: Arc::new(view),
        facts: OwnFacts::default(),
    };
    let mut out = Vec::new();
    Encoder::default().page(Some("dcgm"), &page, &Selection::default(), Format::Text, &mut out);
    String::from_utf8(out).unwrap()
}

fn exposition_of(page: &str) {
    let samples = testkit::exposition::check(page).unwrap();
    for name in samples.iter().map(|s| &s.name) {
        for word in ["HELP", "TYPE"] {
            assert!(
                page.contains(&format!("# {word} {name} ")),
                "{name} has no {word}"
            );
        }
    }
}

/// Measured values differ in each run.
fn is_measured(line: &str) -> bool {
    line.starts_with("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{")
}

#[test]
fn eight_h100s_have_dcgm_exporters_default_metrics() {
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/nvidia/h100");
    let found = page(&case);
    for (name, kind) in DEFAULT {
        assert!(found.contains(&format!("# TYPE {name} {kind}\n")), "{name}");
        let samples = found.lines().filter(|l| l.starts_with(&format!("{name}{{")));
        assert_eq!(samples.count(), 8, "{name}");
    }
    let labels = "gpu=\"2\",UUID=\"GPU-00000000-0000-4000-8000-000000000102\",pci_bus_id=\"00000000:52:00.0\",\
                  device=\"nvidia2\",modelName=\"NVIDIA H100 80GB HBM3\",DCGM_FI_DRIVER_VERSION=\"580.95.05\"";
    for line in [
        format!("DCGM_FI_DEV_GPU_UTIL{{{labels}}} 97"),
        format!("DCGM_FI_DEV_FB_USED{{{labels}}} 68764"),
        format!("DCGM_FI_DEV_SM_CLOCK{{{labels}}} 1740"),
        format!(
            "DCGM_FI_DEV_FB_USED_PERCENT{{{labels}}} {}",
            72_104_280_064.0 / 84_943_175_680.0
        ),
        format!(
            "DCGM_FI_DEV_XID_ERRORS{{{labels},err_code=\"45\",err_msg=\"channel torn down ahead of time, following an \
             abort, a reset or another error\"}} 45"
        ),
    ] {
        assert!(found.lines().any(|l| l == line), "{line}\n{found}");
    }
    is_expected(&case, &found);
}

/// Sites count GPUs by this metric.
#[test]
fn a_gpu_that_the_driver_refuses_has_no_series_of_the_last_xid() {
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/nvidia/refused");
    let found = page_beside(&scenario(&case), Some(&case));
    let lines = found.lines().filter(|l| l.starts_with("DCGM_FI_DEV_XID_ERRORS{"));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains("{gpu=\"0\",") && lines[0].ends_with(" 0"),
        "{lines:?}"
    );
}

#[test]
fn the_host_has_the_label_of_older_and_newer_releases() {
    let labels = collectors::gpu::metrics::DCGM_LABELS.labels.iter();
    let names: Vec<&str> = labels
        .filter(|(_, of)| *of == "hostname")
        .map(|(name, _)| *name)
        .collect();
    assert_eq!(names, ["Hostname", "hostname"]);
}

/// The driver calls the registration completed; its return code is NVML_ERROR_TIMEOUT.
#[test]
fn a_failed_fabric_registration_is_a_failure_in_dcgms_codes() {
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/nvidia/h100");
    let text = scenario(&case);
    let well = "[gpu.fabric]\nstate = 3\nstatus = 0\n";
    assert!(text.contains(well));
    let found = page_of(&text.replace(well, "[gpu.fabric]\nstate = 3\nstatus = 10\n"));
    for (name, value) in [
        ("DCGM_FI_DEV_FABRIC_MANAGER_STATUS", "4"),
        ("DCGM_FI_DEV_FABRIC_MANAGER_ERROR_CODE", "-11"),
    ] {
        let lines = found.lines().filter(|l| l.starts_with(&format!("{name}{{")));
        let values: Vec<_> = lines.filter_map(|l| l.split(' ').next_back()).collect();
        assert_eq!(values, [value; 8], "{name}");
    }
}

/// What dcgm-exporter shows of four GB200 and not of eight H100s, with a value of the third of them.
const NVLINK_5: &[(&str, &str, &str)] = &[
    ("DCGM_FI_DEV_NVLINK_COUNT_TX_PACKETS", "counter", "369000000000"),
    ("DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES", "counter", "53268480000000"),
    ("DCGM_FI_DEV_NVLINK_COUNT_RX_PACKETS", "counter", "370980000000"),
    ("DCGM_FI_DEV_NVLINK_COUNT_RX_BYTES", "counter", "53471232000000"),
    (
        "DCGM_FI_DEV_NVLINK_COUNT_RX_MALFORMED_PACKET_ERRORS",
        "counter",
        "0",
    ),
    (
        "DCGM_FI_DEV_NVLINK_COUNT_RX_BUFFER_OVERRUN_ERRORS",
        "counter",
        "0",
    ),
    ("DCGM_FI_DEV_NVLINK_COUNT_RX_ERRORS", "counter", "12"),
    ("DCGM_FI_DEV_NVLINK_COUNT_RX_REMOTE_ERRORS", "counter", "0"),
    ("DCGM_FI_DEV_NVLINK_COUNT_RX_GENERAL_ERRORS", "counter", "0"),
    (
        "DCGM_FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS",
        "counter",
        "0",
    ),
    ("DCGM_FI_DEV_NVLINK_COUNT_TX_DISCARDS", "counter", "0"),
    (
        "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS",
        "counter",
        "2",
    ),
    (
        "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS",
        "counter",
        "0",
    ),
    ("DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS", "counter", "2"),
    ("DCGM_FI_DEV_NVLINK_COUNT_RX_SYMBOL_ERRORS", "counter", "6"),
    ("DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS", "counter", "6"),
    ("DCGM_FI_DEV_NVLINK_COUNT_SYMBOL_BER_FLOAT", "gauge", "3e-12"),
    ("DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER_FLOAT", "gauge", "3e-12"),
    ("DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_3", "counter", "792"),
    ("DCGM_FI_DEV_C2C_LINK_COUNT", "gauge", "10"),
    ("DCGM_FI_DEV_C2C_LINK_STATUS", "gauge", "1"),
    ("DCGM_FI_DEV_C2C_MAX_BANDWIDTH", "gauge", "44712"),
    ("DCGM_FI_DEV_C2C_LINK_ERROR_INTR", "counter", "0"),
    ("DCGM_FI_DEV_C2C_LINK_ERROR_REPLAY", "counter", "0"),
    ("DCGM_FI_DEV_C2C_LINK_ERROR_REPLAY_B2B", "counter", "0"),
    ("DCGM_FI_PROF_C2C_TX_ALL_BYTES", "gauge", "43201855488"),
    ("DCGM_FI_DEV_ECC_SBE_VOL_L1", "counter", "0"),
    ("DCGM_FI_DEV_ECC_DBE_AGG_DEV", "counter", "0"),
    ("DCGM_FI_DEV_ECC_DBE_VOL_SRM", "counter", "0"),
    ("DCGM_FI_DEV_ECC_DBE_AGG_CBU", "counter", "0"),
];

#[test]
fn four_gb200_have_dcgms_fields_of_nvlink_5_c2c_and_errors_by_location() {
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/nvidia/gb200");
    let found = page(&case);
    for (name, kind, value) in NVLINK_5 {
        assert!(found.contains(&format!("# TYPE {name} {kind}\n")), "{name}");
        let samples = found.lines().filter(|l| l.starts_with(&format!("{name}{{")));
        let samples: Vec<&str> = samples.collect();
        assert_eq!(samples.len(), 4, "{name}");
        let third = samples.iter().find(|l| l.contains("000000000502"));
        assert_eq!(
            third.and_then(|l| l.split(' ').next_back()),
            Some(*value),
            "{name}"
        );
    }
    is_expected(&case, &found);
}

/// Compares with `expected.dcgm`. Each family has HELP and TYPE, and no series comes twice.
fn is_expected(case: &Path, found: &str) {
    exposition_of(found);
    let lines = found.lines().filter(|l| !is_measured(l));
    let found: String = lines.map(|l| format!("{l}\n")).collect();
    let path = case.join("expected.dcgm");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &found).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let new: Vec<&str> = found
        .lines()
        .filter(|l| !expected.lines().any(|e| e == *l))
        .collect();
    assert!(found == expected, "not in {}: {new:#?}", path.display());
}
