//! Selections of our own page, and pages with another exporter's names.

use std::sync::Arc;

use collectors::block::MAX_SERIES;
use collectors::gpu::metrics::DCGM_INFO;
use collectors::inline::Pairs;
use collectors::{Alias, COLLECTORS, Joined, Kind, Metric, Spec, Tier, Value};
use exposition::encoder::METRICS;
use exposition::{Defaults, Dropped, Encoder, Format, Selection};
use model::snapshot::{CollectorState, DeviceState, Presence, Snapshot};
use testkit::exposition::read_page;

use crate::own::sample::{self, ELSEWHERE, LEVEL, MORE, RECEIVED, SENT, device, full, snapshot};
use crate::own::{OwnFacts, Page};

fn page_of(devices: Vec<DeviceState>) -> Page {
    Page {
        snapshot: Arc::new(snapshot(devices)),
        ..sample::page()
    }
}

fn text(page: &Page, query: &str) -> String {
    let known: Vec<&str> = page.snapshot.collectors.iter().map(|c| c.spec.name).collect();
    let selection = Selection::parse(query, &known).unwrap();
    let mut out = Vec::new();
    Encoder::default().page(None, page, &selection, Format::Text, &mut out);
    String::from_utf8(out).unwrap()
}

fn other(page: &Page, query: &str, format: Format) -> (String, Vec<Dropped>) {
    let known: Vec<&str> = page.snapshot.collectors.iter().map(|c| c.spec.name).collect();
    let selection = Selection::parse(query, &known).unwrap();
    let (mut encoder, mut out) = (Encoder::default(), Vec::new());
    encoder.page(Some("other"), page, &selection, format, &mut out);
    let dropped = encoder.dropped()[0].1.to_vec();
    (String::from_utf8(out).unwrap(), dropped)
}

#[test]
fn collect_shows_the_named_collectors_and_what_is_known_of_them() {
    let page = page_of(vec![full("a")]);
    let only = read_page(&text(&page, "collect[]=test")).unwrap();
    assert!(only.families.contains_key("test_level"));
    let up = &only.families["nodewarden_collector_up"].1;
    assert_eq!(up.len(), 1, "{up:?}");
    for gone in [
        "nodewarden_verdict",
        "gpu_xid_errors_total",
        "nodewarden_worker_up",
        "nodewarden_build_info",
    ] {
        assert!(!only.families.contains_key(gone), "{gone}");
    }
    let both = read_page(&text(&page, "collect[]=test&collect[]=nodewarden")).unwrap();
    assert!(both.families.contains_key("test_level") && both.families.contains_key("nodewarden_verdict"));
}

#[test]
fn exclude_leaves_out_the_named_ones_and_what_is_known_of_them() {
    let page = page_of(vec![full("a")]);
    let less = text(&page, "exclude[]=test");
    assert!(
        !less.contains("test_level") && !less.contains("collector=\"test\""),
        "{less}"
    );
    assert!(less.contains("nodewarden_verdict") && less.contains("collector=\"host\""));
    let less = text(&page, "exclude[]=nodewarden");
    assert!(less.contains("test_level") && !less.contains("nodewarden_verdict"));
}

#[test]
fn collect_and_exclude_together_show_every_series_of_the_whole_page_once() {
    let page = page_of(vec![full("a")]);
    let lines = |query: &str| -> Vec<String> {
        let text = text(&page, query);
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.retain(|l| !l.starts_with('#'));
        lines.sort();
        lines
    };
    let mut parts = lines("collect[]=test");
    parts.extend(lines("exclude[]=test"));
    parts.sort();
    assert_eq!(parts, lines(""));
}

#[test]
fn the_configuration_is_applied_as_soon_as_a_page_has_it() {
    let mut page = page_of(vec![full("a")]);
    let mut encoder = Encoder::default();
    let mut families = |page: &Page, selection: &Selection| {
        let mut out = Vec::new();
        encoder.page(None, page, selection, Format::Text, &mut out);
        let mut order = read_page(&String::from_utf8(out).unwrap()).unwrap().order;
        order.retain(|f| f.starts_with("test_") || f == "nodewarden_verdict");
        order
    };
    let by_default = Selection::default();
    assert_eq!(
        families(&page, &by_default),
        ["test_errors_total", "test_level", "nodewarden_verdict"]
    );
    let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
    page.facts.metrics = Arc::new(Defaults {
        labels: Vec::new(),
        tier: Tier::Detail,
        include: names(&["test_deep", "test_hidden"]),
        exclude: names(&["test_level", "nodewarden_verdict"]),
    });
    assert_eq!(
        families(&page, &by_default),
        ["test_errors_total", "test_fine", "test_deep", "test_took_seconds"]
    );
    let core = Selection {
        tier: Some(Tier::Core),
        ..Selection::default()
    };
    assert_eq!(families(&page, &core), ["test_errors_total", "test_deep"]);
    page.facts.metrics = OwnFacts::default().metrics;
    assert_eq!(families(&page, &by_default).len(), 3);
}

