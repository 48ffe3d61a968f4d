//! The job to which an Xid belongs.

use super::*;

/// `count` Xids of GPU-0, the last at that time.
fn counted(count: u64, last: f64) -> BTreeMap<String, BTreeMap<u32, Count>> {
    let last = i64::try_from(Duration::from_secs_f64(last).as_secs()).unwrap();
    BTreeMap::from([("GPU-0".to_owned(), BTreeMap::from([(31, Count { count, last })]))])
}

/// Job 7, and then job 8 on the same GPU, which begins 30 s later; `wall` is when each is first seen.
fn two(book: &mut Book, known: u64, wall: [f64; 2], xids: (u64, f64)) {
    let mut node = Node::new();
    book.take(
        &node.with("7", &["nvidia0"]).snapshot(START + wall[0]),
        &counted(known, START - 10.0),
        START + wall[0],
    );
    node.began = START + 30.0;
    book.take(
        &node.with("8", &["nvidia0"]).snapshot(START + wall[1]),
        &counted(known + xids.0, START + xids.1),
        START + wall[1],
    );
}

/// The Xids of the two jobs.
fn of_both(xids: (u64, f64)) -> [Option<u64>; 2] {
    let mut book = Book::default();
    two(&mut book, 4, [0.0, 35.0], xids);
    let first = closed(&mut book).pop().unwrap();
    let second = book.view().running.pop().unwrap();
    assert_eq!((first.job.as_str(), second.job.as_str()), ("7", "8"));
    [first, second].map(|line| line.xids.get(&31).copied())
}

#[test]
fn an_xid_is_of_the_job_that_had_the_gpu_when_it_happened_though_it_ended_by_it() {
    assert_eq!(of_both((2, 28.0)), [Some(2), None]);
    assert_eq!(of_both((2, 29.9)), [Some(2), None]);
    assert_eq!(of_both((1, 33.0)), [None, Some(1)]);
    assert_eq!(
        of_both((0, 33.0)),
        [None, None],
        "what was counted before the first look"
    );
}

/// The line of the owner is closed, and the next job had nothing to do with it.
#[test]
fn an_xid_that_is_read_late_is_not_the_next_jobs() {
    let mut book = Book::default();
    two(&mut book, 4, [0.0, 35.0], (0, 0.0));
    assert_eq!(closed(&mut book)[0].xids, [].into());
    let mut node = Node::new();
    node.began = START + 30.0;
    let second = node.with("8", &["nvidia0"]);
    book.take(
        &second.snapshot(START + 50.0),
        &counted(5, START + 20.0),
        START + 50.0,
    );
    assert_eq!(book.view().running[0].xids, [].into());
    book.take(
        &second.snapshot(START + 60.0),
        &counted(6, START + 55.0),
        START + 60.0,
    );
    book.take(
        &node.snapshot(START + 61.0),
        &counted(6, START + 55.0),
        START + 61.0,
    );
    assert_eq!(closed(&mut book)[0].xids, [(31, 1)].into());
}

/// A job of the same number is another run of it.
#[test]
fn an_xid_by_which_a_job_was_requeued_is_the_first_runs() {
    let (mut book, mut node) = (Book::default(), Node::new());
    book.take(
        &node.with("7", &["nvidia0"]).snapshot(START),
        &counted(0, 0.0),
        START,
    );
    (node.life, node.began) = ("2", START + 30.0);
    let second = node.with("7", &["nvidia0"]);
    book.take(
        &second.snapshot(START + 35.0),
        &counted(1, START + 25.0),
        START + 35.0,
    );
    assert_eq!(closed(&mut book)[0].xids, [(31, 1)].into());
    assert_eq!(book.view().running[0].xids, [].into());
}

#[test]
fn the_first_xid_of_a_gpu_that_nobody_had_before_is_of_who_has_it_now() {
    let (mut book, mut node) = (Book::default(), Node::new());
    book.take(&node.snapshot(START), &counted(0, 0.0), START);
    node.began = START + 2.0;
    let job = node.with("7", &["nvidia0"]);
    book.take(&job.snapshot(START + 5.0), &counted(1, START + 4.0), START + 5.0);
    assert_eq!(book.view().running[0].xids, [(31, 1)].into());
}
