//! lustre_collector from crates.io: the program and the parsers of the makers of Lustre's exporter, whose own program is on no
//! registry. It runs once a scrape, and starts `lctl` and `lnetctl`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use super::crates::Published;

/// The program.
pub(super) const PROGRAM: Published = Published {
    name: "lustre_collector",
    version: "0.12.1",
    compiler: None,
};

/// What `lctl get_param` prints of the node.
const MEMORY: &str = "memused=46108424\nmemused_max=61004520\nlnet_memused=1572864\nhealth_check=healthy\n";

/// What `lnetctl stats show` prints.
const STATS: &str = "statistics:\n    msgs_alloc: 0\n    msgs_max: 64\n    rst_alloc: 12\n    errors: 0\n    send_count: 90000\n    \
    resend_count: 0\n    response_timeout_count: 0\n    local_interrupt_count: 0\n    local_dropped_count: 0\n    \
    local_aborted_count: 0\n    local_no_route_count: 0\n    local_timeout_count: 0\n    local_error_count: 0\n    \
    remote_dropped_count: 0\n    remote_error_count: 0\n    remote_timeout_count: 0\n    network_timeout_count: 0\n    \
    recv_count: 80000\n    route_count: 0\n    drop_count: 0\n    send_length: 3900000000\n    recv_length: 160000000\n    \
    route_length: 0\n    drop_length: 0\n";

/// What `lnetctl net show -v 4` prints of one interface.
fn interface(net: &str, nid: &str) -> String {
    let mut text = format!(
        "    - net type: {net}\n      local NI(s):\n        - nid: {nid}\n          status: up\n          statistics:\n              \
         send_count: 90000\n              recv_count: 80000\n              drop_count: 0\n"
    );
    for kind in ["sent_stats", "received_stats", "dropped_stats"] {
        text += &format!("          {kind}:\n");
        for message in ["put", "get", "reply", "ack", "hello"] {
            text += &format!("              {message}: 0\n");
        }
    }
    text += "          health stats:\n              health value: 1000\n              interrupts: 0\n              dropped: 0\n              \
             aborted: 0\n              no route: 0\n              timeouts: 0\n              error: 0\n          tunables:\n              \
             peer_timeout: 180\n              peer_credits: 8\n              peer_buffer_credits: 0\n              credits: 256\n          \
             dev cpt: 0\n          CPT: \"[0,1]\"\n";
    text
}

/// What starting these programs costs: lctl three times, lnetctl two times.
const STARTED: [(&str, &[&str]); 5] = [
    ("lctl", &["get_param", "llite.*.stats"]),
    ("lctl", &["get_param", "-N", "mgs"]),
    ("lctl", &["get_param", "recovery_status"]),
    ("lnetctl", &["stats", "show"]),
    ("lnetctl", &["net", "show", "-v", "4"]),
];

/// A client that it reads through stand-ins of `lctl` and `lnetctl`, which print prepared text.
pub(super) struct Peer {
    program: PathBuf,
    folder: PathBuf,
}

/// One run of a program: its output, and the processor time of it and of what it started.
pub(super) struct Run {
    output: Output,
    pub(super) cpu: Duration,
}

impl Peer {
    /// `stats`: the file of the client's mount, and its parameter, `llite.scratch-ffff880812345600.stats`.
    ///
    /// # Errors
    /// When the program cannot be built, or a file not be written.
    pub(super) fn new(work: &Path, folder: PathBuf, (parameter, stats): (&str, &Path)) -> Result<Self> {
        let program = PROGRAM.get(work)?;
        fs::create_dir_all(&folder)?;
        let text = fs::read_to_string(stats).with_context(|| stats.display().to_string())?;
        fs::write(folder.join("llite"), format!("{parameter}=\n{text}"))?;
        fs::write(folder.join("stats"), STATS)?;
        let nets = [("tcp", "10.1.0.7@tcp"), ("o2ib", "10.2.0.7@o2ib")];
        let nets: String = nets.iter().map(|(net, nid)| interface(net, nid)).collect();
        fs::write(folder.join("net"), format!("net:\n{nets}"))?;
        let at = folder.display();
        fs::write(folder.join("memory"), MEMORY)?;
        // A client has neither an MGS nor a recovery.
        let lctl = format!("#!/bin/sh\ncase \"$*\" in *llite*) exec cat {at}/memory {at}/llite ;; esac\n");
        let lnetctl =
            format!("#!/bin/sh\ncase $1 in stats) exec cat {at}/stats ;; net) exec cat {at}/net ;; esac\n");
        for (name, text) in [("lctl", lctl), ("lnetctl", lnetctl)] {
            let file = folder.join(name);
            fs::write(&file, text)?;
            fs::set_permissions(&file, Permissions::from_mode(0o755))?;
        }
        Ok(Self { program, folder })
    }

    /// One scrape.
    ///
    /// # Errors
    /// When it fails or shows nothing of the client.
    pub(super) fn scrape(&self) -> Result<(Run, usize)> {
        let run = self.run(&mut Command::new(&self.program))?;
        let text = String::from_utf8_lossy(&run.output.stdout);
        // lustrefs-exporter makes one series of each row of a file, and of each figure of LNet.
        let series = text.matches("\"samples\":").count() + text.matches("\"value\":").count();
        let has_all = text.contains("\"read_bytes\"") && text.contains("10.2.0.7@o2ib");
        ensure!(
            run.output.status.success() && has_all,
            "{}: {}\n{text}\n{}",
            PROGRAM.name,
            run.output.status,
            String::from_utf8_lossy(&run.output.stderr)
        );
        Ok((run, series))
    }

    /// A start of it that reads nothing: lustrefs-exporter, which has its parsers, stays.
    ///
    /// # Errors
    /// When it fails.
    pub(super) fn start(&self) -> Result<Duration> {
        let run = self.run(Command::new(&self.program).arg("--version"))?;
        ensure!(
            run.output.status.success(),
            "{}: {}",
            PROGRAM.name,
            run.output.status
        );
        Ok(run.cpu)
    }

    /// The programs that it starts in a scrape, alone: how many, and their processor time.
    ///
    /// # Errors
    /// When one fails.
    pub(super) fn started(&self) -> Result<(usize, Duration)> {
        let mut cpu = Duration::ZERO;
        for (name, args) in STARTED {
            let run = self.run(Command::new(self.folder.join(name)).args(args))?;
            ensure!(run.output.status.success(), "{name}: {}", run.output.status);
            cpu += run.cpu;
        }
        Ok((STARTED.len(), cpu))
    }

    fn run(&self, command: &mut Command) -> Result<Run> {
        let before = of_children()?;
        let output = command
            .env("PATH", format!("{}:/usr/bin:/bin", self.folder.display()))
            .stdin(Stdio::null())
            .output()?;
        Ok(Run {
            output,
            cpu: of_children()?.saturating_sub(before),
        })
    }
}

/// Processor time of ended children, and of theirs for which they waited.
fn of_children() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let of = |time: TimeVal| -> Result<Duration> {
        let micros = u32::try_from(time.tv_usec())?;
        Ok(Duration::from_secs(u64::try_from(time.tv_sec())?) + Duration::from_micros(micros.into()))
    };
    Ok(of(usage.user_time())? + of(usage.system_time())?)
}
