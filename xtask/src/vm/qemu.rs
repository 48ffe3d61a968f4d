//! Runs the guest and reads its console. QEMU is our child and ended by its handle, whatever happens.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::Machine;
use crate::cmd;

/// How long a guest that is done may take to switch itself off.
const OFF: Duration = Duration::from_secs(20);

/// No network device: the guest has its loopback and nothing else. The console shows only what is fatal in the kernel,
/// so that no other message falls into a line of results.
const ARGS: &[&str] = &[
    "-machine=q35",
    "-accel=tcg,thread=multi",
    "-cpu=max,la57=off",
    "-smp=2",
    "-m=1024",
    "-nodefaults",
    "-display=none",
    "-nic=none",
    "-serial=stdio",
];

/// What the kernel is told in every guest.
const APPEND: &str =
    "console=ttyS0 loglevel=1 panic=0 mitigations=off tsc=reliable no_timer_check random.trust_cpu=on";

/// A QEMU that is ended with its value.
struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) && self.0.kill().is_ok() {
            self.0.wait().ok();
        }
    }
}

/// Runs the guest until `line` says that it is done and it has switched itself off. Everything goes to `console`, too.
///
/// # Errors
/// When the guest's kernel panics, it ends without being done, or the time is over.
pub(super) fn run(
    machine: &Machine,
    console: &Path,
    deadline: Duration,
    mut line: impl FnMut(&str) -> bool,
) -> Result<()> {
    let mut log = File::create(console)?;
    let mut command = cmd::program("qemu-system-x86_64", &[]);
    // QEMU wants option and value as two arguments.
    for arg in ARGS {
        let (option, value) = arg.split_once('=').map_or((*arg, None), |(o, v)| (o, Some(v)));
        command.arg(option).args(value);
    }
    command.args(["-append", &format!("{APPEND} {}", machine.append)]);
    command.arg("-kernel").arg(&machine.vmlinuz);
    command.arg("-initrd").arg(&machine.initramfs);
    // The host never loses power here, so its disk need not be waited for; a reset of the guest loses nothing.
    if let Some(disk) = &machine.disk {
        let drive = format!("file={},format=raw,if=virtio,cache=unsafe", disk.display());
        command.arg("-drive").arg(drive);
    }
    let child = command
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start QEMU")?;
    let mut guest = Guest(child);
    let lines = reader(guest.0.stdout.take().context("QEMU's output")?);

    let begin = Instant::now();
    let mut end = begin + deadline;
    let mut done = false;
    loop {
        match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(text) => {
                writeln!(log, "{:7.2} {text}", begin.elapsed().as_secs_f64())?;
                if text.contains("Kernel panic") {
                    bail!("the guest's kernel: {text}; see {}", console.display());
                }
                if line(&text) {
                    done = true;
                    end = Instant::now() + OFF;
                }
            }
            Err(RecvTimeoutError::Timeout) if done => {
                bail!("the guest is done and does not switch itself off")
            }
            Err(RecvTimeoutError::Timeout) => bail!("the guest was not done within {} s", deadline.as_secs()),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = guest.0.wait()?;
    if !status.success() || !done {
        bail!("QEMU ended before the guest was done: {status}");
    }
    Ok(())
}

/// Lines as they come, so that the main loop can keep its deadline while the guest is silent.
fn reader(stdout: ChildStdout) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
            let text = String::from_utf8_lossy(&line);
            if sender.send(text.trim_end_matches('\r').to_owned()).is_err() {
                break;
            }
        }
    });
    lines
}