/// Two ports; on the first, two queues that the other exporter does not distinguish.
fn traffic() -> DeviceState {
    device("m0", |b| {
        b.u64(&RECEIVED, &["m0", "1", "q0"], 10);
        b.u64(&SENT, &["m0", "1", "q0"], 8);
        b.u64(&SENT, &["m0", "1", "q1"], 99);
        b.u64(&SENT, &["m0", "2", "q0"], 9);
    })
}

#[test]
fn metrics_of_one_name_share_a_header_and_the_first_of_two_that_become_alike_wins() {
    let (text, dropped) = other(&page_of(vec![traffic()]), "", Format::Text);
    assert_eq!(
        text,
        "# HELP other_bytes_total A \\\\ in help.\n# TYPE other_bytes_total counter\n\
         other_bytes_total{port=\"1\",hca=\"m0\",rx=\"\"} 40\n\
         other_bytes_total{port=\"1\",hca=\"m0\"} 2\n\
         other_bytes_total{port=\"2\",hca=\"m0\"} 2.25\n\
         # HELP OTHER_SENT A \\\\ in help.\n# TYPE OTHER_SENT counter\n\
         OTHER_SENT 0.8\n"
    );
    assert_eq!(dropped.last().unwrap().duplicates, 1 + 2);
}

#[test]
fn in_openmetrics_a_counter_that_is_not_named_like_one_keeps_its_name() {
    let (text, _) = other(&page_of(vec![traffic()]), "", Format::OpenMetrics);
    testkit::openmetrics::check(&text).unwrap();
    assert!(text.contains("# TYPE other_bytes counter\n"), "{text}");
    assert!(
        text.contains("# TYPE OTHER_SENT unknown\n") && text.contains("\nOTHER_SENT 0.8\n"),
        "{text}"
    );
}

#[test]
fn a_page_of_other_names_holds_every_tier_and_nothing_of_ours_unless_asked() {
    let page = page_of(vec![full("a"), traffic()]);
    let (text, _) = other(&page, "", Format::Text);
    assert!(!text.contains("nodewarden_") && !text.contains("test_"), "{text}");
    let (core, _) = other(&page, "tier=core", Format::Text);
    assert_eq!(core.lines().count(), 3, "{core}");
    let (none, _) = other(&page, "exclude[]=test", Format::Text);
    assert_eq!(none, "");
}

#[test]
fn two_collectors_fill_one_family_of_another_exporter() {
    let mut shot = snapshot(vec![traffic()]);
    let more = |name: &'static str| device(name, move |b| b.u64(&ELSEWHERE, &[name], 7));
    let first = shot.collectors.last().unwrap().clone();
    shot.collectors.push(Arc::new(CollectorState {
        spec: &MORE,
        devices: vec![more("x"), more("y"), more("x")],
        ..CollectorState::clone(&first)
    }));
    let page = Page {
        snapshot: Arc::new(shot),
        ..sample::page()
    };
    let (text, dropped) = other(&page, "", Format::OpenMetrics);
    testkit::openmetrics::check(&text).unwrap();
    assert_eq!(text.matches("# TYPE other_bytes counter\n").count(), 1);
    assert!(
        text.contains("other_bytes_total{hca=\"x\"} 7\nother_bytes_total{hca=\"y\"} 7\n"),
        "{text}"
    );
    assert_eq!(dropped.last().unwrap().duplicates, 1);
    let (less, _) = other(&page, "collect[]=more", Format::Text);
    assert_eq!(less.lines().count(), 4, "{less}");
}

/// A ratio that the other exporter reports in whole per cent, for busy devices only.
static BUSY: Metric = Metric {
    name: "test_busy",
    labels: &["gpu", "gpu_instance", "kind"],
    aliases: &[Alias {
        scale: 100.0,
        whole: true,
        only: Pairs::new(&[("kind", "all")]),
        join: Some(Joined::Dcgm),
        fixed: Pairs::new(&[("u", "pct")]),
        ..Alias::new("other", "OTHER_BUSY", Kind::Gauge, &[("d", "gpu")])
    }],
    ..LEVEL
};

static JOINED: Spec = Spec {
    name: "joined",
    metrics: &[&DCGM_INFO, &BUSY],
    ..sample::SPEC
};

