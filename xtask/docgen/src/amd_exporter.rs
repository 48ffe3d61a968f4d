//! docs/amd-exporter.md, from the aliases of the page `/metrics/amd` and the table of AMD's metrics.

use anyhow::{Context, Result};

use crate::cell;

const HEAD: &str = "# Metrics of AMD's device-metrics-exporter

Made by `cargo xtask docs` from the tables in the code and `collectors/tests/amd-metrics.tsv`; do not edit.

The GPU and IFOE metrics of ROCm/device-metrics-exporter 1.5.2, and what the page `/metrics/amd` has of them
([gpus.md](gpus.md#the-page-metricsamd)). Its 250 metrics of AMD's network cards are not on the page: the collector `rdma`
reads these cards as any others.

| metric | unit | on the page | nodewarden's metric, or why not |
|---|---|---|---|
";

/// The daemon's own families of that page (agent/src/own/amd.rs).
const BY_DAEMON: [(&str, &str); 2] = [
    ("gpu_health", "open incidents of the GPU"),
    ("gpu_nodes_total", "number of `gpu_info`"),
];

pub(crate) fn page() -> Result<String> {
    let mut out = HEAD.to_owned();
    let table = include_str!("../../../collectors/tests/amd-metrics.tsv");
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let mut columns = line.splitn(3, '\t');
        let mut next = || columns.next().with_context(|| format!("{line:?}: three columns"));
        let (name, unit, reason) = (next()?, next()?, next()?);
        let (has, why) = match reason {
            "-" => ("yes", ours(name)),
            reason => ("no", cell(reason)),
        };
        out.push_str(&format!("| `{name}` | {unit} | {has} | {why} |\n"));
    }
    Ok(out)
}

/// Our metrics of that name, each with the labels that it stands for.
fn ours(name: &str) -> String {
    let by_daemon = BY_DAEMON.into_iter().filter(|(own, _)| *own == name);
    let mut found: Vec<String> = by_daemon.map(|(_, what)| cell(what)).collect();
    for metric in collectors::metrics() {
        let aliases = metric
            .aliases
            .iter()
            .filter(|a| &*a.page == "amd" && &*a.name == name);
        found.extend(aliases.map(|alias| {
            let only: Vec<String> = alias
                .only
                .iter()
                .map(|(label, value)| format!("{label}={value}"))
                .collect();
            match only.is_empty() {
                true => format!("`{}`", metric.name),
                false => format!("`{}` ({})", metric.name, cell(&only.join(", "))),
            }
        }));
    }
    found.dedup();
    found.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_has_ours_or_a_reason() {
        let page = page().unwrap();
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        assert!(rows.len() > 200, "{}", rows.len());
        for row in rows {
            assert!(!row.ends_with("|  |"), "{row}");
        }
        assert!(page.contains("| `gpu_ecc_correct_bif` | count | yes | `gpu_ecc_location_errors_total` (kind=corrected, scope=volatile, location=pcie\\_bif) |"));
    }
}
