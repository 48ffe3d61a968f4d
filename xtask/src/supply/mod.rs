//! The shipped program and its libraries: the program without paths of its build machine, the same bytes twice, no library with a known
//! fault, and the list of its libraries.

mod arch;
mod known;
mod sbom;
mod zig;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::{cmd, deps, testing};

pub(crate) use arch::Arch;
pub(crate) use sbom::text as sbom;
pub(crate) use zig::GLIBC;
use zig::Zig;

/// Where a clone of RustSec's database lies, on a machine that cannot fetch it.
const DATABASE: &str = "ADVISORY_DB";

/// The folder that cargo-deny looks for: the end of the URL and a hash of it.
const NAMED: &str = "advisory-db-3157b0e258782691";

/// Builds the program as it is shipped, for glibc [`GLIBC`], into a target folder of its own: the flags differ from those of
/// every other build.
///
/// # Errors
/// When cargo fails, or the program holds what only tests may have, or a path of this machine.
pub(crate) fn build(arch: Arch, folder: &str, epoch: i64) -> Result<PathBuf> {
    let target = cmd::target_dir()?.join(folder);
    add_target(arch)?;
    let args = ["--locked", "--release", "--package=nodewarden"];
    let mut cargo = Zig::get()?.cargo(arch, &args, &paths(&target)?)?;
    cargo.env("CARGO_TARGET_DIR", &target);
    // Else the build's id is the time of day.
    cargo.env("SOURCE_DATE_EPOCH", epoch.to_string());
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags(&target)?.join("\x1f"));
    cmd::run(&mut cargo)?;
    let program = target.join(format!("nodewarden-{}", arch.name()));
    strip(
        arch,
        &zig::built(&target, arch, "release").join("nodewarden"),
        &program,
    )?;
    testing::refuse(&program)?;
    let bytes = std::fs::read(&program).with_context(|| program.display().to_string())?;
    for (path, _) in paths(&target)? {
        ensure!(
            !holds(&bytes, &path),
            "{}: holds the path {path}",
            program.display()
        );
    }
    Ok(program)
}

/// Adds Rust's standard library for the target, where rustup can.
fn add_target(arch: Arch) -> Result<()> {
    let target = arch.target();
    let library = cmd::output(&mut cmd::program(
        "rustc",
        &["--print=target-libdir", "--target", target],
    ))?;
    if Path::new(library.trim()).is_dir() {
        return Ok(());
    }
    cmd::run(&mut cmd::program("rustup", &["target", "add", target]))
}

/// Builds the stand-in for NVML for the same glibc.
///
/// # Errors
/// When cargo fails.
pub(crate) fn stand_in() -> Result<PathBuf> {
    let target = cmd::target_dir()?.join("stand-in");
    let args = ["--locked", "--profile=ci", "--package=fake-nvml"];
    let mut cargo = Zig::get()?.cargo(Arch::X86_64, &args, &[])?;
    cmd::run(cargo.env("CARGO_TARGET_DIR", &target))?;
    Ok(zig::built(&target, Arch::X86_64, "ci").join("libfake_nvml.so"))
}

/// Writes the program without symbols and debug information: zig's own parts name the checkout there.
///
/// # Errors
/// When strip fails.
pub(crate) fn strip(arch: Arch, from: &Path, to: &Path) -> Result<()> {
    let (name, package) = arch.strip();
    deps::install(&[package])?;
    let mut strip = cmd::program(name, &["--strip-all", "--remove-section=.comment", "-o"]);
    cmd::run(strip.arg(to).arg(from))
}

/// Builds twice, in two folders, and compares.
///
/// # Errors
/// When the two differ.
pub(crate) fn twice(epoch: i64) -> Result<()> {
    let first = build(Arch::X86_64, "shipped", epoch)?;
    let again = build(Arch::X86_64, "shipped-again", epoch)?;
    let (one, two) = (std::fs::read(&first)?, std::fs::read(&again)?);
    std::fs::remove_dir_all(cmd::target_dir()?.join("shipped-again"))?;
    if let Some(at) = one.iter().zip(&two).position(|(a, b)| a != b) {
        bail!(
            "two builds of this commit differ, first at byte {at} of {}",
            one.len()
        );
    }
    ensure!(
        one.len() == two.len(),
        "two builds differ in size: {} and {}",
        one.len(),
        two.len()
    );
    println!(
        "the same {} bytes twice, without paths of this machine",
        one.len()
    );
    Ok(())
}

