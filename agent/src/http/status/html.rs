//! The status page: one document without scripts or external resources, readable on a phone.

use std::collections::BTreeSet;

use collectors::COLLECTORS;
use maud::{Markup, html};

use super::drain::DrainReport;
use super::{
    ClosedReport, CollectorReport, CommandReport, IncidentReport, LateDevice, StatusReport, WorkerReport,
};
use crate::http::control::{GpuView, MountView, PortView, place};
use crate::http::document::document;
use crate::http::runbooks;
use crate::screen::{self, is_hidden};
use health::Mode;
use health::verdict::Health;
use health::view::without_act;

/// How often a browser loads it again, in seconds.
const REFRESH: u32 = 30;

/// A text with visible marks for characters that could hide or reverse what follows.
fn visible(text: &str) -> String {
    let mark = |c| {
        if is_hidden(c) {
            char::REPLACEMENT_CHARACTER
        } else {
            c
        }
    };
    text.chars().map(mark).collect()
}

/// The query of the page that a browser does not load again.
pub(in crate::http) const STILL: &str = "refresh=off";

/// The page. `still`: a browser does not load it again.
pub(in crate::http) fn render(report: &StatusReport, still: bool) -> String {
    let verdict = &report.verdict;
    let word = match verdict.health {
        Health::Healthy => "healthy",
        Health::Unhealthy => "unhealthy",
        Health::Unknown => "unknown",
    };
    let host = visible(&report.host);
    // What cannot be read explains empty tables.
    let blind = report.collectors.iter().any(is_troubled);
    let body = html! {
        header class=(word) {
            h1 { (host) }
            p class="verdict" { (word) }
            p { (visible(&verdict.text)) }
            p { (screen::zoned_time(report.at)) ", checked " (span(seconds(verdict.age))) " ago" }
        }
        main {
            @if report.config_error {
                p class="card dunno" {
                    b { "The configuration was rejected." } " The last good one is in force. See "
                    code { "nodewarden config check" } ", with the --config and --set of the daemon."
                }
            }
            h2 { "Open incidents: " (report.incidents.len()) }
            @for i in &report.incidents { (incident(i, &report.gpus)) }
            @if report.incidents.is_empty() { p class="card" { "None." } }
            (drain(&report.drain))
            @if blind { (collectors(&report.collectors)) }
            (gpus(&report.gpus))
            (ports(&report.ports))
            (mounts(&report.mounts))
            @if !blind { (collectors(&report.collectors)) }
            (workers(&report.workers))
            (commands(&report.commands))
            (closed(&report.closed))
            (links())
            p class="soft" {
                "nodewarden " (report.nodewarden) ", running for " (span(age(report.at, report.started)))
                ". Mode: " (report.mode) "."
            }
            p class="soft refresh" {
                @if still {
                    "Not refreshed. " a href="/" { "Refresh every " (REFRESH) " s" }
                } @else {
                    "Refreshed every " (REFRESH) " s. " a href={ "/?" (STILL) } { "Do not refresh" }
                }
            }
        }
    };
    document(&format!("{word}: {host}"), (!still).then_some(REFRESH), &body)
}

