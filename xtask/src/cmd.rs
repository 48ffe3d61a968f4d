//! Starts programs, and finds files of the repository.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
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

/// Time limit of a command that runs tests: far more than any takes, and little enough that one that hangs is named
/// before the whole run is stopped.
const TESTS: Duration = Duration::from_mins(20);

/// Runs `cargo test` with its output shown, for 20 minutes at most, and `at_a_time` tests at a time unless RUST_TEST_THREADS is set.
///
/// # Errors
/// When it cannot be started, does not succeed, or takes longer.
pub(crate) fn run_tests(command: &mut Command, at_a_time: usize) -> Result<()> {
    const THREADS: &str = "RUST_TEST_THREADS";
    if std::env::var_os(THREADS).is_none() {
        command.env(THREADS, at_a_time.to_string());
    }
    run_within(TESTS, command)
}

/// Runs it with its output shown. At the limit its children are killed, and itself if it does not end then.
///
/// # Errors
/// When it cannot be started, does not succeed, or takes longer.
pub(crate) fn run_within(limit: Duration, command: &mut Command) -> Result<()> {
    println!("$ {}", line(command));
    let begin = Instant::now();
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start {}", line(command)))?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if begin.elapsed() > limit {
            kill_children(child.id());
        }
        if begin.elapsed() > limit + Duration::from_secs(5) {
            child.kill()?;
        }
        thread::sleep(Duration::from_millis(50));
    };
    if begin.elapsed() > limit {
        bail!(
            "`{}` was ended: it took more than its limit of {limit:?}",
            line(command)
        );
    }
    if !status.success() {
        bail!("`{}`: {status}", line(command));
    }
    Ok(())
}

/// Kills the processes that this one has started: cargo itself then names the test program.
fn kill_children(of: u32) {
    let list = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    for pid in list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()) {
        // One that has just ended is no error.
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap_or_default();
    }
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

/// Builds the program without the feature that lets tests forge a boot, as it is shipped, in the profile that the tests
/// share. The libraries below it have the features of the tests. Returns where it lies.
///
/// # Errors
/// When cargo fails, or what it built has what only tests may have.
pub(crate) fn build_nodewarden() -> Result<PathBuf> {
    let program = build("nodewarden")?;
    testing::refuse(&program)?;
    Ok(program)
}

/// Builds the program of the package of that name. Returns where it lies.
///
/// # Errors
/// When cargo fails.
pub(crate) fn build(program: &str) -> Result<PathBuf> {
    let mut command = cargo(&["build", "--locked", "--profile=ci"]);
    command.args([format!("--package={program}"), format!("--bin={program}")]);
    // With these, libraries have the features that tests give them, and are compiled once for both.
    command.args([
        "--package=nodewarden-testkit",
        "--package=nodewarden-model",
        "--features=nodewarden-model/testing",
    ]);
    run(&mut command)?;
    Ok(target_dir()?.join("ci").join(program))
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
    fn what_takes_longer_than_its_limit_is_ended_and_named() {
        let limit = Duration::from_millis(200);
        let within = |name, args: &[&str]| run_within(limit, &mut program(name, args));
        let error = within("sh", &["-c", "sleep 1000; exit 0"])
            .unwrap_err()
            .to_string();
        assert!(error.contains("limit of 200ms"), "{error}");
        assert!(within("sleep", &["1000"]).is_err(), "it has no children");
        let long = Duration::from_mins(1);
        assert!(run_within(long, &mut program("true", &[])).is_ok());
        assert!(run_within(long, &mut program("false", &[])).is_err());
    }

    #[test]
    fn a_name_without_a_test_is_an_error() {
        let finds = |list: &str| require_test(&mut program("printf", &[list]), "x").is_ok();
        assert!(finds("a::x: test\\n\\n1 test, 0 benchmarks\\n"));
        assert!(!finds("\\n0 tests, 0 benchmarks\\n"));
        assert!(require_test(&mut program("false", &[]), "x").is_err());
    }
}
