//! The watcher's rules, against a scripted ring buffer.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;

use super::*;
use crate::event::{Recovery, Xid};
use crate::kernel_log::script::*;

#[test]
fn a_line_becomes_an_event_with_its_number_time_and_text() {
    let events = run(None, vec![other(6), xid(7, 79)]);
    let Some(event) = events.first() else {
        panic!("no event")
    };
    assert_eq!(
        (event.seq, event.at_us, event.count, event.history),
        (7, 1_000_007, 1, false)
    );
    assert_eq!(event.boot, boot("now"));
    assert_eq!(event.text, xid_text(0x3b, 79));
    assert!(matches!(&event.body, EventBody::Xid(Xid { code: 79, .. })));
}

#[test]
fn what_a_cursor_of_this_boot_covers_is_passed_over() {
    let steps = || vec![xid(5, 79), xid(6, 48), xid(7, 95), xid(8, 31)];
    assert_eq!(words(&run(cursor(6), steps())), ["7x1 xid 95", "8x1 xid 31"]);
    assert_eq!(words(&run(cursor(8), steps())), Vec::<String>::new());
}

/// A damaged record once hid an Xid 79 this way, and the node was healthy.
#[test]
fn a_cursor_ahead_of_the_newest_record_is_not_believed() {
    let steps = || vec![xid(5, 48), other(6), Step::Wait, xid(7, 79)];
    let start = |from| Start {
        before_us: 1_000_006,
        ..start(from)
    };
    let got = run_with(steps(), start(cursor(1_000_000))).all;
    assert_eq!(
        words(&got),
        [
            "0x0 ahead 1000000 Some(6)",
            "5x1 xid 48",
            "6x1 progress",
            "7x1 xid 79"
        ]
    );
    // What the log held before the start is history, as without a cursor.
    let history: Vec<bool> = got.iter().map(|e| e.history).collect();
    assert_eq!(history, [false, true, false, false]);
    assert_eq!(got.iter().map(|e| e.count).collect::<Vec<_>>(), [0, 1, 1, 1]);
    // The cursor of the newest record is believed, and so is one whose loss the kernel reports.
    assert_eq!(words(&run_with(steps(), start(cursor(6))).events), ["7x1 xid 79"]);
    let got = run_with(vec![Step::Wait, xid(7, 79)], start(cursor(9))).events;
    assert_eq!(words(&got), ["7x1 xid 79"], "an empty log holds none either");
}

#[test]
fn all_of_another_boot_is_news() {
    let from = Some(Cursor {
        boot: boot("before"),
        seq: 1000,
    });
    let start = Start {
        before_us: u64::MAX,
        ..start(from)
    };
    let got = run_with(vec![xid(5, 79), Step::Wait, xid(6, 48)], start).events;
    assert_eq!(words(&got), ["5x1 xid 79", "6x1 xid 48"]);
    assert!(got.iter().all(|e| !e.history));
}

#[test]
fn without_a_cursor_what_was_there_before_the_start_is_history() {
    let start = Start {
        before_us: 1_000_007,
        ..start(None)
    };
    let steps = vec![
        xid(5, 79),
        xid(7, 48),
        Step::Wait,
        // A CPU's log clock may lag: after the ring buffer was read through, no record is history any more.
        line(8, 900_000, &xid_text(0x3b, 95)),
    ];
    let got = run_with(steps, start).events;
    assert_eq!(
        got.iter().map(|e| (e.seq, e.history)).collect::<Vec<_>>(),
        [(5, true), (7, false), (8, false)]
    );
}

