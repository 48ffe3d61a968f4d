//! `nodewarden why`: incidents, their evidence, history and remedy.

mod select;
mod show;
mod steps;

use std::process::ExitCode;

use super::client::ShowArgs;
use super::{screen, status};
use crate::http::control::{GpuView, Request};
use health::Mode;
use health::verdict::Health;
use health::view::{DrainView, IncidentView, View};
use screen::Screen;
use select::select;
use steps::Caller;

/// The arguments of `nodewarden why`.
#[derive(Debug, clap::Args)]
pub(super) struct WhyArgs {
    /// Incident id, check, subject, or GPU by UUID, index or PCI address; of ids and UUIDs a prefix is enough. Default: all open incidents.
    #[arg(value_name = "ID|CHECK|SUBJECT")]
    id: Option<String>,
    /// Also show closed incidents.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    show: ShowArgs,
}

/// Prints the evidence.
pub(super) fn why(args: &WhyArgs) -> anyhow::Result<ExitCode> {
    let status = args.show.ask(&Request::Status, status::of)?;
    let selected = select(&status, args.id.as_deref(), args.all).map_err(anyhow::Error::msg)?;
    let (found, gpu) = (selected.incidents, selected.gpu);
    let caller = Caller::new(args.show.run_dir.as_deref());
    let text = if args.show.json {
        serde_json::to_string_pretty(&found)? + "\n"
    } else if found.is_empty() {
        nothing(&status.view, gpu, &caller)
    } else {
        let screen = Screen::now(args.show.colour.colour);
        let now = jiff::Timestamp::now().as_second();
        let page = |i: &&IncidentView| show::show(i, (&status.view, &status.gpus), &caller, now, &screen);
        found.iter().map(page).collect::<Vec<_>>().join("\n")
    };
    screen::print(&text, ExitCode::SUCCESS)
}

fn nothing(view: &View, gpu: Option<&GpuView>, caller: &Caller) -> String {
    if let Some(gpu) = gpu {
        return format!(
            "no incident of GPU {} ({})\n",
            screen::clean(&gpu.index),
            screen::clean(&gpu.gpu)
        );
    }
    let closed = view.incidents.iter().filter(|i| i.closed.is_some()).count();
    let hint = match closed {
        0 => String::new(),
        n => format!("; {n} closed: `nodewarden why --all`"),
    };
    let verdict = &view.verdict;
    let doubt = match verdict.health {
        Health::Healthy => String::new(),
        health => format!("verdict {}: {}\n", health.word(), screen::clean(&verdict.text)),
    };
    format!(
        "no open incidents{hint}\n{doubt}{}",
        standing(&view.drain, caller)
    )
}

/// A drain that stays after its incidents: Slurm still shows it.
fn standing(drain: &DrainView, caller: &Caller) -> String {
    match &drain.incident {
        Some(id) if drain.state == "drained" => {
            let why = screen::clean(&drain.why);
            let comma = if why.is_empty() { "" } else { ", " };
            format!(
                "our drain: drained{comma}{why}\n  {}\n",
                caller.order("clear", id)
            )
        }
        _ => String::new(),
    }
}

/// The effect of an incident on the node, in 1 or 2 words.
pub(super) fn does(i: &IncidentView) -> &'static str {
    match (i.acts, i.mode) {
        _ if i.state == "overridden" => "lifted",
        (false, _) => "no drain",
        (true, Mode::Observe) if i.could < Mode::Drain => "would comment",
        (true, Mode::Observe) => "would drain",
        (true, Mode::Comment) => "comments",
        (true, Mode::Drain) => "drains",
    }
}

#[cfg(test)]
mod tests;
