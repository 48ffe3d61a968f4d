//! `nodewarden why`: what is wrong, what that rests on, what happened, and what a person can do now.

mod show;
mod steps;

use std::path::PathBuf;
use std::process::ExitCode;

use collectors::PciAddress;

use super::client::{self, Down};
use super::{dirs, screen};
use crate::health::Mode;
use crate::health::view::{IncidentView, View};
use crate::http::control::{GpuView, Reply, Request, Status};
use screen::{ColourArgs, Screen};
use steps::Caller;

/// The arguments of `nodewarden why`.
#[derive(Debug, clap::Args)]
pub(super) struct WhyArgs {
    /// An incident, or a subject; the beginning of a name is enough, and of a GPU its index or PCI address too. Default:
    /// all open incidents.
    #[arg(value_name = "ID|SUBJECT")]
    id: Option<String>,
    /// Closed incidents too.
    #[arg(long)]
    all: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    colour: ColourArgs,
    /// The daemon's run directory.
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
}

/// Prints the evidence.
pub(super) fn why(args: &WhyArgs) -> anyhow::Result<ExitCode> {
    let dir = dirs::to_read(args.run_dir.as_deref());
    let status = match client::ask(&dir, &Request::Status)? {
        Reply::Status(status) => status,
        Reply::Refused(text) => anyhow::bail!(text),
        _ => return Err(Down::odd(&dir).into()),
    };
    let found = select(&status, args.id.as_deref(), args.all).map_err(anyhow::Error::msg)?;
    let text = if args.json {
        serde_json::to_string_pretty(&found)? + "\n"
    } else if found.is_empty() {
        nothing(&status.view)
    } else {
        let caller = Caller::new(args.run_dir.as_deref());
        let screen = Screen::now(args.colour.colour);
        let now = jiff::Timestamp::now().as_second();
        let page = |i: &&IncidentView| show::show(i, &status.view.drain, &caller, now, &screen);
        found.iter().map(page).collect::<Vec<_>>().join("\n")
    };
    screen::print(&text, ExitCode::SUCCESS)
}

fn nothing(view: &View) -> String {
    let closed = view.incidents.len();
    let hint = match closed {
        0 => String::new(),
        n => format!("; {n} closed: `nodewarden why --all`"),
    };
    format!("no open incidents{hint}\n")
}

/// The incidents that are asked for. A name picks a closed one too, where no open one has it.
fn select<'a>(status: &'a Status, name: Option<&str>, all: bool) -> Result<Vec<&'a IncidentView>, String> {
    let view = &status.view;
    let incidents = || view.incidents.iter();
    let open = |i: &&IncidentView| i.closed.is_none();
    let Some(name) = name else {
        return Ok(incidents().filter(|i| all || open(i)).collect());
    };
    if let Some(one) = incidents().find(|i| i.id == name) {
        return Ok(vec![one]);
    }
    let begins = |text: &str| !name.is_empty() && text.starts_with(name);
    let gpus: Vec<&str> = status
        .gpus
        .iter()
        .filter(|gpu| is_gpu(gpu, name))
        .map(|gpu| gpu.gpu.as_str())
        .collect();
    let named: Vec<&IncidentView> = incidents()
        .filter(|i| {
            let named = begins(&i.id) || begins(&i.subject_name) || begins(&i.subject);
            named || gpus.contains(&i.subject_name.as_str())
        })
        .collect();
    let current: Vec<&IncidentView> = named.iter().copied().filter(|i| all || open(i)).collect();
    match (named.is_empty(), current.is_empty()) {
        (true, _) if gpus.is_empty() => Err(unknown(view, name)),
        (true, _) => Ok(Vec::new()),
        (false, true) => Ok(named),
        (false, false) => Ok(current),
    }
}

/// Whether a GPU is meant by its index, its address, or the beginning of its UUID as `status` prints it.
fn is_gpu(gpu: &GpuView, name: &str) -> bool {
    let name = name.strip_prefix("gpu ").unwrap_or(name);
    let uuid = gpu.gpu.strip_prefix("GPU-").unwrap_or(&gpu.gpu);
    let address = PciAddress::parse(name).is_some_and(|address| address.0 == gpu.pci);
    !name.is_empty() && (gpu.index == name || address || uuid.starts_with(name))
}

fn unknown(view: &View, name: &str) -> String {
    let known: Vec<&str> = view.incidents.iter().map(|i| i.id.as_str()).collect();
    if known.is_empty() {
        return format!("no incident {name}, and none at all");
    }
    format!("no incident or subject {name}; there are {}", known.join(", "))
}

/// What an incident does to the node, in a word or two.
pub(super) fn does(i: &IncidentView) -> &'static str {
    match (i.drains, i.mode) {
        (false, _) => "no drain",
        (true, Mode::Observe) => "would drain",
        (true, Mode::Comment) => "comments",
        (true, Mode::Drain) => "drains",
    }
}

#[cfg(test)]
mod tests;
