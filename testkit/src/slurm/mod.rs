//! A real throw-away Slurm as root, without systemd: munged, slurmctld and one slurmd per node, loopback only.
//!
//! All nodes are this host, as Debian's slurmd allows with `-N`; GPUs are character devices without a driver.
//! Several clusters run side by side: each has its own folder, key, sockets and ports.

mod absent;
pub mod cgroups;
mod config;
mod installation;
mod job;
mod node;
mod process;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;
use tempfile::TempDir;

pub use cgroups::{Cgroups, Version};
pub use installation::Installation;
pub use node::Node;
pub use process::steps;

use crate::exec::{self, Output};
use crate::executable;
use crate::guard::Guard;
use crate::ports::Port;
use crate::wait;
use absent::Absent;
use process::SlurmProcess;

/// Configuration of a cluster.
#[derive(Clone, Debug)]
pub struct SlurmOptions {
    /// The Slurm installation to run.
    pub installation: Installation,
    /// Number of nodes, named `node_prefix` and 0, 1, ...
    pub nodes: usize,
    /// Further configured nodes, named by the numbers that follow, without a slurmd: see
    /// [`Slurm::register_absent`].
    pub absent: usize,
    /// GPUs of each node.
    pub gpus: usize,
    /// Prefix of node names.
    pub node_prefix: String,
    /// CPUs of each node. More CPUs than this machine has need `config_overrides`; Slurm then no longer drains a node
    /// that reports too few.
    pub cpus: Option<usize>,
    /// Lines for gres.conf in place of ours; `@DEV@` is the folder of the fake GPUs.
    pub gres_conf: Option<String>,
    /// Further character devices in the folder of the fake GPUs: name, major and minor.
    pub devices: Vec<(String, u64, u64)>,
    /// The nodes' `Gres=` in place of `gpu:h100:<gpus>`.
    pub node_gres: Option<String>,
    /// Further lines for slurm.conf; the last line with a key has precedence.
    pub extra_conf: String,
    /// With a root: beside each slurmd, a process of its name and arguments in this machine's root folder.
    pub slurmd_here: bool,
    /// Environment of every slurmd and of its children.
    pub slurmd_env: Vec<(String, String)>,
    /// Cgroups for jobs; `None`: without cgroups.
    pub cgroups: Option<Cgroups>,
    /// Text of the prolog, which slurmd runs as root before a job.
    pub prolog: Option<String>,
    /// Text of the epilog, after a job.
    pub epilog: Option<String>,
}

impl Default for SlurmOptions {
    fn default() -> Self {
        Self {
            installation: Installation::Machine,
            nodes: 1,
            absent: 0,
            gpus: 8,
            node_prefix: "n".into(),
            cpus: None,
            gres_conf: None,
            devices: Vec::new(),
            node_gres: None,
            extra_conf: String::new(),
            slurmd_here: false,
            slurmd_env: Vec::new(),
            cgroups: None,
            prolog: None,
            epilog: None,
        }
    }
}

/// A running cluster. Dropping it ends its processes, job steps included, and removes its folder.
#[derive(Debug)]
pub struct Slurm {
    base: TempDir,
    options: SlurmOptions,
    ports: Vec<Port>,
    absent: Absent,
    guard: Option<Guard>,
    munged: Option<SlurmProcess>,
    slurmctld: Option<SlurmProcess>,
    slurmds: BTreeMap<String, SlurmProcess>,
    start_time: Duration,
    version: (u32, u32),
    /// Whether this cluster created the cgroups of its node names.
    is_prepared: bool,
}

impl Slurm {
    /// Starts a cluster and returns when all its nodes are registered and idle.
    pub fn start(options: SlurmOptions) -> Result<Self> {
        let begin = Instant::now();
        if !nix::unistd::geteuid().is_root() {
            bail!("a throw-away Slurm needs root");
        }
        let version = options.installation.version()?;
        let base = config::folder(&options.installation.folder())?;
        let ports = (0..=options.nodes)
            .map(|_| Port::reserve())
            .collect::<Result<_>>()?;
        let absent = Absent::of(options.absent)?;
        let mut slurm = Self {
            base,
            options,
            ports,
            absent,
            guard: None,
            munged: None,
            slurmctld: None,
            slurmds: BTreeMap::new(),
            start_time: Duration::ZERO,
            version,
            is_prepared: false,
        };
        slurm.launch().map_err(|error| error.context(slurm.log_tails()))?;
        slurm.start_time = begin.elapsed();
        Ok(slurm)
    }

