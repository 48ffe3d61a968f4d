//! `nodewarden metrics`: reads the node once, without the daemon, and prints one exposition.

mod child;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use collectors::runner::{Operation, Reading, Runner};
use collectors::settings::nearest;
use collectors::sys::{boot, task};
use collectors::{Block, COLLECTORS, Env, Settings, Spec};

use super::screen;
use crate::own;
pub(super) use child::main;
use exposition::{Defaults, Encoder, Format, Selection};
use model::filter::Filter;
use model::snapshot::{CollectorState, DeviceState, Late, Prepared, Presence, Snapshot};

/// Interval at which late devices are polled.
const LOOK: Duration = Duration::from_millis(10);

/// The arguments of `nodewarden metrics`.
#[derive(Debug, clap::Args)]
pub(super) struct MetricsArgs {
    /// Read /sys and /proc below this directory.
    #[arg(long, value_name = "DIR")]
    sysroot: Option<PathBuf>,
    /// Configuration file, with `conf.d/*.toml` beside it; applies the settings of collectors and `[metrics]`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set one key to a TOML value, for example `--set rdma.sysfs_only=true`; repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Run only these collectors.
    #[arg(long, value_name = "COLLECTOR", value_delimiter = ',')]
    only: Vec<String>,
    /// Run all collectors except these.
    #[arg(
        long,
        value_name = "COLLECTOR",
        value_delimiter = ',',
        conflicts_with = "only"
    )]
    exclude: Vec<String>,
    /// Tiers to print. Default: `metrics.tier`; with --page: all tiers.
    #[arg(long, value_parser = ["core", "detail", "debug"])]
    tier: Option<String>,
    /// Text format: Prometheus 0.0.4 or OpenMetrics 1.0.
    #[arg(long, default_value = "text", value_parser = ["text", "openmetrics"])]
    format: String,
    /// Print another exporter's metric names: amd, dcgm, gpfs_exporter or node_exporter.
    #[arg(long)]
    page: Option<String>,
}

/// The exit code if something did not answer in time.
const UNANSWERED: u8 = 3;
/// The exit code after SIGINT, SIGTERM or SIGHUP.
const INTERRUPTED: u8 = 130;

/// Reads in a child process, and prints. The child is left behind where a driver does not let it end.
pub(super) fn metrics(args: &MetricsArgs) -> anyhow::Result<ExitCode> {
    // The same errors, without a child.
    Plan::of(args)?;
    let passed = std::env::args_os().skip_while(|arg| arg != "metrics").skip(1);
    let passed: Result<Vec<String>, _> = passed.map(std::ffi::OsString::into_string).collect();
    let passed = passed.map_err(|arg| anyhow::anyhow!("found argument {arg:?}, expected UTF-8"))?;
    let answer = child::ask(&passed)?;
    if !answer.missing.is_empty() {
        screen::complain(&format!("no answer from {}", answer.missing.join("; ")));
    }
    let code = match &answer {
        child::Answer {
            interrupted: true, ..
        } => INTERRUPTED,
        child::Answer {
            page: Some(_),
            missing,
            ..
        } if missing.is_empty() => 0,
        _ => UNANSWERED,
    };
    let page = answer.page.unwrap_or_default();
    screen::print(&String::from_utf8_lossy(&page), ExitCode::from(code))
}

/// The collectors to read, and the form of the page.
struct Plan {
    specs: Vec<&'static Spec>,
    env: Env,
    settings: Settings,
    page: Option<&'static str>,
    selection: Selection,
    format: Format,
    defaults: Arc<Defaults>,
}

