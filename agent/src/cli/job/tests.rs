use std::sync::Arc;

use super::*;
use collectors::slurm::hook::End;
use model::jobs::{GpuUse, Unread};
use screen::PLAIN;

fn line(job: &str) -> Line {
    Line {
        job: job.to_owned(),
        user: "1000".to_owned(),
        began: 1_795_227_100.0,
        gpu_seconds: Some(20.0),
        gpu_busy_seconds: Some(15.0),
        gpu_energy_joules: Some(7_200_000.0),
        gpus: vec![GpuUse {
            gpu: "GPU-6f1c2f0e-0000".to_owned(),
            seconds: Some(20.0),
            busy_seconds: Some(15.0),
            energy_joules: Some(7_200_000.0),
            memory_peak_bytes: Some(3.0 * 1024.0 * 1024.0 * 1024.0),
            ..GpuUse::default()
        }],
        xids: [(79, 2)].into(),
        node: [("rdma_cnp_sent".to_owned(), 12.0)].into(),
        ..Line::default()
    }
}

fn ended(job: &str, end: Option<End>) -> Line {
    Line {
        ended: Some(1_795_227_170.0),
        end,
        ..line(job)
    }
}

fn jobs() -> JobsView {
    let killed = End {
        exit_code: 0,
        signal: 15,
        derived: 0,
    };
    JobsView {
        running: vec![line("9")],
        ended: [ended("7", None), ended("8", Some(killed))].map(Arc::new).into(),
        ..JobsView::default()
    }
}

#[test]
fn jobs_are_listed_with_what_they_used_and_how_they_ended() {
    let text = show::all(&jobs(), &PLAIN);
    let row = |job: &str| {
        let found = text.lines().find(|l| l.starts_with(&format!("{job} ")));
        found.unwrap_or_else(|| panic!("{job}: {text}")).to_owned()
    };
    for (job, words) in [
        ("7", ["70 s", "unknown", "75 %", "2.0 kWh"]),
        ("8", ["70 s", "killed", "75 %", "2.0 kWh"]),
        ("9", ["GPU-6f1c2f0e", "running", "75 %", "2.0 kWh"]),
    ] {
        for word in words {
            assert!(row(job).contains(word), "{word}: {text}");
        }
    }
    let none = show::all(&JobsView::default(), &PLAIN);
    assert_eq!(none, "no job has been seen on this node\n");
}

#[test]
fn a_job_that_waits_for_its_epilog_does_not_run() {
    let view = JobsView {
        running: vec![line("9"), ended("10", None)],
        ..JobsView::default()
    };
    let text = show::all(&view, &PLAIN);
    let lines: Vec<&str> = text.lines().collect();
    let at = |start: &str| lines.iter().position(|l| l.starts_with(start)).expect(start);
    let order = [at("running "), at("9 "), at("awaiting epilog "), at("10 ")];
    assert!(order.is_sorted(), "{text}");
}

/// A GPU that is lost has none of the use that it does not report.
#[test]
fn what_was_not_read_of_a_gpu_is_not_idle() {
    let mut lost = line("9");
    lost.gpus[0].watched_seconds = Some(16.0);
    let text = show::one(&lost, &PLAIN);
    assert_eq!(text.matches("94 %").count(), 2, "{text}");
    lost.gpus[0].watched_seconds = Some(0.0);
    assert!(!show::one(&lost, &PLAIN).contains('%'));
}

/// Instances do not report their utilization.
#[test]
fn gpus_are_busy_for_a_part_of_the_time_in_which_that_is_known() {
    let mut mixed = line("9");
    mixed.gpus.push(GpuUse {
        gpu: "GPU-7".to_owned(),
        gpu_instance: "1/0".to_owned(),
        seconds: Some(60.0),
        ..GpuUse::default()
    });
    mixed.gpu_seconds = Some(80.0);
    let text = show::one(&mixed, &PLAIN);
    let busy: Vec<&str> = text.lines().filter(|l| l.contains("GPU busy")).collect();
    assert!(busy.len() == 1 && busy[0].contains("75 %"), "{text}");
    let jobs = JobsView {
        running: vec![mixed],
        ..JobsView::default()
    };
    let text = show::all(&jobs, &PLAIN);
    assert!(text.contains("75 %"), "{text}");
}

#[test]
fn a_job_that_was_never_read_says_why_it_has_no_figures() {
    let unread = |unread| Line {
        gpu_seconds: None,
        unread: Some(unread),
        gpus: vec![GpuUse {
            gpu: "GPU-7".to_owned(),
            ..GpuUse::default()
        }],
        ..ended("9", None)
    };
    for (why, text) in [
        (Unread::DaemonDown, "the job ended before the daemon started"),
        (Unread::NoReading, "no reading succeeded while the job ran"),
    ] {
        let shown = show::one(&unread(why), &PLAIN);
        assert!(
            shown.contains(text) && shown.contains("GPU-7") && !shown.contains("GPU time"),
            "{shown}"
        );
    }
}

#[test]
fn one_job_is_shown_in_full_and_only_what_is_known_of_it() {
    let jobs = jobs();
    let text = show::one(find(&jobs, "8").unwrap(), &PLAIN);
    for part in [
        "job 8  killed",
        "code 0, signal 15",
        "79 (2)",
        "3.0 GiB",
        "rdma_cnp_sent  12",
        "the node counted\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(
        !text.contains("partition") && !text.contains("processors"),
        "{text}"
    );
    let untold = show::one(find(&jobs, "7").unwrap(), &PLAIN);
    assert!(untold.starts_with("job 7  unknown\n"), "{untold}");
    assert!(find(&jobs, "70").is_none());
    assert!(missing("70", 0).contains("/var/lib/nodewarden"));
    assert!(missing("70", 3).contains("one of 3 withheld jobs of other users (access.jobs)"));
    for id in ["6_7", "12+1", "sFR5M7XZ5Z3000"] {
        let text = missing(id, 0);
        assert!(
            text.contains(&format!(
                "expected a JobId, a number, as `scontrol show job {id}`"
            )),
            "{text}"
        );
    }
    let others = JobsView {
        withheld: 2,
        ..JobsView::default()
    };
    assert_eq!(
        show::all(&others, &PLAIN),
        "withheld: 2 jobs of other users (access.jobs)\n"
    );
}
