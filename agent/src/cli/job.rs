//! `nodewarden job`: usage of this node by jobs.

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
    /// Job id. Default: running jobs, and the last jobs that ended.
    #[arg(value_name = "ID")]
    id: Option<String>,
    #[command(flatten)]
    show: ShowArgs,
}

/// Prints the jobs.
pub(super) fn job(args: &JobArgs) -> anyhow::Result<ExitCode> {
    let jobs = args.show.ask(&Request::Jobs, |reply| match reply {
        Reply::Jobs(jobs) => Some(jobs),
        _ => None,
    })?;
    let screen = Screen::now(args.show.colour.colour);
    let text = match &args.id {
        Some(id) => {
            let found = find(&jobs, id).ok_or_else(|| anyhow::anyhow!(missing(id, jobs.withheld)))?;
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

/// The job of that number: the running one, else the last that ended.
fn find<'a>(jobs: &'a JobsView, id: &str) -> Option<&'a Line> {
    let ended = jobs.ended.iter().rev().map(AsRef::as_ref);
    jobs.running.iter().chain(ended).find(|line| line.job == id)
}

fn missing(id: &str, withheld: usize) -> String {
    let others = match withheld {
        0 => String::new(),
        n => format!(", or is one of {n} withheld jobs of other users (access.jobs)"),
    };
    // `6_7` and `6+1`, as squeue prints them, and a SLUID have a JobId of their own.
    if id.parse::<u64>().is_err() {
        return format!(
            "job {0}: expected a JobId, a number, as `scontrol show job {0}` prints it for tasks of arrays and parts of heterogeneous jobs",
            screen::clean(id)
        );
    }
    format!(
        "job {} is not running here and not among the last jobs that ended{others}; older jobs are in jobs.jsonl of the state directory (default {})",
        screen::clean(id),
        dirs::SYSTEM_STATE
    )
}

#[cfg(test)]
mod tests;
