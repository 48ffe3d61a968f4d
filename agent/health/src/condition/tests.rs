//! When readings open and end a finding.

use proptest::prelude::*;

use super::Reading::{Bad, Good, Unknown};
use super::*;

fn judged(key: &str, reading: Reading, at: u64) -> Judged<'static> {
    Judged {
        key: key.to_owned(),
        subject: Subject::node(),
        reading,
        at: Duration::from_secs(at),
        pace: &USUAL,
        finding: Box::new(|_| unreachable!("no test here asks for it")),
    }
}

/// Changes by second: `true` to bad.
fn run_from(bad: &mut BTreeSet<String>, readings: &[(u64, Reading)]) -> Vec<(u64, bool)> {
    let mut streaks = Streaks::default();
    let mut turns = Vec::new();
    for (at, reading) in readings {
        streaks.begin();
        if let Some(turn) = streaks.take(bad, "gpu-missing", &judged("k", *reading, *at)) {
            turns.push((*at, matches!(turn, Turn::Bad(_))));
        }
        streaks.end("gpu-missing");
    }
    turns
}

fn run(readings: &[(u64, Reading)]) -> Vec<(u64, bool)> {
    run_from(&mut BTreeSet::new(), readings)
}

#[test]
fn two_consecutive_bad_readings_make_one_finding() {
    assert_eq!(run(&[(0, Bad), (15, Bad), (30, Bad), (45, Bad)]), [(15, true)]);
    assert_eq!(
        run(&[(0, Bad), (15, Good), (30, Bad), (45, Unknown), (60, Bad)]),
        []
    );
    // The early readings after a start.
    assert_eq!(
        run(&[(0, Bad), (1, Bad), (3, Bad), (7, Bad), (15, Bad)]),
        [(15, true)]
    );
    assert_eq!(run(&[(0, Bad), (1, Bad), (3, Bad), (7, Good), (15, Bad)]), []);
}

#[test]
fn it_ends_after_three_good_readings_over_a_minute() {
    let mut readings = vec![(0, Bad), (15, Bad)];
    readings.extend([(30, Good), (45, Good), (60, Good), (75, Good), (90, Good)]);
    assert_eq!(run(&readings), [(15, true), (90, false)]);
    let interrupted = [
        (0, Bad),
        (15, Bad),
        (30, Good),
        (80, Unknown),
        (95, Good),
        (110, Good),
        (125, Good),
    ];
    assert_eq!(run(&interrupted), [(15, true)]);
}

#[test]
fn one_reading_seen_in_two_snapshots_is_one() {
    assert_eq!(
        run(&[(0, Bad), (0, Bad), (0, Bad), (20, Bad), (20, Bad)]),
        [(20, true)]
    );
    let again = [
        (0, Bad),
        (20, Bad),
        (30, Good),
        (90, Good),
        (90, Good),
        (90, Good),
    ];
    assert_eq!(run(&again), [(20, true)]);
}

#[test]
fn what_a_check_does_not_mention_could_not_be_seen() {
    let (mut streaks, mut bad) = (Streaks::default(), BTreeSet::new());
    let check = "gpu-missing";
    for (at, keys) in [(0, &["a", "b"][..]), (15, &["a"]), (30, &["a", "b"])] {
        streaks.begin();
        for key in keys {
            streaks.take(&mut bad, check, &judged(key, Bad, at));
        }
        streaks.end(check);
    }
    assert_eq!(bad.iter().collect::<Vec<_>>(), ["a"]);
    assert!(streaks.runs("b"), "the count restarts");
    streaks.begin();
    streaks.end("another check");
    assert!(streaks.runs("b"));
}

#[test]
fn a_node_of_countless_devices_fills_no_memory() {
    let (mut streaks, mut bad) = (Streaks::default(), BTreeSet::new());
    for at in [0, 15] {
        streaks.begin();
        for n in 0..5000 {
            streaks.take(&mut bad, "c", &judged(&n.to_string(), Bad, at));
        }
        streaks.end("c");
    }
    assert!(bad.len() <= MAX && streaks.running.len() <= MAX);
}

proptest! {
    #[test]
    fn unknown_neither_begins_nor_ends(times in prop::collection::vec(0_u64..100_000, 0..50), is_bad: bool) {
        let mut bad = BTreeSet::new();
        if is_bad {
            bad.insert("k".to_owned());
        }
        let readings: Vec<_> = times.into_iter().map(|at| (at, Unknown)).collect();
        prop_assert_eq!(run_from(&mut bad, &readings), []);
        prop_assert_eq!(bad.contains("k"), is_bad);
    }

    #[test]
    fn good_readings_begin_nothing_whatever_lies_between(
        readings in prop::collection::vec((0_u64..100_000, prop::sample::select(vec![Good, Unknown])), 0..50),
    ) {
        prop_assert_eq!(run(&readings), []);
    }

    #[test]
    fn it_turns_to_and_fro(
        mut readings in prop::collection::vec((0_u64..10_000, prop::sample::select(vec![Good, Bad, Unknown])), 0..200),
    ) {
        readings.sort_by_key(|(at, _)| *at);
        let turns = run(&readings);
        for (n, (_, to_bad)) in turns.iter().enumerate() {
            prop_assert_eq!(*to_bad, n % 2 == 0);
        }
        for pair in turns.windows(2) {
            let pause = if pair[1].1 { USUAL.bad_span } else { USUAL.hold };
            prop_assert!(pair[1].0 - pair[0].0 >= pause.as_secs());
        }
    }
}
