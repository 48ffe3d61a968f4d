//! `cargo xtask demo --check`: whether the demo does what it promises.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use testkit::exposition::{self, Sample};

use super::place::{COMMANDS, Place};

/// The most series that the core tier may have on a whole node.
const CORE_SERIES: usize = 1500;

/// How long after the recording's end the last promise may come.
const PATIENCE: Duration = Duration::from_secs(90);

/// What was seen so far.
pub(super) struct Check {
    /// When to give up.
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

    /// Looks at the demo. Whether everything was seen.
    pub(super) fn look(&mut self, place: &Place, at: Duration) -> Result<bool> {
        let samples = exposition::check(&place.get("/metrics")?)?;
        ensure!(
            samples.len() < CORE_SERIES,
            "/metrics has {} series, the core tier may have {CORE_SERIES}",
            samples.len()
        );
        let Some(first) = &self.first else {
            ensure!(!is_broken(&samples), "the node is broken from the start");
            self.first = Some(samples);
            return Ok(false);
        };
        let moved = rising(first, &samples);
        if is_broken(&samples) && moved > 0 {
            pages(place)?;
            commands(place)?;
            jobs(place, &samples)?;
            println!(
                "\nchecked: {} series in the core tier, {moved} counters moved, the incident is there, the commands work",
                samples.len()
            );
            return Ok(true);
        }
        if at > self.until {
            bail!(
                "after {} s: {moved} counters moved; an incident is open: {}",
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

/// How many counters of the node have risen.
fn rising(first: &[Sample], now: &[Sample]) -> usize {
    let counter = |s: &&Sample| s.name.ends_with("_total") && !s.name.starts_with("nodewarden_");
    let risen = |s: &&Sample| {
        let before = first.iter().find(|f| f.name == s.name && f.labels == s.labels);
        before.is_some_and(|f| f.value < s.value)
    };
    now.iter().filter(counter).filter(risen).count()
}

fn pages(place: &Place) -> Result<()> {
    ensure!(place.pages().count() >= 3, "fewer than three pages answer");
    exposition::check(&place.get("/metrics?tier=detail")?)?;
    Ok(())
}

/// Jobs are shown on their GPUs, and the one that had the lost GPU is named with its fault.
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

/// Every command that ends by itself, as it was printed.
fn commands(place: &Place) -> Result<()> {
    for (words, code) in COMMANDS.iter().filter(|(words, _)| !words.contains("--watch")) {
        let output = place
            .subcommand(words)
            .output()
            .with_context(|| words.to_string())?;
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        ensure!(
            output.status.code() == Some(*code) && !out.trim().is_empty(),
            "`nodewarden {words}`: {}, expected {code}\n{out}{err}",
            output.status
        );
    }
    Ok(())
}
