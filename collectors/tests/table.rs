//! The metric table against the naming rules of Prometheus and of this project, and against the fixtures.

#![allow(
    clippy::disallowed_methods,
    reason = "a test reads the project's own fixtures"
)]

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use collectors::{COLLECTORS, Kind, Metric, Tier, Unit, metrics};

const PREFIXES: [&str; 9] = [
    "host_",
    "gpu_",
    "rdma_",
    "lustre_",
    "gpfs_",
    "mount_",
    "nvme_",
    "slurm_",
    "nodewarden_",
];

const UNITS: [Unit; 7] = [
    Unit::Seconds,
    Unit::Bytes,
    Unit::Ratio,
    Unit::Celsius,
    Unit::Watts,
    Unit::Joules,
    Unit::Hertz,
];

/// Labels that a scrape configuration puts on every target (a metric's own would be renamed `exported_...`), words
/// that the exposition format keeps for itself, and `type`, which says nothing beside a metric's name.
const TAKEN: [&str; 10] = [
    "instance", "job", "cluster", "zone", "env", "service", "owner", "type", "le", "quantile",
];

fn is_snake_case(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !name.contains("__")
        && !name.ends_with('_')
}

/// What breaks the rules in one row, in words.
fn faults(metric: &Metric) -> Vec<String> {
    let Metric { name, help, .. } = *metric;
    let mut faults = Vec::new();
    let mut rule = |holds: bool, words: String| {
        if !holds {
            faults.push(format!("{name}: {words}"));
        }
    };
    rule(is_snake_case(name), "the name is not snake_case".into());
    rule(
        PREFIXES.iter().any(|p| name.starts_with(p)),
        "the name has no known prefix".into(),
    );
    rule(
        (metric.kind == Kind::Counter) == name.ends_with("_total"),
        "counters end in _total, and only counters".into(),
    );
    rule(
        (metric.kind == Kind::Info) == name.ends_with("_info"),
        "info metrics end in _info, and only they".into(),
    );
    let reserved = ["_bucket", "_sum", "_count", "_created"];
    rule(
        !reserved.iter().any(|r| name.ends_with(r)),
        "the name ends as a part of a histogram does".into(),
    );
    let types = ["_histogram", "_summary"];
    rule(
        metric.tier != Tier::Core || !types.iter().any(|word| name.contains(word)),
        "`promtool check metrics` refuses a name with a type in it".into(),
    );
    let stem = name.trim_end_matches("_total");
    for unit in UNITS {
        let suffix = format!("_{}", unit.suffix());
        rule(
            (metric.unit == unit) == stem.ends_with(&suffix),
            format!(
                "the suffix {suffix} and the unit {:?} do not go together",
                metric.unit
            ),
        );
    }
    rule(
        metric.kind != Kind::Info || metric.unit == Unit::None,
        "an info metric has no unit".into(),
    );
    rule(
        help.ends_with('.') && !help.ends_with("..") && !help.contains(". ") && !help.contains('\n'),
        "the help is not one sentence with one full stop".into(),
    );
    rule(
        help.starts_with(|c: char| c.is_uppercase()) && help.trim() == help && help.len() > 10,
        "the help does not read as a sentence".into(),
    );
    rule(!metric.source.is_empty(), "the source is not stated".into());
    for (at, label) in metric.labels.iter().enumerate() {
        rule(is_snake_case(label), format!("label {label} is not snake_case"));
        rule(!TAKEN.contains(label), format!("label {label} is taken"));
        rule(
            !metric.labels[..at].contains(label),
            format!("label {label} twice"),
        );
    }
    faults
}

#[test]
fn every_metric_follows_the_naming_rules() {
    let found: Vec<String> = metrics().flat_map(faults).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn the_rules_catch_what_they_are_for() {
    const GOOD: Metric = Metric {
        name: "host_read_bytes_total",
        kind: Kind::Counter,
        unit: Unit::Bytes,
        labels: &["pci"],
        help: "Bytes that were read.",
        tier: Tier::Core,
        source: "a file",
        aliases: &[],
    };
    assert!(faults(&GOOD).is_empty());
    for (bad, word) in [
        (
            Metric {
                name: "host_readBytes_bytes_total",
                ..GOOD
            },
            "snake_case",
        ),
        (
            Metric {
                name: "node_read_bytes_total",
                ..GOOD
            },
            "prefix",
        ),
        (
            Metric {
                name: "host_read_count",
                ..GOOD
            },
            "histogram",
        ),
        (
            Metric {
                name: "host_summary_bytes_total",
                ..GOOD
            },
            "promtool",
        ),
        (
            Metric {
                name: "host_read_bytes",
                ..GOOD
            },
            "_total",
        ),
        (
            Metric {
                kind: Kind::Gauge,
                ..GOOD
            },
            "_total",
        ),
        (
            Metric {
                kind: Kind::Info,
                ..GOOD
            },
            "_info",
        ),
        (
            Metric {
                name: "host_read_total",
                ..GOOD
            },
            "_bytes",
        ),
        (
            Metric {
                unit: Unit::None,
                ..GOOD
            },
            "_bytes",
        ),
        (
            Metric {
                help: "Bytes that were read",
                ..GOOD
            },
            "full stop",
        ),
        (
            Metric {
                help: "Bytes that were read..",
                ..GOOD
            },
            "full stop",
        ),
        (
            Metric {
                help: "Bytes. That were read.",
                ..GOOD
            },
            "full stop",
        ),
        (
            Metric {
                help: "bytes that were read.",
                ..GOOD
            },
            "sentence",
        ),
        (Metric { source: "", ..GOOD }, "source"),
        (
            Metric {
                labels: &["instance"],
                ..GOOD
            },
            "taken",
        ),
        (
            Metric {
                labels: &["le"],
                ..GOOD
            },
            "taken",
        ),
        (
            Metric {
                labels: &["pci", "pci"],
                ..GOOD
            },
            "twice",
        ),
    ] {
        let found = faults(&bad);
        assert!(found.iter().any(|f| f.contains(word)), "{word}: {found:?}");
    }
}

#[test]
fn no_two_metrics_share_a_name_or_a_help() {
    let mut names = HashMap::new();
    let mut helps = HashMap::new();
    for metric in metrics() {
        assert_eq!(names.insert(metric.name, ()), None, "{}", metric.name);
        if let Some(other) = helps.insert(metric.help, metric.name) {
            panic!("{} and {other} have the same help", metric.name);
        }
    }
}

#[test]
fn no_two_collectors_share_a_name() {
    for (at, spec) in COLLECTORS.iter().enumerate() {
        assert!(is_snake_case(spec.name), "{}", spec.name);
        assert!(
            COLLECTORS[..at].iter().all(|s| s.name != spec.name),
            "{}",
            spec.name
        );
    }
}

#[test]
fn every_metric_occurs_in_a_fixture() {
    let mut seen = String::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    for collector in fs::read_dir(fixtures).unwrap() {
        let cases = fs::read_dir(collector.unwrap().path());
        for case in cases.into_iter().flatten() {
            seen += &fs::read_to_string(case.unwrap().path().join("expected.prom")).unwrap_or_default();
        }
    }
    let missing: Vec<&str> = metrics()
        .filter(|m| m.tier != Tier::Private)
        .map(|m| m.name)
        .filter(|name| !seen.contains(&format!("\n# TYPE {name} ")))
        .collect();
    assert!(missing.is_empty(), "in no expected.prom: {missing:?}");
}
