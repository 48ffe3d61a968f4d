//! The site's commands that check the node (`[[health.command]]`). The parent starts them at their own intervals: the daemon
//! cannot order one. Each run has a thread, so that a command that hangs delays neither another one nor an act.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use collectors::sys::boot;
use collectors::text::printable;
use model::commands::{CommandResult, CommandRun, CommandState};
use serde::Serialize;
use sys::poll::Waker;

use crate::config::{Exits, HealthCommand};
use crate::parent::slurm::here;
use crate::random;
use crate::runner::{CallError, Client, NO_RUNNER, Reply};

/// The longest first line of output, and the longest reason, in bytes.
const MAX_LINE: usize = 256;

/// The first run starts within this time, so that a restart of all nodes does not start all commands at once.
const FIRST: Duration = Duration::from_secs(30);

/// The standard input of a command.
#[derive(Clone, Debug, Serialize)]
struct Input {
    /// `site-NAME`.
    check: String,
    /// `start` (the first run since the parent's start or a new row) or `interval`.
    why: &'static str,
    /// The node's name in Slurm, once a read has proven it.
    node: Option<String>,
    /// The host name.
    host: String,
    /// nodewarden's version.
    version: &'static str,
}

/// A run that has ended.
#[derive(Debug)]
struct Ended {
    /// The number of the run.
    number: u64,
    run: CommandRun,
}

#[derive(Debug)]
struct Row {
    of: HealthCommand,
    state: CommandState,
    /// The start of the next run.
    next: Instant,
    /// The number of the run that has not ended.
    running: Option<u64>,
    /// A run was started.
    was_started: bool,
}

impl Row {
    /// Takes the end of a run, and logs a changed result. Returns the new state.
    fn ended(&mut self, run: CommandRun) -> CommandState {
        if self.state.last.as_ref().map(|last| last.result) != Some(run.result) {
            let (check, result) = (&self.state.check, run.result.word());
            tracing::info!(why = run.why, line = run.line, "check {check}: {result}");
        }
        self.state.ended(run);
        self.state.clone()
    }
}

/// Starts each command at its interval. It outlives the daemon.
#[derive(Debug)]
pub struct SiteChecks {
    rows: Vec<Row>,
    started: u64,
    ended: Receiver<Ended>,
    to_ended: Sender<Ended>,
    waker: Waker,
}

impl SiteChecks {
    /// With these rows; the waker wakes the parent after each run.
    pub fn new(rows: &[HealthCommand], waker: Waker) -> Self {
        let (to_ended, ended) = channel();
        let mut checks = Self {
            rows: Vec::new(),
            started: 0,
            ended,
            to_ended,
            waker,
        };
        checks.configure(rows);
        checks
    }

    /// Takes the rows of a new configuration. A row that runs the same command keeps its results.
    pub fn configure(&mut self, rows: &[HealthCommand]) {
        let mut before = std::mem::take(&mut self.rows);
        let now = Instant::now();
        let is_same = |row: &Row, of: &HealthCommand| {
            row.of.check.name == of.check.name && row.of.command == of.command
        };
        self.rows = rows
            .iter()
            .map(|of| match before.iter().position(|row| is_same(row, of)) {
                Some(at) => {
                    let mut row = before.swap_remove(at);
                    row.next = row.next.min(now + of.check.every);
                    row.state.max_age = of.check.max_age();
                    row.of = of.clone();
                    row
                }
                None => Row {
                    of: of.clone(),
                    state: CommandState::new(of.check.check(), of.check.max_age()),
                    next: now + FIRST.mul_f64(random::share()),
                    running: None,
                    was_started: false,
                },
            })
            .collect();
    }

    /// When to call [`SiteChecks::start`].
    pub fn deadline(&self) -> Option<Instant> {
        let waiting = self.rows.iter().filter(|row| row.running.is_none());
        waiting.map(|row| row.next).min()
    }

