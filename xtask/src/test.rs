//! `cargo xtask test`: everything that needs no root, no package and no network.

use std::num::NonZero;
use std::process::Command;

use anyhow::Result;
use serde_json::Value;

use crate::stage::Stages;
use crate::{cmd, e2e, testing};

/// Tests at a time, for each core: the longest ones wait for timers.
const TESTS_PER_CORE: usize = 4;

/// Runs the tests, or those whose name contains `filter`.
pub(crate) fn stages(stages: &mut Stages, filter: Option<&str>) {
    // Apart, so that the table shows what compiling costs.
    if stages.run("test: build", || {
        workspace().and_then(|mut c| cmd::run(c.arg("--no-run")))
    }) {
        stages.run("test", || run(filter));
    } else {
        stages.not_run("test", "test: build");
    }
}

fn run(filter: Option<&str>) -> Result<()> {
    let mut command = workspace()?;
    if let Some(filter) = filter {
        cmd::require_test(workspace()?.args(["--", filter, "--list"]), filter)?;
        command.args(["--", filter]);
    }
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    cmd::run_tests(&mut command, cores * TESTS_PER_CORE)?;
    // Its integration tests have built the program beside them.
    testing::require(&cmd::target_dir()?.join("ci/nodewarden"))
}

/// `cargo test` with the targets of our packages that need no root.
fn workspace() -> Result<Command> {
    let mut command = cmd::cargo(&["test", "--workspace", "--locked", "--profile=ci"]);
    // testkit's own tests drive real daemons as root: they are a group of `e2e`.
    command.args([
        "--exclude=nodewarden-testkit",
        "--features=nodewarden/testing",
        "--lib",
        "--bins",
    ]);
    // Named one by one, because the end-to-end targets share the feature: one build of the daemon serves both.
    for target in test_targets(&cmd::metadata(false)?) {
        if !e2e::is_e2e(&target) {
            command.args(["--test", &target]);
        }
    }
    Ok(command)
}

/// The names of all integration test targets of our packages.
fn test_targets(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let targets = packages.flat_map(|p| p["targets"].as_array().into_iter().flatten());
    targets
        .filter(|t| {
            t["kind"]
                .as_array()
                .is_some_and(|k| k.iter().any(|k| k == "test"))
        })
        .filter_map(|t| t["name"].as_str().map(str::to_owned))
        .collect()
}
