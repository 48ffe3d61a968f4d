use std::time::Duration;

use collectors::block::MAX_SERIES;
use collectors::{Labels, Metric, Tier, Value};
use proptest::prelude::*;

use super::*;
use crate::plan;
use model::filter::Filter;
use model::sample::{AT, ELSEWHERE, FINE, LEVEL, MORE, RECEIVED, SENT, TOOK, device, full, late, snapshot};
use model::snapshot::{CollectorState, Prepared};
use testkit::exposition::read_page;

/// The families of the collectors alone.
fn families(encoder: &mut Encoder, snapshot: &Snapshot, tier: Tier, format: Format) -> (String, Dropped) {
    page_families(encoder, METRICS, snapshot, tier, format)
}

fn page_families(
    encoder: &mut Encoder,
    page: &'static str,
    snapshot: &Snapshot,
    tier: Tier,
    format: Format,
) -> (String, Dropped) {
    let mut out = Vec::new();
    let (filter, switches) = (Filter::All, Arc::default());
    let shown = Shown {
        tier,
        filter: &filter,
        switches: &switches,
    };
    encoder.families(page, snapshot, &switches, shown, format, &mut out);
    let (_, dropped) = *encoder.dropped().iter().find(|(name, _)| *name == page).unwrap();
    (String::from_utf8(out).unwrap(), *dropped.last().unwrap())
}

fn write(encoder: &mut Encoder, snapshot: &Snapshot, tier: Tier) -> (String, Dropped) {
    families(encoder, snapshot, tier, Format::Text)
}