    fn launch(&mut self) -> Result<()> {
        let mark = format!("{}={}", process::MARK, self.base().display());
        self.guard = Some(Guard::of_cluster(&mark, self.base(), &self.folders()?)?);
        config::write(self)?;
        if let Some(cgroups) = self.options.cgroups {
            cgroups::prepare(self, cgroups.version)?;
            self.is_prepared = true;
        }
        self.munged = Some(process::munged(self.base())?);
        self.start_controller()?;
        for name in self.node_names() {
            self.start_slurmd(&name)?;
        }
        for name in self.node_names() {
            self.wait_registered(&name)?;
        }
        Ok(())
    }

    /// Cgroups created by Slurm and by us.
    fn folders(&self) -> Result<Vec<PathBuf>> {
        match self.options.cgroups {
            Some(cgroups) => cgroups::all(self, cgroups.version),
            None => Ok(Vec::new()),
        }
    }

    fn base(&self) -> &Path {
        self.base.path()
    }

    /// The cluster's folder, removed at the end.
    pub fn dir(&self) -> &Path {
        self.base()
    }

    /// Its version, such as (22, 5).
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// How long [`Slurm::start`] took.
    pub fn start_time(&self) -> Duration {
        self.start_time
    }

    /// slurm.conf of the controller and of commands.
    pub fn conf(&self) -> PathBuf {
        self.base().join("etc/slurm.conf")
    }

    /// slurm.conf of one slurmd, in a folder with its own gres.conf.
    pub fn node_conf(&self, name: &str) -> PathBuf {
        self.base().join("etc-nodes").join(name).join("slurm.conf")
    }

    /// Environment for Slurm's commands to reach this cluster.
    pub fn env(&self) -> Vec<(String, String)> {
        vec![("SLURM_CONF".into(), self.conf().display().to_string())]
    }

    /// Names of all nodes.
    pub fn node_names(&self) -> Vec<String> {
        (0..self.options.nodes)
            .map(|i| format!("{}{i}", self.options.node_prefix))
            .collect()
    }

    /// Runs one of Slurm's commands with a deadline; accepts every exit code.
    pub fn command(&self, program: &str, args: &[&str]) -> Result<Output> {
        let mut command = self.options.installation.command(program, None)?;
        // Jobs inherit the mark from here.
        command
            .args(args)
            .envs(self.env())
            .env(process::MARK, self.base())
            .current_dir("/");
        exec::run(command, b"", Duration::from_secs(60))
    }

    /// Runs one scontrol that reads these commands, one a line: thousands of them need no process each.
    pub fn scontrol_lines(&self, lines: &[String]) -> Result<Output> {
        let mut command = self.options.installation.command("scontrol", None)?;
        command
            .envs(self.env())
            .env(process::MARK, self.base())
            .current_dir("/");
        let input = lines.join("\n") + "\nquit\n";
        exec::run(command, input.as_bytes(), Duration::from_secs(300))
    }

    /// A folder with scontrol and sinfo of this cluster's release, which enter no other root folder.
    pub fn programs(&self) -> Result<PathBuf> {
        let folder = self.base().join("bin");
        let conf = folder.join("slurm.conf");
        let text = fs::read_to_string(self.conf())? + &self.options.installation.plugins();
        fs::write(&conf, text)?;
        let scripts = folder.join("scripts");
        fs::create_dir_all(&scripts)?;
        for program in ["scontrol", "sinfo"] {
            let command = self.options.installation.here(program)?;
            let words = std::iter::once(command.get_program()).chain(command.get_args());
            let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
            let text = format!(
                "#!/bin/sh\nSLURM_CONF={} exec {} \"$@\"\n",
                conf.display(),
                words.join(" ")
            );
            let script = scripts.join(program);
            executable::write(&script, &text)?;
        }
        Ok(scripts)
    }

