//! Records of hooks: lines of jobs that no reading showed, since they were short or the daemon was down.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use testkit::slurm::SlurmOptions;
use testkit::tmpfs::Tmpfs;
use testkit::wait::{self, PATIENCE};

use crate::cluster::{Cluster, label, options};
use crate::common::{Node, program};
use crate::hooks::Hooks;
use crate::ledger::{lines, wait_lines};

/// A node whose prolog and epilog run our hooks. Its GPUs have 16 shards each, so that many jobs run at once.
fn hooked() -> (Cluster, Hooks) {
    let (hooks, options) = Hooks::of(options(1));
    // What Slurm gives each job, by its prolog.
    let given = "echo \"$SLURM_JOB_GPUS\" >${0%/*}/../opened/given.$SLURM_JOB_ID\n";
    let options = SlurmOptions {
        cpus: Some(128),
        gres_conf: Some(
            "AutoDetect=off\nName=gpu Type=h100 File=@DEV@/nvidia[0-7]\nName=shard Count=128\n".into(),
        ),
        node_gres: Some("gpu:h100:8,shard:128".into()),
        extra_conf: "GresTypes=gpu,shard".into(),
        prolog: options.prolog.map(|hook| hook + given),
        ..options
    };
    let mut cluster = Cluster::of(options, std::array::from_fn(|i| i));
    cluster.has_gres_conf = true;
    cluster.watch(&[]);
    hooks.link(&cluster);
    (cluster, hooks)
}

fn node(cluster: &mut Cluster) -> &mut Node {
    cluster.nodes.values_mut().next().unwrap()
}

/// The labels of the GPUs that Slurm gave each job.
fn given(cluster: &Cluster) -> BTreeMap<u32, Vec<String>> {
    let mut jobs = BTreeMap::new();
    for entry in fs::read_dir(cluster.slurm.dir().join("opened")).unwrap() {
        let path = entry.unwrap().path();
        if let Some(job) = path.to_str().unwrap().split("given.").nth(1) {
            let text = fs::read_to_string(&path).unwrap();
            let positions = text.trim().split(',').filter(|p| !p.is_empty());
            jobs.insert(
                job.parse().unwrap(),
                positions.map(|p| label(p.parse().unwrap())).collect(),
            );
        }
    }
    jobs
}

fn wait_idle(cluster: &Cluster, hooks: &Hooks) {
    // The last epilogs have run by then. How long Slurm takes for a hundred jobs is not ours.
    wait::while_moving(
        "jobs left, and the node",
        PATIENCE,
        &(Some(0), Some("IDLE".to_owned())),
        || {
            let jobs = cluster.slurm.jobs().ok().map(|jobs| jobs.len());
            (jobs, cluster.slurm.state(&cluster.name(0)).ok())
        },
    )
    .with_context(|| {
        let reason = cluster.slurm.reason(&cluster.name(0));
        let (errors, logs) = (hooks.errors(), cluster.slurm.log_tails());
        format!("reason of the node: {reason:?}\nhooks: {errors}\n{logs}")
    })
    .unwrap();
}

fn records(node: &Node) -> Vec<PathBuf> {
    let folder = fs::read_dir(node.run_dir().join("jobs/ended")).unwrap();
    let mut records: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).collect();
    records.sort();
    records
}

/// The line has all that prolog and epilog knew.
fn check(line: &Value, gpus: &[String]) {
    for (field, value) in [("user", "1"), ("partition", "all"), ("account", "proja")] {
        assert_eq!(line[field], value, "{line:#}");
    }
    assert_eq!(line["end"]["signal"], 0, "{line:#}");
    let found: Vec<&str> = line["gpus"]
        .as_array()
        .unwrap()
        .iter()
        .map(|g| g["gpu"].as_str().unwrap())
        .collect();
    assert_eq!(found, gpus, "{line:#}");
    let lasted = line["ended"].as_f64().unwrap() - line["began"].as_f64().unwrap();
    assert!(lasted > 0.0, "{line:#}");
}

/// Without figures, and with the reason.
fn check_unread(line: &Value, why: &str) {
    assert_eq!(
        (line["unread"].as_str(), &line["readings"]),
        (Some(why), &0.into()),
        "{line:#}"
    );
    for absent in [
        "gpu_seconds",
        "gpu_energy_joules",
        "gpu_busy_seconds",
        "cpu_seconds",
    ] {
        assert!(line.get(absent).is_none(), "{line:#}");
    }
    assert!(
        line["gpus"]
            .as_array()
            .unwrap()
            .iter()
            .all(|gpu| gpu.get("seconds").is_none()),
        "{line:#}"
    );
}

