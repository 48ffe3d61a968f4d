//! `instructions page|core|detail|frame ROUNDS`: does one piece of work so often, for a tool that counts instructions.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use collectors::runner::{Reading, Runner};
use collectors::{
    Block, Cadence, Env, Kind, Metric, Settings, Spec, Subject, SubjectKind, Tier, Unit, Value,
};
use exposition::{Encoder, Format, Selection};
use health::verdict::{Health, Verdict};
use health::view::{DrainView, View};
use model::ledger::Ledger;
use model::snapshot::{CollectorState, DeviceState, Prepared, Presence, Snapshot};
use nodewarden::own::{OwnFacts, Page};
use nodewarden::worker::proto::{self, Decoder, FromWorker};
use testkit::hcas::Hcas;
use testkit::wait::{PATIENCE, until_true};

/// A thousand series.
const DEVICES: usize = 20;
const METRICS: usize = 50;

/// Adapters of the InfiniBand tree, as in `cargo xtask bench`.
const HCAS: usize = 10;

const AT: Duration = Duration::from_secs(1000);

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [work, rounds] = args.as_slice() else {
        bail!("usage: instructions page|core|detail|frame ROUNDS");
    };
    let rounds: u64 = rounds.parse().context("ROUNDS")?;
    match work.as_str() {
        "page" => {
            let pages = made_up();
            let text = written(&pages, None, rounds)?;
            let series = text.lines().filter(|l| l.starts_with("made_up_")).count();
            ensure!(series == DEVICES * METRICS, "{series} series");
            Ok(())
        }
        "core" => infiniband(Tier::Core, rounds),
        "detail" => infiniband(Tier::Detail, rounds),
        "frame" => frames(rounds),
        _ => bail!("{work}: expected page, core, detail or frame"),
    }
}

/// Writes two pages by turns, which differ in the value of every counter. Gives the last one.
fn written(pages: &[Page; 2], tier: Option<Tier>, rounds: u64) -> anyhow::Result<String> {
    let (mut encoder, mut out) = (Encoder::default(), Vec::new());
    let selection = Selection {
        tier,
        ..Selection::default()
    };
    for (_, page) in (0..rounds).zip(pages.iter().cycle()) {
        out.clear();
        encoder.page(None, page, &selection, Format::Text, &mut out);
    }
    Ok(String::from_utf8(out)?)
}

/// A page of the tree of `cargo xtask bench`, all of whose counters have changed.
fn infiniband(tier: Tier, rounds: u64) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let mut hcas = Hcas::build(&dir.path().join("root"), HCAS)?;
    let spec = &collectors::rdma::SPEC;
    let opened = (spec.open)(&Env::recorded(dir.path()), &Settings::default())?;
    let mut source = opened.context("no RDMA devices")?;
    let mut runner = Runner::new(spec, &mut source)?;
    let mut before = Vec::new();
    read(&mut runner, &mut before)?;
    hcas.advance()?;
    // Adapters and the collector reuse values that are younger than their `lifespan`.
    std::thread::sleep(Duration::from_millis(12));
    let mut after = Vec::new();
    read(&mut runner, &mut after)?;
    for device in &mut after {
        let same = |d: &&DeviceState| d.subject == device.subject && d.layout.series == device.layout.series;
        let first = before.iter().find(same);
        device.layout = Arc::clone(&first.context("another layout")?.layout);
    }
    before.sort_by(|a, b| a.subject.name.cmp(&b.subject.name));
    after.sort_by(|a, b| a.subject.name.cmp(&b.subject.name));
    ensure!(after.len() == HCAS, "{} ports", after.len());
    let pages = [before, after].map(|devices| page_of(spec, devices));
    let text = written(&pages, Some(tier), rounds)?;
    if rounds.is_multiple_of(2) && tier == Tier::Detail {
        let shown = hcas.shown(&text).iter().filter(|shown| **shown).count();
        ensure!(shown == hcas.len(), "shows {shown} of {} counters", hcas.len());
    }
    Ok(())
}

fn read(runner: &mut Runner, devices: &mut Vec<DeviceState>) -> anyhow::Result<()> {
    let mut take = |reading: Reading<'_>, block: &Block| devices.push(DeviceState::of(reading, block, AT));
    runner.read(&mut take);
    until_true("no reading is late", PATIENCE, || {
        runner.take_late(&mut take);
        runner.busy().next().is_none()
    })
}

