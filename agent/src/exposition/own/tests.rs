use super::*;
use crate::exposition::parse::parse;
use crate::exposition::text::Encoder;
use crate::exposition::{Page, sample};

fn text(page: &Page) -> String {
    let mut out = String::new();
    Encoder::default().page(page, Tier::Core, &mut out);
    out
}

#[test]
fn a_whole_page_is_strictly_well_formed() {
    let text = text(&sample::page());
    let page = parse(&text).unwrap();
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
    let state = [("collector", "test"), ("state", "late"), ("reason", "deadline")];
    assert_eq!(page.value("nodewarden_collector_state_info", &state), Some("1"));
    assert_eq!(page.families["nodewarden_incident_info"].1.len(), 1);
    assert_eq!(
        page.value("nodewarden_start_timestamp_seconds", &[]),
        Some("1700000000.5")
    );
}

#[test]
fn zeros_are_not_invented() {
    let mut page = sample::page();
    page.view = Arc::new(View {
        ledger: Ledger::default(),
        incidents: Vec::new(),
        ..sample::view()
    });
    let text = parse(&text(&page)).unwrap();
    for name in [
        "gpu_xid_errors_total",
        "gpu_fallen_off_bus_total",
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
    parse(&text(&page)).unwrap();
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
