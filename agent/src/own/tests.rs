use std::time::Duration;

mod hidden;
mod pages;

use super::*;
use exposition::{Encoder, Format, Selection};
use model::commands::{CommandResult, CommandRun, CommandState};
use model::snapshot::{DeviceState, Lease};
use testkit::exposition::read_page;

fn page_of(page: &Page, live: Option<&Live>, format: Format) -> String {
    let mut out = Vec::new();
    let mut encoder = Encoder::default();
    let selection = Selection::default();
    match live {
        Some(live) => encoder.page(None, &Served(page, live), &selection, format, &mut out),
        None => encoder.page(None, page, &selection, format, &mut out),
    }
    String::from_utf8(out).unwrap()
}

fn text(page: &Page) -> String {
    page_of(page, None, Format::Text)
}

#[test]
fn a_whole_page_is_strictly_well_formed() {
    let text = text(&sample::page());
    let page = read_page(&text).unwrap();
    assert_eq!(
        page.value("gpu_xid_errors_total", &[("gpu", "GPU-1"), ("xid", "79")]),
        Some("2")
    );
    assert_eq!(
        page.value("nodewarden_verdict", &[("verdict", "unhealthy")]),
        Some("1")
    );
    assert_eq!(
        page.value("nodewarden_verdict", &[("verdict", "healthy")]),
        Some("0")
    );
    assert_eq!(
        page.value("nodewarden_drain_state", &[("state", "none")]),
        Some("1")
    );
    assert_eq!(
        page.value("nodewarden_collector_up", &[("collector", "test")]),
        Some("0")
    );
    assert_eq!(
        page.value("nodewarden_collector_up", &[("collector", "host")]),
        None
    );
    let late = [
        ("collector", "test"),
        ("subject_kind", "pci"),
        ("subject", "c"),
        ("state", "D"),
        ("wchan", "nv_wait"),
    ];
    assert_eq!(page.value("nodewarden_device_late_seconds", &late), Some("10"));
    for (device, up) in [("a", "1"), ("c", "0")] {
        let labels = [
            ("collector", "test"),
            ("subject_kind", "pci"),
            ("subject", device),
        ];
        assert_eq!(page.value("nodewarden_device_up", &labels), Some(up), "{device}");
        assert!(page.value("nodewarden_device_age_seconds", &labels).is_some());
    }
    let state = [("collector", "test"), ("state", "late"), ("reason", "deadline")];
    assert_eq!(page.value("nodewarden_collector_state_info", &state), Some("1"));
    assert_eq!(page.families["nodewarden_incident_info"].1.len(), 1);
    assert_eq!(
        page.value("nodewarden_start_timestamp_seconds", &[]),
        Some("1700000000.5")
    );
}

/// `nodewarden_would_drain_total` of a check of the site begins with 0, as that of every other check.
#[test]
fn each_command_of_the_site_has_its_last_result_and_its_counts() {
    let mut page = sample::page();
    let mut snapshot = Snapshot::clone(&page.snapshot);
    let state = |name: &str, age, result| {
        let mut state = CommandState::new(format!("site-{name}"), Duration::from_secs(180));
        state.ended(CommandRun {
            at: snapshot.at - Duration::from_secs(age),
            took: Duration::from_millis(1500),
            result,
            why: String::new(),
            line: "secret".to_owned(),
        });
        state
    };
    snapshot.commands = [
        state("good", 10, CommandResult::Healthy),
        state("bad", 20, CommandResult::Unhealthy),
        state("slow", 30, CommandResult::TimedOut),
        state("old", 181, CommandResult::Unhealthy),
        CommandState::new("site-new".to_owned(), Duration::from_secs(180)),
    ]
    .into();
    page.snapshot = Arc::new(snapshot);
    let text = text(&page);
    assert!(!text.contains("secret"));
    let text = read_page(&text).unwrap();
    let of = |metric, name: &str| text.value(metric, &[("check", &format!("site-{name}"))]);
    for (name, healthy, age) in [
        ("good", Some("1"), Some("10")),
        ("bad", Some("0"), Some("20")),
        ("slow", None, Some("30")),
        ("old", None, Some("181")),
        ("new", None, None),
    ] {
        assert_eq!(of("nodewarden_command_healthy", name), healthy, "{name}");
        assert_eq!(of("nodewarden_command_age_seconds", name), age, "{name}");
        let took = of("nodewarden_command_duration_seconds", name);
        assert_eq!(took, age.map(|_| "1.5"), "{name}");
        assert_eq!(of("nodewarden_would_drain_total", name), Some("0"), "{name}");
        let runs = [("check", &*format!("site-{name}")), ("result", "timed_out")];
        let count = if name == "slow" { "1" } else { "0" };
        assert_eq!(
            text.value("nodewarden_command_runs_total", &runs),
            Some(count),
            "{name}"
        );
    }
    assert_eq!(
        text.value("nodewarden_drains_total", &[("check", "custom-check")]),
        None
    );
}

