//! `nodewarden job`: what jobs use of this node, and have used.

mod show;

use std::path::PathBuf;
use std::process::ExitCode;

use super::client::{self, Down};
use super::{dirs, screen};
use crate::core::jobs::{JobsView, Line};
use crate::http::control::{Reply, Request};
use screen::{ColourArgs, Screen};

/// The arguments of `nodewarden job`.
#[derive(Debug, clap::Args)]
pub(super) struct JobArgs {
    /// A job's number. Default: all that run, and the last that ended.
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    colour: ColourArgs,
    /// The daemon's run directory.
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
}

/// Prints it.
pub(super) fn job(args: &JobArgs) -> anyhow::Result<ExitCode> {
    let dir = dirs::to_read(args.run_dir.as_deref());
    let jobs = match client::ask(&dir, &Request::Jobs)? {
        Reply::Jobs(jobs) => jobs,
        Reply::Refused(text) => anyhow::bail!(text),
        _ => return Err(Down::odd(&dir).into()),
    };
    let screen = Screen::now(args.colour.colour);
    let text = match &args.id {
        Some(id) => {
            let found = find(&jobs, id).ok_or_else(|| anyhow::anyhow!(missing(id)))?;
            if args.json {
                serde_json::to_string_pretty(found)? + "\n"
            } else {
                show::one(found, &screen)
            }
        }
        None if args.json => serde_json::to_string_pretty(&jobs)? + "\n",
        None => show::all(&jobs, &screen),
    };
    screen::print(&text, ExitCode::SUCCESS)
}

/// The job of that number: the one that runs, else the last that ended.
fn find<'a>(jobs: &'a JobsView, id: &str) -> Option<&'a Line> {
    let ended = jobs.ended.iter().rev().map(AsRef::as_ref);
    jobs.running.iter().chain(ended).find(|line| line.job == id)
}

fn missing(id: &str) -> String {
    format!(
        "no job {}: none of that number runs here or is among the last that ended; older ones stand in jobs.jsonl of the state directory, {} by default",
        screen::clean(id),
        dirs::SYSTEM_STATE
    )
}

#[cfg(test)]
mod tests;