/// A reboot would not end them: some firmware never empties the banks.
#[test]
fn machine_checks_that_were_polled_before_a_program_ran_are_left_over_from_before_the_boot() {
    let bank =
        |what: &str| format!("mce: [Hardware Error]: CPU 0: Machine Check{what} Bank 4: a600000000020408");
    let decoded = "[Hardware Error]: System Fatal error.";
    let survived = "[Hardware Error]: Uncorrected, software restartable error.";
    for (at_us, text, want) in [
        (64_265, bank(": 0"), "mce-left-over"),
        (29_999_999, bank(": 0"), "mce-left-over"),
        (30_000_000, bank(": 0"), "mce-uncorrected"),
        (64_265, bank(" Exception: 5"), "mce-uncorrected"),
        (64_265, bank(": 0").replace("a6", "86"), "mce-corrected"),
        (
            64_265,
            "EDAC skx MC3: CPU 0: Machine Check Event: 0x0 Bank 25: 0xac00000200a00090".to_owned(),
            "mce-left-over",
        ),
        (732_560, decoded.to_owned(), "mce-amd-left-over"),
        (30_000_000, decoded.to_owned(), "mce-amd-uncorrected"),
        (732_560, survived.to_owned(), "mce-amd-uncorrected"),
    ] {
        let events = run(None, vec![line(1, at_us, &text)]);
        assert_eq!(words(&events), [format!("1x1 {want}")], "{at_us} {text}");
    }
}

#[test]
fn records_between_the_cursor_and_the_ring_are_a_loss() {
    assert_eq!(
        words(&run(cursor(6), vec![xid(10, 79)])),
        ["9x1 lost Some(3)", "10x1 xid 79"]
    );
    assert_eq!(words(&run(cursor(6), vec![xid(7, 79)])), ["7x1 xid 79"]);
    assert_eq!(words(&run(None, vec![xid(10, 79)])), ["10x1 xid 79"]);
}

#[test]
fn what_the_kernel_says_was_overwritten_is_a_loss() {
    let got = run_with(vec![xid(1, 79), Step::Lost, xid(5, 79), xid(9, 79)], start(None));
    // A gap that the kernel does not report is no loss: a recording may omit lines.
    assert_eq!(
        words(&got.events),
        ["1x1 xid 79", "4x1 lost Some(3)", "9x2 xid 79"]
    );
    assert_eq!(got.counts.lost.load(Relaxed), 3);
    assert_eq!(
        words(&run(None, vec![Step::Lost, xid(5, 79)])),
        ["4x1 lost None", "5x1 xid 79"]
    );
    // Lost records that an earlier run stored are no loss.
    let steps = vec![other(1), Step::Lost, other(5), Step::Lost, xid(9, 79)];
    assert_eq!(words(&run(cursor(7), steps)), ["8x1 lost Some(1)", "9x1 xid 79"]);
}

#[test]
fn losses_in_a_storm_are_folded() {
    let mut steps = vec![xid(0, 79)];
    for n in 1..=50 {
        steps.extend([Step::Lost, other(n * 10)]);
    }
    let got = run(None, steps);
    let lost = |e: &Event| match e.body {
        EventBody::Overrun { lost } => lost.unwrap(),
        _ => 0,
    };
    assert!(got.len() <= 4, "{:?}", words(&got));
    assert_eq!(got.iter().map(lost).sum::<u64>(), 50 * 9);
}

#[test]
fn a_program_cannot_forge_an_event() {
    let forged = || Step::Line(format!("12,5,1000000,-;{}\n", xid_text(0x3b, 79)));
    let got = run_with(vec![forged(), other(6)], start(None));
    assert_eq!(words(&got.events), ["6x1 progress"]);
    assert_eq!(got.counts.user_space.load(Relaxed), 1);
    let accepting = Start {
        accept_user: true,
        ..start(None)
    };
    assert_eq!(words(&run_with(vec![forged()], accepting).events), ["5x1 xid 79"]);
}

#[test]
fn what_is_not_understood_is_counted_and_stops_nothing() {
    let steps = vec![
        Step::Line("garbage".to_owned()),
        line(1, 1, "NVRM: Xid (new form)"),
        line(2, 2, "SXid (PCI:0000:05:00.0): 20034, Data {0x1}"),
        xid(3, 79),
    ];
    let got = run_with(steps, start(None));
    assert_eq!(words(&got.events), ["3x1 xid 79"]);
    assert_eq!(got.counts.parse_errors.load(Relaxed), 1);
    assert_eq!(got.counts.malformed.load(Relaxed), 1);
    assert_eq!(got.counts.records.load(Relaxed), 4);
}

