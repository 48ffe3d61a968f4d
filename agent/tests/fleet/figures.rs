//! Processor time of slurmctld and time of commands, as a table.

use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use testkit::slurm::Slurm;

use crate::node::Node;

/// slurmctld works on after a change for this time: it saves its state and schedules. That belongs to the change.
pub const AFTER: Duration = Duration::from_secs(6);

/// Whether a limit that is exceeded fails the test: `cargo xtask e2e --full`, `ci --full`.
pub fn limits_count() -> bool {
    std::env::var_os("NODEWARDEN_LIMITS").is_some()
}

/// Many operations of one kind.
#[derive(Debug)]
pub struct Measured {
    /// Processor time of slurmctld.
    pub cpu: Duration,
    /// The time of all operations, without what follows.
    pub took: Duration,
    /// Of each operation, sorted.
    times: Vec<Duration>,
}

impl Measured {
    /// Processor time of slurmctld for each operation, in milliseconds.
    pub fn cpu_ms(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e3 / self.times.len() as f64
    }

    pub fn percentile(&self, percent: usize) -> Duration {
        self.times[(self.times.len() - 1) * percent / 100]
    }
}

/// Runs `each` for every node, `at_once` at the same time.
pub fn measure(
    slurm: &Slurm,
    nodes: &mut [Node],
    at_once: usize,
    each: impl Fn(&mut Node) + Sync,
) -> Measured {
    slurm.wait_idle().unwrap();
    let (cpu, start) = (slurm.controller_cpu().unwrap(), Instant::now());
    let share = nodes.len().div_ceil(at_once);
    let mut times: Vec<Duration> = thread::scope(|scope| {
        let timed = |node: &mut Node| {
            let start = Instant::now();
            each(node);
            start.elapsed()
        };
        let threads: Vec<_> = nodes
            .chunks_mut(share)
            .map(|nodes| scope.spawn(move || nodes.iter_mut().map(timed).collect::<Vec<_>>()))
            .collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    let took = start.elapsed();
    thread::sleep(AFTER);
    times.sort_unstable();
    Measured {
        cpu: slurm.controller_cpu().unwrap() - cpu,
        took,
        times,
    }
}

/// The rows, and the limits that are exceeded.
#[derive(Debug, Default)]
pub struct Table {
    rows: String,
    exceeded: Vec<String>,
}

impl Table {
    pub fn add(&mut self, what: &str, measured: &Measured) {
        let ms = |percent| measured.percentile(percent).as_secs_f64() * 1e3;
        writeln!(
            self.rows,
            "| {what} | {} | {:.2} | {:.0} / {:.0} | {:.0} |",
            measured.times.len(),
            measured.cpu_ms(),
            ms(50),
            ms(99),
            measured.times.len() as f64 / measured.took.as_secs_f64(),
        )
        .unwrap();
    }

    /// A limit that only a machine without other work can keep.
    pub fn limit(&mut self, what: &str, found: f64, most: f64) {
        if found > most {
            self.exceeded
                .push(format!("{what}: {found:.2}, expected at most {most}"));
        }
    }

    /// Prints the table.
    ///
    /// # Panics
    /// Where limits count and one is exceeded.
    pub fn print(&self, more: &[String]) {
        println!(
            "\n| | operations | slurmctld CPU ms each | p50 / p99 ms | a second |\n|---|---|---|---|---|"
        );
        println!("{}", self.rows);
        for line in more.iter().chain(&self.exceeded) {
            println!("* {line}");
        }
        assert!(!limits_count() || self.exceeded.is_empty(), "{:?}", self.exceeded);
    }
}
