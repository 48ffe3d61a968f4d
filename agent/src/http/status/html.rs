//! The page for people: one document, no script, nothing from elsewhere, readable on a phone at night.

use std::fmt::{self, Display, Write};

use collectors::COLLECTORS;

use super::{Collector, Incident, Report, Worker};
use crate::http::control::GpuView;
use health::Mode;
use health::verdict::Health;

const STYLE: &str = include_str!("page.css");

/// Nothing may be loaded or sent, and only our own style (by its digest) applies.
pub(in crate::http) const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; \
     style-src 'sha256-YOBpJjQCJ+CBvmEAfwveYQiAo8uqBDLiYljwMSk7d7c='; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Text in HTML. Characters that could hide or turn round what follows are shown as such.
struct Text<T>(T);

impl<T: Display> Display for Text<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.to_string().chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' => {
                    f.write_char('\u{fffd}')?;
                }
                c if c.is_control() => f.write_char('\u{fffd}')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// The page.
pub(in crate::http) fn render(report: &Report) -> String {
    let mut out = String::with_capacity(16 * 1024);
    let written = page(report, &mut out);
    debug_assert!(written.is_ok(), "writing into a String cannot fail");
    out
}

fn page(report: &Report, out: &mut String) -> fmt::Result {
    let verdict = &report.verdict;
    let word = match verdict.health {
        Health::Healthy => "healthy",
        Health::Unhealthy => "unhealthy",
        Health::Unknown => "unknown",
    };
    let host = Text(&report.host);
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <meta http-equiv=\"refresh\" content=\"30\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{word}: {host}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <header class=\"{word}\">\n<h1>{host}</h1>\n<p class=\"verdict\">{word}</p>\n<p>{}</p>\n\
         <p>{}, judged {} ago</p>\n</header>\n<main>\n",
        Text(&verdict.text),
        Text(time(report.at)),
        span(i64::try_from(verdict.age).unwrap_or(i64::MAX)),
    )?;
    if report.config_error {
        out.push_str(
            "<p class=\"card dunno\"><b>The configuration was refused.</b> The last good one is in force. \
             See <code>nodewarden config check</code>.</p>\n",
        );
    }
    writeln!(out, "<h2>Open incidents: {}</h2>", report.incidents.len())?;
    for i in &report.incidents {
        incident(i, out)?;
    }
    if report.incidents.is_empty() {
        out.push_str("<p class=\"card\">None.</p>\n");
    }
    drain(report, out)?;
    gpus(&report.gpus, out)?;
    collectors(&report.collectors, out)?;
    workers(&report.workers, out)?;
    links(out)?;
    write!(
        out,
        "<p class=\"soft\">nodewarden {}, running for {}. Mode: {}. Read again every 30 s.</p>\n</main>\n</body>\n</html>\n",
        report.nodewarden,
        span(age(report.at, report.started)),
        report.mode,
    )
}

fn incident(i: &Incident, out: &mut String) -> fmt::Result {
    let effect = match (i.drains, i.mode) {
        (false, _) => "does not take the node out of service",
        (true, "drain") => "drain: takes the node out of service",
        (true, "comment") => "comment: is written into the node's comment, the node stays in service",
        (true, _) if i.could < Mode::Drain => {
            "observe: would be written into the node's comment, nothing is done"
        }
        (true, _) => "observe: would take the node out of service, nothing is done",
    };
    write!(
        out,
        "<article class=\"card {}\">\n<h3>{} on {}</h3>\n<dl>\n\
         <dt>Remedy</dt><dd><b>{}</b></dd>\n<dt>Open for</dt><dd>{}, since {}</dd>\n\
         <dt>Mode</dt><dd>{effect}</dd>\n<dt>Ends by</dt><dd>{}</dd>\n<dt>Check</dt><dd>{}</dd>\n",
        if i.drains { "bad" } else { "dunno" },
        Text(&i.detail),
        Text(&i.subject),
        Text(&i.remedy),
        span(i.age),
        Text(time(i.since)),
        Text(&i.ends),
        Text(&i.check),
    )?;
    if !i.runbook.is_empty() {
        writeln!(out, "<dt>Runbook</dt><dd>{}</dd>", Text(i.runbook))?;
    }
    let looked_after = if i.acknowledged { "yes" } else { "no" };
    write!(
        out,
        "<dt>Ack</dt><dd>{looked_after}</dd>\n\
         <dt>Evidence</dt><dd><code>nodewarden why {}</code></dd>\n</dl>\n</article>\n",
        Text(&i.id)
    )
}

