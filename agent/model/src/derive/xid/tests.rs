use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000;

fn xid(source: XidSource, code: u32) -> Xid {
    Xid {
        source,
        pci: PciAddress::parse("0000:3b:00.0").unwrap(),
        code,
        ..Xid::default()
    }
}

/// Takes reports of one code (source, second, count), in this order. Returns the number of faults.
fn faults(reports: &[(XidSource, u64, u64)]) -> u64 {
    let mut faults = Faults::default();
    reports
        .iter()
        .map(|(source, at, count)| faults.take(&xid(*source, 48), at * SECOND, *count))
        .sum()
}

use XidSource::{KernelLog as Log, Nvml};

#[test]
fn one_fault_that_both_tell_of_counts_once_whoever_is_first() {
    assert_eq!(faults(&[(Log, 100, 1), (Nvml, 107, 1)]), 1);
    assert_eq!(faults(&[(Nvml, 100, 1), (Log, 107, 1)]), 1);
    assert_eq!(faults(&[(Nvml, 107, 1), (Log, 100, 1)]), 1);
}

#[test]
fn a_second_fault_counts_whether_one_tells_of_it_or_both() {
    assert_eq!(faults(&[(Log, 100, 1), (Nvml, 101, 1), (Log, 102, 1)]), 2);
    assert_eq!(faults(&[(Log, 100, 1), (Nvml, 101, 1), (Nvml, 102, 1)]), 2);
    let both = [(Log, 100, 1), (Log, 101, 1), (Nvml, 102, 1), (Nvml, 103, 1)];
    assert_eq!(faults(&both), 2);
}

#[test]
fn two_reports_far_apart_are_two_faults() {
    assert_eq!(faults(&[(Log, 100, 1), (Nvml, 161, 1)]), 2);
}

#[test]
fn a_folded_flood_counts_its_lines_and_the_library_adds_none() {
    let flood = [
        (Log, 100, 1),
        (Nvml, 100, 1),
        (Log, 110, 800),
        (Nvml, 110, 1),
        (Nvml, 112, 28),
    ];
    assert_eq!(faults(&flood), 801);
}

#[test]
fn lines_that_are_read_late_belong_to_what_was_told_then() {
    assert_eq!(
        faults(&[(Nvml, 100, 1), (Nvml, 900, 1), (Log, 101, 1), (Log, 901, 1)]),
        2
    );
}

#[test]
fn other_codes_and_other_gpus_are_other_faults() {
    let mut faults = Faults::default();
    let elsewhere = Xid {
        pci: PciAddress::parse("0000:5e:00.0").unwrap(),
        ..xid(Nvml, 48)
    };
    assert_eq!(faults.take(&xid(Log, 48), 0, 1), 1);
    assert_eq!(faults.take(&xid(Nvml, 63), 0, 1), 1);
    assert_eq!(faults.take(&elsewhere, 0, 1), 1);
    assert_eq!(faults.take(&xid(Nvml, 48), 0, 1), 0);
}

#[test]
fn nothing_grows_without_bound() {
    let mut faults = Faults::default();
    for n in 0..5000 {
        let code = u32::try_from(n).unwrap();
        assert_eq!(faults.take(&xid(Log, code), 0, 1), 1);
        assert_eq!(faults.take(&xid(Log, 1), n * 2 * SECOND, 1), 1);
    }
    assert!(faults.alone.len() <= MAX_KEYS);
    assert!(faults.alone.values().all(|r| r.len() <= MAX_REPORTS));
}

#[test]
fn what_one_source_has_told_outlives_a_restart() {
    let mut faults = Faults::default();
    faults.take(&xid(Nvml, 48), 0, 1);
    let json = serde_json::to_string(&faults).unwrap();
    let mut faults: Faults = serde_json::from_str(&json).unwrap();
    assert_eq!(faults.take(&xid(Log, 48), SECOND, 1), 0);
    assert_eq!(faults, Faults::default(), "and nothing is left of it");
}

proptest! {
    /// Both sources report each fault, at most the window apart; the daemon receives either source late, each in its
    /// own order.
    #[test]
    fn every_interleaving_of_both_sources_counts_each_fault_once(
        gaps in proptest::collection::vec((0..90_u64, 0..=60_u64, any::<bool>()), 1..20),
        choices in proptest::collection::vec(any::<bool>(), 40),
    ) {
        let mut at = 1000;
        let (mut log, mut nvml) = (Vec::new(), Vec::new());
        for (gap, apart, first) in &gaps {
            at += gap;
            log.push(if *first { at } else { at + apart });
            nvml.push(if *first { at + apart } else { at });
        }
        log.sort_unstable();
        nvml.sort_unstable();
        let faults_there_are = log.len() as u64;
        let (mut log, mut nvml) = (log.into_iter().peekable(), nvml.into_iter().peekable());
        let mut order = Vec::new();
        let mut choices = choices.into_iter();
        while log.peek().is_some() || nvml.peek().is_some() {
            let from_log = nvml.peek().is_none() || (log.peek().is_some() && choices.next().unwrap_or(true));
            let next = if from_log { (Log, log.next()) } else { (Nvml, nvml.next()) };
            if let (source, Some(at)) = next {
                order.push((source, at, 1));
            }
        }
        prop_assert_eq!(faults(&order), faults_there_are);
    }

    #[test]
    fn within_the_window_the_source_that_tells_of_more_decides(order in proptest::collection::vec(any::<bool>(), 0..30)) {
        let reports: Vec<_> = order.iter().map(|log| (if *log { Log } else { Nvml }, 100, 1)).collect();
        let of_log = order.iter().filter(|log| **log).count();
        prop_assert_eq!(faults(&reports), of_log.max(order.len() - of_log) as u64);
    }
}