    /// Starts what is due. Returns the states that changed.
    pub fn start(&mut self, client: Option<&Client>, node: Option<&str>) -> Vec<CommandState> {
        let now = Instant::now();
        let mut changed = Vec::new();
        for row in &mut self.rows {
            if row.running.is_some() || row.next > now {
                continue;
            }
            self.started += 1;
            let every = row.of.check.every;
            row.next = now + every.mul_f64(0.9 + 0.2 * random::share());
            let input = Input {
                check: row.of.check.check(),
                why: if row.was_started { "interval" } else { "start" },
                node: node.map(str::to_owned),
                host: here::hostname(),
                version: env!("CARGO_PKG_VERSION"),
            };
            row.was_started = true;
            let task = Task {
                number: self.started,
                of: row.of.clone(),
                input,
                to: self.to_ended.clone(),
                waker: self.waker.clone(),
            };
            let failed = match client {
                None => Some(NO_RUNNER.to_owned()),
                Some(client) => task.start(client.clone()).err(),
            };
            match failed {
                None => row.running = Some(self.started),
                Some(why) => {
                    let run = run(Duration::ZERO, (CommandResult::Failed, why, String::new()));
                    changed.push(row.ended(run));
                }
            }
        }
        changed
    }

    /// Takes the runs that have ended. Returns the states that changed.
    pub fn ended(&mut self) -> Vec<CommandState> {
        let mut changed = Vec::new();
        while let Ok(Ended { number, run }) = self.ended.try_recv() {
            // The row of a run may be gone.
            let Some(row) = self.rows.iter_mut().find(|row| row.running == Some(number)) else {
                continue;
            };
            row.running = None;
            changed.push(row.ended(run));
        }
        changed
    }

    /// The state of every command.
    pub fn states(&self) -> impl Iterator<Item = &CommandState> {
        self.rows.iter().map(|row| &row.state)
    }
}

/// One run.
struct Task {
    number: u64,
    of: HealthCommand,
    input: Input,
    to: Sender<Ended>,
    waker: Waker,
}

impl Task {
    fn start(self, client: Client) -> Result<(), String> {
        let started = thread::Builder::new()
            .name("site-check".to_owned())
            .spawn(move || {
                let HealthCommand {
                    command,
                    limit,
                    exits,
                    ..
                } = &self.of;
                let begin = Instant::now();
                let reply = client.call(command, &self.input, *limit);
                let run = run(begin.elapsed(), judged(*exits, reply));
                // The parent lives longer than its threads.
                sys::ignore(self.to.send(Ended {
                    number: self.number,
                    run,
                }));
                self.waker.wake();
            });
        started
            .map(drop)
            .map_err(|error| format!("cannot start a thread: {error}"))
    }
}

fn run(took: Duration, (result, why, line): (CommandResult, String, String)) -> CommandRun {
    CommandRun {
        at: boot::boottime(),
        took,
        result,
        why: printable(why.as_bytes(), MAX_LINE),
        line: printable(line.as_bytes(), MAX_LINE),
    }
}

/// Result, reason and first line of a reply.
fn judged(exits: Exits, reply: Result<Reply, CallError>) -> (CommandResult, String, String) {
    match reply {
        Ok(Reply::Ended { code, stdout, .. }) => {
            let line = stdout.lines().next().unwrap_or_default().trim().to_owned();
            (meaning(exits, code), format!("exit code {code}"), line)
        }
        Ok(Reply::TimedOut(why)) => (CommandResult::TimedOut, why, String::new()),
        Ok(Reply::Failed(why) | Reply::Refused(why)) => (CommandResult::Failed, why, String::new()),
        Err(error) => (CommandResult::Failed, error.to_string(), String::new()),
    }
}

/// NHC: 1, the code of the check that failed, or with `-a` the number of failed checks. 10 is a wrong option. 124 is timeout(1) at
/// its limit; 125 is timeout(1) or env(1) that could not start it. Above 125 the shell or a signal ended it: 142 is its own time-out.
const fn meaning(exits: Exits, code: i32) -> CommandResult {
    match (exits, code) {
        (_, 0) => CommandResult::Healthy,
        (Exits::Own, 1) => CommandResult::Unhealthy,
        (Exits::Nhc, 1..=9 | 11..=123) => CommandResult::Unhealthy,
        (Exits::Nhc, 124 | 142) => CommandResult::TimedOut,
        (Exits::Own | Exits::Nhc, _) => CommandResult::Unknown,
    }
}

#[cfg(test)]
#[path = "checks_tests.rs"]
mod tests;
