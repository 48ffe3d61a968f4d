//! The runner of site commands (`[commands.NAME]`): outside of the sandbox, in an instance per command. A request names a command
//! and carries JSON for its standard input; program, arguments and time limit come from the configuration, which the instance
//! reads itself. Under systemd an instance is started for each connection (`nodewarden-act.socket`); without it, it is a thread of
//! a child that the parent starts before it restricts itself.

mod client;
mod command;
#[cfg(test)]
pub(crate) mod fake;
mod gpfs;
mod instance;
mod lane;
mod proto;
mod serve;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub use client::{CallError, Client};
pub use proto::{MAX_INPUT, MAX_KEPT, Reply, Request};
pub use serve::{Runner, RunnerError};

/// The run directory of the unit.
pub const SYSTEM_RUN: &str = "/run/nodewarden";

/// Where systemd listens.
const SYSTEM_SOCKET: &str = "/run/nodewarden-act.sock";

/// Where instances under systemd keep their locks (`RuntimeDirectory=`).
const SYSTEM_LOCKS: &str = "/run/nodewarden-act";

/// Why a command of the site is not run.
pub(crate) const NO_RUNNER: &str = "no runner of site commands; restart nodewarden";

/// The folder of socket and locks in root's folder of the run directory, without systemd.
const FOLDER: &str = "act";

/// The socket's name in that folder.
const SOCKET: &str = "socket";

/// The arguments with which an instance reads the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigArgs {
    /// `--config`.
    pub file: Option<PathBuf>,
    /// `--set`.
    pub sets: Vec<String>,
}

impl ConfigArgs {
    fn parse(args: &[String]) -> anyhow::Result<Self> {
        let mut parsed = Self::default();
        for pair in args.chunks(2) {
            match pair {
                [flag, file] if flag == "--config" => parsed.file = Some(file.into()),
                [flag, set] if flag == "--set" => parsed.sets.push(set.clone()),
                _ => anyhow::bail!("found {pair:?}, expected --config FILE or --set KEY=VALUE"),
            }
        }
        Ok(parsed)
    }
}

/// `nodewarden act`: an instance under systemd, whose connection is descriptor 0. `nodewarden act serve FOLDER ...`: the child of
/// the parent, whose listener is descriptor 0.
///
/// # Errors
/// When descriptor 0 is no such socket.
pub fn main(args: &[String]) -> anyhow::Result<ExitCode> {
    match args {
        [verb, folder, rest @ ..] if verb == "serve" => {
            sys::set_process_name("nw-act");
            serve::serve(Path::new(folder), &ConfigArgs::parse(rest)?)?;
        }
        rest => {
            let config = ConfigArgs::parse(rest)?;
            sys::log::start("info")?;
            instance::run(sys::stdin_socket()?, Path::new(SYSTEM_LOCKS), &config);
        }
    }
    Ok(ExitCode::SUCCESS)
}
