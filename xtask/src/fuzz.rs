//! Fuzz targets: plain functions, listed in `fuzz/src/lib.rs`. Stable Rust replays their corpus in seconds; `ci --full`
//! lets libFuzzer search for a while.

use anyhow::{Context, Result, bail};

use crate::cmd;

/// Fuzzing is a workspace of its own, so cargo has to be pointed at it.
pub(crate) const MANIFEST: &str = "fuzz/Cargo.toml";
const SECONDS_EACH: u32 = 60;

/// Runs every target over its corpus.
pub(crate) fn corpus() -> Result<()> {
    let mut command = cmd::cargo(&["test", "--locked", "--profile=ci", "--manifest-path", MANIFEST]);
    // The same folder and profile as the other tests, so that shared packages are built once.
    cmd::run(command.env("CARGO_TARGET_DIR", cmd::root().join("target")))
}

/// Searches with every target. The sanitizer is a nightly feature, which RUSTC_BOOTSTRAP opens on the pinned compiler.
pub(crate) fn search() -> Result<()> {
    if !cmd::exists("cargo-fuzz") {
        cmd::run(&mut cmd::cargo(&["install", "--locked", "cargo-fuzz"]))?;
    }
    let targets = targets()?;
    let mut failed = Vec::new();
    for target in &targets {
        // libFuzzer writes what it finds into the first folder and only reads the second.
        let found = cmd::root().join("target/fuzz").join(target);
        std::fs::create_dir_all(&found)?;
        let mut command = cmd::cargo(&["fuzz", "run", "--features=libfuzzer", target]);
        command
            .arg(found)
            .arg(cmd::root().join("fixtures/fuzz").join(target));
        command.arg("--").arg(format!("-max_total_time={SECONDS_EACH}"));
        command.env("RUSTC_BOOTSTRAP", "1");
        if cmd::run(&mut command).is_err() {
            failed.push(target.as_str());
        }
    }
    if !failed.is_empty() {
        bail!("found something: {}", failed.join(" "));
    }
    Ok(())
}

fn targets() -> Result<Vec<String>> {
    let text = std::fs::read_to_string(cmd::root().join(MANIFEST)).context(MANIFEST)?;
    let manifest: toml::Table = text.parse()?;
    let bins = manifest
        .get("bin")
        .and_then(toml::Value::as_array)
        .into_iter()
        .flatten();
    let names: Vec<String> = bins
        .filter_map(|b| Some(b.get("name")?.as_str()?.to_owned()))
        .collect();
    if names.is_empty() {
        bail!("{MANIFEST} names no target");
    }
    Ok(names)
}
