//! `nodewarden pause` and `nodewarden resume`, of this node or of the cluster.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use jiff::tz::TimeZone;

use super::cluster::Cluster;
use super::{order, release, screen};
use crate::config;
use crate::http::control::{MAX_PAUSE, Request, users};
use slurm::guard::reservation::{self, PAUSE, Reservation};

/// The longest text of a cluster's pause.
const MOST: usize = 200;

/// The arguments of `nodewarden pause`.
#[derive(Debug, clap::Args)]
pub(super) struct PauseArgs {
    /// The length of the pause.
    #[arg(long = "for", value_name = "TIME", default_value = "2h", value_parser = length)]
    length: Duration,
    #[command(flatten)]
    of: Of,
}

/// The arguments of `nodewarden resume`.
#[derive(Debug, clap::Args)]
pub(super) struct ResumeArgs {
    #[command(flatten)]
    of: Of,
}

/// The paused part, and why.
#[derive(Debug, clap::Args)]
struct Of {
    /// Reason, one line.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// The whole cluster, by a reservation of Slurm.
    #[arg(long)]
    cluster: bool,
    /// The daemon's run directory.
    #[arg(long, value_name = "DIR", conflicts_with = "cluster")]
    run_dir: Option<PathBuf>,
}

fn length(text: &str) -> Result<Duration, String> {
    release::time(text, Duration::from_secs(MAX_PAUSE))
}

/// Begins a pause.
pub(super) fn pause(args: PauseArgs) -> anyhow::Result<ExitCode> {
    let PauseArgs { length, of } = args;
    if of.cluster {
        return pause_cluster(length, &of.reason);
    }
    let request = Request::Pause {
        seconds: length.as_secs(),
        reason: of.reason,
    };
    order::give(of.run_dir, &request)
}

/// Ends a pause.
pub(super) fn resume(args: ResumeArgs) -> anyhow::Result<ExitCode> {
    let ResumeArgs { of } = args;
    if of.cluster {
        return resume_cluster();
    }
    order::give(of.run_dir, &Request::Unpause { reason: of.reason })
}

fn pause_cluster(length: Duration, reason: &str) -> anyhow::Result<ExitCode> {
    let reason = reason.trim();
    if reason.is_empty() || reason.len() > MOST || reason.chars().any(char::is_control) {
        bail!("invalid reason: expected one line of 1 to {MOST} bytes");
    }
    let uid = nix::unistd::geteuid().as_raw();
    let by = users::name(uid).unwrap_or_else(|| uid.to_string());
    let mut cluster = Cluster::find(settings());
    let minutes = length.as_secs().div_ceil(60).max(1);
    let now = jiff::Timestamp::now().as_second();
    match pause_of(&mut cluster)? {
        Some(pause) if now < pause.end => {
            let mut args = vec!["update".to_owned(), format!("ReservationName={PAUSE}")];
            if pause.start > now {
                args.push("StartTime=now".to_owned());
            }
            let until = now.saturating_add(i64::try_from(length.as_secs()).unwrap_or(i64::MAX));
            if pause.end < until {
                args.push(format!("EndTime=now+{minutes}minutes"));
            }
            if args.len() > 2 {
                cluster.run(args)?;
            }
            let left = pause.end.max(until).saturating_sub(now) / 60;
            let text = format!(
                "the cluster was paused already ({}), now for {left} min\n",
                pause.features
            );
            return Ok(screen::tell(&text, ExitCode::SUCCESS));
        }
        before => {
            // It is over, and Slurm keeps it for up to 30 s.
            if before.is_some() {
                cluster.run(reservation::delete(PAUSE))?;
            }
            let args = reservation::create(PAUSE, length, &format!("by {by}: {reason}"));
            cluster.run(args)?;
        }
    }
    let text = format!("the cluster is paused for {minutes} min: scontrol show reservation {PAUSE}\n");
    Ok(screen::tell(&text, ExitCode::SUCCESS))
}

fn resume_cluster() -> anyhow::Result<ExitCode> {
    let mut cluster = Cluster::find(settings());
    if pause_of(&mut cluster)?.is_none() {
        bail!("the cluster is not paused: there is no reservation {PAUSE}");
    }
    cluster.run(reservation::delete(PAUSE))?;
    Ok(screen::tell(
        "the pause of the cluster is over\n",
        ExitCode::SUCCESS,
    ))
}

/// A login node has no configuration.
fn settings() -> slurm::Settings {
    let read = config::read(None, &[]).ok();
    read.map(|read| read.loaded.config.slurm).unwrap_or_default()
}

/// The reservation of the pause, also one that is over.
fn pause_of(cluster: &mut Cluster) -> anyhow::Result<Option<Reservation>> {
    let output = cluster.run(reservation::show())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let all = reservation::ours(&text, &TimeZone::UTC)?;
    Ok(all.into_iter().find(|reservation| reservation.name == PAUSE))
}
