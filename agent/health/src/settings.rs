//! What a site says of health checks.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use collectors::PciAddress;
use collectors::rdma::Pattern;
use serde::{Deserialize, Serialize};

use crate::Mode;

/// `[health]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// `mode`: the most that any check may do. Default observe.
    pub mode: Mode,
    /// `[health.checks]`: check id -> mode; never above `mode`.
    pub checks: BTreeMap<String, Mode>,
    /// `baseline`: drain covers checks that this version had; newer ones observe.
    pub baseline: Option<String>,
    /// `settle`: findings on one subject within this time are one incident. Default 30 s.
    pub settle: Duration,
    /// `gpu_addresses`: PCI addresses of the GPUs that must be there.
    pub gpu_addresses: Vec<PciAddress>,
    /// `[health.rdma]`.
    pub rdma: Rdma,
    /// `xids`: a file in the form of xids.toml whose rows replace single rows of the built-in table.
    pub xids: Option<PathBuf>,
    /// `operators`: users besides root who may `ack` and `clear`.
    pub operators: Vec<String>,
    /// What concerns health of `[slurm]`.
    pub scheduler: Scheduler,
}

/// How the scheduler is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scheduler {
    /// `timeout`: how long one command of its may take. Default 10 s.
    pub timeout: Duration,
    /// `poll`: how often the own node is read while nothing is wrong. Default 5 min; 0 = only when needed.
    pub poll: Duration,
    /// `watch`: how often it is read while a drain of ours stands or an act is withheld. Default 30 s.
    pub watch: Duration,
    /// `undrain`: lift our own drain when its incident is cleared. Default true.
    pub undrain: bool,
}

impl Default for Scheduler {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            poll: Duration::from_secs(300),
            watch: Duration::from_secs(30),
            undrain: true,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::Observe,
            checks: BTreeMap::new(),
            baseline: None,
            settle: Duration::from_secs(30),
            gpu_addresses: Vec::new(),
            rdma: Rdma::default(),
            xids: None,
            operators: Vec::new(),
            scheduler: Scheduler::default(),
        }
    }
}

/// `[health.rdma]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rdma {
    /// `ports`: devices (`mlx5_0`) or ports (`mlx5_0/2`) that are to be as the rest says; empty for all.
    pub ports: Vec<Pattern>,
    /// `exclude`: devices or ports that need not be.
    pub exclude: Vec<Pattern>,
    /// `addresses`: PCI addresses of the adapters that must be there.
    pub addresses: Vec<PciAddress>,
    /// `pfc`: the priorities that have priority flow control, in order, each once; all others have none.
    pub pfc: Option<Vec<u64>>,
    /// `trust`: what decides about a packet's priority: `dscp` or `pcp`.
    pub trust: Option<String>,
    /// `ecn`: the priorities that have DCQCN at both points.
    pub ecn: Option<Vec<u64>>,
    /// `mtu`: of the network interface, in bytes.
    pub mtu: Option<u64>,
    /// `fec`: the forward error correction in use.
    pub fec: Option<String>,
    /// `rate`: those that a link may have, in gigabits per second; a node may have slower ports for storage.
    pub rate: Vec<u64>,
    /// `firmware`: the versions that are allowed.
    pub firmware: Vec<String>,
}

impl Rdma {
    /// Whether what is said here is said of that port (`mlx5_0/1`).
    pub fn is_about(&self, port: &str) -> bool {
        let device = port.split_once('/').map_or(port, |(device, _)| device);
        let names = |p: &Pattern| p.matches(device) || p.matches(port);
        let named = self.ports.is_empty() || self.ports.iter().any(names);
        named && !self.exclude.iter().any(names)
    }
}