impl Plan {
    fn of(args: &MetricsArgs) -> anyhow::Result<Self> {
        for name in args.only.iter().chain(&args.exclude) {
            if collectors::collector(name).is_none() {
                let known: Vec<&str> = COLLECTORS.iter().map(|s| s.name).collect();
                match nearest(name, known.iter().copied()) {
                    Some(meant) => anyhow::bail!("unknown collector {name}, did you mean {meant}?"),
                    None => anyhow::bail!("unknown collector {name}, expected one of {}", known.join(", ")),
                }
            }
        }
        let env = args.sysroot.as_ref().map_or_else(Env::default, Env::with_sysroot);
        if !env.sysroot.is_dir() {
            anyhow::bail!("{}: no such directory", env.sysroot.display());
        }
        let filter = match (args.only.is_empty(), args.exclude.is_empty()) {
            (false, _) => Filter::Only(args.only.clone()),
            (true, false) => Filter::Except(args.exclude.clone()),
            (true, true) => Filter::All,
        };
        let page = args.page.as_deref().map(known_page).transpose()?;
        let loading = crate::config::read(args.config.as_deref(), &args.set).map_err(anyhow::Error::msg)?;
        // Excluded devices are never opened here either.
        let config = loading.loaded.config;
        let specs = COLLECTORS.iter().copied();
        Ok(Self {
            specs: specs.filter(|s| filter.takes(s.name)).collect(),
            env,
            settings: config.collectors,
            page,
            selection: Selection {
                tier: args.tier.as_deref().and_then(exposition::tier),
                filter,
            },
            format: match args.format.as_str() {
                // As the daemon, which has the other exporters' pages as text only.
                "openmetrics" if page.is_none() => Format::OpenMetrics,
                _ => Format::Text,
            },
            defaults: Arc::new(config.metrics),
        })
    }

    fn page(&self, snapshot: &Snapshot) -> Vec<u8> {
        let mut out = Vec::new();
        let read = own::SnapshotPage(snapshot, &self.defaults);
        Encoder::default().page(self.page, &read, &self.selection, self.format, &mut out);
        out
    }
}

/// The page with this name.
fn known_page(name: &str) -> anyhow::Result<&'static str> {
    let pages = Encoder::pages(&Snapshot::empty(boot::boottime()));
    pages.iter().copied().find(|p| *p == name).ok_or_else(|| {
        let there = if pages.is_empty() {
            "none".to_owned()
        } else {
            pages.join(", ")
        };
        match nearest(name, pages.iter().copied()) {
            Some(meant) => anyhow::anyhow!("unknown page {name}, did you mean {meant}?"),
            None => anyhow::anyhow!("unknown page {name}, expected one of: {there}"),
        }
    })
}

/// One reading of one collector; waits for late devices until the collector's deadline.
/// Also returns the runner, whose threads may still be inside a driver.
fn read(spec: &'static Spec, env: &Env, settings: &Settings) -> (CollectorState, Option<Runner>) {
    let mut state = CollectorState {
        spec,
        presence: Presence::NotHere,
        watcher: None,
        devices: Vec::new(),
        late: Vec::new(),
    };
    let failed = |e: collectors::Error| Presence::Failed(e.reason().to_owned(), e.to_string());
    let mut source = match (spec.open)(env, settings) {
        Ok(Some(source)) => source,
        Ok(None) => return (state, None),
        Err(error) => {
            state.presence = failed(error);
            return (state, None);
        }
    };
    let mut runner = match Runner::new(spec, &mut source) {
        Ok(runner) => runner,
        Err(error) => {
            state.presence = failed(error);
            return (state, None);
        }
    };
    // Without the daemon the watcher's counters are absent, not 0.
    let watches = source.watcher.as_mut().is_some_and(|w| w.ready(Duration::ZERO));
    if watches && runner.subjects().is_empty() {
        let text = "watched by the daemon only".to_owned();
        state.presence = Presence::Failed("watcher".to_owned(), text);
        return (state, Some(runner));
    }
    state.presence = Presence::Open;
    let until = Instant::now() + spec.deadline;
    let devices = &mut state.devices;
    let mut take = |reading: Reading<'_>, block: &Block| {
        devices.push(DeviceState::of(reading, block, boot::boottime()));
    };
    runner.read(&mut take);
    while runner.busy().next().is_some() && Instant::now() < until {
        thread::sleep(LOOK);
        runner.take_late(&mut take);
    }
    let now = boot::boottime();
    state.devices.extend(runner.busy().filter_map(|busy| {
        Some(DeviceState {
            subject: match busy.what {
                Operation::Device(_, subject) => subject,
                Operation::List | Operation::Closing => return None,
            },
            layout: Arc::new(Prepared::new(Vec::new())),
            values: Arc::default(),
            refused: 0,
            // Never: it has no reading.
            at: Duration::ZERO,
            took: busy.since.elapsed(),
            error: None,
            is_partial: false,
            late: Some(Late {
                since: now.saturating_sub(busy.since.elapsed()),
                heard: now,
                task: task::read(busy.tid),
            }),
        })
    }));
    (state, Some(runner))
}

#[cfg(test)]
mod tests;
