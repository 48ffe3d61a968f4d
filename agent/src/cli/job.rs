//! `nodewarden job`: what jobs use of this node, and have used.

mod show;

use std::process::ExitCode;

use super::client::ShowArgs;
use super::{dirs, screen};
use crate::http::control::{Reply, Request};
use model::jobs::{JobsView, Line};
use screen::Screen;

/// The arguments of `nodewarden job`.
#[derive(Debug, clap::Args)]
pub(super) struct JobArgs {
    /// A job's number. Default: all that run, and the last that ended.
    #[arg(value_name = "ID")]
    id: Option<String>,
    #[command(flatten)]
    show: ShowArgs,
}

/// Prints it.
pub(super) fn job(args: &JobArgs) -> anyhow::Result<ExitCode> {
    let jobs = args.show.ask(&Request::Jobs, |reply| match reply {
        Reply::Jobs(jobs) => Some(jobs),
        _ => None,
    })?;
    let screen = Screen::now(args.show.colour.colour);
    let text = match &args.id {
        Some(id) => {
            let found = find(&jobs, id).ok_or_else(|| anyhow::anyhow!(missing(id)))?;
            if args.show.json {
                serde_json::to_string_pretty(found)? + "\n"
            } else {
                show::one(found, &screen)
            }
        }
        None if args.show.json => serde_json::to_string_pretty(&jobs)? + "\n",
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
