use std::time::Duration;

use super::*;
use crate::exposition::parse::parse;
use crate::exposition::sample::{AT, DEEP, ERRORS, FINE, HIDDEN, LEVEL, device, late, snapshot};

fn write(encoder: &mut Encoder, snapshot: &Snapshot, tier: Tier) -> (String, Dropped) {
    let mut out = String::new();
    let dropped = encoder.collectors(snapshot, tier, &mut out);
    (out, dropped.last().copied().unwrap_or_default())
}

fn full(name: &'static str) -> DeviceState {
    device(name, |b| {
        b.f64(&LEVEL, &[name], 0.5);
        b.u64(&ERRORS, &[name], u64::MAX);
        b.u64(&FINE, &[name], 1);
        b.u64(&DEEP, &[name], 1);
        b.u64(&HIDDEN, &[name], 1);
    })
}

#[test]
fn families_are_contiguous_in_the_order_of_the_table() {
    let (text, dropped) = write(
        &mut Encoder::default(),
        &snapshot(vec![full("a"), full("b")]),
        Tier::Core,
    );
    assert_eq!(
        text,
        "# HELP test_errors_total A \\\\ in help.\n# TYPE test_errors_total counter\n\
         test_errors_total{device=\"a\"} 18446744073709551615\n\
         test_errors_total{device=\"b\"} 18446744073709551615\n\
         # HELP test_level A \\\\ in help.\n# TYPE test_level gauge\n\
         test_level{device=\"a\"} 0.5\ntest_level{device=\"b\"} 0.5\n"
    );
    assert_eq!(dropped, Dropped::default());
}

#[test]
fn tiers_include_the_lower_ones_and_private_is_never_served() {
    let snapshot = snapshot(vec![full("a")]);
    for (tier, families) in [
        (Tier::Core, 2),
        (Tier::Detail, 3),
        (Tier::Debug, 4),
        (Tier::Private, 4),
    ] {
        let (text, _) = write(&mut Encoder::default(), &snapshot, tier);
        assert_eq!(parse(&text).unwrap().order.len(), families);
    }
}

#[test]
fn what_is_absent_late_failed_or_old_is_not_there() {
    let absent = device("a", |b| b.push(&LEVEL, &["a"], Value::Absent));
    let mut failed = full("f");
    failed.error = Some(("io".to_owned(), "io".to_owned()));
    let mut old = full("o");
    old.at = AT - Duration::from_secs(36);
    let (text, _) = write(
        &mut Encoder::default(),
        &snapshot(vec![absent, failed, old, late("l")]),
        Tier::Core,
    );
    assert_eq!(text, "");
}

#[test]
fn of_two_devices_with_one_series_the_first_that_has_a_value_wins() {
    let one = |value| device("a", move |b| b.push(&LEVEL, &["a"], value));
    let mut encoder = Encoder::default();
    let (text, dropped) = write(
        &mut encoder,
        &snapshot(vec![one(Value::U64(1)), one(Value::U64(2))]),
        Tier::Core,
    );
    assert!(text.ends_with("test_level{device=\"a\"} 1\n"), "{text}");
    assert_eq!(dropped.duplicates, 1);
    parse(&text).unwrap();
    let (text, dropped) = write(
        &mut encoder,
        &snapshot(vec![one(Value::Absent), one(Value::U64(2))]),
        Tier::Core,
    );
    assert!(text.ends_with("test_level{device=\"a\"} 2\n"), "{text}");
    assert_eq!(dropped.duplicates, 0);
}

#[test]
fn a_plan_follows_the_layouts() {
    let mut encoder = Encoder::default();
    let mut shot = snapshot(vec![full("a"), full("b")]);
    let (first, _) = write(&mut encoder, &shot, Tier::Core);
    assert_eq!(write(&mut encoder, &shot, Tier::Core).0, first);
    let devices = &mut shot.collectors.last_mut().unwrap().devices;
    devices.remove(0);
    let (second, _) = write(&mut encoder, &shot, Tier::Core);
    assert!(!second.contains("device=\"a\"") && second.contains("device=\"b\""));
    let devices = &mut shot.collectors.last_mut().unwrap().devices;
    devices[0].values = Arc::new(vec![Value::U64(9), Value::U64(8)]);
    let (third, _) = write(&mut encoder, &shot, Tier::Core);
    assert!(third.contains("test_level{device=\"b\"} 9\n"));
}

#[test]
fn series_beyond_the_limit_are_counted_not_served() {
    let names: Vec<String> = (0..MAX_SERIES + 5).map(|n| n.to_string()).collect();
    let many = device("a", |b| {
        for name in &names {
            b.u64(&LEVEL, &[name], 1);
        }
    });
    let (text, dropped) = write(&mut Encoder::default(), &snapshot(vec![many]), Tier::Core);
    assert_eq!(text.lines().count(), MAX_SERIES + 2);
    assert_eq!(dropped.over_limit, 5);
}
