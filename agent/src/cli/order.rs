//! `nodewarden ack` and `nodewarden clear`.

use std::path::PathBuf;
use std::process::ExitCode;

use super::client;
use super::{dirs, screen};
use crate::http::control::{Reply, Request};

/// The arguments of both commands.
#[derive(Debug, clap::Args)]
pub(super) struct OrderArgs {
    /// Incident id, as shown by `nodewarden why`.
    id: String,
    /// Reason, one line.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// The daemon's run directory.
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
}

/// Acknowledges an incident.
pub(super) fn ack(args: OrderArgs) -> anyhow::Result<ExitCode> {
    let (id, reason) = (args.id, args.reason);
    give(args.run_dir, &Request::Ack { id, reason })
}

/// Closes an incident.
pub(super) fn clear(args: OrderArgs) -> anyhow::Result<ExitCode> {
    let (id, reason) = (args.id, args.reason);
    give(args.run_dir, &Request::Clear { id, reason })
}

pub(super) fn give(run_dir: Option<PathBuf>, request: &Request) -> anyhow::Result<ExitCode> {
    let dir = dirs::to_read(run_dir.as_deref());
    let text = client::answer(&dir, request, |reply| match reply {
        Reply::Done(text) => Some(text),
        _ => None,
    })?;
    // The daemon has done it.
    Ok(screen::tell(
        &format!("{}\n", screen::clean(&text)),
        ExitCode::SUCCESS,
    ))
}
