//! `cargo xtask bench amd`: eight MI300X in CPX mode, 64 partitions, by a page of each tier.

use std::fs;

use anyhow::{Result, ensure};
use serde_json::json;

use super::client::{self, Client, Cost};
use super::machine;
use super::{DOCUMENT, OURS, Place, report};
use crate::cmd;

/// One divided MI300X.
const FIXTURE: &str = "fixtures/amd/mi300x-cpx";
const GPUS: usize = 8;
const PARTITIONS: usize = 8 * GPUS;
/// The tree of all of them.
const TREE: &str = "amd";

/// Limit of the series of a core page.
const CORE: usize = 400;

/// Measures both.
///
/// # Errors
/// When a page does not show each partition, or a core page has more series than the limit.
pub(super) fn run(quick: bool, write: bool) -> Result<()> {
    let plan = if quick { client::QUICK } else { client::FULL };
    let place = Place::new()?;
    let cores = machine::ready()?;
    testkit::mi300x::divided(&cmd::root().join(FIXTURE), &place.root(TREE), GPUS)?;
    let start = |tier: &str| {
        let name = format!("{OURS}, {tier}");
        let recipe = place.build(&name, &place.program(OURS), &format!("{TREE}-{tier}"), TREE, 0)?;
        let target = format!("/metrics?tier={tier}&collect[]=amd");
        Client::start(&recipe, &cores, (&target, "gpu_"), shows_all)
    };
    let mut clients = vec![start("core")?, start("detail")?];
    let method = clients.first().map(Client::method).unwrap_or_default();
    let machine = report::machine(cores.count, place.temp.path(), method)?;
    let costs = client::measure(&mut clients, &plan, &place.work, || Ok(()))?;
    let table = table(&costs);
    println!("\n{table}");
    if write {
        report::write(&cmd::root().join(DOCUMENT), report::AMD, &machine, &table)?;
    }
    let file = place.work.join("amd.json");
    let all: Vec<_> = costs.iter().map(json).collect();
    fs::write(&file, serde_json::to_string_pretty(&all)?)?;
    println!("{}", file.display());
    if let Some(core) = costs.first() {
        ensure!(
            core.series <= CORE,
            "{} series of core, limit {CORE}",
            core.series
        );
    }
    Ok(())
}

fn shows_all(page: &str) -> bool {
    page.lines()
        .filter(|l| l.starts_with("gpu_instance_info{"))
        .count()
        == PARTITIONS
}

fn json(cost: &Cost) -> serde_json::Value {
    json!({
        "name": cost.name, "cpu_ms_per_scrape": cost.cpu_ms, "series": cost.series,
        "system_calls_per_scrape": cost.calls,
    })
}

/// The table, in Markdown.
fn table(all: &[Cost]) -> String {
    let rows: [report::Row<Cost>; 4] = [
        ("CPU of all processes, ms a scrape at one each 15 s", |c, _| {
            format!("{:.2}", c.cpu_ms)
        }),
        ("series", |c, _| c.series.to_string()),
        ("CPU, us a series", |c, _| {
            format!("{:.2}", c.cpu_ms * 1e3 / c.series.max(1) as f64)
        }),
        ("system calls of all processes in 15 s", |c, _| {
            c.calls.map_or("-".to_owned(), |calls| format!("{calls:.0}"))
        }),
    ];
    report::columns(all, |c| c.name.as_str(), &rows)
}
