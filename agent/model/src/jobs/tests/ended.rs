//! How a job ended, and to which run an epilog belongs.

use std::sync::Arc;

use collectors::event::JobEnd;
use collectors::slurm::hook::{End, RecordId};

use super::*;

/// The report of an epilog that ran at that time.
pub(super) fn report(job: u32, began: Option<f64>, signal: u8, at: f64) -> JobEnd {
    let us = |seconds: f64| u64::try_from(Duration::from_secs_f64(seconds).as_micros()).unwrap();
    JobEnd {
        record: RecordId {
            ended_us: us(at),
            job,
        },
        start_us: began.map(us),
        end: Some(End {
            signal,
            ..End::default()
        }),
        ..JobEnd::default()
    }
}

/// Without a prolog, and reported at once.
fn told(book: &mut Book, job: u32, signal: u8, at: f64) {
    book.told(report(job, None, signal, at), at);
}

fn results(lines: &[Line]) -> Vec<(String, &'static str)> {
    lines.iter().map(|l| (l.job.clone(), l.result())).collect()
}

#[test]
fn an_epilog_tells_how_a_job_ended_before_its_end_is_seen_or_after() {
    let (mut book, mut node) = (Book::default(), Node::new());
    node.has_prolog = true;
    take(
        &mut book,
        &node.with("7", &[]).with("8", &[]).with("9", &[]),
        START,
    );
    told(&mut book, 7, 0, START + 1.0);
    let lines = take(&mut book, &node, START + 2.0);
    assert_eq!(results(&lines), [("7".to_owned(), "completed_or_cancelled")]);
    // The others wait, and are shown as ended meanwhile.
    let waiting: Vec<_> = book
        .view()
        .running
        .into_iter()
        .map(|l| (l.job, l.ended))
        .collect();
    assert_eq!(
        waiting,
        [
            ("8".to_owned(), Some(START + 2.0)),
            ("9".to_owned(), Some(START + 2.0))
        ]
    );
    told(&mut book, 8, 15, START + 3.0);
    assert_eq!(
        results(&take(&mut book, &node, START + 3.1)),
        [("8".to_owned(), "killed")]
    );
    assert_eq!(take(&mut book, &node, START + 600.0), []);
    assert_eq!(
        results(&take(&mut book, &node, START + 603.0)),
        [("9".to_owned(), "unknown")]
    );
    let counted = book.view().results;
    assert_eq!(
        (
            counted["completed_or_cancelled"],
            counted["killed"],
            counted["unknown"]
        ),
        (1, 1, 1)
    );
}

/// A requeued job keeps its number, and its epilog may report late.
#[test]
fn the_epilog_of_an_earlier_run_is_not_the_end_of_the_one_that_goes_on() {
    let (mut book, mut node) = (Book::default(), Node::new());
    node.has_prolog = true;
    let of_prolog = |began, signal, at| report(7, Some(began), signal, at);
    // The line of the first run was given up before its epilog reports.
    take(&mut book, &node.with("7", &[]), START);
    assert_eq!(take(&mut book, &node, START + 1.0), []);
    assert_eq!(
        results(&take(&mut book, &node, START + 602.0)),
        [("7".to_owned(), "unknown")]
    );
    node.life = "2";
    node.began = START + 610.0;
    let second = node.with("7", &[]);
    take(&mut book, &second, START + 611.0);
    book.told(of_prolog(START, 9, START + 612.0), START + 612.0);
    take(&mut book, &second, START + 613.0);
    assert_eq!(take(&mut book, &node, START + 614.0), [], "it waits for its own");
    book.told(of_prolog(START + 610.0, 0, START + 615.0), START + 615.0);
    assert_eq!(
        results(&take(&mut book, &node, START + 615.1)),
        [("7".to_owned(), "completed_or_cancelled")]
    );
}

#[test]
fn an_epilog_of_which_nobody_knows_the_prolog_is_of_the_run_that_was_over_by_then() {
    let (mut book, node) = (Book::default(), Node::new());
    // Reported before it began.
    told(&mut book, 7, 9, START - 5.0);
    take(&mut book, &node.with("7", &[]), START);
    assert_eq!(
        results(&take(&mut book, &node, START + 1.0)),
        [("7".to_owned(), "unknown")]
    );
    // Reported while it ran: it was read long after.
    take(&mut book, &node.with("8", &[]), START + 2.0);
    told(&mut book, 8, 9, START + 3.0);
    take(&mut book, &node.with("8", &[]), START + 20.0);
    assert_eq!(
        results(&take(&mut book, &node, START + 21.0)),
        [("8".to_owned(), "unknown")]
    );
    // Reported after its end, while the last reading is from before.
    take(&mut book, &node.with("9", &[]), START + 22.0);
    told(&mut book, 9, 9, START + 30.0);
    let mut stale = node.with("9", &[]).snapshot(START + 40.0);
    let devices = stale.collectors_mut().flat_map(|c| &mut c.devices);
    devices.for_each(|d| d.at -= Duration::from_secs(15));
    book.take(&stale, &BTreeMap::new(), START + 40.0);
    assert_eq!(
        results(&take(&mut book, &node, START + 41.0)),
        [("9".to_owned(), "killed")]
    );
}