/// Checks the libraries against RustSec's database and prints how old that is. A machine that neither has it nor can fetch it
/// uses the project's own list ([`known`]).
///
/// # Errors
/// When a library has a known fault.
pub(crate) fn advisories() -> Result<()> {
    let given = std::env::var_os(DATABASE).map(PathBuf::from);
    let database = match &given {
        Some(clone) => clone.clone(),
        None => cmd::target_dir()?.join("advisory-db"),
    };
    let url = "https://github.com/rustsec/advisory-db";
    if given.is_none() {
        let folder = database.to_string_lossy();
        let fetched = if database.join(".git").is_dir() {
            cmd::run(&mut cmd::program(
                "git",
                &["-C", &folder, "pull", "-q", "--ff-only"],
            ))
        } else {
            cmd::run(&mut cmd::program(
                "git",
                &["clone", "-q", "--depth=1", url, &folder],
            ))
        };
        if let Err(error) = fetched {
            println!("cannot fetch {url}: {error:#}");
        }
    }
    if !database.join(".git").is_dir() {
        println!("no database; {DATABASE} may name a clone of {url}");
        return known::check();
    }
    let folder = database.to_string_lossy();
    let dated = cmd::output(&mut cmd::program(
        "git",
        &["-C", &folder, "log", "-1", "--format=%cI %H"],
    ))?;
    println!("advisories: database of {}", dated.trim());
    // cargo-deny looks for databases in folders that it names after their URL; its configuration may name another folder.
    let home = cmd::target_dir()?.join("deny");
    let linked = home.join("db").join(NAMED);
    std::fs::create_dir_all(home.join("db"))?;
    if linked.symlink_metadata().is_ok() {
        std::fs::remove_file(&linked)?;
    }
    std::os::unix::fs::symlink(std::path::absolute(&database)?, &linked)?;
    let ours = std::fs::read_to_string(cmd::root().join("deny.toml"))?;
    let path = home.join("db");
    let config = ours.replace("[advisories]\n", &format!("[advisories]\ndb-path = {path:?}\n"));
    let file = home.join("deny.toml");
    std::fs::write(&file, config)?;
    let mut deny = cmd::cargo(&["deny", "--locked", "check", "--disable-fetch", "--config"]);
    cmd::run(deny.arg(&file).arg("advisories"))
}

/// Paths of this machine and what stands for them; of two that fit, rustc takes the later one.
fn paths(target: &Path) -> Result<Vec<(String, &'static str)>> {
    let text = |path: &Path| {
        path.to_str()
            .map(str::to_owned)
            .context("a path that is not UTF-8")
    };
    let mut paths = Vec::new();
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    if let Some(cargo) = cargo.or(home) {
        paths.push((text(&cargo)?, "/usr/src/cargo"));
    }
    paths.push((text(cmd::root())?, "/usr/src/nodewarden"));
    paths.push((text(target)?, "/usr/src/target"));
    Ok(paths)
}

fn flags(target: &Path) -> Result<Vec<String>> {
    let paths = paths(target)?.into_iter();
    Ok(paths
        .map(|(from, to)| format!("--remap-path-prefix={from}={to}"))
        .collect())
}

fn holds(bytes: &[u8], text: &str) -> bool {
    // A text such as `/` or `/root` stands in every program.
    text.len() > 8 && bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_knows_no_path_of_its_build() {
        let target = Path::new("/build/nw/target/shipped");
        let flags = flags(target).unwrap();
        assert!(
            flags
                .last()
                .unwrap()
                .ends_with("/build/nw/target/shipped=/usr/src/target")
        );
        assert!(flags.iter().any(|f| f.ends_with("=/usr/src/nodewarden")));
        assert!(holds(b"xx/build/nw/target", "/build/nw"));
        assert!(!holds(b"xx/usr/src/target", "/build/nw"));
    }
}
