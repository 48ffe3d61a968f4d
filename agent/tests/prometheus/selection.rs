//! What a scraper and the configuration may choose, on the running daemon.

use std::fs;

use nix::sys::signal::Signal;

use crate::common::{Node, value};

#[test]
fn the_configuration_switches_metrics_and_a_reload_applies_it() {
    let mut node = Node::new();
    let file = node.path("own.toml");
    fs::write(&file, "[metrics]\nexclude = [\"nodewarden_mode_info\"]\n").unwrap();
    let name = file.to_str().unwrap().to_owned();
    node.arg(&["--config", &name]);
    node.start();
    assert!(!node.metrics_text().contains("nodewarden_mode_info"));
    let detail = node.try_get("/metrics?tier=detail").unwrap();
    let detail = detail.text().unwrap().to_owned();
    let core = node.metrics_text();
    let only_detail = detail
        .lines()
        .filter_map(|l| l.strip_prefix("# TYPE ")?.split(' ').next())
        .find(|name| !core.contains(&format!("# TYPE {name} ")))
        .expect("a metric of the tier detail");
    fs::write(&file, format!("[metrics]\ninclude = [{only_detail:?}]\n")).unwrap();
    node.daemon().signal(Signal::SIGHUP).unwrap();
    node.until("the reload", |n| {
        let text = n.metrics_text();
        text.contains("nodewarden_mode_info") && text.contains(&format!("# TYPE {only_detail} "))
    });
    fs::write(&file, "[metrics]\ninclude = [\"nothing\"]\n").unwrap();
    node.daemon().signal(Signal::SIGHUP).unwrap();
    node.until("the refusal", |n| {
        n.metric("nodewarden_config_error", &[]) == Some(1.0)
    });
    assert!(node.metrics_text().contains(&format!("# TYPE {only_detail} ")));
}

/// A memory controller with 6,000 DIMMs: more series than any collector may show.
#[test]
fn a_collector_with_too_many_series_is_cut_counted_and_served() {
    let mut node = Node::new();
    let controller = node.path("root/sys/devices/system/edac/mc/mc77");
    for n in 0..6000 {
        let dimm = controller.join(format!("dimm{n}"));
        fs::create_dir_all(&dimm).unwrap();
        for (file, text) in [
            ("dimm_label", format!("DIMM {n}\n")),
            ("size", "16384\n".to_owned()),
            ("dimm_ce_count", "1\n".to_owned()),
            ("dimm_ue_count", "0\n".to_owned()),
        ] {
            fs::write(dimm.join(file), text).unwrap();
        }
    }
    node.spawn();
    let limit = [("page", "metrics"), ("collector", "host"), ("reason", "limit")];
    node.until("series are left out", |n| {
        let samples = n.try_metrics().unwrap_or_default();
        value(&samples, "nodewarden_series_dropped", &limit).is_some_and(|left| left > 1000.0)
    });
    let page = node.try_get("/metrics?tier=debug&collect[]=host").unwrap();
    let samples = testkit::exposition::check(page.text().unwrap()).unwrap();
    let host = samples.iter().filter(|s| s.name.starts_with("host_")).count();
    assert!((10_000..=20_000).contains(&host), "{host}");
    assert_eq!(node.try_get("/-/healthy").unwrap().status, 200);
}

#[test]
fn a_request_that_is_not_understood_is_refused() {
    let mut node = Node::new();
    node.start();
    for (target, status) in [
        ("/metrics?tier=all", 400),
        ("/metrics?tier=private", 400),
        ("/metrics?collect%5B%5D=nothing", 400),
        ("/metrics?collect%5B%5D=host", 200),
        ("/metrics?exclude[]=host", 200),
        ("/metrics?colect[]=host", 400),
        ("/metrics/nothing", 404),
    ] {
        assert_eq!(node.try_get(target).unwrap().status, status, "{target}");
    }
}

#[test]
fn the_program_prints_what_the_daemon_serves() {
    let node = Node::new();
    let run = |args: &[&str]| {
        let mut command = std::process::Command::new(crate::common::program());
        command
            .arg("metrics")
            .args(args)
            .arg("--sysroot")
            .arg(node.path("root"));
        testkit::exec::run(command, b"", crate::common::LONG).unwrap()
    };
    let open = run(&["--only", "host", "--format", "openmetrics", "--tier", "debug"])
        .ok()
        .unwrap();
    testkit::python::check_openmetrics(&open.stdout).unwrap();
    let text = run(&["--exclude", "host"]).ok().unwrap();
    testkit::promtool::check_metrics(&text.stdout).unwrap();
    assert!(!text.stdout.contains("host_"));
    assert_ne!(run(&["--page", "nothing"]).code, Some(0));
    assert_ne!(run(&["--only", "nothing"]).code, Some(0));
}
