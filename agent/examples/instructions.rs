//! `instructions page|frame ROUNDS`: does one piece of work so often, for a tool that counts instructions.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use collectors::{Block, Cadence, Kind, Metric, Spec, Subject, SubjectKind, Tier, Unit};
use exposition::{Encoder, Format, Selection};
use health::verdict::{Health, Verdict};
use health::view::{DrainView, View};
use model::ledger::Ledger;
use model::snapshot::{CollectorState, DeviceState, Prepared, Presence, Snapshot};
use nodewarden::own::{OwnFacts, Page};
use nodewarden::worker::proto::{self, Decoder, FromWorker};

/// A thousand series.
const DEVICES: usize = 20;
const METRICS: usize = 50;

const AT: Duration = Duration::from_secs(1000);

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [work, rounds] = args.as_slice() else {
        bail!("usage: instructions page|frame ROUNDS");
    };
    let rounds: u64 = rounds.parse().context("ROUNDS")?;
    match work.as_str() {
        "page" => page(rounds),
        "frame" => frames(rounds),
        _ => bail!("{work}: expected page or frame"),
    }
}

/// A page of a thousand series that the encoder has seen before.
fn page(rounds: u64) -> anyhow::Result<()> {
    let (mut encoder, page) = (Encoder::default(), made_up());
    let (selection, mut out) = (Selection::default(), Vec::new());
    for _ in 0..rounds {
        out.clear();
        encoder.page(None, &page, &selection, Format::Text, &mut out);
    }
    let out = String::from_utf8(out)?;
    let series = out.lines().filter(|l| l.starts_with("made_up_")).count();
    ensure!(series == DEVICES * METRICS, "{series} series");
    Ok(())
}

/// A device's reading of 68 values, from the worker's side to the daemon's.
fn frames(rounds: u64) -> anyhow::Result<()> {
    let mut decoder = Decoder::default();
    for round in 0..rounds {
        let sent = FromWorker::Block {
            collector: 1,
            device: 2,
            at: 1_000_000_000_000,
            took: 250_000,
            values: (0..68)
                .map(|i| collectors::Value::U64(1_000_000_000 + round + i).into())
                .collect(),
            fault: None,
        };
        decoder.push(&proto::encode(&sent));
        let got = decoder.take::<FromWorker>()?;
        ensure!(got.as_ref() == Some(&sent), "{got:?}");
    }
    Ok(())
}

fn made_up() -> Page {
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
    let mut snapshot = Snapshot::empty(AT);
    snapshot.collectors.push(CollectorState {
        spec,
        presence: Presence::Open,
        watcher: None,
        devices: (0..DEVICES).map(|n| device(n, metrics)).collect(),
        late: Vec::new(),
    });
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
        would_drain: Vec::new(),
        drains: Vec::new(),
        undrains: 0,
        affinity: Vec::new(),
        overrides: 0,
        pause: None,
        pauses: 0,
        ledger: Ledger::default(),
    }
}
