//! The phases of a run. The programs take turns in each, so that other load on the machine, and its changes of speed, affect all of
//! them.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use testkit::footprint::{self, Footprint};
use testkit::hcas::Hcas;

use super::program::Program;
use super::warm::Warm;
use super::{burst, machine, syscalls};

/// How much is measured.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) rounds: usize,
    /// Scrapes of each program in a round, one a second.
    pub(super) seconds: u32,
    /// Turns of each program in a round.
    pub(super) turns: u32,
    /// Scrapes of a turn, in a row.
    pub(super) row: u32,
    /// Seconds without a scrape.
    pub(super) idle: u64,
}

pub(super) const FULL: Plan = Plan {
    rounds: 3,
    seconds: 20,
    turns: 16,
    row: 5,
    idle: 30,
};

pub(super) const QUICK: Plan = Plan {
    rounds: 1,
    seconds: 15,
    turns: 6,
    row: 5,
    idle: 20,
};

/// Many scrapes of one kind: CPU of each round in milliseconds a scrape, and how long each took.
#[derive(Default)]
pub(super) struct Series {
    pub(super) cpu: Vec<f64>,
    pub(super) took: Vec<f64>,
}

impl Series {
    /// Median over the rounds; `None` before the first.
    pub(super) fn median(&self) -> Option<f64> {
        median(self.cpu.clone())
    }

    /// Median of the ratio to another program in the same round; `None` if one has no such round.
    pub(super) fn relative(&self, other: &Self) -> Option<f64> {
        if self.cpu.len() != other.cpu.len() {
            return None;
        }
        let ratios = self.cpu.iter().zip(&other.cpu).map(|(own, other)| own / other);
        median(ratios.collect())
    }

