//! `cargo xtask demo`: the daemon on a recorded node, in a folder that is gone afterwards.

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use testkit::tree;

use crate::cmd;

/// How long the daemon may take to leave after it was asked to.
const GRACE: Duration = Duration::from_secs(10);

/// Runs until Ctrl-C.
pub(crate) fn run(name: &str, listen: SocketAddr) -> Result<()> {
    let recording = cmd::root().join("fixtures").join(name);
    if !recording.join("root.tree").is_file() {
        bail!(
            "{} is no recording: it has no file `root.tree`",
            recording.display()
        );
    }
    cmd::run(&mut cmd::cargo(&[
        "build",
        "--locked",
        "--profile=ci",
        "--package=nodewarden",
    ]))?;
    let binary = target_dir()?.join("ci/nodewarden");

    // Under root the workers run as users of their own, which may not look into a checkout below somebody's home.
    let temp = tempfile::Builder::new().prefix("nodewarden-demo-").tempdir()?;
    std::fs::set_permissions(temp.path(), Permissions::from_mode(0o755))?;
    let node = temp.path().join("node");
    tree::unpack(&recording, &node)?;
    let (state, run) = (temp.path().join("state"), temp.path().join("run"));

    // Blocked, so that Ctrl-C ends the wait and not the clean-up.
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals.thread_block()?;
    let waker = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC)?;

    let mut command = cmd::program(&binary.to_string_lossy(), &["run", "--recorded"]);
    command.arg(&node).arg("--listen").arg(listen.to_string());
    command.arg("--state-dir").arg(&state).arg("--run-dir").arg(&run);
    // A process group of its own: Ctrl-C must not reach the workers, which only ever end with their input.
    command.process_group(0);
    let mut daemon = command
        .spawn()
        .with_context(|| format!("cannot start {}", binary.display()))?;
    print_where_to_look(&binary, &run, listen);
    wait(&mut daemon, &waker)
}

fn print_where_to_look(binary: &Path, run: &Path, listen: SocketAddr) {
    let (binary, run) = (binary.display(), run.display());
    println!(
        "
A recorded node with a broken GPU. Nothing here touches this machine's hardware or its Slurm.

  metrics    curl -s http://{listen}/metrics
  status     {binary} status --run-dir {run}
  why        {binary} why --run-dir {run}

Ctrl-C ends it and removes its files.
"
    );
}

/// Waits for the daemon, passing on the wish to end. A daemon that ends unasked has failed, whatever it says.
fn wait(daemon: &mut Child, waker: &SignalFd) -> Result<()> {
    let mut asked: Option<Instant> = None;
    loop {
        if let Some(status) = daemon.try_wait()? {
            if asked.is_some() {
                return Ok(());
            }
            bail!("the daemon ended by itself: {status}");
        }
        let mut fds = [PollFd::new(waker.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, PollTimeout::from(200_u8))? > 0 && waker.read_signal()?.is_some() && asked.is_none()
        {
            asked = Some(Instant::now());
            kill(Pid::from_raw(i32::try_from(daemon.id())?), Signal::SIGTERM)?;
        }
        if asked.is_some_and(|at| at.elapsed() > GRACE) {
            daemon.kill()?;
            daemon.wait()?;
            bail!("the daemon did not leave within {} s", GRACE.as_secs());
        }
    }
}

fn target_dir() -> Result<std::path::PathBuf> {
    let metadata = cmd::metadata(false)?;
    Ok(metadata["target_directory"]
        .as_str()
        .context("cargo metadata names no target folder")?
        .into())
}
