//! The search for inputs that break a fuzz target of `fuzz/src/lib.rs`. Their corpus is replayed by `cargo xtask test`.

use anyhow::{Context, Result, bail};

use crate::cmd;

/// libFuzzer is in a workspace of its own.
const FOLDER: &str = "fuzz/search";
pub(crate) const MANIFEST: &str = "fuzz/search/Cargo.toml";
const SECONDS_EACH: u32 = 60;

/// Searches with every target. The sanitizer is a nightly feature, which RUSTC_BOOTSTRAP opens on the pinned compiler.
pub(crate) fn search() -> Result<()> {
    if !cmd::exists("cargo-fuzz") {
        cmd::run(&mut cmd::cargo(&["install", "--locked", "cargo-fuzz"]))?;
    }
    // Each corpus has a target of its name: a test compares them.
    let corpora = cmd::root().join("fixtures/fuzz");
    let mut failed = Vec::new();
    for entry in std::fs::read_dir(&corpora)? {
        let target = entry?
            .file_name()
            .into_string()
            .ok()
            .context("a corpus without a name")?;
        let folder = |name: &str| {
            let folder = cmd::root().join(name).join(&target);
            std::fs::create_dir_all(&folder).map(|()| folder)
        };
        // libFuzzer writes new inputs into the first folder and only reads the second.
        let (found, broken) = (folder("target/fuzz")?, folder("fuzz/search/artifacts")?);
        let mut command = cmd::cargo(&["fuzz", "run", "--fuzz-dir", FOLDER, "search"]);
        command.arg(found).arg(corpora.join(&target));
        command.arg("--").arg(format!("-max_total_time={SECONDS_EACH}"));
        command.arg(format!("-artifact_prefix={}/", broken.display()));
        command.env("RUSTC_BOOTSTRAP", "1").env("FUZZ_TARGET", &target);
        if cmd::run(&mut command).is_err() {
            failed.push(target);
        }
    }
    if !failed.is_empty() {
        bail!("found something: {}", failed.join(" "));
    }
    Ok(())
}
