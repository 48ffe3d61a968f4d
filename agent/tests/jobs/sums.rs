//! What several jobs have of a node adds up to what the node has, by Prometheus' own arithmetic.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use testkit::exposition::Sample;
use testkit::slurm::SlurmOptions;
use testkit::wait::{self, PATIENCE};

use crate::cluster::{CAPS, Cluster, label, options};
use crate::common::Node;

const GRES: &str = "AutoDetect=off\n\
    Name=gpu Type=half MultipleFiles=@DEV@/nvidia2,@DEV@/nvidia-cap21,@DEV@/nvidia-cap22\n\
    Name=gpu Type=half MultipleFiles=@DEV@/nvidia2,@DEV@/nvidia-cap30,@DEV@/nvidia-cap31\n\
    Name=gpu Type=h100 File=@DEV@/nvidia5\n\
    Name=gpu Type=h100 File=@DEV@/nvidia6\n\
    Name=shard Count=8 File=@DEV@/nvidia6\n";

const MINORS: &str =
    "gpu2/gi1/access 21\ngpu2/gi1/ci0/access 22\ngpu2/gi2/access 30\ngpu2/gi2/ci0/access 31\n";

fn of<'a>(page: &'a [Sample], name: &'a str) -> impl Iterator<Item = &'a Sample> {
    page.iter().filter(move |s| s.name == name)
}

/// A page with every job on it, once each was read with its GPUs.
fn page(node: &Node, jobs: &[u32]) -> Vec<Sample> {
    let mut last = Vec::new();
    let found = wait::until("all jobs use something", PATIENCE, || {
        last = node.metrics();
        let uses = |job: &u32| {
            let job = job.to_string();
            of(&last, "slurm_job_gpu_memory_bytes").any(|s| s.label("jobid") == Some(&job))
                && of(&last, "slurm_job_gpu_info").any(|s| s.label("jobid") == Some(&job))
        };
        Ok(jobs.iter().all(uses).then(|| last.clone()))
    });
    found.unwrap_or_else(|e| panic!("{e:#}: {last:#?}"))
}

/// A series as promtool's tests have it.
fn series(sample: &Sample) -> String {
    let labels: Vec<String> = sample.labels.iter().map(|(k, v)| format!("{k}={v:?}")).collect();
    format!("{}{{{}}}", sample.name, labels.join(","))
}

/// Tests in which these pages are a minute apart.
fn tests(pages: [&[Sample]; 2], expected: &[(&str, Vec<(String, f64)>)]) -> String {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../alerts/jobs.rules.yml");
    let rules = rules.canonicalize().unwrap();
    let mut text = format!(
        "rule_files: [{}]\nevaluation_interval: 1m\ntests:\n- interval: 1m\n  input_series:\n",
        rules.display()
    );
    for sample in pages[0].iter().filter(|s| s.name.contains("gpu")) {
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
    text
}

#[test]
fn a_shard_an_instance_and_a_whole_gpu_add_up() {
    let caps = [21, 22, 30, 31].map(|minor| (format!("nvidia-cap{minor}"), CAPS, minor));
    let mut cluster = Cluster::of(
        SlurmOptions {
            gres_conf: Some(GRES.into()),
            node_gres: Some("gpu:half:2,gpu:h100:2,shard:8".into()),
            extra_conf: "GresTypes=gpu,shard".into(),
            devices: caps.into(),
            ..options(1)
        },
        std::array::from_fn(|i| i),
    );
    cluster.capabilities = Some(MINORS.into());
    cluster.watch(&[]);
    let node = cluster.nodes.values().next().unwrap();
    let submit = |gres: &str, running| {
        let id = cluster.slurm.submit("sleep 1000", gres).unwrap();
        cluster.slurm.wait_running(running, PATIENCE).unwrap();
        id
    };
    let shards = [submit("shard:2", 1), submit("shard:3", 2)];
    let whole = submit("gpu:h100:1", 3);
    let half = submit("gpu:half:1", 4);
    let jobs = [shards[0], shards[1], whole, half];
    let before = page(node, &jobs);
    // One look later every counter has moved by what the GPUs' own have.
    let at = |page: &[Sample]| {
        of(page, "slurm_job_gpu_seconds_total")
            .map(|s| s.value)
            .sum::<f64>()
    };
    let begun = at(&before);
    node.until("time has passed", |n| at(&n.metrics()) > begun + 3.0);
    let after = node.metrics();

    let job = |name: &str, job: u32| format!("{name}{{jobid=\"{job}\"}}");
    let gpu = |gpu: usize, instance: &str| format!("{{gpu=\"{}\", gpu_instance=\"{instance}\"}}", label(gpu));
    let shares: Vec<_> = [(shards[0], 0.5), (shards[1], 0.5), (whole, 1.0), (half, 1.0)]
        .map(|(id, share)| (job("jobid:slurm_job_gpus:sum", id), share))
        .to_vec();
    let each = [gpu(2, "1/0"), gpu(5, ""), gpu(6, "")]
        .map(|labels| (labels, 1.0))
        .to_vec();
    let text = tests(
        [&before, &after],
        &[
            ("jobid:slurm_job_gpus:sum", shares),
            // Of each GPU and instance that anybody has, all of it is somebody's.
            ("sum by (gpu, gpu_instance) (slurm_job_gpu_info)", each),
            // And what is used of it is used by them.
            (
                "abs(sum by (gpu, gpu_instance) (slurm_job_gpu_memory_bytes) - on (gpu, gpu_instance) gpu_memory_used_bytes) > 1",
                Vec::new(),
            ),
            (
                "count(jobid:slurm_job_gpu_memory_bytes:sum)",
                vec![("{}".to_owned(), 4.0)],
            ),
            // A job that has a GPU alone has all of its time, of two shards each has half of it.
            (
                "round(count(increase(slurm_job_gpu_seconds_total[2m]) > 0))",
                vec![("{}".to_owned(), 4.0)],
            ),
        ],
    );
    let file = cluster.slurm.dir().join("sums.yml");
    fs::write(&file, &text).unwrap();
    testkit::promtool::test_rules(&file).unwrap_or_else(|e| panic!("{e:#}\n{text}"));
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../alerts/jobs.rules.yml");
    testkit::promtool::check_rules(&rules).unwrap();
}
