//! `nodewarden status`: the node's state, once or refreshed.

pub(super) mod show;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;

use collectors::sys::boot;
use jiff::Timestamp;

use super::client;
use super::{dirs, screen};
use crate::http::control::{NodeStatus, Reply, Request};
use screen::{ColourArgs, Screen};

/// The arguments of `nodewarden status`.
#[derive(Debug, clap::Args)]
pub(super) struct StatusArgs {
    /// Refresh every SECONDS (default 2) until Ctrl-C; on a terminal in place.
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2",
        value_parser = clap::value_parser!(u64).range(1..=3600),
    )]
    watch: Option<u64>,
    /// Print JSON.
    #[arg(long, conflicts_with = "watch")]
    json: bool,
    #[command(flatten)]
    colour: ColourArgs,
    /// The daemon's run directory.
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
}

/// Prints the daemon's state.
pub(super) fn status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let dir = dirs::to_read(args.run_dir.as_deref());
    if let Some(seconds) = args.watch {
        return watch::watch(&dir, seconds, args.colour.colour);
    }
    let status = client::show(&dir, &Request::Status, of)?;
    let text = if args.json {
        serde_json::to_string_pretty(&status)? + "\n"
    } else {
        show::show(&status, now(), &Screen::now(args.colour.colour))
    };
    screen::print(&text, ExitCode::SUCCESS)
}

/// The status in a reply.
pub(super) fn of(reply: Reply) -> Option<Box<NodeStatus>> {
    match reply {
        Reply::Status(status) => Some(status),
        _ => None,
    }
}

/// The current time, on both clocks of a reply.
fn now() -> show::ReplyTime {
    show::ReplyTime {
        boottime_ms: u64::try_from(boot::boottime().as_millis()).unwrap_or(u64::MAX),
        wall: Timestamp::now().as_second(),
    }
}