/// A device's reading of 68 values, from the worker's side to the daemon's.
fn frames(rounds: u64) -> anyhow::Result<()> {
    let mut decoder = Decoder::default();
    for round in 0..rounds {
        let values: Vec<Value> = (0..68).map(|i| Value::U64(1_000_000_000 + round + i)).collect();
        let sent = FromWorker::Block {
            collector: 1,
            device: 2,
            at: 1_000_000_000_000,
            took: 250_000,
            values: values.as_slice().into(),
            fault: None,
        };
        decoder.push(&proto::encode(&sent));
        let got = decoder.take::<FromWorker>()?;
        ensure!(got.as_ref() == Some(&sent), "{got:?}");
    }
    Ok(())
}

fn made_up() -> [Page; 2] {
    let metrics: Vec<&'static Metric> = (0..METRICS).map(metric).collect();
    let metrics: &'static [&'static Metric] = metrics.leak();
    let spec: &'static Spec = Box::leak(Box::new(Spec {
        name: "made_up",
        domain: &collectors::domain::HOST,
        metrics,
        events: &[],
        notes: false,
        cadence: Cadence::Every(Duration::from_secs(15)),
        slice: Duration::from_millis(500),
        deadline: Duration::from_secs(5),
        keys: &[],
        open: |_, _| Ok(None),
    }));
    let before: Vec<DeviceState> = (0..DEVICES).map(|n| device(n, metrics)).collect();
    let mut after = before.clone();
    for device in &mut after {
        let values = device.values.iter().map(|value| match value {
            Value::U64(v) => Value::U64(v + 1),
            other => *other,
        });
        device.values = Arc::new(values.collect());
    }
    [before, after].map(|devices| page_of(spec, devices))
}

fn page_of(spec: &'static Spec, devices: Vec<DeviceState>) -> Page {
    let mut snapshot = Snapshot::empty(AT);
    snapshot.collectors.retain(|c| !std::ptr::eq(c.spec, spec));
    snapshot.collectors.push(Arc::new(CollectorState {
        spec,
        presence: Presence::Open,
        watcher: None,
        devices,
        late: Vec::new(),
    }));
    Page {
        snapshot: Arc::new(snapshot),
        view: Arc::new(view()),
        facts: OwnFacts::default(),
    }
}

fn metric(number: usize) -> &'static Metric {
    Box::leak(Box::new(Metric {
        name: format!("made_up_{number}_total").leak(),
        kind: Kind::Counter,
        unit: Unit::None,
        labels: &["device", "port"],
        help: "Nothing that anybody counts.",
        tier: Tier::Core,
        source: "nowhere",
        aliases: &[],
    }))
}

fn device(number: usize, metrics: &[&'static Metric]) -> DeviceState {
    let name = format!("mlx5_{number}");
    let mut block = Block::default();
    for (value, metric) in (1_000_000_000 + number as u64..).step_by(977).zip(metrics) {
        block.u64(metric, &[&name, "1"], value);
    }
    block.finish();
    DeviceState {
        subject: Subject::new(SubjectKind::Pci, name),
        layout: Arc::new(Prepared::new(block.layout().to_vec())),
        values: Arc::new(block.values().to_vec()),
        refused: 0,
        at: AT,
        took: Duration::from_millis(1),
        error: None,
        is_partial: false,
        late: None,
    }
}

fn view() -> View {
    View {
        verdict: Verdict {
            health: Health::Healthy,
            text: String::new(),
            incidents: 1,
            boot: String::new(),
            at_ms: 0,
            valid_until_ms: 0,
            drained_ms: None,
            blind: None,
        },
        incidents: Vec::new(),
        drain: DrainView {
            state: "none".to_owned(),
            why: String::new(),
            incident: None,
            reason: None,
            since: None,
            recorded: true,
            held: None,
            guard: None,
        },
        comment: None,
        node: None,
        would_drain: Vec::new(),
        drains: Vec::new(),
        undrains: 0,
        dropped: 0,
        affinity: Vec::new(),
        overrides: 0,
        pause: None,
        pauses: 0,
        ledger: Ledger::default(),
    }
}
