//! The site's commands that check the node: the last result of each, and how often each result came.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The result of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandResult {
    /// Exit code 0.
    Healthy,
    /// Exit code 1.
    Unhealthy,
    /// Another exit code.
    Unknown,
    /// It did not end within its time limit.
    TimedOut,
    /// It could not be started, or a signal ended it.
    Failed,
}

impl CommandResult {
    /// Every result.
    pub const ALL: [Self; 5] = [
        Self::Healthy,
        Self::Unhealthy,
        Self::Unknown,
        Self::TimedOut,
        Self::Failed,
    ];

    /// The value of a label.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Unhealthy => "unhealthy",
            Self::Unknown => "unknown",
            Self::TimedOut => "timed_out",
            Self::Failed => "failed",
        }
    }

    /// The state of the node: `None` is unknown, which never drains and never undrains.
    pub const fn is_healthy(self) -> Option<bool> {
        match self {
            Self::Healthy => Some(true),
            Self::Unhealthy => Some(false),
            Self::Unknown | Self::TimedOut | Self::Failed => None,
        }
    }
}

/// The last run of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRun {
    /// Its end, as time since boot.
    pub at: Duration,
    /// Its duration.
    pub took: Duration,
    /// Its result.
    pub result: CommandResult,
    /// Exit code or error, in a few words.
    pub why: String,
    /// The first line of its standard output, printable and cut; empty without one.
    pub line: String,
}

/// One command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandState {
    /// The check's id: `site-NAME`.
    pub check: String,
    /// The greatest age of a result that counts.
    pub max_age: Duration,
    /// The last run. `None`: none has ended since the parent's start.
    pub last: Option<CommandRun>,
    /// Runs since the parent's start, by result, in the order of [`CommandResult::ALL`].
    pub runs: [u64; CommandResult::ALL.len()],
}

impl CommandState {
    /// A command that has not run.
    pub fn new(check: String, max_age: Duration) -> Self {
        Self {
            check,
            max_age,
            last: None,
            runs: [0; CommandResult::ALL.len()],
        }
    }

    /// Takes a run that has ended.
    pub fn ended(&mut self, run: CommandRun) {
        let all = CommandResult::ALL.iter().zip(&mut self.runs);
        for (_, count) in all.filter(|(result, _)| **result == run.result) {
            *count = count.saturating_add(1);
        }
        self.last = Some(run);
    }

    /// The last run, if its result still counts at that time since boot.
    pub fn current(&self, at: Duration) -> Option<&CommandRun> {
        let is_current = |run: &&CommandRun| at.saturating_sub(run.at) <= self.max_age;
        self.last.as_ref().filter(is_current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_result_is_counted_and_an_old_one_no_longer_counts() {
        let second = Duration::from_secs;
        let mut state = CommandState::new("site-a".to_owned(), second(180));
        assert_eq!(state.current(second(1)), None);
        let run = |at, result| CommandRun {
            at: second(at),
            took: second(1),
            result,
            why: String::new(),
            line: String::new(),
        };
        state.ended(run(10, CommandResult::TimedOut));
        state.ended(run(20, CommandResult::Unhealthy));
        state.ended(run(30, CommandResult::Unhealthy));
        assert_eq!(state.runs, [0, 2, 0, 1, 0]);
        assert_eq!(state.current(second(210)).unwrap().at, second(30));
        assert_eq!(state.current(second(211)), None);
    }
}
