use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use collectors::BootId;
use model::jobs::{Book, Line};
use model::sample::jobs::{Node, START};
use model::snapshot::Presence;

use super::*;

/// Takes a snapshot, and returns the lines that it closes.
fn take(book: &mut Book, node: &Node, wall: f64) -> Vec<Line> {
    book.take(&node.snapshot(wall), &BTreeMap::new(), wall);
    book.closed().iter().map(|line| (**line).clone()).collect()
}

#[test]
fn a_daemon_that_starts_anew_goes_on_with_the_sums() {
    let dir = tempfile::tempdir().unwrap();
    let boot = BootId("b".to_owned());
    let (mut book, node) = (Book::default(), Node::new());
    take(&mut book, &node.with("7", &["nvidia0"]), START);
    let keeper = start(Some(dir.path()), dir.path(), |_| {}).unwrap();
    keeper.book(kept(&book, &boot).unwrap());
    let is_there = || {
        let again = restore(dir.path(), &boot);
        Ok((!again.view().running.is_empty()).then_some(again))
    };
    let mut again = testkit::wait::until("the sums", Duration::from_secs(60), is_there).unwrap();
    let lines = take(&mut again, &node.joules([1100.0, 2000.0]), START + 40.0);
    assert_eq!(
        (lines[0].gpu_seconds, lines[0].gpu_energy_joules),
        (Some(40.0), Some(100.0))
    );
}

/// A disk that hangs: jobs end, the daemon too, and the next one writes the missing lines.
#[test]
fn a_line_that_was_not_written_outlives_the_daemon_and_is_written_once() {
    let dir = tempfile::tempdir().unwrap();
    let boot = BootId("b".to_owned());
    let (mut book, node) = (Book::default(), Node::new());
    let jobs = ["7", "8", "9"];
    let all = jobs
        .iter()
        .fold(node.clone(), |node, job| node.with(job, &["nvidia0"]));
    take(&mut book, &all, START);
    book.take(&node.snapshot(START + 10.0), &BTreeMap::new(), START + 10.0);
    let closed = book.closed();
    let theirs = |lines: &[Arc<Line>]| lines.iter().map(|l| l.job.clone()).collect::<Vec<_>>();
    assert_eq!(theirs(&closed), jobs);
    book.unwritten(closed.clone());
    let path = dir.path().join("jobs.json");
    sys::store::replace(&path, kept(&book, &boot).unwrap().as_bytes(), 0o600, false).unwrap();
    // This many had been written after the totals.
    for written in 0..=jobs.len() {
        let mut again = restore(dir.path(), &boot);
        let lines = closed.iter().take(written).map(|line| (**line).clone());
        again.remember(lines, START);
        assert_eq!(theirs(&again.closed()), jobs[written..]);
        assert_eq!(again.closed(), []);
        let view = again.view();
        assert_eq!(theirs(&Vec::from(view.ended)), jobs, "each is shown once");
        assert_eq!(view.results["unknown"], 3);
    }
}

/// The totals shown last are those stored last, so that no counter decreases.
#[test]
fn a_restarted_daemon_shows_first_what_was_shown_last() {
    let dir = tempfile::tempdir().unwrap();
    let boot = BootId("b".to_owned());
    let (mut book, mut node) = (Book::default(), Node::new());
    let job = node.with("7", &["nvidia0"]);
    take(&mut book, &job, START);
    take(&mut book, &job.joules([1300.0, 2000.0]), START + 30.0);
    let path = dir.path().join("jobs.json");
    sys::store::replace(&path, kept(&book, &boot).unwrap().as_bytes(), 0o600, false).unwrap();
    let mut again = restore(dir.path(), &boot);
    assert_eq!(again.view().running, book.view().running);
    // Neither before its workers have reported, nor after a gap after which the GPU's owner is unknown.
    node.presence = Presence::Unknown;
    assert_eq!(take(&mut again, &node, START + 31.0), []);
    assert_eq!(again.view().running, book.view().running);
    take(&mut again, &job.joules([9000.0, 2000.0]), START + 200.0);
    let line = &again.view().running[0];
    assert_eq!(
        (line.gpu_seconds, line.gpu_energy_joules),
        (Some(30.0), Some(300.0))
    );
}
