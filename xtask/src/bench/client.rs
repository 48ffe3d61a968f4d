//! nodewarden on a tree that does not move, scraped each 15 s: the cost of one collector.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testkit::daemon::Daemon;
use testkit::scrape::Scraper;
use testkit::wait::{self, PATIENCE};

use super::machine::{self, Cores};
use super::meter::{Cgroup, Meter};
use super::program::{self, Recipe};
use super::syscalls;

/// Between scrapes: a usual interval of Prometheus, and that of our collectors without scrapes.
pub(super) const EVERY: Duration = Duration::from_secs(15);

/// How much is measured.
pub(super) struct Plan {
    /// Longer than the daemon's first, hurried health ticks.
    settle: Duration,
    pub(super) scrapes: u32,
    traced: u32,
}

pub(super) const FULL: Plan = Plan {
    settle: machine::SETTLE,
    scrapes: 12,
    // The files of a Lustre target are read in every fourth reading.
    traced: 4,
};

pub(super) const QUICK: Plan = Plan {
    settle: Duration::from_secs(2),
    scrapes: 2,
    traced: 1,
};

/// One of them.
pub(super) struct Client {
    name: String,
    daemon: Daemon,
    meter: Meter,
    scraper: Scraper,
    /// That of the collector's series.
    prefix: &'static str,
    is_whole: Box<dyn Fn(&str) -> bool>,
}

/// What a scrape costs, with what the daemon does between two of them.
pub(super) struct Cost {
    pub(super) name: String,
    pub(super) cpu_ms: f64,
    pub(super) series: usize,
    /// System calls of all its processes.
    pub(super) calls: Option<f64>,
}

impl Client {
    /// Starts it, and waits until a page is whole.
    pub(super) fn start(
        recipe: &Recipe,
        cores: &Cores,
        (target, prefix): (&str, &'static str),
        is_whole: impl Fn(&str) -> bool + 'static,
    ) -> Result<Self> {
        let cgroup = Cgroup::create(&recipe.name);
        let daemon = Daemon::start(program::placed(&recipe.command, cgroup.as_ref(), cores))?;
        let line = daemon.wait_for_line(recipe.says, PATIENCE)?;
        let address = program::address(&line).with_context(|| line.clone())?;
        let mut scraper = Scraper::connect(address, target)?;
        let mut last = String::new();
        let shown = wait::until(&format!("{}: a whole page", recipe.name), PATIENCE, || {
            last = scraper.scrape(false)?.page;
            Ok(is_whole(&last).then_some(()))
        });
        shown.with_context(|| format!("{}\n{last}", daemon.stderr()))?;
        Ok(Self {
            name: recipe.name.clone(),
            meter: Meter::new(cgroup, daemon.pid()),
            daemon,
            scraper,
            prefix,
            is_whole: Box::new(is_whole),
        })
    }

    /// How its processor time is measured.
    pub(super) fn method(&self) -> &'static str {
        self.meter.method()
    }

    /// The series of a page, which must be whole.
    fn scrape(&mut self) -> Result<usize> {
        let page = self.scraper.scrape(false);
        let page = page
            .with_context(|| format!("{}\n{}", self.name, self.daemon.stderr()))?
            .page;
        ensure!((self.is_whole)(&page), "{}: not all is shown\n{page}", self.name);
        Ok(page.lines().filter(|l| l.starts_with(self.prefix)).count())
    }

    fn calls(&mut self, plan: &Plan, work: &Path) -> Result<Option<f64>> {
        let mut pids = vec![self.daemon.pid()];
        pids.extend(self.daemon.children());
        let calls = syscalls::count(&pids, work, || {
            for _ in 0..plan.traced {
                self.scrape()?;
                std::thread::sleep(EVERY);
            }
            Ok(())
        })?;
        Ok(calls.map(|calls| calls / f64::from(plan.traced)))
    }
}

/// Scrapes all of them in turn, and does `beside` as often.
///
/// # Errors
/// When one gives no page, or `beside` fails.
pub(super) fn measure(
    clients: &mut [Client],
    plan: &Plan,
    work: &Path,
    mut beside: impl FnMut() -> Result<()>,
) -> Result<Vec<Cost>> {
    machine::settle(plan.settle)?;
    let used = |clients: &[Client]| clients.iter().map(|c| c.meter.used()).collect::<Result<Vec<_>>>();
    let before = used(clients)?;
    let mut series = vec![0; clients.len()];
    let mut next = Instant::now();
    for _ in 0..plan.scrapes {
        next += EVERY;
        for (client, series) in clients.iter_mut().zip(&mut series) {
            *series = client.scrape()?;
        }
        beside()?;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let spent: Vec<Duration> = used(clients)?
        .iter()
        .zip(before)
        .map(|(after, before)| after.saturating_sub(before))
        .collect();
    let costs = clients.iter_mut().zip(spent).zip(series);
    costs
        .map(|((client, spent), series)| {
            Ok(Cost {
                name: client.name.clone(),
                cpu_ms: spent.as_secs_f64() * 1e3 / f64::from(plan.scrapes),
                series,
                calls: client.calls(plan, work)?,
            })
        })
        .collect()
}