#[test]
fn a_hundred_jobs_of_a_second_have_a_line_each_with_user_partition_and_gpu() {
    let (mut cluster, hooks) = hooked();
    // Few at once: slurmd waits 20 s for a prolog, and drains the node of a busy machine.
    let submit = |many: u32, script: &str| {
        let array = format!("--array=1-{many}%8");
        let args = [
            &array,
            "--gres=shard:1",
            "--uid=daemon",
            "-A",
            "proja",
            "--wrap",
            script,
        ];
        cluster.slurm.sbatch(&args).unwrap();
    };
    // Some are shorter than the time to the first reading.
    submit(50, "sleep 1");
    submit(50, "true");
    wait_idle(&cluster, &hooks);
    let given = given(&cluster);
    assert_eq!(given.len(), 100);
    let jobs: Vec<u32> = given.keys().copied().collect();
    let node = node(&mut cluster);
    let lines = wait_lines(node, &jobs);
    assert_eq!(lines.len(), 100);
    for (job, gpus) in &given {
        let line = &lines[&job.to_string()];
        assert_eq!(gpus.len(), 1);
        check(line, gpus);
        if line["readings"] == 0 {
            check_unread(line, "no_reading");
        } else {
            assert!(line.get("unread").is_none(), "{line:#}");
        }
    }
    let text = fs::read_to_string(node.state_dir().join("jobs.jsonl")).unwrap();
    assert!(!text.contains("-0.0"));
    node.until("the records are removed", |n| records(n).is_empty());
    assert_eq!(
        node.metric("slurm_jobs_ended_total", &[("result", "completed_or_cancelled")]),
        Some(100.0)
    );
    assert_eq!(hooks.errors(), "");
}

/// The worker is stopped while they run.
#[test]
fn jobs_whose_cgroups_nothing_ever_listed_have_a_line_by_their_hooks() {
    let (mut cluster, hooks) = hooked();
    let worker = Pid::from_raw(node(&mut cluster).worker_pid("slurm").try_into().unwrap());
    kill(worker, Signal::SIGSTOP).unwrap();
    let args = [
        "--array=1-20",
        "--gres=shard:1",
        "--uid=daemon",
        "-A",
        "proja",
        "--wrap",
        "true",
    ];
    cluster.slurm.sbatch(&args).unwrap();
    wait_idle(&cluster, &hooks);
    // It may have been replaced meanwhile.
    kill(worker, Signal::SIGCONT).ok();
    let given = given(&cluster);
    let jobs: Vec<u32> = given.keys().copied().collect();
    let node = node(&mut cluster);
    let lines = wait_lines(node, &jobs);
    assert_eq!((given.len(), lines.len()), (20, 20));
    for (job, gpus) in &given {
        let line = &lines[&job.to_string()];
        check(line, gpus);
        check_unread(line, "no_reading");
    }
    assert_eq!(hooks.errors(), "");
}

#[test]
fn jobs_of_the_time_in_which_the_daemon_was_down_have_one_line_each() {
    let (mut cluster, hooks) = hooked();
    let submit = |cluster: &Cluster, gres: &str, script: &str| {
        let gres = format!("--gres={gres}");
        let args = [&gres, "--uid=daemon", "-A", "proja", "--wrap", script];
        cluster.slurm.sbatch(&args).unwrap()
    };
    let done = cluster.slurm.dir().join("opened/done");
    let until_done = format!("until [ -e {} ]; do sleep 0.1; done", done.display());
    let runs = submit(&cluster, "gpu:1", &until_done);
    cluster.slurm.wait_running(1, PATIENCE).unwrap();
    cluster.agree(&[runs]);
    node(&mut cluster).stop();
    let stopped = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs_f64();
    let two = submit(&cluster, "gpu:2", "sleep 1");
    let fails = submit(&cluster, "gpu:1", "exit 3");
    let none = submit(&cluster, "gpu:0", "true");
    fs::write(done, "").unwrap();
    wait_idle(&cluster, &hooks);
    let ended = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs_f64();
    let given = given(&cluster);
    let kept: Vec<(PathBuf, Vec<u8>)> = records(node(&mut cluster))
        .into_iter()
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    assert_eq!(kept.len(), 4);

    let jobs = [runs, two, fails, none];
    let node = node(&mut cluster);
    node.start();
    let found = wait_lines(node, &jobs);
    for job in jobs {
        let line = &found[&job.to_string()];
        check(line, &given[&job]);
        let end = line["ended"].as_f64().unwrap();
        assert!((stopped..=ended).contains(&end), "{line:#}");
        if job == runs {
            // It was read until the daemon stopped.
            assert!(
                line["gpu_seconds"].as_f64().is_some() && line.get("unread").is_none(),
                "{line:#}"
            );
        } else {
            check_unread(line, "daemon_down");
            assert!(line["began"].as_f64().unwrap() > stopped, "{line:#}");
        }
        let code = if job == fails { 3 } else { 0 };
        assert_eq!(line["end"]["exit_code"], code, "{line:#}");
    }
    let (_, text, _) = node.cli(&["job", &two.to_string()]);
    assert!(text.contains("the job ended before the daemon started"), "{text}");
    node.until("the records are removed", |n| records(n).is_empty());

    // A daemon that ended before the records were removed: the next one writes no line again.
    for round in 0..2 {
        if round == 0 {
            node.stop();
        } else {
            node.kill9();
        }
        for (path, bytes) in &kept {
            fs::write(path, bytes).unwrap();
        }
        node.start();
        node.until("the records are removed again", |n| records(n).is_empty());
        // Each job has one line.
        assert_eq!(lines(node).len(), 4);
    }
    // By default no page names a user.
    assert!(!node.metrics_text().contains("proja"));
    assert_eq!(hooks.errors(), "");
}