#[test]
fn a_message_over_several_records_is_one_event_even_across_a_restart() {
    let steps = || {
        vec![
            line(1, 1, "NVRM: The NVIDIA GPU 0000:18:00.0"),
            line(2, 1, "eth0: link up"),
            line(3, 1, "NVRM: (PCI ID: 10de:2330) installed in this system has"),
            line(
                4,
                1,
                "NVRM: fallen off the bus and is not responding to commands.",
            ),
        ]
    };
    assert_eq!(words(&run(None, steps())), ["4x1 fallen"]);
    assert_eq!(words(&run(cursor(2), steps())), ["4x1 fallen"]);
    let one = r"NVRM: The NVIDIA GPU 0000:18:00.0\x0aNVRM: (PCI ID: 10de:2330) installed in this system has\x0aNVRM: fallen off the bus and is not responding to commands.";
    let got = run(None, vec![line(1, 1, one)]);
    assert_eq!(words(&got), ["1x1 fallen"]);
    assert_eq!(got[0].text, one);
}

#[test]
fn the_first_is_emitted_before_the_watcher_waits_and_the_rest_when_the_second_ends() {
    let steps = vec![
        Step::Wait,
        xid(1, 79),
        xid(2, 79),
        xid(3, 79),
        Step::Pause(Duration::from_millis(10)),
        xid(4, 79),
        Step::Wait,
        Step::Wait,
    ];
    let got = run_with(steps, start(None));
    assert_eq!(words(&got.events), ["1x1 xid 79", "4x3 xid 79"]);
    assert_eq!(
        got.waits,
        [
            None,
            Some(Duration::from_secs(1)),
            Some(Duration::from_millis(990)),
            None
        ]
    );
}

#[test]
fn progress_is_rare_and_an_idle_log_wakes_no_thread() {
    let got = run_with(
        vec![Step::Wait, other(1), other(2), Step::Wait, Step::Wait],
        start(None),
    );
    assert_eq!(words(&got.events), ["2x1 progress"]);
    assert_eq!(got.waits, [None, Some(Duration::from_secs(10)), None]);
    let steps = std::iter::once(Step::Wait).chain((0..2500).map(other));
    let got = run(None, steps.collect());
    assert_eq!(
        words(&got),
        ["999x1 progress", "1999x1 progress", "2499x1 progress"]
    );
    assert!(run(cursor(2499), (0..2500).map(other).collect()).is_empty());
}

#[test]
fn the_end_of_what_the_log_held_is_reported_once_and_before_any_other_progress() {
    let all = |from, steps| words(&run_with(steps, start(from)).all);
    // An empty log, an old record, an irrelevant one, an event.
    assert_eq!(all(None, vec![]), ["0x0 progress"]);
    assert_eq!(all(cursor(6), vec![xid(6, 79), Step::Wait]), ["6x0 progress"]);
    assert_eq!(
        all(None, vec![other(1), other(2), Step::Wait, Step::Wait]),
        ["2x1 progress"]
    );
    assert_eq!(
        all(None, vec![xid(1, 79), Step::Wait, xid(2, 48)]),
        ["1x1 xid 79", "1x0 progress", "2x1 xid 48"]
    );
    assert_eq!(all(None, (0..2500).map(other).collect()), ["2499x1 progress"]);
    // Records held back as part of a flood precede it.
    assert_eq!(
        all(None, vec![xid(1, 79), xid(2, 79), xid(3, 79), Step::Wait]),
        ["1x1 xid 79", "3x2 xid 79", "3x0 progress"]
    );
}

#[test]
fn an_event_moves_the_cursor_so_that_no_progress_is_needed() {
    let got = run_with(vec![other(1), xid(2, 79), Step::Wait], start(None));
    assert_eq!(words(&got.events), ["2x1 xid 79"]);
    assert_eq!(got.waits, [None]);
}

