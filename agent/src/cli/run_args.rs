//! The arguments of `nodewarden run`.

use std::path::PathBuf;

use collectors::Env;

use super::dirs::Dirs;
use crate::config::Listen;

/// The arguments of `nodewarden run`.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    /// The configuration file. Default: /etc/nodewarden/nodewarden.toml, where it is there.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Serve here, whatever the configuration says: an address, interface or network. May be given more than once.
    #[arg(long, value_name = "WHERE:PORT")]
    pub listen: Vec<Listen>,
    /// Read /sys and /proc below this folder.
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
    /// Read a recording and nothing that is live.
    #[arg(long, value_name = "DIR", conflicts_with = "sysroot")]
    pub recorded: Option<PathBuf>,
    /// Where state is kept over restarts.
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Where sockets, locks and the verdict are.
    #[arg(long, value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
    /// Set one key of the configuration, the value in TOML. May be given more than once.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Take this for the boot id.
    #[cfg(feature = "testing")]
    #[arg(long, hide = true)]
    pub test_boot_id: Option<String>,
    /// Take this for the time of boot, in seconds since the epoch.
    #[cfg(feature = "testing")]
    #[arg(long, hide = true)]
    pub test_boot_time: Option<i64>,
}

impl RunArgs {
    /// The settings for [`crate::config::Config::load`]; `--listen` is one of them and the last.
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

    /// The time of boot that a test forges.
    pub fn forged_boot_time(&self) -> Option<i64> {
        #[cfg(feature = "testing")]
        return self.test_boot_time;
        #[cfg(not(feature = "testing"))]
        None
    }

    /// Run and state directory: what was given, else the defaults of this user.
    pub fn dirs(&self) -> Dirs {
        let default = Dirs::own();
        Dirs {
            run: self.run_dir.clone().unwrap_or(default.run),
            state: self.state_dir.clone().unwrap_or(default.state),
        }
    }
}
