//! The files with the output of commands of GPFS, as series. A file that cannot be used costs only its own series.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::command_metrics::{TIMESTAMP, UNREADABLE};
use super::commands::{self, Command, EXIT_CODE, MAX_REPLY, STALE};
use super::output::Output;
use crate::sys::{boot, root};
use crate::{Block, Device, Env, Error, Subject};

/// How far a file's time may be ahead of the clock: it was set back since.
const AHEAD: Duration = Duration::from_secs(60);

/// Why an output is not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    Absent,
    Stale,
    Denied,
    /// Others than root and our own user may write it.
    Untrusted,
    Io,
    Malformed,
    /// Rows beyond a limit.
    Limit,
    /// The last run ended with an error.
    Failed,
    /// The last run did not end in time.
    Timeout,
    /// The last run was not started.
    Refused,
}

impl Reason {
    /// Every reason of a failed run.
    const OF_RUNS: [Self; 3] = [Self::Failed, Self::Timeout, Self::Refused];

    /// The value of the label `reason`.
    const fn word(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Stale => "stale",
            Self::Denied => "denied",
            Self::Untrusted => root::UNTRUSTED,
            Self::Io => "io",
            Self::Malformed => "malformed",
            Self::Limit => "limit",
            Self::Failed => "failed",
            Self::Timeout => "timeout",
            Self::Refused => "refused",
        }
    }

    fn of(error: &Error) -> Self {
        match error.reason() {
            "denied" => Self::Denied,
            root::UNTRUSTED => Self::Untrusted,
            _ => Self::Io,
        }
    }
}

/// The reasons of one output.
#[derive(Debug, Default)]
pub(super) struct Faults(BTreeSet<Reason>);

impl Faults {
    pub(super) fn add(&mut self, reason: Reason) {
        self.0.insert(reason);
    }

    fn show(&self, command: &Command, out: &mut Block) {
        for reason in &self.0 {
            out.u64(&UNREADABLE, &[command.name, reason.word()], 1);
        }
    }
}

/// A run that left no output.
struct Failure {
    reason: Reason,
    /// It ended, with another exit code than 0.
    has_code: bool,
}

/// The folder of the files.
pub(super) struct Replies {
    folder: PathBuf,
    /// A recording's files are as old as the recording, and belong to the user who unpacked it.
    is_live: bool,
    subject: Subject,
}

impl Replies {
    pub(super) fn new(env: &Env, folder: &str) -> Self {
        Self {
            folder: env.path(folder),
            is_live: env.is_live(),
            subject: commands::subject(),
        }
    }

    /// The text of a file, and when it was written in seconds since the epoch. An error: it must not be used.
    fn text(&self, path: &Path) -> Result<(f64, String), Reason> {
        let opened = if self.is_live {
            root::open_trusted(path)
        } else {
            root::open(path)
        };
        let file = opened.map_err(|e| Reason::of(&e))?.ok_or(Reason::Absent)?;
        let found = file.metadata().map_err(|_| Reason::Io)?;
        let written = found.ctime() as f64 + found.ctime_nsec() as f64 / 1e9;
        if self.is_live && !is_young(written, now(), boot::boottime()) {
            return Err(Reason::Stale);
        }
        let most = MAX_REPLY as u64;
        let bytes = root::read_open(path, file, most + 1).map_err(|e| Reason::of(&e))?;
        let bytes = bytes.ok_or(Reason::Absent)?;
        if bytes.len() as u64 > most {
            return Err(Reason::Limit);
        }
        Ok((written, String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Why the last run left no output. `None`: it did, or nothing is known.
    fn failure(&self, command: &Command) -> Option<Failure> {
        let (_, text) = self.text(&self.folder.join(command.failed_file())).ok()?;
        let text = text.trim_start();
        let (word, why) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        if word.is_empty() {
            return None;
        }
        let known = Reason::OF_RUNS.into_iter().find(|reason| reason.word() == word);
        Some(Failure {
            reason: known.unwrap_or(Reason::Failed),
            has_code: why.trim_start().starts_with(EXIT_CODE),
        })
    }

    fn show(&self, command: &Command, out: &mut Block) {
        let mut faults = Faults::default();
        let failure = self.failure(command);
        faults.0.extend(failure.as_ref().map(|failure| failure.reason));
        if command.asks_daemon && failure.is_some_and(|failure| failure.has_code) {
            faults.show(command, out);
            return;
        }
        match self.text(&self.folder.join(command.file())) {
            Ok((at, text)) => {
                if self.is_live {
                    out.f64(&TIMESTAMP, &[command.name], at);
                }
                let output = Output::parse(command.program, &text);
                if output.bad() > 0 {
                    faults.add(Reason::Malformed);
                }
                (command.show)(&output, out, &mut faults);
            }
            // The run that should have written it has failed: that is the reason.
            Err(Reason::Absent) if !faults.0.is_empty() => {}
            Err(reason) => faults.add(reason),
        }
        faults.show(command, out);
    }
}

impl Device for Replies {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        for command in commands::ALL {
            self.show(command, out);
        }
        Ok(())
    }
}

/// The time in seconds since the epoch.
fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

/// Whether a file written at one time may be used at another, both in seconds since the epoch. One from before the boot reports
/// a daemon that is gone.
fn is_young(written: f64, now: f64, since_boot: Duration) -> bool {
    let most = STALE.min(since_boot);
    (-AHEAD.as_secs_f64()..=most.as_secs_f64()).contains(&(now - written))
}

/// Any bytes, as the output of each command.
pub(crate) fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for command in commands::ALL {
        super::output::check(command.program, &text);
        let mut block = Block::default();
        let output = Output::parse(command.program, &text);
        (command.show)(&output, &mut block, &mut Faults::default());
        block.finish();
        assert!(block.iter().count() < 1000, "more series than the limits allow");
    }
}

#[cfg(test)]
#[path = "replies_tests.rs"]
mod tests;
