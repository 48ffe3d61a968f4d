//! The search for inputs that break a fuzz target of `fuzz/src/lib.rs`. Their corpus is replayed by `cargo xtask test`.

use std::sync::Mutex;

use anyhow::{Context, Result, ensure};

use crate::cmd;

/// libFuzzer is in a workspace of its own.
const FOLDER: &str = "fuzz/search";
pub(crate) const MANIFEST: &str = "fuzz/search/Cargo.toml";
const SECONDS_EACH: u32 = 60;

/// Searches with every target, one on each processor. The sanitizer is a nightly feature, which RUSTC_BOOTSTRAP opens on the
/// pinned compiler.
pub(crate) fn search() -> Result<()> {
    if !cmd::exists("cargo-fuzz") {
        cmd::run(&mut cmd::cargo(&["install", "--locked", "cargo-fuzz"]))?;
    }
    let mut build = cmd::cargo(&["fuzz", "build", "--fuzz-dir", FOLDER, "search"]);
    cmd::run(build.env("RUSTC_BOOTSTRAP", "1"))?;
    // Each corpus has a target of its name: a test compares them.
    let mut targets = Vec::new();
    for entry in std::fs::read_dir(cmd::root().join("fixtures/fuzz"))? {
        let name = entry?.file_name().into_string().ok();
        targets.push(name.context("a corpus without a name")?);
    }
    let (left, failed) = (Mutex::new(targets.into_iter()), Mutex::new(Vec::new()));
    let next = || left.lock().ok()?.next();
    std::thread::scope(|threads| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            threads.spawn(|| {
                while let Some(target) = next() {
                    if let Err(error) = one(&target)
                        && let Ok(mut failed) = failed.lock()
                    {
                        failed.push(format!("{target} ({error:#})"));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().ok().context("a search panicked")?;
    ensure!(failed.is_empty(), "found something: {}", failed.join(" "));
    Ok(())
}

/// Searches with one target.
fn one(target: &str) -> Result<()> {
    let folder = |name: &str| {
        let folder = cmd::root().join(name).join(target);
        std::fs::create_dir_all(&folder).map(|()| folder)
    };
    // libFuzzer writes new inputs into the first folder and only reads the second.
    let (found, broken) = (folder("target/fuzz")?, folder("fuzz/search/artifacts")?);
    let mut command = cmd::cargo(&["fuzz", "run", "--fuzz-dir", FOLDER, "search"]);
    command
        .arg(found)
        .arg(cmd::root().join("fixtures/fuzz").join(target));
    command.arg("--").arg(format!("-max_total_time={SECONDS_EACH}"));
    command.arg(format!("-artifact_prefix={}/", broken.display()));
    command.env("RUSTC_BOOTSTRAP", "1").env("FUZZ_TARGET", target);
    cmd::run(&mut command)
}