    /// The latency that a share of the scrapes kept.
    pub(super) fn percentile(&self, share: usize) -> Option<f64> {
        let mut sorted = self.took.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
            .get((sorted.len() * share / 100).min(sorted.len().saturating_sub(1)))
            .copied()
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// What was measured of one program.
#[derive(Default)]
pub(super) struct Figures {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) method: &'static str,
    pub(super) faults: Vec<String>,
    pub(super) shown: usize,
    pub(super) samples: usize,
    pub(super) bytes_gzip: usize,
    pub(super) bytes_plain: usize,
    /// gzip, one scrape a second.
    pub(super) slow: Series,
    /// gzip in a row.
    pub(super) gzip: Series,
    /// Plain text in a row.
    pub(super) plain: Series,
    pub(super) processes: Vec<Footprint>,
    /// Voluntary context switches a second without a scrape.
    pub(super) idle_switches: f64,
    /// Microseconds of CPU a second without a scrape.
    pub(super) idle_cpu: f64,
    pub(super) syscalls: Option<f64>,
    /// Milliseconds: median, longest.
    pub(super) burst: Option<(f64, f64)>,
    /// Programs that took turns with this one, if those of the table did not.
    pub(super) beside: Vec<Figures>,
}

/// Measures programs that run side by side on one tree.
///
/// # Errors
/// When a program does not answer.
pub(super) fn all(
    programs: &mut [Program],
    hcas: &mut Hcas,
    plan: Plan,
    work: &Path,
) -> Result<Vec<Figures>> {
    let mut figures: Vec<Figures> = programs
        .iter()
        .map(|p| Figures {
            name: p.name.clone(),
            version: p.version.clone(),
            method: p.meter.method(),
            shown: p.shows().0,
            ..Figures::default()
        })
        .collect();
    // What a program does in its first seconds belongs to its start.
    machine::settle(machine::SETTLE)?;
    let warm = Warm::keep(programs.iter().flat_map(Program::pids).collect())?;
    for round in 1..=plan.rounds {
        println!("round {round} of {}", plan.rounds);
        once_a_second(programs, &mut figures, hcas, plan.seconds)?;
        in_a_row(programs, &mut figures, hcas, plan)?;
    }
    println!("{} s without a scrape", plan.idle);
    idle(programs, &mut figures, plan.idle)?;
    drop(warm);
    for (program, f) in programs.iter_mut().zip(&mut figures) {
        f.burst = burst::measure(program, hcas, work)?;
        f.processes = program
            .pids()
            .into_iter()
            .map(Footprint::read)
            .collect::<Result<_>>()?;
    }
    // Last: strace slows a program down, and its workers may then be late.
    for (program, f) in programs.iter_mut().zip(&mut figures) {
        f.syscalls = syscalls::measure(program, hcas, work)?;
        f.faults = program.faults();
    }
    Ok(figures)
}

fn once_a_second(
    programs: &mut [Program],
    figures: &mut [Figures],
    hcas: &mut Hcas,
    scrapes: u32,
) -> Result<()> {
    let used = |programs: &[Program]| {
        programs
            .iter()
            .map(|p| p.meter.used())
            .collect::<Result<Vec<_>>>()
    };
    let turn = Duration::from_secs(1) / u32::try_from(programs.len())?;
    let before = used(programs)?;
    let mut next = Instant::now();
    for _ in 0..scrapes {
        for (program, f) in programs.iter_mut().zip(figures.iter_mut()) {
            sleep(next.saturating_duration_since(Instant::now()));
            next += turn;
            f.slow.took.push(ms(program.scrape(true, hcas)?.took));
        }
    }
    // What the last scrape left to do belongs to it.
    sleep(turn);
    for ((f, before), after) in figures.iter_mut().zip(before).zip(used(programs)?) {
        f.slow
            .cpu
            .push(ms(after.saturating_sub(before)) / f64::from(scrapes));
    }
    Ok(())
}

/// Scrapes in a row. A turn is short: within a minute, the speed of a machine changes by more than the programs differ. Ticks of 10 ms
/// need a long one.
fn in_a_row(
    programs: &mut [Program],
    figures: &mut [Figures],
    hcas: &mut Hcas,
    mut plan: Plan,
) -> Result<()> {
    if !programs.iter().all(|program| program.meter.is_exact()) {
        (plan.turns, plan.row) = (1, plan.turns * plan.row);
    }
    let mut used = vec![[Duration::ZERO; 2]; programs.len()];
    for _ in 0..plan.turns {
        for ((program, f), [gzip, plain]) in programs.iter_mut().zip(&mut *figures).zip(&mut used) {
            f.bytes_gzip = turn(program, (&mut f.gzip, gzip), true, hcas, plan.row)?.0;
            (f.bytes_plain, f.samples) = turn(program, (&mut f.plain, plain), false, hcas, plan.row)?;
        }
    }
    for (f, [gzip, plain]) in figures.iter_mut().zip(used) {
        let scrapes = f64::from(plan.turns * plan.row);
        f.gzip.cpu.push(ms(gzip) / scrapes);
        f.plain.cpu.push(ms(plain) / scrapes);
    }
    Ok(())
}

/// One turn of a program. Gives the size of a body, and the samples of a page.
fn turn(
    program: &mut Program,
    (series, used): (&mut Series, &mut Duration),
    gzip: bool,
    hcas: &mut Hcas,
    scrapes: u32,
) -> Result<(usize, usize)> {
    program.scrape(gzip, hcas)?;
    let before = program.meter.used()?;
    let mut last = (0, 0);
    for _ in 0..scrapes {
        let scrape = program.scrape(gzip, hcas)?;
        series.took.push(ms(scrape.took));
        last = (scrape.bytes, scrape.samples());
    }
    *used += program.meter.used()?.saturating_sub(before);
    Ok(last)
}

fn idle(programs: &[Program], figures: &mut [Figures], seconds: u64) -> Result<()> {
    sleep(Duration::from_secs(2));
    let read = || {
        let one = |p: &Program| Ok((footprint::voluntary_switches(&p.pids())?, p.meter.used()?));
        programs.iter().map(one).collect::<Result<Vec<_>>>()
    };
    let (begin, before) = (Instant::now(), read()?);
    sleep(Duration::from_secs(seconds));
    let (after, took) = (read()?, begin.elapsed().as_secs_f64());
    for ((f, before), after) in figures.iter_mut().zip(&before).zip(&after) {
        let switches = footprint::added(&before.0, &after.0) as f64;
        f.idle_switches = switches / took;
        f.idle_cpu = after.1.saturating_sub(before.1).as_secs_f64() * 1e6 / took;
    }
    Ok(())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_percentiles_of_few_values() {
        let mut series = Series::default();
        assert_eq!((series.median(), series.percentile(99)), (None, None));
        series.cpu = vec![3.0, 1.0, 2.0];
        series.took = (1..=200).rev().map(f64::from).collect();
        assert_eq!(series.median(), Some(2.0));
        let mut other = Series::default();
        assert_eq!(series.relative(&other), None, "rounds that are not the same");
        // The machine is half as fast in the second round.
        other.cpu = vec![1.0, 2.0, 1.0];
        series.cpu = vec![2.0, 4.0, 3.0];
        assert_eq!(series.relative(&other), Some(2.0));
        assert_eq!(
            (series.percentile(50), series.percentile(99)),
            (Some(101.0), Some(199.0))
        );
        series.took = vec![7.0];
        assert_eq!(series.percentile(99), Some(7.0));
    }
}
