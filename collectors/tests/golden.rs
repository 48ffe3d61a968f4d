//! Every fixture of every collector, read as the daemon's workers read it and compared with its `expected.prom`.
//!
//! A fixture is `fixtures/<collector>/<case>/`: `root.tree` in place of `/`, optionally `steps/<n>.tree` laid over
//! it before further readings, `expected.prom`, and `SOURCE`, which states whether it was captured or synthesised
//! and from what. `UPDATE_GOLDEN=1 cargo test --test golden` updates the expectations; read the difference before
//! committing it.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test reads and writes its own fixtures, and its helpers may panic too"
)]

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use collectors::runner::{Reading, Runner};
use collectors::{Block, Env, Kind, Part, Series, Spec, Tier, Value};
use testkit::nvml::FakeNvml;
use testkit::tree;

/// Folders of fixtures/ that belong to no collector: fuzz corpora, Slurm's answers, nodes of the demo, the kernel's strings, the
/// table of broken sources.
const NOT_COLLECTORS: [&str; 6] = ["demo", "fleet", "fuzz", "kernel_strings", "matrix", "scontrol"];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures")
}

fn collector_folders() -> Vec<PathBuf> {
    folders(&fixtures())
        .into_iter()
        .filter(|f| !NOT_COLLECTORS.contains(&file_name(f).as_str()))
        .collect()
}

#[test]
fn every_fixture_reads_as_expected() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = Vec::new();
    let mut cases = 0;
    for folder in collector_folders() {
        let name = file_name(&folder);
        let spec = collectors::collector(&name).unwrap_or_else(|| panic!("{name}: no such collector"));
        for case in folders(&folder) {
            cases += 1;
            let found = read_case(spec, &case);
            let expected_file = case.join("expected.prom");
            let expected = fs::read_to_string(&expected_file).unwrap_or_default();
            if found == expected {
                continue;
            }
            if update {
                fs::write(&expected_file, &found).unwrap();
            } else {
                wrong.push(format!(
                    "{name}/{}:\n{}",
                    file_name(&case),
                    difference(&expected, &found)
                ));
            }
        }
    }
    assert!(cases > 0, "no fixtures found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_fixture_says_where_it_comes_from() {
    for collector in collector_folders() {
        for case in folders(&collector) {
            let source = fs::read_to_string(case.join("SOURCE")).unwrap_or_default();
            assert!(
                source.starts_with("synthesised") || source.starts_with("captured"),
                "{}: SOURCE begins with `synthesised` or `captured`",
                case.display()
            );
            assert!(
                source.trim().len() > 30,
                "{}: SOURCE says from what",
                case.display()
            );
        }
    }
}

/// Reads a case, and again after each step is laid over its tree. A case with a driver is read once more after a
/// step of the driver, in which its sampling windows end; then only the changed lines are written.
fn read_case(spec: &'static Spec, case: &Path) -> String {
    let copy = tempfile::tempdir().unwrap();
    let dir = copy.path();
    tree::unpack(case, dir).unwrap();
    let driver = case.join("nvml.toml");
    let driver = driver.exists().then(|| FakeNvml::install(dir, &driver).unwrap());
    let table = fs::read_to_string(case.join("settings.toml")).unwrap_or_default();
    let table = driver.as_ref().map_or(table, |driver| {
        format!("library = {:?}\nprocesses = true\n", driver.library())
    });
    let settings = spec.settings(&table).unwrap();
    let mut source = match (spec.open)(&Env::recorded(dir), &settings) {
        Ok(Some(source)) => source,
        Ok(None) => return String::new(),
        Err(error) => return format!("# error {}: {error}\n", error.reason()),
    };
    let mut runner = Runner::new(spec, &mut source).unwrap();
    let mut text = read(&mut runner);
    for step in tree::steps(case).unwrap() {
        tree::lay_step(&step, dir).unwrap();
        if step.with_extension("netlink").exists() {
            std::thread::sleep(LIFESPAN);
        }
        let number = step.file_stem().unwrap().to_str().unwrap();
        writeln!(text, "\n# step {number}").unwrap();
        text.push_str(&read(&mut runner));
    }
    if let Some(driver) = driver {
        driver.step(1).unwrap();
        std::thread::sleep(A_WINDOW);
        let again = read(&mut runner);
        let before: HashSet<&str> = text.lines().collect();
        let new = again.lines().filter(|line| !before.contains(line));
        let new = new.fold(String::new(), |all, line| all + line + "\n");
        write!(text, "\n# what is new in the next reading\n{new}").unwrap();
    }
    text
}

