//! `nodewarden metrics`: reads the node once in this process and prints one exposition.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use collectors::runner::{Reading, Runner};
use collectors::sys::{boot, task};
use collectors::{Block, COLLECTORS, Env, Settings, Spec, Tier};

use super::screen;
use crate::core::snapshot::{CollectorState, DeviceState, Late, Prepared, Presence, Snapshot};
use crate::exposition::{self, Encoder, own};

/// How often late devices are looked after.
const LOOK: Duration = Duration::from_millis(10);

/// The arguments of `nodewarden metrics`.
#[derive(Debug, clap::Args)]
pub(super) struct MetricsArgs {
    /// Read /sys and /proc below this folder.
    #[arg(long, value_name = "DIR")]
    sysroot: Option<PathBuf>,
    /// Only these collectors.
    #[arg(long, value_name = "COLLECTOR", value_delimiter = ',')]
    only: Vec<String>,
    /// How much is shown.
    #[arg(long, default_value = "core", value_parser = ["core", "detail", "debug"])]
    tier: String,
}

/// Reads and prints.
pub(super) fn metrics(args: &MetricsArgs) -> anyhow::Result<ExitCode> {
    for name in &args.only {
        if collectors::collector(name).is_none() {
            let known: Vec<&str> = COLLECTORS.iter().map(|s| s.name).collect();
            anyhow::bail!("unknown collector {name}, expected one of {}", known.join(", "));
        }
    }
    let env = args.sysroot.as_ref().map_or_else(Env::default, Env::with_sysroot);
    if !env.sysroot.is_dir() {
        anyhow::bail!("{}: no such directory", env.sysroot.display());
    }
    let wanted = |s: &&&'static Spec| args.only.is_empty() || args.only.iter().any(|o| o == s.name);
    let states = COLLECTORS
        .iter()
        .filter(wanted)
        .map(|spec| read(spec, &env))
        .collect();
    let snapshot = Snapshot {
        at: boot::boottime(),
        collectors: states,
        workers: Vec::new(),
    };
    let tier = exposition::tier(&args.tier).unwrap_or(Tier::Core);
    let mut out = String::new();
    let dropped = Encoder::default().collectors(&snapshot, tier, &mut out);
    own::render_collectors(&snapshot, &dropped, tier, &mut out);
    screen::print(&out, ExitCode::SUCCESS)
}

/// One reading of one collector; late devices are waited for until the collector's deadline.
fn read(spec: &'static Spec, env: &Env) -> CollectorState {
    let mut state = CollectorState {
        spec,
        presence: Presence::NotHere,
        watcher: None,
        devices: Vec::new(),
    };
    let failed = |e: collectors::Error| Presence::Failed(e.reason().to_owned(), e.to_string());
    let mut source = match (spec.open)(env, &Settings::default()) {
        Ok(Some(source)) => source,
        Ok(None) => return state,
        Err(error) => {
            state.presence = failed(error);
            return state;
        }
    };
    let mut runner = match Runner::new(spec, &mut source) {
        Ok(runner) => runner,
        Err(error) => {
            state.presence = failed(error);
            return state;
        }
    };
    // What a watcher counts is not there without it: 0 would be a lie.
    if source.watcher.is_some() {
        let text = "only the daemon watches it".to_owned();
        state.presence = Presence::Failed("watcher".to_owned(), text);
        return state;
    }
    state.presence = Presence::Open;
    let until = Instant::now() + spec.deadline;
    let devices = &mut state.devices;
    let mut take = |reading: Reading<'_>, block: &Block| devices.push(device(reading, block));
    runner.read(&mut take);
    while runner.busy().next().is_some() && Instant::now() < until {
        thread::sleep(LOOK);
        runner.take_late(&mut take);
    }
    let now = boot::boottime();
    state.devices.extend(runner.busy().filter_map(|busy| {
        Some(DeviceState {
            subject: busy.device?.1,
            layout: Arc::new(Prepared::new(Vec::new())),
            values: Arc::default(),
            at: now,
            took: busy.since.elapsed(),
            error: None,
            late: Some(Late {
                since: now.saturating_sub(busy.since.elapsed()),
                task: task::read(busy.tid),
            }),
        })
    }));
    state
}

fn device(reading: Reading<'_>, block: &Block) -> DeviceState {
    DeviceState {
        subject: reading.subject.clone(),
        layout: Arc::new(Prepared::new(block.layout().to_vec())),
        values: Arc::new(block.values().to_vec()),
        at: boot::boottime(),
        took: reading.took,
        error: reading
            .result
            .err()
            .map(|e| (e.reason().to_owned(), e.to_string())),
        late: None,
    }
}

#[cfg(test)]
mod tests;
