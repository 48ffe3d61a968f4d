//! Usage of jobs: one line for each ended job, even if no scrape happened during the job.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use serde_json::Value;
use testkit::wait::{self, PATIENCE};

use crate::cluster::{Cluster, options};
use crate::common::Node;
use crate::hooks::Hooks;

/// A cluster of one node whose prolog and epilog run our hooks.
fn hooked() -> (Cluster, Hooks) {
    let (hooks, options) = Hooks::of(options(1));
    let mut cluster = Cluster::of(options, std::array::from_fn(|i| i));
    cluster.watch(&[]);
    hooks.link(&cluster);
    (cluster, hooks)
}

/// The lines of a node, by job.
pub fn lines(node: &Node) -> BTreeMap<String, Value> {
    let text = fs::read_to_string(node.state_dir().join("jobs.jsonl")).unwrap_or_default();
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        (line["job"].as_str().unwrap().to_owned(), line)
    };
    let all: Vec<_> = text.lines().map(line).collect();
    let many = all.len();
    let by_job: BTreeMap<_, _> = all.into_iter().collect();
    assert_eq!(by_job.len(), many, "a job has one line: {text}");
    by_job
}

pub fn wait_lines(node: &Node, jobs: &[u32]) -> BTreeMap<String, Value> {
    let found = wait::until("the jobs have lines", PATIENCE, || {
        let found = lines(node);
        Ok(jobs
            .iter()
            .all(|job| found.contains_key(&job.to_string()))
            .then_some(found))
    });
    found.unwrap()
}

fn ended(node: &Node, result: &str) -> Option<f64> {
    node.metric("slurm_jobs_ended_total", &[("result", result)])
}

#[test]
fn a_job_of_two_seconds_has_a_line_with_the_result_from_its_epilog() {
    let (cluster, hooks) = hooked();
    let node = cluster.nodes.values().next().unwrap();
    let submit = |script: &str| cluster.slurm.submit(script, "gpu:2").unwrap();
    let short = submit("sleep 2");
    let fails = submit("sleep 2; exit 3");
    let killed = submit("sleep 2; kill -9 $$");
    let cancelled = submit("sleep 1000");
    cluster.slurm.wait_job(cancelled, "RUNNING", PATIENCE).unwrap();
    // By then the job has usage.
    node.until("its GPUs are shown", |n| {
        let job = cancelled.to_string();
        let page = n.try_metrics().unwrap_or_default();
        let of = |s: &&testkit::exposition::Sample| {
            s.name == "slurm_job_gpu_seconds_total" && s.label("jobid") == Some(&job)
        };
        page.iter().filter(of).filter(|s| s.value > 0.0).count() == 2
    });
    cluster.slurm.cancel(cancelled).unwrap();
    let lines = wait_lines(node, &[short, fails, killed, cancelled]);
    // Slurm 22.05 does not report a cancellation to the epilog.
    for (job, exit, signal, least) in [
        (short, 0, 0, 1.5),
        (fails, 3, 0, 1.5),
        (killed, 0, 9, 1.5),
        // It was cancelled as soon as it was seen.
        (cancelled, 0, 0, 0.0),
    ] {
        let line = &lines[&job.to_string()];
        assert_eq!(line["end"]["exit_code"], exit, "{line:#}");
        assert_eq!(line["end"]["signal"], signal, "{line:#}");
        assert_eq!(line["partition"], "all", "{line:#}");
        assert_eq!(line["user"], "0", "{line:#}");
        assert_eq!(line["evidence"], "device_program", "{line:#}");
        assert_eq!(line["gpus"].as_array().unwrap().len(), 2, "{line:#}");
        let lasted = line["ended"].as_f64().unwrap() - line["began"].as_f64().unwrap();
        let had = line["gpu_seconds"].as_f64().unwrap();
        assert!(lasted > least && had > 0.0 && had <= 2.0 * lasted, "{line:#}");
        assert!(line["gpu_energy_joules"].as_f64().is_some(), "{line:#}");
    }
    let counts = [
        "completed_or_cancelled",
        "failed",
        "killed",
        "unknown",
        "out_of_memory",
    ]
    .map(|r| ended(node, r));
    assert_eq!(counts, [Some(2.0), Some(1.0), Some(1.0), Some(0.0), Some(0.0)]);

    let id = short.to_string();
    let (code, text, errors) = node.cli(&["job", &id]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert!(
        text.contains(&format!("job {id}  completed_or_cancelled")),
        "{text}"
    );
    let (_, json, _) = node.cli(&["job", &id, "--json"]);
    // The user by name or number is shown; the number that decides who may see the job is not.
    let mut shown = lines[&id].clone();
    assert_eq!(shown.as_object_mut().unwrap().remove("uid"), Some(0.into()));
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), shown);
    let (code, _, errors) = node.cli(&["job", "999999"]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("job 999999 is not running here"), "{errors}");
    // Hooks report no errors and leave no files.
    assert_eq!(hooks.errors(), "");
    let left = |folder: &str| fs::read_dir(node.run_dir().join(folder)).unwrap().count();
    node.until("the records are removed", |_| {
        (left("jobs"), left("jobs/ended")) == (1, 0)
    });
}

#[test]
fn a_job_outlives_the_daemon_and_has_one_line() {
    let mut cluster = Cluster::new(1);
    let job = cluster.slurm.submit("sleep 1000", "gpu:1").unwrap();
    cluster.slurm.wait_running(1, PATIENCE).unwrap();
    cluster.agree(&[job]);
    let had = |node: &Node| node.metric("slurm_job_gpu_seconds_total", &[("jobid", &job.to_string())]);
    let name = cluster.name(0);
    let node = cluster.nodes.get_mut(&name).unwrap();
    node.until("sums are kept", |n| n.run_dir().join("jobs.json").exists());
    node.until("the job has had the GPU for 1 s", |n| {
        had(n).is_some_and(|s| s > 1.0)
    });
    // They are stored whenever they are shown, not only every 15 s.
    let mut shown = 0.0;
    for _ in 0..4 {
        shown = had(node).unwrap();
        let kept = wait::until("what was shown is kept", Duration::from_secs(5), || {
            let text = fs::read_to_string(node.run_dir().join("jobs.json")).unwrap_or_default();
            let book: Value = serde_json::from_str(&text).unwrap_or_default();
            let line = &book["book"]["running"][job.to_string()]["line"];
            let kept = line["gpus"][0]["seconds"].as_f64();
            Ok(kept.filter(|kept| *kept >= shown))
        });
        kept.unwrap();
    }
    node.kill9();
    node.start();
    node.until("the counter continues", |n| had(n).is_some());
    assert!(had(node).unwrap() >= shown, "a counter went back");
    cluster.slurm.cancel(job).unwrap();
    let node = &cluster.nodes[&name];
    let line = &wait_lines(node, &[job])[&job.to_string()];
    // How the job ended is unknown.
    assert!(line.get("end").is_none(), "{line:#}");
    assert_eq!(ended(node, "unknown"), Some(1.0));
}
