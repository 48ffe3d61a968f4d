//! What epilogs report: lines of jobs that no reading showed, and the end of jobs of which something is left.

use collectors::event::JobEnd;

use super::ended::report;
use super::*;

/// The report of a job that had both GPUs of the node, or these.
fn facts(job: u32, began: f64, ended: f64, devices: &[&str]) -> JobEnd {
    JobEnd {
        uid: Some(1000),
        user: "ada".to_owned(),
        account: "proja".to_owned(),
        partition: "gpu".to_owned(),
        devices: Some(devices.iter().map(|d| (*d).to_owned()).collect()),
        ..report(job, Some(began), 0, ended)
    }
}

/// The line of a job that was known by its epilog alone.
fn unseen(unread: Unread) -> Line {
    Line {
        job: "7".to_owned(),
        user: "ada".to_owned(),
        uid: Some(1000),
        account: "proja".to_owned(),
        partition: "gpu".to_owned(),
        began: START + 1.0,
        ended: Some(START + 2.0),
        end: Some(Default::default()),
        evidence: Some("hook".to_owned()),
        gpus: vec![GpuUse {
            gpu: "GPU-1".to_owned(),
            ..GpuUse::default()
        }],
        unread: Some(unread),
        record: Some(facts(7, START + 1.0, START + 2.0, &[]).record),
        ..Line::default()
    }
}

