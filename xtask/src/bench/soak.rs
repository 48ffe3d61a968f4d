//! Very many scrapes: nothing may grow.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use testkit::footprint::Footprint;
use testkit::hcas::Hcas;

use super::program::Program;

const WARM_UP: usize = 1_000;
const SCRAPES: usize = 20_000;
/// A collector with a clock of its own is read first after half a minute, by a thread that begins then.
const FIRST_READINGS: Duration = Duration::from_secs(60);

/// A value is looked for on every page of this number.
const LOOK: usize = 100;

/// nodewarden reuses a reading for 10 ms: only a later scrape causes a new one.
const APART: Duration = Duration::from_millis(11);

/// What RSS and PSS may grow by: allocators round up, and a page that is counted in parts changes its parts.
const KIB: u64 = 512;

/// Scrapes, and compares memory, descriptors and threads of each process before and after.
///
/// # Errors
/// When anything has grown, or a page was stale.
pub(super) fn run(program: &mut Program, hcas: &mut Hcas) -> Result<()> {
    let started = Instant::now();
    while started.elapsed() < FIRST_READINGS {
        scrape(program, hcas, WARM_UP)?;
    }
    let before = settled(program)?;
    let begin = Instant::now();
    scrape(program, hcas, SCRAPES)?;
    println!("{SCRAPES} scrapes in {:.0} s", begin.elapsed().as_secs_f64());
    let mut faults = program.faults();
    // One more thread may be one that is ending.
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let after = settled(program)?;
        let grown = grown(&before, &after);
        if grown.is_empty() || Instant::now() > end {
            print(&before, &after);
            faults.extend(grown);
            break;
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    if !faults.is_empty() {
        bail!("{}", faults.join("\n"));
    }
    Ok(())
}

fn scrape(program: &mut Program, hcas: &mut Hcas, count: usize) -> Result<()> {
    for number in 0..count {
        let gzip = number.is_multiple_of(2);
        if number % LOOK < 2 {
            program.scrape(gzip, hcas)?;
        } else {
            std::thread::sleep(APART);
            program.again(gzip)?;
        }
    }
    Ok(())
}

fn settled(program: &Program) -> Result<Vec<Footprint>> {
    std::thread::sleep(Duration::from_secs(1));
    program.pids().into_iter().map(Footprint::read).collect()
}

fn grown(before: &[Footprint], after: &[Footprint]) -> Vec<String> {
    let mut grown = Vec::new();
    for now in after {
        let Some(then) = before.iter().find(|p| p.pid == now.pid) else {
            grown.push(format!("{}: a process that was not there", now.name));
            continue;
        };
        for (what, then, now_, may) in [
            ("descriptors", then.fds as u64, now.fds as u64, 0),
            ("threads", then.threads as u64, now.threads as u64, 0),
            ("KiB of RSS", then.rss, now.rss, KIB.max(then.rss / 50)),
            ("KiB of PSS", then.pss, now.pss, KIB.max(then.pss / 50)),
        ] {
            if now_ > then + may {
                grown.push(format!("{}: {then} {what} before, {now_} after", now.name));
            }
        }
    }
    for then in before.iter().filter(|p| after.iter().all(|a| a.pid != p.pid)) {
        grown.push(format!("{}: has ended", then.name));
    }
    grown
}

fn print(before: &[Footprint], after: &[Footprint]) {
    println!(
        "{:30} {:>17} {:>17} {:>11} {:>9}",
        "process", "RSS KiB", "PSS KiB", "fds", "threads"
    );
    for now in after {
        if let Some(then) = before.iter().find(|p| p.pid == now.pid) {
            println!(
                "{:30} {:>8} {:>8} {:>8} {:>8} {:>5} {:>5} {:>4} {:>4}",
                now.name, then.rss, now.rss, then.pss, now.pss, then.fds, now.fds, then.threads, now.threads
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_of_anything_is_named() {
        let one = Footprint {
            pid: 1,
            name: "a".to_owned(),
            rss: 100_000,
            pss: 10_000,
            fds: 5,
            threads: 2,
        };
        let with = |change: fn(&mut Footprint)| {
            let mut other = one.clone();
            change(&mut other);
            grown(std::slice::from_ref(&one), &[other]).len()
        };
        assert_eq!(with(|p| p.rss += 2_000), 0);
        assert_eq!(with(|p| p.rss += 2_001), 1);
        assert_eq!(with(|p| p.pss += 513), 1);
        assert_eq!(with(|p| p.fds += 1), 1);
        assert_eq!(with(|p| p.threads += 1), 1);
        assert_eq!(with(|p| p.pid = 2), 2);
    }
}
