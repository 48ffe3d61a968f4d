//! The configuration: TOML, everything defaulted. What is written must be understood: an unknown key, a wrong type or a
//! bad value refuses the whole, and every problem is named with file, line and column.

pub mod duration;
mod error;
mod example;
mod jobs;
mod keys;
mod listen;
mod load;
mod loaded;
mod rdma;
mod source;
mod suggest;
mod tables;
mod value;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

pub use error::{ConfigError, Place, Problem};
pub use example::{keys, render_default};
pub use listen::{Listen, Network, NotListen};
pub use load::{KnownCheck, Parsed, reload};
pub use loaded::{Loaded, Origin, Read, read};
pub use source::DEFAULT_FILE;

/// The whole configuration, checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// `listen`: where /metrics is served. Default 127.0.0.1:19190; port 0 picks one.
    pub listen: Vec<Listen>,
    /// `[health]`.
    pub health: health::Settings,
    /// `[slurm]`.
    pub slurm: slurm::Settings,
    /// `[metrics]`.
    pub metrics: exposition::Defaults,
    /// `log.level`: error, warn, info (default), debug, trace.
    pub log_level: String,
    /// Tables of collectors, as TOML text, by collector name; checked by each collector.
    pub collectors: BTreeMap<String, String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: vec![Listen::Address(SocketAddr::from(([127, 0, 0, 1], 19190)))],
            health: health::Settings::default(),
            slurm: slurm::Settings::default(),
            metrics: exposition::Defaults::default(),
            log_level: "info".to_owned(),
            collectors: BTreeMap::new(),
        }
    }
}