    /// What slurmctld has logged so far.
    pub fn controller_log(&self) -> Result<String> {
        let file = self.base().join("log/slurmctld.log");
        let bytes = fs::read(&file).with_context(|| file.display().to_string())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Runs scontrol; see [`Slurm::command`].
    pub fn scontrol(&self, args: &[&str]) -> Result<Output> {
        self.command("scontrol", args)
    }

    /// The output of `scontrol show node`.
    pub fn node(&self, name: &str) -> Result<Node> {
        Node::parse(&self.scontrol(&["show", "node", name])?.ok()?.stdout)
    }

    /// The node's `State=`, such as `IDLE+DRAIN`.
    pub fn state(&self, name: &str) -> Result<String> {
        Ok(self.node(name)?.state().to_owned())
    }

    /// The node's reason, without its user and time; `None` if the node has no reason.
    pub fn reason(&self, name: &str) -> Result<Option<String>> {
        Ok(self.node(name)?.reason().map(str::to_owned))
    }

    fn update(&self, name: &str, assignments: &[&str]) -> Result<()> {
        let node = format!("NodeName={name}");
        let args: Vec<&str> = ["update", &node]
            .into_iter()
            .chain(assignments.iter().copied())
            .collect();
        self.scontrol(&args)?.ok().map(drop)
    }

    /// Drains the node like an administrator.
    pub fn drain(&self, name: &str, reason: &str) -> Result<()> {
        self.update(name, &["State=DRAIN", &format!("Reason={reason}")])
    }

    /// Sets `State=DOWN` like an administrator.
    pub fn down(&self, name: &str, reason: &str) -> Result<()> {
        self.update(name, &["State=DOWN", &format!("Reason={reason}")])
    }

    /// `State=RESUME`.
    pub fn resume(&self, name: &str) -> Result<()> {
        self.update(name, &["State=RESUME"])
    }

    /// `State=UNDRAIN`.
    pub fn undrain(&self, name: &str) -> Result<()> {
        self.update(name, &["State=UNDRAIN"])
    }

    /// Replaces only the reason, as newer controllers do after an invalid registration.
    pub fn set_reason(&self, name: &str, reason: &str) -> Result<()> {
        self.update(name, &[&format!("Reason={reason}")])
    }

    /// Waits until the node's state satisfies `predicate`, and returns it. Retries while the controller is unreachable.
    pub fn wait_state(
        &self,
        name: &str,
        predicate: impl Fn(&str) -> bool,
        timeout: Duration,
    ) -> Result<String> {
        let mut last = String::new();
        wait::until(&format!("state of {name}"), timeout, || {
            if let Ok(state) = self.state(name) {
                last = state;
            }
            Ok(predicate(&last).then(|| last.clone()))
        })
        .with_context(|| format!("last state of {name}: {last}"))
    }

    fn wait_registered(&self, name: &str) -> Result<()> {
        wait::until(&format!("{name} registered and idle"), wait::PATIENCE, || {
            for daemon in self
                .munged
                .iter()
                .chain(&self.slurmctld)
                .chain(self.slurmds.values())
            {
                daemon.check()?;
            }
            let Ok(node) = self.node(name) else {
                return Ok(None);
            };
            let registered = node.get("SlurmdStartTime").is_some_and(|t| t != "None");
            Ok((registered && node.state() == "IDLE").then_some(()))
        })
    }

    /// Freezes the controller: commands then hang.
    pub fn stop_controller(&self) -> Result<()> {
        self.controller()?.signal(Signal::SIGSTOP)
    }

    /// Thaws it.
    pub fn cont_controller(&self) -> Result<()> {
        self.controller()?.signal(Signal::SIGCONT)
    }

    fn controller(&self) -> Result<&SlurmProcess> {
        self.slurmctld.as_ref().context("slurmctld does not run")
    }

    /// Process id of the controller.
    pub fn controller_pid(&self) -> Result<u32> {
        Ok(self.controller()?.pid())
    }

    /// Ends the controller at once: commands then fail after a while.
    pub fn kill_controller(&mut self) -> Result<()> {
        self.slurmctld.take().context("slurmctld does not run")?.kill();
        Ok(())
    }

    /// Restarts the controller with its saved state, and waits until it answers.
    pub fn start_controller(&mut self) -> Result<()> {
        if self.slurmctld.is_some() {
            bail!("slurmctld runs");
        }
        let mut command = self.options.installation.command("slurmctld", None)?;
        command.args(["-D", "-i", "-f"]).arg(self.conf()).envs(self.env());
        let daemon = self
            .slurmctld
            .insert(SlurmProcess::start(command, self.base(), "slurmctld")?);
        let address = (std::net::Ipv4Addr::LOCALHOST, self.ports[0].number());
        wait::until("slurmctld listens", wait::PATIENCE, || {
            daemon.check()?;
            Ok(std::net::TcpStream::connect(address).ok().map(drop))
        })
    }

    fn start_slurmd(&mut self, name: &str) -> Result<()> {
        let mut command = cgroups::slurmd(self, name)?;
        command
            .args(["-D", "-N", name, "-f"])
            .arg(self.node_conf(name))
            .envs(self.options.slurmd_env.clone());
        let daemon = SlurmProcess::start(command, self.base(), &format!("slurmd-{name}"))?;
        self.slurmds.insert(name.to_owned(), daemon);
        self.start_slurmd_here(name)
    }

    fn start_slurmd_here(&mut self, name: &str) -> Result<()> {
        let (folder, conf) = (self.base().join("bin"), self.node_conf(name));
        let installation = &self.options.installation;
        if self.options.slurmd_here
            && let Some(command) = installation.slurmd_here(&folder, name, &conf)?
        {
            let process = SlurmProcess::start(command, self.base(), &format!("here-{name}"))?;
            self.slurmds.insert(here(name), process);
        }
        Ok(())
    }

    /// Process id of a node's slurmd.
    pub fn slurmd_pid(&self, name: &str) -> Result<u32> {
        Ok(self
            .slurmds
            .get(name)
            .with_context(|| format!("no slurmd {name}"))?
            .pid())
    }

    /// Ends a node's slurmd at once.
    pub fn kill_slurmd(&mut self, name: &str) -> Result<()> {
        self.slurmds
            .remove(name)
            .with_context(|| format!("no slurmd {name}"))?
            .kill();
        if let Some(here) = self.slurmds.remove(&here(name)) {
            here.kill();
        }
        Ok(())
    }

    /// Restarts a node's slurmd with `gpus` GPUs in its gres.conf, and waits until it has registered. The controller
    /// still expects the configured number. With fewer, slurmctld sets INVALID_REG and drains the node with "gres/gpu
    /// count reported lower than configured"; 22.05 keeps the reason of a node that is already drained or down.
    pub fn restart_slurmd(&mut self, name: &str, gpus: usize) -> Result<()> {
        if self.slurmds.contains_key(name) {
            self.kill_slurmd(name)?;
        }
        fs::write(
            self.node_conf(name).with_file_name("gres.conf"),
            config::gres_conf(self, gpus),
        )?;
        let started = |node: &Node| node.get("SlurmdStartTime").map(str::to_owned);
        let before = started(&self.node(name)?);
        // The start time, in whole seconds, distinguishes the new registration from the old one.
        let second = || {
            std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map(|t| t.as_secs())
        };
        let now = second()?;
        wait::until("the next second", wait::PATIENCE, || {
            Ok((second()? > now).then_some(()))
        })?;
        self.start_slurmd(name)?;
        wait::until(&format!("registration of {name}"), wait::PATIENCE, || {
            self.slurmds[name].check()?;
            Ok(self
                .node(name)
                .ok()
                .filter(|node| started(node) != before)
                .map(drop))
        })
        .with_context(|| self.log_tails())
    }

    /// The first errors and the last lines of every log, for error messages.
    pub fn log_tails(&self) -> String {
        let mut text = String::new();
        let Ok(dir) = fs::read_dir(self.base().join("log")) else {
            return text;
        };
        for file in dir.flatten() {
            let log = fs::read(file.path()).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            // Debug lines would hide the relevant ones.
            let lines: Vec<&str> = log.lines().filter(|l| !l.contains(" debug:")).collect();
            let (older, tail) = lines.split_at(lines.len().saturating_sub(8));
            let errors = older.iter().filter(|l| l.contains("error"));
            let shown: Vec<&str> = errors.take(20).chain(tail).copied().collect();
            text += &format!("{}:\n  {}\n", file.path().display(), shown.join("\n  "));
        }
        text
    }
}

/// The key of the process that stands for a slurmd in a root.
fn here(name: &str) -> String {
    format!("{name} here")
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // The daemons first, so that nothing new starts. SIGKILL, because saving their state takes seconds.
        let slurmds = std::mem::take(&mut self.slurmds).into_values();
        slurmds.chain(self.slurmctld.take()).for_each(SlurmProcess::kill);
        self.munged = None;
        process::end_steps(self.base.path());
        if self.is_prepared {
            cgroups::remove(&self.folders().unwrap_or_default());
        }
        self.guard = None;
    }
}
