//! The longest time that a program keeps a core busy for one scrape, and so delays a job on this core.
//!
//! perf records when each thread starts and stops running on a core. Intervals of one program that follow each other
//! within [`SEAM`] count as one: a job that waits for the core waits for both.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::time::{ClockId, clock_gettime};
use testkit::daemon::Daemon;
use testkit::hcas::Hcas;
use testkit::wait::PATIENCE;

use super::program::Program;
use crate::cmd;

/// Time that the scheduler needs between two threads.
const SEAM: f64 = 20e-6;

/// Number of scrapes, one per second.
const SCRAPES: u32 = 8;

/// Longest intervals in milliseconds: median over all scrapes, and maximum. `None`: perf does not work here.
pub(super) fn measure(program: &mut Program, hcas: &mut Hcas, work: &Path) -> Result<Option<(f64, f64)>> {
    if !cmd::exists("perf") {
        return Ok(None);
    }
    let data = work.join("perf.data");
    let pids: Vec<String> = program.pids().iter().map(u32::to_string).collect();
    let seconds = (SCRAPES + 4).to_string();
    let mut command = cmd::program(
        "perf",
        &["record", "-q", "-k", "CLOCK_MONOTONIC", "--switch-events"],
    );
    command
        .args(["-e", "dummy:u", "-o"])
        .arg(&data)
        .args(["-p", &pids.join(",")]);
    let perf = Daemon::start({
        command.args(["--", "sleep", &seconds]);
        command
    })?;
    // perf does not report its start: a scrape without a switch is discarded below.
    std::thread::sleep(Duration::from_secs(2));
    let mut windows = Vec::new();
    for _ in 0..SCRAPES {
        std::thread::sleep(Duration::from_secs(1));
        let from = now()?;
        program.scrape(true, hcas)?;
        windows.push((from, now()?));
    }
    let status = perf.wait(PATIENCE)?;
    ensure!(status.success(), "perf: {}", perf.stderr());
    let mut script = cmd::program("perf", &["script", "--show-switch-events", "-i"]);
    let text = cmd::output(script.arg(&data))?;
    let stretches = merge(stretches(&text));
    let longest = windows.iter().filter_map(|(from, to)| {
        let inside = stretches.iter().filter(|(begin, end)| end > from && begin < to);
        inside.map(|(begin, end)| end - begin).max_by(f64::total_cmp)
    });
    let mut longest: Vec<f64> = longest.map(|s| s * 1e3).collect();
    longest.sort_by(f64::total_cmp);
    let median = longest.get(longest.len() / 2).copied();
    let median = median.context("perf recorded no switch during any scrape")?;
    Ok(longest.last().map(|max| (median, *max)))
}

fn now() -> Result<f64> {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
    Ok(time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
}

/// Times on a core, in seconds, of `perf script --show-switch-events`.
fn stretches(text: &str) -> Vec<(f64, f64)> {
    let (mut since, mut found) = (std::collections::HashMap::new(), Vec::new());
    for line in text.lines() {
        // `name tid [core] time: PERF_RECORD_SWITCH IN`; a name may contain spaces.
        let Some((head, event)) = line.split_once(": PERF_RECORD_SWITCH") else {
            continue;
        };
        let mut words = head.split_whitespace().rev();
        let time = words.next().and_then(|w| w.parse::<f64>().ok());
        let (Some(time), Some(tid)) = (time, words.nth(1)) else {
            continue;
        };
        // PERF_RECORD_SWITCH_CPU_WIDE has the direction in the same place, behind its suffix.
        if event.split_whitespace().any(|w| w == "IN") {
            since.insert(tid, time);
        } else if let Some(begin) = since.remove(tid) {
            found.push((begin, time));
        }
    }
    found
}

fn merge(mut stretches: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    stretches.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut merged: Vec<(f64, f64)> = Vec::new();
    for (begin, end) in stretches {
        match merged.last_mut() {
            Some(last) if begin - last.1 <= SEAM => last.1 = last.1.max(end),
            _ => merged.push((begin, end)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_of_threads_that_follow_each_other_are_one() {
        let text = "  a b  7 [-01]  10.000000: PERF_RECORD_SWITCH IN         
  a b  7 [-01]  10.001000: PERF_RECORD_SWITCH OUT preempt
   c  8 [000]  10.001010: PERF_RECORD_SWITCH IN
   c  8 [000]  10.003010: PERF_RECORD_SWITCH OUT
  a b  7 [-01]  10.004000: PERF_RECORD_SWITCH IN
  a b  7 [-01]  10.004500: PERF_RECORD_SWITCH OUT
   d  9 [000]  10.005000: PERF_RECORD_SWITCH OUT\n";
        let merged = merge(stretches(text));
        let us: Vec<f64> = merged.iter().map(|(b, e)| ((e - b) * 1e6).round()).collect();
        assert_eq!(us, [3010.0, 500.0]);
    }
}
