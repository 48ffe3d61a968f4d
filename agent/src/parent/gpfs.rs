//! The commands of GPFS (`gpfs.commands`). The parent asks the runner for them, one after the other, and writes their output to
//! files that the worker `gpfs` reads. It parses nothing. One thread at a time: a command that hangs delays nothing else.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use collectors::gpfs::commands::{ALL, Command, EVERY, EXIT_CODE, LIMIT};
use collectors::sys::root;
use collectors::text::printable;
use collectors::{Env, domain};
use sys::poll::Waker;
use sys::{dirs, files, store};

use crate::config::gpfs;
use crate::random;
use crate::runner::{CallError, Client, NO_RUNNER, Reply};

/// The first round starts within this time, so that a restart of all nodes does not start all commands at once.
const FIRST: Duration = Duration::from_secs(30);

/// The longest reason, in bytes.
const MAX_WHY: usize = 256;

/// Why a run left no output: a word that the collector knows, and the reason for people.
type Failure = (&'static str, String);

/// The failures of a round, in the order of the commands.
type Round = Vec<Option<Failure>>;

/// Runs the commands at their interval. It outlives the daemon.
#[derive(Debug)]
pub struct GpfsCommands {
    env: Env,
    run_dir: PathBuf,
    /// The start of the next round. `None`: off.
    next: Option<Instant>,
    is_running: bool,
    last: Round,
    ended: Receiver<Round>,
    to_ended: Sender<Round>,
    waker: Waker,
}

impl GpfsCommands {
    /// The waker wakes the parent after each round.
    pub fn new(is_on: bool, env: &Env, run_dir: &Path, waker: Waker) -> Self {
        let (to_ended, ended) = channel();
        let mut commands = Self {
            env: env.clone(),
            run_dir: run_dir.to_owned(),
            next: None,
            is_running: false,
            last: Round::new(),
            ended,
            to_ended,
            waker,
        };
        commands.configure(is_on);
        commands
    }

    /// Takes a new configuration.
    pub fn configure(&mut self, is_on: bool) {
        // A recording has its own files.
        self.next = if is_on && self.env.is_live() {
            let first = Instant::now() + FIRST.mul_f64(random::share());
            self.next.or(Some(first))
        } else {
            None
        };
    }

    /// When to call [`GpfsCommands::start`].
    pub fn deadline(&self) -> Option<Instant> {
        self.next.filter(|_| !self.is_running)
    }

    /// Starts a round that is due.
    pub fn start(&mut self, client: Option<Client>) {
        let now = Instant::now();
        if self.deadline().is_none_or(|next| next > now) {
            return;
        }
        self.next = Some(now + EVERY.mul_f64(0.9 + 0.2 * random::share()));
        let (env, run_dir) = (self.env.clone(), self.run_dir.clone());
        let (to, waker) = (self.to_ended.clone(), self.waker.clone());
        let started = thread::Builder::new().name("gpfs".to_owned()).spawn(move || {
            let is_here = root::has_source(&env, domain::GPFS.only_with);
            let round = is_here.then(|| round(client.as_ref(), &run_dir));
            // The parent lives longer than its threads.
            sys::ignore(to.send(round.unwrap_or_default()));
            waker.wake();
        });
        match started {
            Ok(_) => self.is_running = true,
            Err(error) => tracing::error!(%error, "cannot start a thread for the commands of GPFS"),
        }
    }

    /// Takes the round that has ended, and logs failures that are new.
    pub fn ended(&mut self) {
        while let Ok(round) = self.ended.try_recv() {
            self.is_running = false;
            for (at, (command, failure)) in ALL.iter().zip(&round).enumerate() {
                let before = self.last.get(at).and_then(Option::as_ref);
                match failure {
                    Some((word, why)) if before.map(|(word, _)| word) != Some(word) => {
                        tracing::warn!(why, "{}: {word}", command.name);
                    }
                    None if before.is_some() => tracing::info!("{}: works again", command.name),
                    _ => {}
                }
            }
            self.last = round;
        }
    }
}

/// Runs each command, and leaves its output or the reason for its absence.
fn round(client: Option<&Client>, run_dir: &Path) -> Round {
    let folder = match dirs::gpfs(run_dir) {
        Ok(folder) => folder,
        Err(error) => {
            let failed = || Some(("failed", error.to_string()));
            return ALL.iter().map(|_| failed()).collect();
        }
    };
    let run = |command: &&Command| {
        let failure = match run(client, command) {
            Ok(output) => keep(&folder, command, &output)
                .err()
                .map(|e| ("failed", e.to_string())),
            Err(failure) => Some(failure),
        };
        let note = folder.join(command.failed_file());
        let noted = match &failure {
            None => files::remove(&note),
            Some((word, why)) => store::replace(&note, format!("{word} {why}\n").as_bytes(), 0o644, false),
        };
        if let Err(error) = noted {
            tracing::warn!(path = %note.display(), %error, "cannot note the result of a command of GPFS");
        }
        failure
    };
    ALL.iter().map(run).collect()
}

fn keep(folder: &Path, command: &Command, output: &str) -> io::Result<()> {
    store::replace(&folder.join(command.file()), output.as_bytes(), 0o644, false)
}

/// The whole output of a run that succeeded.
fn run(client: Option<&Client>, command: &Command) -> Result<String, Failure> {
    let Some(client) = client else {
        return Err(("refused", NO_RUNNER.to_owned()));
    };
    judged(client.call(&gpfs::name(command), &(), LIMIT))
}

fn judged(reply: Result<Reply, CallError>) -> Result<String, Failure> {
    let (word, why) = match reply {
        Ok(Reply::Ended {
            code: 0,
            stdout,
            truncated: false,
            ..
        }) => return Ok(stdout),
        Ok(Reply::Ended { code: 0, .. }) => ("failed", "too much output".to_owned()),
        Ok(Reply::Ended { code, stderr, .. }) => {
            let line = stderr.lines().next().unwrap_or_default();
            ("failed", format!("{EXIT_CODE} {code}: {line}"))
        }
        Ok(Reply::TimedOut(why)) => ("timeout", why),
        Ok(Reply::Refused(why)) => ("refused", why),
        Ok(Reply::Failed(why)) => ("failed", why),
        Err(error) => ("failed", error.to_string()),
    };
    Err((word, printable(why.as_bytes(), MAX_WHY)))
}

#[cfg(test)]
#[path = "gpfs_tests.rs"]
mod tests;
