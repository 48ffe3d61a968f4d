//! Jobs as pages.

use std::collections::BTreeMap;

use crate::screen::{self, Cell, Paint, Screen, Table};
use model::jobs::{JobsView, Line, Unread};

/// Limit of ended jobs shown.
const ENDED: usize = 20;

/// All jobs, one line each.
pub(super) fn all(jobs: &JobsView, screen: &Screen) -> String {
    let of = |has_ended: bool| {
        jobs.running
            .iter()
            .filter(move |line| line.ended.is_some() == has_ended)
    };
    let mut out = table("running", of(false), screen);
    out.push_str(&table("awaiting epilog", of(true), screen));
    let more = jobs.ended.len().saturating_sub(ENDED);
    let ended = jobs.ended.iter().skip(more).map(AsRef::as_ref);
    out.push_str(&table("ended", ended, screen));
    match jobs.withheld {
        0 if out.is_empty() => "no job has been seen on this node\n".to_owned(),
        0 => out,
        n => format!("{out}withheld: {n} jobs of other users (access.jobs)\n"),
    }
}

fn table<'a>(title: &str, jobs: impl Iterator<Item = &'a Line>, screen: &Screen) -> String {
    let mut table = Table::headed([
        title, "user", "began", "for", "result", "GPU time", "busy", "energy", "GPUs",
    ]);
    let mut is_empty = true;
    for line in jobs {
        is_empty = false;
        table.row(vec![
            Cell::new(&line.job),
            Cell::new(&line.user),
            Cell::new(screen::short_time(whole(line.began))),
            Cell::new(lasted(line)),
            Cell::painted(paint(line), result(line)),
            Cell::new(span(line.gpu_seconds.filter(|s| *s > 0.0))),
            Cell::new(busy(line.gpu_busy_seconds, line.gpu_watched_seconds())),
            Cell::new(energy(line.gpu_energy_joules)),
            Cell::new(names(line)),
        ]);
    }
    if is_empty {
        String::new()
    } else {
        table.shown(0, screen)
    }
}

/// One job in full.
pub(super) fn one(line: &Line, screen: &Screen) -> String {
    let title = format!("job {}", screen::clean(&line.job));
    let title = screen.paint(Paint::Heading, &title);
    let result = screen.paint(paint(line), result(line));
    let parts = [facts(line, screen), gpus(line, screen), node(line, screen)];
    format!("{title}  {result}\n{}", parts.concat())
}

fn facts(line: &Line, screen: &Screen) -> String {
    let mut facts = Table::default();
    let mut fact = |name: &str, text: String| {
        if !text.is_empty() {
            facts.row(vec![Cell::painted(Paint::Faint, name), Cell::new(text)]);
        }
    };
    let array = [line.array_job.as_str(), line.array_task.as_str()];
    for (name, text) in [
        ("user", line.user.clone()),
        ("account", line.account.clone()),
        ("partition", line.partition.clone()),
        ("array", array.join("_").trim_matches('_').to_owned()),
        ("part of", line.het_job.clone()),
        ("began", screen::time(whole(line.began))),
        (
            "ended",
            line.ended.map(|at| screen::time(whole(at))).unwrap_or_default(),
        ),
        ("lasted", lasted(line)),
        (
            "exit",
            line.end
                .map(|e| format!("code {}, signal {}", e.exit_code, e.signal))
                .unwrap_or_default(),
        ),
        ("processors", span(line.cpu_seconds)),
        ("memory", bytes(line.memory_peak_bytes)),
        (
            "OOM kills",
            line.oom_kills
                .filter(|n| *n > 0.0)
                .map(|n| n.to_string())
                .unwrap_or_default(),
        ),
        ("GPU time", span(line.gpu_seconds.filter(|s| *s > 0.0))),
        (
            "GPU busy",
            busy(line.gpu_busy_seconds, line.gpu_watched_seconds()),
        ),
        ("GPU energy", energy(line.gpu_energy_joules)),
        ("throttled", throttled(&line.gpu_throttle_seconds)),
        (
            "Xids",
            line.xids
                .iter()
                .map(|(code, n)| format!("{code} ({n})"))
                .collect::<Vec<_>>()
                .join(", "),
        ),
        ("known by", line.evidence.clone().unwrap_or_default()),
        ("readings", line.readings.to_string()),
        (
            "unread",
            line.unread.map(|why| unread(why).to_owned()).unwrap_or_default(),
        ),
    ] {
        fact(name, text);
    }
    facts.shown(2, screen)
}