#[test]
fn families_are_contiguous_in_the_order_of_the_table() {
    let shot = snapshot(vec![full("a"), full("b")]);
    let (text, dropped) = write(&mut Encoder::default(), &shot, Tier::Core);
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
fn openmetrics_names_the_family_without_total_and_states_the_unit() {
    let (text, _) = families(
        &mut Encoder::default(),
        &snapshot(vec![full("a")]),
        Tier::Detail,
        Format::OpenMetrics,
    );
    assert_eq!(
        text,
        "# TYPE test_errors counter\n# HELP test_errors A \\\\ in help.\n\
         test_errors_total{device=\"a\"} 18446744073709551615\n\
         # TYPE test_level gauge\n# HELP test_level A \\\\ in help.\n\
         test_level{device=\"a\"} 0.5\n\
         # TYPE test_fine gauge\n# HELP test_fine A \\\\ in help.\n\
         test_fine{device=\"a\"} 1\n\
         # TYPE test_took_seconds histogram\n# UNIT test_took_seconds seconds\n\
         # HELP test_took_seconds A \\\\ in help.\n\
         test_took_seconds_bucket{device=\"a\",le=\"0.5\"} 1\n\
         test_took_seconds_bucket{device=\"a\",le=\"1.0\"} 3\n\
         test_took_seconds_bucket{device=\"a\",le=\"+Inf\"} 4\n\
         test_took_seconds_sum{device=\"a\"} 9.25\n\
         test_took_seconds_count{device=\"a\"} 4\n"
    );
}

#[test]
fn tiers_include_the_lower_ones_and_private_is_never_served() {
    let snapshot = snapshot(vec![full("a")]);
    for (tier, families) in [
        (Tier::Core, 2),
        (Tier::Detail, 4),
        (Tier::Debug, 5),
        (Tier::Private, 5),
    ] {
        let (text, _) = write(&mut Encoder::default(), &snapshot, tier);
        assert_eq!(read_page(&text).unwrap().order.len(), families);
    }
}

#[test]
fn what_is_absent_failed_or_old_is_not_there_and_the_last_reading_of_a_late_device_is() {
    let absent = device("a", |b| {
        b.push(&LEVEL, &["a"], Value::Absent);
        b.histogram(&TOOK, &["a"], None);
    });
    let mut failed = full("f");
    failed.error = Some(("io".to_owned(), "io".to_owned()));
    let mut old = full("o");
    old.at = AT - Duration::from_secs(36);
    let (text, _) = write(
        &mut Encoder::default(),
        &snapshot(vec![absent.clone(), failed, old]),
        Tier::Debug,
    );
    assert_eq!(text, "");
    let (text, _) = write(
        &mut Encoder::default(),
        &snapshot(vec![absent, late("l")]),
        Tier::Debug,
    );
    assert_eq!(
        read_page(&text).unwrap().value(LEVEL.name, &[("device", "l")]),
        Some("1")
    );
}

#[test]
fn of_two_devices_with_one_series_the_first_that_has_a_value_wins() {
    let one = |value| device("a", move |b| b.push(&LEVEL, &["a"], value));
    let mut encoder = Encoder::default();
    for (first, shown, duplicates) in [(Value::U64(1), "1", 1), (Value::Absent, "2", 0)] {
        let shot = snapshot(vec![one(first), one(Value::U64(2))]);
        let (text, dropped) = write(&mut encoder, &shot, Tier::Core);
        assert!(
            text.ends_with(&format!("test_level{{device=\"a\"}} {shown}\n")),
            "{text}"
        );
        assert_eq!(dropped.duplicates, duplicates);
        read_page(&text).unwrap();
        // Nothing of one scrape lasts into the next.
        assert_eq!(write(&mut encoder, &shot, Tier::Core).0, text);
    }
}

#[test]
fn a_repeated_histogram_is_shown_once_and_whole() {
    let (text, dropped) = write(
        &mut Encoder::default(),
        &snapshot(vec![full("a"), full("a"), full("a")]),
        Tier::Detail,
    );
    assert_eq!(read_page(&text).unwrap().families["test_took_seconds"].1.len(), 5);
    assert_eq!(dropped.duplicates, 2 * 8);
}

#[test]
fn a_plan_follows_the_layouts() {
    let mut encoder = Encoder::default();
    let mut shot = snapshot(vec![full("a"), full("b")]);
    let (first, _) = write(&mut encoder, &shot, Tier::Core);
    assert_eq!(write(&mut encoder, &shot, Tier::Core).0, first);
    let devices = &mut shot.collectors_mut().last().unwrap().devices;
    devices.remove(0);
    let (second, _) = write(&mut encoder, &shot, Tier::Core);
    assert!(!second.contains("device=\"a\"") && second.contains("device=\"b\""));
    let devices = &mut shot.collectors_mut().last().unwrap().devices;
    devices[0].values = Arc::new(vec![Value::U64(9), Value::U64(8)]);
    let (third, _) = write(&mut encoder, &shot, Tier::Core);
    assert!(third.contains("test_level{device=\"b\"} 9\n"));
}

#[test]
fn a_plan_follows_the_collectors() {
    let mut encoder = Encoder::default();
    let mut shot = snapshot(vec![full("a")]);
    let (first, _) = write(&mut encoder, &shot, Tier::Core);
    shot.collectors.remove(0);
    assert_eq!(write(&mut encoder, &shot, Tier::Core).0, first);
}

#[test]
fn a_plan_has_lines_of_what_a_scrape_has_asked_for() {
    let mut encoder = Encoder::default();
    let shot = snapshot(vec![full("a")]);
    for (tier, columns) in [(Tier::Core, 2), (Tier::Detail, 4), (Tier::Core, 4)] {
        let (text, _) = write(&mut encoder, &shot, tier);
        assert_eq!(text, write(&mut Encoder::default(), &shot, tier).0);
        let kept = &encoder.pages[METRICS];
        let plan = kept.plans.last().unwrap();
        let made = (0..9).filter(|slot| plan.column(*slot).is_some());
        assert_eq!(made.count(), columns, "{tier:?}");
    }
}

#[test]
fn a_page_shows_what_is_asked_for_after_another_request_or_configuration() {
    let shot = snapshot(vec![full("a")]);
    let named = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    let include = Arc::new(Defaults {
        include: named(&[FINE.name]),
        ..Defaults::default()
    });
    let exclude = Arc::new(Defaults {
        exclude: named(&[LEVEL.name]),
        ..Defaults::default()
    });
    let none = Arc::new(Defaults::default());
    let other = Filter::Only(named(&["other"]));
    let mut kept = Encoder::default();
    let mut sizes = Vec::new();
    for (filter, switches) in [
        (&other, &none),
        (&Filter::All, &none),
        (&Filter::All, &include),
        (&Filter::All, &exclude),
        (&Filter::All, &none),
    ] {
        let write = |encoder: &mut Encoder| {
            let shown = Shown {
                tier: Tier::Core,
                filter,
                switches,
            };
            let mut out = Vec::new();
            encoder.families(METRICS, &shot, switches, shown, Format::Text, &mut out);
            String::from_utf8(out).unwrap()
        };
        let text = write(&mut kept);
        assert_eq!(text, write(&mut Encoder::default()));
        sizes.push(read_page(&text).unwrap().order.len());
    }
    assert_eq!(sizes, [0, 2, 3, 1, 2]);
}

/// A device whose worker did not keep the limit.
fn unlimited(metric: &'static Metric, series: usize) -> DeviceState {
    let mut state = device("a", |_| {});
    let all =
        (0..series).flat_map(|n| collectors::Series::all(metric, Labels::default().of(&[n.to_string()])));
    state.layout = Arc::new(Prepared::new(all.collect()));
    state.values = Arc::new(vec![Value::U64(1); state.layout.series.len()]);
    state
}

#[test]
fn of_a_million_series_the_limit_is_served_and_the_rest_counted() {
    let (text, dropped) = write(
        &mut Encoder::default(),
        &snapshot(vec![unlimited(&LEVEL, 1_000_000)]),
        Tier::Core,
    );
    assert_eq!(text.lines().count(), MAX_SERIES + 2);
    assert_eq!(dropped.over_limit, 1_000_000 - MAX_SERIES as u64);
}

#[test]
fn the_limit_does_not_cut_a_histogram_in_two() {
    let mut devices = vec![unlimited(&LEVEL, MAX_SERIES - 7), unlimited(&TOOK, 2)];
    devices.push(unlimited(&FINE, 3));
    let (text, dropped) = write(&mut Encoder::default(), &snapshot(devices), Tier::Detail);
    assert_eq!(read_page(&text).unwrap().families["test_took_seconds"].1.len(), 5);
    assert_eq!(dropped.over_limit, 5 + 1);
}

#[test]
fn scaled_numbers_stay_whole_where_they_can() {
    let scaled = |value, scale| {
        let mut out = Vec::new();
        plan::write_scaled(value, (scale, false), &mut out);
        String::from_utf8(out).unwrap()
    };
    let big = (1 << 60) + 4;
    assert_eq!(scaled(Value::U64(big), 4.0), "4611686018427387920");
    assert_eq!(scaled(Value::U64(big), 0.25), "288230376151711745");
    assert_eq!(scaled(Value::U64(5), 1.0), "5");
    assert_eq!(scaled(Value::U64(5), 0.001), "0.005");
    assert_eq!(scaled(Value::F64(0.5), 100.0), "50");
    assert_eq!(scaled(Value::U64(u64::MAX), 8.0), "1.4757395258967641e20");
}

/// Values of different lengths, nearly equal ones, and none.
fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Absent),
        prop::sample::select(vec![0, 9, 10, 12_345, u64::MAX]).prop_map(Value::U64),
        prop::sample::select(vec![0.0, -0.0, 9.0, 0.1, 1e300, f64::NAN]).prop_map(Value::F64),
    ]
}

