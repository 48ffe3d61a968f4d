//! docs/metrics.md, from the metric tables.

use collectors::metric::{Kind, Metric, Tier, Unit};
use nodewarden::exposition::own;

use crate::cell;

const HEAD: &str = "# Metrics

Made by `cargo xtask docs` from the tables in the code; do not edit.

Tier: `core` is served by default, `detail` and `debug` when asked for (`/metrics?tier=detail`), `private` never: it
is read by the health checks only. A series whose value could not be read is left out; it is never 0 in its place.
";

pub(crate) fn page() -> String {
    let mut out = HEAD.to_owned();
    for spec in collectors::COLLECTORS {
        section(&mut out, spec.name, spec.metrics);
    }
    section(&mut out, "nodewarden itself, and what it derives", own::METRICS);
    out
}

fn section(out: &mut String, title: &str, metrics: &[&Metric]) {
    if metrics.is_empty() {
        return;
    }
    out.push_str(&format!("\n## {title}\n\n"));
    out.push_str(
        "| metric | kind | unit | tier | labels | meaning | source |\n|---|---|---|---|---|---|---|\n",
    );
    for metric in metrics {
        let labels: Vec<String> = metric.labels.iter().map(|l| format!("`{l}`")).collect();
        out.push_str(&format!(
            "| `{}` | {} | {} | {} | {} | {} | {} |\n",
            metric.name,
            kind(metric.kind),
            unit(metric.unit),
            tier(metric.tier),
            labels.join(" "),
            cell(metric.help),
            cell(metric.source),
        ));
    }
}

fn kind(kind: Kind) -> &'static str {
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

fn tier(tier: Tier) -> &'static str {
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
            aliases: &[],
        };
        let mut out = String::new();
        section(&mut out, "host", &[&M]);
        assert_eq!(
            out.lines().last(),
            Some("| `a_total` | counter | - | core | `x` `y` | A\\|B. | /sys/\\*/a |")
        );
    }

    #[test]
    fn a_collector_without_metrics_has_no_section() {
        let mut out = String::new();
        section(&mut out, "host", &[]);
        assert!(out.is_empty());
    }
}