fn drain(report: &Report, out: &mut String) -> fmt::Result {
    let drain = &report.drain;
    write!(
        out,
        "<h2>Drain: {}</h2>\n<div class=\"card\">\n<p>{}</p>\n",
        Text(&drain.state),
        Text(drain.text)
    )?;
    if let (Some(since), Some(age)) = (drain.since, drain.age) {
        writeln!(out, "<p>For {}, since {}.</p>", span(age), Text(time(since)))?;
    }
    if let Some(id) = &drain.incident {
        writeln!(out, "<p>For incident <code>{}</code>.</p>", Text(id))?;
    }
    if drain.incident.is_some() && !drain.recorded {
        out.push_str("<p><b>Not recorded on disk:</b> it will not be lifted by itself.</p>\n");
    }
    out.push_str("</div>\n");
    Ok(())
}

fn gpus(all: &[GpuView], out: &mut String) -> fmt::Result {
    if all.is_empty() {
        return Ok(());
    }
    out.push_str(
        "<h2>GPUs</h2>\n<div class=\"card\">\n<table>\n<tr><th>GPU<th class=\"n\">Busy<th class=\"n\">Memory\
         <th class=\"n\">Heat<th class=\"n\">Power<th>Jobs<th>State</tr>\n",
    );
    for gpu in all {
        let class = match (gpu.up, gpu.trouble.is_empty()) {
            (Some(true), true) => "",
            (Some(false), _) => "bad",
            _ => "dunno",
        };
        let index = if gpu.index.is_empty() { "?" } else { &gpu.index };
        let number =
            |value: Option<f64>, unit: &str| value.map_or(String::new(), |v| format!("{v:.0}{unit}"));
        let share = match (gpu.memory_used, gpu.memory_total) {
            (Some(used), Some(all)) if all > 0.0 => Some(100.0 * used / all),
            _ => None,
        };
        let state = if gpu.trouble.is_empty() {
            "ok".to_owned()
        } else {
            gpu.trouble.join(", ")
        };
        write!(
            out,
            "<tr class=\"{class}\"><td>{}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}\
             <td class=\"n\">{}<td>{}<td><b>{}</b>",
            Text(index),
            number(gpu.utilization.map(|u| 100.0 * u), " %"),
            number(share, " %"),
            number(gpu.temperature, " °C"),
            number(gpu.power, " W"),
            Text(gpu.jobs.join(", ")),
            Text(state),
        )?;
        if gpu.instances > 0 {
            write!(out, ", {} instances", gpu.instances)?;
        }
        writeln!(
            out,
            "<br><span class=\"soft\">{}<br>{}</span></tr>",
            Text(&gpu.name),
            Text(&gpu.gpu)
        )?;
    }
    out.push_str("</table>\n</div>\n");
    Ok(())
}

fn collectors(all: &[Collector], out: &mut String) -> fmt::Result {
    out.push_str("<h2>Collectors</h2>\n<div class=\"card\">\n<table>\n<tr><th>Name<th>State<th class=\"n\">Devices</tr>\n");
    for c in all.iter().filter(|c| c.state != "absent") {
        let class = match c.state {
            "ok" => "",
            "failed" => "bad",
            _ => "dunno",
        };
        let (name, state) = (c.name, c.state);
        write!(out, "<tr class=\"{class}\"><td>{name}<td><b>{state}</b>")?;
        if !c.reason.is_empty() {
            write!(out, ": {}", Text(&c.reason))?;
        }
        for d in &c.failed {
            write!(out, "<br>{}: {}", Text(&d.device), Text(&d.reason))?;
        }
        for d in &c.late {
            let age = span(i64::try_from(d.age).unwrap_or(i64::MAX));
            write!(out, "<br>{}: no answer for {age}", Text(&d.device))?;
            match d.task_state {
                Some('D') => out.push_str(", uninterruptible (D)"),
                Some(letter) => write!(out, ", state {}", Text(letter))?,
                None => {}
            }
            if !d.wait_channel.is_empty() {
                write!(out, " in <code>{}</code>", Text(&d.wait_channel))?;
            }
            if !d.call.is_empty() {
                write!(out, ", <code>{}</code>", Text(&d.call))?;
            }
        }
        writeln!(out, "<td class=\"n\">{}</tr>", c.devices)?;
    }
    out.push_str("</table>\n");
    let absent: Vec<&str> = all
        .iter()
        .filter(|c| c.state == "absent")
        .map(|c| c.name)
        .collect();
    if !absent.is_empty() {
        writeln!(
            out,
            "<p class=\"soft\">Not on this node: {}.</p>",
            absent.join(", ")
        )?;
    }
    out.push_str("</div>\n");
    Ok(())
}