/// Runs a hook as slurmd does. Whatever happens, it must succeed.
fn hook(verb: &str, run: &Path, job: u32) -> String {
    let mut command = Command::new(program());
    command.env_clear().args(["hook", verb, "--run-dir"]).arg(run);
    for (name, value) in [
        ("SLURM_JOB_ID", job.to_string()),
        ("SLURM_JOB_UID", "1000".to_owned()),
        ("SLURM_JOB_USER", "ada".to_owned()),
        ("SLURM_JOB_EXIT_CODE2", "0:0".to_owned()),
    ] {
        command.env(name, value);
    }
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn on_a_full_disk_hooks_succeed_and_the_record_of_the_prolog_stays() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Tmpfs::mount(dir.path(), 256 * 1024).unwrap();
    let run = dir.path().join("run");
    assert_eq!(hook("prolog", &run, 7), "");
    // The folder is there, and nothing fits into it any more.
    assert_eq!(hook("epilog", &run, 6), "");
    disk.fill().unwrap();
    let error = hook("epilog", &run, 7);
    assert!(error.contains("No space left on device"), "{error}");
    assert!(hook("prolog", &run, 8).contains("No space left on device"));
    assert!(hook("epilog", &run, 8).contains("No space left on device"));
    let names = |folder: &str| {
        let names = fs::read_dir(run.join(folder)).unwrap();
        let mut names: Vec<String> = names
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names("jobs"), ["ended"]);
    let ended = names("jobs/ended");
    assert_eq!(ended.len(), 2, "{ended:?}");
    assert!(
        ended[0].ends_with("-6.toml") && ended[1].ends_with("-7.toml"),
        "{ended:?}"
    );
    let record = fs::read_to_string(run.join("jobs/ended").join(&ended[1])).unwrap();
    assert!(
        record.contains("ada") && !record.contains("exit_code"),
        "{record}"
    );
    // A disk that takes nothing at all.
    disk.empty().unwrap();
    disk.read_only(true).unwrap();
    for verb in ["prolog", "epilog"] {
        assert!(hook(verb, &run, 9).contains("Read-only file system"));
    }
    disk.read_only(false).unwrap();
}

/// It belongs to root: a daemon that is taken over can neither forge a record nor remove one.
#[test]
fn the_folder_of_records_is_roots_and_a_daemon_cannot_write_to_it() {
    let mut node = Node::new();
    node.start();
    let folder = node.run_dir().join("jobs/ended");
    hook("epilog", &node.run_dir(), 7);
    let script = format!("touch {0}/x || rm -f {0}/*.toml || ls {0}", folder.display());
    let core = node.core_pid();
    let status = fs::read_to_string(format!("/proc/{core}/status")).unwrap();
    let id = |name: &str| -> u32 {
        let line = status.lines().find(|l| l.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let done = Command::new("sh")
        .args(["-c", &script])
        .uid(id("Uid:"))
        .gid(id("Gid:"))
        .output()
        .unwrap();
    assert!(!done.status.success());
    assert_eq!(records(&node).len(), 1);
}
