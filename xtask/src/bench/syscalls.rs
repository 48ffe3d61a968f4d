//! System calls, by strace.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use testkit::daemon::Daemon;
use testkit::hcas::Hcas;
use testkit::proc;
use testkit::wait::{self, PATIENCE};

use super::program::Program;
use crate::cmd;

const SCRAPES: u32 = 20;

/// System calls of all processes per scrape, including other work. `None`: strace does not work here.
pub(super) fn measure(program: &mut Program, hcas: &mut Hcas, work: &Path) -> Result<Option<f64>> {
    let calls = count(&program.pids(), work, || {
        (0..SCRAPES).try_for_each(|_| program.scrape(true, hcas).map(drop))
    })?;
    Ok(calls.map(|calls| calls / f64::from(SCRAPES)))
}

/// System calls of these processes during something. `None`: strace does not work here.
pub(super) fn count(pids: &[u32], work: &Path, during: impl FnOnce() -> Result<()>) -> Result<Option<f64>> {
    if !cmd::exists("strace") {
        return Ok(None);
    }
    let file = work.join("strace");
    let mut command = cmd::program("strace", &["-c", "-f", "-o"]);
    command.arg(&file);
    for pid in pids {
        command.args(["-p", &pid.to_string()]);
    }
    let strace = Daemon::start(command)?;
    let tracer = strace.pid().to_string();
    let traced =
        |pid: &u32| proc::Status::read(*pid).is_ok_and(|s| s.get("TracerPid").is_ok_and(|t| t == tracer));
    wait::until("strace attached", PATIENCE, || {
        ensure!(strace.ended()?.is_none(), "strace: {}", strace.stderr());
        Ok(pids.iter().all(traced).then_some(()))
    })?;
    during()?;
    strace.signal(Signal::SIGINT)?;
    strace.wait(PATIENCE)?;
    let text = std::fs::read_to_string(&file)?;
    total(&text).map(Some)
}

/// The number of calls in the last line of `strace -c`.
fn total(text: &str) -> Result<f64> {
    let line = text
        .lines()
        .find(|l| l.split_whitespace().last() == Some("total"));
    let calls = line.and_then(|l| l.split_whitespace().nth(3)?.parse().ok());
    calls.with_context(|| format!("no total in what strace says:\n{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_with_and_without_errors() {
        let with = "% time     seconds  usecs/call     calls    errors syscall\n\
                    100.00    0.002541           1      1234        12 total\n";
        assert_eq!(total(with).unwrap(), 1234.0);
        assert_eq!(
            total("100.00    0.002541           1      1234           total\n").unwrap(),
            1234.0
        );
        assert!(total("").is_err());
    }
}
