//! The site's settings of health checks. The rows of their keys are in agent/src/config/keys.rs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use collectors::PciAddress;
use collectors::rdma::Pattern;
use serde::{Deserialize, Serialize};

use crate::Mode;
use crate::scope::Scope;

/// `[health]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// `mode`: the highest mode of all checks.
    pub mode: Mode,
    /// `[health.checks]`: check id -> mode; never above `mode`.
    pub checks: BTreeMap<String, Mode>,
    /// `baseline`: drain covers checks that this version had; newer ones observe.
    pub baseline: Option<String>,
    /// `settle`: findings on one subject within this time are one incident.
    pub settle: Duration,
    /// `maintenance`: what conditions do while the node is in maintenance.
    pub maintenance: Maintenance,
    /// `gpu_addresses`: PCI addresses of the expected GPUs.
    pub gpu_addresses: Vec<PciAddress>,
    /// `[health.rdma]`.
    pub rdma: Rdma,
    /// `[health.expect]`.
    pub expect: Expect,
    /// `xids`: a file in the form of xids.toml whose rows replace single rows of the built-in table.
    pub xids: Option<PathBuf>,
    /// `command`: the site's commands that check the node.
    pub commands: Vec<Command>,
    /// `operators`: users besides root who may `ack` and `clear`.
    pub operators: Vec<String>,
    /// The part of `[slurm]` for health checks.
    pub scheduler: Scheduler,
}

/// A row of `health.command`: a command of the site that checks the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Its name.
    pub name: String,
    /// The interval of its runs.
    pub every: Duration,
    /// What its finding does to the node, never above `health.mode`.
    pub mode: Mode,
    /// Whether the fault is the node's own.
    pub scope: Scope,
    /// Consecutive results that start or end a finding.
    pub after: u32,
}

impl Command {
    /// What the ids of checks of the site begin with.
    pub const PREFIX: &str = "site-";

    /// The id of its check.
    pub fn check(&self) -> String {
        format!("{}{}", Self::PREFIX, self.name)
    }

    /// The greatest age of a result that counts.
    pub fn max_age(&self) -> Duration {
        self.every.saturating_mul(3)
    }
}

/// `health.maintenance`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Maintenance {
    /// A condition that is read as bad drains.
    #[default]
    Drain,
    /// Nothing drains before its end.
    Hold,
}

/// How nodewarden uses the scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scheduler {
    /// `timeout`: time limit of one scheduler command.
    pub timeout: Duration,
    /// `poll`: interval of readings of the own node without a fault. 0: only when needed.
    pub poll: Duration,
    /// `watch`: interval of readings while the own drain is in place or an act is withheld.
    pub watch: Duration,
    /// `undrain`: lift the own drain when its incident is cleared.
    pub undrain: bool,
    /// `hold`: the least time of a drain before nodewarden lifts it.
    pub hold: Duration,
}

/// For tests of this crate. The defaults of the keys are in their rows.
#[cfg(test)]
impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::Observe,
            checks: BTreeMap::new(),
            baseline: None,
            settle: Duration::from_secs(30),
            maintenance: Maintenance::Drain,
            gpu_addresses: Vec::new(),
            rdma: Rdma::default(),
            expect: Expect::default(),
            xids: None,
            commands: Vec::new(),
            operators: Vec::new(),
            scheduler: Scheduler {
                timeout: Duration::from_secs(10),
                poll: Duration::ZERO,
                watch: Duration::from_secs(15),
                undrain: true,
                hold: Duration::ZERO,
            },
        }
    }
}

/// `[health.expect]`: the profile of a node of this kind. `None` and empty: not judged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Expect {
    /// `gpus`: GPUs on the PCI bus, with any driver.
    pub gpus: Option<u64>,
    /// `gpu_models`: the permitted models.
    pub gpu_models: Vec<String>,
    /// `gpu_drivers`: the permitted driver versions.
    pub gpu_drivers: Vec<String>,
    /// `gpu_vbios`: the permitted VBIOS versions.
    pub gpu_vbios: Vec<String>,
    /// `nvlinks`: NVLinks of each GPU that are up.
    pub nvlinks: Option<u64>,
    /// `rdma_ports`: RDMA ports that are up.
    pub rdma_ports: Option<u64>,
    /// `memory`: in bytes.
    pub memory: Option<u64>,
    /// `cpus`: logical CPUs online.
    pub cpus: Option<u64>,
    /// `mounts`: mount points.
    pub mounts: Vec<String>,
    /// `modules`: kernel modules, as the kernel writes them: with underscores.
    pub modules: Vec<String>,
}

/// `[health.rdma]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rdma {
    /// `ports`: devices (`mlx5_0`) or ports (`mlx5_0/2`) that checks judge; empty for all.
    pub ports: Vec<Pattern>,
    /// `exclude`: devices or ports that they do not judge.
    pub exclude: Vec<Pattern>,
    /// `storage`: devices or ports of the storage fabric.
    pub storage: Vec<Pattern>,
    /// `addresses`: PCI addresses of the expected adapters.
    pub addresses: Vec<PciAddress>,
    /// `pfc`: the priorities with priority flow control, in order, each once; all others have none.
    pub pfc: Option<Vec<u64>>,
    /// `trust`: the field that sets a packet's priority: `dscp` or `pcp`.
    pub trust: Option<String>,
    /// `ecn`: the priorities with DCQCN at both points.
    pub ecn: Option<Vec<u64>>,
    /// `mtu`: of the network interface, in bytes.
    pub mtu: Option<u64>,
    /// `fec`: the forward error correction in use.
    pub fec: Option<String>,
    /// `rate`: permitted link rates in Gb/s; a node may have slower ports for storage.
    pub rate: Vec<u64>,
    /// `firmware`: the permitted versions.
    pub firmware: Vec<String>,
}

impl Rdma {
    /// Whether checks judge that port (`mlx5_0/1`).
    pub fn is_about(&self, port: &str) -> bool {
        self.lists(port) && !names(&self.exclude, port)
    }

    /// Whether `ports` selects that port.
    pub fn lists(&self, port: &str) -> bool {
        self.ports.is_empty() || names(&self.ports, port)
    }

    /// Whether that port is of the storage fabric.
    pub fn is_storage(&self, port: &str) -> bool {
        names(&self.storage, port)
    }
}

/// Whether one of them is the port or its device.
fn names(patterns: &[Pattern], port: &str) -> bool {
    let device = port.split_once('/').map_or(port, |(device, _)| device);
    patterns.iter().any(|p| p.matches(device) || p.matches(port))
}