fn gpus(line: &Line, screen: &Screen) -> String {
    if line.gpus.is_empty() {
        return String::new();
    }
    let mut gpus = Table::headed(["GPU", "time", "busy", "energy", "memory", "throttled"]);
    for gpu in &line.gpus {
        let name = match gpu.gpu_instance.as_str() {
            "" => gpu.gpu.clone(),
            instance => format!("{} {instance}", gpu.gpu),
        };
        gpus.row(vec![
            Cell::new(name),
            Cell::new(span(gpu.seconds)),
            Cell::new(busy(gpu.busy_seconds, gpu.watched().unwrap_or_default())),
            Cell::new(energy(gpu.energy_joules)),
            Cell::new(bytes(gpu.memory_peak_bytes)),
            Cell::new(throttled(&gpu.throttle_seconds)),
        ]);
    }
    gpus.shown(2, screen)
}

/// What the node counted while the job ran.
fn node(line: &Line, screen: &Screen) -> String {
    if line.node.is_empty() {
        return String::new();
    }
    let whose = if line.shared {
        "the node counted, other jobs' too"
    } else {
        "the node counted"
    };
    let mut node = Table::default();
    for (name, by) in &line.node {
        node.row(vec![Cell::painted(Paint::Faint, name), Cell::number(Some(*by))]);
    }
    let title = screen.paint(Paint::Heading, whose);
    format!("  {title}\n{}", node.shown(4, screen))
}

fn unread(why: Unread) -> &'static str {
    match why {
        Unread::DaemonDown => "the job ended before the daemon started",
        Unread::NoReading => "no reading succeeded while the job ran",
    }
}

fn result(line: &Line) -> &'static str {
    match line.ended {
        None => "running",
        Some(_) => line.result(),
    }
}

fn paint(line: &Line) -> Paint {
    match result(line) {
        "completed_or_cancelled" => Paint::Good,
        "running" | "unknown" => Paint::Plain,
        _ => Paint::Bad,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "seconds since the epoch, for display"
)]
fn whole(seconds: f64) -> i64 {
    seconds as i64
}

fn lasted(line: &Line) -> String {
    let now = || jiff::Timestamp::now().as_second();
    let until = line.ended.map_or_else(now, whole);
    let seconds = until.saturating_sub(whole(line.began));
    screen::span(u64::try_from(seconds).unwrap_or_default())
}

fn span(seconds: Option<f64>) -> String {
    let seconds = seconds.and_then(|s| u64::try_from(whole(s)).ok());
    seconds.map(screen::span).unwrap_or_default()
}

/// Share of the known time, in percent.
fn busy(busy: Option<f64>, all: f64) -> String {
    let share = busy.filter(|_| all > 0.0).map(|busy| busy / all * 100.0);
    share.map(|share| format!("{share:.0} %")).unwrap_or_default()
}

/// In kWh from 0.1 kWh on, else in kJ.
fn energy(joules: Option<f64>) -> String {
    match joules {
        None => String::new(),
        Some(joules) if joules >= 360_000.0 => format!("{:.1} kWh", joules / 3_600_000.0),
        Some(joules) => format!("{:.1} kJ", joules / 1000.0),
    }
}

fn bytes(bytes: Option<f64>) -> String {
    bytes.map(screen::bytes).unwrap_or_default()
}

fn throttled(by: &BTreeMap<String, f64>) -> String {
    let each = by
        .iter()
        .map(|(reason, seconds)| format!("{reason} {seconds:.1} s"));
    each.collect::<Vec<_>>().join(", ")
}

fn names(line: &Line) -> String {
    let short = |gpu: &str| gpu.chars().take(12).collect::<String>();
    let each = line.gpus.iter().map(|g| match g.gpu_instance.as_str() {
        "" => short(&g.gpu),
        instance => format!("{} {instance}", short(&g.gpu)),
    });
    each.collect::<Vec<_>>().join(", ")
}
