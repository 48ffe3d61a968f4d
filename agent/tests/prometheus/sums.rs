//! The jobs' shares of a node add up to the node's values, calculated by Prometheus.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use testkit::exposition::Sample;
use testkit::nvml::FakeNvml;
use testkit::tree;
use testkit::wait::{self, PATIENCE};

use crate::common::Node;

/// Jobs of the demo: one on two GPUs, and two that share one.
const JOBS: [&str; 3] = ["4712", "4713", "4714"];

/// Has an instance of the first GPU.
const WITH_INSTANCE: &str = "12";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fixtures")
        .join(name)
}

fn label(gpu: usize) -> String {
    format!("GPU-00000000-0000-4000-8000-00000000010{gpu}")
}

/// A node whose driver has its first GPU divided in two, with jobs of all kinds.
fn node() -> (Node, FakeNvml) {
    let mut node = Node::new();
    let root = node.path("root");
    tree::lay(&fixture("slurm/sluid-mig/root.tree"), &root).unwrap();
    let demo = fixture("demo/root.tree");
    let text = fs::read_to_string(&demo).unwrap();
    for (path, entry) in tree::parse("demo", &text).unwrap() {
        if JOBS.iter().any(|job| path.contains(&format!("/job_{job}"))) {
            tree::put(&root.join(path), &entry).unwrap();
        }
    }
    let folder = node.path("driver");
    fs::create_dir(&folder).unwrap();
    let driver = FakeNvml::install(&folder, &fixture("nvidia/h100/nvml.toml")).unwrap();
    driver.mig(0, "halves").unwrap();
    node.set(&format!("nvidia.library={:?}", driver.library()));
    // Programs of cgroups are files there.
    node.recorded = Some(node.path(""));
    node.spawn();
    (node, driver)
}

fn of<'a>(page: &'a [Sample], name: &'a str) -> impl Iterator<Item = &'a Sample> {
    page.iter().filter(move |s| s.name == name)
}

/// A page with every job on it, once each was read with its GPUs.
fn page(node: &Node) -> Vec<Sample> {
    let mut last = Vec::new();
    let found = wait::until("all jobs use something", PATIENCE, || {
        last = node.try_metrics().unwrap_or_default();
        let uses = |job: &&str| {
            let named = |name| of(&last, name).any(|s| s.label("jobid") == Some(job));
            // An instance does not say whether it works.
            let is_known = named("slurm_job_gpu_busy_seconds_total") || *job == WITH_INSTANCE;
            named("slurm_job_gpu_memory_bytes") && named("slurm_job_gpu_share_ratio") && is_known
        };
        let all = JOBS.iter().chain(&[WITH_INSTANCE]).all(uses);
        Ok(all.then(|| last.clone()))
    });
    found.unwrap_or_else(|e| panic!("{e:#}: {last:#?}"))
}

/// A series as promtool's tests have it.
fn series(sample: &Sample) -> String {
    let labels: Vec<String> = sample.labels.iter().map(|(k, v)| format!("{k}={v:?}")).collect();
    format!("{}{{{}}}", sample.name, labels.join(","))
}

fn rules() -> PathBuf {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../alerts/jobs.rules.yml");
    rules.canonicalize().unwrap()
}

/// Tests in which these pages are a minute apart.
fn tests(pages: [&[Sample]; 2], expected: &[(&str, Vec<(String, f64)>)]) -> String {
    let mut text = format!(
        "rule_files: [{}]\nevaluation_interval: 1m\ntests:\n- interval: 1m\n  input_series:\n",
        rules().display()
    );
    for sample in pages[0]
        .iter()
        .filter(|s| s.name.starts_with("slurm_") || s.name == "gpu_memory_used_bytes")
    {
        let after = pages[1]
            .iter()
            .find(|s| s.name == sample.name && s.labels == sample.labels);
        if let Some(after) = after {
            let (series, values) = (series(sample), [sample.value, after.value]);
            writeln!(
                text,
                "  - series: '{series}'\n    values: '{} {}'",
                values[0], values[1]
            )
            .unwrap();
        }
    }
    text.push_str("  promql_expr_test:\n");
    for (expr, samples) in expected {
        writeln!(text, "  - expr: '{expr}'\n    eval_time: 1m\n    exp_samples:").unwrap();
        if samples.is_empty() {
            text.truncate(text.len() - 1);
            text.push_str(" []\n");
        }
        for (labels, value) in samples {
            writeln!(text, "    - labels: '{labels}'\n      value: {value}").unwrap();
        }
    }
    text + PARTLY_KNOWN
}

