//! The page of `nodewarden status`.

mod gpus;
mod mounts;
mod ports;

use crate::cli::why;
use crate::http::control::{CollectorView, CommandView, NodeStatus, WorkerView, of_subject};
use crate::screen::{self, Cell, Paint, Screen, Table};
use health::Mode;
use health::verdict::Health;
use health::view::DrainView;

/// A moment by the clocks of a reply.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct ReplyTime {
    /// Time since boot, in milliseconds.
    pub(in crate::cli) boottime_ms: u64,
    /// Seconds since the epoch.
    pub(in crate::cli) wall: i64,
}

/// The whole page.
pub(in crate::cli) fn show(status: &NodeStatus, now: ReplyTime, screen: &Screen) -> String {
    let parts = [
        head(status, now, screen),
        incidents(status, screen),
        gpus::table(&status.gpus, screen),
        ports::table(&status.ports, screen),
        mounts::table(&status.mounts, screen),
        collectors(&status.collectors, screen),
        workers(&status.workers, screen),
        commands(&status.commands, screen),
        foot(status, now, screen),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|p| !p.is_empty()).collect();
    parts.join("\n")
}

fn head(status: &NodeStatus, now: ReplyTime, screen: &Screen) -> String {
    let verdict = &status.view.verdict;
    let (word, paint) = match verdict.health {
        Health::Healthy => ("healthy", Paint::Good),
        Health::Unhealthy => ("unhealthy", Paint::Bad),
        Health::Unknown => ("unknown", Paint::Doubt),
    };
    let age = screen::span(now.boottime_ms.saturating_sub(verdict.at_ms) / 1000);
    let mut table = Table::default();
    let mut line = |name: &str, paint, text: String| {
        table.row(vec![
            Cell::painted(Paint::Heading, name),
            Cell::painted(paint, text),
        ]);
    };
    if now.boottime_ms > verdict.valid_until_ms {
        let text = format!("unknown: the last verdict, {word}, is {age} old and has expired");
        line("verdict", Paint::Bad, text);
        let text = "the daemon answers but no longer evaluates checks; see `journalctl -u nodewarden`";
        line("", Paint::Bad, text.to_owned());
    } else {
        line("verdict", paint, format!("{word}, checked {age} ago"));
    }
    line("", Paint::Plain, verdict.text.clone());
    let (paint, text) = drain(&status.view.drain, status.mode);
    line("drain", paint, text);
    for text in drain_details(&status.view.drain) {
        line("", Paint::Plain, text);
    }
    if let Some(text) = status.view.outdated_reason() {
        line("", Paint::Doubt, text);
    }
    if let Some(pause) = &status.view.pause {
        let until = screen::time(pause.until);
        line(
            "paused",
            Paint::Doubt,
            format!("by {} until {until}: {}", pause.by, pause.reason),
        );
    }
    if status.config_error {
        let text = "the last reload failed, the previous one is in force: `nodewarden config check`, with \
                    the --config and --set of the daemon";
        line("configuration", Paint::Bad, text.to_owned());
    }
    if status.restart_needed {
        let text = "changed: the new addresses need `systemctl restart nodewarden`";
        line("listen", Paint::Doubt, text.to_owned());
    }
    if status.state_unused {
        let text = "the state directory is not used: incidents from before the start are missing; the log of the start \
                    has the reason";
        line("state", Paint::Bad, text.to_owned());
    }
    table.shown(0, screen)
}

fn drain(drain: &DrainView, mode: Mode) -> (Paint, String) {
    let paint = match drain.state.as_str() {
        "none" => Paint::Plain,
        "drained" => Paint::Bad,
        _ => Paint::Doubt,
    };
    let text = match (drain.state.as_str(), mode) {
        ("none", Mode::Observe) => "none; mode observe: drains are only counted".to_owned(),
        ("none", Mode::Comment) => "none; mode comment: findings go into the node's Comment".to_owned(),
        ("none", Mode::Drain) if drain.why.is_empty() => "none".to_owned(),
        ("none", Mode::Drain) => format!("none; nodewarden cannot drain this node: {}", drain.why),
        (state, _) if drain.why.is_empty() => state.to_owned(),
        (state, _) => format!("{state}: {}", drain.why),
    };
    (paint, text)
}

fn drain_details(drain: &DrainView) -> Vec<String> {
    let reason = drain.reason.iter().filter(|reason| **reason != drain.why);
    let mut details: Vec<String> = reason.cloned().collect();
    if let Some(since) = drain.since {
        details.push(format!("since {}", screen::time(since)));
    }
    if !drain.recorded && ["drained", "writing", "lifting"].contains(&drain.state.as_str()) {
        details.push("not recorded on disk: it is never lifted automatically".to_owned());
    }
    details
}

