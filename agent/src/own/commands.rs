//! The site's commands that check the node.

use std::time::Duration;

use collectors::Value;
use exposition::Writer;
use model::commands::{CommandResult, CommandState};
use model::snapshot::Snapshot;

use super::metrics::{COMMAND_AGE, COMMAND_DURATION, COMMAND_HEALTHY, COMMAND_RUNS};

/// The last result as a word: `unknown` if it is too old, `none` before the first one.
pub fn result(state: &CommandState, at: Duration) -> &'static str {
    match (state.current(at), &state.last) {
        (Some(run), _) => run.result.word(),
        (None, Some(_)) => CommandResult::Unknown.word(),
        (None, None) => "none",
    }
}

pub(super) fn render(snapshot: &Snapshot, w: &mut Writer<'_>) {
    let all = &snapshot.commands;
    let last = || {
        all.iter()
            .filter_map(|state| Some((state.check.as_str(), state.last.as_ref()?)))
    };
    w.family(&COMMAND_HEALTHY, |f| {
        for state in all.iter() {
            let current = state.current(snapshot.at);
            if let Some(healthy) = current.and_then(|run| run.result.is_healthy()) {
                f.u64(&[&state.check], healthy.into());
            }
        }
    });
    w.family(&COMMAND_AGE, |f| {
        for (check, run) in last() {
            let age = snapshot.at.saturating_sub(run.at);
            f.put(&[check], Value::F64(age.as_secs_f64()));
        }
    });
    w.family(&COMMAND_DURATION, |f| {
        for (check, run) in last() {
            f.put(&[check], Value::F64(run.took.as_secs_f64()));
        }
    });
    w.family(&COMMAND_RUNS, |f| {
        for state in all.iter() {
            for (result, count) in CommandResult::ALL.into_iter().zip(state.runs) {
                f.u64(&[&state.check, result.word()], count);
            }
        }
    });
}