/// Longer than the cache time of a netlink answer: no query is repeated before that.
const LIFESPAN: Duration = Duration::from_millis(30);

/// Longer than the sampling windows of a driver.
const A_WINDOW: Duration = Duration::from_millis(1100);

/// Measured durations: shown as 0.
const MEASURED: [&str; 4] = [
    "gpu_driver_call_seconds",
    "gpu_nvlink_throughput_bytes_per_second",
    "gpu_profiling_window_seconds",
    "rdma_ethernet_call_seconds",
];

/// One reading as exposition text 0.0.4, in the order of the metric table, private metrics marked.
fn read(runner: &mut Runner) -> String {
    let mut lines: BTreeMap<&str, Vec<(String, Part, String)>> = BTreeMap::new();
    let mut text = String::new();
    let mut take = |reading: Reading<'_>, block: &Block| {
        if let Err(error) = reading.result {
            writeln!(text, "# error {}: {}", reading.subject, error.reason()).unwrap();
        }
        if let Some(fault) = block.fault() {
            writeln!(text, "# incomplete {}: {}", reading.subject, fault.reason).unwrap();
        }
        for (series, value) in block.iter() {
            if let Some(value) = value_text(value) {
                let measured = MEASURED.contains(&series.metric.name);
                let value = if measured { "0".to_owned() } else { value };
                let line = format!("{} {value}", line_start(series));
                lines.entry(series.metric.name).or_default().push((
                    label_text(series, None),
                    series.part,
                    line,
                ));
            }
        }
    };
    runner.read(&mut take);
    // On any machine, however slow: no device of a fixture is late.
    while runner.busy().next().is_some() {
        std::thread::sleep(Duration::from_millis(1));
        runner.take_late(&mut take);
    }
    for metric in runner.spec().metrics {
        let Some(mut samples) = lines.remove(metric.name) else {
            continue;
        };
        samples.sort();
        let total = samples.len();
        samples.dedup_by(|a, b| (&a.0, a.1) == (&b.0, b.1));
        assert_eq!(total, samples.len(), "{}: a series occurs twice", metric.name);
        if metric.tier == Tier::Private {
            text.push_str("# private\n");
        }
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge | Kind::Info => "gauge",
            Kind::Histogram(_) => "histogram",
        };
        let help = metric.help.replace('\\', "\\\\").replace('\n', "\\n");
        writeln!(
            text,
            "# HELP {} {help}\n# TYPE {} {kind}",
            metric.name, metric.name
        )
        .unwrap();
        for (_, _, line) in samples {
            writeln!(text, "{line}").unwrap();
        }
    }
    assert!(
        lines.is_empty(),
        "metrics that the collector's table does not hold: {lines:?}"
    );
    text
}

fn value_text(value: Value) -> Option<String> {
    match value {
        Value::U64(n) => Some(n.to_string()),
        Value::F64(x) if x.is_infinite() => Some(if x > 0.0 { "+Inf" } else { "-Inf" }.to_owned()),
        Value::F64(x) => Some(x.to_string()),
        Value::Absent => None,
    }
}

fn line_start(series: &Series) -> String {
    let name = series.metric.name;
    match (series.part, series.metric.kind) {
        (Part::Whole, _) => format!("{name}{}", label_text(series, None)),
        (Part::Sum, _) => format!("{name}_sum{}", label_text(series, None)),
        (Part::Count, _) => format!("{name}_count{}", label_text(series, None)),
        (Part::Bucket(at), Kind::Histogram(buckets)) => {
            let le = buckets.bounds().get(usize::from(at));
            let le = le.map_or("+Inf".to_owned(), |bound| format!("{bound:?}"));
            format!("{name}_bucket{}", label_text(series, Some(&le)))
        }
        (Part::Bucket(_), kind) => panic!("{name}: a bucket of a {kind:?}"),
    }
}

