use collectors::{Cadence, Device, Devices, Error, Kind, Metric, Source, Subject, Tier, Unit};

use super::*;
use testkit::exposition::read_page;

static ONE: Metric = Metric {
    name: "one",
    kind: Kind::Gauge,
    unit: Unit::None,
    labels: &["d"],
    help: "One.",
    tier: Tier::Core,
    source: "test",
    aliases: &[],
};

struct Fake(Subject, Duration);

impl Device for Fake {
    fn subject(&self) -> &Subject {
        &self.0
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        thread::sleep(self.1);
        if self.0.name == "broken" {
            return Err(Error::parse("x", "y", "z"));
        }
        out.u64(&ONE, &[&self.0.name], 1);
        Ok(())
    }
}

struct List;

impl Devices for List {
    fn scan(&mut self) -> Result<Vec<Box<dyn Device>>, Error> {
        let fake = |name: &str, millis| -> Box<dyn Device> {
            Box::new(Fake(Subject::gpu(name), Duration::from_millis(millis)))
        };
        Ok(vec![
            fake("good", 0),
            fake("slow", 100),
            fake("broken", 0),
            fake("stuck", 60_000),
        ])
    }
}

static SPEC: Spec = Spec {
    name: "fake",
    domain: &collectors::domain::HOST,
    metrics: &[&ONE],
    events: &[],
    notes: false,
    cadence: Cadence::Every(Duration::from_secs(15)),
    slice: Duration::from_millis(20),
    deadline: Duration::from_secs(5),
    keys: &[],
    open: |_, _| {
        Ok(Some(Source {
            devices: Box::new(List),
            watcher: None,
        }))
    },
};

#[test]
fn late_devices_are_waited_for_and_stuck_ones_reported() {
    let states = vec![read(&SPEC, &Env::default(), &Settings::default()).0];
    let snapshot = Snapshot::new(boot::boottime(), states, Vec::new());
    let (selection, mut out) = (Selection::default(), Vec::new());
    Encoder::default().page(
        None,
        &own::SnapshotPage(&snapshot, &Arc::default()),
        &selection,
        Format::Text,
        &mut out,
    );
    let page = read_page(&String::from_utf8(out).unwrap()).unwrap();
    assert_eq!(page.value("one", &[("d", "good")]), Some("1"));
    assert_eq!(page.value("one", &[("d", "slow")]), Some("1"));
    assert_eq!(page.families["one"].1.len(), 2);
    assert_eq!(
        page.value("nodewarden_collector_up", &[("collector", "fake")]),
        Some("0")
    );
    let (_, late) = &page.families["nodewarden_device_late_seconds"];
    assert_eq!(late[0].0["subject"], "stuck");
    let (_, broken) = &page.families["nodewarden_device_error_info"];
    assert_eq!(broken[0].0["subject"], "broken");
}

#[derive(clap::Parser)]
struct Command {
    #[command(flatten)]
    args: MetricsArgs,
}

#[test]
fn the_selection_of_the_configuration_applies() {
    use clap::Parser;

    let sets = [
        "metrics.tier=\"debug\"",
        "metrics.exclude=[\"host_boot_time_seconds\"]",
        "metrics.include=[\"nvme_available_spare_threshold_ratio\"]",
    ];
    // In place of the machine's own configuration.
    let empty = tempfile::NamedTempFile::with_suffix(".toml").unwrap();
    let mut args = vec!["metrics", "--config", empty.path().to_str().unwrap()];
    args.extend(sets.iter().flat_map(|set| ["--set", *set]));
    let command = Command::parse_from(args);
    let plan = Plan::of(&command.args).unwrap();
    assert_eq!((plan.defaults.tier, plan.selection.tier), (Tier::Debug, None));
    assert_eq!(plan.defaults.exclude, ["host_boot_time_seconds"]);
    assert_eq!(plan.defaults.include, ["nvme_available_spare_threshold_ratio"]);
}

#[test]
fn the_help_names_every_page() {
    use clap::CommandFactory;

    let help = Command::command().render_long_help().to_string();
    let pages = Encoder::pages(&Snapshot::empty(boot::boottime()));
    assert!(pages.contains(&"gpfs_exporter"), "{pages:?}");
    for page in pages {
        assert!(help.contains(page), "{page}: {help}");
    }
}

#[test]
fn a_mistyped_page_is_answered_with_the_one_that_was_meant() {
    let why = |name| known_page(name).unwrap_err().to_string();
    assert_eq!(why("dcmg"), "unknown page dcmg, did you mean dcgm?");
    assert!(
        why("prometheus").contains("expected one of: "),
        "{}",
        why("prometheus")
    );
}