fn workers(all: &[Worker], out: &mut String) -> fmt::Result {
    out.push_str(
        "<h2>Workers</h2>\n<div class=\"card\">\n<table>\n<tr><th>Name<th>State<th class=\"n\">Starts</tr>\n",
    );
    for w in all {
        let name = w.name;
        match (w.pid, w.down) {
            (Some(pid), _) => write!(out, "<tr><td>{name}<td>runs, pid {pid}")?,
            (None, "") => write!(out, "<tr class=\"soft\"><td>{name}<td>not started")?,
            (None, why) => write!(out, "<tr class=\"bad\"><td>{name}<td><b>down</b>: {why}")?,
        }
        if w.stuck_slots > 0 {
            write!(out, "<br><b>{} earlier processes cannot end</b>", w.stuck_slots)?;
        }
        writeln!(out, "<td class=\"n\">{}</tr>", w.starts)?;
    }
    out.push_str("</table>\n</div>\n");
    Ok(())
}

fn links(out: &mut String) -> fmt::Result {
    out.push_str(
        "<h2>Pages</h2>\n<nav class=\"card\">\n<a href=\"/metrics\">Metrics</a>\n\
         <a href=\"/metrics?tier=detail\">Metrics, detail</a>\n<a href=\"/metrics?tier=debug\">Metrics, debug</a>\n",
    );
    let mut pages: Vec<&str> = COLLECTORS
        .iter()
        .flat_map(|c| c.metrics.iter())
        .flat_map(|m| m.aliases.iter().map(|a| a.page))
        .collect();
    pages.sort_unstable();
    pages.dedup();
    for page in pages {
        writeln!(out, "<a href=\"/metrics/{page}\">As {page}</a>")?;
    }
    out.push_str(
        "<a href=\"/api/v1/status\">This page as JSON</a>\n<a href=\"/-/ready\">Ready</a>\n\
         <a href=\"/-/healthy\">Alive</a>\n</nav>\n",
    );
    Ok(())
}

/// Whole seconds between the start and now.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a time in seconds; a float saturates"
)]
fn age(at: i64, started: f64) -> i64 {
    at.saturating_sub(started as i64)
}

/// A time as people write it.
fn time(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).map_or_else(
        |_| format!("{seconds} s after 1970"),
        |t| t.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
    )
}

/// A duration by its two largest units.
fn span(seconds: i64) -> String {
    let s = seconds.max(0);
    let (days, hours, minutes) = (s / 86_400, s / 3600 % 24, s / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{s} s"),
        (0, 0, m) => format!("{m} min {} s", s % 60),
        (0, h, m) => format!("{h} h {m} min"),
        (d, h, _) => format!("{d} d {h} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        let text = Text("<b a=\"x\" b='y'>&\n\u{202e}\u{7f}é").to_string();
        assert_eq!(
            text,
            "&lt;b a=&quot;x&quot; b=&#39;y&#39;&gt;&amp;\u{fffd}\u{fffd}\u{fffd}é"
        );
    }

    #[test]
    fn spans_and_times() {
        let all = [0, 59, 61, 3600, 7384, 90_000, -5].map(span);
        assert_eq!(
            all,
            [
                "0 s",
                "59 s",
                "1 min 1 s",
                "1 h 0 min",
                "2 h 3 min",
                "1 d 1 h",
                "0 s"
            ]
        );
        assert_eq!(time(1_700_000_000), "2023-11-14 22:13:20 UTC");
        assert!(time(i64::MAX).ends_with("after 1970"));
    }
}
