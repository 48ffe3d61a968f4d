//! Panels whose numbers promtool calculates: lost nodes, an unknown verdict, shares of divided GPUs, a number that is 0.

use std::fmt::Write;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Dashboard;
use super::check::whole;

/// A page of a node with 4 GPUs: one in 4 instances, one in 7, one with MIG and no instance, one whole.
pub(super) const DIVIDED: &str = "fixtures/nvidia/a100-mig/expected.prom";

/// A panel's number in a situation.
struct Case {
    uid: &'static str,
    title: &'static str,
    /// The legend of the query.
    legend: &'static str,
    series: Series,
    /// The samples at 10 minutes, as promtool writes their labels.
    expected: &'static [(&'static str, f64)],
}

/// Series by the minute.
enum Series {
    /// The page, with a job on each instance.
    Instances,
    /// The page, with a job on each instance and each GPU that has none.
    All,
    These(&'static [(&'static str, &'static str)]),
}

/// One node of two does not answer, and neither does another job's target.
const LOST: &[(&str, &str)] = &[
    (r#"up{job="nodewarden",cluster="c",instance="n1"}"#, "0x20"),
    (r#"up{job="nodewarden",cluster="c",instance="n2"}"#, "1x20"),
    (r#"up{job="node",cluster="c",instance="n1"}"#, "0x20"),
];

/// A node on which nodewarden cannot tell.
const UNKNOWN: &[(&str, &str)] = &[
    (
        r#"nodewarden_verdict{cluster="c",instance="n1",verdict="healthy"}"#,
        "0x20",
    ),
    (
        r#"nodewarden_verdict{cluster="c",instance="n1",verdict="unhealthy"}"#,
        "0x20",
    ),
    (
        r#"nodewarden_verdict{cluster="c",instance="n1",verdict="unknown"}"#,
        "1x20",
    ),
];

/// A job with a GPU that is always busy, and 2 instances.
const MIXED: &[(&str, &str)] = &[
    (
        r#"slurm_job_gpu_watched_seconds_total{cluster="c",instance="n1",gpu="a",jobid="7"}"#,
        "0+60x20",
    ),
    (
        r#"slurm_job_gpu_busy_seconds_total{cluster="c",instance="n1",gpu="a",jobid="7"}"#,
        "0+60x20",
    ),
    (
        r#"slurm_job_gpu_seconds_total{cluster="c",instance="n1",gpu="b",gpu_instance="7/0",jobid="7"}"#,
        "0+60x20",
    ),
    (
        r#"slurm_job_gpu_seconds_total{cluster="c",instance="n1",gpu="b",gpu_instance="8/0",jobid="7"}"#,
        "0+60x20",
    ),
];

/// Two clusters have a job of this number: one is busy, the other is not.
const TWICE: &[(&str, &str)] = &[
    (
        r#"slurm_job_gpu_watched_seconds_total{cluster="c",instance="n1",gpu="a",jobid="7"}"#,
        "0+60x20",
    ),
    (
        r#"slurm_job_gpu_busy_seconds_total{cluster="c",instance="n1",gpu="a",jobid="7"}"#,
        "0+60x20",
    ),
    (
        r#"slurm_job_gpu_watched_seconds_total{cluster="d",instance="n1",gpu="a",jobid="7"}"#,
        "0+60x20",
    ),
    (
        r#"slurm_job_gpu_busy_seconds_total{cluster="d",instance="n1",gpu="a",jobid="7"}"#,
        "5x20",
    ),
];

/// Two GPUs: one whole and busy, one in two instances that are idle.
const TENSOR: &[(&str, &str)] = &[
    (
        r#"gpu_tensor_active_ratio{cluster="c",instance="n1",gpu="a"}"#,
        "1x20",
    ),
    (
        r#"gpu_tensor_active_ratio{cluster="c",instance="n1",gpu="b",gpu_instance="7"}"#,
        "0x20",
    ),
    (
        r#"gpu_tensor_active_ratio{cluster="c",instance="n1",gpu="b",gpu_instance="8"}"#,
        "0x20",
    ),
];

/// No port is active, and no job runs.
const IDLE: &[(&str, &str)] = &[
    (
        r#"rdma_port_state{cluster="c",instance="n1",device="mlx5_0",port="1"}"#,
        "1x20",
    ),
    (r#"gpu_up{cluster="c",instance="n1",gpu="a"}"#, "1x20"),
    (
        r#"nodewarden_collector_up{cluster="c",instance="n1",collector="slurm"}"#,
        "1x20",
    ),
];

static CASES: &[Case] = &[
    Case {
        uid: "nodewarden-fabric",
        title: "Ports active",
        legend: "",
        series: Series::These(IDLE),
        expected: &[("{}", 0.0)],
    },
    Case {
        uid: "nodewarden-gpus",
        title: "Utilization",
        legend: "allocated",
        series: Series::These(IDLE),
        expected: &[("{}", 0.0)],
    },
    Case {
        uid: "nodewarden-gpus",
        title: "Tensor cores",
        legend: "tensor active",
        series: Series::These(TENSOR),
        expected: &[("{}", 0.5)],
    },
    Case {
        uid: "nodewarden-cluster",
        title: "Not scraped",
        legend: "",
        series: Series::These(LOST),
        expected: &[("{}", 1.0)],
    },
    Case {
        uid: "nodewarden-node",
        title: "Verdict",
        legend: "",
        series: Series::These(UNKNOWN),
        expected: &[("{}", 1.0)],
    },
    Case {
        uid: "nodewarden-gpus",
        title: "Utilization",
        legend: "allocated",
        series: Series::Instances,
        expected: &[("{}", 0.5)],
    },
    Case {
        uid: "nodewarden-gpus",
        title: "Utilization",
        legend: "allocated",
        series: Series::All,
        expected: &[("{}", 1.0)],
    },
    Case {
        uid: "nodewarden-job",
        title: "GPUs busy",
        legend: "{{cluster}}",
        series: Series::These(MIXED),
        expected: &[(r#"{cluster="c"}"#, 1.0)],
    },
    Case {
        uid: "nodewarden-job",
        title: "GPUs busy",
        legend: "{{cluster}}",
        series: Series::These(TWICE),
        expected: &[(r#"{cluster="c"}"#, 1.0), (r#"{cluster="d"}"#, 0.0)],
    },
    Case {
        uid: "nodewarden-job",
        title: "GPUs busy, by node",
        legend: "{{cluster}} {{instance}}",
        series: Series::These(MIXED),
        expected: &[(r#"{cluster="c",instance="n1"}"#, 1.0)],
    },
];

/// promtool's tests. `page`: the content of [`DIVIDED`].
///
/// # Errors
/// When a case names a panel that does not exist.
pub(super) fn tests(all: &[&Dashboard], page: &str) -> Result<String> {
    let mut out = String::from("evaluation_interval: 1m\ntests:\n");
    for case in CASES {
        let panels = all
            .iter()
            .filter(|d| d.uid == case.uid)
            .flat_map(|d| d.rows)
            .flat_map(|row| row.panels);
        let (expr, _) = panels
            .filter(|panel| panel.title == case.title)
            .flat_map(|panel| panel.queries)
            .find(|(_, legend)| *legend == case.legend)
            .with_context(|| format!("{}, {}: no such panel", case.uid, case.title))?;
        writeln!(out, "  - interval: 1m\n    input_series:")?;
        for (series, values) in case.series.of(page) {
            let (series, values) = (Value::from(series), Value::from(values));
            writeln!(out, "      - series: {series}\n        values: {values}")?;
        }
        let expr = Value::from(whole(expr));
        writeln!(
            out,
            "    promql_expr_test:\n      - expr: {expr}\n        eval_time: 10m\n        exp_samples:"
        )?;
        for (labels, value) in case.expected {
            let labels = Value::from(*labels);
            writeln!(out, "          - labels: {labels}\n            value: {value}")?;
        }
    }
    Ok(out)
}

impl Series {
    /// Series and values.
    fn of(&self, page: &str) -> Vec<(String, String)> {
        if let Self::These(series) = self {
            let owned = |(series, values): &(&str, &str)| ((*series).to_owned(), (*values).to_owned());
            return series.iter().map(owned).collect();
        }
        let samples: Vec<(&str, &str)> = page.lines().filter_map(|line| line.split_once('{')).collect();
        let of = |metric| {
            samples
                .iter()
                .filter(move |(name, _)| *name == metric)
                .map(|(_, labels)| *labels)
        };
        // `gpu="A",gpu_instance="1/0"`, then `gpu="A"`.
        let first = |labels: &str, count| labels.split([',', '}']).take(count).collect::<Vec<_>>().join(",");
        let mut units: Vec<String> = of("gpu_instance_info").map(|labels| first(labels, 2)).collect();
        let mut list = Vec::new();
        for (metric, labels) in [("gpu_up", 1), ("gpu_instance_info", 2)] {
            list.extend(of(metric).map(|all| (metric, first(all, labels))));
        }
        if matches!(self, Self::All) {
            let is_divided = |gpu: &String| units.iter().any(|unit| unit.starts_with(gpu.as_str()));
            let whole: Vec<String> = of("gpu_up")
                .map(|labels| first(labels, 1))
                .filter(|gpu| !is_divided(gpu))
                .collect();
            units.extend(whole);
        }
        list.extend(
            units
                .into_iter()
                .map(|unit| ("slurm_job_gpu_share_ratio", unit + ",jobid=\"7\"")),
        );
        let series = |(metric, labels)| format!("{metric}{{cluster=\"c\",instance=\"n1\",{labels}}}");
        list.into_iter()
            .map(|each| (series(each), "1x20".to_owned()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "gpu_up{gpu=\"a\"} 1\ngpu_up{gpu=\"b\"} 1\ngpu_instance_info{gpu=\"a\",gpu_instance=\"1/0\",uuid=\"u\"} 1\n";

    #[test]
    fn a_job_has_each_instance_and_each_gpu_that_has_none() {
        let shares = |series: Series| {
            let all = series.of(PAGE).into_iter();
            all.map(|(series, _)| series)
                .filter(|series| series.starts_with("slurm_job_gpu_share_ratio"))
                .collect::<Vec<_>>()
        };
        let of_a =
            r#"slurm_job_gpu_share_ratio{cluster="c",instance="n1",gpu="a",gpu_instance="1/0",jobid="7"}"#;
        let of_b = r#"slurm_job_gpu_share_ratio{cluster="c",instance="n1",gpu="b",jobid="7"}"#;
        assert_eq!(shares(Series::Instances), [of_a]);
        assert_eq!(shares(Series::All), [of_a, of_b]);
    }
}