fn label_text(series: &Series, le: Option<&str>) -> String {
    let own = series.metric.labels.iter().copied();
    let own = own.zip(series.labels.iter().map(|l| l.as_str()));
    let pairs: Vec<String> = own
        .chain(le.map(|bound| ("le", bound)))
        .map(|(name, value)| {
            let value = value
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            format!("{name}=\"{value}\"")
        })
        .collect();
    if pairs.is_empty() {
        String::new()
    } else {
        format!("{{{}}}", pairs.join(","))
    }
}

/// The folders in a folder, by name. None if it is absent.
fn folders(path: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(path)
        .map(|entries| {
            entries
                .map(|e| e.unwrap().path())
                .filter(|p| p.is_dir())
                .collect()
        })
        .unwrap_or_default();
    found.sort();
    found
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

/// The lines that only one side has.
fn difference(expected: &str, found: &str) -> String {
    let only = |mark: char, these: &str, those: &str| {
        these
            .lines()
            .filter(|line| !those.lines().any(|l| l == *line))
            .fold(String::new(), |text, line| format!("{text}{mark} {line}\n"))
    };
    let text = only('-', expected, found) + &only('+', found, expected);
    if text.is_empty() {
        "the same lines in another order\n".to_owned()
    } else {
        text
    }
}

/// Of each name on the pages of a vendor's fixtures: help, type, and labels.
fn rows(vendor: &str) -> BTreeMap<String, (String, String, Vec<String>)> {
    let mut rows: BTreeMap<String, (String, String, Vec<String>)> = BTreeMap::new();
    for case in fs::read_dir(fixtures().join(vendor)).unwrap() {
        let file = case.unwrap().path().join("expected.prom");
        let page = fs::read_to_string(&file).unwrap_or_default();
        for line in page.lines() {
            if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|l| l.split_once(' ')) {
                rows.entry(name.to_owned()).or_default().0 = help.to_owned();
            } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|l| l.split_once(' ')) {
                rows.entry(name.to_owned()).or_default().1 = kind.to_owned();
            } else if let Some((name, labels)) = line.split_once('{') {
                let labels = labels.split("\",").filter_map(|l| l.split_once("=\""));
                let labels = labels.map(|(label, _)| label.to_owned()).collect();
                rows.entry(name.to_owned()).or_default().2 = labels;
            }
        }
    }
    rows
}

/// What a value of a GPU can be, by the unit at the end of the name: one of another size fails.
const UNITS: [(&str, f64, f64); 7] = [
    // To a limit, which it may be beyond.
    ("_margin_celsius", -20.0, 150.0),
    ("_celsius", 10.0, 150.0),
    ("_watts", 5.0, 3000.0),
    ("_hertz", 1e7, 1e11),
    ("_ratio", 0.0, 1.0),
    ("_total_bytes", 1e8, 1e13),
    ("_transfers_per_second", 2.5e9, 1.28e11),
];

#[test]
fn every_value_of_a_gpu_has_the_size_of_its_unit() {
    let mut seen = [0; UNITS.len()];
    for vendor in ["nvidia", "amd"] {
        for case in fs::read_dir(fixtures().join(vendor)).unwrap() {
            let file = case.unwrap().path().join("expected.prom");
            let page = fs::read_to_string(&file).unwrap_or_default();
            for line in page.lines().filter(|line| line.starts_with("gpu_")) {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let name = series.split('{').next().unwrap();
                let Some(unit) = UNITS.iter().position(|(unit, _, _)| name.ends_with(unit)) else {
                    continue;
                };
                let (_, least, most) = UNITS[unit];
                let value: f64 = value.parse().unwrap();
                assert!((least..=most).contains(&value), "{}: {line}", file.display());
                seen[unit] += 1;
            }
        }
    }
    assert!(seen.iter().all(|seen| *seen > 0), "{seen:?}");
}

#[test]
fn a_name_that_both_vendors_have_has_one_help_type_and_set_of_labels() {
    let (nvidia, amd) = (rows("nvidia"), rows("amd"));
    let mut shared = 0;
    for (name, row) in &amd {
        if let Some(other) = nvidia.get(name) {
            assert_eq!(row, other, "{name}");
            shared += 1;
        }
    }
    assert!(shared >= 30, "{shared} shared names");
}
