//! `cargo xtask package`: the Debian package and the RPM, from one list of files, below `target/package/`.
//!
//! dpkg's and rpm's own programs build them. The same source and the same SOURCE_DATE_EPOCH give the same bytes.

mod check;
#[cfg(test)]
mod container_tests;
mod deb;
mod documents;
mod elf;
mod list;
mod rpm;
mod tree;

use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::stage::timed;
use crate::supply::Arch;
use crate::{cmd, deps, supply, testing};

/// Debian packages to build and check them; lintian checks Debian's rules.
const PACKAGES: &[&str] = &["binutils", "dpkg-dev", "lintian", "rpm"];

/// Who answers for the package. There is no public address yet.
const MAINTAINER: &str = "nodewarden developers <developers@nodewarden.invalid>";

const SUMMARY: &str = "health checks, metrics and drains for GPU cluster nodes";

const DESCRIPTION: &str = "nodewarden watches one node of a GPU cluster: it reads its hardware, serves
Prometheus metrics, and takes the node out of Slurm when its hardware is
broken.

As installed it observes: it counts what it would have drained and changes
nothing.
";

/// Inputs of a package besides the repository.
struct Plan {
    /// The program that cargo has built.
    binary: PathBuf,
    /// Whom it is for.
    arch: Arch,
    /// The same program for this machine: it prints the manual pages.
    printer: PathBuf,
    /// `0.1.0`.
    version: String,
    /// Of the package, of the same version: `1`.
    revision: u32,
    /// Time stamp of every file, in seconds since the epoch.
    epoch: i64,
    /// Level of xz.
    compression: u8,
}

/// The packages of one revision.
struct Built {
    deb: PathBuf,
    rpm: PathBuf,
    list: Vec<list::Entry>,
}

/// Builds the packages with the release profile, checks them, and prints their properties; `check` also installs them in root
/// file systems.
///
/// # Errors
/// When a required program fails, or lintian finds an error or warning.
pub(crate) fn run(check: bool, arch: Arch) -> Result<()> {
    deps::install(PACKAGES)?;
    if !check {
        return shipped(arch).map(drop);
    }
    ensure!(
        arch == Arch::X86_64,
        "--check runs the program: no machine here runs one for {}",
        arch.name()
    );
    check::prepare()?;
    // mmdebstrap waits for the network while the packages are built.
    let (made, roots) = thread::scope(|scope| {
        let roots = scope.spawn(check::roots);
        (shipped(arch), roots.join())
    });
    let (plan, built) = made?;
    let roots = roots.map_err(|_| anyhow!("the making of roots panicked"))??;
    check::run(plan, &built, &roots)
}

/// The packages of the shipped program, checked by lintian.
fn shipped(arch: Arch) -> Result<(Plan, Built)> {
    let build = |arch| supply::build(arch, "shipped", epoch()?);
    let printer = timed("the program", || build(Arch::X86_64))?;
    let program = match arch {
        Arch::X86_64 => printer.clone(),
        Arch::Aarch64 => timed(arch.name(), || build(arch))?,
    };
    let plan = Plan {
        arch,
        printer,
        ..plan(program)?
    };
    let built = timed("packages", || both(&plan))?;
    timed("lintian", || lint(&built.deb))?;
    Ok((plan, built))
}

/// Builds both packages of the shipped program.
fn both(plan: &Plan) -> Result<Built> {
    let needs = elf::needs(&plan.binary, plan.arch)?;
    needs.only_glibc(supply::GLIBC)?;
    let work = empty(match plan.arch {
        Arch::X86_64 => "release",
        Arch::Aarch64 => "release-aarch64",
    })?;
    let list = list::make(plan)?;
    let deb = deb::make(&work, &list, plan, &needs.debian()?)?;
    let rpm = rpm::make(&work, &list, plan)?;
    for path in [&deb, &rpm] {
        println!("{}: {} KiB", path.display(), size(path)?);
    }
    println!(
        "the program: {} KiB, needs glibc {}",
        size(&plan.binary)?,
        needs.glibc
    );
    Ok(Built { deb, rpm, list })
}

/// Builds the Debian package for a test of this machine's glibc, from a cargo profile that tests share with others, who build
/// without flags of a release.
///
/// # Errors
/// When cargo, dpkg or git fails.
pub(crate) fn build(profile: &str) -> Result<PathBuf> {
    let profile_arg = format!("--profile={profile}");
    cmd::run(&mut cmd::cargo(&[
        "build",
        "--locked",
        &profile_arg,
        "--package=nodewarden",
    ]))?;
    let binary = cmd::target_dir()?.join(profile).join("nodewarden");
    testing::refuse(&binary)?;
    let plan = plan(binary)?;
    let needs = elf::needs(&plan.binary, plan.arch)?;
    let list = list::make(&plan)?;
    deb::make(&empty(profile)?, &list, &plan, &needs.debian()?)
}

/// Of a program for this machine.
fn plan(binary: PathBuf) -> Result<Plan> {
    Ok(Plan {
        printer: binary.clone(),
        binary,
        arch: Arch::X86_64,
        // Both package managers sort `~` before the release itself.
        version: version()?.replace('-', "~"),
        revision: 1,
        epoch: epoch()?,
        compression: 6,
    })
}

/// A new folder below target/package.
fn empty(name: &str) -> Result<PathBuf> {
    let work = cmd::target_dir()?.join("package").join(name);
    if work.exists() {
        std::fs::remove_dir_all(&work)?;
    }
    std::fs::create_dir_all(&work)?;
    Ok(work)
}

/// In KiB.
fn size(path: &Path) -> Result<u64> {
    Ok(std::fs::metadata(path)?.len() / 1024)
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
