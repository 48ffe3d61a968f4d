//! Nodes that the controller has, but no machine is: thousands of configured nodes for one machine.
//!
//! A few of them register like real ones, with host name and boot time, by a slurmd that then ends. To slurmctld they
//! are nodes whose slurmd has died since: commands about them cost it what they cost with a living slurmd.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::process::SlurmProcess;
use super::{Slurm, config};
use crate::footprint;
use crate::ports::Port;
use crate::wait::{self, PATIENCE};

/// The slurmds that run at the same time.
const AT_ONCE: usize = 100;
/// Between two questions whether they are registered, which delay them.
const PAUSE: Duration = Duration::from_millis(200);

/// At most this processor time in [`WINDOW`] is idle.
const IDLE: Duration = Duration::from_millis(30);
const WINDOW: Duration = Duration::from_secs(2);

/// What absent nodes need.
#[derive(Debug, Default)]
pub(super) struct Absent {
    /// The port on which the controller does not reach them, and those of their slurmds.
    ports: Vec<Port>,
    /// The first of them are registered.
    registered: usize,
}

impl Absent {
    pub(super) fn of(count: usize) -> Result<Self> {
        let ports = if count == 0 { 0 } else { 1 + AT_ONCE };
        Ok(Self {
            ports: (0..ports).map(|_| Port::reserve()).collect::<Result<_>>()?,
            registered: 0,
        })
    }
}

/// Their names, as one host list.
pub(super) fn names(slurm: &Slurm) -> Option<String> {
    let first = slurm.options.nodes;
    let last = (first + slurm.options.absent).checked_sub(1)?;
    (slurm.options.absent > 0).then(|| format!("{}[{first}-{last}]", slurm.options.node_prefix))
}

/// The port that the controller has for all of them.
pub(super) fn port(slurm: &Slurm) -> Option<u16> {
    slurm.absent.ports.first().map(Port::number)
}

impl Slurm {
    /// Registers the next absent nodes: slurmctld then has their host name and boot time. Returns their names.
    ///
    /// # Errors
    /// When as many are not configured, or one does not register.
    pub fn register_absent(&mut self, count: usize) -> Result<Vec<String>> {
        let from = self.absent.registered;
        if from + count > self.options.absent {
            bail!("{} absent nodes are configured", self.options.absent);
        }
        let first = self.options.nodes + from;
        let prefix = &self.options.node_prefix;
        let names: Vec<String> = (first..first + count).map(|i| format!("{prefix}{i}")).collect();
        for wave in names.chunks(AT_ONCE) {
            self.register(wave)?;
        }
        self.absent.registered += count;
        Ok(names)
    }

    fn register(&self, names: &[String]) -> Result<()> {
        let ports = self.absent.ports.iter().skip(1).map(Port::number);
        let started = names
            .iter()
            .zip(ports)
            .map(|(name, port)| self.absent_slurmd(name, port));
        let slurmds = started.collect::<Result<Vec<SlurmProcess>>>()?;
        let list = names.join(",");
        let done = wait::until("absent nodes are idle", PATIENCE, || {
            std::thread::sleep(PAUSE);
            slurmds.iter().try_for_each(SlurmProcess::check)?;
            let idle = self.command("sinfo", &["-h", "-n", &list, "-t", "idle", "-o", "%D"])?;
            Ok((idle.stdout.trim() == names.len().to_string()).then_some(()))
        });
        for slurmd in slurmds {
            slurmd.kill();
        }
        done.with_context(|| self.log_tails())
    }

    /// A slurmd with a configuration of its own node alone: reading thousands takes it longer than registering.
    fn absent_slurmd(&self, name: &str, port: u16) -> Result<SlurmProcess> {
        let conf = self.node_conf(name);
        let folder = conf.parent().context("the folder of slurm.conf")?;
        fs::create_dir_all(folder)?;
        fs::create_dir_all(self.base().join("spool").join(name))?;
        fs::write(&conf, config::of_nodes(self, &[(name.to_owned(), port)], name)?)?;
        fs::write(
            folder.join("gres.conf"),
            config::gres_conf(self, self.options.gpus),
        )?;
        let mut command = self.options.installation.command("slurmd", None)?;
        command.args(["-D", "-N", name, "-f"]).arg(&conf);
        SlurmProcess::start(command, self.base(), &format!("slurmd-{name}"))
    }

    /// Waits until slurmctld has called every absent node once, which takes it seconds of processor time, and is idle.
    ///
    /// # Errors
    /// When it stays busy.
    pub fn wait_idle(&self) -> Result<()> {
        wait::until("slurmctld has called every node", PATIENCE, || {
            let states = self.command("sinfo", &["-h", "-o", "%T"])?;
            Ok(states
                .stdout
                .lines()
                .all(|state| state != "unknown")
                .then_some(()))
        })?;
        wait::until("slurmctld is idle", PATIENCE, || {
            let before = self.controller_cpu()?;
            std::thread::sleep(WINDOW);
            Ok((self.controller_cpu()? - before <= IDLE).then_some(()))
        })
    }

    /// Processor time of slurmctld so far, in steps of 10 ms.
    ///
    /// # Errors
    /// When it does not run.
    pub fn controller_cpu(&self) -> Result<Duration> {
        footprint::cpu(self.controller_pid()?)
    }
}