fn incidents(status: &NodeStatus, screen: &Screen) -> String {
    let (open, closed): (Vec<_>, Vec<_>) = status.view.incidents.iter().partition(|i| i.closed.is_none());
    let mut text = format!("{} open", open.len());
    if !closed.is_empty() {
        text.push_str(&format!(", {} closed", closed.len()));
    }
    let mut out = format!("{}  {text}\n", screen.paint(Paint::Heading, "incidents"));
    if open.is_empty() {
        return out;
    }
    let mut table = Table::headed(["id", "since", "does", "what", "remedy", "subject"]);
    for i in &open {
        // The table of GPUs has more than the index, and the other columns need the room.
        let gpu = of_subject(&i.subject, &status.gpus);
        let subject = gpu.map_or_else(|| i.subject.clone(), |gpu| format!("gpu {}", gpu.index));
        table.row(vec![
            Cell::kept(&i.id),
            Cell::new(screen::short_time(i.since)),
            Cell::painted(if i.acts { Paint::Bad } else { Paint::Doubt }, why::does(i)),
            Cell::new(&i.detail),
            Cell::new(&i.act),
            Cell::new(if i.ack.is_some() {
                format!("{subject} (acknowledged)")
            } else {
                subject
            }),
        ]);
    }
    out.push_str(&table.shown(2, screen));
    out
}

fn collectors(all: &[CollectorView], screen: &Screen) -> String {
    let mut table = Table::headed(["collector", "state", "devices", "series", "age", ""]);
    for c in all {
        let paint = match c.state.as_str() {
            "ok" => Paint::Good,
            "absent" => Paint::Faint,
            "failed" | "late" => Paint::Bad,
            _ => Paint::Doubt,
        };
        let there = c.state != "absent";
        let reason = [c.reason.as_str(), c.text.as_str()];
        let reason: Vec<&str> = reason.into_iter().filter(|t| !t.is_empty()).collect();
        let note = if there {
            reason.join(": ")
        } else {
            "not on this node".to_owned()
        };
        table.row(vec![
            Cell::new(&c.name),
            Cell::painted(paint, &c.state),
            Cell::number(there.then_some(c.devices)),
            Cell::number(there.then_some(c.series)),
            Cell::number(c.age_ms.map(|ms| screen::span(ms / 1000))),
            Cell::new(note),
        ]);
        for d in &c.troubled {
            let mut row = vec![Cell::default(); 5];
            row.push(Cell::painted(Paint::Bad, format!("{}: {}", d.subject, d.text)));
            table.row(row);
        }
    }
    table.shown(0, screen)
}

fn workers(all: &[WorkerView], screen: &Screen) -> String {
    let mut table = Table::headed(["worker", "pid", "starts", ""]);
    for w in all {
        let mut notes = Vec::new();
        match &w.lease {
            Some(lease) => notes.push(match lease.left {
                Some(left) => format!("released to {}, for another {}", lease.by, screen::span(left)),
                None => format!("closing the driver, for {}", lease.by),
            }),
            None if w.pid.is_none() => notes.push(match w.down.as_str() {
                "" => "down".to_owned(),
                "absent" => "not on this node".to_owned(),
                why => format!("down: {why}"),
            }),
            None => {}
        }
        if w.stuck_slots > 0 {
            notes.push(format!(
                "earlier processes that do not end: {} of 2",
                w.stuck_slots
            ));
        }
        let is_absent = w.down == "absent" && w.stuck_slots == 0;
        let paint = if is_absent { Paint::Plain } else { Paint::Bad };
        table.row(vec![
            Cell::new(&w.name),
            Cell::number(w.pid),
            Cell::number(Some(w.starts)),
            Cell::painted(paint, notes.join(", ")),
        ]);
    }
    table.shown(0, screen)
}

fn commands(all: &[CommandView], screen: &Screen) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut table = Table::headed(["site check", "result", "age", "took", ""]);
    for c in all {
        let paint = match c.result.as_str() {
            "healthy" => Paint::Good,
            "unhealthy" => Paint::Bad,
            _ => Paint::Doubt,
        };
        table.row(vec![
            Cell::new(&c.check),
            Cell::painted(paint, &c.result),
            Cell::number(c.age_ms.map(|ms| screen::span(ms / 1000))),
            Cell::number(c.took_ms.map(|ms| format!("{}.{} s", ms / 1000, ms % 1000 / 100))),
            Cell::new(&c.why),
        ]);
    }
    table.shown(0, screen)
}

fn foot(status: &NodeStatus, now: ReplyTime, screen: &Screen) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "seconds since the epoch are far below 2^53"
    )]
    let up = now.wall.saturating_sub(status.started as i64);
    let up = screen::span(u64::try_from(up).unwrap_or(0));
    let mut text = format!(
        "nodewarden {}, up {up}, mode {}",
        status.version,
        status.mode.word()
    );
    if status.view.incidents.iter().any(|i| i.closed.is_none()) {
        text.push_str("; `nodewarden why` shows evidence and remedy");
    }
    format!(
        "{}\n",
        screen.paint(Paint::Faint, &screen::cut(&text, screen.width))
    )
}

#[cfg(test)]
mod tests;
