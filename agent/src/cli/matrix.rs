//! Nothing broken looks healthy: what `check`, `status` and `/metrics` say while a source has one of eight faces, and
//! after it. `fixtures/matrix/expected.md` is the table; `UPDATE_GOLDEN=1` writes it again.

#![allow(clippy::disallowed_methods, reason = "a test makes the files that it reads")]

mod faces;
mod node;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::thread;

use exposition::{Encoder, Format, Selection};
use health::verdict::Health;

use super::{check, screen, status};
use crate::http::control::NodeStatus;
use faces::{Cell, ROWS};
use node::Node;
use status::show::{ReplyTime, show};

/// Families about the state of sources, checks and drain. The others hold values.
const STATE: [&str; 10] = [
    "nodewarden_collector_up",
    "nodewarden_collector_state_info",
    "nodewarden_device_",
    "nodewarden_worker_up",
    "nodewarden_verdict",
    "nodewarden_incidents_open",
    "nodewarden_incident_info",
    "nodewarden_incident_remedy",
    "nodewarden_drain_state",
    "nodewarden_kernel_log_",
];

/// Values that one reading has. Others, such as rates of NVIDIA's profiling, need two readings 1 s apart in real time.
const VALUES: [&str; 8] = [
    "gpu_up",
    "gpu_info",
    "gpu_temperature",
    "gpu_power",
    "gpu_memory",
    "gpu_utilization",
    "rdma_",
    "host_",
];

fn is_value(line: &str) -> bool {
    VALUES.iter().any(|name| line.starts_with(name))
}

/// What the daemon says at one moment.
#[derive(Clone, Debug, PartialEq)]
struct Said {
    health: Health,
    check: String,
    status: Vec<String>,
    metrics: Vec<String>,
    /// Lines of values.
    series: usize,
    /// Open incidents.
    open: usize,
}

impl Said {
    fn by(node: &mut Node) -> Self {
        let (page, verdict) = node.page();
        let at = page.snapshot.at;
        let dir = node.dir.path().display().to_string();
        let text = serde_json::to_string(&verdict).unwrap();
        let check::Judged {
            health, text: said, ..
        } = check::judge(&text, &verdict.boot, at);
        let wall = page.view.incidents.iter().map(|i| i.since).max().unwrap_or(0);
        let time = ReplyTime {
            boottime_ms: u64::try_from(at.as_millis()).unwrap(),
            wall,
        };
        let mut out = Vec::new();
        let all = Selection {
            tier: exposition::tier("debug"),
            ..Selection::default()
        };
        Encoder::default().page(None, &page, &all, Format::Text, &mut out);
        let out = String::from_utf8(out).unwrap();
        let mut status = NodeStatus::of(&page, at);
        for collector in status.collectors.iter_mut().filter(|c| c.name == "nvidia") {
            collector.series = out
                .lines()
                .filter(|line| line.starts_with("gpu_") && is_value(line))
                .count();
        }
        let status = show(&status, time, &screen::PLAIN);
        // An id has the time of a line of the log in it, and a time is shown in the machine's own zone.
        let hide = |text: &str| {
            let mut text = text.replace(&dir, "/node");
            for (incident, number) in page.view.incidents.iter().zip(1..) {
                text = text.replace(&incident.id, &format!("id{number:06}"));
                text = text.replace(&screen::short_time(incident.since), "TIME");
            }
            text
        };
        let lines = out.lines().filter(|line| !line.starts_with('#'));
        let (state, values): (Vec<&str>, Vec<&str>) =
            lines.partition(|line| STATE.iter().any(|name| line.starts_with(name)));
        Self {
            health,
            check: format!("{}: {}", format!("{health:?}").to_lowercase(), hide(&said)),
            status: hide(&status).lines().map(|l| l.trim_end().to_owned()).collect(),
            metrics: state.into_iter().map(hide).collect(),
            series: values.iter().filter(|line| is_value(line)).count(),
            open: page.view.incidents.iter().filter(|i| i.closed.is_none()).count(),
        }
    }

