//! `cargo xtask package`: the Debian package, below `target/package/`.
//!
//! It uses dpkg's own programs: a package is a tree of files and a control file, and other tools need both as input
//! too. The same source and the same SOURCE_DATE_EPOCH give the same bytes.

mod control;
mod elf;
mod tree;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{cmd, deps, supply, testing};

/// Debian packages to build and check it; lintian checks Debian's rules.
const PACKAGES: &[&str] = &["binutils", "dpkg-dev", "lintian"];

/// Inputs of a package besides the repository.
struct Plan {
    /// The program that cargo has built.
    binary: PathBuf,
    /// `0.1.0-1`.
    version: String,
    /// `amd64`.
    architecture: String,
    /// Time stamp of every file, in seconds since the epoch.
    epoch: i64,
}

/// Builds the package with the release profile, checks it, and prints its properties.
///
/// # Errors
/// When a required program fails, or lintian finds an error or warning.
pub(crate) fn run() -> Result<()> {
    deps::install(PACKAGES)?;
    let deb = build("release")?;
    lint(&deb)
}

/// Builds the package from a cargo profile.
///
/// # Errors
/// When cargo, dpkg or git fails.
pub(crate) fn build(profile: &str) -> Result<PathBuf> {
    let epoch = epoch()?;
    let binary = if profile == "release" {
        supply::build("shipped", epoch)?
    } else {
        // Tests share their profile with others, who build without flags of a release.
        let profile_arg = format!("--profile={profile}");
        cmd::run(&mut cmd::cargo(&[
            "build",
            "--locked",
            &profile_arg,
            "--package=nodewarden",
        ]))?;
        let binary = cmd::target_dir()?.join(profile).join("nodewarden");
        testing::refuse(&binary)?;
        binary
    };
    let plan = Plan {
        binary,
        version: format!("{}-1", version()?),
        architecture: cmd::output(&mut cmd::program("dpkg", &["--print-architecture"]))?
            .trim()
            .to_owned(),
        epoch,
    };
    let work = cmd::target_dir()?.join("package").join(profile);
    if work.exists() {
        std::fs::remove_dir_all(&work)?;
    }
    std::fs::create_dir_all(&work)?;
    let root = work.join("root");
    tree::make(&root, &plan)?;
    let needs = elf::needs(&root.join(tree::BINARY))?;
    if profile == "release" {
        needs.only_glibc(supply::GLIBC)?;
    }
    let needs = needs.debian()?;
    control::make(&root, &plan, &needs)?;
    tree::settle(&root, plan.epoch)?;

    let deb = work.join(format!("nodewarden_{}_{}.deb", plan.version, plan.architecture));
    let mut pack = cmd::program("dpkg-deb", &["--root-owner-group", "-Zxz", "--build"]);
    cmd::run(
        pack.arg(&root)
            .arg(&deb)
            .env("SOURCE_DATE_EPOCH", plan.epoch.to_string()),
    )?;
    let size = |path: &Path| -> Result<u64> { Ok(std::fs::metadata(path)?.len() / 1024) };
    println!(
        "{}: {} KiB, the program {} KiB",
        deb.display(),
        size(&deb)?,
        size(&root.join(tree::BINARY))?
    );
    println!("depends: {needs}");
    Ok(deb)
}

fn lint(deb: &Path) -> Result<()> {
    let mut lintian = cmd::program(
        "lintian",
        &["--allow-root", "--fail-on=error,warning", "--show-overrides"],
    );
    cmd::run(lintian.arg(deb))
        .context("lintian; an override needs its reason in packaging/deb/lintian-overrides")
}

fn version() -> Result<String> {
    let metadata = cmd::metadata(false)?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages
        .filter(|p| p["name"] == "nodewarden")
        .find_map(|p| p["version"].as_str().map(str::to_owned))
        .context("cargo metadata lists no package nodewarden")
}

/// SOURCE_DATE_EPOCH, or the time of the last commit.
///
/// # Errors
/// When it is no number.
pub(crate) fn epoch() -> Result<i64> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => cmd::output(&mut cmd::program("git", &["log", "-1", "--format=%ct"]))?,
    };
    match text.trim().parse() {
        Ok(epoch) if epoch >= 0 => Ok(epoch),
        _ => bail!("SOURCE_DATE_EPOCH: {text:?} is not a number of seconds"),
    }
}