#[test]
fn labels_of_another_series_of_the_device_are_joined_and_only_what_is_asked_for_is_shown() {
    let device = |name: &str, place: Option<&str>| {
        device(name, |b| {
            b.push(&BUSY, &[name, "", "all"], Value::F64(0.29));
            b.push(&BUSY, &[name, "", "half"], Value::F64(0.5));
            if let Some(place) = place {
                b.info(&DCGM_INFO, &[name, "", place, "", "", "", "", "", "", ""]);
            }
        })
    };
    let mut page = page_of(vec![device("a", Some("3")), device("b", None)]);
    let mut shot = Snapshot::clone(&page.snapshot);
    shot.collectors_mut().last().unwrap().spec = &JOINED;
    page.snapshot = Arc::new(shot);
    let (text, _) = other(&page, "", Format::Text);
    let samples: Vec<&str> = text.lines().filter(|l| !l.starts_with('#')).collect();
    // The other exporter does not have the device b.
    assert_eq!(samples, ["OTHER_BUSY{gpu=\"3\",UUID=\"a\",d=\"a\",u=\"pct\"} 29"]);
    assert!(!self::text(&page, "").contains("gpu_dcgm_info"), "it is private");
}

#[test]
fn the_pages_are_those_that_some_metric_names() {
    let shot = snapshot(Vec::new());
    assert!(Encoder::pages(&shot).contains(&"other"));
    let aliases = COLLECTORS.iter().flat_map(|c| c.metrics).flat_map(|m| m.aliases);
    for alias in aliases {
        let word = |w: &str| w.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        assert!(word(&alias.page) && &*alias.page != METRICS, "{}", alias.page);
        assert!(word(&alias.name), "{}", alias.name);
    }
}

#[test]
fn both_formats_show_the_same_samples() {
    let page = sample::page();
    let [text, open] = [Format::Text, Format::OpenMetrics].map(|format| {
        let mut out = Vec::new();
        let selection = Selection {
            tier: Some(Tier::Debug),
            ..Selection::default()
        };
        Encoder::default().page(None, &page, &selection, format, &mut out);
        String::from_utf8(out).unwrap()
    });
    read_page(&text).unwrap();
    testkit::openmetrics::check(&open).unwrap();
    let samples = |page: &str| -> Vec<String> {
        let lines = page.lines().filter(|l| !l.starts_with('#'));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(samples(&text), samples(&open));
    assert!(open.ends_with("\n# EOF\n") && !text.contains("EOF"));
}

#[test]
fn what_the_worker_refused_is_counted_too() {
    let names: Vec<String> = (0..1_000_000).map(|n| n.to_string()).collect();
    let many = device("a", |b| names.iter().for_each(|name| b.u64(&LEVEL, &[name], 1)));
    assert_eq!(many.values.len(), MAX_SERIES);
    let mut out = Vec::new();
    let page = Page {
        snapshot: Arc::new(snapshot(vec![many])),
        ..sample::page()
    };
    Encoder::default().page(None, &page, &Selection::default(), Format::Text, &mut out);
    let text = String::from_utf8(out).unwrap();
    let left = "nodewarden_series_dropped{page=\"metrics\",collector=\"test\",reason=\"limit\"} 980000\n";
    assert!(text.contains(left));
}

/// The page of node_exporter whose collector `rdma` is in this state.
fn scrape(presence: Presence, devices: Vec<DeviceState>, query: &str) -> String {
    let mut snapshot = Snapshot::empty(sample::page().snapshot.at);
    let rdma = snapshot.collector_mut("rdma").unwrap();
    (rdma.presence, rdma.devices) = (presence, devices);
    let page = Page {
        snapshot: Arc::new(snapshot),
        ..sample::page()
    };
    let known: Vec<&str> = page.snapshot.collectors.iter().map(|c| c.spec.name).collect();
    let selection = Selection::parse(query, &known).unwrap();
    let mut out = Vec::new();
    Encoder::default().page(Some("node_exporter"), &page, &selection, Format::Text, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn the_page_of_node_exporter_says_whether_its_collector_succeeded() {
    let good = || device("a", |b| b.u64(&LEVEL, &["a"], 7));
    let bad = || DeviceState {
        error: Some(("gone".to_owned(), String::new())),
        ..device("b", |_| {})
    };
    let failed = || Presence::Failed("denied".to_owned(), String::new());
    for (presence, devices, success) in [
        (Presence::Open, vec![good()], Some("1")),
        (Presence::Open, vec![good(), bad()], Some("1")),
        (Presence::Open, vec![bad()], Some("0")),
        (Presence::NotHere, vec![], Some("0")),
        (failed(), vec![], Some("0")),
        (Presence::Unknown, vec![], None),
    ] {
        let has_devices = !devices.is_empty();
        let text = scrape(presence.clone(), devices, "");
        let page = read_page(&text).unwrap();
        let of = |name| page.value(name, &[("collector", "infiniband")]);
        assert_eq!(of("node_scrape_collector_success"), success, "{presence:?}");
        let duration = of("node_scrape_collector_duration_seconds");
        assert_eq!(duration.is_some(), has_devices, "{presence:?}: nothing was read");
    }
    let other = scrape(Presence::Open, vec![good()], "exclude[]=rdma");
    assert_eq!(other, "");
}
