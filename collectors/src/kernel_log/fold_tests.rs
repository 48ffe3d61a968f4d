use proptest::prelude::*;

use super::*;
use crate::{BootId, PciAddress};

fn lost(n: u64, seq: u64, at_us: u64) -> Event {
    Event {
        boot: BootId("b".to_owned()),
        seq,
        at_us,
        history: false,
        count: 1,
        text: format!("line {seq}"),
        body: EventBody::FallenOffBus {
            pci: PciAddress(format!("{n}")),
        },
    }
}

fn run(events: Vec<Event>) -> Vec<Event> {
    let (mut fold, mut out) = (Fold::default(), Vec::new());
    for event in events {
        fold.push(event, Duration::ZERO, &mut out);
    }
    fold.flush(&mut out);
    out
}

fn seqs(events: &[Event]) -> Vec<(u64, u64)> {
    events.iter().map(|e| (e.seq, e.count)).collect()
}

#[test]
fn the_first_passes_at_once_and_the_rest_of_the_second_is_one_event() {
    let (mut fold, mut out) = (Fold::default(), Vec::new());
    let now = Duration::from_secs(5);
    fold.push(lost(1, 10, 0), now, &mut out);
    assert_eq!((out.len(), fold.due()), (1, None));
    fold.push(lost(1, 11, 100), now, &mut out);
    fold.push(lost(1, 12, 200), now + WINDOW / 2, &mut out);
    assert_eq!((out.len(), fold.due()), (1, Some(now + WINDOW)));
    fold.flush(&mut out);
    assert_eq!(seqs(&out), [(10, 1), (12, 2)]);
    assert_eq!((out[1].text.as_str(), out[1].at_us), ("line 12", 200));
    assert_eq!(fold.due(), None);
}

#[test]
fn a_flood_that_goes_on_gives_one_event_a_second() {
    let events = (0..35_u64).map(|n| lost(1, n, n * 100_000)).collect();
    assert_eq!(
        seqs(&run(events)),
        [(0, 1), (10, 10), (20, 10), (30, 10), (34, 4)]
    );
}

#[test]
fn the_same_after_a_quiet_second_is_a_first_again() {
    assert_eq!(
        seqs(&run(vec![lost(1, 1, 0), lost(1, 2, 1_000_000)])),
        [(1, 1), (2, 1)]
    );
}

#[test]
fn a_new_kind_goes_out_behind_what_was_held_back() {
    let events = vec![
        lost(1, 1, 0),
        lost(2, 2, 1),
        lost(2, 3, 2),
        lost(1, 4, 3),
        lost(3, 5, 4),
    ];
    assert_eq!(seqs(&run(events)), [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)]);
}

#[test]
fn history_and_news_are_not_one_flood() {
    let old = Event {
        history: true,
        ..lost(1, 1, 0)
    };
    assert_eq!(seqs(&run(vec![old, lost(1, 2, 1)])), [(1, 1), (2, 1)]);
}

#[test]
fn time_stamps_that_go_back_break_nothing() {
    let events = vec![
        lost(1, 1, 5_000_000),
        lost(1, 2, 4_999_000),
        lost(2, 3, 0),
        lost(1, 4, 5_000_001),
    ];
    assert_eq!(run(events).iter().map(|e| e.count).sum::<u64>(), 4);
}

#[test]
fn losses_add_up_and_one_unknown_makes_the_sum_unknown() {
    let overrun = |seq, lost_records| Event {
        body: EventBody::Overrun { lost: lost_records },
        ..lost(0, seq, 0)
    };
    let out = run(vec![
        overrun(1, Some(5)),
        overrun(2, Some(6)),
        overrun(3, Some(7)),
    ]);
    assert_eq!(out[1].body, EventBody::Overrun { lost: Some(13) });
    let out = run(vec![overrun(1, Some(5)), overrun(2, Some(6)), overrun(3, None)]);
    assert_eq!(out[1].body, EventBody::Overrun { lost: None });
}

#[test]
fn kinds_are_bounded() {
    let (mut fold, mut out) = (Fold::default(), Vec::new());
    for n in 0..3 * MAX_KINDS as u64 {
        fold.push(lost(n, n, 0), Duration::ZERO, &mut out);
        assert!(fold.kinds.len() <= MAX_KINDS);
    }
    assert_eq!(out.len(), 3 * MAX_KINDS);
}

#[test]
fn eight_hundred_thousand_lines_of_29_kinds_are_few_events_with_an_exact_count() {
    let (mut fold, mut out) = (Fold::default(), Vec::new());
    for n in 0..800_000_u64 {
        fold.push(lost(n % 29, n, n * 5), Duration::ZERO, &mut out);
    }
    fold.flush(&mut out);
    // 4 s of log: one event per kind and second, and the firsts.
    assert!(out.len() <= 29 * 6, "{}", out.len());
    assert_eq!(out.iter().map(|e| e.count).sum::<u64>(), 800_000);
    assert!(out.windows(2).all(|pair| pair[0].seq < pair[1].seq));
}

proptest! {
    #[test]
    fn counts_are_exact_numbers_grow_and_firsts_pass_at_once(
        steps in proptest::collection::vec((0_u64..6, 0_u64..700_000, proptest::bool::weighted(0.1)), 1..200),
    ) {
        let (mut fold, mut out) = (Fold::default(), Vec::new());
        let (mut at_us, mut seen) = (0, std::collections::HashSet::new());
        for (seq, (n, pause, flush)) in steps.iter().enumerate() {
            at_us += pause;
            let event = lost(*n, seq as u64, at_us);
            let first = seen.insert(*n);
            fold.push(event.clone(), Duration::ZERO, &mut out);
            if first {
                prop_assert_eq!(out.last(), Some(&event));
            }
            // Whatever is stored, every kind read so far has been stored with or before it.
            let stored: std::collections::HashSet<_> = out.iter().map(kind).collect();
            prop_assert_eq!(stored.len(), seen.len());
            if *flush {
                fold.flush(&mut out);
            }
        }
        fold.flush(&mut out);
        prop_assert_eq!(out.iter().map(|e| e.count).sum::<u64>(), steps.len() as u64);
        prop_assert!(out.windows(2).all(|pair| pair[0].seq < pair[1].seq));
    }
}
