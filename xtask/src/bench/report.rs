//! The results as a table and as JSON, and the limits.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::measure::{Figures, Series};
use super::{DOCUMENT, FLOOR, FLOOR_DESIGN, OURS, peers};
use crate::cmd;

/// Marks around a table in docs/benchmarks.md.
#[derive(Clone, Copy)]
pub(super) struct Marks {
    begin: &'static str,
    end: &'static str,
}

/// The comparison with node_exporter.
pub(super) const MEASURED: Marks = Marks {
    begin: "<!-- measured: begin -->",
    end: "<!-- measured: end -->",
};

/// The GPUs, compared with all-smi.
pub(super) const GPUS: Marks = Marks {
    begin: "<!-- gpus: begin -->",
    end: "<!-- gpus: end -->",
};

/// A client of Lustre, compared with lustre_collector.
pub(super) const LUSTRE: Marks = Marks {
    begin: "<!-- lustre: begin -->",
    end: "<!-- lustre: end -->",
};

/// Divided MI300X.
pub(super) const AMD: Marks = Marks {
    begin: "<!-- amd: begin -->",
    end: "<!-- amd: end -->",
};

/// Netlink compared with sysfs files.
pub(super) const RDMA: Marks = Marks {
    begin: "<!-- rdma: begin -->",
    end: "<!-- rdma: end -->",
};

/// The processes of one scrape.
pub(super) const WHERE: Marks = Marks {
    begin: "<!-- where: begin -->",
    end: "<!-- where: end -->",
};

/// Limits: CPU relative to node_exporter, to the floor of the design at one a second and in a row, that of the floor at one a second
/// relative to one in a row, KiB, context switches per second.
const RATIO: f64 = 0.25;
const DESIGN_SLOW: f64 = 2.0;
const DESIGN_ROW: f64 = 1.7;
const STEADY: f64 = 1.25;
const PSS: u64 = 20 * 1024;
const SWITCHES: f64 = 2.0;

/// The machine of a measurement.
pub(super) struct Machine {
    pub(super) lines: Vec<String>,
}

