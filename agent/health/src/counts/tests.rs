use super::*;

const HOUR: u64 = 3600 * 1000;

#[test]
fn a_counter_grows_by_the_difference_and_begins_anew_when_it_goes_down() {
    let mut memory = Counters::default();
    let grown: Vec<u64> = [7, 7, 9, 0, 2, u64::MAX, 0]
        .into_iter()
        .map(|v| memory.growth("c", v))
        .collect();
    assert_eq!(grown, [0, 0, 2, 0, 2, u64::MAX - 2, 0]);
    assert_eq!(memory.growth("other", 1000), 0, "the first reading is no growth");
}

#[test]
fn a_state_lasts_until_it_is_another_or_none() {
    let mut memory = Unchanged::default();
    let states = [
        Some("a"),
        Some("a"),
        Some("b"),
        Some("b"),
        None,
        Some("b"),
        Some("b"),
    ];
    let lasted: Vec<_> = (0..)
        .zip(states)
        .map(|(at, state)| memory.lasts("k", state, Duration::from_secs(at)))
        .map(|lasted| lasted.map(|l| l.as_secs()))
        .collect();
    assert_eq!(
        lasted,
        [Some(0), Some(1), Some(0), Some(1), None, Some(0), Some(1)]
    );
}

#[test]
fn a_fall_is_seen_between_two_readings_that_follow_each_other() {
    let mut memory = Levels::default();
    let readings = [
        Some(false),
        Some(true),
        Some(false),
        Some(false),
        Some(true),
        None,
        Some(false),
    ];
    let falls: Vec<bool> = readings
        .into_iter()
        .map(|up| {
            let now = up.map(|up| ("p".to_owned(), up)).into_iter().collect();
            memory.fallen(now) == ["p"]
        })
        .collect();
    assert_eq!(falls, [false, false, true, false, false, false, false]);
}

#[test]
fn times_are_kept_for_a_day_and_over_a_restart() {
    let mut memory = Times::default();
    memory.add("k", "c", 1, 0);
    memory.add("k", "c", 2, 10 * HOUR);
    memory.add("k", "c", 0, 11 * HOUR);
    let memory: Times = serde_json::from_str(&serde_json::to_string(&memory).unwrap()).unwrap();
    assert_eq!(
        memory.of("k", "c", 24 * HOUR, 11 * HOUR),
        [0, 10 * HOUR, 10 * HOUR]
    );
    assert_eq!(memory.of("k", "c", 2 * HOUR, 11 * HOUR).len(), 2);
    assert_eq!(memory.of("k", "c", 100 * HOUR, 30 * HOUR).len(), 2);
    assert!(memory.of("k", "", HOUR, 0).is_empty());
}

#[test]
fn of_a_burst_the_latest_are_kept_and_each_earlier_span_counts_once() {
    let mut memory = Times::default();
    memory.add("k", "c", 1, HOUR);
    for second in 0..100 {
        memory.add("k", "c", 1, 10 * HOUR + second * 1000);
    }
    let mut times = memory.of("k", "c", 24 * HOUR, 11 * HOUR);
    assert_eq!(times.remove(0), HOUR, "the burst does not hide it");
    assert_eq!(times.len(), MAX_TIMES);
    assert_eq!(times.last(), Some(&(10 * HOUR + 99_000)));
    assert!(times.iter().all(|at| *at > 10 * HOUR + 60_000));
    let spans = memory.spans("k", 24 * HOUR, 11 * HOUR);
    assert!(spans.contains(&(HOUR, HOUR)) && spans.contains(&(10 * HOUR, 10 * HOUR + 99_000)));
}

/// What happened now and then for days must not hide what begins today.
#[test]
fn old_times_make_no_burst_smaller() {
    let mut memory = Times::default();
    for hours in 0..20 {
        memory.add("k", "c", 1, 2 * hours * HOUR);
    }
    for minutes in 0..10 {
        memory.add("k", "c", 1, 41 * HOUR + minutes * 60_000);
    }
    assert_eq!(memory.of("k", "c", HOUR, 42 * HOUR).len(), 10);
    let spans = memory.spans("k", 100 * HOUR, 42 * HOUR);
    assert!(
        spans.iter().all(|(_, end)| *end >= 17 * HOUR),
        "a day and an hour: {spans:?}"
    );
}

#[test]
fn what_goes_on_for_hours_is_one_span_whatever_times_are_kept_of_it() {
    let mut memory = Times::default();
    for tick in 0..6 * 240 {
        memory.add("k", "c", 1, HOUR + tick * 15_000);
    }
    let memory: Times = serde_json::from_str(&serde_json::to_string(&memory).unwrap()).unwrap();
    assert_eq!(memory.0["k"]["c"].spans, [(HOUR, 7 * HOUR - 15_000)]);
    let mut memory = Times::default();
    for n in 0..100 {
        memory.add("k", "c", 1, n * GOES_ON_MS * 2);
    }
    let spans = &memory.0["k"]["c"].spans;
    assert_eq!(
        (spans.len(), spans[0].0),
        (MAX_SPANS, 0),
        "those that are near are one"
    );
    assert!(spans.is_sorted_by(|(_, end), (begin, _)| end < begin));
    assert!(memory.forget("k") && memory.0.is_empty());
}

#[test]
fn names_that_are_old_make_room_for_new_ones() {
    let mut memory = Times::default();
    for n in 0..STORED {
        memory.add(&format!("k{n}"), "c", 1, 0);
    }
    memory.add("new", "c", 1, HOUR);
    assert!(memory.of("new", "c", HOUR, HOUR).is_empty(), "all are of today");
    memory.add("new", "c", 1, 30 * HOUR);
    assert_eq!(memory.of("new", "c", HOUR, 30 * HOUR), [30 * HOUR]);
}

#[test]
fn a_person_or_a_reboot_ends_what_was_counted() {
    let mut memory = Times::default();
    memory.add("k 1", "c", 1, 0);
    memory.add("k 10", "c", 1, 0);
    assert!(memory.forget("k 1") && !memory.forget("k 1"));
    assert_eq!(memory.of("k 10", "c", HOUR, 0).len(), 1);
    memory.clear();
    assert!(memory.of("k 10", "c", HOUR, 0).is_empty());
}

#[test]
fn nothing_grows_without_bound() {
    let mut times = Times::default();
    for n in 0..10_000_u64 {
        times.add(&format!("k{n}"), "c", u64::MAX, n);
        times.add("k0", "c", 1, n);
    }
    assert_eq!(times.len(), STORED);
    let all = times.0.values().flat_map(BTreeMap::values);
    assert!(
        all.clone()
            .all(|h| h.times.len() <= MAX_TIMES && h.spans.len() <= MAX_SPANS)
    );
    let mut levels = Levels::default();
    levels.fallen((0..2000).map(|n| (n, true)).collect());
    assert_eq!(levels.0.len(), STORED);
}
