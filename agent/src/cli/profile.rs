//! `nodewarden profile`: prints what this node has now, as a configuration that expects it.

use std::path::PathBuf;
use std::process::ExitCode;

use super::{client, dirs, screen};
use crate::config::drop_in;
use crate::http::control::{Reply, Request};

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
pub(super) enum ProfileCommand {
    /// Print the profile of this node as a drop-in file; exit 1 while an incident is open or a reading is missing.
    #[command(after_long_help = super::help::PROFILE)]
    Learn {
        /// The daemon's run directory.
        #[arg(long, value_name = "DIR")]
        run_dir: Option<PathBuf>,
    },
}

/// Runs the subcommand. Nothing is written anywhere.
pub(super) fn profile(command: &ProfileCommand) -> anyhow::Result<ExitCode> {
    let ProfileCommand::Learn { run_dir } = command;
    let dir = dirs::to_read(run_dir.as_deref());
    let profile = client::show(&dir, &Request::Profile, |reply| match reply {
        Reply::Profile(profile) => Some(profile),
        _ => None,
    })?;
    screen::print(&drop_in(&profile), ExitCode::SUCCESS)
}
