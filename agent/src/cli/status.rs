//! `nodewarden status`: everything at a glance.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use collectors::sys::boot;

use super::client::{self, Down};
use super::{dirs, screen, why};
use crate::health::verdict::Health;
use crate::http::control::{CollectorView, Reply, Request, Status, WorkerView};

/// The arguments of `nodewarden status`.
#[derive(Debug, clap::Args)]
pub(super) struct StatusArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// The daemon's run directory.
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
}

/// Prints the daemon's state.
pub(super) fn status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let dir = dirs::to_read(args.run_dir.as_deref());
    let Reply::Status(status) = client::ask(&dir, &Request::Status)? else {
        return Err(Down::odd(&dir).into());
    };
    let text = if args.json {
        serde_json::to_string_pretty(&status)? + "\n"
    } else {
        show(&status, boot::boottime())
    };
    screen::print(&text, ExitCode::SUCCESS)
}

fn show(status: &Status, now: Duration) -> String {
    let view = &status.view;
    let verdict = &view.verdict;
    let word = match verdict.health {
        Health::Healthy => "healthy",
        Health::Unhealthy => "unhealthy",
        Health::Unknown => "unknown",
    };
    let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let age = now.saturating_sub(verdict.at_ms) / 1000;
    let stale = if now > verdict.valid_until_ms {
        ", expired"
    } else {
        ""
    };
    let mut drain = view.drain.state.clone();
    let why = Some(view.drain.why.as_str()).filter(|w| !w.is_empty());
    for part in why.into_iter().chain(view.drain.reason.as_deref()) {
        drain.push_str(": ");
        drain.push_str(part);
    }
    let mut head = vec![
        ("verdict", format!("{word} (age {age}s{stale}): {}", verdict.text)),
        ("drain", drain),
    ];
    if let Some(since) = view.drain.since {
        head.push(("", format!("since {}", screen::time(since))));
    }
    if !view.drain.recorded && ["drained", "writing", "lifting"].contains(&view.drain.state.as_str()) {
        head.push((
            "",
            "not recorded on disk: it is never lifted automatically".to_owned(),
        ));
    }
    if status.config_error {
        let text = "the file was refused; the last good one is in force";
        head.push(("configuration", text.to_owned()));
    }
    let rows: Vec<Vec<String>> = head.into_iter().map(|(k, v)| vec![k.to_owned(), v]).collect();
    let mut out = screen::table(&rows, 0);
    let open: Vec<_> = view.incidents.iter().filter(|i| i.closed.is_none()).collect();
    out.push_str(&format!("\nincidents: {} open\n", open.len()));
    let rows: Vec<Vec<String>> = open.iter().map(|i| why::row(i)).collect();
    out.push_str(&screen::table(&rows, 2));
    out.push_str("\ncollectors\n");
    let mut rows = Vec::new();
    for c in &status.collectors {
        collector(c, &mut rows);
    }
    out.push_str(&screen::table(&rows, 2));
    out.push_str("\nworkers\n");
    let rows: Vec<Vec<String>> = status.workers.iter().map(worker).collect();
    out.push_str(&screen::table(&rows, 2));
    out.push_str(&format!("\nnodewarden {}\n", status.version));
    out
}

fn collector(c: &CollectorView, rows: &mut Vec<Vec<String>>) {
    let mut text = match c.devices {
        0 => String::new(),
        1 => "1 device".to_owned(),
        n => format!("{n} devices"),
    };
    for part in [&c.reason, &c.text] {
        if !part.is_empty() {
            let gap = if text.is_empty() { "" } else { ", " };
            text.push_str(&format!("{gap}{part}"));
        }
    }
    rows.push(vec![c.name.clone(), c.state.clone(), text]);
    for d in &c.troubled {
        let text = format!("{}: {}", d.subject, d.text);
        rows.push(vec![String::new(), String::new(), text]);
    }
}

fn worker(w: &WorkerView) -> Vec<String> {
    let state = match w.pid {
        Some(pid) => format!("pid {pid}"),
        None => "down".to_owned(),
    };
    let mut text = format!("started {} times", w.starts);
    if w.starts == 1 {
        text = "started once".to_owned();
    }
    if !w.down.is_empty() {
        text.push_str(&format!(", {}", w.down));
    }
    if w.stuck_slots > 0 {
        text.push_str(&format!(", {} earlier processes cannot end", w.stuck_slots));
    }
    vec![w.name.clone(), state, text]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exposition::sample;

    #[test]
    fn the_table_fits_the_screen_and_says_what_is_wrong() {
        let status = Status::of(&sample::page());
        let text = show(&status, Duration::from_secs(1003));
        assert!(text.lines().all(|l| l.chars().count() <= screen::WIDTH), "{text}");
        for part in [
            "unhealthy (age 3s): xid79 gpu GPU-1 act=reboot id=abcdefgh",
            "incidents: 1 open",
            "would drain  gpu GPU-1  xid79",
            "pci c: no answer for 10 s, state D in nv_wait",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(show(&status, Duration::from_secs(2000)).contains("expired"));
    }
}
