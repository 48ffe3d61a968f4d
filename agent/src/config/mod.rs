//! The configuration: TOML, everything defaulted. What is written must be understood: an unknown key, a wrong type or a
//! bad value refuses the whole, and every problem is named with file, line and column.

pub mod duration;
mod error;
mod example;
mod jobs;
mod keys;
mod listen;
mod load;
mod rdma;
mod source;
mod suggest;
mod tables;
mod value;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use collectors::{PciAddress, Tier};
use serde::{Deserialize, Serialize};

use crate::health::Mode;

pub use error::{ConfigError, Place, Problem};
pub use example::{keys, render_default};
pub use listen::{Listen, Network, NotListen};
pub use load::{KnownCheck, Loaded, reload};
pub use rdma::Rdma;
pub use source::DEFAULT_FILE;

/// The whole configuration, checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// `listen`: where /metrics is served. Default 127.0.0.1:19190; port 0 picks one.
    pub listen: Vec<Listen>,
    /// `[health]`.
    pub health: Health,
    /// `[slurm]`.
    pub slurm: Slurm,
    /// `[metrics]`.
    pub metrics: Metrics,
    /// `log.level`: error, warn, info (default), debug, trace.
    pub log_level: String,
    /// Tables of collectors, as TOML text, by collector name; checked by each collector.
    pub collectors: BTreeMap<String, String>,
}

/// `[health]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Health {
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
}

/// `[slurm]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slurm {
    /// `node_name`: which slurmd of this host is ours, where several run.
    pub node_name: Option<String>,
    /// `scontrol`: its path; found by itself where absent.
    pub scontrol: Option<PathBuf>,
    /// `conf`: slurm.conf; taken from the running slurmd where absent.
    pub conf: Option<PathBuf>,
    /// `timeout`: how long one scontrol may take. Default 10 s.
    pub timeout: Duration,
    /// `poll`: how often the own node is read while nothing is wrong. Default 5 min; 0 = only when needed.
    pub poll: Duration,
    /// `watch`: how often it is read while a drain of ours stands or an act is withheld. Default 30 s.
    pub watch: Duration,
    /// `undrain`: lift our own drain when its incident is cleared. Default true.
    pub undrain: bool,
}

/// `[metrics]`: what `/metrics` serves to whoever asks for nothing in particular.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metrics {
    /// `tier`: the highest tier. Default core.
    pub tier: Tier,
    /// `include`: metrics that are served although their tier is higher.
    pub include: Vec<String>,
    /// `exclude`: metrics that are never served.
    pub exclude: Vec<String>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            tier: Tier::Core,
            include: Vec::new(),
            exclude: Vec::new(),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: vec![Listen::Address(SocketAddr::from(([127, 0, 0, 1], 19190)))],
            health: Health::default(),
            slurm: Slurm::default(),
            metrics: Metrics::default(),
            log_level: "info".to_owned(),
            collectors: BTreeMap::new(),
        }
    }
}

impl Default for Health {
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
        }
    }
}

impl Default for Slurm {
    fn default() -> Self {
        Self {
            node_name: None,
            scontrol: None,
            conf: None,
            timeout: Duration::from_secs(10),
            poll: Duration::from_secs(300),
            watch: Duration::from_secs(30),
            undrain: true,
        }
    }
}
