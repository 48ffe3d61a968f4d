//! The driver's library kills the process that it is loaded in: that worker is started again, and no other notices.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and starts the program under test"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use testkit::daemon::Daemon;
use testkit::exposition::{self, Sample};
use testkit::nvml::{FakeNvml, Fault};
use testkit::ports::Port;
use testkit::{http, tree, wait};

/// The longest that a test waits for anything.
const LONG: Duration = Duration::from_secs(60);

fn page(address: &str) -> Option<Vec<Sample>> {
    let page = http::get(address, "/metrics", &[], LONG).ok()?;
    Some(exposition::check(page.ok().ok()?).unwrap())
}

fn value(page: &[Sample], name: &str, label: (&str, &str)) -> Option<f64> {
    let has = |s: &&Sample| s.name == name && s.label(label.0) == Some(label.1);
    page.iter().find(has).map(|s| s.value)
}

fn gpus_up(page: &[Sample]) -> usize {
    page.iter()
        .filter(|s| s.name == "gpu_up" && s.value == 1.0)
        .count()
}

#[test]
fn a_library_that_kills_its_process_costs_its_own_worker_alone() {
    let dir = tempfile::Builder::new().prefix("nw-segv-").tempdir().unwrap();
    // Under root the workers are other users.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    tree::unpack(&fixtures.join("host/h100"), dir.path()).unwrap();
    let driver = FakeNvml::install(dir.path(), &fixtures.join("nvidia/h100/nvml.toml")).unwrap();
    let config = dir.path().join("site.toml");
    fs::write(&config, format!("[nvidia]\nlibrary = {:?}\n", driver.library())).unwrap();
    let port = Port::reserve().unwrap();
    let address = format!("127.0.0.1:{}", port.number());
    let mut command = Command::new(env!("CARGO_BIN_EXE_nodewarden"));
    command.arg("run").arg("--recorded").arg(dir.path());
    command.args(["--listen", &address]).arg("--config").arg(&config);
    command.arg("--state-dir").arg(dir.path().join("state"));
    command.arg("--run-dir").arg(dir.path().join("run"));
    let daemon = Daemon::start(command).unwrap();
    let until = |what: &str, holds: &dyn Fn(&[Sample]) -> bool| {
        let found = wait::until(what, LONG, || Ok(page(&address).filter(|p| holds(p))));
        found.map_err(|e| format!("{e:#}\n{}", daemon.stderr())).unwrap()
    };
    let starts = |page: &[Sample], worker| value(page, "nodewarden_worker_starts_total", ("worker", worker));
    let seen = until("all GPUs are up", &|page| gpus_up(page) == 8);
    assert_eq!(starts(&seen, "nvidia"), Some(1.0));

    driver
        .break_call(3, "nvmlDeviceGetTemperatureV", Fault::Segv)
        .unwrap();
    until("the worker was started again", &|page| {
        starts(page, "nvidia").is_some_and(|n| n >= 2.0)
    });
    driver.lift().unwrap();
    let seen = until("all GPUs are up again", &|page| gpus_up(page) == 8);
    assert_eq!(starts(&seen, "host"), Some(1.0));
    assert_eq!(
        value(&seen, "nodewarden_collector_up", ("collector", "host")),
        Some(1.0)
    );
}