#[test]
fn zeros_are_not_invented() {
    let mut page = sample::page();
    page.view = Arc::new(View {
        ledger: Ledger::default(),
        incidents: Vec::new(),
        affinity: Vec::new(),
        ..sample::view()
    });
    let text = read_page(&text(&page)).unwrap();
    for name in [
        "gpu_xid_errors_total",
        "gpu_fallen_off_bus_total",
        "rdma_events_total",
        "gpu_rdma_affinity_info",
        "nodewarden_incident_info",
    ] {
        assert!(!text.families.contains_key(name), "{name}");
    }
    assert_eq!(text.value("nodewarden_incidents_open", &[]), Some("0"));
}

#[test]
fn what_the_engine_says_twice_is_shown_once() {
    let mut page = sample::page();
    let mut view = sample::view();
    view.incidents.push(view.incidents[0].clone());
    view.would_drain.push(view.would_drain[0].clone());
    page.view = Arc::new(view);
    read_page(&text(&page)).unwrap();
}

#[test]
fn the_table_keeps_the_rules_of_names() {
    for metric in METRICS {
        let stem = metric.name.strip_suffix("_total").unwrap_or(metric.name);
        assert!(stem.ends_with(metric.unit.suffix()), "{}", metric.name);
        assert!(metric.help.ends_with('.'), "{}", metric.name);
        let info = metric.kind == collectors::Kind::Info;
        assert_eq!(metric.name.ends_with("_info"), info, "{}", metric.name);
    }
}

#[test]
fn live_metrics_are_shown_in_both_formats() {
    let live = Live::new().unwrap();
    live.answered("metrics", 200, Duration::from_millis(3), 1000);
    live.answered("metrics", 200, Duration::from_secs(60), 500);
    live.answered("node_exporter", 400, Duration::ZERO, 10);
    live.late();
    let both = [Format::Text, Format::OpenMetrics].map(|f| page_of(&sample::page(), Some(&live), f));
    read_page(&both[0]).unwrap();
    testkit::openmetrics::check(&both[1]).unwrap();
    for text in both {
        for line in [
            "nodewarden_scrapes_total{page=\"metrics\",code=\"200\"} 2\n",
            "nodewarden_scrapes_total{page=\"node_exporter\",code=\"400\"} 1\n",
            "nodewarden_scrape_bytes_total{page=\"metrics\"} 1500\n",
            "nodewarden_scrape_duration_seconds_bucket{page=\"metrics\",le=\"0.0025\"} 0\n",
            "nodewarden_scrape_duration_seconds_bucket{page=\"metrics\",le=\"0.005\"} 1\n",
            "nodewarden_scrape_duration_seconds_bucket{page=\"metrics\",le=\"10.0\"} 1\n",
            "nodewarden_scrape_duration_seconds_bucket{page=\"metrics\",le=\"+Inf\"} 2\n",
            "nodewarden_scrape_duration_seconds_sum{page=\"metrics\"} 60.003\n",
            "nodewarden_scrape_duration_seconds_count{page=\"metrics\"} 2\n",
            "nodewarden_late_scrapes_total 1\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }
}

#[test]
fn in_openmetrics_no_two_families_have_one_name() {
    let mut names = std::collections::HashSet::new();
    for metric in all_metrics() {
        let (name, _) = exposition::header::Family::from(metric).openmetrics();
        assert!(names.insert(name), "{name}");
    }
}

/// The alert NodewardenCollectorDown asks for this value.
#[test]
fn a_collector_whose_worker_cannot_run_is_down_unless_its_driver_is_released() {
    let up_with = |down: Option<&'static str>, lease: Option<Lease>| {
        let mut snapshot = sample::snapshot(Vec::new());
        let mut workers = snapshot.workers.iter_mut();
        let worker = workers.find(|w| w.domain == "host").unwrap();
        (worker.down, worker.lease) = (down, lease);
        let page = Page {
            snapshot: Arc::new(snapshot),
            ..sample::page()
        };
        let page = read_page(&text(&page)).unwrap();
        let up = page.value("nodewarden_collector_up", &[("collector", "host")]);
        up.map(str::to_owned)
    };
    assert_eq!(up_with(None, None), None, "its worker has not reported");
    for why in ["backoff", "stuck", "start"] {
        assert_eq!(up_with(Some(why), None).as_deref(), Some("0"), "{why}");
    }
    let lease = Lease {
        by: "root".to_owned(),
        until: None,
    };
    assert_eq!(up_with(Some("released"), Some(lease)), None);
}

/// A collector that reads every 30 s waits for 30 s.
#[test]
fn a_collector_that_was_not_read_yet_is_unknown_and_says_that_it_waits() {
    let state_of = |device: DeviceState| {
        let snapshot = sample::snapshot(vec![device]);
        let collector = snapshot.collectors.last().unwrap();
        (collector.up(snapshot.at), state(collector, &snapshot))
    };
    let waits = ("unknown", "first_reading".to_owned());
    let device = sample::device("a", |_| {});
    let new = DeviceState {
        at: Duration::ZERO,
        ..device.clone()
    };
    assert_eq!(state_of(new.clone()), (None, waits));
    assert_eq!(state_of(device), (Some(true), ("ok", String::new())));
    let refused = DeviceState {
        error: Some(("io".to_owned(), "refused".to_owned())),
        ..new
    };
    assert_eq!(state_of(refused), (Some(false), ("failed", "io".to_owned())));
}
