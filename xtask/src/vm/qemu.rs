//! Runs guests and reads their consoles. QEMU is our child process; we end it by its handle, or the kernel ends it if
//! we are killed.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use super::{Clock, Machine};
use crate::cmd;

/// Time that a guest has to power off after it is done.
const OFF: Duration = Duration::from_secs(20);

/// The console shows only fatal kernel messages, so that no other message interrupts a line of results. QEMU emulates
/// `rep stosb` byte by byte; without erms and fsrm, the guest clears and copies memory in whole words.
const ARGS: &[&str] = &[
    "-machine=q35",
    "-cpu=max,la57=off,erms=off,fsrm=off",
    "-m=1024",
    "-nodefaults",
    "-display=none",
    "-serial=stdio",
];

/// Arguments by kind of clock. A clock that counts instructions requires one thread.
const HOST: &[&str] = &["-accel=tcg,thread=multi", "-smp=2"];
const LEAPS: &[&str] = &[
    "-accel=tcg,thread=single",
    "-smp=1",
    "-icount=shift=3,sleep=off,align=off",
];

/// The kernel command line of every guest.
const APPEND: &str =
    "console=ttyS0 loglevel=1 panic=0 mitigations=off tsc=reliable no_timer_check random.trust_cpu=on";

/// A running QEMU; dropping it ends the process.
struct Guest {
    child: Child,
    log: File,
}

impl Drop for Guest {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) && self.child.kill().is_ok() {
            self.child.wait().ok();
        }
    }
}

/// The file with a guest's console output.
pub(super) fn console(machine: &Machine, work: &Path) -> PathBuf {
    work.join(format!("{}.log", machine.name))
}

/// Runs the guests until `line` returns true for a line of the first one and it has powered off; then ends the other
/// one. Two guests share a private network.
///
/// # Errors
/// When a guest's kernel panics, a guest ends early, or the deadline passes.
pub(super) fn run(
    machines: &[Machine],
    work: &Path,
    deadline: Duration,
    mut line: impl FnMut(&str) -> bool,
) -> Result<()> {
    let (sender, lines) = channel();
    let mut guests = start(machines, work, &sender)?;
    drop(sender);

    let begin = Instant::now();
    let mut end = begin + deadline;
    let mut done = false;
    loop {
        match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok((of, Some(text))) => {
                let guest = guests.get_mut(of).context("a line of an unknown guest")?;
                writeln!(guest.log, "{:7.2} {text}", begin.elapsed().as_secs_f64())?;
                if text.contains("Kernel panic") {
                    bail!("{}: the guest's kernel: {text}", machines[of].name);
                }
                if line(&text) && of == 0 {
                    done = true;
                    end = Instant::now() + OFF;
                }
            }
            Ok((0, None)) | Err(RecvTimeoutError::Disconnected) => break,
            // The other guest has ended: the first will report what is missing.
            Ok((_, None)) => {}
            Err(RecvTimeoutError::Timeout) if done => {
                bail!("the guest is done but did not power off")
            }
            Err(RecvTimeoutError::Timeout) => bail!("the guest was not done within {} s", deadline.as_secs()),
        }
    }
    let first = guests.first_mut().context("no guest")?;
    let status = first.child.wait()?;
    if !status.success() || !done {
        bail!("QEMU ended before the guest was done: {status}");
    }
    Ok(())
}

/// A guest's index, and a line of its console; `None`: it has ended.
type Line = (usize, Option<String>);

fn start(machines: &[Machine], work: &Path, lines: &Sender<Line>) -> Result<Vec<Guest>> {
    let mut cables: Vec<OwnedFd> = Vec::new();
    if machines.len() == 2 {
        let (a, b) = UnixStream::pair()?;
        cables = vec![a.into(), b.into()];
    }
    let mut cables = cables.into_iter();
    let mut guests = Vec::new();
    for (of, machine) in machines.iter().enumerate() {
        let cable = cables.next();
        let mut command = command(machine, cable.as_ref(), of)?;
        let log = File::create(console(machine, work))?;
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start QEMU")?;
        let stdout = child.stdout.take();
        guests.push(Guest { child, log });
        read(of, stdout.context("QEMU's output")?, lines.clone());
    }
    Ok(guests)
}

fn command(machine: &Machine, cable: Option<&OwnedFd>, of: usize) -> Result<Command> {
    // setpriv executes QEMU, so the child's handle is QEMU's.
    let mut command = cmd::program("setpriv", &["--pdeathsig", "KILL", "qemu-system-x86_64"]);
    let clock = match machine.clock {
        Clock::Host => HOST,
        Clock::Leaps => LEAPS,
    };
    // QEMU requires option and value as two arguments.
    for arg in ARGS.iter().chain(clock) {
        let (option, value) = arg.split_once('=').map_or((*arg, None), |(o, v)| (o, Some(v)));
        command.arg(option).args(value);
    }
    command.args(["-append", &format!("{APPEND} {}", machine.append)]);
    command.arg("-kernel").arg(&machine.vmlinuz);
    command.arg("-initrd").arg(&machine.initramfs);
    // No need to flush to the host's disk: a reset of the guest loses nothing.
    if let Some(disk) = &machine.disk {
        let drive = format!("file={},format=raw,if=virtio,cache=unsafe", disk.display());
        command.arg("-drive").arg(drive);
    }
    if machine.nvme {
        command.args(["-drive", "file=null-co://,format=raw,if=none,id=nvme"]);
        command.args(["-device", "nvme,drive=nvme,serial=guest"]);
    }
    // Without a cable the guest has only its loopback; with one it reaches only the other guest.
    match cable {
        None => command.args(["-nic", "none"]),
        Some(cable) => {
            fcntl(cable, FcntlArg::F_SETFD(FdFlag::empty()))?;
            let netdev = format!("socket,id=cable,fd={}", cable.as_raw_fd());
            let device = format!("virtio-net-pci,netdev=cable,mac=52:54:00:00:00:0{}", of + 1);
            command.args(["-netdev", &netdev, "-device", &device])
        }
    };
    Ok(command)
}

/// Sends lines to the main loop, so that it can keep its deadline while the guests print nothing.
fn read(of: usize, stdout: ChildStdout, lines: Sender<Line>) {
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
            let text = String::from_utf8_lossy(&line);
            if lines
                .send((of, Some(text.trim_end_matches('\r').to_owned())))
                .is_err()
            {
                return;
            }
        }
        lines.send((of, None)).ok();
    });
}
