//! `nodewarden why`: what an incident rests on, what happened to it, and what clears it.

use std::path::PathBuf;
use std::process::ExitCode;

use super::client::{self, Down};
use super::{dirs, screen};
use crate::health::Mode;
use crate::health::view::IncidentView;
use crate::http::control::{Reply, Request};

/// The arguments of `nodewarden why`.
#[derive(Debug, clap::Args)]
pub(super) struct WhyArgs {
    /// The incident; all open ones where none is named.
    id: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// The daemon's run directory.
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
}

/// Prints the evidence.
pub(super) fn why(args: &WhyArgs) -> anyhow::Result<ExitCode> {
    let dir = dirs::to_read(args.run_dir.as_deref());
    let request = Request::Why { id: args.id.clone() };
    let incidents = match client::ask(&dir, &request)? {
        Reply::Incidents(incidents) => incidents,
        Reply::Refused(text) => anyhow::bail!(text),
        _ => return Err(Down::odd(&dir).into()),
    };
    let text = if args.json {
        serde_json::to_string_pretty(&incidents)? + "\n"
    } else if incidents.is_empty() {
        "no open incidents\n".to_owned()
    } else {
        let all: Vec<String> = incidents.iter().map(show).collect();
        all.join("\n")
    };
    screen::print(&text, ExitCode::SUCCESS)
}

/// An incident as one row of a table.
pub(super) fn row(i: &IncidentView) -> Vec<String> {
    let ack = if i.ack.is_some() { ", acknowledged" } else { "" };
    vec![
        i.id.clone(),
        screen::short_time(i.since),
        format!("{}{ack}", policy(i)),
        i.subject.clone(),
        format!("{} act={}", i.detail, i.act),
    ]
}

fn policy(i: &IncidentView) -> &'static str {
    match (i.drains, i.mode) {
        (false, _) => "no drain",
        (true, Mode::Observe) => "would drain",
        (true, Mode::Comment) => "would drain, commented",
        (true, Mode::Drain) => "drains",
    }
}

fn show(i: &IncidentView) -> String {
    let mut rows = vec![
        ("subject", i.subject.clone()),
        ("check", format!("{} {}", i.check, i.detail)),
        ("state", i.state.clone()),
        ("since", screen::time(i.since)),
        ("policy", policy(i).to_owned()),
        ("remedy", i.act.clone()),
    ];
    if let Some(closed) = i.closed {
        rows.push(("closed", screen::time(closed)));
    }
    if let Some((by, at, reason)) = &i.ack {
        rows.push(("acknowledged", format!("{} by {by}: {reason}", screen::time(*at))));
    }
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(k, v)| vec![k.to_owned(), v]).collect();
    let mut out = format!("incident {}\n{}", i.id, screen::table(&rows, 2));
    out.push_str("  ends by\n");
    out.push_str(&screen::wrapped(&i.clears, 4));
    out.push_str("  findings\n");
    for f in &i.findings {
        let seen = if f.count == 1 {
            screen::time(f.first)
        } else {
            let (first, last) = (screen::time(f.first), screen::time(f.last));
            format!("{} times, {first} to {last}", f.count)
        };
        out.push_str(&screen::wrapped(&format!("{} {} ({seen})", f.check, f.detail), 4));
        for line in &f.evidence {
            out.push_str(&screen::wrapped(line, 6));
        }
    }
    out.push_str("  history\n");
    for (at, line) in &i.history {
        out.push_str(&screen::wrapped(&format!("{} {line}", screen::time(*at)), 4));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exposition::sample;

    #[test]
    fn evidence_history_and_what_clears_it_are_shown() {
        let mut incident = sample::view().incidents.remove(0);
        incident.findings[0].evidence.push("x".repeat(300));
        incident.ack = Some(("ana".to_owned(), 1_700_000_100, "board ordered".to_owned()));
        let text = show(&incident);
        assert!(text.lines().all(|l| l.chars().count() <= screen::WIDTH), "{text}");
        for part in [
            "incident abcdefgh",
            "NVRM: Xid (PCI:0000:3b:00): 79",
            "a reboot",
            "opened",
            "by ana: board ordered",
            "2 times",
            "would drain",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
