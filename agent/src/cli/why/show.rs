//! One incident as a page.

use super::steps::{self, Caller};
use crate::http::control::{GpuView, subject_at};
use crate::screen::{self, Cell, Paint, Screen, Table, ago};
use health::Mode;
use health::checks;
use health::view::{FindingView, IncidentView, View, without_act};

/// The page.
pub(super) fn show(
    i: &IncidentView,
    (view, gpus): (&View, &[GpuView]),
    caller: &Caller,
    now: i64,
    screen: &Screen,
) -> String {
    let title = format!("incident {}", screen::clean(&i.id));
    let mut out = format!("{}  {}\n", screen.paint(Paint::Heading, &title), state(i, screen));
    out.push_str(&facts(i, (view, gpus), now, screen));
    section("evidence", &mut out, screen);
    for finding in &i.findings {
        evidence(finding, now, &mut out, screen);
    }
    section("history", &mut out, screen);
    let mut history = Table::default();
    for (at, line) in &i.history {
        history.row(vec![Cell::new(screen::time(*at)), Cell::new(line)]);
    }
    out.push_str(&history.shown(4, screen));
    let steps = steps::steps(i, view, caller);
    if !steps.is_empty() {
        section("what you can do", &mut out, screen);
    }
    for (command, why) in steps {
        // Not wrapped: a command broken over lines cannot be pasted.
        out.push_str(&format!("    {}\n", screen::clean(&command)));
        lines(why, 6, Paint::Faint, &mut out, screen);
    }
    out
}

fn state(i: &IncidentView, screen: &Screen) -> String {
    let paint = match i.state.as_str() {
        "open" if i.acts => Paint::Bad,
        "cleared" => Paint::Good,
        _ => Paint::Doubt,
    };
    screen.paint(paint, &screen::clean(&i.state))
}

fn section(title: &str, out: &mut String, screen: &Screen) {
    out.push_str(&format!("  {}\n", screen.paint(Paint::Heading, title)));
}

fn lines(text: &str, indent: usize, paint: Paint, out: &mut String, screen: &Screen) {
    for line in screen::wrapped(text, screen.width.saturating_sub(indent)) {
        out.push_str(&format!("{:indent$}{}\n", "", screen.paint(paint, &line)));
    }
}

fn facts(i: &IncidentView, (view, gpus): (&View, &[GpuView]), now: i64, screen: &Screen) -> String {
    let check = checks::check(&i.check);
    let mut table = Table::default();
    let mut fact =
        |name: &str, text: String| table.row(vec![Cell::painted(Paint::Faint, name), Cell::new(text)]);
    fact("what", format!("{}: {}", i.check, i.explained()));
    for (field, text) in check.into_iter().flat_map(checks::Check::conditions) {
        fact(field, text.to_owned());
    }
    fact("subject", subject_at(i, gpus));
    fact(
        "since",
        format!("{} ({})", screen::time(i.since), ago(i.since, now)),
    );
    fact("does", effect(i, view));
    let remedy = steps::remedy(&i.act);
    fact(
        "remedy",
        if remedy.is_empty() {
            i.act.clone()
        } else {
            format!("{}: {remedy}", i.act)
        },
    );
    if let Some(closed) = i.closed {
        fact(
            "closed",
            format!("{} ({})", screen::time(closed), ago(closed, now)),
        );
        fact("because", i.clears.clone());
    } else {
        fact("ends by", i.clears.clone());
    }
    if let Some((by, at, reason)) = &i.ack {
        fact("acknowledged", format!("{} by {by}: {reason}", screen::time(*at)));
    }
    if let Some(check) = check {
        fact("runbook", runbook(&check.runbook()));
    }
    table.shown(2, screen)
}

/// Where the package installs its documents, in place of `docs/`.
const DOCUMENTS: &str = "/usr/share/doc/nodewarden";

/// The daemon's page of a runbook, and its file on an installed node.
fn runbook(file: &str) -> String {
    let page = file.strip_suffix(".md").unwrap_or(file);
    format!("page /{page}, or {DOCUMENTS}/{file} of the package")
}

/// The effect of the incident on the node, in a sentence.
fn effect(i: &IncidentView, view: &View) -> String {
    let drain = &view.drain;
    let is_named = drain.incident.as_deref() == Some(&i.id);
    let outdated = || {
        view.outdated_reason()
            .map_or_else(String::new, |text| format!("; {text}"))
    };
    if i.closed.is_some() {
        return format!(
            "none, closed{}",
            if is_named { outdated() } else { String::new() }
        );
    }
    if i.state == "overridden" {
        return "none: an operator lifted its drain; only new evidence drains the node".to_owned();
    }
    let own_drain = || {
        let why = if drain.why.is_empty() {
            String::new()
        } else {
            format!(", {}", drain.why)
        };
        let reason = drain
            .reason
            .as_ref()
            .filter(|reason| **reason != drain.why)
            .map_or_else(String::new, |r| format!(": {r}"));
        format!("our drain: {}{why}{reason}{}", drain.state, outdated())
    };
    if !i.acts {
        let text = without_act(&i.check, i.could);
        // The drain for a finding that has ended, whose repair no test has verified.
        return if is_named && drain.state == "drained" {
            format!("{text}; {}", own_drain())
        } else {
            text
        };
    }
    match i.mode {
        Mode::Observe if i.could < Mode::Drain => {
            "would write the node's Comment; mode observe writes nothing to Slurm".to_owned()
        }
        Mode::Observe => "would drain; mode observe counts it and writes nothing to Slurm".to_owned(),
        Mode::Comment => {
            let place = match &view.comment {
                Some(id) if *id == i.id => "in the node's Comment".to_owned(),
                Some(id) => format!("not in the node's Comment, which names {id}: one incident at a time"),
                None => "not in the node's Comment: not written yet, or another text is there".to_owned(),
            };
            format!("{place}; mode comment never drains")
        }
        Mode::Drain if is_named => format!("drains the node; {}", own_drain()),
        Mode::Drain if drain.state == "none" && !drain.why.is_empty() => {
            format!("drains the node; our drain: none, {}", drain.why)
        }
        Mode::Drain => format!("drains the node; our drain: {}{}", drain.state, outdated()),
    }
}

fn evidence(f: &FindingView, now: i64, out: &mut String, screen: &Screen) {
    let seen = if f.count == 1 {
        format!("{} ({})", screen::time(f.last), ago(f.last, now))
    } else {
        let (first, last) = (screen::time(f.first), screen::time(f.last));
        format!("{} times, {first} to {last} ({})", f.count, ago(f.last, now))
    };
    lines(
        &format!("{} {}, {seen}", f.check, f.detail),
        4,
        Paint::Plain,
        out,
        screen,
    );
    for line in &f.evidence {
        lines(line, 6, Paint::Plain, out, screen);
    }
    if !f.jobs.is_empty() {
        lines(
            &format!("jobs then: {}", f.jobs.join(", ")),
            6,
            Paint::Plain,
            out,
            screen,
        );
    }
}
