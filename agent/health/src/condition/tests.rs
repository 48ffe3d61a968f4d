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
        streaks.begin(None);
        if let Some(turn) = streaks.take(bad, "gpu-missing", &judged("k", *reading, *at)) {
            turns.push((*at, matches!(turn, Turn::Bad(_))));
        }
        streaks.end("gpu-missing", Duration::from_secs(*at));
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

/// A reading of a device that then hangs stays the latest one, and no second one confirms it.
#[test]
fn a_bad_reading_that_no_other_follows_is_pending_for_15_minutes_at_most() {
    let (mut streaks, bad) = (Streaks::default(), BTreeSet::new());
    for (at, is_pending) in [(0, true), (300, true), (900, true), (1000, false)] {
        let now = Duration::from_secs(at);
        streaks.begin(None);
        assert!(
            streaks
                .take(&mut bad.clone(), "gpu-missing", &judged("k", Bad, 0))
                .is_none()
        );
        streaks.end("gpu-missing", now);
        assert_eq!(streaks.pending(&bad, now).next().is_some(), is_pending, "{at}");
    }
}

#[test]
fn what_a_check_does_not_mention_could_not_be_seen() {
    let (mut streaks, mut bad) = (Streaks::default(), BTreeSet::new());
    let check = "gpu-missing";
    for (at, keys) in [(0, &["a", "b"][..]), (15, &["a"]), (30, &["a", "b"])] {
        streaks.begin(None);
        for key in keys {
            streaks.take(&mut bad, check, &judged(key, Bad, at));
        }
        streaks.end(check, Duration::from_secs(at));
    }
    assert_eq!(bad.iter().collect::<Vec<_>>(), ["a"]);
    assert!(streaks.runs("b"), "the count restarts");
    streaks.begin(None);
    streaks.end("another check", Duration::from_secs(30));
    assert!(streaks.runs("b"));
}

/// The changes of a condition whose bad readings count for 100 s while later ones are unknown; `None`: without a reading.
fn run_bridged(readings: &[(u64, Option<Reading>)]) -> Vec<(u64, bool)> {
    let (mut streaks, mut bad, mut turns) = (Streaks::default(), BTreeSet::new(), Vec::new());
    for (at, reading) in readings {
        streaks.begin(Some(Duration::from_secs(100)));
        let turn = reading.and_then(|reading| streaks.take(&mut bad, "c", &judged("k", reading, *at)));
        turns.extend(turn.map(|turn| (*at, matches!(turn, Turn::Bad(_)))));
        streaks.end("c", Duration::from_secs(*at));
    }
    turns
}

#[test]
fn bad_readings_with_unknown_ones_between_count_where_the_check_says_so() {
    let after = |between: &[(u64, Option<Reading>)]| {
        let ends = [&[(0, Some(Bad))], between, &[(90, Some(Bad))]].concat();
        run_bridged(&ends)
    };
    assert_eq!(after(&[(30, None), (60, None)]), [(90, true)]);
    assert_eq!(after(&[(30, Some(Unknown)), (60, None)]), [(90, true)]);
    assert_eq!(after(&[(30, Some(Good)), (60, None)]), [], "a good one restarts");
    let forgotten = [(0, Some(Bad)), (100, None), (130, Some(Bad))];
    assert_eq!(run_bridged(&forgotten), [], "older than it counts");
    // Unknown never ends a finding.
    let mut ends = vec![(0, Some(Bad)), (15, Some(Bad))];
    ends.extend([(30, Some(Good)), (45, None), (60, Some(Good)), (90, Some(Good))]);
    assert_eq!(run_bridged(&ends), [(15, true)]);
    ends.push((120, Some(Good)));
    assert_eq!(run_bridged(&ends), [(15, true), (120, false)]);
}

#[test]
fn a_node_of_countless_devices_fills_no_memory() {
    let (mut streaks, mut bad) = (Streaks::default(), BTreeSet::new());
    for at in [0, 15] {
        streaks.begin(None);
        for n in 0..5000 {
            streaks.take(&mut bad, "c", &judged(&n.to_string(), Bad, at));
        }
        streaks.end("c", Duration::from_secs(at));
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
