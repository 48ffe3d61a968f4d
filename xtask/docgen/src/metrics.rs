//! docs/metrics.md, from the metric tables.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use collectors::metric::{Kind, Metric, Tier, Unit};
use nodewarden::own;

use crate::cell;

const HEAD: &str = "# Metrics

Made by `cargo xtask docs` from the tables in the code; do not edit.

Tier: `/metrics` serves `core` by default, and `detail` and `debug` on request (`/metrics?tier=detail`). `private` is never
served; only the health checks read it. A series whose value could not be read is omitted, never shown as 0.

Elsewhere: the name in another exporter, as on [its page](exposition.md). Captured: `yes` if a recording of real hardware
below `fixtures/` contains the metric. All other metrics are tested with fixtures written from the documentation and source
code of the drivers.
";

/// The metrics in recordings of real hardware.
pub(crate) fn captured(fixtures: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for group in folders(fixtures)? {
        for case in folders(&group)? {
            let Ok(source) = fs::read_to_string(case.join("SOURCE")) else {
                continue;
            };
            if !source.starts_with("captured") {
                continue;
            }
            let page = fs::read_to_string(case.join("expected.prom")).unwrap_or_default();
            let samples = page.lines().filter(|l| !l.starts_with('#'));
            found.extend(samples.filter_map(|l| Some(l.split(['{', ' ']).next()?.to_owned())));
        }
    }
    Ok(found)
}

fn folders(folder: &Path) -> Result<Vec<std::path::PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let paths = entries
        .map(|e| Ok(e?.path()))
        .collect::<std::io::Result<Vec<_>>>()?;
    Ok(paths.into_iter().filter(|p| p.is_dir()).collect())
}

pub(crate) fn page(captured: &BTreeSet<String>) -> String {
    let mut out = HEAD.to_owned();
    for spec in collectors::COLLECTORS {
        section(&mut out, spec.name, spec.metrics, Some(captured));
    }
    section(
        &mut out,
        "nodewarden itself, and what it derives",
        own::METRICS,
        None,
    );
    out
}

/// `captured`: what recordings of real hardware have; `None` where no recording is needed.
fn section(out: &mut String, title: &str, metrics: &[&Metric], captured: Option<&BTreeSet<String>>) {
    if metrics.is_empty() {
        return;
    }
    out.push_str(&format!("\n## {title}\n\n"));
    out.push_str("| metric | kind | unit | tier | labels | meaning | source |");
    out.push_str(if captured.is_some() {
        " elsewhere | captured |\n"
    } else {
        "\n"
    });
    out.push_str("|---|---|---|---|---|---|---|");
    out.push_str(if captured.is_some() { "---|---|\n" } else { "\n" });
    for metric in metrics {
        let labels: Vec<String> = metric.labels.iter().map(|l| format!("`{l}`")).collect();
        out.push_str(&format!(
            "| `{}` | {} | {} | {} | {} | {} | {} |",
            metric.name,
            kind(metric.kind),
            unit(metric.unit),
            tier(metric.tier),
            labels.join(" "),
            cell(metric.help),
            cell(metric.source),
        ));
        if let Some(captured) = captured {
            // A histogram's samples have names with endings.
            let is_it = |name: &String| {
                name.strip_prefix(metric.name)
                    .is_some_and(|rest| ["", "_count"].contains(&rest))
            };
            let seen = if captured.iter().any(is_it) { "yes" } else { "no" };
            out.push_str(&format!(" {} | {seen} |", elsewhere(metric)));
        }
        out.push('\n');
    }
}

/// What others call it, each with the labels of ours that it stands for.
fn elsewhere(metric: &Metric) -> String {
    let one = |a: &collectors::Alias| {
        let only: Vec<String> = a.only.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let only = if only.is_empty() {
            String::new()
        } else {
            format!(" ({})", cell(&only.join(", ")))
        };
        format!("`{}`{only}", a.name)
    };
    let names: Vec<String> = metric.aliases.iter().map(one).collect();
    names.join(", ")
}

pub(crate) fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Info => "info",
        Kind::Histogram(_) => "histogram",
    }
}

fn unit(unit: Unit) -> &'static str {
    match unit.suffix() {
        "" => "-",
        word => word,
    }
}

pub(crate) fn tier(tier: Tier) -> &'static str {
    match tier {
        Tier::Core => "core",
        Tier::Detail => "detail",
        Tier::Debug => "debug",
        Tier::Private => "private",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_one_row_and_its_text_stays_in_its_cell() {
        static M: Metric = Metric {
            name: "a_total",
            kind: Kind::Counter,
            unit: Unit::None,
            labels: &["x", "y"],
            help: "A|B.",
            tier: Tier::Core,
            source: "/sys/*/a",
            aliases: &[collectors::Alias {
                only: collectors::inline::Pairs::new(&[("x", "1")]),
                ..collectors::Alias::new("dcgm", "DCGM_A", Kind::Counter, &[])
            }],
        };
        let mut out = String::new();
        section(&mut out, "host", &[&M], None);
        let row = "| `a_total` | counter | - | core | `x` `y` | A\\|B. | /sys/\\*/a |";
        assert_eq!(out.lines().last(), Some(row));
        for (captured, word) in [(vec!["a_total_more"], "no"), (vec!["a_total"], "yes")] {
            let captured = captured.into_iter().map(str::to_owned).collect();
            section(&mut out, "host", &[&M], Some(&captured));
            let row = format!("{row} `DCGM_A` (x=1) | {word} |");
            assert_eq!(out.lines().last(), Some(row.as_str()));
        }
    }

    #[test]
    fn a_collector_without_metrics_has_no_section() {
        let mut out = String::new();
        section(&mut out, "host", &[], None);
        assert!(out.is_empty());
    }
}
