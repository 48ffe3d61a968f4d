//! The configuration: TOML, with a default for every key. An unknown key, a wrong type or a bad value rejects the
//! whole configuration, and every error is reported with file, line and column.

mod commands;
mod error;
mod example;
pub mod gpfs;
mod health_command;
mod jobs;
mod keys;
mod listen;
mod load;
mod loaded;
pub(crate) mod nhc;
mod notify;
mod profile;
mod source;

use std::collections::BTreeMap;
use std::path::PathBuf;

use collectors::settings::Key;
use collectors::{COLLECTORS, Settings};
use serde::{Deserialize, Serialize};

use crate::own::JobAccess;

pub use collectors::settings::duration;
pub use commands::{SiteCommand, check_name};
pub use error::{ConfigError, Place, Problem};
pub use example::render_default;
pub use health_command::{Exits, HealthCommand};
pub use listen::{Listen, Network, NotListen};
pub use load::{KnownCheck, Parsed};
pub use loaded::{Loaded, Origin, Read, read};
pub use notify::Notify;
pub use profile::drop_in;
pub use source::DEFAULT_FILE;

/// Every key, of the daemon and of collectors, in the order of the reference.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    let of_collectors = COLLECTORS.iter().flat_map(|spec| spec.keys);
    keys::KEYS.iter().chain(of_collectors).copied()
}

/// The whole configuration, checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// `listen`: addresses that serve /metrics. Default 127.0.0.1:19190; port 0 picks a free port.
    pub listen: Vec<Listen>,
    /// `web_config_file`: TLS and users of these addresses. The parent reads it.
    pub web_config_file: Option<PathBuf>,
    /// `[health]`.
    pub health: health::Settings,
    /// `[slurm]`.
    pub slurm: slurm::Settings,
    /// `[metrics]`.
    pub metrics: exposition::Defaults,
    /// `access.jobs`.
    pub access: JobAccess,
    /// `[commands]`: only the runner uses them, and reads them itself; the daemon gets none.
    #[serde(skip)]
    pub commands: BTreeMap<String, SiteCommand>,
    /// `[[health.command]]`: those that the parent starts.
    pub health_commands: Vec<HealthCommand>,
    /// `[notify]`: `None`: no command is set.
    pub notify: Option<Notify>,
    /// `log.level`: error, warn, info (default), debug, trace.
    pub log_level: String,
    /// Settings of collectors.
    pub collectors: Settings,
}

impl Config {
    /// Whether the runner has commands to run. The last good configuration has none of [`Self::commands`], but what names them: the
    /// runner, which starts with the parent only, reads them once the file is repaired.
    pub fn needs_runner(&self) -> bool {
        !self.commands.is_empty()
            || !self.health_commands.is_empty()
            || self.notify.is_some()
            || self.runs_gpfs_commands()
    }
}

/// Every default: those of the rows.
#[cfg(test)]
impl Default for Config {
    fn default() -> Self {
        Self::of(&Settings::default(), Settings::default()).unwrap()
    }
}