    /// The lines that `sound` does not have.
    fn news<'a>(lines: &'a [String], sound: &[String]) -> Vec<&'a String> {
        let sound: BTreeSet<&String> = sound.iter().collect();
        // The line of `check` has the verdict, and the incident's row the reason.
        let others = ["nodewarden 0", "nodewarden:", "since ", "verdict ", "id  "];
        let counts = |line: &&String| {
            !sound.contains(line) && !others.iter().any(|start| line.trim_start().starts_with(start))
        };
        lines.iter().filter(counts).collect()
    }

    fn write(&self, title: &str, sound: &Self, out: &mut String) {
        writeln!(out, "{title:<12}check     {}", self.check).unwrap();
        let news = Self::news(&self.status, &sound.status);
        // The head of the status repeats the text of the verdict.
        for line in news.iter().filter(|line| !self.check.contains(line.trim())) {
            writeln!(out, "            status    {}", line.trim()).unwrap();
        }
        for line in Self::news(&self.metrics, &sound.metrics) {
            writeln!(out, "            /metrics  {line}").unwrap();
        }
        writeln!(
            out,
            "            values    {} series, {} on a sound node",
            self.series, sound.series
        )
        .unwrap();
    }

    /// Whether a page or a command shows that something is wrong.
    fn is_evident(&self, sound: &Self) -> bool {
        let told = |line: &&String| {
            let is_state = [
                "collector_up",
                "device_up",
                "verdict{",
                "incident_info",
                "device_error",
                "late_seconds",
                "drain_state",
            ];
            is_state.iter().any(|name| line.contains(name)) || line.contains("_total")
        };
        self.open > sound.open
            || self.health != Health::Healthy
            || Self::news(&self.metrics, &sound.metrics).iter().any(told)
    }
}

/// The results of a cell: during the fault and after it.
struct Result {
    cell: &'static Cell,
    sound: Said,
    during: Said,
    after: Said,
}

fn results() -> Vec<Result> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let all: Vec<&'static Cell> = ROWS.iter().flat_map(|row| row.cells).collect();
    let mut found: Vec<(usize, Result)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..6)
            .map(|_| {
                scope.spawn(|| {
                    let mut own = Vec::new();
                    loop {
                        let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        let Some(cell) = all.get(at) else { return own };
                        own.push((at, run(cell)));
                    }
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, result)| result).collect()
}

fn run(cell: &'static Cell) -> Result {
    let mut node = (cell.node)();
    // Some values need more than one reading.
    for seconds in [15, 15, 15, 60, 60] {
        node.tick(seconds);
    }
    let sound = Said::by(&mut node);
    (cell.strike)(&mut node);
    for seconds in [15, 15, 15, 15, 60, 60, 60, 60, 60, 60] {
        node.tick(seconds);
    }
    let during = Said::by(&mut node);
    (cell.lift)(&mut node);
    for seconds in [15, 15, 15, 15, 15, 60, 60, 300, 300] {
        node.tick(seconds);
    }
    let after = Said::by(&mut node);
    Result {
        cell,
        sound,
        during,
        after,
    }
}

const HEAD: &str = "\
# What a broken source looks like

Written by the test `cli::matrix`. Each cell is a node on which one source has one face for 7 min, then is sound for 13 min.
Lines of `status` and of `/metrics` are those that the sound node does not have; of `/metrics?tier=debug`, those about the
state of sources, checks and drain. The last line counts the series of values.
";

#[test]
fn nothing_broken_looks_healthy() {
    let results = results();
    let mut text = HEAD.to_owned();
    let (mut silent, mut stays) = (Vec::new(), Vec::new());
    let mut results = results.iter();
    for row in ROWS {
        write!(text, "\n## {}\n", row.name).unwrap();
        for result in results.by_ref().take(row.cells.len()) {
            let Result {
                cell,
                sound,
                during,
                after,
            } = result;
            let title = format!("{}, {}", row.name, cell.face);
            write!(text, "\n### {}\n\n{}.\n\n```\n", cell.face, cell.what).unwrap();
            during.write("now", sound, &mut text);
            after.write("back again", sound, &mut text);
            text.push_str("```\n");
            assert_eq!(sound.health, Health::Healthy, "{title}: {sound:#?}");
            if !during.is_evident(sound) {
                silent.push(title.clone());
            }
            if after.series < sound.series
                || !cell.stays && (after.open > 0 || after.health != Health::Healthy)
            {
                stays.push(title);
            }
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/matrix/expected.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(
        silent,
        Vec::<String>::new(),
        "cells that say only healthy\n{text}"
    );
    assert_eq!(
        stays,
        Vec::<String>::new(),
        "cells whose values or verdict do not come back\n{text}"
    );
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        expected == text,
        "fixtures/matrix/expected.md differs from:\n{text}"
    );
}