/// A job with a GPU that reports utilization, one that does not, an instance, and a lost GPU; a job with a lost GPU only; and one with an
/// instance only.
const PARTLY_KNOWN: &str = r#"
- interval: 1m
  input_series:
  - series: 'slurm_job_gpu_seconds_total{gpu="a",jobid="99"}'
    values: '0 60'
  - series: 'slurm_job_gpu_busy_seconds_total{gpu="a",jobid="99"}'
    values: '0 30'
  - series: 'slurm_job_gpu_watched_seconds_total{gpu="a",jobid="99"}'
    values: '0 60'
  - series: 'slurm_job_gpu_seconds_total{gpu="d",jobid="99"}'
    values: '0 60'
  - series: 'slurm_job_gpu_busy_seconds_total{gpu="d",jobid="99"}'
    values: '30 30'
  - series: 'slurm_job_gpu_watched_seconds_total{gpu="d",jobid="99"}'
    values: '60 60'
  - series: 'slurm_job_gpu_seconds_total{gpu="b",jobid="99"}'
    values: '0 60'
  - series: 'slurm_job_gpu_seconds_total{gpu="e",jobid="97"}'
    values: '0 60'
  - series: 'slurm_job_gpu_busy_seconds_total{gpu="e",jobid="97"}'
    values: '30 30'
  - series: 'slurm_job_gpu_watched_seconds_total{gpu="e",jobid="97"}'
    values: '60 60'
  - series: 'slurm_job_gpu_seconds_total{gpu="c",gpu_instance="1/0",jobid="99"}'
    values: '0 60'
  - series: 'slurm_job_gpu_seconds_total{gpu="c",gpu_instance="2/0",jobid="98"}'
    values: '0 60'
  promql_expr_test:
  - expr: 'jobid:slurm_job_gpu_busy_seconds:ratio_rate5m'
    eval_time: 1m
    exp_samples:
    - labels: 'jobid:slurm_job_gpu_busy_seconds:ratio_rate5m{jobid="99"}'
      value: 0.5
"#;

#[test]
fn shards_an_instance_and_whole_gpus_add_up() {
    let (node, _driver) = node();
    let before = page(&node);
    let at = |page: &[Sample]| {
        of(page, "slurm_job_gpu_seconds_total")
            .map(|s| s.value)
            .sum::<f64>()
    };
    let begun = at(&before);
    node.until("time has passed", |n| at(&n.metrics()) > begun + 3.0);
    let after = node.metrics();

    let job = |name: &str, job: &str| format!("{name}{{jobid=\"{job}\"}}");
    // Prometheus knows no label without a value.
    let gpu = |gpu: usize, instance: &str| match instance {
        "" => format!("{{gpu=\"{}\"}}", label(gpu)),
        _ => format!("{{gpu=\"{}\", gpu_instance=\"{instance}\"}}", label(gpu)),
    };
    let shares: Vec<_> = [("4712", 2.0), ("4713", 0.5), ("4714", 0.5), (WITH_INSTANCE, 1.0)]
        .map(|(id, share)| (job("jobid:slurm_job_gpu_share_ratio:sum", id), share))
        .to_vec();
    let each = [gpu(0, "1/0"), gpu(4, ""), gpu(5, ""), gpu(6, "")];
    let text = tests(
        [&before, &after],
        &[
            ("jobid:slurm_job_gpu_share_ratio:sum", shares),
            // The shares of each allocated GPU and instance add up to 1.
            (
                "sum by (gpu, gpu_instance) (slurm_job_gpu_share_ratio)",
                each.map(|labels| (labels, 1.0)).to_vec(),
            ),
            // The usage of jobs adds up to the usage of the device.
            (
                "abs(sum by (gpu, gpu_instance) (slurm_job_gpu_memory_bytes) - on (gpu, gpu_instance) gpu_memory_used_bytes) > 1",
                Vec::new(),
            ),
            (
                "count(sum by (gpu, gpu_instance) (slurm_job_gpu_memory_bytes) - on (gpu, gpu_instance) gpu_memory_used_bytes)",
                vec![("{}".to_owned(), 4.0)],
            ),
            (
                "count(jobid:slurm_job_gpu_memory_bytes:sum)",
                vec![("{}".to_owned(), 4.0)],
            ),
            // An instance reports no utilization.
            (
                "count by (jobid) (jobid:slurm_job_gpu_busy_seconds:ratio_rate5m)",
                JOBS.map(|id| (format!("{{jobid=\"{id}\"}}"), 1.0)).to_vec(),
            ),
            // Two jobs that share a GPU have as much of its time together as any job has of one that is its own.
            (
                "count(count_values(\"s\", round(sum by (gpu) (increase(slurm_job_gpu_seconds_total{gpu_instance=\"\"}[2m])), 0.001)))",
                vec![("{}".to_owned(), 1.0)],
            ),
        ],
    );
    let file = node.path("sums.yml");
    fs::write(&file, &text).unwrap();
    testkit::promtool::test_rules(&file).unwrap_or_else(|e| panic!("{e:#}\n{text}"));
    testkit::promtool::check_rules(&rules()).unwrap();
}
