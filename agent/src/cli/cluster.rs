//! scontrol as a subcommand uses it: for the cluster, not for the own node.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};

use super::screen;
use crate::parent::slurm::find::{self, Boot, LocalSlurmd, Search};
use crate::parent::slurm::here;
use crate::parent::slurm::scontrol::Scontrol;
use sys::spawn::CommandOutput;

/// The cluster of this machine's slurmd, of the configuration, or of $SLURM_CONF.
pub(super) struct Cluster {
    scontrol: Scontrol,
    settings: slurm::Settings,
    slurmd: LocalSlurmd,
}

impl Cluster {
    /// With these settings. A login node has no slurmd.
    pub(super) fn find(mut settings: slurm::Settings) -> Self {
        let hostname = here::hostname();
        let search = Search {
            proc: Path::new("/proc"),
            uid: nix::unistd::geteuid().as_raw(),
            hostname: &hostname,
            wanted: settings.node_name.as_deref(),
        };
        let slurmd = find::find(&search).unwrap_or_else(|_| LocalSlurmd {
            node_name: String::new(),
            conf: None,
            exe: None,
            process: None,
            boot: Boot::Machine,
        });
        if settings.timeout.is_zero() {
            settings.timeout = Duration::from_secs(10);
        }
        if let Some(conf) = std::env::var_os("SLURM_CONF") {
            settings.conf = Some(PathBuf::from(conf));
        }
        Self {
            scontrol: Scontrol::default(),
            settings,
            slurmd,
        }
    }

    /// The node of the slurmd that runs here.
    pub(super) fn node(&self) -> Option<&str> {
        Some(self.slurmd.node_name.as_str()).filter(|name| !name.is_empty())
    }

    /// Runs scontrol.
    ///
    /// # Errors
    /// Its words, where it fails.
    pub(super) fn run(&mut self, args: Vec<String>) -> anyhow::Result<CommandOutput> {
        let shown = args.iter().take(2).cloned().collect::<Vec<_>>().join(" ");
        let output = self
            .scontrol
            .run(&self.settings, &self.slurmd, args)
            .with_context(|| format!("scontrol {shown}"))?;
        if output.code != 0 {
            let text = [&output.stderr, &output.stdout]
                .map(|bytes| String::from_utf8_lossy(bytes).trim().to_owned());
            bail!("scontrol {shown}: {}", screen::clean(&text.join(" ")));
        }
        Ok(output)
    }
}
