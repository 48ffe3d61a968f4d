//! Whatever the order in which folder, readings and epilog of a run are heard of, it has one line.

use proptest::prelude::*;

use super::ended::report;
use super::*;

/// When what happened, as seconds since the start of its prolog.
#[derive(Clone, Debug)]
struct Run {
    folder: f64,
    epilog: f64,
    /// Before the epilog, or after it where a slurmstepd is left.
    removed: f64,
}

/// What the daemon hears of it.
#[derive(Clone, Copy, Debug)]
enum Heard {
    Began,
    Left,
    Told,
    Look,
}

/// Delays of what is heard, and of what the worker knew then.
#[derive(Clone, Debug)]
struct Delays {
    began: f64,
    left: f64,
    told: f64,
    /// Of a report of the worker, and of a reading: shorter than a job goes unseen after its epilog.
    knew: f64,
    read: f64,
    /// Its folder is named by a SLUID, or was there before the daemon: no report names the job.
    is_silent: bool,
    /// Prolog and epilog have no hook.
    is_bare: bool,
}

/// The reports of a run that begins at that time, in order.
fn heard(run: &Run, delays: &Delays, looks: &[f64]) -> Vec<(f64, Heard)> {
    let began = run.folder + delays.began;
    // The kernel reports in order.
    let left = began.max(run.removed + delays.left);
    let told = run.epilog + delays.told;
    let mut all = Vec::new();
    if !delays.is_silent {
        all.extend([(began, Heard::Began), (left, Heard::Left)]);
    }
    if !delays.is_bare {
        all.push((told, Heard::Told));
    }
    all.extend(looks.iter().map(|look| (look * (run.epilog + 4.0), Heard::Look)));
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

/// Plays it, and returns the lines of job 7.
fn play(
    book: &mut Book,
    at: f64,
    life: &'static str,
    run: &Run,
    delays: &Delays,
    looks: &[f64],
) -> Vec<Line> {
    let mut lines = Vec::new();
    let has_record = |seconds: f64| !delays.is_bare && (0.0..run.epilog).contains(&seconds);
    for (time, heard) in heard(run, delays, looks) {
        let start = has_record(time - delays.knew).then_some(at);
        let wall = at + time;
        match heard {
            Heard::Began => book.began("job_7", start, wall),
            Heard::Left => drop(book.left("job_7", start, wall)),
            Heard::Told => drop(book.told(report(7, Some(at), 0, at + run.epilog), wall)),
            Heard::Look => {
                let read = time - delays.read;
                let mut node = Node::new();
                node.life = life;
                node.has_prolog = has_record(read);
                // Without the record, when the first daemon of its steps started.
                node.began = if node.has_prolog {
                    at
                } else {
                    ((at + run.folder) * 10.0).round() / 10.0
                };
                let is_there = run.folder <= read && read < run.removed;
                let node = if is_there {
                    node.with("7", &["nvidia0"])
                } else {
                    node
                };
                book.take(&node.snapshot(wall), &BTreeMap::new(), wall);
            }
        }
        lines.extend(closed(book));
    }
    lines
}

prop_compose! {
    fn run()(folder in 0.0_f64..1.5, lasts in 0.05_f64..20.0, left in -0.5_f64..2.5) -> Run {
        let epilog = folder + lasts;
        Run { folder, epilog, removed: (epilog + left).max(folder + 0.02) }
    }
}

prop_compose! {
    fn delays(is_bare: impl Strategy<Value = bool>, is_silent: impl Strategy<Value = bool>)(
        began in 0.0..3.0, left in 0.0..3.0, told in 0.0..3.0, knew in 0.0..0.3, read in 0.0..0.19,
        is_silent in is_silent, is_bare in is_bare
    ) -> Delays {
        Delays { began, left, told, knew, read, is_silent, is_bare }
    }
}

fn hooked() -> impl Strategy<Value = Delays> {
    delays(Just(false), any::<bool>())
}

/// With or without hooks.
fn mixed() -> impl Strategy<Value = Delays> {
    delays(any::<bool>(), Just(false))
}

fn looks() -> impl Strategy<Value = Vec<f64>> {
    proptest::collection::vec(0.0..1.0, 0..8)
}

/// Looks until nothing waits any more.
fn rest(book: &mut Book, from: f64) -> Vec<Line> {
    let after = [0.0, 1.0, 30.0, 100.0, 700.0, 1400.0];
    let lines = after.map(|seconds| take(book, &Node::new(), from + seconds));
    lines.into_iter().flatten().collect()
}

/// Rules for the lines of any runs.
fn holds(book: &Book, lines: &[Line]) -> Result<(), TestCaseError> {
    let view = book.view();
    prop_assert_eq!(view.running.len(), 0);
    prop_assert_eq!(view.results.values().sum::<u64>(), lines.len() as u64);
    for line in lines {
        prop_assert!(line.ended >= Some(line.began), "{:#?}", line);
    }
    Ok(())
}

/// The lines of one run.
fn lines(run: &Run, delays: &Delays, looks: &[f64]) -> Result<Vec<Line>, TestCaseError> {
    let mut book = Book::default();
    take(&mut book, &Node::new(), START);
    let mut lines = play(&mut book, START + 10.0, "1", run, delays, looks);
    lines.extend(rest(&mut book, START + 10.0 + run.epilog + 7.0));
    holds(&book, &lines)?;
    Ok(lines)
}

/// Two runs of a job that is requeued have a line each. Slurm waits before it runs it again.
fn both_have_one(
    runs: &[Run; 2],
    delays: &[Delays; 2],
    looks: &[Vec<f64>; 2],
    gap: f64,
) -> Result<(), TestCaseError> {
    let mut book = Book::default();
    take(&mut book, &Node::new(), START);
    let second = START + 10.0 + runs[0].epilog + gap;
    let mut lines = play(&mut book, START + 10.0, "1", &runs[0], &delays[0], &looks[0]);
    // The daemon looks soon after a folder is gone.
    lines.extend(take(&mut book, &Node::new(), second - 1.0));
    lines.extend(play(&mut book, second, "2", &runs[1], &delays[1], &looks[1]));
    lines.extend(rest(&mut book, second + runs[1].epilog + 7.0));
    let first = lines.iter().filter(|line| line.began < second - 1.0).count();
    prop_assert_eq!((first, lines.len()), (1, 2), "{:#?}", lines);
    holds(&book, &lines)
}

proptest! {
    #[test]
    fn a_run_has_one_line_in_whatever_order_it_is_heard_of(
        run in run(), delays in hooked(), looks in looks()
    ) {
        let lines = lines(&run, &delays, &looks)?;
        prop_assert_eq!(lines.len(), 1, "{:#?}", lines);
        // A run of which only readings after its epilog are known may be closed before that epilog is heard of.
        let is_in_time = delays.told < 0.1 && delays.knew < delays.told;
        prop_assert!(lines[0].end.is_some() || !is_in_time, "its epilog is part of it: {:#?}", lines);
    }

    #[test]
    fn without_hooks_too(run in run(), delays in delays(Just(true), Just(false)), looks in looks()) {
        let lines = lines(&run, &delays, &looks)?;
        prop_assert_eq!(lines.len(), 1, "{:#?}", lines);
    }

    #[test]
    fn a_job_with_hooks_that_is_requeued_has_one_line_for_each_run(
        runs in [run(), run()], delays in [hooked(), hooked()], looks in [looks(), looks()], gap in 8.0..60.0
    ) {
        both_have_one(&runs, &delays, &looks, gap)?;
    }

    /// A site may install the hooks meanwhile.
    #[test]
    fn a_job_that_is_requeued_has_one_line_for_each_run(
        runs in [run(), run()], delays in [mixed(), mixed()], looks in [looks(), looks()],
        gap in 8.0..60.0
    ) {
        both_have_one(&runs, &delays, &looks, gap)?;
    }
}

/// As when the daemon starts beside it, or with a SLUID.
#[test]
fn a_run_of_which_only_readings_and_the_epilog_are_heard_has_the_start_of_its_prolog() {
    let mut book = Book::default();
    let mut node = Node::new();
    node.has_prolog = true;
    assert_eq!(take(&mut book, &node.with("7", &["nvidia0"]), START + 1.0), []);
    book.told(report(7, Some(START), 0, START + 5.0), START + 5.0);
    // Read after the epilog has removed the record.
    (node.has_prolog, node.began) = (false, START + 0.3);
    let mut lines = take(&mut book, &node.with("7", &["nvidia0"]), START + 5.1);
    lines.extend(rest(&mut book, START + 6.0));
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert_eq!((lines[0].began, lines[0].end.is_some()), (START, true));
    assert_eq!(book.view().results["completed_or_cancelled"], 1);
}

/// Its folder was there before the daemon, which hears of its end alone.
#[test]
fn the_folder_of_the_next_run_is_not_taken_for_that_of_one_whose_end_was_reported() {
    let (mut book, mut node) = (Book::default(), Node::new());
    take(&mut book, &node.with("7", &["nvidia0"]), START);
    book.left("job_7", None, START + 4.0);
    assert_eq!(take(&mut book, &node, START + 4.1).len(), 1);
    book.began("job_7", None, START + 10.0);
    book.left("job_7", None, START + 10.3);
    node.life = "2";
    assert_eq!(rest(&mut book, START + 10.4).len(), 1);
}

/// A reading fails for longer than an announced job is waited for.
#[test]
fn a_run_that_is_read_after_it_seemed_over_keeps_its_figures() {
    let (mut book, mut node) = (Book::default(), Node::new());
    book.began("job_7", Some(START), START + 0.2);
    for seconds in [1.0, 32.0] {
        assert_eq!(take(&mut book, &node, START + seconds), []);
    }
    node.has_prolog = true;
    let running = node.with("7", &["nvidia0"]);
    for seconds in [50.0, 700.0] {
        assert_eq!(take(&mut book, &running, START + seconds), []);
    }
    book.told(report(7, Some(START), 0, START + 710.0), START + 710.0);
    let lines = take(&mut book, &node, START + 710.3);
    assert_eq!(lines.len(), 1);
    assert_eq!((lines[0].readings, lines[0].end.is_some()), (2, true));
}

/// The record outlives the folder where the epilog works for seconds before its hook.
#[test]
fn a_folder_that_is_reported_while_its_run_waits_for_the_epilog_changes_nothing() {
    let (mut book, mut node) = (Book::default(), Node::new());
    node.has_prolog = true;
    assert_eq!(take(&mut book, &node.with("7", &["nvidia0"]), START + 0.2), []);
    assert_eq!(take(&mut book, &node, START + 2.6), [], "it waits");
    book.began("job_7", Some(START), START + 2.7);
    book.left("job_7", Some(START), START + 2.7);
    assert_eq!(take(&mut book, &node, START + 2.8), []);
    book.told(report(7, Some(START), 0, START + 5.0), START + 5.0);
    let lines = take(&mut book, &node, START + 5.3);
    assert_eq!((lines.len(), lines[0].readings), (1, 1));
    assert!(lines[0].end.is_some());
    assert_eq!(rest(&mut book, START + 6.0), []);
}

#[test]
fn a_reading_long_after_a_folder_is_gone_is_of_the_next_run() {
    let (mut book, mut node) = (Book::default(), Node::new());
    book.began("job_7", None, START);
    book.left("job_7", None, START + 1.0);
    (node.life, node.began) = ("2", START + 20.0);
    take(&mut book, &node.with("7", &["nvidia0"]), START + 21.0);
    let lines = [
        take(&mut book, &node, START + 30.0),
        rest(&mut book, START + 31.0),
    ]
    .concat();
    let found: Vec<_> = lines.iter().map(|line| (line.began, line.readings)).collect();
    assert_eq!(found, [(START, 0), (START + 20.0, 1)]);
}
