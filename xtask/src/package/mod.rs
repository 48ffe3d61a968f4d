//! `cargo xtask package`: the Debian package, below `target/package/`.
//!
//! Driven by dpkg's own programs: a package is a tree of files and a control file, and every tool that would make them
//! for us has to be installed first and still be told both. The same source and the same SOURCE_DATE_EPOCH make the same
//! bytes.

mod control;
mod elf;
mod tree;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{cmd, deps, testing};

/// What making and checking it needs; lintian knows what Debian expects.
const PACKAGES: &[&str] = &["binutils", "dpkg-dev", "lintian"];

/// What a package is made of besides the repository.
struct Plan {
    /// The program as cargo has left it.
    binary: PathBuf,
    /// `0.1.0-1`.
    version: String,
    /// `amd64`.
    architecture: String,
    /// Seconds since the epoch that every file gets.
    epoch: i64,
}

/// Builds the package with the release profile, checks it, and says what it is.
///
/// # Errors
/// When a program that is needed fails, or lintian finds an error or warning.
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
    let mut cargo = cmd::cargo(&[
        "build",
        "--locked",
        &format!("--profile={profile}"),
        "--package=nodewarden",
    ]);
    if profile == "release" {
        // Else the build's id is the time of day. Tests share their profile with others, who build without it.
        cargo.env("SOURCE_DATE_EPOCH", epoch.to_string());
    }
    cmd::run(&mut cargo)?;
    let binary = cmd::target_dir()?.join(profile).join("nodewarden");
    testing::refuse(&binary)?;
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
    let needs = elf::depends(&root.join(tree::BINARY), &work)?;
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
    println!(
        "newest symbol version of glibc: {}",
        elf::newest_glibc(&root.join(tree::BINARY))?
    );
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
        .context("cargo metadata knows no package nodewarden")
}

/// SOURCE_DATE_EPOCH, or the time of the last commit.
fn epoch() -> Result<i64> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => cmd::output(&mut cmd::program("git", &["log", "-1", "--format=%ct"]))?,
    };
    match text.trim().parse() {
        Ok(epoch) if epoch >= 0 => Ok(epoch),
        _ => bail!("SOURCE_DATE_EPOCH: {text:?} is no number of seconds"),
    }
}
