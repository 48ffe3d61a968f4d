//! The arguments of `nodewarden run`.

use std::path::PathBuf;

use collectors::Env;

use super::dirs::Dirs;
use crate::config::Listen;

/// The arguments of `nodewarden run`.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    /// Configuration file; `conf.d/*.toml` beside it are read too. Default: /etc/nodewarden/nodewarden.toml, if it exists.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Listen address, interface or network; overrides the configuration; repeatable.
    #[arg(long, value_name = "WHERE:PORT")]
    pub listen: Vec<Listen>,
    /// Read /sys and /proc below this directory.
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
    /// Read this recording instead of this machine.
    #[arg(long, value_name = "DIR", conflicts_with = "sysroot")]
    pub recorded: Option<PathBuf>,
    /// Directory for state that survives restarts.
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Directory for sockets, locks and the verdict.
    #[arg(long, value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
    /// Set one key of the configuration to a TOML value; repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Use this boot id.
    #[cfg(feature = "testing")]
    #[arg(long, hide = true)]
    pub test_boot_id: Option<String>,
    /// Use this boot time, in seconds since the epoch.
    #[cfg(feature = "testing")]
    #[arg(long, hide = true)]
    pub test_boot_time: Option<i64>,
}

impl RunArgs {
    /// The settings for [`crate::config::Config::load`]; `--listen` is the last one.
    pub fn sets(&self) -> Vec<String> {
        let mut sets = self.set.clone();
        if !self.listen.is_empty() {
            let all: Vec<String> = self.listen.iter().map(|a| format!("\"{a}\"")).collect();
            sets.push(format!("listen=[{}]", all.join(", ")));
        }
        sets
    }

    /// What the collectors read.
    pub fn env(&self) -> Env {
        let env = match (&self.recorded, &self.sysroot) {
            (Some(recorded), _) => Env::recorded(recorded),
            (None, Some(sysroot)) => Env::with_sysroot(sysroot),
            (None, None) => Env::default(),
        };
        #[cfg(feature = "testing")]
        let env = Env {
            boot_id: self.test_boot_id.clone(),
            ..env
        };
        env
    }

    /// The boot time set by a test.
    pub fn forged_boot_time(&self) -> Option<i64> {
        #[cfg(feature = "testing")]
        return self.test_boot_time;
        #[cfg(not(feature = "testing"))]
        None
    }

    /// Run and state directory: the given ones, else this user's defaults.
    pub fn dirs(&self) -> Dirs {
        let default = Dirs::own();
        Dirs {
            run: self.run_dir.clone().unwrap_or(default.run),
            state: self.state_dir.clone().unwrap_or(default.state),
        }
    }
}
