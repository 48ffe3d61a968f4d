//! The configuration: TOML, everything defaulted. What is written must be understood: an unknown key, a wrong type or a
//! bad value refuses the whole, and every problem is named with file, line and column.

mod compose;
mod error;
mod example;
mod jobs;
mod keys;
mod listen;
mod load;
mod loaded;
mod source;

use std::net::SocketAddr;

use collectors::settings::Key;
use collectors::{COLLECTORS, Settings};
use serde::{Deserialize, Serialize};

pub use collectors::settings::duration;
pub use error::{ConfigError, Place, Problem};
pub use example::render_default;
pub use listen::{Listen, Network, NotListen};
pub use load::{KnownCheck, Parsed, reload};
pub use loaded::{Loaded, Origin, Read, read};
pub use source::DEFAULT_FILE;

/// Every key, of the daemon and of collectors, in the order of the reference.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    let of_collectors = COLLECTORS.iter().flat_map(|spec| spec.keys);
    keys::KEYS.iter().chain(of_collectors).copied()
}

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
    /// What is set of collectors.
    pub collectors: Settings,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: vec![Listen::Address(SocketAddr::from(([127, 0, 0, 1], 19190)))],
            health: health::Settings::default(),
            slurm: slurm::Settings::default(),
            metrics: exposition::Defaults::default(),
            log_level: "info".to_owned(),
            collectors: Settings::default(),
        }
    }
}
