//! Runs checks in sequence, continues after a failure, and prints the result of each at the end.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use nix::sys::resource::{UsageWho, getrusage};

/// The results of the stages so far.
#[derive(Default)]
pub(crate) struct Stages {
    done: Vec<Done>,
}

struct Done {
    name: String,
    took: Duration,
    /// Processor time of the programs that it ran.
    cpu: Duration,
    /// The error; `None` if the stage passed.
    failure: Option<String>,
}

impl Stages {
    /// Runs one stage. Returns whether it passed.
    pub(crate) fn run(&mut self, name: &str, body: impl FnOnce() -> Result<()>) -> bool {
        println!("\n==> {name}");
        let (begin, before) = (Instant::now(), cpu());
        let failure = body().err().map(|error| format!("{error:#}"));
        let took = begin.elapsed();
        let cpu = cpu().saturating_sub(before);
        match &failure {
            None => println!("<== {name}: ok, {}", seconds(took)),
            Some(why) => println!("<== {name}: FAILED, {}: {why}", seconds(took)),
        }
        let passed = failure.is_none();
        self.done.push(Done {
            name: name.to_owned(),
            took,
            cpu,
            failure,
        });
        passed
    }

    /// Records a stage that cannot run because another failed. It counts as failed.
    pub(crate) fn not_run(&mut self, name: &str, needs: &str) {
        self.run(name, || bail!("not run: needs {needs}"));
    }

    /// Prints the table.
    ///
    /// # Errors
    /// When a stage failed, or none ran.
    pub(crate) fn finish(self) -> Result<()> {
        let width = self.done.iter().map(|d| d.name.len()).max().unwrap_or(0);
        println!(
            "\n{:width$}  {:6}  {:>8}  {:>8}",
            "stage", "result", "time", "CPU"
        );
        for done in &self.done {
            let result = if done.failure.is_none() { "ok" } else { "FAILED" };
            let (took, cpu) = (seconds(done.took), seconds(done.cpu));
            println!("{:width$}  {result:6}  {took:>8}  {cpu:>8}", done.name);
        }
        let took = seconds(self.done.iter().map(|d| d.took).sum());
        let cpu = seconds(self.done.iter().map(|d| d.cpu).sum());
        println!("{:width$}  {:6}  {took:>8}  {cpu:>8}", "all", "");
        let failed: Vec<&Done> = self.done.iter().filter(|d| d.failure.is_some()).collect();
        for done in &failed {
            println!("\n{}: {}", done.name, done.failure.as_deref().unwrap_or_default());
        }
        if self.done.is_empty() {
            bail!("no stage was run");
        }
        if !failed.is_empty() {
            bail!("{} of {} stages failed", failed.len(), self.done.len());
        }
        Ok(())
    }
}

/// Runs a part of a stage and prints its time.
///
/// # Errors
/// Those of the part.
pub(crate) fn timed<T>(name: &str, body: impl FnOnce() -> Result<T>) -> Result<T> {
    let begin = Instant::now();
    let result = body();
    println!("-- {name}: {}", seconds(begin.elapsed()));
    result
}

/// Processor time of our children so far; zero where the kernel does not say.
pub(crate) fn cpu() -> Duration {
    let time = |t: nix::sys::time::TimeVal| {
        let micros = t.tv_sec().saturating_mul(1_000_000).saturating_add(t.tv_usec());
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    };
    getrusage(UsageWho::RUSAGE_CHILDREN)
        .map(|usage| time(usage.user_time()) + time(usage.system_time()))
        .unwrap_or_default()
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_stage_does_not_stop_the_next_and_fails_the_run() {
        let mut stages = Stages::default();
        assert!(!stages.run("a", || bail!("broken")));
        assert!(stages.run("b", || Ok(())));
        assert_eq!(stages.finish().unwrap_err().to_string(), "1 of 2 stages failed");
    }

    #[test]
    fn a_stage_that_did_not_run_and_a_run_without_stages_fail() {
        let mut stages = Stages::default();
        stages.not_run("c", "a");
        assert!(stages.finish().is_err());
        assert!(Stages::default().finish().is_err());
    }
}
