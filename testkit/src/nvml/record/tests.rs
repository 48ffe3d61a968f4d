//! Records the stand-in; the recorded scenario returns the same values.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::nvml::FakeNvml;
use crate::nvml::scenario::keys::{KEYS, Key};
use crate::nvml::scenario::value::Time;
use crate::nvml::scenario::{Gpu, Scenario};

/// Replaced on purpose.
const ANONYMOUS: &[Key] = &[
    Key::Uuid,
    Key::Serial,
    Key::PlatformIbGuid,
    Key::PlatformChassisSerial,
    Key::FabricUuid,
];

fn recorded(case: &str) -> (Scenario, Scenario, BTreeSet<&'static str>) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../fixtures/nvidia/{case}/nvml.toml"));
    let dir = tempfile::tempdir().unwrap();
    let fake = FakeNvml::install(dir.path(), &file).unwrap();
    let recording = record(fake.library()).unwrap();
    let counted = fake
        .calls()
        .rows()
        .iter()
        .map(|(call, _)| call.function)
        .collect();
    let again = Scenario::parse(&recording.scenario).unwrap();
    (Scenario::load(&file).unwrap(), again, counted)
}

/// All numbers and texts of a GPU at the start, by name.
fn values(scenario: &Scenario, gpu: &Gpu) -> BTreeMap<String, String> {
    let at = Time::default();
    let cut = gpu.int(Key::MigCurrent, at) == Some(1);
    let mut all = BTreeMap::new();
    let lacks = |function: &str| scenario.missing.iter().any(|m| m == function);
    for key in KEYS.iter().filter(|k| !ANONYMOUS.contains(k)) {
        // Values that the stand-in does not return.
        if cut && key.path().starts_with("utilization")
            || *key == Key::NumaNode && lacks("nvmlDeviceGetNumaNodeId")
        {
            continue;
        }
        if let Some(value) = gpu.value(*key) {
            let shown = value
                .text()
                .map_or_else(|| format!("{:?}", value.int(at)), str::to_owned);
            all.insert(key.path().to_owned(), shown);
        }
    }
    for (number, link) in gpu.links.iter().enumerate() {
        for (key, value) in link.iter() {
            all.insert(
                format!("link {number} {key}"),
                format!("{:?} {:?}", value.int(at), value.text()),
            );
        }
    }
    for (id, value) in &gpu.fields {
        all.insert(format!("field {id}"), format!("{:?}", value.int(at)));
    }
    for (id, value) in &gpu.gpm {
        all.insert(format!("GPM {id}"), format!("{:?}", value.float(at)));
    }
    for process in &gpu.processes {
        let memory = process.memory.as_ref().and_then(|m| m.int(at));
        let shown = format!("{:?} {memory:?} {:?} {:?}", process.kind, process.gi, process.ci);
        all.insert(format!("process {}", process.pid), shown);
    }
    all.insert(
        "pages".to_owned(),
        format!("{:?} {:?}", gpu.retired_sbe, gpu.retired_dbe),
    );
    for profile in &gpu.profiles {
        all.insert(format!("profile {}", profile.profile), format!("{profile:?}"));
    }
    let layout = gpu.layout.as_ref().and_then(|l| gpu.layouts.get(l));
    for (number, device) in layout.into_iter().flatten().enumerate() {
        let mut device = device.clone();
        device.uuid.clear();
        device.ci_slices = Some(device.ci_slices.unwrap_or(device.slices));
        device.size = Some(device.size.unwrap_or(device.slices));
        let used = (device.total.int(at), device.reserved.int(at), device.used.int(at));
        device.used = device.total.clone();
        all.insert(format!("MIG {number}"), format!("{device:?} {used:?}"));
    }
    all
}

#[test]
fn a_recorded_scenario_is_the_same_except_for_anonymous_values() {
    let mut called = BTreeSet::new();
    for case in [
        "h100",
        "a100-mig",
        "gb200",
        "nvlink-odd",
        "v100",
        "h100-16",
        "l40s",
    ] {
        let (stated, again, counted) = recorded(case);
        called.extend(counted);
        assert_eq!(stated.gpus.len(), again.gpus.len(), "{case}");
        assert_eq!(
            (
                stated.system.driver.as_str(),
                stated.system.cuda,
                &stated.system.branch
            ),
            (
                again.system.driver.as_str(),
                again.system.cuda,
                &again.system.branch
            )
        );
        let missing = |s: &Scenario| s.missing.iter().cloned().collect::<BTreeSet<_>>();
        assert_eq!(missing(&stated), missing(&again), "{case}");
        for (index, (a, b)) in stated.gpus.iter().zip(&again.gpus).enumerate() {
            let (wanted, found) = (values(&stated, a), values(&stated, b));
            assert!(wanted.len() > 90, "{case}: {}", wanted.len());
            for (key, value) in &wanted {
                assert_eq!(found.get(key), Some(value), "{case}, GPU {index}: {key}");
            }
            assert_eq!(
                a.text(Key::FabricUuid).is_some(),
                b.text(Key::FabricUuid).is_some(),
                "{case}"
            );
        }
    }
    // Every function of the stand-in was called, on at least one node.
    let all = fake_nvml::functions::NAMES.iter().copied();
    let left: Vec<_> = all
        .filter(|n| !called.contains(n) && !CHANGES.contains(n))
        .collect();
    assert!(left.is_empty(), "never called: {left:?}");
}

#[test]
fn recordings_contain_no_node_identifiers() {
    for case in ["gb200", "a100-mig"] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../fixtures/nvidia/{case}/nvml.toml"));
        let dir = tempfile::tempdir().unwrap();
        let fake = FakeNvml::install(dir.path(), &file).unwrap();
        let text = record(fake.library()).unwrap().scenario;
        let scenario = Scenario::load(&file).unwrap();
        for gpu in &scenario.gpus {
            for key in ANONYMOUS {
                if let Some(own) = gpu.text(*key) {
                    let plain = own.replace('-', "");
                    assert!(
                        !text.contains(own) && !text.contains(&plain),
                        "{case}: {}",
                        key.path()
                    );
                }
            }
            for device in gpu.layouts.values().flatten() {
                assert!(!text.contains(&device.uuid), "{case}: {}", device.uuid);
            }
            for name in gpu.processes.iter().filter_map(|p| p.name.as_ref()) {
                assert!(!text.contains(name), "{case}: {name}");
            }
        }
    }
}

#[test]
fn a_library_without_a_driver_is_an_error_with_its_code() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/nvidia/h100/nvml.toml");
    let dir = tempfile::tempdir().unwrap();
    let fake = FakeNvml::install(dir.path(), &file).unwrap();
    fake.refuse_init(9).unwrap();
    let error = record(fake.library()).unwrap_err().to_string();
    assert!(error.ends_with("nvmlInit_v2 returned 9"), "{error}");
    assert!(record(&dir.path().join("none.so")).is_err());
}