#[test]
fn a_flood_is_few_events_with_an_exact_count() {
    let steps = (0..80_000_u64)
        .map(|n| line(n, n * 10, &xid_text(n % 29, 95)))
        .collect();
    let got = run(None, steps);
    assert!(got.len() < 100, "{}", got.len());
    assert_eq!(got.iter().map(|e| e.count).sum::<u64>(), 80_000);
}

#[test]
fn text_is_cut_and_control_characters_are_escaped() {
    let text = format!(
        "NVRM: Xid (PCI:0000:3b:00): 43, name=\\x1b[31m\\xff{}",
        "\u{e4}".repeat(8192)
    );
    let got = run(None, vec![line(1, 1, &text)]);
    let event = got.first().unwrap();
    assert!(
        event.text.len() <= 512 && event.text.contains("\\x1b[31m\\xff\u{e4}"),
        "{}",
        event.text
    );
    assert!(!event.text.contains(char::is_control));
}

#[test]
fn the_newest_recovery_action_is_not_folded_into_an_older_one() {
    let change = |seq, what: &str| {
        line(
            seq,
            5,
            &format!("NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from {what}"),
        )
    };
    let got = run(
        None,
        vec![
            change(1, "0x0 (None) to 0x2 (OS Reboot)"),
            change(2, "0x2 (OS Reboot) to 0x0 (None)"),
        ],
    );
    let verdicts: Vec<_> = got
        .iter()
        .map(|e| match &e.body {
            EventBody::Xid(xid) => xid.recovery,
            _ => None,
        })
        .collect();
    assert_eq!(verdicts, [Some(Recovery::NodeReboot), Some(Recovery::None)]);
}

#[test]
fn an_error_of_the_ring_is_the_watchers_error() {
    assert!(
        run_with(vec![xid(1, 79), Step::Fail], start(None))
            .result
            .is_err()
    );
}

#[test]
fn the_watcher_returns_when_the_receiver_is_gone() {
    let (to, from) = mpsc::sync_channel(1);
    drop(from);
    let (counts, out) = (LogCounts::default(), Events::new(to));
    let mut ring = Script {
        steps: vec![xid(1, 79), Step::Fail].into(),
        ..Script::default()
    };
    Follow::new(start(None), &counts, &out).run(&mut ring).unwrap();
}

/// Stops after every possible number of stored events and resumes at the cursor, as after a crash.
#[test]
fn after_a_crash_anywhere_no_kind_is_missing_and_nothing_stored_comes_again() {
    // Kinds 0 to 4, in overlapping floods; a cursor's last number never follows a first one that was not stored.
    let order = [0_u64, 0, 1, 0, 1, 1, 2, 0, 2, 1, 3, 3, 3, 0, 4, 2, 4, 0, 0, 1];
    let steps = || -> Vec<Step> {
        let line = |(seq, bus): (usize, &u64)| line(seq as u64, seq as u64 * 90_000, &xid_text(*bus, 79));
        order.iter().enumerate().map(line).collect()
    };
    let bus = |e: &Event| match &e.body {
        EventBody::Xid(xid) => xid.pci.clone(),
        _ => panic!("not an Xid"),
    };
    let all = run(None, steps());
    assert_eq!(all.iter().map(|e| e.count).sum::<u64>(), 20);
    for stored in 1..=all.len() {
        let (before, cursor_seq) = (&all[..stored], all[stored - 1].seq);
        let after = run(cursor(cursor_seq), steps());
        assert!(after.iter().all(|e| e.seq > cursor_seq));
        let kinds: HashSet<_> = before.iter().chain(&after).map(bus).collect();
        assert_eq!(kinds.len(), 5, "after {stored}");
        let counted: u64 = before.iter().chain(&after).map(|e| e.count).sum();
        assert!((15..=20).contains(&counted), "after {stored}: {counted}");
    }
}
