//! Starts programs, and finds files of the repository.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::testing;

/// The repository's root: the folder above this crate. Not the current folder, so that every subcommand works from
/// anywhere.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// A program, started in the root, that can never wait for a keyboard.
pub(crate) fn program(name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(args).current_dir(root()).stdin(Stdio::null());
    command
}

/// The cargo that started us.
pub(crate) fn cargo(args: &[&str]) -> Command {
    program(
        &std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()),
        args,
    )
}

/// Runs it with its output shown.
///
/// # Errors
/// When it cannot be started or does not succeed.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", line(command));
    let status = command
        .status()
        .with_context(|| format!("cannot start {}", line(command)))?;
    if !status.success() {
        bail!("`{}`: {status}", line(command));
    }
    Ok(())
}

/// Runs it and takes its standard output.
///
/// # Errors
/// When it cannot be started, does not succeed or prints no UTF-8.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let out = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", line(command)))?;
    if !out.status.success() {
        bail!("`{}`: {}", line(command), out.status);
    }
    Ok(String::from_utf8(out.stdout)?)
}

/// Whether `cargo test -- NAME` finds a test. Without one, cargo runs nothing and succeeds.
///
/// # Errors
/// When it finds none, or `list`, the same command with `--list`, fails.
pub(crate) fn require_test(list: &mut Command, name: &str) -> Result<()> {
    if !output(list)?.lines().any(|line| line.ends_with(": test")) {
        bail!("no test named {name}");
    }
    Ok(())
}

/// Whether a program of that name is in PATH.
pub(crate) fn exists(name: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(name).is_file()))
}

/// The files of the repository, relative to its root: tracked ones, and new ones that git does not ignore.
///
/// # Errors
/// When git fails.
pub(crate) fn files() -> Result<Vec<PathBuf>> {
    let args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let list = output(&mut program("git", &args))?;
    // A file that was deleted and not yet committed is still listed.
    Ok(list
        .split_terminator('\0')
        .map(PathBuf::from)
        .filter(|p| root().join(p).symlink_metadata().is_ok())
        .collect())
}

/// `cargo metadata`, with or without the packages that ours depend on.
///
/// # Errors
/// When cargo fails.
pub(crate) fn metadata(with_dependencies: bool) -> Result<Value> {
    let mut command = cargo(&["metadata", "--format-version=1", "--locked"]);
    if !with_dependencies {
        command.arg("--no-deps");
    }
    Ok(serde_json::from_str(&output(&mut command)?)?)
}

/// Cargo's target folder.
///
/// # Errors
/// When cargo fails.
pub(crate) fn target_dir() -> Result<PathBuf> {
    let metadata = metadata(false)?;
    Ok(metadata["target_directory"]
        .as_str()
        .context("cargo metadata names no target folder")?
        .into())
}

/// Builds the program as it is shipped, without the feature that lets tests forge a boot, in the profile that the tests
/// share. Returns where it lies.
///
/// # Errors
/// When cargo fails, or what it built has what only tests may have.
pub(crate) fn build_nodewarden() -> Result<PathBuf> {
    run(&mut cargo(&[
        "build",
        "--locked",
        "--profile=ci",
        "--package=nodewarden",
    ]))?;
    let program = target_dir()?.join("ci/nodewarden");
    testing::refuse(&program)?;
    Ok(program)
}

fn line(command: &Command) -> String {
    let name = Path::new(command.get_program())
        .file_name()
        .unwrap_or(command.get_program());
    let args = command.get_args().map(|a| format!(" {}", a.to_string_lossy()));
    format!("{}{}", name.to_string_lossy(), args.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_test_is_an_error() {
        let finds = |list: &str| require_test(&mut program("printf", &[list]), "x").is_ok();
        assert!(finds("a::x: test\\n\\n1 test, 0 benchmarks\\n"));
        assert!(!finds("\\n0 tests, 0 benchmarks\\n"));
        assert!(require_test(&mut program("false", &[]), "x").is_err());
    }
}
