//! Runs checks one after the other, goes on after a failed one, and says at the end what became of each.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// What became of the stages so far.
#[derive(Default)]
pub(crate) struct Stages {
    done: Vec<Done>,
}

struct Done {
    name: String,
    took: Duration,
    /// Why it failed; `None` for a pass.
    failure: Option<String>,
}

impl Stages {
    /// Runs one stage. Whether it passed.
    pub(crate) fn run(&mut self, name: &str, body: impl FnOnce() -> Result<()>) -> bool {
        println!("\n==> {name}");
        let begin = Instant::now();
        let failure = body().err().map(|error| format!("{error:#}"));
        let took = begin.elapsed();
        match &failure {
            None => println!("<== {name}: ok, {}", seconds(took)),
            Some(why) => println!("<== {name}: FAILED, {}: {why}", seconds(took)),
        }
        let passed = failure.is_none();
        self.done.push(Done {
            name: name.to_owned(),
            took,
            failure,
        });
        passed
    }

    /// Notes a stage that cannot run because another failed. It counts as failed: nobody knows what it would say.
    pub(crate) fn not_run(&mut self, name: &str, needs: &str) {
        self.run(name, || bail!("not run: needs {needs}"));
    }

    /// Prints the table.
    ///
    /// # Errors
    /// When a stage failed, or none ran.
    pub(crate) fn finish(self) -> Result<()> {
        let width = self.done.iter().map(|d| d.name.len()).max().unwrap_or(0);
        println!("\n{:width$}  {:6}  {:>8}", "stage", "result", "time");
        for done in &self.done {
            let result = if done.failure.is_none() { "ok" } else { "FAILED" };
            println!("{:width$}  {result:6}  {:>8}", done.name, seconds(done.took));
        }
        println!(
            "{:width$}  {:6}  {:>8}",
            "all",
            "",
            seconds(self.done.iter().map(|d| d.took).sum())
        );
        let failed: Vec<&Done> = self.done.iter().filter(|d| d.failure.is_some()).collect();
        for done in &failed {
            println!("\n{}: {}", done.name, done.failure.as_deref().unwrap_or_default());
        }
        if self.done.is_empty() {
            bail!("nothing was run");
        }
        if !failed.is_empty() {
            bail!("{} of {} stages failed", failed.len(), self.done.len());
        }
        Ok(())
    }
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
