//! The demo's folder, pages and commands.

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use tempfile::TempDir;
use testkit::http::{self, Response};

use crate::cmd;

/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(10);

/// Pages to open, with descriptions. Only pages that answer are printed.
const PAGES: &[(&str, &str)] = &[
    ("status page", "/"),
    ("status, JSON", "/api/v1/status"),
    ("metrics", "/metrics"),
    ("in detail", "/metrics?tier=detail"),
    ("as DCGM's", "/metrics/dcgm"),
    ("as gpfs_exporter's", "/metrics/gpfs_exporter"),
];

/// Commands to try, with their exit codes after the fault.
pub(super) const COMMANDS: &[(&str, i32)] = &[
    ("status", 0),
    ("status --watch", 0),
    ("why", 0),
    ("job", 0),
    ("job 4711", 0),
    ("check", 1),
];

/// A folder with a node, and the daemon on it.
pub(crate) struct Place {
    program: PathBuf,
    listen: SocketAddr,
    dir: TempDir,
}

impl Place {
    pub(crate) fn new(program: PathBuf, listen: SocketAddr) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("nodewarden-demo-").tempdir()?;
        // Under root the workers run as other users, who may not read a checkout below a user's home.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755))?;
        Ok(Self { program, listen, dir })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.listen
    }

    pub(crate) fn node(&self) -> PathBuf {
        self.dir.path().join("node")
    }

    pub(super) fn run_dir(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// The recorded node's configuration. This machine's is not its own.
    fn config(&self) -> Result<PathBuf> {
        let file = self.node().join("health.toml");
        if !file.is_file() {
            fs::write(&file, "")?;
        }
        Ok(file)
    }

    /// The daemon's command.
    pub(super) fn command(&self) -> Result<Command> {
        let mut command = cmd::program(&self.program.to_string_lossy(), &["run", "--recorded"]);
        command
            .arg(self.node())
            .arg("--listen")
            .arg(self.listen.to_string());
        command.arg("--config").arg(self.config()?);
        command.arg("--state-dir").arg(self.dir.path().join("state"));
        command.arg("--run-dir").arg(self.run_dir());
        Ok(command)
    }

    /// A subcommand for this daemon, as printed.
    pub(super) fn subcommand(&self, words: &str) -> Command {
        let mut command = cmd::program(&self.program.to_string_lossy(), &[]);
        command
            .args(words.split(' '))
            .arg("--run-dir")
            .arg(self.run_dir());
        command
    }

    pub(crate) fn get(&self, page: &str) -> Result<String> {
        Ok(self.answer(page)?.ok()?.to_owned())
    }

    pub(crate) fn answer(&self, page: &str) -> Result<Response> {
        http::get(&self.listen.to_string(), page, &[], ANSWER)
    }

    /// Where its pages are.
    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.listen)
    }

    /// Whether the daemon has read the node.
    pub(super) fn serves(&self) -> bool {
        self.get("/-/ready").is_ok()
    }

    /// The pages that answer.
    pub(super) fn pages(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        PAGES.iter().copied().filter(|(_, page)| self.get(page).is_ok())
    }

    pub(super) fn print_where_to_look(&self) {
        println!("\nA recorded node. Nothing here touches this machine's hardware or its Slurm.\n");
        for (what, page) in self.pages() {
            println!("  {what:14} {}{page}", self.origin());
        }
        println!();
        for (words, _) in COMMANDS {
            let (program, run) = (self.program.display(), self.run_dir());
            println!("  {program} {words} --run-dir {}", run.display());
        }
        println!("\nIts time runs from now on. Ctrl-C ends it and removes its files.\n");
    }
}