/// One line of the table: its title, and the cell of a program.
pub(super) type Row<F> = (&'static str, fn(&F, &[F]) -> String);

const ROWS: &[Row<Figures>] = &[
    ("version", |f, _| f.version.clone()),
    ("counters shown", |f, _| f.shown.to_string()),
    ("series of a page", |f, _| f.samples.to_string()),
    ("bytes, gzip (plain)", |f, _| {
        format!("{} ({})", f.bytes_gzip, f.bytes_plain)
    }),
    ("**CPU ms a scrape, gzip, 1/s**", |f, _| spread(&f.slow)),
    ("ratio to node_exporter 1.11", |f, all| {
        ratio(f, all, peers::NEW.name)
    }),
    ("ratio to the floor", |f, all| ratio(f, all, FLOOR)),
    ("ratio to the floor of the design", |f, all| {
        ratio(f, all, FLOOR_DESIGN)
    }),
    ("CPU us a series, gzip, 1/s", |f, _| per_series(f)),
    ("p50 / p99 ms, gzip, 1/s", |f, _| latency(&f.slow)),
    ("CPU ms a scrape, gzip, in a row", |f, _| spread(&f.gzip)),
    (
        "ratio in a row to the floor / the floor of the design",
        |f, all| {
            let to = |other| in_a_row(f, all, other).map_or("-".to_owned(), |t| format!("{t:.2}"));
            format!("{} / {}", to(FLOOR), to(FLOOR_DESIGN))
        },
    ),
    ("p50 / p99 ms, gzip, in a row", |f, _| latency(&f.gzip)),
    ("CPU ms a scrape, plain, in a row", |f, _| spread(&f.plain)),
    ("p50 / p99 ms, plain, in a row", |f, _| latency(&f.plain)),
    ("longest burst of a scrape, median / max ms", |f, _| {
        f.burst
            .map_or("-".to_owned(), |(median, max)| format!("{median:.2} / {max:.2}"))
    }),
    ("system calls a scrape", |f, _| {
        f.syscalls.map_or("-".to_owned(), |n| format!("{n:.0}"))
    }),
    ("processes / threads / descriptors", |f, _| {
        let sum = |of: fn(&testkit::footprint::Footprint) -> usize| f.processes.iter().map(of).sum::<usize>();
        format!(
            "{} / {} / {}",
            f.processes.len(),
            sum(|p| p.threads),
            sum(|p| p.fds)
        )
    }),
    ("RSS / PSS MiB, all processes", |f, _| {
        let rss = f.processes.iter().map(|p| p.rss).sum();
        format!("{} / {}", mib(rss), mib(pss(f)))
    }),
    ("idle: voluntary switches a second", |f, _| {
        format!("{:.2}", f.idle_switches)
    }),
    ("idle: CPU us a second", |f, _| format!("{:.0}", f.idle_cpu)),
];

fn pss(f: &Figures) -> u64 {
    f.processes.iter().map(|p| p.pss).sum()
}

fn mib(kib: u64) -> String {
    format!("{:.1}", kib as f64 / 1024.0)
}

fn spread(series: &Series) -> String {
    let Some(median) = series.median() else {
        return "-".to_owned();
    };
    let low = series.cpu.iter().copied().fold(f64::INFINITY, f64::min);
    let high = series.cpu.iter().copied().fold(0.0, f64::max);
    match series.cpu.len() {
        1 => format!("{median:.2}"),
        _ => format!("{median:.2} ({low:.2}..{high:.2})"),
    }
}

fn latency(series: &Series) -> String {
    let at = |share| {
        series
            .percentile(share)
            .map_or("-".to_owned(), |v| format!("{v:.2}"))
    };
    format!("{} / {}", at(50), at(99))
}

fn per_series(f: &Figures) -> String {
    f.slow.median().map_or("-".to_owned(), |ms| {
        format!("{:.2}", ms * 1e3 / f.samples.max(1) as f64)
    })
}

/// CPU of scrapes of one kind, relative to another program: that beside it, if there was one. Rounds of programs that did not take
/// turns are not the same.
fn relative(f: &Figures, all: &[Figures], other: &str, kind: fn(&Figures) -> &Series) -> Option<f64> {
    let named = |o: &&Figures| o.name == other;
    if let Some(beside) = f.beside.iter().find(named) {
        return kind(f).relative(kind(beside));
    }
    let other = all.iter().find(named)?;
    if f.beside.is_empty() {
        kind(f).relative(kind(other))
    } else {
        Some(kind(f).median()? / kind(other).median()?)
    }
}

/// CPU at one scrape per second, relative to another program.
fn times(f: &Figures, all: &[Figures], other: &str) -> Option<f64> {
    relative(f, all, other, |f| &f.slow)
}

/// CPU in a row, relative to another program.
fn in_a_row(f: &Figures, all: &[Figures], other: &str) -> Option<f64> {
    relative(f, all, other, |f| &f.gzip)
}

/// Says where a pause makes the same work dearer: scrapes at one a second then measure the machine too.
pub(super) fn unsteady(all: &[Figures]) -> Option<String> {
    let floor = all.iter().find(|f| f.name == FLOOR)?;
    let times = floor.slow.median()? / floor.gzip.median()?;
    (times > STEADY).then(|| {
        format!(
            "{FLOOR}: {times:.2} times the CPU of a scrape in a row at one a second, expected {STEADY}: a pause costs on this machine"
        )
    })
}

fn ratio(f: &Figures, all: &[Figures], other: &str) -> String {
    times(f, all, other).map_or("-".to_owned(), |t| format!("{t:.2}"))
}

/// The table, in Markdown.
pub(super) fn table(all: &[Figures]) -> String {
    columns(all, |f| f.name.as_str(), ROWS)
}

/// A table in Markdown with a column for each program.
pub(super) fn columns<F>(all: &[F], name: fn(&F) -> &str, rows: &[Row<F>]) -> String {
    let names: Vec<&str> = all.iter().map(name).collect();
    let mut text = format!("| | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(all.len()));
    for (what, cell) in rows {
        let cells: Vec<String> = all.iter().map(|f| cell(f, all)).collect();
        let _ = writeln!(text, "| {what} | {} |", cells.join(" | "));
    }
    text
}

/// All results as JSON; last, the programs beside one of them.
pub(super) fn json(all: &[Figures], machine: &Machine) -> Value {
    let series = |s: &Series| json!({ "cpu_ms_per_scrape": s.cpu, "p50_ms": s.percentile(50), "p99_ms": s.percentile(99), "scrapes": s.took.len() });
    let beside = all.iter().flat_map(|f| &f.beside);
    let programs = all.iter().chain(beside).map(|f| {
        let process = |p: &testkit::footprint::Footprint| {
            json!({ "name": p.name, "rss_kib": p.rss, "pss_kib": p.pss, "fds": p.fds, "threads": p.threads })
        };
        json!({
            "name": f.name, "version": f.version, "faults": f.faults, "counters_shown": f.shown, "series": f.samples,
            "bytes_gzip": f.bytes_gzip, "bytes_plain": f.bytes_plain,
            "gzip_once_a_second": series(&f.slow), "gzip_in_a_row": series(&f.gzip), "plain_in_a_row": series(&f.plain),
            "ratio_to_node_exporter": times(f, all, peers::NEW.name), "ratio_to_floor": times(f, all, FLOOR), "ratio_to_floor_of_the_design": times(f, all, FLOOR_DESIGN),
            "burst_ms": f.burst, "syscalls_per_scrape": f.syscalls, "processes": f.processes.iter().map(process).collect::<Vec<_>>(),
            "idle_switches_per_s": f.idle_switches, "idle_cpu_us_per_s": f.idle_cpu, "cpu_method": f.method,
        })
    });
    json!({ "machine": machine.lines, "programs": programs.collect::<Vec<_>>() })
}

/// Exceeded limits.
pub(super) fn over_budget(all: &[Figures]) -> Vec<String> {
    let mut over = Vec::new();
    for f in all.iter().filter(|f| f.name.starts_with(OURS)) {
        let mut say = |what: String| over.push(format!("{}: {what}", f.name));
        // The whole node has more sources than node_exporter: its ratio is shown without a limit.
        if f.name == OURS {
            let mut compare = |other: &str, what: &str, limit: f64, times: Option<f64>| match times {
                Some(times) if (0.01..=limit).contains(&times) => {}
                Some(times) => say(format!(
                    "{times:.2} of the CPU of {other} {what}, expected at most {limit}"
                )),
                // A missing measurement is an error too.
                None => say(format!("not compared with {other} {what}")),
            };
            for (other, row, slow) in [
                (peers::NEW.name, RATIO, RATIO),
                (FLOOR_DESIGN, DESIGN_ROW, DESIGN_SLOW),
            ] {
                compare(other, "in a row", row, in_a_row(f, all, other));
                compare(other, "at one a second", slow, times(f, all, other));
            }
        }
        if pss(f) >= PSS {
            say(format!(
                "PSS {} MiB, expected less than {}",
                mib(pss(f)),
                mib(PSS)
            ));
        }
        if f.idle_switches >= SWITCHES {
            say(format!(
                "{:.2} switches per second without scrapes, expected less than {SWITCHES}",
                f.idle_switches
            ));
        }
    }
    over
}

/// A description of the machine.
///
/// # Errors
/// When it cannot be read.
pub(super) fn machine(cores: usize, tree: &Path, method: &str) -> Result<Machine> {
    let read = |file: &str| std::fs::read_to_string(file).with_context(|| file.to_owned());
    let cpu = read("/proc/cpuinfo")?;
    let model = cpu.lines().find_map(|l| {
        l.strip_prefix("model name")?
            .split_once(':')
            .map(|(_, m)| m.trim().to_owned())
    });
    let load = read("/proc/loadavg")?;
    let kind = cmd::output(cmd::program("stat", &["-f", "-c", "%T"]).arg(tree))?;
    let date = cmd::output(&mut cmd::program("date", &["-u", "+%F"]))?;
    let mut commit = cmd::output(&mut cmd::program("git", &["describe", "--always"]))?;
    commit.truncate(commit.trim_end().len());
    // The document of an earlier bench changes no program.
    let others = format!(":(top,exclude){DOCUMENT}");
    let changes = [
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        ".",
        &others,
    ];
    if !cmd::output(&mut cmd::program("git", &changes))?.trim().is_empty() {
        commit.push_str("-dirty");
    }
    Ok(Machine {
        lines: vec![
            format!(
                "{cores} cores of {}, Linux {}, load {} at the start",
                model.unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
                read("/proc/sys/kernel/osrelease")?.trim(),
                load.split(' ').next().unwrap_or_default()
            ),
            format!(
                "{}, commit {}, tree on {}",
                date.trim(),
                commit.trim(),
                kind.trim()
            ),
            format!("CPU by {method}"),
        ],
    })
}

/// Writes the table between the marks of the document.
///
/// # Errors
/// When the document has no marks.
pub(super) fn write(document: &Path, marks: Marks, machine: &Machine, table: &str) -> Result<()> {
    let text = std::fs::read_to_string(document).with_context(|| document.display().to_string())?;
    std::fs::write(document, inserted(&text, marks, &machine.lines, table)?)?;
    Ok(())
}

fn inserted(text: &str, marks: Marks, machine: &[String], table: &str) -> Result<String> {
    let (Some(begin), Some(end)) = (text.find(marks.begin), text.find(marks.end)) else {
        bail!("no {} and {}", marks.begin, marks.end);
    };
    let machine: String = machine.iter().map(|l| format!("* {l}\n")).collect();
    let head = &text[..begin + marks.begin.len()];
    Ok(format!("{head}\n{machine}\n{table}{}", &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::super::OURS_WHOLE;
    use super::*;

    fn figures(name: &str, cpu: f64) -> Figures {
        let mut f = Figures {
            name: name.to_owned(),
            samples: 100,
            ..Figures::default()
        };
        f.slow.cpu = vec![cpu];
        f.gzip.cpu = vec![cpu];
        f
    }

    #[test]
    fn only_exceeded_limits_are_named() {
        let mut all = vec![
            figures(peers::NEW.name, 10.0),
            figures(OURS, 2.5),
            figures(FLOOR_DESIGN, 1.5),
        ];
        assert_eq!(over_budget(&all), [""; 0]);
        all[1].slow.cpu = vec![2.6];
        all[1].idle_switches = 2.0;
        all[1].processes = vec![testkit::footprint::Footprint {
            pid: 1,
            name: OURS.to_owned(),
            rss: PSS,
            pss: PSS,
            fds: 1,
            threads: 1,
        }];
        let over = over_budget(&all);
        assert_eq!(over.len(), 3, "{over:?}");
        assert_eq!(over_budget(&all[1..]).len(), 4, "a missing ratio passed");
        assert_eq!(over_budget(&all[..2]).len(), 5, "a missing ratio passed");
    }

    #[test]
    fn a_program_is_compared_with_the_floor_that_ran_beside_it() {
        let mut whole = figures(OURS_WHOLE, 6.0);
        let all = [figures(FLOOR, 1.0)];
        assert_eq!(times(&whole, &all, FLOOR), Some(6.0));
        whole.beside = vec![figures(FLOOR, 3.0)];
        assert_eq!(times(&whole, &all, FLOOR), Some(2.0));
        // That of another run: its rounds are other ones.
        whole.slow.cpu = vec![6.0, 2.0, 8.0];
        let mut other = figures(peers::NEW.name, 0.0);
        other.slow.cpu = vec![1.0, 12.0, 24.0];
        assert_eq!(times(&whole, &[other], peers::NEW.name), Some(0.5));
    }

    #[test]
    fn the_floor_of_the_design_has_a_limit_of_its_own() {
        let mut all = vec![
            figures(peers::NEW.name, 100.0),
            figures(FLOOR_DESIGN, 1.0),
            figures(OURS, DESIGN_ROW),
        ];
        assert_eq!(over_budget(&all), [""; 0]);
        all[2].slow.cpu = vec![DESIGN_SLOW];
        assert_eq!(over_budget(&all), [""; 0]);
        all[2].slow.cpu = vec![DESIGN_SLOW + 0.1];
        all[2].gzip.cpu = vec![DESIGN_ROW + 0.1];
        assert_eq!(
            over_budget(&all),
            [
                "nodewarden: 1.80 of the CPU of floor of the design in a row, expected at most 1.7",
                "nodewarden: 2.10 of the CPU of floor of the design at one a second, expected at most 2"
            ]
        );
    }

    #[test]
    fn both_ways_of_scraping_have_the_limit_also_where_a_pause_costs() {
        let mut all = vec![
            figures(peers::NEW.name, 10.0),
            figures(FLOOR, 1.0),
            figures(OURS, 2.0),
            figures(FLOOR_DESIGN, 2.0),
        ];
        assert_eq!(unsteady(&all), None);
        all[1].slow.cpu = vec![1.3];
        assert!(unsteady(&all).is_some());
        assert_eq!(over_budget(&all), [""; 0]);
        all[2].slow.cpu = vec![3.0];
        assert_eq!(over_budget(&all).len(), 1);
        all[2].gzip.cpu = vec![3.0];
        assert_eq!(over_budget(&all).len(), 2);
    }

    #[test]
    fn the_table_replaces_the_text_between_the_marks() {
        let all = [figures(peers::NEW.name, 10.0), figures(FLOOR, 1.0)];
        let table = table(&all);
        assert!(
            table.contains("| ratio to node_exporter 1.11 | 1.00 | 0.10 |"),
            "{table}"
        );
        let Marks { begin, end } = GPUS;
        let text = format!("a\n{begin}\nold\n{end}\nb\n");
        let once = inserted(&text, GPUS, &["m".to_owned()], "t\n").unwrap();
        assert_eq!(once, format!("a\n{begin}\n* m\n\nt\n{end}\nb\n"));
        assert_eq!(inserted(&once, GPUS, &["m".to_owned()], "t\n").unwrap(), once);
        assert!(inserted(&text, MEASURED, &[], "t").is_err());
    }
}
