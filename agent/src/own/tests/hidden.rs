//! More jobs than a page may hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use collectors::Block;
use collectors::tasks::metrics::BLOCKED;

use exposition::{Defaults, Encoder, Format, Selection};
use model::jobs::{Book, MaxJobs};
use model::sample::jobs::{Node, START};
use model::snapshot::Presence;

use crate::own::{OwnFacts, Page, sample};

/// A page of three jobs on one GPU, of which at most `max` may have series of their own.
fn page(max: usize) -> String {
    text(&mut Encoder::default(), &jobs(max))
}

fn text(encoder: &mut Encoder, page: &Page) -> String {
    let mut out = Vec::new();
    encoder.page(None, page, &Selection::default(), Format::Text, &mut out);
    String::from_utf8(out).unwrap()
}

fn jobs(max: usize) -> Page {
    let mut node = Node::new();
    for (seconds, job) in [(0.0, "9"), (2.0, "7"), (1.0, "8")] {
        node.began = START + seconds;
        node = node.with(job, &["nvidia0"]);
    }
    let mut book = Book::default();
    for (node, at) in [(node.clone(), 10.0), (node.joules([1100.0, 2000.0]), 20.0)] {
        book.take(&node.snapshot(START + at), &BTreeMap::new(), START + at);
    }
    let mut snapshot = node.snapshot(START + 20.0);
    let at = snapshot.at;
    let tasks = snapshot.collector_mut("tasks");
    let tasks = tasks.expect("a collector of every node");
    tasks.presence = Presence::Open;
    // 10 is in this list only.
    for job in ["7", "8", "9", "10"] {
        let mut state = sample::device(&format!("job_{job}:1"), |b: &mut Block| {
            b.u64(&BLOCKED, &[job], 1)
        });
        state.at = at;
        tasks.devices.push(state);
    }
    Page {
        snapshot: Arc::new(snapshot),
        view: Arc::new(sample::view()),
        facts: OwnFacts {
            jobs: Arc::new(book.view()),
            max_jobs: MaxJobs(max),
            ..OwnFacts::default()
        },
    }
}

/// Family and job of each series of a job.
fn series(page: &str) -> BTreeSet<(&str, &str)> {
    let jobs = page.lines().filter_map(|line| {
        let (family, labels) = line.split_once('{')?;
        let (_, job) = labels.split_once("jobid=\"")?;
        Some((family, job.split('"').next()?))
    });
    jobs.collect()
}

#[test]
fn the_youngest_of_too_many_jobs_have_no_series_and_are_counted() {
    let all = page(3);
    let jobs: BTreeSet<&str> = series(&all).iter().map(|(_, job)| *job).collect();
    assert_eq!(jobs, ["10", "7", "8", "9"].into());
    assert!(all.contains("\nslurm_jobs_hidden 0\n"), "{all}");

    let fewer = page(2);
    let expected: BTreeSet<_> = series(&all)
        .into_iter()
        .filter(|(_, job)| !["7", "10"].contains(job))
        .collect();
    for family in [
        "slurm_job_info",
        "slurm_job_cpu_seconds_total",
        "slurm_job_gpu_share_ratio",
        "slurm_job_gpu_seconds_total",
        "slurm_job_gpu_memory_bytes",
        "slurm_job_blocked_processes",
    ] {
        assert!(expected.contains(&(family, "8")), "{family}: {all}");
    }
    assert_eq!(series(&fewer), expected);
    assert!(fewer.contains("\nslurm_jobs_hidden 1\n"), "{fewer}");
}

/// A page knows no user: what names a person or a project is only there if the site adds it. Omitted is not empty, which means
/// unknown.
#[test]
fn a_job_has_its_number_alone_unless_labels_are_added() {
    let mut encoder = Encoder::default();
    let mut page = jobs(3);
    let line = |page: &str| {
        let found = page.lines().find(|l| l.starts_with("slurm_job_info{"));
        found.unwrap().to_owned()
    };
    let shown = line(&text(&mut encoder, &page));
    for label in ["user=", "account=", "partition="] {
        assert!(!shown.contains(label), "{shown}");
    }
    // The plan of the page is rebuilt.
    page.facts.metrics = Arc::new(Defaults {
        labels: vec!["user".to_owned(), "partition".to_owned()],
        ..Defaults::default()
    });
    let shown = line(&text(&mut encoder, &page));
    assert!(
        shown.contains("user=\"") && shown.contains("partition=\""),
        "{shown}"
    );
    assert!(!shown.contains("account="), "{shown}");
}