#[test]
fn a_job_that_nothing_saw_has_a_line_by_its_epilog() {
    let (mut book, node) = (Book::default(), Node::new());
    assert_eq!(
        book.told(facts(7, START + 1.0, START + 2.0, &["nvidia1"]), START + 2.0),
        None
    );
    assert_eq!(
        take(&mut book, &node, START + 2.1),
        [],
        "a reading may be under way"
    );
    assert_eq!(take(&mut book, &node, START + 2.3), [unseen(Unread::NoReading)]);
    assert_eq!(take(&mut book, &node, START + 700.0), [], "once");
    assert_eq!(book.view().results["completed_or_cancelled"], 1);
    let json = serde_json::to_string(&unseen(Unread::NoReading)).unwrap();
    assert!(
        json.contains(r#""gpus":[{"gpu":"GPU-1"}]"#) && json.contains(r#""unread":"no_reading""#),
        "{json}"
    );
    assert!(
        !json.contains("gpu_seconds") && !json.contains("record"),
        "{json}"
    );
}

#[test]
fn the_line_of_a_job_that_ended_before_the_daemon_started_says_so() {
    let (mut book, node) = (Book::default(), Node::new());
    book.remember([], START + 100.0);
    book.told(facts(7, START + 1.0, START + 2.0, &["nvidia1"]), START + 101.0);
    // The driver's worker has not listed its GPUs yet.
    let mut without = node.clone();
    without.gpus.clear();
    assert_eq!(take(&mut book, &without, START + 102.0), []);
    assert_eq!(
        take(&mut book, &node, START + 103.0),
        [unseen(Unread::DaemonDown)]
    );
    // One of which the GPUs are not known, and one whose GPU no driver lists any more.
    let mut unknown = facts(8, START + 3.0, START + 4.0, &[]);
    unknown.devices = None;
    book.told(unknown, START + 104.0);
    book.told(facts(9, START + 3.0, START + 4.0, &["nvidia7"]), START + 104.0);
    let jobs = |lines: &[Line]| {
        lines
            .iter()
            .map(|l| (l.job.clone(), l.gpus.len()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        jobs(&take(&mut book, &node, START + 105.0)),
        [("8".to_owned(), 0)]
    );
    assert_eq!(jobs(&take(&mut book, &node, START + 163.0)), []);
    assert_eq!(
        jobs(&take(&mut book, &node, START + 164.0)),
        [("9".to_owned(), 0)]
    );
}

/// The kernel reported its cgroup, and no reading came in time.
#[test]
fn a_job_that_was_announced_and_not_read_waits_for_its_epilog() {
    let (mut book, node) = (Book::default(), Node::new());
    book.began("job_7", Some(START + 1.0), START + 1.1);
    book.left("job_7", None, START + 1.9);
    assert_eq!(take(&mut book, &node, START + 1.95), []);
    book.told(facts(7, START + 1.0, START + 2.0, &["nvidia1"]), START + 2.0);
    let mut expected = unseen(Unread::NoReading);
    expected.ended = Some(START + 1.95);
    assert_eq!(take(&mut book, &node, START + 2.1), [expected]);
    // Its prolog ran in its cgroup, and so later.
    book.began("job_8", None, START + 3.0);
    book.left("job_8", Some(START + 3.2), START + 3.9);
    assert_eq!(take(&mut book, &node, START + 3.95), []);
    book.told(facts(8, START + 3.2, START + 4.0, &["nvidia1"]), START + 4.0);
    let lines = take(&mut book, &node, START + 4.1);
    assert_eq!(
        (lines.len(), lines[0].began, lines[0].user.as_str()),
        (1, START + 3.2, "ada")
    );
}

#[test]
fn an_epilog_adds_what_no_reading_showed() {
    let (mut book, mut node) = (Book::default(), Node::new());
    node.has_prolog = true;
    // Its rules were not there yet when it was read.
    take(&mut book, &node.with("7", &[]), START + 0.5);
    take(&mut book, &node, START + 1.0);
    book.told(facts(7, START, START + 0.9, &["nvidia0", "nvidia1"]), START + 1.1);
    let lines = take(&mut book, &node, START + 1.2);
    let line = &lines[0];
    assert_eq!(
        (lines.len(), line.partition.as_str(), line.user.as_str()),
        (1, "gpu", "1000")
    );
    assert_eq!(
        (line.gpus.len(), line.gpu_seconds, line.readings, line.unread),
        (2, None, 1, None)
    );
    assert_eq!(line.ended, Some(START + 1.0), "as it was seen");
}

#[test]
fn a_job_that_ended_while_the_daemon_was_down_ended_when_its_epilog_ran() {
    let (mut book, mut node) = (Book::default(), Node::new());
    node.has_prolog = true;
    take(&mut book, &node.with("7", &["nvidia1"]), START + 0.5);
    take(&mut book, &node.with("7", &["nvidia1"]), START + 10.5);
    book.remember([], START + 100.0);
    book.told(facts(7, START, START + 20.0, &["nvidia1"]), START + 101.0);
    let lines = take(&mut book, &node, START + 102.0);
    let line = &lines[0];
    assert_eq!(
        (lines.len(), line.ended, line.gpu_seconds),
        (1, Some(START + 20.0), Some(10.0))
    );
    assert_eq!((line.readings, line.unread), (2, None));
}

/// A slurmstepd that hangs, processes that no signal ends: the cgroup stays.
#[test]
fn a_job_is_over_by_its_epilog_whatever_is_left_of_it() {
    let (mut book, mut node) = (Book::default(), Node::new());
    node.has_prolog = true;
    let job = node.with("7", &["nvidia0"]);
    take(&mut book, &job, START);
    assert_eq!(
        book.told(facts(7, START - 50.0, START - 40.0, &[]), START + 1.0),
        None,
        "of an earlier run"
    );
    assert_eq!(take(&mut book, &job, START + 1.3).len(), 1);
    assert_eq!(book.view().running.len(), 1);
    assert_eq!(
        book.told(facts(7, START, START + 2.0, &[]), START + 2.0),
        Some("7".to_owned())
    );
    let lines = take(&mut book, &job.joules([1100.0, 2000.0]), START + 2.25);
    assert_eq!((lines.len(), lines[0].gpu_energy_joules), (1, Some(100.0)));
    for seconds in [3.0, 10.0, 100.0] {
        assert_eq!(take(&mut book, &job, START + seconds), []);
        assert_eq!(book.view().running, []);
    }
}

/// A worker reports records again after a restart, and so does one whose record could not be removed.
#[test]
fn a_run_has_one_line_however_often_it_is_reported() {
    let (mut book, node) = (Book::default(), Node::new());
    let report = || facts(7, START + 1.0, START + 2.0, &["nvidia1"]);
    book.told(report(), START + 2.0);
    book.told(report(), START + 2.0);
    let lines = take(&mut book, &node, START + 3.0);
    assert_eq!((lines.len(), book.done()), (1, vec![]));
    book.told(report(), START + 4.0);
    assert_eq!(
        (take(&mut book, &node, START + 5.0).len(), book.done()),
        (0, vec![report().record])
    );
    // The next daemon knows it by the file of lines.
    let mut again = Book::default();
    again.remember(lines, START + 6.0);
    again.told(report(), START + 7.0);
    assert_eq!(
        (take(&mut again, &node, START + 8.0).len(), again.done()),
        (0, vec![report().record])
    );
    // A requeued job runs again under its number.
    again.told(facts(7, START + 10.0, START + 11.0, &["nvidia1"]), START + 11.0);
    assert_eq!(take(&mut again, &node, START + 12.0).len(), 1);
}

/// A daemon that was killed after it wrote a line, and before it stored that the job has ended.
#[test]
fn a_run_whose_line_was_written_before_a_crash_has_no_second_one() {
    let (mut book, mut node) = (Book::default(), Node::new());
    node.has_prolog = true;
    take(
        &mut book,
        &node.with("7", &["nvidia0"]).with("8", &["nvidia1"]),
        START,
    );
    take(&mut book, &node.with("8", &["nvidia1"]), START + 1.0);
    let stored = serde_json::to_string(&book).unwrap();
    for job in [7, 8] {
        book.told(facts(job, START, START + 2.0, &[]), START + 2.0);
    }
    let lines = take(&mut book, &node, START + 3.0);
    assert_eq!(lines.len(), 2);
    // 7 waits for its epilog there, and 8 runs.
    let mut again: Book = serde_json::from_str(&stored).unwrap();
    again.remember(lines, START + 4.0);
    for job in [7, 8] {
        again.told(facts(job, START, START + 2.0, &[]), START + 5.0);
    }
    assert_eq!(take(&mut again, &node, START + 6.0), []);
    assert_eq!(take(&mut again, &node, START + 700.0), []);
    assert_eq!(again.view().running, []);
    assert_eq!(again.done().len(), 2, "their records are not needed any more");
}

#[test]
fn a_reading_that_comes_back_after_the_line_begins_no_job() {
    let (mut book, mut node) = (Book::default(), Node::new());
    node.has_prolog = true;
    node.began = START + 1.0;
    book.told(facts(7, START + 1.0, START + 2.0, &["nvidia1"]), START + 2.0);
    assert_eq!(take(&mut book, &node, START + 3.0).len(), 1);
    for seconds in [4.0, 5.0] {
        assert_eq!(
            take(&mut book, &node.with("7", &["nvidia1"]), START + seconds),
            []
        );
        assert_eq!(book.view().running, []);
    }
    assert_eq!(take(&mut book, &node, START + 6.0), []);
}

/// Only an epilog was configured.
#[test]
fn an_epilog_that_knows_no_start_makes_no_line_and_is_forgotten() {
    let (mut book, node) = (Book::default(), Node::new());
    book.told(report(7, None, 9, START), START);
    assert_eq!(
        (take(&mut book, &node, START + 599.0), book.done()),
        (vec![], vec![])
    );
    assert_eq!(take(&mut book, &node, START + 600.0), []);
    assert_eq!(book.done(), [report(7, None, 9, START).record]);
}

/// The epilog removes its prolog's record before a busy worker sees that the job had a folder.
#[test]
fn a_folder_that_is_reported_after_its_epilog_begins_no_job() {
    for is_written in [false, true] {
        let (mut book, node) = (Book::default(), Node::new());
        let mut lines = Vec::new();
        book.told(facts(7, START + 1.0, START + 2.0, &["nvidia1"]), START + 2.0);
        if is_written {
            lines.extend(take(&mut book, &node, START + 3.0));
        }
        book.began("job_7", None, START + 3.1);
        book.left("job_7", None, START + 3.2);
        lines.extend(take(&mut book, &node, START + 4.0));
        assert_eq!(lines, [unseen(Unread::NoReading)]);
        // Requeued: with a prolog, or long after.
        for (start, wall) in [(Some(START + 5.0), START + 5.1), (None, START + 60.0)] {
            book.began("job_7", start, wall);
            assert_eq!(book.view().running.len(), 1, "{start:?}");
            book.left("job_7", None, wall + 1.0);
            take(&mut book, &node, wall + 2.0);
            book.take(&node.snapshot(wall + 700.0), &BTreeMap::new(), wall + 700.0);
            book.closed();
        }
    }
}

/// Its folder is listed while its epilog removes its prolog's record.
#[test]
fn a_folder_that_is_reported_just_before_its_epilog_has_the_line_of_that() {
    let (mut book, node) = (Book::default(), Node::new());
    book.began("job_7", None, START + 2.05);
    let report = facts(7, START + 1.0, START + 2.0, &["nvidia1"]);
    assert_eq!(book.told(report, START + 2.06), Some("7".to_owned()));
    book.left("job_7", None, START + 2.1);
    let lines: Vec<Line> = [2.4, 2.7, 40.0, 700.0]
        .iter()
        .flat_map(|seconds| take(&mut book, &node, START + seconds))
        .collect();
    assert_eq!(lines, [unseen(Unread::NoReading)]);
}

#[test]
fn a_folder_that_is_read_first_after_its_epilog_begins_no_job() {
    // The start of a cgroup is rounded, and its prolog may run in it.
    for began in [0.9, 1.2, 2.1] {
        let (mut book, mut node) = (Book::default(), Node::new());
        node.began = START + began;
        book.told(facts(7, START + 1.0, START + 2.0, &["nvidia1"]), START + 2.0);
        let lines = take(&mut book, &node, START + 3.0);
        assert_eq!(lines.len(), 1);
        assert_eq!(take(&mut book, &node.with("7", &["nvidia1"]), START + 4.0), []);
        assert_eq!(take(&mut book, &node, START + 5.0), []);
        // The next daemon knows it by the file of lines.
        let mut again = Book::default();
        again.remember(lines, START + 5.0);
        assert_eq!(take(&mut again, &node.with("7", &["nvidia1"]), START + 5.5), []);
        assert_eq!(take(&mut again, &node, START + 6.0), []);
        // Requeued.
        node.began = START + 6.0;
        take(&mut book, &node.with("7", &["nvidia1"]), START + 6.0);
        assert_eq!(take(&mut book, &node, START + 8.0).len(), 1);
    }
}
