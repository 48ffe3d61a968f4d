//! `cargo xtask ci`: the checks that must pass before a change is merged.

use anyhow::Result;

use crate::stage::Stages;
use crate::{
    alerts, bench, browser, cmd, dashboards, demo, deps, docs, e2e, fuzz, lint, package, supply, test, vm,
};

/// Runs all checks; `full` adds checks that take long or need tools that are slow to install.
pub(crate) fn run(full: bool) -> Result<()> {
    let mut stages = Stages::default();
    stages.run("tools", tools);
    lint::stages(&mut stages, None);
    stages.run("docs", || docs::run(true));
    stages.run("alerts", || alerts::run(true));
    stages.run("dashboards", || dashboards::run(true));
    stages.run("build", || cmd::build_nodewarden().map(drop));
    test::stages(&mut stages, None);
    e2e::stages(&mut stages, None, full)?;
    if !full {
        vm::quick(&mut stages);
    }
    stages.run("instructions", || {
        deps::install(&["valgrind"])?;
        bench::instructions()
    });
    if full {
        if stages.run("cargo deny", deny) {
            stages.run("cargo deny: advisories", supply::advisories);
        } else {
            stages.not_run("cargo deny: advisories", "cargo deny");
        }
        stages.run("build twice", || supply::twice(package::epoch()?));
        stages.run("browser", || browser::run(browser::BrowserArgs::default()));
        stages.run("package", || package::run(true, supply::Arch::X86_64));
        stages.run("demo: fleet", demo::check_fleet);
        stages.run("fuzz search", fuzz::search);
        vm::stages(&mut stages, None)?;
        stages.run("bench", || {
            deps::install(&["strace", "linux-perf"])?;
            bench::full()
        });
        stages.run("bench: nvidia", bench::nvidia);
        stages.run("bench: amd", bench::amd);
        stages.run("bench: lustre", bench::lustre);
        stages.run("bench: rdma", bench::rdma);
        stages.run("bench: soak", bench::soaked);
    }
    stages.finish()
}

/// Tools that later stages need.
fn tools() -> Result<()> {
    for args in [
        &["--version"][..],
        &["fmt", "--version"],
        &["clippy", "--version"],
    ] {
        cmd::run(&mut cmd::cargo(args))?;
    }
    cmd::run(&mut cmd::program("git", &["--version"]))
}

fn deny() -> Result<()> {
    if !cmd::exists("cargo-deny") {
        cmd::run(&mut cmd::cargo(&["install", "--locked", "cargo-deny"]))?;
    }
    cmd::run(&mut cmd::cargo(&[
        "deny", "--locked", "check", "bans", "licenses", "sources",
    ]))
}
