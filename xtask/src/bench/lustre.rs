//! `cargo xtask bench lustre`: a client of Lustre, read by us and by lustre_collector, and by us with 1,000 OSTs.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use testkit::tree::{self, Entry};

use super::client::{self, Client, Plan};
use super::lustre_peer::{PROGRAM, Peer};
use super::machine::{self, Cores};
use super::{DOCUMENT, OURS, Place, report};
use crate::cmd;

/// A client with some OSTs.
const FIXTURE: &str = "fixtures/lustre/healthy/root.tree";
/// The one that is copied for more.
const MODEL: &str = "OST0000";
/// The mount's folder of statistics.
const MOUNT: &str = "scratch-ffff880812345600";

/// OSTs of the small client, which both programs read, and of the large one.
const FEW: u32 = 4;
const MANY: u32 = 1000;

/// A column of the table.
struct Figures {
    name: String,
    version: String,
    cpu_ms: f64,
    series: usize,
    /// Of these, the processor time of its own start and of the programs that it starts, and how many these are.
    started: (f64, usize),
    /// System calls of all its processes.
    calls: Option<f64>,
}

/// Measures all.
///
/// # Errors
/// When a program does not show the client, or we cost more for a series.
pub(super) fn run(quick: bool, write: bool) -> Result<()> {
    let plan = if quick { client::QUICK } else { client::FULL };
    let place = Place::new()?;
    PROGRAM.get(&place.work)?;
    let cores = machine::ready()?;
    let stats = format!("sys/kernel/debug/lustre/llite/{MOUNT}/stats");
    let mut clients = Vec::new();
    for osts in [FEW, MANY] {
        clients.push(start(&place, osts, &cores)?);
    }
    let few = place.root(&folder(FEW)).join(stats);
    let parameter = format!("llite.{MOUNT}.stats");
    let peer = Peer::new(&place.work, place.temp.path().join("peer"), (&parameter, &few))?;
    let method = clients.first().map(Client::method).unwrap_or_default();
    let machine = report::machine(cores.count, place.temp.path(), method)?;
    let figures = measure(&mut clients, &peer, &plan, &place.work)?;
    let table = table(&figures);
    println!("\n{table}");
    if write {
        report::write(&cmd::root().join(DOCUMENT), report::LUSTRE, &machine, &table)?;
    }
    let file = place.work.join("lustre.json");
    let all: Vec<_> = figures.iter().map(Figures::json).collect();
    fs::write(&file, serde_json::to_string_pretty(&all)?)?;
    println!("{}", file.display());
    if let ([other, ours, ..], false) = (figures.as_slice(), quick) {
        ensure!(
            ours.per_series() <= other.per_series(),
            "{:.2} us of CPU a series, {} has {:.2}",
            ours.per_series(),
            other.name,
            other.per_series()
        );
    }
    Ok(())
}

fn folder(osts: u32) -> String {
    format!("lustre-{osts}")
}

/// The client of the fixture with this many OSTs.
fn lay(root: &Path, osts: u32) -> Result<()> {
    let text = fs::read_to_string(cmd::root().join(FIXTURE)).context(FIXTURE)?;
    for (path, entry) in tree::parse(FIXTURE, &text)? {
        if !path.contains("-OST") {
            tree::put(&root.join(&path), &entry)?;
        } else if path.contains(MODEL) {
            for ost in 0..osts {
                let named = |text: &str| text.replace(MODEL, &format!("OST{ost:04x}"));
                let entry = match &entry {
                    Entry::File(bytes) => Entry::File(named(std::str::from_utf8(bytes)?).into_bytes()),
                    other => other.clone(),
                };
                tree::put(&root.join(named(&path)), &entry)?;
            }
        }
    }
    Ok(())
}

/// nodewarden on the client with this many OSTs.
fn start(place: &Place, osts: u32, cores: &Cores) -> Result<Client> {
    let name = format!("{OURS}, {osts} OSTs");
    lay(&place.root(&folder(osts)), osts)?;
    let recipe = place.nodewarden(&name, &folder(osts), 0)?;
    let all = format!("lustre_client_targets{{fs=\"scratch\",target_type=\"ost\",state=\"FULL\"}} {osts}\n");
    let page = ("/metrics?tier=detail&collect[]=lustre", "lustre_");
    Client::start(&recipe, cores, page, move |page| page.contains(&all))
}

/// All of them, in turn. lustre_collector first.
fn measure(clients: &mut [Client], peer: &Peer, plan: &Plan, work: &Path) -> Result<Vec<Figures>> {
    let (mut other, mut of_started, mut started, mut rows) = (Duration::ZERO, Duration::ZERO, 0, 0);
    let costs = client::measure(clients, plan, work, || {
        let (run, found) = peer.scrape()?;
        other += run.cpu;
        rows = found;
        let (count, cpu) = peer.started()?;
        started = count;
        of_started += cpu + peer.start()?;
        Ok(())
    })?;
    let each = |time: Duration| time.as_secs_f64() * 1e3 / f64::from(plan.scrapes);
    let mut figures = vec![Figures {
        name: PROGRAM.name.to_owned(),
        version: PROGRAM.version.to_owned(),
        cpu_ms: each(other),
        series: rows,
        started: (each(of_started), started),
        calls: None,
    }];
    figures.extend(costs.into_iter().map(|cost| Figures {
        name: cost.name,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        cpu_ms: cost.cpu_ms,
        series: cost.series,
        started: (0.0, 0),
        calls: cost.calls,
    }));
    Ok(figures)
}

impl Figures {
    /// Microseconds of its own processor time for a series.
    fn per_series(&self) -> f64 {
        (self.cpu_ms - self.started.0) * 1e3 / self.series.max(1) as f64
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "name": self.name, "version": self.version, "cpu_ms_per_scrape": self.cpu_ms, "series": self.series,
            "cpu_us_per_series": self.per_series(), "cpu_ms_of_started_programs": self.started.0,
            "started_programs": self.started.1, "system_calls_per_scrape": self.calls,
        })
    }
}

/// The table, in Markdown.
fn table(all: &[Figures]) -> String {
    let rows: [report::Row<Figures>; 7] = [
        ("version", |f, _| f.version.clone()),
        ("CPU of all processes, ms a scrape at one each 15 s", |f, _| {
            format!("{:.2}", f.cpu_ms)
        }),
        ("of it, its start and the programs that it starts", |f, _| {
            format!("{:.2}", f.started.0)
        }),
        ("programs started for a scrape", |f, _| f.started.1.to_string()),
        ("series", |f, _| f.series.to_string()),
        ("own CPU, us a series", |f, _| format!("{:.2}", f.per_series())),
        ("system calls of all processes in 15 s", |f, _| {
            f.calls.map_or("-".to_owned(), |calls| format!("{calls:.0}"))
        }),
    ];
    report::columns(all, |f| f.name.as_str(), &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_as_many_osts_as_are_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        lay(dir.path(), 3).unwrap();
        let osc = dir.path().join("proc/fs/lustre/osc");
        let mut names: Vec<_> = (fs::read_dir(&osc).unwrap())
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let expected =
            ["OST0000", "OST0001", "OST0002"].map(|ost| format!("scratch-{ost}-osc-ffff880812345600"));
        assert_eq!(names, expected);
        let import = fs::read_to_string(osc.join(&names[2]).join("import")).unwrap();
        assert!(import.contains("target: scratch-OST0002_UUID"), "{import}");
    }
}