/// Two devices of one collector that have some series in common, and one of another collector.
fn readings() -> impl Strategy<Value = Vec<Vec<Value>>> {
    prop::collection::vec(prop::collection::vec(value(), 5), 3)
}

fn read(readings: &[Vec<Value>], layouts: &mut Vec<Arc<Prepared>>) -> Snapshot {
    let mut states = readings
        .iter()
        .zip(["a", "b", "a"])
        .enumerate()
        .map(|(number, (values, name))| {
            let mut state = device(name, |b| match number {
                2 => b.push(&ELSEWHERE, &[name], values[0]),
                _ => {
                    b.push(&LEVEL, &[name], values[0]);
                    b.push(&FINE, &["same"], values[1]);
                    b.push(&RECEIVED, &["x", "1", "0"], values[2]);
                    b.push(&SENT, &[name, "1", "0"], values[3]);
                    b.push(&SENT, &[name, "1", "1"], values[4]);
                }
            });
            // The plan is kept only while the layout is the same object.
            match layouts.get(number) {
                Some(layout) => state.layout = Arc::clone(layout),
                None => layouts.push(Arc::clone(&state.layout)),
            }
            state
        });
    let devices: Vec<DeviceState> = states.by_ref().take(2).collect();
    let mut shot = snapshot(devices);
    let first = shot.collectors.last().unwrap().clone();
    let other = CollectorState {
        spec: &MORE,
        devices: states.collect(),
        ..CollectorState::clone(&first)
    };
    shot.collectors.push(Arc::new(other));
    shot
}

proptest! {
    #[test]
    fn an_encoder_that_has_written_pages_writes_what_a_new_one_does(
        pages in prop::collection::vec((readings(), 0_usize..3, any::<bool>()), 1..8),
    ) {
        let (mut kept, mut layouts) = (Encoder::default(), Vec::new());
        for (readings, tier, is_text) in &pages {
            let shot = read(readings, &mut layouts);
            let tier = [Tier::Core, Tier::Detail, Tier::Debug][*tier];
            let format = if *is_text { Format::Text } else { Format::OpenMetrics };
            for page in [METRICS, "other"] {
                let now = page_families(&mut kept, page, &shot, tier, format);
                let new = page_families(&mut Encoder::default(), page, &shot, tier, format);
                prop_assert_eq!(now, new);
            }
        }
    }
}