fn incident(i: &IncidentReport, gpus: &[GpuView]) -> Markup {
    let effect = match (i.acts, i.mode) {
        _ if i.state == "overridden" => {
            "an operator lifted its drain; only new evidence drains the node".to_owned()
        }
        (false, _) => without_act(&i.check, i.could),
        (true, "drain") => "drain: drains the node".to_owned(),
        (true, "comment") => {
            "comment mode: for the node's Comment, one incident at a time, no drain".to_owned()
        }
        (true, _) if i.could < Mode::Drain => {
            "observe mode: would write the node's Comment, no action taken".to_owned()
        }
        (true, _) => "observe mode: would drain, no action taken".to_owned(),
    };
    html! {
        article.card.bad[i.acts].dunno[!i.acts] {
            h3 {
                (visible(&place(&i.subject, gpus))) ": "
                @if !i.meaning.is_empty() { (visible(&i.meaning)) ", " }
                (visible(&i.detail))
            }
            dl {
                dt { "Remedy" } dd { b { (visible(&i.remedy)) } }
                dt { "Mode" } dd { (effect) }
                @if let Some(page) = runbooks::of_check(&i.check) {
                    dt { "Runbook" } dd { a href=(page.path()) { (page.title()) } }
                }
                dt { "Evidence" } dd { code { "nodewarden why " (visible(&i.id)) } }
                dt { "Open for" } dd { (span(i.age)) ", since " (screen::zoned_time(i.since)) }
                dt { "Ack" } dd { @if i.acknowledged { "yes" } @else { "no" } }
                dt { "Subject" } dd { (visible(&i.subject)) }
                dt { "Check" } dd { (visible(&i.check)) }
                dt { "Ends by" } dd { (with_code(&i.ends)) }
            }
        }
    }
}

/// A text whose commands are in backticks.
fn with_code(text: &str) -> Markup {
    html! {
        @for (part, is_code) in text.split('`').zip([false, true].into_iter().cycle()) {
            @if is_code { code { (visible(part)) } } @else { (visible(part)) }
        }
    }
}

fn drain(drain: &DrainReport) -> Markup {
    html! {
        h2 { "Drain: " (visible(&drain.state)) }
        div class="card" {
            p { (drain.text) }
            @if let (Some(since), Some(age)) = (drain.since, drain.age) {
                p { "For " (span(age)) ", since " (screen::zoned_time(since)) "." }
            }
            @if let Some(id) = &drain.incident {
                p { "For incident " code { (visible(id)) } "." }
                @if !drain.recorded {
                    p { b { "Not recorded on disk:" } " it is never lifted automatically." }
                }
            }
        }
    }
}

fn gpus(all: &[GpuView]) -> Markup {
    html! {
        @if !all.is_empty() {
            h2 { "GPUs" }
            div class="card" {
                table {
                    tr {
                        th { "GPU" } th.n { "Util" } th.n { "Memory" } th.n { "Temp" } th.n { "Power" }
                        th { "Jobs" } th { "State" }
                    }
                    @for gpu in all { (row(gpu)) }
                }
            }
        }
    }
}

fn row(gpu: &GpuView) -> Markup {
    let class = match (gpu.up, gpu.trouble.is_empty()) {
        (Some(true), true) => "",
        (Some(false), _) => "bad",
        _ => "dunno",
    };
    let share = match (gpu.memory_used, gpu.memory_total) {
        (Some(used), Some(all)) if all > 0.0 => Some(100.0 * used / all),
        _ => None,
    };
    let number = |value: Option<f64>, unit: &str| html! { td.n { @if let Some(v) = value { (format!("{v:.0}{unit}")) } } };
    html! {
        tr class=(class) {
            td { @if gpu.index.is_empty() { "?" } @else { (visible(&gpu.index)) } }
            (number(gpu.utilization.map(|u| 100.0 * u), " %"))
            (number(share, " %"))
            (number(gpu.temperature, " °C"))
            (number(gpu.power, " W"))
            td.whole { (visible(&gpu.jobs.join(", "))) }
            td {
                b { @if gpu.trouble.is_empty() { "ok" } @else { (visible(&gpu.trouble.join(", "))) } }
                @if gpu.instances > 0 { ", " (gpu.instances) " instances" }
            }
        }
        tr.sub {
            td.soft colspan="7" { (visible(&gpu.name)) " " (visible(&gpu.pci)) br; (visible(&gpu.gpu)) }
        }
    }
}