/// Its reading hangs; lines of other jobs must not wait.
#[test]
fn a_job_whose_reading_hangs_holds_up_no_other_and_is_over_when_its_folder_is_gone() {
    let (mut book, node) = (Book::default(), Node::new());
    take(
        &mut book,
        &node.with("7", &[]).with("8", &[]).with("9", &[]),
        START,
    );
    let hung = node.with("7", &[]).late("7");
    let jobs = |lines: &[Line]| -> Vec<String> { lines.iter().map(|l| l.job.clone()).collect() };
    assert_eq!(jobs(&take(&mut book, &hung, START + 1.0)), ["8", "9"]);
    assert_eq!(take(&mut book, &hung, START + 100.0), []);
    book.left("job_7", None, START + 101.0);
    assert_eq!(jobs(&take(&mut book, &hung, START + 102.0)), ["7"]);
    // Readings that the worker makes before it lists jobs again belong to no job.
    assert_eq!(take(&mut book, &node.with("7", &[]), START + 103.0), []);
    assert_eq!(take(&mut book, &node, START + 104.0), []);
    assert_eq!(book.view().running, []);
}

/// More jobs than a collector may report.
#[test]
fn a_job_whose_series_were_refused_has_not_ended_by_that() {
    let (mut book, node) = (Book::default(), Node::new());
    let job = node.with("7", &["nvidia0"]);
    take(&mut book, &job, START);
    let mut cut = job.snapshot(START + 10.0);
    let slurm = cut.collectors_mut().filter(|c| c.spec.name == "slurm");
    for device in slurm.flat_map(|c| &mut c.devices) {
        (device.values, device.refused) = (Arc::default(), 9);
    }
    book.take(&cut, &BTreeMap::new(), START + 10.0);
    assert_eq!(closed(&mut book), []);
    let lines = take(&mut book, &node, START + 20.0);
    assert_eq!((lines.len(), lines[0].gpu_seconds), (1, Some(20.0)));
}

#[test]
fn a_job_whose_folder_is_gone_is_over_while_nobody_reads_jobs() {
    let (mut book, node) = (Book::default(), Node::new());
    take(&mut book, &node.with("7", &["nvidia0"]).with("8", &[]), START);
    let mut blind = node.joules([1100.0, 2000.0]);
    blind.presence = Presence::Unknown;
    book.left("job_7", None, START + 9.0);
    let lines = take(&mut book, &blind, START + 10.0);
    assert_eq!((lines.len(), lines[0].job.as_str()), (1, "7"));
    assert_eq!(
        (lines[0].gpu_seconds, lines[0].gpu_energy_joules),
        (Some(10.0), Some(100.0))
    );
}

/// Two slurmds on a host have a job with the same number each.
#[test]
fn a_number_of_two_jobs_is_neither_summed_nor_closed_nor_begun() {
    let (mut book, mut node) = (Book::default(), Node::new());
    let first = node.with("7", &["nvidia0"]);
    take(&mut book, &first, START);
    node.life = "2";
    let mut both = node.with("7", &["nvidia1"]);
    both.jobs.extend(first.jobs.clone());
    both.sent = Some(500);
    for seconds in [10.0, 11.0, 12.0] {
        assert_eq!(
            take(&mut book, &both.joules([1100.0, 2500.0]), START + seconds),
            []
        );
    }
    both.sent = Some(900);
    assert_eq!(take(&mut book, &both.joules([1300.0, 2900.0]), START + 20.0), []);
    // The second job has left: the first goes on, with its usage before and now.
    let mut alone = first.joules([1400.0, 2900.0]);
    alone.sent = Some(950);
    assert_eq!(take(&mut book, &alone, START + 30.0), []);
    let mut after = node.joules([1450.0, 2900.0]);
    after.sent = Some(1000);
    let lines = take(&mut book, &after, START + 40.0);
    let line = &lines[0];
    assert_eq!(
        (lines.len(), line.gpus.len(), line.gpu_seconds),
        (1, 1, Some(20.0))
    );
    assert_eq!(line.gpu_energy_joules, Some(150.0));
    assert_eq!(line.node["rdma_transmit_bytes"], 550.0);
}

/// The batch script dies with its program, and Slurm removes the cgroup before the next reading.
#[test]
fn a_count_of_oom_kills_from_before_the_one_that_slurm_reports_is_not_kept() {
    let of = |signal: u8, oom_kills: f64| {
        let line = Line {
            oom_kills: Some(oom_kills),
            ..Line::default()
        };
        let epilog = epilog::Epilog::new(report(7, None, signal, START), START);
        let line = epilog.complete(line, START);
        (line.result(), line.oom_kills)
    };
    assert_eq!(of(125, 0.0), ("out_of_memory", None));
    assert_eq!(of(125, 2.0), ("out_of_memory", Some(2.0)));
    assert_eq!(of(15, 0.0), ("killed", Some(0.0)));
}
