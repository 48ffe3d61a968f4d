//! `cargo xtask demo --check`: checks the demo.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use testkit::exposition::{self, Sample};

use super::place::{self, Place};

/// Time after the recording's end until which all checks must pass.
const PATIENCE: Duration = Duration::from_secs(90);

/// State of the checks.
pub(super) struct Check {
    /// The deadline.
    until: Duration,
    first: Option<Vec<Sample>>,
}

impl Check {
    pub(super) fn new(length: Duration) -> Self {
        Self {
            until: length + PATIENCE,
            first: None,
        }
    }

    /// Checks the demo. Returns whether all checks have passed.
    pub(super) fn look(&mut self, place: &Place, at: Duration) -> Result<bool> {
        let samples = exposition::check(&place.get("/metrics")?)?;
        let (series, filesystems) = exposition::core_series(&samples)?;
        let Some(first) = &self.first else {
            ensure!(!is_broken(&samples), "the node is broken from the start");
            self.first = Some(samples);
            return Ok(false);
        };
        let moved = rising(first, &samples);
        if is_broken(&samples) && moved > 0 {
            pages(place, first)?;
            commands(place, first)?;
            jobs(place, &samples)?;
            println!(
                "\nchecked: {series} series in the core tier and {filesystems} of filesystems, {moved} counters increased, incident open, commands work"
            );
            return Ok(true);
        }
        if at > self.until {
            bail!(
                "after {} s: {moved} counters increased; an incident is open: {}",
                at.as_secs(),
                is_broken(&samples)
            );
        }
        Ok(false)
    }
}

/// Whether an incident is open.
fn is_broken(samples: &[Sample]) -> bool {
    let open = |s: &&Sample| s.name == "nodewarden_incidents_open";
    samples.iter().find(open).is_some_and(|s| s.value > 0.0)
}

/// Number of the node's counters that have increased.
fn rising(first: &[Sample], now: &[Sample]) -> usize {
    let counter = |s: &&Sample| s.name.ends_with("_total") && !s.name.starts_with("nodewarden_");
    let risen = |s: &&Sample| {
        let before = first.iter().find(|f| f.name == s.name && f.labels == s.labels);
        before.is_some_and(|f| f.value < s.value)
    };
    now.iter().filter(counter).filter(risen).count()
}

/// Every printed page answers. `first`: the page when they were printed.
fn pages(place: &Place, first: &[Sample]) -> Result<()> {
    for (what, page) in place::pages(first) {
        ensure!(!place.get(page).context(what)?.is_empty(), "{page} is empty");
    }
    exposition::check(&place.get("/metrics?tier=detail")?)?;
    Ok(())
}

/// Jobs are shown on their GPUs, and the job of the lost GPU is shown with the fault.
fn jobs(place: &Place, samples: &[Sample]) -> Result<()> {
    let shares = samples.iter().filter(|s| s.name == "slurm_job_gpu_share_ratio");
    ensure!(shares.count() >= 4, "jobs are not shown on their GPUs");
    for (words, job) in [("status", "4712"), ("why", "4711"), ("job", "4711")] {
        let output = place.subcommand(words).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(
            text.contains(job),
            "`nodewarden {words}` does not name job {job}:\n{text}"
        );
    }
    Ok(())
}

/// Runs the printed commands that end without Ctrl-C. `first`: the page when they were printed.
fn commands(place: &Place, first: &[Sample]) -> Result<()> {
    let printed = place::commands(first);
    for words in printed.iter().filter(|words| !words.contains("--watch")) {
        // After the fault the verdict is unhealthy.
        let code = i32::from(words == "check");
        let output = place.subcommand(words).output().with_context(|| words.clone())?;
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        ensure!(
            output.status.code() == Some(code) && !out.trim().is_empty(),
            "`nodewarden {words}`: {}, expected {code}\n{out}{err}",
            output.status
        );
    }
    Ok(())
}