fn ports(all: &[PortView]) -> Markup {
    html! {
        @if !all.is_empty() {
            h2 { "RDMA ports" }
            div class="card" {
                table {
                    tr { th { "Port" } th.n { "Rate" } th { "State" } }
                    @for port in all {
                        tr class=(match (port.up, port.trouble.is_empty()) { (Some(true), true) => "", (Some(false), _) => "bad", _ => "dunno" }) {
                            td { (visible(&port.port)) br; span class="soft" { (visible(&port.netdev)) } }
                            td.n { @if let Some(rate) = port.rate { (screen::bit_rate(rate)) } }
                            td {
                                b { @if port.trouble.is_empty() { (visible(&port.state)) } @else { (visible(&port.trouble.join(", "))) } }
                                " "
                                span class="soft" { (visible(&port.link_layer)) br; (visible(&port.pci)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn mounts(all: &[MountView]) -> Markup {
    html! {
        @if !all.is_empty() {
            h2 { "Filesystems" }
            div class="card" {
                table {
                    tr { th { "Mount" } th.n { "Size" } th.n { "Used" } th { "State" } }
                    @for mount in all { (filesystem(mount)) }
                }
            }
        }
    }
}

fn filesystem(mount: &MountView) -> Markup {
    let class = match (mount.up, mount.trouble.is_empty()) {
        (Some(true), true) => "",
        (Some(false), _) => "bad",
        _ => "dunno",
    };
    html! {
        tr class=(class) {
            td { (visible(&mount.mountpoint)) br; span class="soft" { (visible(&mount.fstype)) } }
            td.n { @if let Some(size) = mount.size { (screen::bytes(size)) } }
            td.n { @if let Some(used) = mount.used() { (format!("{:.0} %", 100.0 * used)) } }
            td { b { @if mount.trouble.is_empty() { "ok" } @else { (visible(&mount.state())) } } }
        }
    }
}

fn collectors(all: &[CollectorReport]) -> Markup {
    let (absent, present): (Vec<_>, Vec<_>) = all.iter().partition(|c| c.state == "absent");
    let absent: Vec<&str> = absent.iter().map(|c| c.name).collect();
    let troubled = present.iter().filter(|c| is_troubled(c)).count();
    html! {
        h2 { "Collectors" }
        details.card open[troubled > 0] {
            summary { (present.len() - troubled) " ok" @if troubled > 0 { ", " b { (troubled) " not" } } }
            table {
                tr { th { "Name" } th { "State" } th.n { "Devices" } }
                @for c in present {
                    tr class=(match c.state { "ok" => "", "failed" => "bad", _ => "dunno" }) {
                        td { (c.name) }
                        td {
                            b { (c.state) }
                            @if !c.reason.is_empty() { ": " (visible(&c.reason)) }
                            @for d in &c.failed { br; (visible(&d.device)) ": " (visible(&d.reason)) }
                            @for d in &c.late { br; (late(d)) }
                        }
                        td.n { (c.devices) }
                    }
                }
            }
            @if !absent.is_empty() { p class="soft" { "Not on this node: " (absent.join(", ")) "." } }
        }
    }
}

fn is_troubled(c: &CollectorReport) -> bool {
    !["absent", "ok"].contains(&c.state)
}

fn late(d: &LateDevice) -> Markup {
    html! {
        (visible(&d.device)) @if !d.overdue { ": slow" } ": no answer for " (span(seconds(d.age)))
        @match d.task_state {
            Some('D') => ", uninterruptible (D)",
            Some(letter) => { ", state " (visible(letter.encode_utf8(&mut [0; 4]))) },
            None => {},
        }
        @if !d.wait_channel.is_empty() { " in " code { (visible(&d.wait_channel)) } }
        @if !d.call.is_empty() { ", " code { (visible(&d.call)) } }
    }
}

fn commands(all: &[CommandReport]) -> Markup {
    html! {
        @if !all.is_empty() {
            h2 { "Site checks" }
            div class="card" {
                table {
                    tr { th { "Check" } th { "Result" } th.n { "Age" } th.n { "Took" } }
                    @for c in all {
                        tr class=(match c.result { "healthy" => "", "none" => "soft", _ => "bad" }) {
                            td { (visible(&c.check)) }
                            td { (c.result) }
                            td.n { @if let Some(age) = c.age { (span(i64::try_from(age).unwrap_or(i64::MAX))) } }
                            td.n { @if let Some(took) = c.took { (format!("{took:.1} s")) } }
                        }
                    }
                }
            }
        }
    }
}

fn workers(all: &[WorkerReport]) -> Markup {
    let is_down = |w: &&WorkerReport| (w.pid.is_none() && w.down != "absent") || w.stuck_slots > 0;
    let down = all.iter().filter(is_down).count();
    html! {
        h2 { "Workers" }
        details.card open[down > 0] {
            summary { (all.iter().filter(|w| w.pid.is_some()).count()) " run" @if down > 0 { ", " b { (down) " in trouble" } } }
            table {
                tr { th { "Name" } th { "State" } th.n { "Starts" } }
                @for w in all {
                    tr class=(match (w.pid, w.down) { (Some(_), _) => "", (None, "" | "absent") => "soft", _ => "bad" }) {
                        td { (w.name) }
                        td {
                            @match (w.pid, w.down) {
                                (Some(pid), _) => { "runs, pid " (pid) },
                                (None, "") => "not started",
                                (None, "absent") => "not on this node",
                                (None, why) => { b { "down" } ": " (why) },
                            }
                            @if w.stuck_slots > 0 { br; b { "earlier processes that do not end: " (w.stuck_slots) " of 2" } }
                        }
                        td.n { (w.starts) }
                    }
                }
            }
        }
    }
}

fn closed(all: &[ClosedReport]) -> Markup {
    html! {
        @if !all.is_empty() {
            h2 { "Closed incidents" }
            div class="card" {
                table {
                    tr { th { "Incident" } th.n { "Lasted" } th.n { "Closed" } }
                    @for i in all {
                        tr {
                            td.wide { (visible(&i.detail)) " on " (visible(&i.subject)) br; span class="soft" { (visible(&i.id)) } }
                            td.n { (span(i.closed.saturating_sub(i.since))) }
                            td.n { (span(i.age)) " ago" }
                        }
                    }
                }
            }
        }
    }
}

fn links() -> Markup {
    let metrics = COLLECTORS.iter().flat_map(|c| c.metrics.iter());
    let pages: BTreeSet<&str> = metrics
        .flat_map(|m| m.aliases.iter().map(|a| a.page.as_str()))
        .collect();
    html! {
        h2 { "Pages" }
        nav class="card" {
            a href="/metrics" { "Metrics" } " "
            a href="/metrics?tier=detail" { "Metrics, detail" } " "
            a href="/metrics?tier=debug" { "Metrics, debug" } " "
            @for page in pages { a href={ "/metrics/" (page) } { "As " (page) } " " }
            a href=(runbooks::INDEX) { "Runbooks" } " "
            a href="/api/v1/status" { "This page as JSON" } " "
            a href="/-/ready" { "Ready" } " "
            a href="/-/healthy" { "Alive" }
        }
    }
}

/// Seconds as [`span`] takes them.
fn seconds(age: u64) -> i64 {
    i64::try_from(age).unwrap_or(i64::MAX)
}

/// Whole seconds between the start and now.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a time in seconds; a float saturates"
)]
fn age(at: i64, started: f64) -> i64 {
    at.saturating_sub(started as i64)
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
        let text = visible("<b a=\"x\" b='y'>&\n\u{202e}\u{7f}é");
        assert_eq!(
            html! { (text) }.into_string(),
            "&lt;b a=&quot;x&quot; b='y'&gt;&amp;\u{fffd}\u{fffd}\u{fffd}é"
        );
    }

    #[test]
    fn commands_in_a_text_are_code() {
        let text = with_code("a reboot, or `nodewarden clear`; <b>").into_string();
        assert_eq!(text, "a reboot, or <code>nodewarden clear</code>; &lt;b&gt;");
    }

    #[test]
    fn spans() {
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
    }
}
