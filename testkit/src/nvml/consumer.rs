//! NVIDIA's own Python package as a second consumer reads the values of the scenarios.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use super::FakeNvml;
use crate::{exec, python};

/// Another version is another environment.
const PACKAGE: &str = "nvidia-ml-py==13.615.71";

/// Thousands of calls by way of an interpreter.
const LONG: Duration = Duration::from_secs(300);

/// How many values agree in a case, which functions were walked, and which the package wraps.
fn walk(case: &str, walked: &mut BTreeSet<String>, wrapped: &mut BTreeSet<String>) -> u64 {
    let scenario: PathBuf =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../fixtures/nvidia/{case}/nvml.toml"));
    let dir = tempfile::tempdir().unwrap();
    let fake = FakeNvml::install(dir.path(), &scenario).unwrap();
    let functions = dir.path().join("functions");
    std::fs::write(&functions, fake_nvml::functions::NAMES.join("\n")).unwrap();
    let mut values = 0;
    for step in [0, 2] {
        let mut command = Command::new(python::interpreter(PACKAGE).unwrap());
        command
            .args(["-c", include_str!("consumer.py")])
            .arg(&scenario)
            .arg(step.to_string())
            .arg(&functions)
            .env("LD_LIBRARY_PATH", dir.path());
        let said = exec::run(command, b"", LONG)
            .unwrap()
            .ok()
            .context(case.to_owned());
        let said = said.unwrap().stdout;
        let mut lines = said.lines();
        values += lines.next().unwrap().parse::<u64>().unwrap();
        for set in [&mut *walked, &mut *wrapped] {
            set.extend(lines.next().unwrap().split(' ').map(str::to_owned));
        }
        fake.step(2).unwrap();
    }
    values
}

#[test]
fn nvidias_python_package_reads_what_every_scenario_states_by_every_function_it_wraps() {
    let (mut walked, mut wrapped) = (BTreeSet::new(), BTreeSet::new());
    for case in [
        "h100",
        "a100-mig",
        "gb200",
        "nvlink-odd",
        "v100",
        "h100-16",
        "l40s",
    ] {
        let values = walk(case, &mut walked, &mut wrapped);
        assert!(values > 5000, "{case}: {values}");
    }
    let left: Vec<_> = wrapped.difference(&walked).collect();
    assert!(
        left.is_empty() && walked.len() > 150,
        "{} walked, not {left:?}",
        walked.len()
    );
}
